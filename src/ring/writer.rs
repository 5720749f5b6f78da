//! The single writer of a segment. It never waits for readers: it overwrites the oldest frame even while it is being read.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use super::abi::{
    LIVE_OFFSET, PLANE_COUNT_MAX, SegmentHeader, SlotHeader, State, StateBlock, TokenRecord,
};
use super::error::{RingError, SystemResultExt, whole_text};
use super::head::FrameHead;
use super::header::{HeaderPage, header_from_spec, page_of, whole_from_page};
use super::items::{Items, copy_items};
use super::mapping::{Mapping, WORD_BYTES, store_bytes, store_part};
use super::memory::{reopened, reserved_memory, seal};
use super::segment::{Segment, SegmentLayout, SegmentSpec, Slot, SlotPlane};
use super::text::Text;
use super::{camera, channels};
use foveate_core::clock;

/// A token frame to publish.
#[derive(Clone, Debug)]
pub struct TokenFrame<'a> {
    /// Metadata. Its `ring_sequence` and `publish_ns` do not matter: the writer sets them.
    pub head: FrameHead,
    /// One per token, at most the segment's capacity.
    pub records: &'a [TokenRecord],
    /// One per plane of the segment, in its order, as from [`plane_list`]: an item per token, in the order of the records, or as
    /// many items as the plane has. The first may be empty in a frame that was [begun](Writer::begin): then the items whose version
    /// the frame before does not have were stored there.
    pub planes: [&'a [u8]; PLANE_COUNT_MAX],
    /// Content version per token: differs whenever its items may differ from those of earlier frames. A slot that already holds a
    /// version is not written again. 0 means unversioned: always stored, as is a plane that does not
    /// [follow the texels](foveate_core::plane::PlaneSpec::follows_texels).
    pub versions: &'a [u64],
    /// Content version of the planes whose items are not the tokens, as in `versions`.
    pub whole_version: u64,
}

/// `planes` as the planes of a frame, at most 8.
pub fn plane_list<const COUNT: usize>(planes: [&[u8]; COUNT]) -> [&[u8]; PLANE_COUNT_MAX] {
    let mut list = [&[][..]; PLANE_COUNT_MAX];
    list[..COUNT].copy_from_slice(&planes);
    list
}

/// A segment written by this process. Readers keep its content as long as they have it mapped.
#[derive(Debug)]
pub struct Writer {
    segment: Arc<Segment>,
    file: OwnedFd,
    epoch: u64,
    /// Ring sequence of the newest frame.
    published: u64,
    /// For each slot, the versions of its items; 0 for none.
    held: Vec<Vec<u64>>,
    /// For each slot, the version of the planes whose items are not the tokens; 0 for none.
    held_whole: Vec<u64>,
    /// Whether the next frame was begun.
    is_begun: bool,
    /// Slots that are still to be erased where the next frames do not write.
    unerased: usize,
}

impl Writer {
    /// Creates a segment: reserves its memory, writes its header, and seals it.
    ///
    /// # Errors
    ///
    /// If the spec does not fit a segment, there is not enough memory, or a system call fails.
    pub fn create(spec: &SegmentSpec) -> Result<Self, RingError> {
        let layout = SegmentLayout::new(spec)?;
        let epoch = random_epoch()?;
        let header = header_from_spec(spec, &layout, epoch)?;
        let (_, camera) = camera::blocks(spec.camera.as_ref());
        let page = page_of(&header, &camera, &channels::block(spec.channels.as_ref())?);
        Self::with_page(&page, layout, epoch, &format!("foveate:{}/{}", spec.stream, spec.view))
    }

    /// Creates a segment with the header of another one, which `page` is of, for frames that were recorded from that one. All of it is
    /// the same but for the epoch, and the name of the stream if one is given.
    ///
    /// # Errors
    ///
    /// If `page` is not that of a segment, the name is longer than 63 bytes, there is not enough memory, or a system call fails.
    pub fn recreate(page: &HeaderPage, stream: Option<&str>) -> Result<Self, RingError> {
        let (info, layout) = whole_from_page(page)?;
        let mut page = *page;
        let mut header: SegmentHeader = bytemuck::pod_read_unaligned(&page[..LIVE_OFFSET]);
        header.epoch = random_epoch()?;
        if let Some(stream) = stream {
            header.stream_name = whole_text("stream", stream, "at most 63 bytes, no NUL")?;
        }
        page[..LIVE_OFFSET].copy_from_slice(bytemuck::bytes_of(&header));
        let name = format!("foveate:{}/{}", stream.unwrap_or(&info.stream), info.view);
        Self::with_page(&page, layout, header.epoch, &name)
    }

    fn with_page(
        page: &HeaderPage,
        layout: SegmentLayout,
        epoch: u64,
        name: &str,
    ) -> Result<Self, RingError> {
        let file = reserved_memory(name, layout.total_bytes)?;
        let mapping = Mapping::writable(file.as_fd(), layout.total_bytes)?;
        store_bytes(mapping.words(0, page.len()), page);
        let segment = Arc::new(Segment { mapping, layout });
        store_state(&segment, 0, State::Live, "");
        // From here on no process, including this one, can map it for writing again.
        seal(file.as_fd())?;
        let held = vec![vec![0; layout.capacity]; layout.slot_count];
        let held_whole = vec![0; layout.slot_count];
        Ok(Self {
            segment,
            file,
            epoch,
            published: 0,
            held,
            held_whole,
            is_begun: false,
            unerased: 0,
        })
    }

    /// A new read-only descriptor of the segment for readers.
    ///
    /// # Errors
    ///
    /// If it cannot be opened; it is reached through `/proc/self/fd`.
    pub fn reader_fd(&self) -> Result<OwnedFd, RingError> {
        reopened(self.file.as_fd()).during("open(/proc/self/fd)")
    }

    /// The segment's random identity.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of frames published.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Erases from now on, slot by slot as frames are published, the bytes that earlier frames left behind the tokens of a shorter frame.
    /// After as many frames as there are slots, the segment has no byte of a frame from before.
    pub fn erase_earlier(&mut self) {
        self.unerased = self.segment.layout.slot_count;
    }

    /// Begins the next frame, and returns where the items of its first plane go, so that they need not be copied. Until it is
    /// published, readers do not find the oldest frame any more. A frame may be begun again.
    pub fn begin(&mut self) -> Items {
        let sequence = self.published + 1;
        let slot = self.segment.slot(sequence);
        slot.lock().begin(sequence);
        self.is_begun = true;
        let SlotPlane { item_bytes, .. } = self.segment.layout.planes()[0];
        let (offset, bytes) = slot.place(0, self.segment.layout.capacity);
        Items::of_slot(&self.segment, offset, bytes, item_bytes)
    }

    /// Publishes a frame, and returns its ring sequence. Wakes nobody; that is left to
    /// [`Waker::wake`](super::Waker::wake).
    ///
    /// # Panics
    ///
    /// If the frame has more tokens than the segment's capacity, or a plane does not have its items.
    pub fn publish(&mut self, frame: &TokenFrame<'_>) -> u64 {
        let SegmentLayout { capacity, plane_count, .. } = self.segment.layout;
        let token_count = frame.records.len();
        assert!(token_count <= capacity, "{token_count} tokens in a segment for {capacity}");
        assert!(frame.planes[plane_count..].iter().all(|items| items.is_empty()), "other planes");
        let is_begun = std::mem::take(&mut self.is_begun) && frame.planes[0].is_empty();
        let places = self.segment.layout.planes().iter().zip(frame.planes);
        for (place, items) in places.skip(usize::from(is_begun)) {
            let bytes = place.bytes(token_count);
            assert_eq!(items.len(), bytes, "items of a plane in a frame of {token_count} tokens");
        }
        assert!(!frame.head.fixations.is_empty(), "no fixation");
        assert_eq!(frame.versions.len(), token_count, "versions of {token_count} tokens");

        let sequence = self.published + 1;
        let slot = self.segment.slot(sequence);
        let erases = 0 < self.unerased;
        self.unerased = self.unerased.saturating_sub(1);
        self.segment.live().publish(slot.lock(), sequence, || {
            if erases {
                erase_beyond(slot, token_count, self.segment.layout);
            }
            store_bytes(slot.records(token_count), bytemuck::cast_slice(frame.records));
            if is_begun {
                carry_over(&self.segment, &self.held, frame.versions, sequence);
            }
            let index = self.segment.slot_index(sequence);
            let (held, held_whole) = (&mut self.held[index], &mut self.held_whole[index]);
            let is_whole_held = frame.whole_version != 0 && *held_whole == frame.whole_version;
            for (index, (place, items)) in
                self.segment.layout.planes().iter().zip(frame.planes).enumerate()
            {
                let target = slot.plane(index, token_count);
                match place.count {
                    None if is_begun && index == 0 => {}
                    None if !place.follows_texels => store_bytes(target, items),
                    None => store_changed(target, items, frame.versions, held, place.item_bytes),
                    Some(_) if is_whole_held => {}
                    Some(_) => store_bytes(target, items),
                }
            }
            *held_whole = frame.whole_version;
            let (now, beyond) = held.split_at_mut(token_count);
            now.copy_from_slice(frame.versions);
            // The last words may have overwritten the first bytes after them.
            beyond.fill(0);
            let header = SlotHeader {
                ring_sequence: sequence,
                publish_ns: clock::monotonic_ns(),
                ..frame.head.to_slot(token_count)
            };
            // The first word is the lock.
            let bytes = &bytemuck::bytes_of(&header)[size_of_val(&header.lock)..];
            store_bytes(&slot.header()[1..], bytes);
        });
        self.published = sequence;
        sequence
    }

    /// Sets the view's state and its reason, of at most 127 bytes. Wakes nobody; that is left to
    /// [`Waker::wake`](super::Waker::wake).
    pub fn set_state(&mut self, state: State, reason: &str) {
        let fill = |next| store_state(&self.segment, next, state, reason);
        self.segment.live().change_state(fill);
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

/// Writes the state with number `state_sequence`.
fn store_state(segment: &Segment, state_sequence: u32, state: State, reason: &str) {
    let block = StateBlock { code: state.code(), reserved: 0, reason: Text::truncated(reason) };
    store_bytes(segment.state(state_sequence), bytemuck::bytes_of(&block));
}

/// Copies the items of the first plane that frame `sequence` has in common with the one before, and that its slot does not hold;
/// `held` has the versions that each slot holds.
fn carry_over(segment: &Segment, held: &[Vec<u64>], versions: &[u64], sequence: u64) {
    let [held, before] =
        [sequence, sequence - 1].map(|sequence| &held[segment.slot_index(sequence)]);
    let [target, source] =
        [sequence, sequence - 1].map(|sequence| segment.slot(sequence).plane(0, versions.len()));
    let item_bytes = segment.layout.planes()[0].item_bytes;
    let is_carried = |token: &usize| {
        let version = versions[*token];
        version != 0 && before[*token] == version && held[*token] != version
    };
    for tokens in runs_of(versions.len(), is_carried) {
        copy_items(target, source, tokens, item_bytes);
    }
}

/// The runs of tokens, of `count`, that are as asked.
fn runs_of(count: usize, is_asked: impl Fn(&usize) -> bool) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = (start..count).find(&is_asked)?;
        start = (first..count).find(|token| !is_asked(token)).unwrap_or(count);
        Some(first..start)
    })
}

/// Writes zeros where the records and the items of tokens after the first `token_count` are.
fn erase_beyond(slot: Slot<'_>, token_count: usize, layout: SegmentLayout) {
    let zeros = [0; 4096];
    let erase = |words: &[AtomicU64], from: usize| {
        let end = size_of_val(words);
        for at in (from..end).step_by(zeros.len()) {
            store_part(words, at, &zeros[..(end - at).min(zeros.len())]);
        }
    };
    erase(slot.records(layout.capacity), token_count * size_of::<TokenRecord>());
    for (index, place) in layout.planes().iter().enumerate().filter(|(_, p)| p.count.is_none()) {
        erase(slot.plane(index, layout.capacity), place.bytes(token_count));
    }
}

/// Stores the items of a plane whose versions differ from `held`.
fn store_changed(
    target: &[AtomicU64],
    items: &[u8],
    versions: &[u64],
    held: &[u64],
    token_bytes: usize,
) {
    let is_changed = |token: &usize| versions[*token] == 0 || held[*token] != versions[*token];
    for tokens in runs_of(versions.len(), is_changed) {
        let bytes = tokens.start * token_bytes..tokens.end * token_bytes;
        // Items need not be whole words: the words at both ends are stored whole.
        let words = bytes.start / WORD_BYTES..bytes.end.div_ceil(WORD_BYTES);
        let end = (words.end * WORD_BYTES).min(items.len());
        store_bytes(&target[words.clone()], &items[words.start * WORD_BYTES..end]);
    }
}

fn random_epoch() -> Result<u64, RingError> {
    let mut epoch = [0; 8];
    retry_on_intr(|| getrandom(&mut epoch, GetRandomFlags::empty())).during("getrandom")?;
    Ok(u64::from_ne_bytes(epoch))
}
