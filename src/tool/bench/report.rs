//! Report of a measurement, as JSON or text.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::session::Measurements;
use crate::list::write_columns;
use crate::meter::quantile;
use foveate_core::backend::{BackendInfo, BackendKind, ChangeSite};
use foveate_core::clock::Span;
use foveate_core::token::DType;
use foveate_engine::StageTimes;
use foveate_engine::backend::UpdateTimes;

/// Result for one backend; a line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct FrameReport {
    pub(super) backend: BackendKind,
    pub(super) device: String,
    /// `None` for the CPU.
    pub(super) driver: Option<String>,
    /// CPUs available to this process.
    pub(super) cpus: usize,
    /// Vector instructions of the stages on the CPU.
    pub(super) instructions: &'static str,
    pub(super) frames: PlayedFrames,
    pub(super) views: ViewFacts,
    pub(super) threshold: u8,
    pub(super) change_on: ChangeSite,
    pub(super) refresh_frames: Option<u32>,
    /// Durations of the stages, in the order of the stages.
    #[serde(serialize_with = "by_name")]
    pub(super) stages: Vec<(&'static str, Quantiles)>,
    /// Processor time of all threads.
    pub(super) processor: Quantiles,
    pub(super) tiles: TileFacts,
    pub(super) tokens: TokenFacts,
    pub(super) bytes: ByteFacts,
    pub(super) bandwidth: Bandwidth,
}

/// The frames played.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlayedFrames {
    pub(super) format: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    /// File name; `None` for synthetic frames.
    pub(super) clip: Option<String>,
    /// Share of tiles that change, for synthetic frames.
    pub(super) changed: Option<f64>,
    /// Distinct frames in memory.
    pub(super) buffers: usize,
    /// Frames measured.
    pub(super) measured: usize,
    /// Frames played before.
    pub(super) warm_up: usize,
    /// Whether the CPU caches were evicted before each frame.
    pub(super) cold: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ViewFacts {
    pub(super) count: usize,
    pub(super) layout: String,
    pub(super) foveae: u32,
    pub(super) policy: &'static str,
    pub(super) budget: u32,
    pub(super) patch_side: u32,
    pub(super) dtype: DType,
}

/// Tiles per frame.
#[derive(Debug, Serialize)]
pub(super) struct TileFacts {
    /// Mean count of dirty or refreshed tiles.
    pub(super) dirty_mean: f64,
    pub(super) count: usize,
    /// Pixels along a side.
    pub(super) side: u32,
}

/// Tokens per frame, of all views.
#[derive(Debug, Serialize)]
pub(super) struct TokenFacts {
    /// Mean count of resampled tokens.
    pub(super) sampled_mean: f64,
    pub(super) count: usize,
}

/// Bytes per frame.
#[derive(Debug, Serialize)]
pub(super) struct ByteFacts {
    /// Camera samples, all of which are compared with the resident copy.
    pub(super) compared: u64,
    /// Mean of the samples uploaded to the device.
    pub(super) uploaded_mean: f64,
    /// Mean of the tokens copied from the device.
    pub(super) collected_mean: f64,
    /// Mean of the sampled tokens.
    pub(super) sampled_mean: f64,
}

/// Memory bandwidth in 10^9 bytes per second, by median times: of change detection, which reads the frame and the resident copy,
/// and of a copy of the frame, which reads and writes.
#[derive(Debug, Serialize)]
pub(super) struct Bandwidth {
    pub(super) change_gb_s: f64,
    pub(super) memcpy_gb_s: f64,
}

/// Quantiles and mean of a duration per frame, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) mean_us: f64,
}

/// Serialises the stages as a map.
fn by_name<S: Serializer>(
    stages: &[(&'static str, Quantiles)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|(name, quantiles)| (name, quantiles)))
}

/// Durations of the stages of `backend`; `see` is not part of `total`. On Vulkan `ingest`, `features`, `reduce` and `sample` are GPU
/// times, as is `change` if changes are detected there; `gpu` is their sum, and `rest` is planning, submission and waiting beyond the
/// GPU's work.
pub(super) fn stages_of(
    backend: &BackendInfo,
    measured: &Measurements,
) -> Vec<(&'static str, Quantiles)> {
    type DurationNs = fn(&StageTimes, ChangeSite) -> u64;
    const STAGES: [(&str, DurationNs); 13] = [
        ("change", |times, _| times.update.change.ns()),
        ("upload", |times, _| times.update.upload.ns()),
        ("ingest", |times, _| times.update.ingest.ns()),
        ("features", |times, _| times.update.features.ns()),
        ("reduce", |times, _| times.update.reduce.ns()),
        ("sample", |times, _| times.update.sample.ns()),
        ("gpu", gpu_ns),
        ("collect", |times, _| times.update.collect.ns()),
        ("adapt", |times, _| times.adapt.ns()),
        ("publish", |times, _| times.publish.ns()),
        ("rest", rest_ns),
        ("total", |times, _| times.total().ns()),
        ("see", |times, _| times.see.ns()),
    ];
    let is_of_backend = |name: &str| {
        backend.kind == BackendKind::Vulkan || !["upload", "gpu", "collect"].contains(&name)
    };
    let stages = STAGES.into_iter().filter(|(name, _)| is_of_backend(name));
    let durations = |stage: DurationNs| {
        measured.times.iter().map(|times| stage(times, backend.change_on)).collect()
    };
    stages.map(|(name, stage)| (name, Quantiles::of(durations(stage)))).collect()
}

/// Total time of the GPU passes.
fn gpu_ns(times: &StageTimes, change_on: ChangeSite) -> u64 {
    let UpdateTimes { change, ingest, features, reduce, sample, .. } = times.update;
    let change = if change_on == ChangeSite::Gpu { change } else { Span::NONE };
    // The CPU makes them once the frame is published.
    let is_before = features.start_ns < times.publish.start_ns;
    let features = if is_before { features } else { Span::NONE };
    [change, ingest, features, reduce, sample].map(Span::ns).iter().sum()
}

/// Time outside of all stages: planning, submitting, waiting.
fn rest_ns(times: &StageTimes, change_on: ChangeSite) -> u64 {
    let UpdateTimes { change, upload, collect, .. } = times.update;
    let change = if change_on == ChangeSite::Cpu { change } else { Span::NONE };
    let on_cpu: u64 =
        [change, upload, collect, times.adapt, times.publish].map(Span::ns).iter().sum();
    times.total().ns().saturating_sub(on_cpu + gpu_ns(times, change_on))
}

impl Quantiles {
    /// Quantiles of the durations of at least one frame, in nanoseconds.
    pub(super) fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let us = |ns: u64| ns as f64 / 1e3;
        let mean_us = us(ns.iter().sum()) / ns.len() as f64;
        Self { p50_us: us(quantile(&ns, 500)), p99_us: us(quantile(&ns, 990)), mean_us }
    }
}

impl Bandwidth {
    /// Bandwidth of change detection, which is the first stage, over `bytes` of samples.
    pub(super) fn of(
        bytes: u64,
        stages: &[(&'static str, Quantiles)],
        measured: &Measurements,
    ) -> Self {
        // Each touches twice the bytes: two reads, or a read and a write.
        let gb_s = |quantiles: Quantiles| 2.0 * bytes as f64 / (quantiles.p50_us * 1e3).max(1.0);
        Self {
            change_gb_s: stages.first().map_or(0.0, |(_, change)| gb_s(*change)),
            memcpy_gb_s: gb_s(Quantiles::of(measured.copies_ns.clone())),
        }
    }
}

impl FrameReport {
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { frames, views, .. } = self;
        let driver = self.driver.as_ref().map_or(String::new(), |driver| format!(", {driver}"));
        let Self { backend, device, cpus, instructions, .. } = self;
        writeln!(out, "{backend} on {device}{driver}; {cpus} CPUs, {instructions}")?;
        writeln!(out, "  frames  {}", frames.text())?;
        writeln!(
            out,
            "  views   {}, {}, {}: {} tokens of {side}x{side} {}",
            views.count,
            views.layout,
            views.policy,
            self.tokens.count,
            views.dtype,
            side = views.patch_side,
        )?;
        writeln!(out, "  change  {}", self.change_text())?;
        let heading = ["STAGE", "  P50 US", "  P99 US", ""].map(str::to_owned);
        let stages = self.stages.iter().copied().chain([("processor", self.processor)]);
        let rows = stages.map(|(name, quantiles)| self.row(name, quantiles));
        write_columns(out, &std::iter::once(heading).chain(rows).collect::<Vec<_>>())
    }

    fn change_text(&self) -> String {
        let refresh = self.refresh_frames.map_or(String::new(), |frames| {
            format!(", every tile refreshed within {frames} frames")
        });
        format!("threshold {}{refresh}; detected on the {}", self.threshold, self.change_on)
    }

    fn row(&self, name: &str, Quantiles { p50_us, p99_us, .. }: Quantiles) -> [String; 4] {
        let Self { tiles, tokens, bytes, bandwidth, .. } = self;
        let remark = match name {
            "change" => format!(
                "{} compared, {:.1} GB/s; memcpy {:.1} GB/s",
                megabytes(bytes.compared as f64),
                bandwidth.change_gb_s,
                bandwidth.memcpy_gb_s
            ),
            "upload" => format!("{} uploaded", megabytes(bytes.uploaded_mean)),
            "collect" => format!("{} copied from the device", megabytes(bytes.collected_mean)),
            "ingest" => format!("{:.1} of {} tiles", tiles.dirty_mean, tiles.count),
            "sample" => format!(
                "{:.1} of {} tokens, {}",
                tokens.sampled_mean,
                tokens.count,
                megabytes(bytes.sampled_mean)
            ),
            "adapt" => "detail, plans and tokens of `adaptive`".to_owned(),
            "gpu" => "all passes, by GPU timestamps".to_owned(),
            "rest" => "planning, submitting, waiting".to_owned(),
            "total" => "from a frame in memory to its published tokens".to_owned(),
            "see" => "after that, for the gaze of the next frame".to_owned(),
            "processor" => "time of all threads for a frame".to_owned(),
            _ => String::new(),
        };
        [name.to_owned(), format!("{p50_us:>8.1}"), format!("{p99_us:>8.1}"), remark]
    }
}

impl PlayedFrames {
    fn text(&self) -> String {
        let Self { format, width, height, buffers, measured, warm_up, .. } = self;
        let content = match (&self.clip, self.changed) {
            (Some(clip), _) => format!("{buffers} of {clip}, forward and backward"),
            (None, share) => {
                format!("two that differ in {} % of the tiles", share.unwrap_or(0.0) * 100.0)
            }
        };
        let caches = if self.cold { "cold" } else { "warm" };
        format!(
            "{format} {width}x{height}, {content}; {measured} measured after {warm_up}, caches {caches}"
        )
    }
}

fn megabytes(bytes: f64) -> String {
    format!("{:.2} MB", bytes / 1e6)
}
