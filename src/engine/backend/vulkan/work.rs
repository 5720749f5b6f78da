//! Work lists of passes, filled by the CPU or by an earlier pass.
//!
//! Device side: `TileList` and `TokenList` of `glsl/*.comp`

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, Groups};

/// Header of a list; the entries follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct WorkListHead {
    /// Workgroup count of the pass over the list (indirect dispatch); set only by a pass that fills the list.
    pub(super) groups: [u32; 3],
    /// Entries of the list.
    pub(super) count: u32,
}

/// A list on the device of fixed capacity.
#[derive(Debug)]
pub(super) struct WorkList<T> {
    buffer: Buffer,
    /// `None` if only the device knows.
    count: Option<u32>,
    entries: PhantomData<T>,
}

impl<T: Pod> WorkList<T> {
    /// An empty list with room for `capacity` entries.
    pub(super) fn new(gpu: &Arc<Gpu>, name: &str, capacity: usize) -> Result<Self, GpuError> {
        let size = size_of::<WorkListHead>() + capacity * size_of::<T>();
        let buffer = Buffer::new(gpu, name, BufferKind::HostWritten, size)?;
        Ok(Self { buffer, count: Some(0), entries: PhantomData })
    }

    /// Fills the list with `entries`.
    pub(super) fn fill(&mut self, entries: impl Iterator<Item = T>) {
        // Never reads from the buffer: its memory may be uncached.
        let (head, rest) = self.split();
        let mut count = 0;
        for (target, entry) in bytemuck::cast_slice_mut(rest).iter_mut().zip(entries) {
            *target = entry;
            count += 1;
        }
        *head = WorkListHead { groups: [0; 3], count };
        self.count = Some(count);
    }

    /// Empties the list, for a pass of the next submission to fill.
    pub(super) fn leave_to_device(&mut self) {
        *self.split().0 = WorkListHead { groups: [0, 0, 1], count: 0 };
        self.count = None;
    }

    /// Entries of the list; `None` if only the device knows.
    pub(super) fn count(&self) -> Option<u32> {
        self.count
    }

    /// Workgroup count of the pass over the list: `of` the number of entries, or the count in the list's header.
    pub(super) fn groups(&self, of: impl FnOnce(u32) -> u32) -> Groups<'_> {
        self.count.map_or(Groups::From(&self.buffer), |count| Groups::Count(of(count)))
    }

    /// The list as passes bind it.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn split(&mut self) -> (&mut WorkListHead, &mut [u8]) {
        let (head, rest) = self.buffer.mapped::<u8>().split_at_mut(size_of::<WorkListHead>());
        (bytemuck::from_bytes_mut(head), rest)
    }
}
