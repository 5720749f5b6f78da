//! One frame, mapped, on its way to the frame loop.

use gstreamer as gst;
use gstreamer_video as gst_video;

use super::caps::FrameFormat;
use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameError, FrameStamp, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;

/// A frame of the source, mapped for reading. It keeps a buffer of the source until it is dropped.
#[derive(Debug)]
pub struct CapturedFrame {
    memory: gst::MappedBuffer<gst::buffer::Readable>,
    format: PixelFormat,
    extent: Extent,
    color: ColorTransform,
    planes: [PlaneLayout; 3],
    stamp: FrameStamp,
}

/// Where a plane lies in a buffer, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct PlaneLayout {
    offset: usize,
    stride: usize,
}

/// Why a buffer is no frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedBuffer {
    /// The CPU cannot read it.
    #[error("it cannot be mapped for reading")]
    NotMapped,
    /// Its rows run upwards, or its layout is none.
    #[error("its layout has a stride of {stride} bytes")]
    Stride {
        /// Bytes from one row to the next.
        stride: i32,
    },
    /// It is shorter than its caps say.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl CapturedFrame {
    /// Maps `buffer`, or a copy where others may write to it, laid out as its own VideoMeta says, or else as the caps do.
    pub(super) fn map(
        buffer: gst::Buffer,
        format: &FrameFormat,
        stamp: FrameStamp,
    ) -> Result<Self, RefusedBuffer> {
        let planes = match buffer.meta::<gst_video::VideoMeta>() {
            Some(meta) => layout(meta.offset(), meta.stride()),
            None => layout(format.info.offset(), format.info.stride()),
        }?;
        let is_shared = buffer.iter_memories().any(is_shared);
        let buffer = if is_shared {
            buffer.copy_deep().map_err(|_| RefusedBuffer::NotMapped)?
        } else {
            buffer
        };
        let memory = buffer.into_mapped_buffer_readable().map_err(|_| RefusedBuffer::NotMapped)?;
        let FrameFormat { format, extent, color, .. } = *format;
        let frame = Self { memory, format, extent, color, planes, stamp };
        frame.view()?;
        Ok(frame)
    }

    /// The samples.
    ///
    /// # Errors
    ///
    /// None for a frame that came out of a source: it was looked at before it was handed over.
    pub fn view(&self) -> Result<FrameView<'_>, FrameError> {
        let bytes = self.memory.as_slice();
        let plane = |layout: PlaneLayout| Plane {
            bytes: bytes.get(layout.offset..).unwrap_or_default(),
            stride: layout.stride,
        };
        let planes = self.planes.map(plane);
        FrameView::new(self.format, self.extent, self.color, &planes[..self.format.plane_count()])
    }

    /// Which frame it is and when it was taken.
    pub fn stamp(&self) -> FrameStamp {
        self.stamp
    }
}

/// Whether others may write to this memory while a buffer keeps it. Pools and drivers do not; but `shmsrc` finds its frames
/// in memory of another process, which it marks as not to be written, and whoever has a descriptor may map what it stands for.
fn is_shared(memory: &gst::MemoryRef) -> bool {
    // A part of a memory is never to be written.
    let whole = memory.parent().unwrap_or(memory);
    whole.flags().contains(gst::MemoryFlags::READONLY)
        || ["fd", "dmabuf", "shm"].into_iter().any(|kind| memory.is_type(kind))
}

fn layout(offsets: &[usize], strides: &[i32]) -> Result<[PlaneLayout; 3], RefusedBuffer> {
    let mut planes = [PlaneLayout::default(); 3];
    for (plane, (&offset, &stride)) in planes.iter_mut().zip(offsets.iter().zip(strides)) {
        let positive = usize::try_from(stride).map_err(|_| RefusedBuffer::Stride { stride })?;
        *plane = PlaneLayout { offset, stride: positive };
    }
    Ok(planes)
}
