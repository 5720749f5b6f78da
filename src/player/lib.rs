//! Plays clips through the engine frame by frame, as the daemon does, but without a daemon, a ring or drops.
//!
//! [`Player`] opens a source, takes its frames in order and leaves the tokens of each view in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foveate_capture::{
    CaptureError, CapturedFrame, End, Isolation, Source, SourceSpec, TakeResult, warn_of_picture,
};
use foveate_config::StreamConfig;
use foveate_core::frame::{FrameKind, FrameStamp, FrameTime};
use foveate_core::pixel::PixelFacts;
use foveate_engine::backend::choice::StreamBackend;
use foveate_engine::backend::{Backend, BackendError};
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::PolicyFileError;
use foveate_gaze::view::ViewSpec;
use foveate_stats::StreamCounters;

/// Longest wait for a frame within [`Player::next`].
const TURN: Duration = Duration::from_millis(200);

/// A decoder that is silent for this many turns counts as hung.
const SILENT_TURNS_MAX: u32 = 150;

/// Why a source cannot be played, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayerError {
    /// The source cannot be opened, or fails.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A file that a view's policy names cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    /// The backend is unavailable, or the fallback to the CPU failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// No frame comes.
    #[error("cannot play the clip: no frame from the decoder for {0:?}")]
    Silent(Duration),
}

/// Time that a frame may be before the start that was asked for: programs print times in whole microseconds, which may be rounded up.
const START_TOLERANCE: Duration = Duration::from_micros(1);

/// Whether a frame at this time of the clip is played from `start` on. One without a time is.
pub fn is_played_from(start: Duration, pts_ns: Option<u64>) -> bool {
    pts_ns.is_none_or(|ns| start <= Duration::from_nanos(ns) + START_TOLERANCE)
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerStep {
    /// A frame was taken through the stages: its tokens are in the views.
    Frame(FrameStamp),
    /// A frame was left out.
    Skipped(FrameStamp),
    /// No frame arrived within a moment.
    Nothing,
    /// The source has ended.
    Ended,
}

/// A source, and the engine that its frames go through.
#[derive(Debug)]
pub struct Player {
    source: Source,
    config: StreamConfig,
    chosen: StreamBackend,
    specs: Vec<ViewSpec>,
    /// `None` until the first frame.
    engine: Option<Engine>,
    /// Pixel facts of the newest frame; `None` before the first.
    facts: Option<PixelFacts>,
    views: Vec<View<Memory>>,
    silent_turns: u32,
}

impl Player {
    /// Opens the source of `config` for its views. The pace and the rates of the configuration count as they are.
    ///
    /// # Errors
    ///
    /// If the source cannot be opened, or a view names a file that cannot be used.
    pub fn open(config: StreamConfig, chosen: StreamBackend) -> Result<Self, PlayerError> {
        let chosen = chosen.with_change_on(config.change.on)?;
        let specs = config.views.iter().map(ViewSpec::try_from).collect::<Result<_, _>>()?;
        // The caller has chosen to run the decoders in its own process.
        let spec = SourceSpec { isolation: Isolation::None, ..config.source() };
        let source = Source::open(&spec, &Arc::<StreamCounters>::default())?;
        Ok(Self {
            source,
            config,
            chosen,
            specs,
            engine: None,
            facts: None,
            views: Vec::new(),
            silent_turns: 0,
        })
    }

    /// Duration of the clip, if it is known.
    pub fn duration(&self) -> Option<Duration> {
        self.source.duration()
    }

    /// The backend in use.
    pub fn backend(&self) -> &StreamBackend {
        &self.chosen
    }

    /// Specifications of the views.
    pub fn specs(&self) -> &[ViewSpec] {
        &self.specs
    }

    /// Pixel aspect ratio and colour of the newest picture.
    pub fn facts(&self) -> PixelFacts {
        self.facts.unwrap_or_default()
    }

    /// Format, colour and extent that all frames share; `None` before the first.
    pub fn kind(&self) -> Option<FrameKind> {
        self.engine.as_ref().map(Engine::kind)
    }

    /// The views with the tokens of the newest frame.
    pub fn views(&self) -> &[View<Memory>] {
        &self.views
    }

    /// Takes the next frame through the stages if `wants` it; returns after a moment without one.
    ///
    /// # Errors
    ///
    /// If the source or the backend fails, or no frame comes for long.
    pub fn next(
        &mut self,
        wants: impl FnOnce(&FrameStamp) -> bool,
    ) -> Result<PlayerStep, PlayerError> {
        match self.source.next_frame(TURN) {
            TakeResult::Frame(frame) => {
                self.silent_turns = 0;
                let stamp = frame.stamp();
                if !wants(&stamp) {
                    return Ok(PlayerStep::Skipped(stamp));
                }
                self.process(&frame)?;
                Ok(PlayerStep::Frame(stamp))
            }
            TakeResult::Ended(End::Eos) => Ok(PlayerStep::Ended),
            TakeResult::Ended(End::Failed(error)) => Err(error.into()),
            TakeResult::TimedOut => {
                self.silent_turns += 1;
                if SILENT_TURNS_MAX < self.silent_turns {
                    return Err(PlayerError::Silent(TURN * SILENT_TURNS_MAX));
                }
                Ok(PlayerStep::Nothing)
            }
        }
    }

    /// Takes a frame through the stages.
    fn process(&mut self, captured: &CapturedFrame) -> Result<(), PlayerError> {
        let frame = &captured.view().expect("a source checks its frames");
        let stamp = &captured.stamp();
        let facts = captured.facts();
        if self.facts.replace(facts) != Some(facts) {
            warn_of_picture(&self.config.name, &facts);
        }
        if self.kind() != Some(frame.kind()) {
            self.rebuild(frame.kind(), stamp)?;
        }
        let Self { chosen, engine: Some(engine), views, .. } = self else {
            unreachable!("built for the first frame");
        };
        if let Err(error) = engine.step(frame, stamp, views) {
            let _remains =
                engine.recover(cpu_instead(chosen, &error, frame.kind()), frame, stamp, views)?;
        }
        Ok(())
    }

    /// Builds the engine and the views for frames of `kind`.
    fn rebuild(&mut self, kind: FrameKind, stamp: &FrameStamp) -> Result<(), BackendError> {
        let generation = self.engine.take().map_or(0, |engine| engine.generation()) + 1;
        let backend = self.chosen.build(kind)?;
        let engine = match self.build(backend, generation, stamp) {
            Err(error) => {
                let backend = cpu_instead(&mut self.chosen, &error, kind);
                self.build(backend, generation + 1, stamp)?
            }
            Ok(engine) => engine,
        };
        self.engine = Some(engine);
        Ok(())
    }

    /// The engine on this backend, and its views.
    fn build(
        &mut self,
        backend: Box<dyn Backend>,
        generation: u64,
        stamp: &FrameStamp,
    ) -> Result<Engine, BackendError> {
        let change = self.config.change.config.for_source(self.source.is_exact());
        let engine = Engine::new(backend, change, generation);
        let builder = engine.view_builder();
        if self.views.is_empty() {
            let view = |spec: &ViewSpec| builder.build(spec.clone(), Memory::default());
            self.views = self.specs.iter().map(view).collect::<Result<_, _>>()?;
        } else {
            let at = FrameTime::of(stamp);
            self.views.iter_mut().try_for_each(|view| builder.rebuild(view, at))?;
        }
        Ok(engine)
    }
}

/// The CPU, because the GPU failed with `error`.
fn cpu_instead(
    chosen: &mut StreamBackend,
    error: &BackendError,
    kind: FrameKind,
) -> Box<dyn Backend> {
    chosen.fall_back(error);
    tracing::warn!(reason = chosen.info().reason, "continuing on the CPU");
    chosen.build_on_cpu(kind)
}

/// The source of a clip: the absolute path, so that a file named `test` is a file. A URI is kept: with one slash less, its
/// credentials would not be recognised.
pub fn clip_source(clip: &Path) -> String {
    let text = clip.to_string_lossy();
    if text.contains("://") {
        return text.into_owned();
    }
    std::path::absolute(clip).map_or(text.into_owned(), |path| path.to_string_lossy().into_owned())
}
