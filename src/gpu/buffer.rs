//! Buffers.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use ash::vk;
use bytemuck::Pod;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};

use super::access::History;
use super::device::Gpu;
use super::error::{GpuError, VkResultExt};

/// What a buffer is for. All can be storage buffers of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Mapped, written by the CPU in order and read by the device once; in device memory that the CPU can reach,
    /// where there is some. The device may write it too, before the CPU does so again. May hold the
    /// [numbers of workgroups](super::Groups::From) of a pass.
    HostWritten,
    /// Out of the CPU's reach.
    DeviceOnly,
    /// Mapped, written by the device and read by the CPU: cached.
    Readback,
}

impl BufferKind {
    fn usage(self) -> vk::BufferUsageFlags {
        let storage = vk::BufferUsageFlags::STORAGE_BUFFER;
        match self {
            Self::HostWritten => storage | vk::BufferUsageFlags::INDIRECT_BUFFER,
            Self::DeviceOnly => storage | vk::BufferUsageFlags::TRANSFER_SRC,
            Self::Readback => storage | vk::BufferUsageFlags::TRANSFER_DST,
        }
    }

    fn location(self) -> MemoryLocation {
        match self {
            Self::HostWritten => MemoryLocation::CpuToGpu,
            Self::DeviceOnly => MemoryLocation::GpuOnly,
            Self::Readback => MemoryLocation::GpuToCpu,
        }
    }
}

/// A Vulkan buffer and the memory behind it.
///
/// Dropping it destroys both. That is sound because [`Lane::run`](super::Lane::run) borrows what it records and
/// returns only when the device has finished with it.
pub struct Buffer {
    raw: vk::Buffer,
    /// `Some` until `drop`.
    allocation: Option<Allocation>,
    size: usize,
    kind: BufferKind,
    history: Cell<History>,
    gpu: Arc<Gpu>,
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
        let mut buffer = Self { raw, allocation: None, size, kind, history, gpu };
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
        let allocation = self.allocation.insert(allocation);
        // SAFETY: the allocation outlives the binding: `drop` frees it after the buffer.
        let memory = unsafe { allocation.memory() };
        // SAFETY: the memory was allocated for this buffer's requirements and is not yet bound.
        unsafe { device.bind_buffer_memory(self.raw, memory, allocation.offset()) }
            .during("vkBindBufferMemory")
    }

    /// Size in bytes, as asked for.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What it is for.
    pub fn kind(&self) -> BufferKind {
        self.kind
    }

    /// The mapped memory, to write (never to read, it may be uncached) or, of a readback buffer, to read.
    /// Exclusive, so nothing can be recorded or running that uses the buffer.
    ///
    /// # Panics
    ///
    /// If the buffer is out of the CPU's reach, or its size is no multiple of `T`'s.
    pub fn mapped<T: Pod>(&mut self) -> &mut [T] {
        let size = self.size;
        let memory = self.allocation.as_mut().and_then(Allocation::mapped_slice_mut);
        let memory = memory.expect("only buffers that the CPU reaches are asked for their memory");
        bytemuck::cast_slice_mut(&mut memory[..size])
    }

    pub(super) fn raw(&self) -> vk::Buffer {
        self.raw
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn history(&self) -> &Cell<History> {
        &self.history
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
        if let Some(allocation) = self.allocation.take() {
            self.gpu.free(allocation);
        }
    }
}
