//! Processing of a frame on the streaming thread before the appsink, in the frame's own memory where possible: transparent pixels are
//! composited on a background, and privacy masks are filled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;
use parking_lot::{Condvar, Mutex};

use super::CaptureError;
use super::caps::{FrameFormat, SampleFormat};
use super::frame::{PlaneLayout, RefusedBuffer, is_shared, planes_of, view_of};
use foveate_core::depth::DepthView;
use foveate_core::frame::{PixelFormat, Plane, composite, is_opaque};
use foveate_core::geometry::tile::TileSet;
use foveate_core::mask::{MASKS_MAX, Mask, MaskFill};

/// The masks of a stream: those of its configuration, and those that are set while it runs. Any thread may change them; they hold
/// from the next frame that reaches the appsink on.
#[derive(Debug)]
pub struct Masks {
    /// Number of the newest change, from 1.
    revision: AtomicU64,
    present: Mutex<Present>,
    /// The newest revision that a frame was published with; 0 for none.
    published: Mutex<u64>,
    is_published: Condvar,
}

#[derive(Debug, Default)]
struct Present {
    configured: Vec<Mask>,
    /// In the order in which they were first set.
    added: Vec<Mask>,
    /// Both.
    all: Arc<[Mask]>,
}

/// A change of the masks that are set while a stream runs. A mask of the same name is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaskChange {
    /// Whether all are cleared first.
    pub clears_all: bool,
    /// Names of those that are cleared.
    pub cleared: Vec<String>,
    /// Those that are set.
    pub set: Vec<Mask>,
}

/// Why masks stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskRefusal {
    /// It is one of the configuration.
    #[error(
        "the mask {name:?} belongs to the configuration: change it there and reload, or choose another name"
    )]
    Configured {
        /// Its name.
        name: String,
    },
    /// There is none to clear.
    #[error("no mask {name:?} was set at run time: see `foveate mask`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Too many at a time.
    #[error("too many masks: {count} (expected at most {MASKS_MAX} set at run time)")]
    TooMany {
        /// What there would be.
        count: usize,
    },
}

impl Masks {
    /// The masks of a configuration.
    pub fn new(configured: Vec<Mask>) -> Self {
        let mut present = Present { configured, ..Present::default() };
        present.join();
        Self {
            revision: AtomicU64::new(1),
            present: Mutex::new(present),
            published: Mutex::default(),
            is_published: Condvar::new(),
        }
    }

    /// Replaces those of the configuration; those that were set at run time stay. Returns the number of the change.
    pub fn configure(&self, configured: Vec<Mask>) -> u64 {
        let mut present = self.present.lock();
        present.configured = configured;
        self.renew(&mut present)
    }

    /// Changes those that are set at run time, all at once. Returns the number of the change.
    ///
    /// # Errors
    ///
    /// If one is of the configuration, there is none of a name that is to be cleared, or there would be too many. Nothing changes.
    pub fn change(&self, change: MaskChange) -> Result<u64, MaskRefusal> {
        let mut present = self.present.lock();
        // One may have been added before the configuration got one of that name.
        let is_added = |name: &&String| present.added.iter().any(|m| m.name == **name);
        let cleared = change.cleared.iter().filter(|name| !is_added(name));
        let names = change.set.iter().map(|mask| &mask.name).chain(cleared);
        let is_configured = |name: &&String| present.configured.iter().any(|m| m.name == **name);
        if let Some(name) = names.into_iter().find(is_configured) {
            return Err(MaskRefusal::Configured { name: name.clone() });
        }
        let mut added = present.added.clone();
        for name in &change.cleared {
            let place = added.iter().position(|mask| mask.name == *name);
            let place = place.ok_or_else(|| MaskRefusal::Unknown { name: name.clone() })?;
            added.remove(place);
        }
        if change.clears_all {
            added.clear();
        }
        for mask in change.set {
            match added.iter_mut().find(|present| present.name == mask.name) {
                Some(present) => *present = mask,
                None => added.push(mask),
            }
        }
        if MASKS_MAX < added.len() {
            return Err(MaskRefusal::TooMany { count: added.len() });
        }
        present.added = added;
        Ok(self.renew(&mut present))
    }

    fn renew(&self, present: &mut Present) -> u64 {
        present.join();
        // SYNC(masked): pairs with `newer_than`; the masks are locked until the number says that they are others.
        self.revision.fetch_add(1, Ordering::Release) + 1
    }

    /// Those of the configuration, and those that were set at run time.
    pub fn present(&self) -> (Vec<Mask>, Vec<Mask>) {
        let present = self.present.lock();
        (present.configured.clone(), present.added.clone())
    }

    /// The masks and the number of their last change, if that is not `known`. Locks only then.
    fn newer_than(&self, known: u64) -> Option<(u64, Arc<[Mask]>)> {
        // SYNC(masked): pairs with `renew`.
        if self.revision.load(Ordering::Acquire) == known {
            return None;
        }
        let present = self.present.lock();
        Some((self.revision.load(Ordering::Relaxed), Arc::clone(&present.all)))
    }

    /// Notes that all views have published a frame with the masks of change `revision`. Called once for each, by the frame loop.
    pub fn note_published(&self, revision: u64) {
        *self.published.lock() = revision;
        self.is_published.notify_all();
    }

    /// Waits until a frame was published with the masks of change `revision`, or later ones; false if none was within `timeout`.
    pub fn await_published(&self, revision: u64, timeout: Duration) -> bool {
        let mut published = self.published.lock();
        let waits = |published: &mut u64| *published < revision;
        !self.is_published.wait_while_for(&mut published, waits, timeout).timed_out()
    }
}

impl Present {
    fn join(&mut self) {
        self.all = self.configured.iter().chain(&self.added).cloned().collect();
    }
}

impl Default for Masks {
    /// None.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

/// Equal if they are the same.
impl PartialEq for Masks {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Masks {}

/// Applies the masks of a stream to the buffers of its pipelines.
#[derive(Debug)]
pub(super) struct Masking {
    masks: Arc<Masks>,
    /// Number of the change that led to `present`; 0 before the first buffer.
    revision: u64,
    present: Arc<[Mask]>,
    /// What they fill in frames of the newest kind.
    fill: Option<MaskFill>,
    /// The texels of the coarse level that `fill` covers; `None` without masks.
    texels: Option<Arc<TileSet>>,
    /// Where frames are copied to whose memory is not ours alone.
    copies: Option<Copies>,
    /// R, G and B behind what is transparent.
    background: [u8; 3],
}

/// The masks that filled a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskCoverage {
    /// Number of the change of the stream's [`Masks`] that led to them.
    pub revision: u64,
    /// The texels of the coarse level that they cover; `None` without masks.
    pub texels: Option<Arc<TileSet>>,
}

impl Masking {
    pub(super) fn new(masks: &Arc<Masks>, background: [u8; 3]) -> Self {
        let (masks, present) = (Arc::clone(masks), Arc::default());
        Self { masks, revision: 0, present, fill: None, texels: None, copies: None, background }
    }

    /// Whether there are masks as of the newest buffer.
    pub(super) fn is_needed(&self) -> bool {
        !self.present.is_empty()
    }

    /// What they cover as of the newest buffer.
    pub(super) fn coverage(&self) -> MaskCoverage {
        MaskCoverage { revision: self.revision, texels: self.texels.clone() }
    }

    /// Takes the newest masks over.
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
            self.copies = None;
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
            let failed = |_| not_masked("there is no memory for a copy of it");
            *buffer = Copies::of(buffer.size(), copies).map_err(failed)?.copied(buffer)?;
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

/// Whether nobody else reads or writes its memory: neither a decoder that predicts later frames from it, nor another branch of the
/// pipeline, nor a driver, nor another process.
fn is_ours(buffer: &gst::Buffer) -> bool {
    let is_plain = |memory: &gst::MemoryRef| memory.is_type("SystemMemory") && !is_shared(memory);
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
    bytes: usize,
    pool: gst::BufferPool,
}

impl Copies {
    /// Those of `bytes` bytes, in `present` from then on.
    pub(super) fn of(
        bytes: usize,
        present: &mut Option<Self>,
    ) -> Result<&Self, gst::glib::BoolError> {
        if present.as_ref().is_none_or(|present| present.bytes != bytes) {
            let pool = gst::BufferPool::new();
            let mut config = pool.config();
            let size = u32::try_from(bytes).map_err(|_| gst::glib::bool_error!("too large"))?;
            config.set_params(None, size, 0, 0);
            pool.set_config(config)?;
            pool.set_active(true)?;
            *present = Some(Self { bytes, pool });
        }
        Ok(present.as_ref().expect("just made"))
    }

    /// A buffer with the times and the marks of `buffer`, but not its samples and their layout.
    pub(super) fn described_as(
        &self,
        buffer: &gst::BufferRef,
    ) -> Result<gst::Buffer, gst::glib::BoolError> {
        let failed = |_| gst::glib::bool_error!("no buffer");
        let mut copy = self.pool.acquire_buffer(None).map_err(failed)?;
        let target = copy.get_mut().ok_or_else(|| gst::glib::bool_error!("others hold it"))?;
        let described = gst::BufferCopyFlags::FLAGS
            | gst::BufferCopyFlags::TIMESTAMPS
            | gst::BufferCopyFlags::META;
        buffer.copy_into(target, described, ..)?;
        Ok(copy)
    }

    /// A copy of `buffer` with its times and its layout.
    fn copied(&self, buffer: &gst::BufferRef) -> Result<gst::Buffer, CaptureError> {
        let failed = || not_masked("it cannot be copied");
        let mut copy = self.described_as(buffer).map_err(|_| failed())?;
        let target = copy.get_mut().ok_or_else(failed)?;
        // GStreamer takes it for one of the memory, which is another.
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
        // Frees those that are not in use; the others follow.
        let _ = self.pool.set_active(false);
    }
}
