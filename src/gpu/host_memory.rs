//! Support of a device for `VK_EXT_external_memory_host`.

use std::ffi::c_void;

use ash::vk;
use rustix::param::page_size;

use super::error::{GpuError, VkResultExt};
use super::instance::Instance;

const HANDLE_TYPE: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// Import functions of an open device.
pub(super) struct HostImports {
    functions: ash::ext::external_memory_host::Device,
    /// Bits of the host-coherent memory types.
    coherent_types: u32,
}

impl HostImports {
    /// The device must have been opened with the extension.
    pub(super) fn new(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
    ) -> Self {
        // SAFETY: the device was enumerated from this instance.
        let memory = unsafe { instance.raw.get_physical_device_memory_properties(physical) };
        let is_coherent = |kind: &vk::MemoryType| {
            kind.property_flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT)
        };
        let types = memory.memory_types_as_slice().iter().enumerate();
        let coherent_types = types
            .filter(|(_, kind)| is_coherent(kind))
            .fold(0, |bits, (index, _)| bits | 1 << index);
        let functions = ash::ext::external_memory_host::Device::new(&instance.raw, device);
        Self { functions, coherent_types }
    }

    /// Bits of the memory types as which the pages may be imported.
    pub(super) fn memory_types(&self, pages: *mut c_void) -> Result<u32, GpuError> {
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let call = self.functions.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the device has the extension, and the pages are aligned and this process's.
        let result = unsafe { call(self.functions.device(), HANDLE_TYPE, pages, &mut properties) };
        result.result_with_success(()).during("vkGetMemoryHostPointerPropertiesEXT")?;
        Ok(properties.memory_type_bits & self.coherent_types)
    }
}

/// Whether a device with the extension can import single pages as storage buffers.
pub(super) fn can_import(instance: &Instance, device: vk::PhysicalDevice) -> bool {
    let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
    // SAFETY: the device was enumerated from this instance, and has the extension.
    unsafe { instance.raw.get_physical_device_properties2(device, &mut properties) };
    let info = vk::PhysicalDeviceExternalBufferInfo::default()
        .usage(vk::BufferUsageFlags::STORAGE_BUFFER)
        .handle_type(HANDLE_TYPE);
    let mut buffers = vk::ExternalBufferProperties::default();
    // SAFETY: the device was enumerated from this instance and is of Vulkan 1.1 or later.
    unsafe {
        instance.raw.get_physical_device_external_buffer_properties(device, &info, &mut buffers);
    };
    let features = buffers.external_memory_properties.external_memory_features;
    let alignment = host.min_imported_host_pointer_alignment;
    features.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
        && 0 < alignment
        && (page_size() as u64).is_multiple_of(alignment)
}
