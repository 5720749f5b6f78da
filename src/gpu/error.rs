//! GPU errors.

use ash::vk;

/// An operating error: the device or driver failed, and the caller decides what to do. Misuse of this crate is a bug and panics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The Vulkan loader is missing or cannot be loaded.
    #[error(
        "cannot open the Vulkan loader; install the Debian packages libvulkan1 and mesa-vulkan-drivers"
    )]
    LoaderMissing {
        /// The dynamic linker's reason.
        #[source]
        source: ash::LoadingError,
    },

    /// The loader has no driver.
    #[error("no Vulkan driver is installed; Debian's package for most GPUs is mesa-vulkan-drivers")]
    DriverMissing,

    /// Validation was requested, but its layer is not installed.
    #[error(
        "validation was requested, but its layer is not installed; install the Debian package vulkan-validationlayers"
    )]
    ValidationLayerMissing,

    /// No device fits the choice.
    #[error(
        "no usable Vulkan device{wanted}; found: {found}. Name one of them with `device`, or use the CPU backend"
    )]
    NoDevice {
        /// The requirement, as part of the sentence.
        wanted: String,
        /// All devices, and why each was rejected.
        found: String,
    },

    /// A resource exceeds a limit of the device.
    #[error(
        "{resource:?} is too large for this device: {needed} {unit} (expected at most {limit}); use a smaller one, or the CPU backend"
    )]
    TooLarge {
        /// Debug name of the resource.
        resource: String,
        /// Size of the resource.
        needed: u64,
        /// The device's limit.
        limit: u64,
        /// Unit of both.
        unit: &'static str,
    },

    /// The driver reset or lost the device; everything created from it is gone.
    #[error("device lost during {during}")]
    DeviceLost {
        /// The operation that reported it.
        during: &'static str,
    },

    /// A Vulkan call failed.
    #[error("{call} failed: {result}")]
    Vulkan {
        /// Name of the call, such as `vkCreateBuffer`.
        call: &'static str,
        /// The driver's result.
        result: vk::Result,
    },

    /// Allocating memory for a resource failed.
    #[error("cannot allocate {resource:?}")]
    OutOfMemory {
        /// Debug name of the resource.
        resource: String,
        /// The allocator's error.
        #[source]
        source: gpu_allocator::AllocationError,
    },
}

/// Adds the name of the failed call to a `VkResult`.
pub(super) trait VkResultExt<T> {
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
