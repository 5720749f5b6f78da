//! GPU timestamps of passes, on the CPU's clock.
//!
//! A device counts ticks of its own clock. Where it can read that clock together with CLOCK_MONOTONIC
//! (`VK_EXT_calibrated_timestamps`), the two are calibrated after each submission, as they drift apart by up to 50 us a second.
//! Elsewhere the end of the last pass is taken to be the return of the CPU's wait: durations and distances are right, and
//! everything is late by the CPU's wake-up time.

use std::fmt;
use std::sync::Arc;

use ash::vk;

use super::clock::{Anchor, TickClock};
use super::device::Gpu;
use super::error::{GpuError, VkResultExt};
use foveate_core::clock::Span;

/// Two timestamps for each of the first `capacity` passes of a submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queries {
    raw: vk::QueryPool,
    capacity: usize,
}

impl Queries {
    /// Resets the queries. Must be recorded first.
    pub(super) fn reset(self, gpu: &Gpu, commands: vk::CommandBuffer) {
        let count = first_query(self.capacity);
        // SAFETY: the command buffer is being recorded for a queue that computes, and nothing else uses the queries.
        unsafe { gpu.raw().cmd_reset_query_pool(commands, self.raw, 0, count) };
    }

    /// Writes the start of pass `place`: when everything recorded before has been computed.
    pub(super) fn begin(self, gpu: &Gpu, commands: vk::CommandBuffer, place: usize) {
        self.write(gpu, commands, place, 0);
    }

    /// Writes the end of pass `place`.
    pub(super) fn end(self, gpu: &Gpu, commands: vk::CommandBuffer, place: usize) {
        self.write(gpu, commands, place, 1);
    }

    fn write(self, gpu: &Gpu, commands: vk::CommandBuffer, place: usize, which: u32) {
        if self.capacity <= place {
            return;
        }
        let stage = vk::PipelineStageFlags2::COMPUTE_SHADER;
        let query = first_query(place) + which;
        // SAFETY: the command buffer is being recorded, and has reset the query, which no other command writes.
        unsafe { gpu.raw().cmd_write_timestamp2(commands, stage, self.raw, query) };
    }
}

/// Start and end of the passes of a lane's last submission.
pub(super) struct Timestamps {
    queries: vk::QueryPool,
    /// Most passes timed in a submission; the spans of others are empty.
    capacity: usize,
    /// Start and end of each pass in ticks.
    ticks: Vec<[u64; 2]>,
    spans: Vec<Span>,
    gpu: Arc<Gpu>,
}

impl Timestamps {
    /// Timestamps of up to `capacity` passes; `None` if the device has none.
    pub(super) fn new(gpu: &Arc<Gpu>, capacity: usize) -> Result<Option<Self>, GpuError> {
        if gpu.clock.is_none() || capacity == 0 {
            return Ok(None);
        }
        let info = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(first_query(capacity));
        // SAFETY: `info` is valid, and the device lives as long as `gpu`.
        let queries =
            unsafe { gpu.raw().create_query_pool(&info, None) }.during("vkCreateQueryPool")?;
        let (ticks, spans) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        Ok(Some(Self { queries, capacity, ticks, spans, gpu: Arc::clone(gpu) }))
    }

    /// The queries that a recorder writes.
    pub(super) fn queries(&self) -> Queries {
        Queries { raw: self.queries, capacity: self.capacity }
    }

    /// Reads the timestamps of a submission with `pass_count` passes, submitted and waited for during `run`.
    pub(super) fn read(&mut self, pass_count: usize, run: Span) {
        self.spans.clear();
        self.ticks.clear();
        self.ticks.resize(pass_count.min(self.capacity), [0; 2]);
        if self.ticks.is_empty() {
            return;
        }
        let flags = vk::QueryResultFlags::TYPE_64;
        let ticks = self.ticks.as_flattened_mut();
        // SAFETY: the queries are those of a submission that has ended, and two 64-bit times fit each entry.
        let result =
            unsafe { self.gpu.raw().get_query_pool_results(self.queries, 0, ticks, flags) };
        if let (Ok(()), Some(clock)) = (result, &self.gpu.clock) {
            let has_none = self.gpu.faults.has_no_calibration();
            let calibrated = if has_none { None } else { clock.calibrate() };
            let anchor = calibrated.unwrap_or(Anchor {
                ticks: self.ticks.last().map_or(0, |[_, end]| *end),
                monotonic_ns: run.end_ns,
            });
            let span = |&ticks: &[u64; 2]| placed(ticks, clock.ticks, anchor, run);
            self.spans.extend(self.ticks.iter().map(span));
        }
    }

    /// Drops all spans.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Span of pass `place` of the last submission.
    pub(super) fn span(&self, place: usize) -> Span {
        self.spans.get(place).copied().unwrap_or(Span::NONE)
    }
}

impl fmt::Debug for Timestamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timestamps").field("spans", &self.spans).finish_non_exhaustive()
    }
}

impl Drop for Timestamps {
    fn drop(&mut self) {
        // SAFETY: no submission that uses the queries is pending, as `Lane::run` waits for its own.
        unsafe { self.gpu.raw().destroy_query_pool(self.queries, None) };
    }
}

/// Converts the ticks of a pass to the CPU's clock, clamped to the time between submission and the end of the wait: what exceeds it is
/// calibration error.
fn placed(ticks: [u64; 2], clock: TickClock, anchor: Anchor, run: Span) -> Span {
    let [start_ns, end_ns] = ticks.map(|ticks| {
        let age_ns = clock.ns_between(ticks, anchor.ticks);
        anchor.monotonic_ns.saturating_sub(age_ns).clamp(run.start_ns, run.end_ns)
    });
    Span { start_ns, end_ns }
}

/// First of the two queries of pass `place`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a submission has a pass for each view, and few more"
)]
fn first_query(place: usize) -> u32 {
    2 * place as u32
}
