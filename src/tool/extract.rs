//! `foveate extract`: every frame of a clip, or every picture of a folder, through the stages, into NumPy arrays. No daemon, no
//! drops.
//!
//! It runs the daemon's engine with memory as the sink: the arrays hold the same bytes that a ring would.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use self::arrays::Extraction;
use super::{ToolError, stop_on_signals};
use foveate_config::{Config, Pace, SourceChoice, SourceSpec, StreamConfig};
use foveate_core::backend::BackendInfo;
use foveate_core::camera::Camera;
use foveate_core::depth::DepthDetail;
use foveate_core::frame::FrameKind;
use foveate_core::gray::{GrayRange, GrayScaling};
use foveate_engine::backend::choice::Backends;
use foveate_engine::pool::Pool;
use foveate_engine::segment;
use foveate_gaze::view::ViewSpec;
pub(super) use foveate_player::clip_source;
use foveate_player::{Player, PlayerStep, is_played_from};
use foveate_ring::SegmentSpec;

mod arrays;
#[cfg(feature = "pictures")]
mod pictures;

/// Arguments of `foveate extract`.
#[derive(Debug, clap::Args)]
#[command(arg = super::hidden_socket(), after_help = "docs/guide/extract.md describes the arrays.")]
pub(super) struct ExtractArguments {
    /// The file to play, a folder of pictures, or an http:// or https:// address
    #[arg(value_name = "CLIP", required_unless_present = "pipeline")]
    clip: Option<PathBuf>,
    /// Play this gst-launch description instead; it ends in `appsink name=frames`
    #[arg(long, value_name = "TEXT", conflicts_with = "clip")]
    pipeline: Option<String>,
    /// Use the views, the backend, `max_fps`, `orientation`, `corrupted`, `track`, `interlaced`, `range`, `matrix` and `gray_range` of
    /// this file's first stream; each view gets every frame, whatever its `max_fps` and `publish` [default: view `main` with the daemon's defaults]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop after this many frames
    #[arg(long, value_name = "COUNT")]
    frames: Option<NonZeroU64>,
    /// Leave out the frames before this time of the clip; they are decoded, and keep their numbers
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    start: Duration,
    /// Play the pictures of a folder, which must have one size, as a clip, one a second, each compared with the one before;
    /// otherwise each picture is sampled alone, and may have any size
    #[arg(long)]
    sequence: bool,
    /// Scale the pictures of a sequence to the size of the first; otherwise a picture of another size is an error
    #[arg(long)]
    scale: bool,
    /// Handling of unreadable files in a folder: `skip` lists them in pictures.json, `refuse` stops at the first
    #[arg(long, value_enum, value_name = "HOW", default_value = "skip")]
    unreadable: Unreadable,
    /// Most pixels of a picture in a folder; a larger one is an error of that file [default: 128000000, or `max_pixels` of the
    /// configuration]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_pixels: Option<u32>,
    /// Colour behind transparent pixels, each 0 to 255 [default: 0,0,0, which is black, or `background` of the configuration]
    #[arg(long, value_name = "R,G,B", value_parser = color)]
    background: Option<[u8; 3]>,
    /// Samples of 16-bit gray that become black and white, or `auto` for those of the first frame, or of each picture of a folder;
    /// segments.json and pictures.json have them [default: 0,65535, or `gray_range` of the configuration]
    #[arg(long, value_name = "LOW,HIGH", value_parser = gray_range)]
    gray_range: Option<GrayScaling>,
    /// Directory for the arrays, one folder for each view: frames.npy, tokens.npy, and one for each plane, pixels.npy
    /// and relevance.npy; created if missing. For a folder of pictures also pictures.json
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the arrays of an earlier extraction; without it, existing arrays are an error
    #[arg(long)]
    force: bool,
}

/// How to treat files that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unreadable {
    Skip,
    Refuse,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a time in seconds, such as 1.5".to_owned())
}

fn color(text: &str) -> Result<[u8; 3], String> {
    let bytes = text.split(',').map(|part| part.trim().parse().ok()).collect::<Option<Vec<u8>>>();
    let color = bytes.and_then(|bytes| bytes.try_into().ok());
    color.ok_or_else(|| "expected three numbers from 0 to 255, such as 255,255,255".to_owned())
}

fn gray_range(text: &str) -> Result<GrayScaling, String> {
    if text == "auto" {
        return Ok(GrayScaling::Auto);
    }
    let sample = |text: &str| text.trim().parse().ok();
    let range =
        text.split_once(',').and_then(|(low, high)| GrayRange::new(sample(low)?, sample(high)?));
    range.map(GrayScaling::Fixed).ok_or_else(|| {
        "expected `auto`, or two samples from 0 to 65535, the lower first, such as 7000,9000"
            .to_owned()
    })
}

/// Plays the clip, or reads the pictures, into arrays, and prints their folders to `out`.
pub(super) fn run(arguments: &ExtractArguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let config = stream_config(arguments)?;
    if !arguments.force {
        check_unused(arguments, &config)?;
    }
    let backends = Backends::new(Arc::new(Pool::of_threads(None)));
    let chosen = backends.choose(config.backend, config.device.as_deref())?;
    let camera = config.camera.as_ref().map(|camera| camera.load(&config.name)).transpose()?;
    let is_sequence = arguments.sequence || config.capture.scale_pictures;
    if let Some(folder) = arguments.clip.as_deref().filter(|clip| clip.is_dir() && !is_sequence) {
        #[cfg(not(feature = "pictures"))]
        return Err(ToolError::BuiltWithoutPictures(folder.to_owned()));
        #[cfg(feature = "pictures")]
        return pictures::run(arguments, folder, &config, chosen, camera.as_ref(), out);
    }
    let mut player = Player::open(config.clone(), chosen)?;
    let mut extractions = extractions(arguments, &config)?;
    let played = play(&mut player, arguments, |player| {
        for (index, extraction) in extractions.iter_mut().enumerate() {
            let kind = player.kind().expect("a frame was played");
            let picture = player.facts();
            extraction.select((kind, picture), || {
                let (spec, info) = (&player.specs()[index], player.backend().info());
                let segment = segment_of(&config, index, spec, kind, info, camera.as_ref());
                SegmentSpec { picture, ..segment }
            })?;
            extraction.push(player.views()[index].sink.frame())?;
        }
        Ok(())
    });
    // The frames before a failure are kept.
    played.and(finish(extractions, out))
}

/// Checks that there are no files where arrays would be written.
fn check_unused(arguments: &ExtractArguments, config: &StreamConfig) -> Result<(), ToolError> {
    let has_entries =
        |path: &Path| path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    let folders = config.views.iter().map(|view| arguments.out.join(&view.name));
    let pictures = Some(arguments.out.join("pictures.json")).filter(|path| path.exists());
    match folders.filter(|path| has_entries(path)).chain(pictures).next() {
        None => Ok(()),
        Some(present) => Err(ToolError::Usage(format!(
            "{} exists already: choose another --out, or replace it with --force",
            present.display()
        ))),
    }
}

/// The arrays of each view.
fn extractions(
    arguments: &ExtractArguments,
    config: &StreamConfig,
) -> Result<Vec<Extraction>, ToolError> {
    let folders = config.views.iter().map(|view| arguments.out.join(&view.name));
    folders.map(Extraction::new).collect()
}

/// Completes the arrays.
fn finish(extractions: Vec<Extraction>, out: &mut dyn Write) -> Result<(), ToolError> {
    let mut finished = Ok(());
    for extraction in extractions {
        finished = finished.and(extraction.finish(out));
    }
    finished
}

/// The segment that the daemon would have made for view `index` and frames of `kind`.
fn segment_of(
    config: &StreamConfig,
    index: usize,
    spec: &ViewSpec,
    kind: FrameKind,
    info: &BackendInfo,
    camera: Option<&Camera>,
) -> SegmentSpec {
    let view = &config.views[index];
    SegmentSpec {
        slot_count: view.slot_count(),
        camera: camera.map(|camera| camera.facts(kind.extent)),
        ..segment::segment_of(spec, &config.name, &view.name, kind, info)
    }
}

fn stream_config(arguments: &ExtractArguments) -> Result<StreamConfig, ToolError> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::default()), Config::load)?;
    let stream = config.streams.into_iter().next().unwrap_or_default();
    foveate_log::redact::SecretMask::new(&stream.secrets).for_good();
    let source = match (&arguments.pipeline, &arguments.clip) {
        (Some(pipeline), _) => SourceChoice::Pipeline(pipeline.clone()),
        (None, clip) => {
            SourceChoice::Shorthand(clip_source(clip.as_deref().unwrap_or(Path::new(""))))
        }
    };
    // Parameters, and whether it is live, belong to the configuration's own source.
    let (pace, parameters, live) = (Pace::EveryFrame, BTreeMap::new(), None);
    let capture = stream.capture;
    let capture = SourceSpec {
        source,
        pace,
        parameters,
        live,
        scale_pictures: arguments.scale || capture.scale_pictures,
        max_pixels: arguments.max_pixels.unwrap_or(capture.max_pixels),
        background: arguments.background.unwrap_or(capture.background),
        gray_range: arguments.gray_range.or(capture.gray_range),
        looped: false,
        ..capture
    };
    let mut stream = StreamConfig { capture, depth: None, ..stream };
    // Depth belongs to the configuration's own source, too.
    for view in &mut stream.views {
        if view.depth != DepthDetail::None || view.boxes {
            tracing::warn!(view = view.name, "skipping depth and boxes in space: a clip has none");
        }
        (view.depth, view.boxes) = (DepthDetail::None, false);
    }
    Ok(stream)
}

/// Takes the frames that were asked for through the stages, and gives each to `push`.
fn play(
    player: &mut Player,
    arguments: &ExtractArguments,
    mut push: impl FnMut(&Player) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let stop = stop_on_signals()?;
    let progress = progress_bar(player.duration());
    let most = arguments.frames.map_or(u64::MAX, NonZeroU64::get);
    let mut left = most;
    while !stop.load(Ordering::Relaxed) && 0 < left {
        match player.next(|stamp| is_played_from(arguments.start, stamp.pts_ns))? {
            PlayerStep::Frame(stamp) => {
                push(player)?;
                left -= 1;
                advance(&progress, stamp.pts_ns);
            }
            PlayerStep::Skipped(stamp) => advance(&progress, stamp.pts_ns),
            PlayerStep::Nothing => progress.tick(),
            PlayerStep::Ended => break,
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(ToolError::Interrupted);
    }
    progress.finish_and_clear();
    if left == most {
        tracing::warn!(start = ?arguments.start, "no frame from --start on: the clip ends before");
    }
    Ok(())
}

/// Seconds of the clip played, and its duration if known; hidden if standard error is not a terminal.
fn progress_bar(duration: Option<Duration>) -> ProgressBar {
    const TEMPLATES: &str = "templates are checked by the tests that run this";
    let Some(duration) = duration else {
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
