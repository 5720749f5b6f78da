//! A segment: its specification, slot layout, and the words that writer and readers share.

use std::mem::offset_of;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::SealFlags;

use super::TRIES_MAX;
use super::abi::{
    CAPACITY_MAX, HEADER_BYTES, LIVE_OFFSET, LiveBlock, MIN_SLOT_COUNT, PATCH_SIDE_MAX,
    PLANE_ALIGNMENT, PLANE_COUNT_MAX, SLOT_ALIGNMENT, SLOT_COUNT_MAX, SlotHeader, StateBlock,
    TokenRecord,
};
use super::error::RingError;
use super::mapping::Mapping;
use super::protocol::{Live, Lock};
use foveate_core::backend::BackendKind;
use foveate_core::camera::CameraFacts;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::pixel::PixelFacts;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, TokenFormat};

/// Seals that fix a segment's size, and prevent writes except through the writer's own mapping.
pub(super) const REQUIRED_SEALS: SealFlags =
    SealFlags::GROW.union(SealFlags::SHRINK).union(SealFlags::FUTURE_WRITE);

/// Specification of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentSpec<Plane = PlaneSpec> {
    /// Name of the stream, at most 63 bytes.
    pub stream: String,
    /// Name of the view, at most 63 bytes.
    pub view: String,
    /// Name of the layout, at most 31 bytes.
    pub layout: String,
    /// Format of a token.
    pub format: TokenFormat,
    /// Most tokens of a frame.
    pub capacity: usize,
    /// Columns and rows of the tokens, if they form a grid, row by row.
    pub grid: Option<Extent>,
    /// Most fixations of a frame, 1 to 8.
    pub foveae: usize,
    /// Width and height of the source in pixels.
    pub extent: Extent,
    /// The camera's format in GStreamer's caps, at most 15 bytes.
    pub pixel_format: String,
    /// The backend that samples the tokens.
    pub backend: BackendKind,
    /// Name of its device, truncated to 63 bytes.
    pub device: String,
    /// Pixel aspect ratio and colour of the source.
    pub picture: PixelFacts,
    /// Frames that the ring holds.
    pub slot_count: usize,
    /// Camera model, if known.
    pub camera: Option<CameraFacts>,
    /// The planes of a frame. A specification for a new segment leaves out the texels, so there are at most 7; in an existing segment the
    /// texels come first.
    pub planes: Vec<Plane>,
    /// What the items of the plane [`CHANNELS`](foveate_core::plane::CHANNELS) are, if `planes` has that plane.
    pub channels: Option<ChannelFacts>,
}

impl SegmentSpec {
    /// The table of planes, the texels first.
    pub(super) fn all_planes(&self) -> impl Iterator<Item = PlaneSpec> {
        std::iter::once(PlaneSpec::pixels(self.format)).chain(self.planes.iter().cloned())
    }
}

/// Description of a segment, read from its header. Constant while the segment lives.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentInfo {
    /// The writer's minor ABI version; the major one equals the reader's.
    pub abi_minor: u32,
    /// Random; different for every segment.
    pub epoch: u64,
    /// Size of the segment in bytes.
    pub total_bytes: usize,
    /// The writer's specification. [`Deref`] makes its fields those of this type.
    pub spec: SegmentSpec<PlaneInfo>,
}

impl Deref for SegmentInfo {
    type Target = SegmentSpec<PlaneInfo>;

    fn deref(&self) -> &SegmentSpec<PlaneInfo> {
        &self.spec
    }
}

/// What the items of the plane of channels are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelFacts {
    /// Side of a cell in source pixels; the last row and column of cells may hang over.
    pub cell_side: u32,
    /// Name of each channel, in the order of the plane's first axis.
    pub names: Vec<String>,
}

impl SegmentInfo {
    /// Index in [`planes`](SegmentSpec::planes) of the plane with this name.
    pub fn plane_index(&self, name: &str) -> Option<usize> {
        self.planes.iter().position(|plane| plane.name == name)
    }
}

/// An entry of the table of planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneInfo {
    /// Name of the plane.
    pub name: String,
    /// One letter for each axis, such as `NCHW`.
    pub order: String,
    /// Number format of an element.
    pub dtype: DType,
    /// Extent of each axis; the first is the capacity where [`order`](Self::order) begins with `N`.
    pub shape: Vec<u32>,
    /// Offset of the plane in a slot, in bytes.
    pub offset: usize,
    /// Bytes from one item to the next.
    pub token_stride: usize,
    /// Size in bytes.
    pub bytes: usize,
}

impl PlaneInfo {
    /// Whether the plane has an item for each token.
    pub fn is_of_tokens(&self) -> bool {
        self.order.starts_with('N')
    }

    /// Size of the items of a frame of `token_count` tokens.
    pub fn items_bytes(&self, token_count: usize) -> usize {
        let count = if self.is_of_tokens() { token_count } else { self.shape[0] as usize };
        count * self.token_stride
    }
}

/// Byte layout of a segment. Construction ensures that everything lies inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentLayout {
    pub(super) slot_count: usize,
    pub(super) slot_stride: usize,
    /// Bytes from the start of a slot to the records.
    pub(super) records_offset: usize,
    /// Planes in the order of the table; unused ones are all 0.
    pub(super) planes: [SlotPlane; PLANE_COUNT_MAX],
    pub(super) plane_count: usize,
    /// Most tokens of a frame.
    pub(super) capacity: usize,
    pub(super) total_bytes: usize,
}

/// Place of a plane in each slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotPlane {
    /// Start of the plane, in bytes from the start of a slot.
    pub(super) offset: usize,
    /// Bytes from one item to the next.
    pub(super) item_bytes: usize,
    /// Number of items; `None` if there is one for each token.
    pub(super) count: Option<usize>,
    /// Value of [`PlaneSpec::follows_texels`].
    pub(super) follows_texels: bool,
}

impl SlotPlane {
    /// Size of the items of a frame of `token_count` tokens.
    pub(super) fn bytes(self, token_count: usize) -> usize {
        self.count.unwrap_or(token_count) * self.item_bytes
    }
}

impl SegmentLayout {
    /// The layout of a segment for `spec`.
    pub(super) fn new(spec: &SegmentSpec) -> Result<Self, RingError> {
        let slot_counts = MIN_SLOT_COUNT as usize..=SLOT_COUNT_MAX as usize;
        let slot_count = spec.slot_count;
        ensure(slot_counts.contains(&slot_count), "slot_count", slot_count, "2 to 1024")?;
        let capacity = spec.capacity;
        ensure((1..=CAPACITY_MAX).contains(&capacity), "capacity", capacity, "1 to 2^24 tokens")?;
        let side = spec.format.patch_side;
        ensure((1..=PATCH_SIDE_MAX).contains(&side), "patch_side", side, "1 to 1024 texels")?;
        ensure((1..=FOVEAE_MAX).contains(&spec.foveae), "foveae", spec.foveae, "1 to 8")?;
        let grid_fits = spec.grid.is_none_or(|grid| (1..=capacity).contains(&grid.area()));
        ensure(grid_fits, "grid", format!("{:?}", spec.grid), "at most as many cells as tokens")?;

        let plane_count = 1 + spec.planes.len();
        ensure(plane_count <= PLANE_COUNT_MAX, "planes", plane_count - 1, "at most 7")?;

        let records_offset = size_of::<SlotHeader>();
        let mut end = records_offset + capacity * size_of::<TokenRecord>();
        let mut planes = [SlotPlane::default(); PLANE_COUNT_MAX];
        for (place, plane) in planes.iter_mut().zip(spec.all_planes()) {
            let offset = end.next_multiple_of(PLANE_ALIGNMENT);
            let count = plane.count.map(|count| count as usize);
            let (item_bytes, follows_texels) =
                (plane.item_bytes(), PlaneSpec::follows_texels(plane.name));
            *place = SlotPlane { offset, item_bytes, count, follows_texels };
            end = offset + place.bytes(capacity);
        }
        let slot_stride = end.next_multiple_of(SLOT_ALIGNMENT);
        Ok(Self {
            slot_count,
            slot_stride,
            records_offset,
            planes,
            plane_count,
            capacity,
            total_bytes: HEADER_BYTES + slot_count * slot_stride,
        })
    }
}

impl SegmentLayout {
    /// Places of the planes, in the order of the table.
    pub(super) fn planes(&self) -> &[SlotPlane] {
        &self.planes[..self.plane_count]
    }
}

fn ensure(
    holds: bool,
    field: &'static str,
    value: impl ToString,
    allowed: &'static str,
) -> Result<(), RingError> {
    if holds { Ok(()) } else { Err(RingError::Spec { field, value: value.to_string(), allowed }) }
}

/// A mapped segment, with access to its shared words.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) mapping: Mapping,
    pub(super) layout: SegmentLayout,
}

impl Segment {
    /// The words that announce changes to readers.
    pub(super) fn live(&self) -> Live<'_> {
        let Self { mapping, .. } = self;
        Live {
            newest: mapping.word(LIVE_OFFSET + offset_of!(LiveBlock, newest)),
            futex: self.futex(),
            state_sequence: mapping.half_word(LIVE_OFFSET + offset_of!(LiveBlock, state_sequence)),
        }
    }

    /// The futex word.
    pub(super) fn futex(&self) -> &AtomicU32 {
        self.mapping.half_word(LIVE_OFFSET + offset_of!(LiveBlock, futex))
    }

    /// The words of the state with number `state_sequence`: code and reason.
    pub(super) fn state(&self, state_sequence: u32) -> &[AtomicU64] {
        let index = if state_sequence.is_multiple_of(2) { 0 } else { 1 };
        let offset = offset_of!(LiveBlock, states) + index * size_of::<StateBlock>();
        self.mapping.words(LIVE_OFFSET + offset, size_of::<StateBlock>())
    }

    /// The newest ring sequence and its publish time in nanoseconds; zeros before the first frame. `None` if the writer keeps
    /// filling the whole ring between two loads.
    pub(super) fn newest_publish(&self) -> Option<(u64, u64)> {
        (0..TRIES_MAX).find_map(|_| {
            let sequence = self.live().newest();
            let slot = self.slot(sequence);
            let publish_ns = slot.publish_ns().load(Ordering::Relaxed);
            slot.lock().still_holds(sequence).then_some((sequence, publish_ns))
        })
    }

    /// The slot of frame `sequence`.
    pub(super) fn slot(&self, sequence: u64) -> Slot<'_> {
        let offset = HEADER_BYTES + self.slot_index(sequence) * self.layout.slot_stride;
        Slot { segment: self, offset }
    }

    /// Index of the slot of frame `sequence`.
    pub(super) fn slot_index(&self, sequence: u64) -> usize {
        usize::try_from(sequence % self.layout.slot_count as u64)
            .expect("a remainder is below its divisor, and that is a usize")
    }
}

/// One slot of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a> {
    segment: &'a Segment,
    /// Start of the slot, in bytes from the start of the segment.
    offset: usize,
}

impl<'a> Slot<'a> {
    /// The sequence lock.
    pub(super) fn lock(self) -> Lock<'a> {
        Lock(self.segment.mapping.word(self.offset + offset_of!(SlotHeader, lock)))
    }

    pub(super) fn publish_ns(self) -> &'a AtomicU64 {
        self.segment.mapping.word(self.offset + offset_of!(SlotHeader, publish_ns))
    }

    /// The slot header, including the lock in its first word.
    pub(super) fn header(self) -> &'a [AtomicU64] {
        self.segment.mapping.words(self.offset, size_of::<SlotHeader>())
    }

    /// The first `count` records.
    pub(super) fn records(self, count: usize) -> &'a [AtomicU64] {
        assert!(count <= self.segment.layout.capacity, "{count} records");
        let start = self.offset + self.segment.layout.records_offset;
        self.segment.mapping.words(start, count * size_of::<TokenRecord>())
    }

    /// The items of a frame of `token_count` tokens in plane `index`.
    pub(super) fn plane(self, index: usize, token_count: usize) -> &'a [AtomicU64] {
        let (offset, bytes) = self.place(index, token_count);
        self.segment.mapping.words(offset, bytes)
    }

    /// Start of the items of plane `index`, in bytes from the start of the segment, and their size in bytes.
    pub(super) fn place(self, index: usize, token_count: usize) -> (usize, usize) {
        assert!(token_count <= self.segment.layout.capacity, "{token_count} tokens");
        let place = self.segment.layout.planes()[index];
        (self.offset + place.offset, place.bytes(token_count))
    }
}
