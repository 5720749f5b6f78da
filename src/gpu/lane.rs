//! A lane: one command buffer, one timeline semaphore, one submission at a time.

use std::fmt;
use std::sync::Arc;

use ash::vk;

use super::device::Gpu;
use super::error::{GpuError, VkResultExt};
use super::pass::ComputePass;
use super::recorder::Recorder;
use super::timing::Timestamps;
use foveate_core::clock::{Span, monotonic_ns};

/// Records and submits the work of one thread, and waits for it on a timeline semaphore. Lanes share the device's queue, and wait
/// only for their own work.
pub struct Lane {
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    timeline: vk::Semaphore,
    /// Value that the timeline reaches when the last submission is done.
    value: u64,
    /// Number of the last submission.
    submission: u64,
    /// `None` if the device has none.
    timestamps: Option<Timestamps>,
    gpu: Arc<Gpu>,
}

impl Lane {
    /// Creates a lane that times the first `timed_passes` passes of a submission; `name` shows up in captures.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new(gpu: &Arc<Gpu>, name: &str, timed_passes: usize) -> Result<Self, GpuError> {
        // Everything starts as a null handle, which is legal to destroy, so early returns clean up.
        let mut lane = Self {
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            timeline: vk::Semaphore::null(),
            value: 0,
            submission: 0,
            timestamps: None,
            gpu: Arc::clone(gpu),
        };
        lane.pool = make_pool(gpu)?;
        lane.commands = make_commands(gpu, lane.pool)?;
        lane.timeline = make_timeline(gpu)?;
        lane.timestamps = Timestamps::new(gpu, timed_passes)?;
        gpu.set_name(lane.commands, name);
        gpu.set_name(lane.timeline, name);
        Ok(lane)
    }

    /// Records commands, submits them, and returns when the device has finished.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails. Nothing is left running in that case either.
    pub fn run<'a>(&mut self, record: impl FnOnce(&mut Recorder<'a>)) -> Result<(), GpuError> {
        self.begin()?;
        let queries = self.timestamps.as_mut().map(|timestamps| {
            timestamps.clear();
            timestamps.queries()
        });
        let mut recorder = Recorder::new(&self.gpu, self.commands, queries);
        record(&mut recorder);
        let (submission, pass_count) = recorder.finish();
        self.submission = submission;
        // SAFETY: the command buffer is being recorded, outside any render pass.
        unsafe { self.gpu.raw().end_command_buffer(self.commands) }.during("vkEndCommandBuffer")?;
        let start_ns = monotonic_ns();
        let done = self.submit().and_then(|()| self.wait());
        if done.is_err() {
            // Callers may drop recorded resources once this returns, and a submission that failed may have begun.
            self.gpu.wait_idle();
        }
        done?;
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.read(pass_count, Span::since(start_ns));
        }
        Ok(())
    }

    /// Span of `pass` in the last submission, within the time from submitting to the end of the wait, on CLOCK_MONOTONIC.
    /// [`Span::NONE`] if the pass was not part of it, was not timed, or the device has no timestamps.
    ///
    /// A pass that overlaps the previous one on the device starts where that one ends.
    pub fn span(&self, pass: &ComputePass) -> Span {
        let times = self.timestamps.as_ref().zip(pass.place_in(self.submission));
        times.map_or(Span::NONE, |(timestamps, place)| timestamps.span(place))
    }

    fn begin(&self) -> Result<(), GpuError> {
        let device = self.gpu.raw();
        let flags = vk::CommandPoolResetFlags::empty();
        // SAFETY: `run` waits for what it submits, so the command buffer is not pending.
        unsafe { device.reset_command_pool(self.pool, flags) }.during("vkResetCommandPool")?;
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer has just been reset.
        unsafe { device.begin_command_buffer(self.commands, &info) }.during("vkBeginCommandBuffer")
    }

    fn submit(&mut self) -> Result<(), GpuError> {
        let commands = [vk::CommandBufferSubmitInfo::default().command_buffer(self.commands)];
        let signals = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(self.value + 1)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let info = vk::SubmitInfo2::default()
            .command_buffer_infos(&commands)
            .signal_semaphore_infos(&signals);
        self.gpu.submit(&info)?;
        self.value += 1;
        Ok(())
    }

    fn wait(&self) -> Result<(), GpuError> {
        let (semaphores, values) = ([self.timeline], [self.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let device = self.gpu.raw();
        // No timeout: kernel drivers reset a device that hangs, which ends the wait with a device loss.
        // SAFETY: the semaphore is a live timeline, and a submission that signals the value is under way.
        let result = unsafe { device.wait_semaphores(&info, u64::MAX) };
        self.gpu.noticing_loss(result.during("vkWaitSemaphores"))
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("value", &self.value).finish_non_exhaustive()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let device = self.gpu.raw();
        // SAFETY: `run` waits for what it submits, so nothing uses the semaphore.
        unsafe { device.destroy_semaphore(self.timeline, None) };
        // SAFETY: likewise for the command buffer, which goes with its pool.
        unsafe { device.destroy_command_pool(self.pool, None) };
    }
}

fn make_pool(gpu: &Gpu) -> Result<vk::CommandPool, GpuError> {
    let info = vk::CommandPoolCreateInfo::default()
        .flags(vk::CommandPoolCreateFlags::TRANSIENT)
        .queue_family_index(gpu.queue_family);
    // SAFETY: the device has this queue family.
    unsafe { gpu.raw().create_command_pool(&info, None) }.during("vkCreateCommandPool")
}

fn make_commands(gpu: &Gpu, pool: vk::CommandPool) -> Result<vk::CommandBuffer, GpuError> {
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
    // SAFETY: the pool is live, and nobody else uses it.
    let commands =
        unsafe { gpu.raw().allocate_command_buffers(&info) }.during("vkAllocateCommandBuffers")?;
    Ok(commands[0])
}

fn make_timeline(gpu: &Gpu) -> Result<vk::Semaphore, GpuError> {
    let mut kind =
        vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: the device was created with timeline semaphores.
    unsafe { gpu.raw().create_semaphore(&info, None) }.during("vkCreateSemaphore")
}
