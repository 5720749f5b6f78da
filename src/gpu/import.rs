//! Buffers over memory of this process that the device reads or writes in place (`VK_EXT_external_memory_host`).

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::buffer::{Buffer, BufferKind};
use super::device::Gpu;
use super::error::GpuError;

/// Most parts of one buffer.
const PARTS_MAX: usize = 4;

/// Pages of this process's memory, readable by the device while this lives.
#[derive(Debug)]
pub struct HostBuffer<'a> {
    buffer: Buffer,
    /// Address of the first page.
    start: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> HostBuffer<'a> {
    /// Imports the pages that contain `parts`. `None` if the device has no such extension, and, with the reason logged, if other pages
    /// lie between the parts, the kernel cannot pin the pages (they are read-only or a device's own), or the driver refuses.
    ///
    /// The memory must be private to this process, or shared with its writer. Pages of a private file mapping would be copied, and
    /// no longer follow the file.
    ///
    /// # Panics
    ///
    /// If there are more than four parts.
    pub fn import(gpu: &Arc<Gpu>, name: &str, parts: &[&'a [u8]]) -> Option<Self> {
        gpu.host_imports.as_ref()?;
        let Some(pages) = pages_around(parts) else {
            tracing::info!(name, "other pages lie between the parts of this memory");
            return None;
        };
        let start = pages.start;
        // SAFETY: the pages hold memory that is borrowed for longer than the buffer lives.
        let buffer = unsafe { import(gpu, name, BufferKind::Imported, pages) }?;
        Some(Self { buffer, start, memory: PhantomData })
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

/// Words of this process's memory that the device writes in place while this lives. Others may read them meanwhile.
#[derive(Debug)]
pub struct HostTarget<M> {
    // First, so that the device has let go of the memory before its owner may.
    buffer: Buffer,
    _memory: Arc<M>,
}

impl<M: AsRef<[UnsafeCell<u64>]>> HostTarget<M> {
    /// Imports the words of `memory`. `None` if the device has no such extension, and, with the reason logged, if the words do not begin
    /// with a page, the kernel cannot pin their pages, or the driver refuses.
    pub fn import(gpu: &Arc<Gpu>, name: &str, memory: Arc<M>) -> Option<Self> {
        gpu.host_imports.as_ref()?;
        let words: &[UnsafeCell<u64>] = (*memory).as_ref();
        let start = words.as_ptr().expose_provenance();
        if words.is_empty() || !start.is_multiple_of(page_size()) {
            tracing::info!(name, "this memory does not begin with a page");
            return None;
        }
        let bytes = start..start + size_of_val(words);
        // SAFETY: the owner of the words outlives the buffer, and cannot be borrowed mutably meanwhile.
        let buffer = unsafe { import(gpu, name, BufferKind::ImportedTarget, bytes) }?;
        Some(Self { buffer, _memory: memory })
    }

    /// The buffer over the words, which passes may write.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// Imports the bytes at these addresses, from the start of a page on; `None`, with the reason logged, if that is impossible.
///
/// # Safety
///
/// They must be memory of this process that outlives the buffer, and whose addresses were exposed.
unsafe fn import(
    gpu: &Arc<Gpu>,
    name: &str,
    kind: BufferKind,
    bytes: Range<usize>,
) -> Option<Buffer> {
    let imports = gpu.host_imports.as_ref()?;
    let import = || -> Result<Option<Buffer>, GpuError> {
        gpu.check_buffer_size(name, bytes.len() as u64)?;
        let start = with_exposed_provenance_mut(bytes.start);
        if !can_be_pinned(start, bytes.len()) {
            return Ok(None);
        }
        let memory_types = imports.memory_types(start)?;
        Buffer::over_host_memory(gpu, name, kind, start, bytes.len(), memory_types).map(Some)
    };
    match import() {
        Ok(Some(buffer)) => return Some(buffer),
        Ok(None) => {
            tracing::info!(name, "cannot pin the pages of this memory for a device")
        }
        Err(error) => tracing::info!(name, %error, "the driver rejects this memory"),
    }
    None
}

/// Addresses of the pages that contain `parts`; `None` if there are other pages in between, which may not even be mapped.
fn pages_around(parts: &[&[u8]]) -> Option<Range<usize>> {
    let page = page_size();
    let pages_of = |part: &&[u8]| {
        // The device gets an address, and reads all that lies there.
        let start = part.as_ptr().expose_provenance();
        start / page * page..(start + part.len()).next_multiple_of(page)
    };
    let mut ranges: [Range<usize>; PARTS_MAX] = Default::default();
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
