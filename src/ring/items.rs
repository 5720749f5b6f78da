//! The texels of a view's tokens, in words that others may read while they are written: those of the next frame's slot, or of this
//! process alone.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::mapping::{WORD_BYTES, copy_words, load_part, store_part};
use super::protocol::join_writing;
use super::segment::Segment;

/// An item for each token, side by side.
#[derive(Debug)]
pub struct Items {
    words: ItemWords,
    item_bytes: usize,
}

#[derive(Debug)]
enum ItemWords {
    Own(Box<[AtomicU64]>),
    /// A plane of a slot; its place in bytes from the start of the segment.
    Slot {
        memory: SegmentMemory,
        offset: usize,
        bytes: usize,
    },
}

/// All words of a segment, as long as this lives: for a device that writes items itself, as it may from
/// [`Writer::begin`](super::Writer::begin) to [`Writer::publish`](super::Writer::publish). Its writes must come after what this thread
/// stored before it asked for them, and be visible to this thread when they are done.
#[derive(Clone, Debug)]
pub struct SegmentMemory(Arc<Segment>);

impl PartialEq for SegmentMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl AsRef<[UnsafeCell<u64>]> for SegmentMemory {
    fn as_ref(&self) -> &[UnsafeCell<u64>] {
        self.0.mapping.memory()
    }
}

/// An item that is being stored.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    words: &'a [AtomicU64],
    /// Bytes from the first word.
    start: usize,
    bytes: usize,
}

/// Stores items, on one thread.
#[derive(Clone, Copy, Debug)]
pub struct ItemStore<'a>(&'a Items);

impl Items {
    /// `count` items of `item_bytes` bytes in memory of this process, all 0. Of a large one, pages that are never stored to take no
    /// memory.
    pub fn new(item_bytes: usize, count: usize) -> Self {
        let words = (item_bytes * count).div_ceil(WORD_BYTES);
        Self { words: ItemWords::Own(bytemuck::zeroed_slice_box(words)), item_bytes }
    }

    /// The items of `bytes` bytes from `offset` in a segment.
    pub(super) fn of_slot(
        segment: &Arc<Segment>,
        offset: usize,
        bytes: usize,
        item_bytes: usize,
    ) -> Self {
        let memory = SegmentMemory(Arc::clone(segment));
        Self { words: ItemWords::Slot { memory, offset, bytes }, item_bytes }
    }

    /// Whether no word belongs to two items, so that threads may store different items at the same time.
    pub fn are_apart(&self) -> bool {
        self.item_bytes.is_multiple_of(WORD_BYTES)
    }

    /// Begins to store items on this thread, after [`Writer::begin`](super::Writer::begin) on this thread or on one that this was
    /// synchronised with. What it stores is published only after this thread was synchronised with the writer's.
    pub fn store(&self) -> ItemStore<'_> {
        join_writing();
        ItemStore(self)
    }

    /// A copy of the first `count` items.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn to_vec(&self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * self.item_bytes];
        load_part(&mut bytes, self.words(), 0);
        bytes
    }

    /// Copies item `index` to `target`, which is as long.
    ///
    /// # Panics
    ///
    /// If there is no such item.
    pub fn load(&self, index: usize, target: &mut [u8]) {
        assert_eq!(target.len(), self.item_bytes, "an item");
        load_part(target, self.words(), index * self.item_bytes);
    }

    /// Bytes of each.
    pub fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    /// Capacity in items.
    pub fn count(&self) -> usize {
        size_of_val(self.words()) / self.item_bytes
    }

    /// The segment in whose slot the items lie, and their start there in bytes; `None` for items in memory of their own.
    pub fn memory(&self) -> Option<(&SegmentMemory, usize)> {
        match &self.words {
            ItemWords::Own(_) => None,
            ItemWords::Slot { memory, offset, .. } => Some((memory, *offset)),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.words {
            ItemWords::Own(words) => words,
            ItemWords::Slot { memory, offset, bytes } => memory.0.mapping.words(*offset, *bytes),
        }
    }
}

impl<'a> ItemStore<'a> {
    /// Item `index`. The words that it shares with others must be stored by no other thread.
    pub fn item(self, index: usize) -> Item<'a> {
        let Self(items) = self;
        Item { words: items.words(), start: index * items.item_bytes, bytes: items.item_bytes }
    }
}

impl Item<'_> {
    /// Stores `bytes` at `offset` in the item.
    ///
    /// # Panics
    ///
    /// If they do not fit into it.
    #[inline]
    pub fn put(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes, "{} bytes at {offset}", bytes.len());
        store_part(self.words, self.start + offset, bytes);
    }
}

/// Copies items of a plane, `item_bytes` long each, to their places in another frame.
pub(super) fn copy_items(
    target: &[AtomicU64],
    source: &[AtomicU64],
    items: Range<usize>,
    item_bytes: usize,
) {
    let (start, end) = (items.start * item_bytes, items.end * item_bytes);
    if start.is_multiple_of(WORD_BYTES) && end.is_multiple_of(WORD_BYTES) {
        let words = start / WORD_BYTES..end / WORD_BYTES;
        return copy_words(&target[words.clone()], &source[words]);
    }
    let mut piece = [0; 4096];
    for at in (start..end).step_by(piece.len()) {
        let piece = &mut piece[..(end - at).min(4096)];
        load_part(piece, source, at);
        store_part(target, at, piece);
    }
}
