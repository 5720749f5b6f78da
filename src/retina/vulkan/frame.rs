//! A whole frame where the device can read it.

use std::sync::Arc;

use super::detect::PlanePlace;
use super::sample::count;
use crate::frame::{FrameKind, FrameView};
use crate::gpu::{Buffer, BufferKind, Gpu, GpuError};

/// Rows begin at multiples of so many bytes, the shader's words.
const ROW_ALIGNMENT: usize = 4;

/// Mapped memory for the samples of one frame.
#[derive(Debug)]
pub(super) struct FrameStaging {
    samples: Buffer,
    kind: FrameKind,
    planes: [PlanePlace; 3],
}

impl FrameStaging {
    /// Room for frames of `kind`.
    pub(super) fn new(gpu: &Arc<Gpu>, kind: FrameKind) -> Result<Self, GpuError> {
        let mut size = 0;
        let planes = std::array::from_fn(|index| {
            if kind.format.plane_count() <= index {
                return PlanePlace::default();
            }
            let (row_bytes, rows) = (kind.row_bytes(index), kind.rows(index));
            let stride = row_bytes.next_multiple_of(ROW_ALIGNMENT);
            let first_byte = size;
            size += stride * rows;
            let [first_byte, stride, row_bytes, rows] =
                [first_byte, stride, row_bytes, rows].map(count);
            PlanePlace { first_byte, stride, row_bytes, rows }
        });
        let samples = Buffer::new(gpu, "frame", BufferKind::HostWritten, size)?;
        Ok(Self { samples, kind, planes })
    }

    /// Copies the samples of `frame`; without its padding, if it has any.
    pub(super) fn upload(&mut self, frame: &FrameView<'_>) {
        let memory = self.samples.mapped::<u8>();
        for (index, place) in self.planes.iter().enumerate().take(self.kind.format.plane_count()) {
            let (row_bytes, rows) = (self.kind.row_bytes(index), self.kind.rows(index));
            let stride = place.stride as usize;
            let target = &mut memory[place.first_byte as usize..][..stride * rows];
            let source = frame.plane(index);
            if source.stride == stride {
                let len = stride * (rows - 1) + row_bytes;
                target[..len].copy_from_slice(&source.bytes[..len]);
            } else {
                for (y, target) in target.chunks_exact_mut(stride).enumerate() {
                    target[..row_bytes].copy_from_slice(source.row(y, row_bytes));
                }
            }
        }
    }

    /// The samples that were uploaded.
    pub(super) fn samples(&self) -> &Buffer {
        &self.samples
    }

    /// Where they lie.
    pub(super) fn planes(&self) -> [PlanePlace; 3] {
        self.planes
    }

    /// Bytes of the samples of a frame.
    pub(super) fn frame_bytes(&self) -> u64 {
        let plane_bytes = |index| (self.kind.row_bytes(index) * self.kind.rows(index)) as u64;
        (0..self.kind.format.plane_count()).map(plane_bytes).sum()
    }
}
