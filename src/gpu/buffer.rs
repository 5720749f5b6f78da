//! Buffers.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use ash::vk;
use bytemuck::Pod;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use rustix::param::page_size;

use super::access::AccessHistory;
use super::device::Gpu;
use super::error::{GpuError, VkResultExt};

/// Purpose of a buffer; all kinds can be storage buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Mapped, written sequentially by the CPU and read by the device, mostly once; in device memory that the CPU can reach where
    /// there is some. The device may write it too, before the CPU's next write. May hold the
    /// [workgroup counts](super::Groups::From) of a pass.
    HostWritten,
    /// Memory that only the device accesses.
    DeviceOnly,
    /// Mapped and cached memory of the CPU, written by the device and read by the CPU.
    Readback,
    /// Imported host memory, read by the device: that of a [`HostBuffer`](super::HostBuffer).
    Imported,
    /// Imported host memory, written by the device: that of a [`HostTarget`](super::HostTarget).
    ImportedTarget,
}

impl BufferKind {
    fn usage(self) -> vk::BufferUsageFlags {
        let storage = vk::BufferUsageFlags::STORAGE_BUFFER;
        match self {
            Self::HostWritten => storage | vk::BufferUsageFlags::INDIRECT_BUFFER,
            Self::DeviceOnly | Self::Readback => {
                storage | vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST
            }
            Self::Imported | Self::ImportedTarget => storage,
        }
    }

    fn location(self) -> MemoryLocation {
        match self {
            Self::HostWritten => MemoryLocation::CpuToGpu,
            Self::DeviceOnly => MemoryLocation::GpuOnly,
            Self::Readback => MemoryLocation::GpuToCpu,
            Self::Imported | Self::ImportedTarget => {
                unreachable!("imported memory is not allocated")
            }
        }
    }
}

/// A Vulkan buffer and its memory.
///
/// Dropping it destroys both, which is sound because [`Lane::run`](super::Lane::run) borrows what it records and returns only
/// when the device has finished with it.
pub struct Buffer {
    pub(super) raw: vk::Buffer,
    memory: BufferMemory,
    size: usize,
    kind: BufferKind,
    pub(super) history: Cell<AccessHistory>,
    pub(super) gpu: Arc<Gpu>,
}

enum BufferMemory {
    None,
    Allocated(Allocation),
    /// Pages of this process.
    Imported(vk::DeviceMemory),
}

impl Buffer {
    /// Creates a buffer of `size` bytes; `name` shows up in captures and error messages.
    ///
    /// # Errors
    ///
    /// If it exceeds the device's limit, or there is no memory.
    pub fn new(
        gpu: &Arc<Gpu>,
        name: &str,
        kind: BufferKind,
        size: usize,
    ) -> Result<Self, GpuError> {
        assert!(0 < size, "{name}: empty buffers are not valid in Vulkan");
        gpu.check_buffer_size(name, size as u64)?;

        let info = vk::BufferCreateInfo::default().size(size as u64).usage(kind.usage());
        // SAFETY: `info` is valid, and the device lives as long as `gpu`.
        let raw = unsafe { gpu.raw().create_buffer(&info, None) }.during("vkCreateBuffer")?;
        // From here on `buffer` owns `raw`, so every early return cleans up.
        let gpu = Arc::clone(gpu);
        let history = Cell::default();
        let mut buffer = Self { raw, memory: BufferMemory::None, size, kind, history, gpu };
        buffer.bind_memory(name)?;
        buffer.gpu.set_name(raw, name);
        Ok(buffer)
    }

    fn bind_memory(&mut self, name: &str) -> Result<(), GpuError> {
        let device = self.gpu.raw();
        // SAFETY: `raw` was created from this device.
        let requirements = unsafe { device.get_buffer_memory_requirements(self.raw) };
        let allocation = self.gpu.allocate(&AllocationCreateDesc {
            name,
            requirements,
            location: self.kind.location(),
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        })?;
        self.memory = BufferMemory::Allocated(allocation);
        let BufferMemory::Allocated(allocation) = &self.memory else { unreachable!("just set") };
        // SAFETY: the allocation outlives the binding: `drop` frees it after the buffer.
        let memory = unsafe { allocation.memory() };
        // SAFETY: the memory was allocated for this buffer's requirements and is not yet bound.
        unsafe { device.bind_buffer_memory(self.raw, memory, allocation.offset()) }
            .during("vkBindBufferMemory")
    }

    /// A buffer over `size` bytes from `start`, the address of a page, as one of `memory_types`. The memory must outlive it, with the
    /// rest of its last page.
    pub(super) fn over_host_memory(
        gpu: &Arc<Gpu>,
        name: &str,
        kind: BufferKind,
        start: *mut c_void,
        size: usize,
        memory_types: u32,
    ) -> Result<Self, GpuError> {
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let info = vk::BufferCreateInfo::default()
            .size(size as u64)
            .usage(kind.usage())
            .push_next(&mut external);
        // SAFETY: `info` is valid, and the device lives as long as `gpu`.
        let raw = unsafe { gpu.raw().create_buffer(&info, None) }.during("vkCreateBuffer")?;
        // From here on `buffer` owns `raw`, so every early return cleans up.
        let gpu = Arc::clone(gpu);
        let history = Cell::default();
        let mut buffer = Self { raw, memory: BufferMemory::None, size, kind, history, gpu };
        buffer.import_memory(start, memory_types)?;
        buffer.gpu.set_name(raw, name);
        Ok(buffer)
    }

    fn import_memory(&mut self, start: *mut c_void, memory_types: u32) -> Result<(), GpuError> {
        let device = self.gpu.raw();
        // SAFETY: `raw` was created from this device.
        let requirements = unsafe { device.get_buffer_memory_requirements(self.raw) };
        let memory_types = requirements.memory_type_bits & memory_types;
        let refused = || GpuError::Vulkan {
            call: "vkGetBufferMemoryRequirements",
            result: vk::Result::ERROR_INVALID_EXTERNAL_HANDLE,
        };
        let pages_size = self.size.next_multiple_of(page_size()) as u64;
        if memory_types == 0 || pages_size < requirements.size {
            return Err(refused());
        }
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT)
            .host_pointer(start);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(pages_size)
            .memory_type_index(memory_types.trailing_zeros())
            .push_next(&mut import);
        // SAFETY: the pages are mapped, aligned as the device asks, and of this type.
        let memory = unsafe { device.allocate_memory(&info, None) }.during("vkAllocateMemory")?;
        self.memory = BufferMemory::Imported(memory);
        // SAFETY: the memory is of a type that the buffer takes, as large, and not yet bound; `drop` frees it after the
        // buffer.
        unsafe { device.bind_buffer_memory(self.raw, memory, 0) }.during("vkBindBufferMemory")
    }

    /// Requested size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether the memory is the device's own, as far as the driver tells.
    pub fn is_in_device_memory(&self) -> bool {
        let BufferMemory::Allocated(allocation) = &self.memory else { return false };
        allocation.memory_properties().contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
    }

    /// Purpose of the buffer.
    pub fn kind(&self) -> BufferKind {
        self.kind
    }

    /// The mapped memory: for writing only, as it may be uncached, or in a readback buffer for reading. The exclusive borrow ensures
    /// that nothing recorded or running uses the buffer.
    ///
    /// # Panics
    ///
    /// If the buffer is not mapped, or its size is not a multiple of `T`'s.
    pub fn mapped<T: Pod>(&mut self) -> &mut [T] {
        let size = self.size;
        let memory = match &mut self.memory {
            BufferMemory::Allocated(allocation) => allocation.mapped_slice_mut(),
            BufferMemory::None | BufferMemory::Imported(_) => None,
        };
        let memory = memory.expect("only mapped buffers are asked for their memory");
        bytemuck::cast_slice_mut(&mut memory[..size])
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("raw", &self.raw)
            .field("size", &self.size)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: no submission that uses `raw` is pending, as `Lane::run` waits for its own.
        unsafe { self.gpu.raw().destroy_buffer(self.raw, None) };
        match std::mem::replace(&mut self.memory, BufferMemory::None) {
            BufferMemory::None => {}
            BufferMemory::Allocated(allocation) => self.gpu.free(allocation),
            // SAFETY: the buffer that it was bound to is gone.
            BufferMemory::Imported(memory) => unsafe { self.gpu.raw().free_memory(memory, None) },
        }
    }
}
