//! `foveate extract`: every frame of a clip through the stages, into NumPy arrays. No daemon, no drops.
//!
//! It runs the daemon's engine with memory as the sink: the arrays hold the same bytes that a ring would.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::npy::NpyWriter;
use super::segment::SegmentFacts;
use super::snap::make_directory;
use super::{ToolError, stop_on_signals};
use foveate_capture::mailbox::Taken;
use foveate_capture::{CapturedFrame, Colorimetry, End, Source, SourceSpec};
use foveate_config::{Config, Pace, SourceChoice, StreamConfig};
use foveate_core::camera::Camera;
use foveate_core::color::ColorMatrix;
use foveate_core::frame::{FrameKind, FrameStamp, FrameTime};
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::plane::CHANNELS;
use foveate_core::token::DType;
use foveate_core::view::ViewSpec;
use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::backend::{Backend, BackendError};
use foveate_engine::pool::Pool;
use foveate_engine::{Engine, Memory, View};
use foveate_ring::abi::{FixationBlock, fixation_blocks};
use foveate_ring::{FrameHead, PlaneInfo, SegmentInfo, SegmentSpec, TokenFrameBuf, TokenRecord};
use foveate_stats::StreamCounters;

/// Interval of progress updates while the decoder is silent.
const TURN: Duration = Duration::from_millis(200);

/// A decoder that is silent for this many turns counts as hung.
const SILENT_TURNS_MAX: u32 = 150;

/// Arguments of `foveate extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "docs/extract.md describes the arrays.")]
pub struct Arguments {
    /// The file to play, a folder of pictures, or an http:// or https:// address
    #[arg(value_name = "CLIP", required_unless_present = "pipeline")]
    clip: Option<PathBuf>,
    /// Plays this gst-launch description instead; it ends in `appsink name=frames`
    #[arg(long, value_name = "TEXT", conflicts_with = "clip")]
    pipeline: Option<String>,
    /// Use the views, the backend, `max_fps` and `orientation` of this file's first stream; each view gets every frame, whatever
    /// its `max_fps` and `publish` [default: view `main` with the daemon's defaults]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ends after this many frames
    #[arg(long, value_name = "COUNT")]
    frames: Option<NonZeroU64>,
    /// Leaves out the frames before this time of the clip; they are decoded, and keep their numbers
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    start: Duration,
    /// Scales the pictures of a folder to the size of the first; otherwise one of another size is an error
    #[arg(long)]
    scale: bool,
    /// Directory for the arrays, one folder for each view: frames.npy, tokens.npy, and one for each plane, pixels.npy
    /// and relevance.npy; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a time in seconds, such as 1.5".to_owned())
}

/// Plays the clip into arrays, and prints their folders to `out`.
pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let config = stream_config(arguments)?;
    let counters = Arc::new(StreamCounters::default());
    let backends = Backends::new(Arc::new(Pool::of_threads(None)));
    let chosen = backends.choose(config.backend, config.device.as_deref())?;
    let chosen = chosen.with_change_on(config.change.on)?;
    let specs = config.views.iter().map(ViewSpec::try_from).collect::<Result<Vec<_>, _>>()?;
    let camera = config.camera.as_ref().map(|camera| camera.load(&config.name)).transpose()?;
    let source = Source::open(&SourceSpec::from(&config), &counters)?;

    let folders = config.views.iter().map(|view| arguments.out.join(&view.name));
    let extractions = folders.map(Extraction::new).collect::<Result<Vec<_>, _>>()?;
    let mut player = Player {
        config,
        chosen,
        specs,
        camera,
        engine: None,
        colorimetry: None,
        views: Vec::new(),
        extractions,
    };
    let played = play(source, &mut player, arguments);
    // The frames before a failure are kept.
    let mut finished = Ok(());
    for extraction in player.extractions {
        finished = finished.and(extraction.finish(out));
    }
    played.and(finished)
}

/// The engine, and the arrays that it fills.
struct Player {
    config: StreamConfig,
    chosen: StreamBackend,
    specs: Vec<ViewSpec>,
    camera: Option<Camera>,
    /// `None` until the first frame.
    engine: Option<Engine>,
    /// Of the frames of the engine.
    colorimetry: Option<Colorimetry>,
    views: Vec<View<Memory>>,
    /// One for each view.
    extractions: Vec<Extraction>,
}

impl Player {
    /// Takes one frame through the stages, and appends it to the arrays.
    fn take(&mut self, captured: &CapturedFrame) -> Result<(), ToolError> {
        // Never fails: a source checks its frames.
        let frame = &captured.view().map_err(|error| ToolError::Clip(error.to_string()))?;
        let stamp = &captured.stamp();
        self.colorimetry = Some(captured.colorimetry());
        if self.engine.as_ref().is_none_or(|engine| engine.kind() != frame.kind()) {
            self.rebuild(frame.kind(), stamp)?;
        }
        let Self { chosen, engine: Some(engine), views, extractions, .. } = self else {
            unreachable!("built for the first frame");
        };
        if let Err(error) = engine.step(frame, stamp, views) {
            let _remains =
                engine.recover(cpu_instead(chosen, &error, frame.kind()), frame, stamp, views)?;
        }
        extractions
            .iter_mut()
            .zip(views)
            .try_for_each(|(extraction, view)| extraction.push(view.sink.frame()))
    }

    /// Builds the engine and the views for frames of `kind`.
    fn rebuild(&mut self, kind: FrameKind, stamp: &FrameStamp) -> Result<(), ToolError> {
        let generation = self.engine.take().map_or(0, |engine| engine.generation()) + 1;
        let backend = self.chosen.build(kind)?;
        let engine = match self.build(backend, generation, stamp) {
            Err(error) => {
                let backend = cpu_instead(&mut self.chosen, &error, kind);
                self.build(backend, generation + 1, stamp)?
            }
            Ok(engine) => engine,
        };
        for ((extraction, spec), view) in
            self.extractions.iter_mut().zip(&self.specs).zip(&self.config.views)
        {
            let segment =
                SegmentSpec::of(spec, &self.config.name, &view.name, kind, self.chosen.info());
            let segment = SegmentSpec {
                slot_count: view.slots as usize,
                camera: self.camera.as_ref().map(|camera| camera.facts(kind.extent)),
                ..segment
            };
            extraction.begin(&segment, self.colorimetry)?;
        }
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
        let engine = Engine::new(backend, self.config.change.config, generation);
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

fn stream_config(arguments: &Arguments) -> Result<StreamConfig, ToolError> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::default()), Config::load)?;
    let stream = config.streams.into_iter().next().unwrap_or_default();
    foveate_log::redact::Masked::new(&stream.secrets).for_good();
    let source = match (&arguments.pipeline, &arguments.clip) {
        (Some(pipeline), _) => SourceChoice::Pipeline(pipeline.clone()),
        (None, clip) => {
            SourceChoice::Shorthand(clip_source(clip.as_deref().unwrap_or(Path::new(""))))
        }
    };
    // Parameters belong to the configuration's own source.
    let (pace, parameters) = (Pace::EveryFrame, BTreeMap::new());
    let scale_pictures = arguments.scale || stream.scale_pictures;
    Ok(StreamConfig { source, pace, parameters, scale_pictures, looped: false, ..stream })
}

/// The absolute path, so that a file named `test` is a file. A URI is kept: with one slash less, its credentials would
/// not be recognised.
pub(super) fn clip_source(clip: &Path) -> String {
    let text = clip.to_string_lossy();
    if text.contains("://") {
        return text.into_owned();
    }
    std::path::absolute(clip).map_or(text.into_owned(), |path| path.to_string_lossy().into_owned())
}

/// Takes the frames of `source` that were asked for through the stages.
fn play(mut source: Source, player: &mut Player, arguments: &Arguments) -> Result<(), ToolError> {
    let stop = stop_on_signals()?;
    let progress = progress_bar(&source);
    let mut left = arguments.frames.map_or(u64::MAX, NonZeroU64::get);
    let mut silent_turns = 0;
    while !stop.load(Ordering::Relaxed) && 0 < left {
        match source.take(TURN) {
            Taken::Frame(frame) => {
                silent_turns = 0;
                let time_ns = frame.stamp().pts_ns;
                if time_ns.is_none_or(|ns| arguments.start <= Duration::from_nanos(ns)) {
                    player.take(&frame)?;
                    left -= 1;
                }
                advance(&progress, time_ns);
            }
            Taken::Ended(End::Eos) => break,
            Taken::Ended(End::Failed(error)) => return Err(error.into()),
            Taken::TimedOut => {
                silent_turns += 1;
                if SILENT_TURNS_MAX < silent_turns {
                    let silence = TURN * SILENT_TURNS_MAX;
                    return Err(ToolError::Clip(format!(
                        "the decoder has been silent for {silence:?}"
                    )));
                }
                progress.tick();
            }
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(ToolError::Interrupted);
    }
    progress.finish_and_clear();
    Ok(())
}

/// Seconds of the clip played, and its duration if known; hidden if standard error is not a terminal.
fn progress_bar(source: &Source) -> ProgressBar {
    const TEMPLATES: &str = "templates are checked by the tests that run this";
    let Some(duration) = source.duration() else {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect(TEMPLATES);
        return ProgressBar::new_spinner().with_style(style);
    };
    let style =
        ProgressStyle::with_template("{wide_bar} {percent} % {eta} left {msg}").expect(TEMPLATES);
    ProgressBar::new(millis(duration)).with_style(style)
}

fn advance(progress: &ProgressBar, pts_ns: Option<u64>) {
    if let Some(pts_ns) = pts_ns {
        let position = Duration::from_nanos(pts_ns);
        progress.set_position(millis(position));
        progress.set_message(format!("at {:.1} s", position.as_secs_f64()));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The arrays of one view.
struct Extraction {
    folder: PathBuf,
    /// `None` until the first frame.
    arrays: Option<Arrays>,
    /// Shape of the plane of channels, if there is one.
    channel_grid: Option<Vec<u32>>,
    /// The content of `segments.json`.
    segments: Vec<ExtractedSegment>,
}

/// An element of `segments.json`.
#[derive(Debug, Serialize)]
struct ExtractedSegment {
    #[serde(flatten)]
    segment: SegmentFacts,
    color: Option<ColorFacts>,
}

/// How samples became RGB.
#[derive(Debug, Serialize)]
struct ColorFacts {
    /// `null` for RGB.
    matrix: Option<&'static str>,
    range: &'static str,
    /// Which of these the clip does not say.
    assumed: Vec<&'static str>,
}

impl From<Colorimetry> for ColorFacts {
    fn from(colorimetry: Colorimetry) -> Self {
        Self {
            matrix: colorimetry.matrix.map(ColorMatrix::name),
            range: colorimetry.range.name(),
            assumed: colorimetry.assumed(),
        }
    }
}

/// The arrays to which each frame adds a row.
struct Arrays {
    frames: NpyWriter,
    tokens: TokenArray,
    /// Named after the planes of the ring.
    planes: Vec<TokenArray>,
}

/// An array with an item for each token in a row.
struct TokenArray {
    rows: NpyWriter,
    /// Zeros to fill up a row.
    no_tokens: Vec<u8>,
}

/// One row of `frames.npy`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct FrameRow {
    frame_seq: u64,
    pts_ns: u64,
    capture_ns: u64,
    capture_unix_ns: u64,
    arrival_ns: u64,
    publish_ns: u64,
    fixations: [FixationBlock; FOVEAE_MAX],
    fixation_count: u32,
    capture_clock: u32,
    has_pts: u32,
    sample_bound: u32,
    rgb_bound: u32,
    dirty_tiles: u32,
    tile_count: u32,
    token_count: u32,
    segment: u32,
    reserved: u32,
    channels_frame: u64,
}

/// [`FrameRow`] as a NumPy dtype.
const FRAME_DTYPE: &str = "[('frame_seq', '<u8'), ('pts_ns', '<u8'), ('capture_ns', '<u8'), \
    ('capture_unix_ns', '<u8'), ('arrival_ns', '<u8'), ('publish_ns', '<u8'), \
    ('fixations', [('id', '<u8'), ('x', '<f8'), ('y', '<f8'), ('since_frame', '<u8'), ('weight', '<f4'), \
    ('reason', '<u4')], (8,)), ('fixation_count', '<u4'), \
    ('capture_clock', '<u4'), ('has_pts', '<u4'), ('sample_bound', '<u4'), ('rgb_bound', '<u4'), \
    ('dirty_tiles', '<u4'), ('tile_count', '<u4'), ('token_count', '<u4'), ('segment', '<u4'), \
    ('reserved', '<u4'), ('channels_frame', '<u8')]";

/// [`TokenRecord`] as a NumPy dtype.
const RECORD_DTYPE: &str = "[('changed_frame', '<u8'), ('x0', '<u4'), ('y0', '<u4'), ('x1', '<u4'), ('y1', '<u4'), \
    ('x', '<i4'), ('y', '<i4'), ('sx', '<u2'), ('sy', '<u2'), ('size', '<u2'), ('group', '<u2'), \
    ('first_column', '<u2'), ('columns', '<u2'), ('first_row', '<u2'), ('rows', '<u2'), ('fovea', '<u2'), \
    ('reserved', '<u2'), ('relevance', '<f4')]";

impl Extraction {
    fn new(folder: PathBuf) -> Result<Self, ToolError> {
        make_directory(&folder)?;
        Ok(Self { folder, arrays: None, channel_grid: None, segments: Vec::new() })
    }

    /// Starts the frames of `segment`.
    fn begin(
        &mut self,
        segment: &SegmentSpec,
        colorimetry: Option<Colorimetry>,
    ) -> Result<(), ToolError> {
        let info = SegmentInfo::of(segment)?;
        let grid = info.plane_index(CHANNELS).map(|index| info.planes[index].shape.clone());
        if self.arrays.is_some() && self.channel_grid != grid {
            return Err(ToolError::Clip(format!(
                "the pictures become {} pixels large, and their channels do not fit the array of those before: extract each size by itself, or leave `channels` out of the view",
                info.extent
            )));
        }
        self.channel_grid = grid;
        if self.arrays.is_none() {
            self.arrays = Some(Arrays::create(&self.folder, &info)?);
        }
        self.segments.push(ExtractedSegment {
            segment: SegmentFacts::from(&info),
            color: colorimetry.map(ColorFacts::from),
        });
        Ok(())
    }

    /// Appends a frame.
    fn push(&mut self, frame: &TokenFrameBuf) -> Result<(), ToolError> {
        let Some(arrays) = &mut self.arrays else { return Ok(()) };
        arrays.push(&frame_row(frame, self.segments.len() - 1), frame)
    }

    /// Completes the arrays, and prints their folder to `out`.
    fn finish(self, out: &mut dyn Write) -> Result<(), ToolError> {
        let frame_count = self.arrays.map_or(Ok(0), Arrays::finish)?;
        let path = self.folder.join("segments.json");
        let text = serde_json::to_vec_pretty(&self.segments).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text))
            .map_err(|source| ToolError::File { path, source })?;
        writeln!(out, "{}: {frame_count} frames", self.folder.display()).map_err(ToolError::Output)
    }
}

impl Arrays {
    fn create(folder: &Path, segment: &SegmentInfo) -> Result<Self, ToolError> {
        let create = |name: &str, dtype: &str, row_shape: &[usize]| {
            let path = folder.join(format!("{name}.npy"));
            NpyWriter::create(&path, dtype, row_shape)
                .map_err(|source| ToolError::File { path, source })
        };
        let records_bytes = segment.capacity * size_of::<TokenRecord>();
        let plane = |plane: &PlaneInfo| {
            let dtype = match plane.dtype {
                DType::U8 => "'|u1'",
                DType::F16 => "'<f2'",
                // NumPy has no bfloat16: stored as bits.
                DType::Bf16 => "'<u2'",
                DType::F32 => "'<f4'",
            };
            let row_shape: Vec<_> = plane.shape.iter().map(|&side| side as usize).collect();
            create(&plane.name, dtype, &row_shape).map(|rows| TokenArray::of(rows, plane.bytes))
        };
        Ok(Self {
            frames: create("frames", FRAME_DTYPE, &[])?,
            tokens: TokenArray::of(
                create("tokens", RECORD_DTYPE, &[segment.capacity])?,
                records_bytes,
            ),
            planes: segment.planes.iter().map(plane).collect::<Result<_, _>>()?,
        })
    }

    /// Appends one frame; missing tokens are 0.
    fn push(&mut self, row: &FrameRow, frame: &TokenFrameBuf) -> Result<(), ToolError> {
        push(&mut self.frames, &[bytemuck::bytes_of(row)])?;
        self.tokens.push(bytemuck::cast_slice(&frame.records))?;
        let mut planes = self.planes.iter_mut().enumerate();
        planes.try_for_each(|(index, plane)| plane.push(frame.plane(index)))
    }

    fn finish(self) -> Result<usize, ToolError> {
        let frame_count = self.frames.rows();
        let of_tokens = std::iter::once(self.tokens).chain(self.planes).map(|array| array.rows);
        for array in std::iter::once(self.frames).chain(of_tokens) {
            let path = array.path().to_owned();
            array.finish().map_err(|source| ToolError::File { path, source })?;
        }
        Ok(frame_count)
    }
}

impl TokenArray {
    /// An array whose rows have at most `row_bytes` bytes.
    fn of(rows: NpyWriter, row_bytes: usize) -> Self {
        Self { rows, no_tokens: vec![0; row_bytes] }
    }

    fn push(&mut self, items: &[u8]) -> Result<(), ToolError> {
        push(&mut self.rows, &[items, &self.no_tokens[items.len()..]])
    }
}

fn push(array: &mut NpyWriter, parts: &[&[u8]]) -> Result<(), ToolError> {
    array.push(parts).map_err(|source| ToolError::File { path: array.path().to_owned(), source })
}

#[expect(clippy::cast_possible_truncation, reason = "tokens and segments are fewer than 2^32")]
fn frame_row(frame: &TokenFrameBuf, segment: usize) -> FrameRow {
    let FrameHead { stamp, publish_ns, sample_bound, rgb_bound, dirty_tiles, tile_count, .. } =
        frame.head;
    let fixations = &frame.head.fixations;
    FrameRow {
        frame_seq: stamp.frame_seq,
        pts_ns: stamp.pts_ns.unwrap_or(0),
        capture_ns: stamp.capture_ns,
        capture_unix_ns: stamp.capture_unix_ns,
        arrival_ns: stamp.arrival_ns,
        publish_ns,
        fixations: fixation_blocks(fixations),
        fixation_count: fixations.len() as u32,
        capture_clock: stamp.capture_clock.code(),
        has_pts: stamp.pts_ns.is_some().into(),
        sample_bound,
        rgb_bound,
        dirty_tiles,
        tile_count,
        token_count: frame.records.len() as u32,
        segment: segment as u32,
        reserved: 0,
        channels_frame: frame.head.channels_frame,
    }
}
