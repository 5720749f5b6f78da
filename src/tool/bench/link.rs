//! `foveate bench link`: how fast bytes get to a Vulkan device and back. That limits what an upload can reach.

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use super::write_report;
use crate::ToolError;
use foveate_core::clock::monotonic_ns;
use foveate_engine::backend::BackendError;
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, Lane};

/// Bytes of a copy: more than the caches of processors hold, and less than any device allows for a buffer.
const BYTES: usize = 64 << 20;

/// Copies in one submission, so that submitting and waiting take little of its time.
const COPIES: usize = 4;

/// Submissions of each kind. The quickest counts, because other programs only slow it down.
const ROUNDS: usize = 7;

/// The line of `--json`.
#[derive(Debug, Serialize)]
struct LinkReport {
    device: String,
    kind: String,
    driver: String,
    api_version: String,
    /// The device's largest heap of its own memory.
    memory_bytes: u64,
    /// Whether frames are uploaded straight into the device's memory; otherwise its passes read them from the CPU's.
    uploads_into_device_memory: bool,
    /// Bytes of one copy.
    bytes: usize,
    /// Rates in GB/s: the device copies from the CPU's memory into its own, and back; one thread of the CPU writes to where frames
    /// are uploaded.
    to_device_gb_s: f64,
    from_device_gb_s: f64,
    write_gb_s: f64,
}

/// Measures the link to the device called `device`, or to a GPU, and writes a report to `out`.
pub(super) fn run(device: Option<&str>, json: bool, out: &mut dyn Write) -> Result<(), ToolError> {
    let report = Gpu::open(device).and_then(|gpu| measure(&gpu)).map_err(BackendError::from)?;
    write_report(out, json, &report, LinkReport::write_text)
}

fn measure(gpu: &Arc<Gpu>) -> Result<LinkReport, GpuError> {
    let buffer = |name, kind| Buffer::new(gpu, name, kind, BYTES);
    let host = buffer("memory of the CPU", BufferKind::Readback)?;
    let device = buffer("memory of the device", BufferKind::DeviceOnly)?;
    let mut staging = buffer("staging", BufferKind::HostWritten)?;
    let mut lane = Lane::new(gpu, "link", 0)?;
    // Pages that were never written may all be one page of zeros.
    let frame = vec![1_u8; BYTES];
    let mut copy = |from: &Buffer, to: &Buffer| {
        best_rate(BYTES * COPIES, || {
            lane.run(|recorder| (0..COPIES).for_each(|_| recorder.copy_buffer(from, 0, to)))
        })
    };
    // Write device memory first: a driver may skip copies of memory that it knows to be empty.
    let to_device_gb_s = copy(&host, &device)?;
    let from_device_gb_s = copy(&device, &host)?;
    let write_gb_s = best_rate(BYTES, || {
        staging.mapped::<u8>().copy_from_slice(&frame);
        Ok(())
    })?;
    let summary = gpu.summary();
    Ok(LinkReport {
        device: summary.name.clone(),
        kind: summary.kind.to_string(),
        driver: format!("{} {}", summary.driver_name, summary.driver_version),
        api_version: summary.api_version.clone(),
        memory_bytes: summary.memory_bytes,
        uploads_into_device_memory: staging.is_in_device_memory(),
        bytes: BYTES,
        to_device_gb_s,
        from_device_gb_s,
        write_gb_s,
    })
}

/// The highest rate of several runs, each of which moves `bytes`, in GB/s.
fn best_rate(bytes: usize, mut run: impl FnMut() -> Result<(), GpuError>) -> Result<f64, GpuError> {
    let mut best_ns = u64::MAX;
    for _ in 0..ROUNDS {
        let start_ns = monotonic_ns();
        run()?;
        best_ns = best_ns.min((monotonic_ns() - start_ns).max(1));
    }
    Ok(bytes as f64 / best_ns as f64)
}

impl LinkReport {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { device, kind, driver, .. } = self;
        let memory_gb = self.memory_bytes as f64 / 1e9;
        writeln!(out, "{device}, {kind}, {driver}: {memory_gb:.1} GB of memory")?;
        writeln!(out, "  device copies from the CPU's memory  {:8.2} GB/s", self.to_device_gb_s)?;
        writeln!(out, "  device copies to the CPU's memory    {:8.2} GB/s", self.from_device_gb_s)?;
        let place = if self.uploads_into_device_memory { "device" } else { "CPU" };
        writeln!(
            out,
            "  CPU writes to the staging buffer     {:8.2} GB/s, in memory of the {place}",
            self.write_gb_s
        )
    }
}
