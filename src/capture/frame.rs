//! A captured frame, mapped into memory for reading.

use gstreamer as gst;
use gstreamer_video as gst_video;

use super::caps::{FrameFormat, SampleFormat};
use foveate_core::depth::DepthView;
use foveate_core::frame::{FrameError, FrameKind, FrameStamp, FrameView, Plane};
use foveate_core::pixel::PixelFacts;
use foveate_source::MaskCoverage;
use foveate_source::frame::FrameLayout;
pub(super) use foveate_source::frame::PlaneLayout;
use foveate_source::handover::SourceFrame;
use foveate_source::ledger::{AcceptedFrame, HeldBuffer};
use foveate_source::wire::{FrameCounts, FrameReady, SourceStamp};

/// A frame mapped for reading. It holds a buffer of the source's pool until it is dropped.
#[derive(Debug)]
pub struct CapturedFrame {
    memory: FrameMemory,
    layout: FrameLayout,
    stamp: FrameStamp,
    masks: MaskCoverage,
}

#[derive(Debug)]
enum FrameMemory {
    /// A buffer of a pipeline in this process.
    Mapped(gst::MappedBuffer<gst::buffer::Readable>),
    /// A buffer of a source process.
    Shared(HeldBuffer),
}

/// Why a buffer cannot be read as a frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedBuffer {
    #[error("it cannot be mapped for reading")]
    NotMapped,
    #[error("its memory cannot be written to")]
    NotWritable,
    #[error("there is no memory for a copy of it")]
    NoMemory,
    /// Reported only if the stream has masks.
    #[error("it bypassed the privacy masks of its stream")]
    NotMasked,
    /// Rows from bottom to top are not supported.
    #[error("its layout has a stride of {stride} bytes")]
    Stride { stride: i32 },
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl CapturedFrame {
    /// Maps `buffer`, or a copy of it if others may write to its memory. Its VideoMeta, if any, takes precedence over the layout
    /// of the caps.
    pub(super) fn map(
        buffer: gst::Buffer,
        format: &FrameFormat,
        layout: FrameLayout,
        stamp: FrameStamp,
        masks: MaskCoverage,
    ) -> Result<Self, RefusedBuffer> {
        let planes = planes_of(&buffer, format)?;
        let is_shared = buffer.iter_memories().any(is_shared);
        let buffer = if is_shared {
            buffer.copy_deep().map_err(|_| RefusedBuffer::NotMapped)?
        } else {
            buffer
        };
        let memory = buffer.into_mapped_buffer_readable().map_err(|_| RefusedBuffer::NotMapped)?;
        let frame = Self {
            memory: FrameMemory::Mapped(memory),
            layout: FrameLayout { planes, ..layout },
            stamp,
            masks,
        };
        frame.layout.check(frame.bytes())?;
        Ok(frame)
    }

    /// A frame of a source process.
    pub(super) fn shared(frame: AcceptedFrame, masks: MaskCoverage) -> Self {
        let AcceptedFrame { buffer, layout, stamp, .. } = frame;
        Self { memory: FrameMemory::Shared(buffer), layout, stamp, masks }
    }

    /// The message that hands it over, without its buffer and counts.
    pub(super) fn ready(&self, is_live: bool, is_exact: bool) -> FrameReady {
        let stamp = self.stamp;
        FrameReady {
            buffer: 0,
            layout: self.layout,
            stamp: SourceStamp {
                number: stamp.frame_seq,
                pts_ns: stamp.pts_ns,
                capture_ns: stamp.capture_ns,
                capture_unix_ns: stamp.capture_unix_ns,
                capture_clock: stamp.capture_clock,
                arrival_ns: stamp.arrival_ns,
            },
            mask_revision: self.masks.revision,
            is_live,
            is_exact,
            counts: FrameCounts::default(),
        }
    }

    /// The samples of a picture.
    ///
    /// # Errors
    ///
    /// None for a frame from a source of pictures, which has checked it.
    pub fn view(&self) -> Result<FrameView<'_>, FrameError> {
        self.layout.picture(self.bytes())
    }

    /// The samples of depth.
    ///
    /// # Errors
    ///
    /// None for a frame from a source of depth, which has checked it.
    pub fn depth(&self) -> Result<DepthView<'_>, FrameError> {
        self.layout.depth(self.bytes())
    }

    /// Pixel aspect ratio, colour and scaling; square pixels of unknown colour for depth.
    pub fn facts(&self) -> PixelFacts {
        self.layout.facts()
    }

    /// Number and capture time.
    pub fn stamp(&self) -> FrameStamp {
        self.stamp
    }

    /// The masks that filled it.
    pub fn masks(&self) -> &MaskCoverage {
        &self.masks
    }

    /// Number of the change of the stream's [`Masks`](foveate_source::Masks) that it was filled by.
    pub fn mask_revision(&self) -> u64 {
        self.masks.revision
    }
}

impl SourceFrame for CapturedFrame {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            FrameMemory::Mapped(memory) => memory.as_slice(),
            FrameMemory::Shared(buffer) => buffer.bytes(),
        }
    }
}

/// The samples in the memory of a buffer, whose planes lie as `planes` says.
pub(super) fn view_of<'a>(
    bytes: &'a [u8],
    planes: &[PlaneLayout; 3],
    kind: FrameKind,
) -> Result<FrameView<'a>, FrameError> {
    let plane = |layout: PlaneLayout| Plane {
        bytes: bytes.get(layout.offset..).unwrap_or_default(),
        stride: layout.stride,
    };
    let FrameKind { format, extent, color } = kind;
    FrameView::new(format, extent, color, &planes.map(plane)[..format.plane_count()])
}

/// Whether others may write to this memory while a buffer holds it. Pools and drivers do not; but `shmsrc` wraps memory of
/// another process, marked read-only, and memory behind a file descriptor may be mapped by any process that has it.
pub(super) fn is_shared(memory: &gst::MemoryRef) -> bool {
    // Every sub-memory is marked read-only.
    let whole = memory.parent().unwrap_or(memory);
    whole.flags().contains(gst::MemoryFlags::READONLY)
        || ["fd", "dmabuf", "shm"].into_iter().any(|kind| memory.is_type(kind))
}

/// Layout of one plane whose rows have no gaps.
fn packed(format: &FrameFormat) -> [PlaneLayout; 3] {
    let sample_bytes = match format.samples {
        SampleFormat::Picture(..) => 1,
        SampleFormat::Depth(format) => format.sample_bytes(),
    };
    let stride = format.extent.width as usize * sample_bytes;
    let mut planes = [PlaneLayout::default(); 3];
    planes[0].stride = stride;
    planes
}

/// Layout of the planes of a buffer: by its VideoMeta, or if it has none by the caps.
pub(super) fn planes_of(
    buffer: &gst::BufferRef,
    format: &FrameFormat,
) -> Result<[PlaneLayout; 3], RefusedBuffer> {
    match (buffer.meta::<gst_video::VideoMeta>(), &format.info) {
        (Some(meta), _) => layout(meta.offset(), meta.stride()),
        (None, Some(info)) => layout(info.offset(), info.stride()),
        (None, None) => Ok(packed(format)),
    }
}

pub(super) fn layout(
    offsets: &[usize],
    strides: &[i32],
) -> Result<[PlaneLayout; 3], RefusedBuffer> {
    let mut planes = [PlaneLayout::default(); 3];
    for (plane, (&offset, &stride)) in planes.iter_mut().zip(offsets.iter().zip(strides)) {
        let positive = usize::try_from(stride).map_err(|_| RefusedBuffer::Stride { stride })?;
        *plane = PlaneLayout { offset, stride: positive };
    }
    Ok(planes)
}
