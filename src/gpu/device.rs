//! The device of the process, its queue and its memory.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationSizes, AllocatorDebugSettings};
use parking_lot::Mutex;

use super::choice::{DeviceCandidate, DeviceSummary, candidates, choose};
use super::clock::DeviceClock;
use super::error::{GpuError, VkResultExt};
use super::faults::Faults;
use super::host_memory::HostImports;
use super::instance::{
    Instance, ValidationLog, lock_for_destruction, lock_for_naming, with_shared,
};

/// Size of the first blocks of memory taken from the driver, and of the largest; larger resources get memory of their own.
const BLOCK_BYTES: u64 = 8 << 20;
const LARGEST_BLOCK_BYTES: u64 = 64 << 20;

/// Pause before a wait that failed is tried again.
const IDLE_RETRY: Duration = Duration::from_millis(10);

/// Whether `FOVEATE_VALIDATION=1` is set.
fn is_validation_asked_for() -> bool {
    std::env::var_os("FOVEATE_VALIDATION").is_some_and(|value| value == "1")
}

/// The devices of this machine, usable or not, in the driver's order.
///
/// # Errors
///
/// If there is no Vulkan loader or driver.
pub fn devices() -> Result<Vec<DeviceSummary>, GpuError> {
    with_shared(is_validation_asked_for(), |instance| {
        Ok(candidates(instance)?.into_iter().map(|candidate| candidate.summary).collect())
    })
}

/// The device that [`Gpu::open`] would open for `name`.
///
/// # Errors
///
/// If Vulkan is not installed, or no device fits.
pub fn chosen_device(name: Option<&str>) -> Result<DeviceSummary, GpuError> {
    with_shared(is_validation_asked_for(), |instance| {
        Ok(choose(candidates(instance)?, name)?.summary)
    })
}

/// An open device, shared by all streams of the process in an [`Arc`].
pub struct Gpu {
    device: ash::Device,
    /// The only queue; locked only for submission.
    queue: Mutex<vk::Queue>,
    pub(super) queue_family: u32,
    /// `Some` until `drop`.
    allocator: Mutex<Option<Allocator>>,
    limits: vk::PhysicalDeviceLimits,
    summary: DeviceSummary,
    /// `None` without validation, whose messages name objects.
    names: Option<ash::ext::debug_utils::Device>,
    /// `None` if the queue has no timestamps.
    pub(super) clock: Option<DeviceClock>,
    /// `None` if the device cannot import host memory.
    pub(super) host_imports: Option<HostImports>,
    /// Compiled passes: with drivers that cache in memory, equal passes of the next stream compile at once.
    pub(super) pipelines: vk::PipelineCache,
    is_lost: AtomicBool,
    pub(super) faults: Faults,
    submission_count: AtomicU64,
    instance: Arc<Instance>,
}

impl Gpu {
    /// Opens the first usable device whose name contains `name`, ignoring case; it may be a software device. Without a name, opens a
    /// real GPU: discrete before integrated before virtual, never software. [Validates](Self::open_validated) if
    /// `FOVEATE_VALIDATION=1` is set.
    ///
    /// # Errors
    ///
    /// If Vulkan is not installed, no device fits, or the driver refuses.
    pub fn open(name: Option<&str>) -> Result<Arc<Self>, GpuError> {
        with_shared(is_validation_asked_for(), |instance| Self::open_on(instance, name))
    }

    /// Opens a device as [`open`](Self::open) does, with validation of Vulkan calls, including synchronization: all warnings and errors are
    /// logged and counted. Slow.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if the validation layer is not installed.
    pub fn open_validated(name: Option<&str>) -> Result<Arc<Self>, GpuError> {
        with_shared(true, |instance| Self::open_on(instance, name))
    }

    fn open_on(instance: &Arc<Instance>, name: Option<&str>) -> Result<Arc<Self>, GpuError> {
        let candidate = choose(candidates(instance)?, name)?;
        let device = create_device(instance, &candidate)?;
        let (allocator, pipelines) = create_allocator(instance, &device, &candidate)
            .and_then(|allocator| Ok((allocator, create_pipeline_cache(&device)?)))
            // SAFETY: all objects of the device were destroyed, and this is its last owner.
            .inspect_err(|_| unsafe { device.destroy_device(None) })?;
        // SAFETY: the device was created with one queue of this family.
        let queue = unsafe { device.get_device_queue(candidate.queue_family(), 0) };
        let names = instance
            .validation_log()
            .map(|_| ash::ext::debug_utils::Device::new(&instance.raw, &device));
        let clock = candidate
            .ticks
            .map(|ticks| DeviceClock::new(instance, &device, ticks, candidate.calibrates));
        let host_imports =
            candidate.imports_host.then(|| HostImports::new(instance, candidate.raw, &device));
        Ok(Arc::new(Self {
            device,
            queue: Mutex::new(queue),
            queue_family: candidate.queue_family(),
            allocator: Mutex::new(Some(allocator)),
            limits: candidate.limits,
            summary: candidate.summary,
            names,
            clock,
            host_imports,
            pipelines,
            is_lost: AtomicBool::new(false),
            faults: Faults::from_env(),
            submission_count: AtomicU64::new(0),
            instance: Arc::clone(instance),
        }))
    }

    /// The device, as its driver describes it.
    pub fn summary(&self) -> &DeviceSummary {
        &self.summary
    }

    /// The messages of the validation layer about all validated devices of this process, if enabled. The log outlives the device, as
    /// some messages are about objects leaked by the device.
    pub fn validation_log(&self) -> Option<Arc<ValidationLog>> {
        self.instance.validation_log().cloned()
    }

    /// Whether the device was lost, which is permanent: it has to be opened again.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    pub(super) fn raw(&self) -> &ash::Device {
        &self.device
    }

    /// A unique submission number.
    pub(super) fn next_submission(&self) -> u64 {
        self.submission_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Submits one command buffer.
    pub(super) fn submit(&self, submit: &vk::SubmitInfo2<'_>) -> Result<(), GpuError> {
        if self.faults.loses_submission() || self.is_lost() {
            return self.noticing_loss(Err(GpuError::DeviceLost { during: "vkQueueSubmit2" }));
        }
        let queue = self.queue.lock();
        // SAFETY: the queue is locked, and `submit` points to a finished command buffer and a live semaphore.
        let result = unsafe {
            self.device.queue_submit2(*queue, std::slice::from_ref(submit), vk::Fence::null())
        };
        drop(queue);
        self.noticing_loss(result.during("vkQueueSubmit2"))
    }

    /// Waits for the work of all lanes, after the work of one failed. Afterwards the device uses no resource, even if it is lost: Vulkan then
    /// ends the wait with `DEVICE_LOST`. After another error, such as a driver without memory, it waits again.
    pub(super) fn wait_idle(&self) {
        let mut is_logged = false;
        while let Err(error) = self.try_wait_idle()
            && error != vk::Result::ERROR_DEVICE_LOST
        {
            if !std::mem::replace(&mut is_logged, true) {
                tracing::warn!(%error, "cannot wait for the GPU to become idle yet");
            }
            thread::sleep(IDLE_RETRY);
        }
    }

    fn try_wait_idle(&self) -> Result<(), vk::Result> {
        let _queue = self.queue.lock();
        // SAFETY: the device's only queue is locked.
        unsafe { self.device.device_wait_idle() }
    }

    /// Passes a result on, and records a device loss.
    pub(super) fn noticing_loss<T>(&self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        if let Err(GpuError::DeviceLost { .. }) = result {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        result
    }

    pub(super) fn check_buffer_size(&self, name: &str, needed: u64) -> Result<(), GpuError> {
        self.check_limit(name, needed, self.limits.max_storage_buffer_range, "bytes")
    }

    pub(super) fn check_image_side(&self, name: &str, needed: u32) -> Result<(), GpuError> {
        self.check_limit(name, needed.into(), self.limits.max_image_dimension2_d, "texels a side")
    }

    fn check_limit(
        &self,
        name: &str,
        needed: u64,
        limit: u32,
        unit: &'static str,
    ) -> Result<(), GpuError> {
        let limit = u64::from(limit);
        if needed <= limit {
            return Ok(());
        }
        Err(GpuError::TooLarge { resource: name.to_owned(), needed, limit, unit })
    }

    pub(super) fn allocate(&self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation, GpuError> {
        let mut allocator = self.allocator.lock();
        let allocator = allocator.as_mut().expect("the allocator lives as long as the device");
        allocator
            .allocate(desc)
            .map_err(|source| GpuError::OutOfMemory { resource: desc.name.to_owned(), source })
    }

    /// Device memory reserved by this process, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.allocator.lock().as_ref().map_or(0, Allocator::capacity)
    }

    pub(super) fn free(&self, allocation: Allocation) {
        let mut allocator = self.allocator.lock();
        let allocator = allocator.as_mut().expect("the allocator lives as long as the device");
        if let Err(error) = allocator.free(allocation) {
            // Called by destructors, which cannot return errors.
            tracing::error!(%error, "freeing GPU memory failed");
        }
    }

    /// Names an object for validation messages.
    pub(super) fn set_name(&self, object: impl vk::Handle, name: &str) {
        let Some(names) = &self.names else { return };
        let Ok(name) = CString::new(name) else { return };
        let info =
            vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        let _lock = lock_for_naming();
        // SAFETY: the object belongs to this device, and the caller owns it.
        let result = unsafe { names.set_debug_utils_object_name(&info) };
        if let Err(error) = result {
            tracing::debug!(%error, "naming an object failed");
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The allocator frees its blocks, so it must be dropped before the device.
        drop(self.allocator.get_mut().take());
        // SAFETY: passes hold the device in an `Arc`, so none is being compiled.
        unsafe { self.device.destroy_pipeline_cache(self.pipelines, None) };
        let _lock = lock_for_destruction();
        // SAFETY: whatever was created from the device holds it in an `Arc`, so nothing is left.
        unsafe { self.device.destroy_device(None) };
    }
}

fn create_device(
    instance: &Instance,
    candidate: &DeviceCandidate,
) -> Result<ash::Device, GpuError> {
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(candidate.queue_family())
        .queue_priorities(&[1.0])];
    let mut features_12 = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let mut features_13 =
        vk::PhysicalDeviceVulkan13Features::default().synchronization2(true).maintenance4(true);
    let mut extensions = Vec::new();
    if candidate.calibrates {
        extensions.push(ash::ext::calibrated_timestamps::NAME.as_ptr());
    }
    if candidate.imports_host {
        extensions.push(ash::ext::external_memory_host::NAME.as_ptr());
    }
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut features_12)
        .push_next(&mut features_13);
    // SAFETY: `info` is valid: a usable candidate has the queue family, the features and the extensions.
    unsafe { instance.raw.create_device(candidate.raw, &info, None) }.during("vkCreateDevice")
}

fn create_pipeline_cache(device: &ash::Device) -> Result<vk::PipelineCache, GpuError> {
    let info = vk::PipelineCacheCreateInfo::default();
    // SAFETY: `info` is valid.
    unsafe { device.create_pipeline_cache(&info, None) }.during("vkCreatePipelineCache")
}

fn create_allocator(
    instance: &Instance,
    device: &ash::Device,
    candidate: &DeviceCandidate,
) -> Result<Allocator, GpuError> {
    Allocator::new(&AllocatorCreateDesc {
        instance: instance.raw.clone(),
        device: device.clone(),
        physical_device: candidate.raw,
        debug_settings: AllocatorDebugSettings::default(),
        buffer_device_address: false,
        allocation_sizes: AllocationSizes::new(BLOCK_BYTES, BLOCK_BYTES)
            .with_max_device_memblock_size(LARGEST_BLOCK_BYTES)
            .with_max_host_memblock_size(LARGEST_BLOCK_BYTES),
    })
    .map_err(|source| GpuError::OutOfMemory { resource: "allocator".to_owned(), source })
}
