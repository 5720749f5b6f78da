//! `foveate bench`: the cost of a frame, stage by stage, from memory to published token frames.
//!
//! Frames are loaded first, then run through the daemon's engine into rings in shared memory (or `--sink memory`). Needs no
//! daemon or camera; GStreamer only for some clips. `foveate bench ring` measures what follows: from the ring to a reader.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::Serialize;

use self::frames::{Frames, frame_bytes, kind_of};
use self::report::{
    Bandwidth, ByteFacts, FrameReport, PlayedFrames, Quantiles, TileFacts, TokenFacts, ViewFacts,
    stages_of,
};
use self::session::{BenchSession, Measurements, SinkChoice};
use super::{ToolError, write_json_line};
use foveate_config::ViewConfig;
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::error::chain;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::token::{DType, is_patch_side};
use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::pool::Pool;
use foveate_engine::simd::Instructions;
use foveate_gaze::controller::Policy;
use foveate_gaze::view::{DEFAULT_BUDGET, VIEWS_MAX};

mod batch;
mod clip;
#[cfg(feature = "gst")]
mod decode;
mod dump;
mod eviction;
mod frames;
#[cfg(feature = "vulkan")]
mod link;
mod report;
#[cfg(feature = "gst")]
mod ring;
mod scene;
mod session;

/// Arguments of `foveate bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BenchArguments {
    #[command(subcommand)]
    part: Option<BenchPart>,
    /// Size of the frames [default: 1920x1080]
    #[arg(long, value_name = "WxH", value_parser = extent)]
    size: Option<Extent>,
    /// Format of the frames [default: NV12]
    #[arg(long, value_parser = pixel_format, conflicts_with = "clip")]
    format: Option<PixelFormat>,
    /// Share of the tiles that changes from frame to frame, 0 to 1 [default: 0.1]
    #[arg(long, value_name = "F", value_parser = share, conflicts_with = "clip")]
    changed: Option<f64>,
    /// Play a file instead: .y4m, raw samples such as .nv12 with --size, or anything that GStreamer plays
    #[arg(long, value_name = "FILE")]
    clip: Option<PathBuf>,
    /// Backend to measure; `all` skips unavailable ones with a message
    #[arg(long, value_enum, default_value = "all")]
    backend: BackendFilter,
    /// Part of the name of the Vulkan device, such as llvmpipe
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Vector instructions of the stages on the CPU, of those that this processor has [default: the widest]
    #[arg(long, value_name = "SET", value_parser = instructions, default_value = Instructions::best().name(), hide_default_value = true)]
    instructions: Instructions,
    /// Arrangement of the tokens over the image
    #[arg(long, value_parser = LAYOUTS, default_value = "adaptive")]
    layout: String,
    /// Fixations at a time of the layout foveal, 1 to 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8), default_value_t = 1)]
    foveae: u32,
    /// Most tokens of a view, 1 to 5000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000), default_value_t = DEFAULT_BUDGET)]
    budget: u32,
    /// Number of views, 1 to 32: the first looks at the centre, the others elsewhere
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=VIEWS_MAX as i64), default_value_t = 1)]
    views: u8,
    /// Gaze policy of the views, as in a configuration [default: the default of configurations, and fixed]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    policy: Option<Policy<PathBuf, PathBuf>>,
    /// Compute the features of tiles; same as `--policy relevance`
    #[arg(long, conflicts_with = "policy")]
    features: bool,
    /// Number format of the tokens: u8, f16, bf16 or f32
    #[arg(long, value_parser = dtype, default_value = "f16")]
    dtype: DType,
    /// Side of a token in texels, even: 8 to 64, or 224 to 1024 of windows
    #[arg(long, value_name = "P", value_parser = patch_side, default_value = "16")]
    patch: u32,
    /// Differences of samples above this count as a change, 0 to 255
    #[arg(long, value_name = "N", default_value_t = 0)]
    threshold: u8,
    /// Refresh every tile within this many frames; 1 rebuilds everything in each frame
    #[arg(long, value_name = "N")]
    refresh: Option<NonZeroU32>,
    /// Find changes on the CPU (cpu) or the device (gpu), which must share the CPU's memory; auto means gpu on integrated GPUs
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(["auto", "cpu", "gpu"]).map(change_on), default_value = "auto")]
    change_on: ChangeOn,
    /// Frames to measure, 1 to 100000, after some warm-up frames; also the number read from a clip
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value_t = 300)]
    frames: u32,
    /// Measure batches of this many pictures instead, 1 to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with_all = ["dump", "views", "features", "refresh", "cold"])]
    batch: Option<u32>,
    /// Empty the caches before each frame
    #[arg(long)]
    cold: bool,
    /// Print a line of JSON for each backend
    #[arg(long)]
    json: bool,
    /// Measure once for each line of standard input, to alternate with another program
    #[arg(long)]
    each_line: bool,
    /// Destination of token frames
    #[arg(long, value_enum, default_value = "ring")]
    sink: SinkChoice,
    /// Instead of measuring, write the frames, the token plan and the tokens of one frame to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "each_line")]
    dump: Option<PathBuf>,
}

/// Measurements of their own.
#[derive(Debug, clap::Subcommand)]
enum BenchPart {
    /// Measure the rates between the CPU's memory and a Vulkan device
    #[cfg(feature = "vulkan")]
    Link {
        /// Part of the name of the Vulkan device, such as llvmpipe [default: a GPU]
        #[arg(long, value_name = "NAME")]
        device: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure the latency of token frames through the ring to readers in other processes
    #[cfg(feature = "gst")]
    Ring(ring::RingBenchArguments),
    /// Run as one of these readers
    #[command(hide = true)]
    #[cfg(feature = "gst")]
    RingReader {
        /// Way of waiting
        #[arg(long, value_enum)]
        how: ring::WaitMethod,
    },
}

/// The backends to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendFilter {
    Cpu,
    Vulkan,
    All,
}

/// Layouts of a configuration, and the presets of `rings`.
const LAYOUTS: [&str; 8] =
    ["adaptive", "foveal", "inset", "uniform", "directional", "stt172", "giava20", "windows"];

/// Measures, and writes a report to `out`.
pub(super) fn run(
    arguments: &BenchArguments,
    #[cfg_attr(
        not(feature = "gst"),
        expect(unused_variables, reason = "for what needs the daemon")
    )]
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    match &arguments.part {
        #[cfg(not(any(feature = "gst", feature = "vulkan")))]
        Some(part) => match *part {},
        #[cfg(feature = "vulkan")]
        Some(BenchPart::Link { device, json }) => link::run(device.as_deref(), *json, out),
        #[cfg(feature = "gst")]
        Some(BenchPart::Ring(arguments)) => ring::run(arguments, out),
        #[cfg(feature = "gst")]
        Some(BenchPart::RingReader { how }) => ring::reader::run(*how, socket, out),
        None => bench_frames(arguments, out),
    }
}

fn bench_frames(arguments: &BenchArguments, out: &mut dyn Write) -> Result<(), ToolError> {
    check(arguments)?;
    let frames = frames(arguments)?;
    if let Some(size) = arguments.batch {
        return batch::run(arguments, &frames, size as usize, out);
    }
    if let Some(folder) = &arguments.dump {
        let mut session = cpu_session(arguments, &frames, &policies(arguments)[0])?;
        return dump::write(folder, &frames, &mut session, view(arguments)?.format, out);
    }
    let mut sessions = sessions(arguments, &frames)?;
    repeat(arguments, || measure(arguments, &mut sessions, out))
}

/// Measures once, or with `--each-line` once for each line of standard input.
fn repeat(
    arguments: &BenchArguments,
    mut measure: impl FnMut() -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    if !arguments.each_line {
        return measure();
    }
    for line in io::stdin().lock().lines() {
        line.map_err(|source| ToolError::Unreadable { path: "standard input".into(), source })?;
        measure()?;
    }
    Ok(())
}

/// Writes a report, as a line of JSON or by `text`.
fn write_report<R: Serialize>(
    out: &mut dyn Write,
    json: bool,
    report: &R,
    text: impl FnOnce(&R, &mut dyn Write) -> io::Result<()>,
) -> Result<(), ToolError> {
    let written = if json { write_json_line(out, report) } else { text(report, out) };
    written.and_then(|()| out.flush()).map_err(ToolError::Output)
}

/// Says that Vulkan is skipped if that is why a measurement of all backends failed, or fails.
fn skip_vulkan(arguments: &BenchArguments, error: ToolError) -> Result<(), ToolError> {
    let is_absent = matches!(error, ToolError::Backend(_) | ToolError::FellBack(_));
    if !is_absent || arguments.backend != BackendFilter::All {
        return Err(error);
    }
    // Fails if standard error is closed.
    let _ = writeln!(io::stderr(), "skipping vulkan: {}", chain(&error));
    Ok(())
}

/// Checks combinations of arguments.
fn check(arguments: &BenchArguments) -> Result<(), ToolError> {
    let refused = |text: &str| Err(ToolError::Usage(text.to_owned()));
    if arguments.device.is_some() && arguments.backend == BackendFilter::Cpu {
        return refused(
            "--device names a Vulkan device and has no effect with --backend cpu: remove one of them",
        );
    }
    let foveae = arguments.foveae;
    if foveae != 1 && !["foveal", "inset"].contains(&&arguments.layout[..]) {
        return Err(ToolError::Usage(format!(
            "--foveae {foveae} needs --layout foveal or inset, not {}",
            arguments.layout
        )));
    }
    if arguments.change_on == ChangeOn::Gpu && arguments.backend == BackendFilter::Cpu {
        return refused(
            "--change-on gpu needs a Vulkan device, which --backend cpu does not use: remove one of them",
        );
    }
    Ok(())
}

/// The frames to play.
fn frames(arguments: &BenchArguments) -> Result<Frames, ToolError> {
    if let Some(path) = &arguments.clip {
        return clip::load(path, arguments.size, arguments.frames as usize);
    }
    let kind = kind_of(
        arguments.format.unwrap_or(PixelFormat::Nv12),
        arguments.size.unwrap_or(DEFAULT_EXTENT),
    );
    let tile_count = kind.extent.in_cells(TILE_SIDE).area();
    Ok(scene::alternating(kind, scene::tiles_of_share(tile_count, changed_share(arguments))))
}

const DEFAULT_EXTENT: Extent = Extent::new(1920, 1080);

fn changed_share(arguments: &BenchArguments) -> f64 {
    arguments.changed.unwrap_or(0.1)
}

/// The policies to measure: the one that was asked for, or the default, and fixed beside it.
fn policies(arguments: &BenchArguments) -> Vec<Policy<PathBuf, PathBuf>> {
    if arguments.features {
        return vec![Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 }];
    }
    if let Some(policy) = &arguments.policy {
        return vec![policy.clone()];
    }
    let mut policies = vec![Policy::default(), Policy::Fixed { x: 0.5, y: 0.5 }];
    policies.dedup();
    policies
}

/// A session for each of the requested backends and policies.
fn sessions<'a>(
    arguments: &BenchArguments,
    frames: &'a Frames,
) -> Result<Vec<BenchSession<'a>>, ToolError> {
    let mut sessions = Vec::new();
    let policies = policies(arguments);
    if arguments.backend != BackendFilter::Vulkan {
        for policy in &policies {
            sessions.push(cpu_session(arguments, frames, policy)?);
        }
    }
    if arguments.backend != BackendFilter::Cpu {
        let of_policy = |policy| vulkan_session(arguments, frames, policy);
        match policies.iter().map(of_policy).collect::<Result<Vec<_>, _>>() {
            Ok(found) => sessions.extend(found),
            Err(error) => skip_vulkan(arguments, error)?,
        }
    }
    Ok(sessions)
}

fn cpu_session<'a>(
    arguments: &BenchArguments,
    frames: &'a Frames,
    policy: &Policy<PathBuf, PathBuf>,
) -> Result<BenchSession<'a>, ToolError> {
    let chosen = StreamBackend::cpu("it is measured".to_owned(), &pool(arguments));
    BenchSession::open(arguments, frames, policy, chosen)
}

/// A pool of all threads, with the instructions that were asked for.
fn pool(arguments: &BenchArguments) -> Arc<Pool> {
    Arc::new(Pool::of_threads(None).limited_to(arguments.instructions))
}

fn vulkan_session<'a>(
    arguments: &BenchArguments,
    frames: &'a Frames,
    policy: &Policy<PathBuf, PathBuf>,
) -> Result<BenchSession<'a>, ToolError> {
    let device = arguments.device.as_deref();
    let backend = Backends::new(pool(arguments)).choose(BackendChoice::Vulkan, device)?;
    let backend = backend.with_change_on(arguments.change_on)?;
    let driver = driver_of(device);
    let mut session = BenchSession::open(arguments, frames, policy, backend)?;
    session.driver = driver;
    Ok(session)
}

/// Name and version of the driver of the device that was chosen.
#[cfg(feature = "vulkan")]
fn driver_of(device: Option<&str>) -> Option<String> {
    let chosen = foveate_gpu::chosen_device(device).ok()?;
    Some(format!("{} {} ({})", chosen.driver_name, chosen.driver_version, chosen.kind))
}

#[cfg(not(feature = "vulkan"))]
fn driver_of(_device: Option<&str>) -> Option<String> {
    None
}

/// The view to measure, checked like one of a configuration.
fn view(arguments: &BenchArguments) -> Result<ViewConfig, ToolError> {
    let BenchArguments { layout, foveae, budget, patch, dtype, .. } = arguments;
    let layout = match &layout[..] {
        "foveal" => format!("layout = \"foveal\"\nfoveae = {foveae}"),
        "inset" => format!("layout = \"inset\"\nblocks = {foveae}"),
        "stt172" | "giava20" => format!("layout = \"rings\"\npreset = \"{layout}\""),
        _ => format!("layout = \"{layout}\""),
    };
    let text = format!(
        "name = \"main\"\n{layout}\nbudget = {budget}\npatch = {patch}\ndtype = \"{dtype}\""
    );
    // Its keys are the names of the options.
    ViewConfig::parse(&text).map_err(|error| ToolError::Usage(format!("--{}", error.reason())))
}

/// Measures each backend once.
fn measure(
    arguments: &BenchArguments,
    sessions: &mut [BenchSession<'_>],
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    for session in sessions {
        let samples = session.measure(arguments.frames as usize)?;
        let report = report(arguments, session, &samples);
        write_report(out, arguments.json, &report, FrameReport::write_text)?;
    }
    Ok(())
}

fn report(
    arguments: &BenchArguments,
    session: &BenchSession<'_>,
    samples: &Measurements,
) -> FrameReport {
    let backend = session.backend();
    let stages = stages_of(backend, samples);
    let frames = frame_facts(arguments, session, samples);
    let mean = |sum: f64| sum / samples.times.len() as f64;
    let updates = || samples.times.iter().map(|times| times.update);
    let uploaded: u64 = updates().map(|update| update.uploaded_bytes).sum();
    let collected: u64 = updates().map(|update| update.collected_bytes).sum();
    let token_bytes = session.format().token_bytes();
    let compared = frame_bytes(session.frames().kind()) as u64;
    FrameReport {
        backend: backend.kind,
        device: backend.device.clone(),
        driver: session.driver.clone(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        instructions: arguments.instructions.name(),
        frames,
        views: view_facts(arguments, session.policy),
        threshold: arguments.threshold,
        change_on: backend.change_on,
        refresh_frames: arguments.refresh.map(NonZeroU32::get),
        processor: Quantiles::of(samples.processor_ns.clone()),
        tiles: TileFacts {
            dirty_mean: mean(samples.dirty_tiles as f64),
            count: session.tile_count(),
            side: TILE_SIDE,
        },
        tokens: TokenFacts {
            sampled_mean: mean(samples.sampled_tokens as f64),
            count: session.token_count(),
        },
        bytes: ByteFacts {
            compared,
            uploaded_mean: mean(uploaded as f64),
            collected_mean: mean(collected as f64),
            sampled_mean: mean((samples.sampled_tokens * token_bytes) as f64),
        },
        bandwidth: Bandwidth::of(compared, &stages, samples),
        stages,
    }
}

fn frame_facts(
    arguments: &BenchArguments,
    session: &BenchSession<'_>,
    samples: &Measurements,
) -> PlayedFrames {
    let kind = session.frames().kind();
    let name = |path: &PathBuf| {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    let clip = arguments.clip.as_ref().map(name);
    PlayedFrames {
        format: kind.format.name(),
        width: kind.extent.width,
        height: kind.extent.height,
        changed: clip.is_none().then(|| changed_share(arguments)),
        clip,
        buffers: session.frames().buffers().len(),
        measured: samples.times.len(),
        warm_up: samples.warm_up,
        cold: arguments.cold,
    }
}

fn view_facts(arguments: &BenchArguments, policy: &'static str) -> ViewFacts {
    ViewFacts {
        count: arguments.views.into(),
        layout: arguments.layout.clone(),
        foveae: arguments.foveae,
        policy,
        budget: arguments.budget,
        patch_side: arguments.patch,
        dtype: arguments.dtype,
    }
}

fn extent(text: &str) -> Result<Extent, String> {
    let sides = text
        .split_once('x')
        .and_then(|(width, height)| Some(Extent::new(width.parse().ok()?, height.parse().ok()?)));
    sides.filter(|extent| extent.is_supported()).ok_or_else(|| {
        format!("expected a width and a height from 1 to {}, such as 1920x1080", Extent::SIDE_MAX)
    })
}

fn pixel_format(text: &str) -> Result<PixelFormat, String> {
    let named = |format: &PixelFormat| format.name().eq_ignore_ascii_case(text);
    PixelFormat::ALL.into_iter().find(named).ok_or_else(|| {
        format!("expected one of {}", PixelFormat::ALL.map(PixelFormat::name).join(", "))
    })
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1, such as 0.1".to_owned()),
    }
}

fn dtype(text: &str) -> Result<DType, String> {
    match text {
        "u8" => Ok(DType::U8),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::Bf16),
        "f32" => Ok(DType::F32),
        _ => Err("expected one of u8, f16, bf16, f32".to_owned()),
    }
}

fn instructions(text: &str) -> Result<Instructions, String> {
    let available = Instructions::available();
    let found = available.iter().find(|known| known.name() == text).copied();
    let names = || available.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("this processor has {}", names()))
}

fn change_on(name: String) -> ChangeOn {
    match &name[..] {
        "cpu" => ChangeOn::Cpu,
        "gpu" => ChangeOn::Gpu,
        _ => ChangeOn::Auto,
    }
}

fn policy(text: &str) -> Result<Policy<PathBuf, PathBuf>, String> {
    let view = format!("name = \"main\"\ngaze.policy = {text:?}");
    let view = ViewConfig::parse(&view).map_err(|error| error.reason().to_string())?;
    Ok(view.gaze.policy)
}

fn patch_side(text: &str) -> Result<u32, String> {
    let side = text.parse().ok().filter(|side| is_patch_side(*side));
    side.ok_or_else(|| "expected an even number from 8 to 64, or from 224 to 1024".to_owned())
}
