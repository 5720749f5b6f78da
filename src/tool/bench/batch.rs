//! `--batch`: pictures a second, each seen once, many at a time.

use std::io::{self, Write};

use serde::Serialize;

use super::frames::Frames;
use super::report::Quantiles;
use super::{BackendFilter, BenchArguments, pool, repeat, skip_vulkan, view, write_report};
use crate::ToolError;
use foveate_core::backend::{BackendChoice, BackendInfo, BackendKind};
use foveate_core::clock::monotonic_ns;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};
use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::batch::Batch;
use foveate_gaze::view::ViewSpec;

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct BatchReport {
    backend: BackendKind,
    device: String,
    /// Vector instructions of the stages on the CPU.
    instructions: &'static str,
    format: &'static str,
    width: u32,
    height: u32,
    /// Pictures of a batch.
    batch: usize,
    /// Pictures measured.
    measured: usize,
    pictures_per_second: f64,
    /// Time of a batch by the number of its pictures.
    picture: Quantiles,
}

/// Measures batches of `size` pictures, taken from `frames` over and over, and writes a report to `out`.
pub(super) fn run(
    arguments: &BenchArguments,
    frames: &Frames,
    size: usize,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let spec = ViewSpec::try_from(&view(arguments)?)?;
    let mut benches = benches(arguments, frames, &spec, size)?;
    repeat(arguments, || measure(arguments, frames, &mut benches, size, out))
}

/// The requested backends, with a batch on each.
fn benches(
    arguments: &BenchArguments,
    frames: &Frames,
    spec: &ViewSpec,
    size: usize,
) -> Result<Vec<(BackendInfo, Batch)>, ToolError> {
    let bench = |mut chosen: StreamBackend| -> Result<_, ToolError> {
        let batch = chosen.batch(frames.kind(), spec.clone(), size)?;
        Ok((chosen.info().clone(), batch))
    };
    let mut benches = Vec::new();
    if arguments.backend != BackendFilter::Vulkan {
        let chosen = StreamBackend::cpu("it is measured".to_owned(), &pool(arguments));
        benches.push(bench(chosen)?);
    }
    if arguments.backend != BackendFilter::Cpu {
        let chosen = Backends::new(pool(arguments))
            .choose(BackendChoice::Vulkan, arguments.device.as_deref());
        match chosen.map_err(ToolError::from).and_then(bench) {
            Ok(bench) => benches.push(bench),
            Err(error) => skip_vulkan(arguments, error)?,
        }
    }
    Ok(benches)
}

fn measure(
    arguments: &BenchArguments,
    frames: &Frames,
    benches: &mut [(BackendInfo, Batch)],
    size: usize,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let (kind, count) = (frames.kind(), frames.buffers().len());
    let gaze = middle(kind.extent);
    let picture = |index: usize| (frames.view(index % count), &gaze);
    let pictures: Vec<_> = (0..size).map(picture).collect();
    for (backend, batch) in benches {
        // The first allocates, and wakes the threads.
        batch.sample(&pictures)?;
        let mut times_ns = Vec::new();
        for _ in 0..(arguments.frames as usize).div_ceil(size) {
            let start_ns = monotonic_ns();
            batch.sample(&pictures)?;
            times_ns.push((monotonic_ns() - start_ns) / size as u64);
        }
        let measured = times_ns.len() * size;
        let total_ns: u64 = times_ns.iter().sum();
        let picture = Quantiles::of(times_ns.clone());
        let report = BatchReport {
            backend: backend.kind,
            device: backend.device.clone(),
            instructions: arguments.instructions.name(),
            format: kind.format.name(),
            width: kind.extent.width,
            height: kind.extent.height,
            batch: size,
            measured,
            pictures_per_second: times_ns.len() as f64 * 1e9 / total_ns.max(1) as f64,
            picture,
        };
        write_report(out, arguments.json, &report, BatchReport::write_text)?;
    }
    Ok(())
}

/// Looks at the middle of pictures of `extent`.
fn middle(extent: Extent) -> Gaze {
    let (x, y) = snapped(extent, f64::from(extent.width) / 2.0, f64::from(extent.height) / 2.0);
    let reason = FixationReason::Policy;
    Gaze::at(Fixation::at((x, y), reason), None)
}

impl BatchReport {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { backend, device, format, width, height, batch, .. } = self;
        writeln!(
            out,
            "{backend}, {device}: {width}x{height} {format}, {batch} pictures at a time"
        )?;
        writeln!(
            out,
            "{:.0} pictures a second, {:.0} us each (p99 {:.0}), {} measured\n",
            self.pictures_per_second, self.picture.p50_us, self.picture.p99_us, self.measured
        )
    }
}
