//! A lane to the queue: one command buffer, one timeline, one submission at a time.

use std::fmt;
use std::sync::Arc;

use ash::vk;

use super::device::Gpu;
use super::error::{GpuError, VkResultExt};
use super::pass::ComputePass;
use super::recorder::Recorder;
use super::timing::Timestamps;
use foveate_core::clock::{Span, monotonic_ns};

/// Where one thread records its submissions, and the timeline semaphore that it waits on. Lanes share the device's queue
/// and wait for nobody else's work.
pub struct Lane {
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    timeline: vk::Semaphore,
    /// What the timeline reaches when the last submission is done.
    value: u64,
    /// The last submission, by the number that its passes know it by.
    submission: u64,
    /// `None` where the device tells no time.
    timestamps: Option<Timestamps>,
    gpu: Arc<Gpu>,
}

impl Lane {
    /// Creates a lane that tells when the first `timed_passes` passes of a submission ran; `name` shows up in captures.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new(gpu: &Arc<Gpu>, name: &str, timed_passes: usize) -> Result<Self, GpuError> {
        // Everything starts out null, which Vulkan lets one destroy, so every early return cleans up.
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
    /// If the device is lost or refuses. Nothing is left running then either.
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
        self.submit()?;
        self.wait()?;
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.read(pass_count, Span::since(start_ns));
        }
        Ok(())
    }

    /// When `pass` ran in the newest submission, between its handing over and the end of the wait for it, in nanoseconds
    /// of CLOCK_MONOTONIC. [`Span::NONE`] if it was not recorded in it, beyond the passes that the lane was made for, or
    /// on a device without a clock.
    ///
    /// Passes that overlap on the device count from where the one before ended.
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
        // No time limit: kernel drivers reset a device that hangs, which ends the wait with a loss.
        // SAFETY: the semaphore is a live timeline, and a submission that signals the value is under way.
        let result = unsafe { device.wait_semaphores(&info, u64::MAX) }.during("vkWaitSemaphores");
        if result.is_err() {
            // Callers may drop what they recorded once this returns, so the work itself must have ended.
            self.gpu.wait_idle();
        }
        self.gpu.noticing_loss(result)
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
        .queue_family_index(gpu.queue_family());
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
