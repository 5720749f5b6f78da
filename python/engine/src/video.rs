//! Clips and cameras, frame by frame.

use std::time::Duration;

use foveate_config::{Pace, SourceChoice, SourceSpec, StreamConfig, ViewConfig};
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::error::chain;
use foveate_core::frame::FrameStamp;
use foveate_core::gray::GrayRange;
use foveate_player::{Player, PlayerError, PlayerStep, clip_source, is_played_from};
use pyo3::prelude::*;

use crate::engine::{Engine, Info, info_of};
use crate::errors::{EngineError, backend_error};
use crate::owned::Owned;
use crate::picture::{GrayArgument, scaling_of};
use crate::pyramid::{Arrays, arrays_of};
use crate::spec::Spec;

/// A clip that is being played.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Video {
    player: Owned<Player>,
}

/// A frame: its number and time, width and height, where was looked, tiles that changed and those in all, bounds of the tokens'
/// error, the tokens, and the samples of 16-bit gray that became black and white.
type Frame<'py> = (
    (u64, Option<u64>),
    (u32, u32),
    Vec<(f64, f64)>,
    (u32, u32),
    (u32, u32),
    Arrays<'py>,
    Option<[u16; 2]>,
);

/// What a view of a clip is called.
const VIEW: &str = "main";

#[pymethods]
impl Video {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        engine: &Engine,
        source: String,
        is_pipeline: bool,
        spec: &Spec,
        threshold: Option<u8>,
        by_source: bool,
        max_pixels: u32,
        background: [u8; 3],
        gray_range: Option<GrayArgument>,
    ) -> PyResult<Self> {
        let limit = Threshold::LIMIT_DEFAULT;
        let threshold = match threshold {
            _ if by_source => Threshold::BySource { limit },
            Some(steps) => Threshold::Fixed(steps),
            None => Threshold::Auto { limit },
        };
        let capture = SourceSpec {
            source: if is_pipeline {
                SourceChoice::Pipeline(source)
            } else {
                SourceChoice::Shorthand(clip_source(source.as_ref()))
            },
            pace: Pace::EveryFrame,
            max_pixels,
            background,
            gray_range: scaling_of(gray_range)?,
            ..SourceSpec::default()
        };
        let mut config = StreamConfig {
            capture,
            views: vec![ViewConfig { name: VIEW.to_owned(), ..spec.config.clone() }],
            ..StreamConfig::default()
        };
        config.change.config = ChangeConfig { threshold, ..ChangeConfig::default() };
        let chosen = engine.chosen()?;
        let player = py.detach(|| Player::open(config, chosen)).map_err(|error| failed(&error))?;
        Ok(Self { player: Owned::new("video", player) })
    }

    /// Duration in seconds, if it is known.
    #[getter]
    fn duration(&self) -> PyResult<Option<f64>> {
        self.player.with(|player| Ok(player.duration().map(|duration| duration.as_secs_f64())))
    }

    /// The next frame from `start_ns` of the clip on; `None` at its end.
    fn next_frame<'py>(&self, py: Python<'py>, start_ns: u64) -> PyResult<Option<Frame<'py>>> {
        loop {
            let played = py.detach(|| {
                self.player.with(|player| {
                    let start = Duration::from_nanos(start_ns);
                    let wants = |stamp: &FrameStamp| is_played_from(start, stamp.pts_ns);
                    player.next(wants).map_err(|error| failed(&error))
                })
            })?;
            match played {
                PlayerStep::Frame(_) => {
                    return self.player.with(|player| Ok(frame_of(py, player)));
                }
                PlayerStep::Ended => return Ok(None),
                // Ctrl-C ends the wait.
                PlayerStep::Skipped(_) | PlayerStep::Nothing => py.check_signals()?,
            }
        }
    }

    /// The clip's facts, with the keys of `Engine.info`.
    fn info(&self, py: Python<'_>) -> PyResult<Info> {
        py.detach(|| self.player.with(|player| Ok(info_of(player.backend().info()))))
    }

    /// Stops the decoder.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.player.close())
    }
}

fn frame_of<'py>(py: Python<'py>, player: &Player) -> Option<Frame<'py>> {
    let (view, kind) = (player.views().first()?, player.kind()?);
    let frame = view.sink.frame();
    let head = &frame.head;
    Some((
        (head.stamp.frame_seq, head.stamp.pts_ns),
        (kind.extent.width, kind.extent.height),
        head.fixations.iter().map(|fixation| (fixation.x, fixation.y)).collect(),
        (head.dirty_tiles, head.tile_count),
        (head.sample_bound, head.rgb_bound),
        arrays_of(py, frame.pixels.clone(), &frame.records),
        player.facts().gray_range.map(GrayRange::bounds),
    ))
}

fn failed(error: &PlayerError) -> PyErr {
    match error {
        PlayerError::Backend(error) => backend_error(error),
        error => EngineError::new_err(chain(error)),
    }
}
