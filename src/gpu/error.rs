//! What can go wrong with a device.

use ash::vk;

/// An operating error: the device or the driver refused, and the caller decides what to do.
/// Misuse of this module is a bug and panics instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The Vulkan loader is not installed, or does not load.
    #[error(
        "the Vulkan loader cannot be opened; install the Debian packages libvulkan1 and mesa-vulkan-drivers"
    )]
    LoaderMissing {
        /// The dynamic linker's reason.
        #[source]
        source: ash::LoadingError,
    },

    /// There is a loader, but no driver under it.
    #[error("no Vulkan driver is installed; Debian's package for most GPUs is mesa-vulkan-drivers")]
    DriverMissing,

    /// Validation was asked for and its layer is not installed.
    #[error(
        "validation was asked for, but its layer is not installed; install the Debian package vulkan-validationlayers"
    )]
    ValidationLayerMissing,

    /// No device fits the choice.
    #[error(
        "no usable Vulkan device{wanted}; found: {found}. Name one of them with `device`, or use the CPU backend"
    )]
    NoDevice {
        /// What was asked for, as the middle of the sentence.
        wanted: String,
        /// Every device, and why it was not taken.
        found: String,
    },

    /// A resource exceeds a limit of the device.
    #[error(
        "{resource:?} takes {needed} {unit}, and this device allows {limit}; use a smaller source or the CPU backend"
    )]
    TooLarge {
        /// Debug name of the resource.
        resource: String,
        /// What it takes.
        needed: u64,
        /// What the device allows.
        limit: u64,
        /// Unit of both.
        unit: &'static str,
    },

    /// The driver reset or lost the device; everything created from it is gone.
    #[error("device lost during {during}")]
    DeviceLost {
        /// The operation that noticed.
        during: &'static str,
    },

    /// A Vulkan call failed.
    #[error("{call} failed: {result}")]
    Vulkan {
        /// Name of the call, such as `vkCreateBuffer`.
        call: &'static str,
        /// What the driver returned.
        result: vk::Result,
    },

    /// Memory for a named resource could not be had.
    #[error("no memory for {resource:?}")]
    OutOfMemory {
        /// Debug name of the resource.
        resource: String,
        /// The allocator's reason.
        #[source]
        source: gpu_allocator::AllocationError,
    },
}

/// Adds the name of the failed call to a `VkResult`.
pub(super) trait VkResultExt<T> {
    /// Names the call whose result this is.
    fn during(self, call: &'static str) -> Result<T, GpuError>;
}

impl<T> VkResultExt<T> for ash::prelude::VkResult<T> {
    fn during(self, call: &'static str) -> Result<T, GpuError> {
        self.map_err(|result| match result {
            vk::Result::ERROR_DEVICE_LOST => GpuError::DeviceLost { during: call },
            result => GpuError::Vulkan { call, result },
        })
    }
}
