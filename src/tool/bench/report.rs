//! What a measurement found, for programs and for people.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::session::Samples;
use crate::list::write_columns;
use foveate_core::backend::{BackendInfo, BackendKind, ChangeSite};
use foveate_core::clock::Span;
use foveate_core::token::DType;
use foveate_engine::StageTimes;
use foveate_engine::backend::UpdateTimes;

/// One backend's figures; one line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) backend: BackendKind,
    pub(super) device: String,
    /// `None` on the CPU.
    pub(super) driver: Option<String>,
    /// Processors that this process may use.
    pub(super) cpus: usize,
    pub(super) frames: FrameFacts,
    pub(super) views: ViewFacts,
    pub(super) threshold: u8,
    pub(super) change_on: ChangeSite,
    pub(super) refresh_frames: Option<u32>,
    pub(super) stages: Stages,
    pub(super) tiles: TileFacts,
    pub(super) tokens: TokenFacts,
    pub(super) bytes: ByteFacts,
    pub(super) bandwidth: Bandwidth,
}

/// What was played.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FrameFacts {
    pub(super) format: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The file, or `None` for made frames.
    pub(super) clip: Option<String>,
    /// The share of tiles that changes, of made frames.
    pub(super) changed: Option<f64>,
    /// Different frames in memory.
    pub(super) buffers: usize,
    /// Frames that the figures are of.
    pub(super) measured: usize,
    /// Frames before them.
    pub(super) warm_up: usize,
    /// Whether the caches were emptied before each frame.
    pub(super) cold: bool,
}

/// What was sampled.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ViewFacts {
    pub(super) count: usize,
    pub(super) layout: &'static str,
    pub(super) policy: &'static str,
    pub(super) budget: u32,
    pub(super) patch_side: u32,
    pub(super) dtype: DType,
}

/// Tiles a frame.
#[derive(Debug, Serialize)]
pub(super) struct TileFacts {
    /// Dirty or refreshed, in the mean.
    pub(super) dirty_mean: f64,
    /// Of so many.
    pub(super) count: usize,
}

/// Tokens a frame, of all views.
#[derive(Debug, Serialize)]
pub(super) struct TokenFacts {
    /// Sampled anew, in the mean.
    pub(super) sampled_mean: f64,
    /// Of so many.
    pub(super) count: usize,
}

/// Bytes a frame.
#[derive(Debug, Serialize)]
pub(super) struct ByteFacts {
    /// Samples of the camera that were compared with as many of the resident copy.
    pub(super) compared: u64,
    /// Samples that crossed to the device, in the mean.
    pub(super) uploaded_mean: f64,
    /// Tokens that were sampled, in the mean.
    pub(super) sampled_mean: f64,
}

/// Bytes that the processor, or the device that finds the changes, moved in a second, in 10^9, by the median times: those it read from the frame and from the
/// resident copy, and those that a copy of the frame reads and writes.
#[derive(Debug, Serialize)]
pub(super) struct Bandwidth {
    pub(super) change_gb_s: f64,
    pub(super) memcpy_gb_s: f64,
}

/// Times of the stages in the order in which they run.
#[derive(Debug)]
pub(super) struct Stages(Vec<(&'static str, Quantiles)>);

/// What half of the frames, and what 99 of 100, stay within; in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) mean_us: f64,
}

impl Serialize for Stages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, quantiles)| (name, quantiles)))
    }
}

impl Stages {
    /// The stages of `kind`; on Vulkan `ingest`, `reduce` and `sample` are times of the GPU, as is `change` where it finds
    /// the changes, `gpu` is their sum, and `rest` holds the submission and what of the wait was not the GPU's work.
    pub(super) fn of(backend: &BackendInfo, samples: &Samples) -> Self {
        let (kind, change_on) = (backend.kind, backend.change_on);
        type Stage = (&'static str, fn(&StageTimes, ChangeSite) -> u64);
        const STAGES: [Stage; 9] = [
            ("change", |times, _| times.update.change.ns()),
            ("upload", |times, _| times.update.upload.ns()),
            ("ingest", |times, _| times.update.ingest.ns()),
            ("reduce", |times, _| times.update.reduce.ns()),
            ("sample", |times, _| times.update.sample.ns()),
            ("gpu", gpu_ns),
            ("collect", |times, _| times.update.collect.ns()),
            ("publish", |times, _| times.publish.ns()),
            ("rest", rest_ns),
        ];
        let is_of = |name: &str| {
            kind == BackendKind::Vulkan || !["upload", "gpu", "collect"].contains(&name)
        };
        let quantiles = |stage: fn(&StageTimes, ChangeSite) -> u64| {
            Quantiles::of(samples.times.iter().map(|times| stage(times, change_on)).collect())
        };
        let parts = STAGES.into_iter().filter(|(name, _)| is_of(name));
        let total: Stage = ("total", |times, _| times.total().ns());
        Self(parts.chain([total]).map(|(name, stage)| (name, quantiles(stage))).collect())
    }

    /// The stage of that name.
    fn get(&self, name: &str) -> Quantiles {
        let stage = self.0.iter().find(|(stage, _)| *stage == name);
        stage.expect("one of the names above").1
    }
}

/// What the passes took.
fn gpu_ns(times: &StageTimes, change_on: ChangeSite) -> u64 {
    let UpdateTimes { change, ingest, reduce, sample, .. } = times.update;
    let change = if change_on == ChangeSite::Gpu { change } else { Span::NONE };
    [change, ingest, reduce, sample].map(Span::ns).iter().sum()
}

/// What of the total is in no stage: planning, waiting, submitting.
fn rest_ns(times: &StageTimes, change_on: ChangeSite) -> u64 {
    let UpdateTimes { change, upload, collect, .. } = times.update;
    let change = if change_on == ChangeSite::Cpu { change } else { Span::NONE };
    let on_cpu: u64 = [change, upload, collect, times.publish].map(Span::ns).iter().sum();
    times.total().ns().saturating_sub(on_cpu + gpu_ns(times, change_on))
}

impl Quantiles {
    /// Of some nanoseconds, one for each frame, of which there is at least one.
    pub(super) fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let us = |ns: u64| ns as f64 / 1e3;
        let rank = |percent: usize| us(ns[(ns.len() * percent).div_ceil(100) - 1]);
        let mean_us = us(ns.iter().sum()) / ns.len() as f64;
        Self { p50_us: rank(50), p99_us: rank(99), mean_us }
    }
}

impl Bandwidth {
    /// Of a change stage that compares `bytes` of samples.
    pub(super) fn of(bytes: u64, stages: &Stages, samples: &Samples) -> Self {
        // Two streams of memory each: one read and one read, or one read and one written.
        let gb_s = |quantiles: Quantiles| 2.0 * bytes as f64 / (quantiles.p50_us * 1e3).max(1.0);
        Self {
            change_gb_s: gb_s(stages.get("change")),
            memcpy_gb_s: gb_s(Quantiles::of(samples.copies_ns.clone())),
        }
    }
}

impl Report {
    /// Writes one line for programs.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes a table for people.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { frames, views, .. } = self;
        let driver = self.driver.as_ref().map_or(String::new(), |driver| format!(", {driver}"));
        writeln!(out, "{} on {}{driver}; {} processors", self.backend, self.device, self.cpus)?;
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
        let rows = self.stages.0.iter().map(|(name, quantiles)| self.row(name, *quantiles));
        write_columns(out, &std::iter::once(heading).chain(rows).collect::<Vec<_>>())
    }

    fn change_text(&self) -> String {
        let refresh = self.refresh_frames.map_or(String::new(), |frames| {
            format!(", every tile refreshed within {frames} frames")
        });
        format!(
            "differences above {} count{refresh}; found on the {}",
            self.threshold, self.change_on
        )
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
            "ingest" => format!("{:.1} of {} tiles", tiles.dirty_mean, tiles.count),
            "sample" => format!(
                "{:.1} of {} tokens, {}",
                tokens.sampled_mean,
                tokens.count,
                megabytes(bytes.sampled_mean)
            ),
            "gpu" => "all passes, by the clock of the GPU".to_owned(),
            "rest" => "planning, submitting, waiting".to_owned(),
            "total" => format!("{:.0} frames a second", 1e6 / p50_us.max(1e-3)),
            _ => String::new(),
        };
        [name.to_owned(), format!("{p50_us:>8.1}"), format!("{p99_us:>8.1}"), remark]
    }
}

impl FrameFacts {
    fn text(&self) -> String {
        let Self { format, width, height, buffers, measured, warm_up, .. } = self;
        let content = match (&self.clip, self.changed) {
            (Some(clip), _) => format!("{buffers} of {clip}, forward and backward"),
            (None, share) => {
                format!("two, between which {} % of the tiles change", share.unwrap_or(0.0) * 100.0)
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
