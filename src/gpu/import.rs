//! Buffers over memory of this process, which the device reads where it lies (`VK_EXT_external_memory_host`).

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

/// What a device that imports memory does it with.
pub(super) struct HostImports {
    functions: ash::ext::external_memory_host::Device,
    /// Bits of the memory types that need no flushing.
    coherent_types: u32,
}

impl HostImports {
    /// The imports of a device that was opened with the extension.
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

    /// Bits of the memory types that the pages may be imported as.
    fn memory_types(&self, pages: *mut c_void) -> Result<u32, GpuError> {
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let call = self.functions.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the device has the extension, and the pages are aligned and this process's.
        let result = unsafe { call(self.functions.device(), HANDLE_TYPE, pages, &mut properties) };
        result.result_with_success(()).during("vkGetMemoryHostPointerPropertiesEXT")?;
        Ok(properties.memory_type_bits & self.coherent_types)
    }
}

/// Whether a device that has the extension imports single pages for storage buffers.
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

/// The pages around some memory of this process, for the device to read for as long as this lives.
#[derive(Debug)]
pub struct HostBuffer<'a> {
    buffer: Buffer,
    /// Address of the first page.
    start: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> HostBuffer<'a> {
    /// Hands the pages around `parts` to the device. `None` where that cannot be: without the extension, where there are
    /// other pages between the parts, where the kernel does not let a device have the pages (they are not writable, or
    /// are themselves a device's), or where the driver refuses. The reason is logged.
    ///
    /// The memory must be this process's own, or shared with whoever writes it. Pages of a private mapping of a file would
    /// be parted from the file.
    ///
    /// # Panics
    ///
    /// If there are more than four parts.
    pub fn import(gpu: &Arc<Gpu>, name: &str, parts: &[&'a [u8]]) -> Option<Self> {
        let imports = gpu.host_imports()?;
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
            Ok(None) => tracing::info!(name, "the pages of this memory are none for a device"),
            Err(error) => tracing::info!(name, %error, "the driver does not import this memory"),
        }
        None
    }

    /// Where `part`, one of those that were imported, begins in the buffer, in bytes.
    pub fn offset_of(&self, part: &[u8]) -> usize {
        let offset = part.as_ptr().addr().checked_sub(self.start);
        offset.filter(|offset| offset + part.len() <= self.buffer.size()).expect("an imported part")
    }

    /// The pages as passes bind them, to read.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// The addresses of the pages that `parts` lie in; `None` if there are pages between them that hold nothing of them, which
/// may not even be mapped.
fn pages_around(parts: &[&[u8]]) -> Option<Range<usize>> {
    let page = page_size();
    let pages_of = |part: &&[u8]| {
        // The device is given an address, and reads all that lies there.
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

/// Whether the kernel would let a device have these pages for good: they are writable and ordinary. Drivers that import
/// pages pin them so, some of them only with the first submission, which is then lost with the device.
fn can_be_pinned(start: *mut c_void, len: usize) -> bool {
    // SAFETY: the pages hold memory that is borrowed, and so are mapped; making them present changes no byte of it.
    unsafe { madvise(start, len, Advice::LinuxPopulateWrite) }.is_ok()
}
