//! A whole frame that the device can read: imported pages, or a copy.

use std::sync::Arc;

use super::detect::PlanePlace;
use super::sample::count;
use foveate_core::frame::{FrameKind, FrameView, Plane};
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, HostBuffer};

/// Alignment of rows in bytes: the shader reads words.
const ROW_ALIGNMENT: usize = 4;

/// Makes frames readable by the device. Their pages are imported for the time of a submission; if that is not possible,
/// the samples are copied to mapped memory.
#[derive(Debug)]
pub(super) struct FrameStaging {
    samples: Buffer,
    kind: FrameKind,
    /// Location of each plane in `samples`.
    planes: [PlanePlace; 3],
    /// Whether imports have worked so far. One failure is enough to stop trying, as all frames of a source have the same layout.
    lends: bool,
    gpu: Arc<Gpu>,
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
        Ok(Self { samples, kind, planes, lends: true, gpu: Arc::clone(gpu) })
    }

    /// Copies every frame.
    pub(super) fn copy_all(&mut self) {
        self.lends = false;
    }

    /// Makes `frame` readable by the device, and returns the locations of its planes, and its pages unless it was copied.
    pub(super) fn show<'a>(
        &mut self,
        frame: &FrameView<'a>,
    ) -> (Option<HostBuffer<'a>>, [PlanePlace; 3]) {
        let planes = std::array::from_fn(|index| self.plane_bytes(frame, index));
        let lent = self.lends.then(|| self.lend(planes)).flatten();
        self.lends = lent.is_some();
        let Some(lent) = lent else {
            self.copy(frame);
            return (None, self.planes);
        };
        let places = std::array::from_fn(|index| {
            if self.kind.format.plane_count() <= index {
                return PlanePlace::default();
            }
            let first_byte = count(lent.offset_of(planes[index]));
            let stride = count(frame.plane(index).stride);
            PlanePlace { first_byte, stride, ..self.planes[index] }
        });
        (Some(lent), places)
    }

    /// The bytes of a plane from its first sample to its last; empty if the format has no such plane.
    fn plane_bytes<'a>(&self, frame: &FrameView<'a>, index: usize) -> &'a [u8] {
        if self.kind.format.plane_count() <= index {
            return &[];
        }
        let Plane { bytes, stride } = frame.plane(index);
        &bytes[..stride * (self.kind.rows(index) - 1) + self.kind.row_bytes(index)]
    }

    fn lend<'a>(&self, planes: [&'a [u8]; 3]) -> Option<HostBuffer<'a>> {
        HostBuffer::import(&self.gpu, "camera frame", &planes[..self.kind.format.plane_count()])
    }

    /// Copies the samples of `frame` without padding.
    fn copy(&mut self, frame: &FrameView<'_>) {
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

    /// The memory that the device reads a frame from whose `pages` were lent, or that was copied.
    pub(super) fn memory<'a>(&'a self, pages: Option<&'a HostBuffer<'_>>) -> &'a Buffer {
        pages.map_or(&self.samples, HostBuffer::buffer)
    }

    /// Bytes of samples that are copied for a frame.
    pub(super) fn frame_bytes(&self) -> u64 {
        let plane_bytes = |index| (self.kind.row_bytes(index) * self.kind.rows(index)) as u64;
        (0..self.kind.format.plane_count()).map(plane_bytes).sum()
    }
}
