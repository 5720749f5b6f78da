//! Buffers over memory of this process that the device reads in place (`VK_EXT_external_memory_host`).

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use ash::vk;
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::buffer::Buffer;
use super::device::Gpu;
use super::error::{GpuError, VkResultExt};
use super::instance::Instance;

const HANDLE_TYPE: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// Most parts of one buffer.
const MAX_PARTS: usize = 4;

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
    fn memory_types(&self, pages: *mut c_void) -> Result<u32, GpuError> {
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

/// Pages of this process's memory, readable by the device while this lives.
#[derive(Debug)]
pub struct HostBuffer<'a> {
    buffer: Buffer,
    /// Address of the first page.
    start: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> HostBuffer<'a> {
    /// Imports the pages that contain `parts`. `None`, with the reason logged, if that is impossible: the extension is missing, other
    /// pages lie between the parts, the kernel cannot pin the pages (they are read-only or a device's own), or the driver refuses.
    ///
    /// The memory must be private to this process, or shared with its writer. Pages of a private file mapping would be copied, and
    /// no longer follow the file.
    ///
    /// # Panics
    ///
    /// If there are more than four parts.
    pub fn import(gpu: &Arc<Gpu>, name: &str, parts: &[&'a [u8]]) -> Option<Self> {
        let imports = gpu.host_imports.as_ref()?;
        let import = || -> Result<Option<Self>, GpuError> {
            let Some(pages) = pages_around(parts) else { return Ok(None) };
            gpu.check_buffer_size(name, pages.len() as u64)?;
            let start = with_exposed_provenance_mut(pages.start);
            if !can_be_pinned(start, pages.len()) {
                return Ok(None);
            }
            let memory_types = imports.memory_types(start)?;
            let buffer = Buffer::over_host_memory(gpu, name, start, pages.len(), memory_types)?;
            Ok(Some(Self { buffer, start: pages.start, memory: PhantomData }))
        };
        match import() {
            Ok(Some(imported)) => return Some(imported),
            Ok(None) => {
                tracing::info!(name, "the pages of this memory cannot be pinned for a device")
            }
            Err(error) => tracing::info!(name, %error, "the driver cannot import this memory"),
        }
        None
    }

    /// Byte offset in the buffer of `part`, one of the imported parts.
    pub fn offset_of(&self, part: &[u8]) -> usize {
        let offset = part.as_ptr().addr().checked_sub(self.start);
        offset.filter(|offset| offset + part.len() <= self.buffer.size()).expect("an imported part")
    }

    /// The buffer over the pages, read-only for passes.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// Addresses of the pages that contain `parts`; `None` if there are other pages in between, which may not even be mapped.
fn pages_around(parts: &[&[u8]]) -> Option<Range<usize>> {
    let page = page_size();
    let pages_of = |part: &&[u8]| {
        // The device gets an address, and reads all that lies there.
        let start = part.as_ptr().expose_provenance();
        start / page * page..(start + part.len()).next_multiple_of(page)
    };
    let mut ranges: [Range<usize>; MAX_PARTS] = Default::default();
    let ranges = &mut ranges[..parts.len()];
    ranges.iter_mut().zip(parts).for_each(|(range, part)| *range = pages_of(part));
    ranges.sort_unstable_by_key(|range| range.start);
    let (first, others) = ranges.split_first()?;
    others.iter().try_fold(first.clone(), |before, next| {
        (next.start <= before.end).then(|| before.start..before.end.max(next.end))
    })
}

/// Whether the kernel can pin these pages: they are writable and ordinary memory. Drivers pin imported pages, some only at the
/// first submission, and failure then loses the device.
fn can_be_pinned(start: *mut c_void, len: usize) -> bool {
    // SAFETY: the pages hold memory that is borrowed, and so are mapped; making them present changes no byte of it.
    unsafe { madvise(start, len, Advice::LinuxPopulateWrite) }.is_ok()
}
