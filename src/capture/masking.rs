//! Processing of a frame on the streaming thread before the appsink, in the frame's own memory where possible: transparent pixels are
//! composited on a background, and privacy masks are filled.

use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;

use super::CaptureError;
use super::caps::{FrameFormat, SampleFormat};
use super::frame::{PlaneLayout, RefusedBuffer, is_shared, planes_of, view_of};
use super::process::allocator;
use foveate_core::depth::DepthView;
use foveate_core::frame::{PixelFormat, Plane, composite, is_opaque};
use foveate_core::geometry::tile::TileSet;
use foveate_core::mask::{Mask, MaskFill};
use foveate_source::pool::Pool;
use foveate_source::{MaskCoverage, Masks};

/// Applies the masks of a stream to the buffers of its pipelines.
#[derive(Debug)]
pub(super) struct Masking {
    masks: Arc<Masks>,
    /// Number of the change that led to `present`; 0 before the first buffer.
    revision: u64,
    present: Arc<[Mask]>,
    /// What the present masks fill in frames of the newest kind; `None` until a frame of that kind arrives.
    fill: Option<MaskFill>,
    /// The texels of the coarse level that `fill` covers; `None` without masks.
    texels: Option<Arc<TileSet>>,
    /// Memory for copies of frames that others can read too.
    copies: Copies,
    /// R, G and B behind what is transparent.
    background: [u8; 3],
}

impl Masking {
    pub(super) fn new(masks: &Arc<Masks>, background: [u8; 3], pool: Option<Arc<Pool>>) -> Self {
        let (masks, present, copies) = (Arc::clone(masks), Arc::default(), Copies::new(pool));
        Self { masks, revision: 0, present, fill: None, texels: None, copies, background }
    }

    /// Whether there are masks as of the newest buffer.
    pub(super) fn is_needed(&self) -> bool {
        !self.present.is_empty()
    }

    /// What the masks cover as of the newest buffer.
    pub(super) fn coverage(&self) -> MaskCoverage {
        MaskCoverage { revision: self.revision, texels: self.texels.clone() }
    }

    /// Takes over the newest masks of the stream.
    pub(super) fn renew(&mut self) {
        if let Some((revision, masks)) = self.masks.newer_than(self.revision) {
            (self.revision, self.present) = (revision, masks);
            (self.fill, self.texels) = (None, None);
        }
    }

    /// Composites `buffer`, of `format`, if it `has_alpha`, and fills it; or replaces it by such a copy where others may read or write
    /// its memory. Returns how many pixels were filled, and whether the buffer was copied to apply masks; copies made only for
    /// transparency do not count.
    ///
    /// # Errors
    ///
    /// If there are masks or transparent pixels, and not all of them can be treated. The buffer must not be shown.
    pub(super) fn apply(
        &mut self,
        buffer: &mut gst::Buffer,
        format: Option<&FrameFormat>,
        has_alpha: bool,
    ) -> Result<(u64, bool), CaptureError> {
        self.renew();
        let transparent = format.filter(|format| has_alpha && is_transparent(buffer, format));
        if !self.is_needed() && transparent.is_none() {
            self.copies.free();
            return Ok((0, false));
        }
        let format = format.ok_or_else(|| not_masked("its format is not supported"))?;
        let kind = format.kind();
        if self.fill.as_ref().is_none_or(|fill| fill.kind() != kind) {
            let fill = MaskFill::new(&self.present, kind);
            self.texels = Some(Arc::new(fill.coarse_texels()));
            self.fill = Some(fill);
        }
        let Self { fill: Some(fill), copies, background, .. } = self else {
            unreachable!("just made")
        };
        let is_copied = !is_ours(buffer);
        if is_copied {
            *buffer = copies.copied(buffer)?;
        }
        let bytes = buffer.get_mut().ok_or_else(|| not_masked("others hold it"))?;
        if transparent.is_some() {
            composited(bytes, format, *background)
                .map_err(|reason| not_masked(&reason.to_string()))?;
        }
        filled(bytes, fill, format).map_err(|reason| not_masked(&reason.to_string()))?;
        Ok((fill.pixel_count(), is_copied && !self.present.is_empty()))
    }
}

/// Whether this buffer has its memory alone: no decoder predicts later frames from it, and it is not shared with another branch of the
/// pipeline, a driver, or another process.
fn is_ours(buffer: &gst::Buffer) -> bool {
    // Memory of `process/allocator` is Rust's. The daemon maps it, but reads it only while the buffer is not writable.
    let is_of_rust = |memory: &gst::MemoryRef| memory.allocator() == Some(gst::rust_allocator());
    let is_plain = |memory: &gst::MemoryRef| {
        (memory.is_type("SystemMemory") || is_of_rust(memory)) && !is_shared(memory)
    };
    buffer.is_writable() && buffer.is_all_memory_writable() && buffer.iter_memories().all(is_plain)
}

/// Whether a pixel of `buffer` is not opaque. A buffer that cannot be read is refused later.
fn is_transparent(buffer: &gst::BufferRef, format: &FrameFormat) -> bool {
    let SampleFormat::Picture(pixels, _) = format.samples else { return false };
    let has_alpha = || {
        let planes = planes_of(buffer, format).ok()?;
        let memory = buffer.map_readable().ok()?;
        let view = view_of(&memory, &planes, format.kind()).ok()?;
        Some((0..format.extent.height as usize).any(|y| !is_opaque(view.row(0, y))))
    };
    pixels.has_alpha() && has_alpha().unwrap_or(false)
}

/// Composites what is transparent on `background`, which is R, G and B.
fn composited(
    buffer: &mut gst::BufferRef,
    format: &FrameFormat,
    [red, green, blue]: [u8; 3],
) -> Result<(), RefusedBuffer> {
    let (planes, kind) = (planes_of(buffer, format)?, format.kind());
    let mut memory = buffer.map_writable().map_err(|_| RefusedBuffer::NotWritable)?;
    view_of(&memory, &planes, kind)?;
    let is_bgr = kind.format == PixelFormat::Bgra;
    let background = if is_bgr { [blue, green, red] } else { [red, green, blue] };
    let PlaneLayout { offset, stride } = planes[0];
    for row in memory[offset..].chunks_mut(stride).take(kind.rows(0)) {
        composite(&mut row[..kind.row_bytes(0)], background);
    }
    Ok(())
}

fn filled(
    buffer: &mut gst::BufferRef,
    fill: &MaskFill,
    format: &FrameFormat,
) -> Result<(), RefusedBuffer> {
    let planes = planes_of(buffer, format)?;
    let mut memory = buffer.map_writable().map_err(|_| RefusedBuffer::NotWritable)?;
    match format.samples {
        SampleFormat::Picture(pixels, _) => {
            view_of(&memory, &planes, format.kind())?;
            for (index, PlaneLayout { offset, stride }) in
                planes.into_iter().enumerate().take(pixels.plane_count())
            {
                fill.fill(index, &mut memory[offset..], stride);
            }
        }
        SampleFormat::Depth(depth) => {
            let PlaneLayout { offset, stride } = planes[0];
            let plane = Plane { bytes: memory.get(offset..).unwrap_or_default(), stride };
            DepthView::new(depth, format.extent, plane)?;
            fill.clear(&mut memory[offset..], stride, depth.sample_bytes());
        }
    }
    Ok(())
}

fn not_masked(reason: &str) -> CaptureError {
    CaptureError::NotMasked { reason: reason.to_owned() }
}

/// Buffers of one size, used again once their frames are dropped.
#[derive(Debug)]
pub(super) struct Copies {
    /// Pool that the memory comes from; `None` for GStreamer's allocator.
    memory: Option<Arc<Pool>>,
    /// Buffers of one size in bytes, and that size.
    pool: Option<(usize, gst::BufferPool)>,
}

impl Copies {
    pub(super) fn new(memory: Option<Arc<Pool>>) -> Self {
        Self { memory, pool: None }
    }

    /// Frees those that are not in use; the others follow.
    fn free(&mut self) {
        if let Some((_, pool)) = self.pool.take() {
            let _ = pool.set_active(false);
        }
    }

    fn pool_of(&mut self, bytes: usize) -> Result<&gst::BufferPool, gst::glib::BoolError> {
        if self.pool.as_ref().is_none_or(|(size, _)| *size != bytes) {
            self.free();
            let pool = gst::BufferPool::new();
            let mut config = pool.config();
            let size = u32::try_from(bytes).map_err(|_| gst::glib::bool_error!("too large"))?;
            config.set_params(None, size, 0, 0);
            if let Some(memory) = &self.memory {
                config.set_allocator(Some(&allocator::of(memory)), None);
            }
            pool.set_config(config)?;
            pool.set_active(true)?;
            self.pool = Some((bytes, pool));
        }
        let (_, pool) = self.pool.as_ref().expect("just made");
        Ok(pool)
    }

    /// A buffer of `bytes` bytes with the times and the marks of `buffer`, but not its samples and their layout.
    pub(super) fn described_as(
        &mut self,
        buffer: &gst::BufferRef,
        bytes: usize,
    ) -> Result<gst::Buffer, gst::glib::BoolError> {
        let failed = |_| gst::glib::bool_error!("no buffer");
        let mut copy = self.pool_of(bytes)?.acquire_buffer(None).map_err(failed)?;
        let target = copy.get_mut().ok_or_else(|| gst::glib::bool_error!("others hold it"))?;
        let described = gst::BufferCopyFlags::FLAGS
            | gst::BufferCopyFlags::TIMESTAMPS
            | gst::BufferCopyFlags::META;
        buffer.copy_into(target, described, ..)?;
        Ok(copy)
    }

    /// A copy of `buffer` with its times and its layout.
    fn copied(&mut self, buffer: &gst::BufferRef) -> Result<gst::Buffer, CaptureError> {
        let failed = || not_masked("it cannot be copied");
        let no_memory = |_| not_masked("there is no memory for a copy of it");
        let mut copy = self.described_as(buffer, buffer.size()).map_err(no_memory)?;
        let target = copy.get_mut().ok_or_else(failed)?;
        // `copy_into` leaves out the VideoMeta: GStreamer counts it as a property of the memory, which is another one here.
        if let Some(meta) = buffer.meta::<gst_video::VideoMeta>() {
            let (flags, format) = (meta.video_frame_flags(), meta.format());
            let (width, height, offsets) = (meta.width(), meta.height(), meta.offset());
            let strides = meta.stride();
            gst_video::VideoMeta::add_full(target, flags, format, width, height, offsets, strides)
                .map_err(|_| failed())?;
        }
        let mut bytes = target.map_writable().map_err(|_| failed())?;
        buffer.copy_to_slice(0, &mut bytes).map_err(|_| failed())?;
        drop(bytes);
        Ok(copy)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.free();
    }
}
