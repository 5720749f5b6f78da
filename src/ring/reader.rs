//! A reader of a segment. It maps the segment read-only, copies frames or borrows them in place, and checks afterwards whether
//! the writer overwrote them meanwhile.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use rustix::fs::{fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

use super::TRIES_MAX;
use super::abi::{
    CAMERA_FRAME_OFFSET, HEADER_BYTES, LIVE_OFFSET, SlotHeader, State, StateBlock, TokenRecord,
};
use super::error::{RingError, SystemResultExt};
use super::head::FrameHead;
use super::header::{HeaderPage, info_from_page};
use super::mapping::{Mapping, load_bytes};
use super::segment::{REQUIRED_SEALS, Segment, SegmentInfo, SegmentLayout, Slot};
use foveate_core::clock;

/// Bounds of [`Reader::patience`], in nanoseconds. A writer that dies wakes nobody, so the upper one bounds how late that is noticed.
const PATIENCE_MIN_NS: u64 = 1_000_000;
const PATIENCE_MAX_NS: u64 = 100_000_000;

/// A frame copied out of the ring. Reuse it, so that reading allocates nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenFrameBuf {
    /// Metadata.
    pub head: FrameHead,
    /// Record of each token.
    pub records: Vec<TokenRecord>,
    /// [`TokenFormat::token_bytes`](foveate_core::token::TokenFormat::token_bytes) per token, in the order of the records:
    /// `[records.len(), 3, P, P]`.
    pub pixels: Vec<u8>,
    /// The planes after the pixels, in the order of [`SegmentSpec::planes`](crate::SegmentSpec::planes): an item per token, or as many as the plane has.
    pub planes: Vec<Vec<u8>>,
}

/// Result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// A frame was copied.
    Frame {
        /// Frames between it and the one read before: skipped by `read_newest`, or overwritten before `read_next` reached
        /// them.
        missed: u64,
    },
    /// All frames have been read; the buffer is unchanged.
    Nothing,
}

/// The writer overwrote a frame while it was read in place; results derived from it are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapped {
    /// The overwritten frame.
    pub ring_sequence: u64,
}

impl fmt::Display for Lapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the writer overwrote frame {} while it was read", self.ring_sequence)
    }
}

impl std::error::Error for Lapped {}

/// Reads one segment.
///
/// It starts with the newest frame at the time of opening.
#[derive(Debug)]
pub struct Reader {
    segment: Segment,
    info: SegmentInfo,
    /// Ring sequence of the last frame read or skipped.
    last: u64,
    /// The futex word when the newest frame was last looked for: [`wait`](Self::wait) sleeps while the word is the same.
    seen: u32,
}

impl Reader {
    /// Opens the segment of a descriptor from a writer. The descriptor is not needed afterwards.
    ///
    /// # Errors
    ///
    /// If it is not a segment, has another ABI version, contradicts itself, or could shrink or be written by others.
    pub fn from_fd(file: OwnedFd) -> Result<Self, RingError> {
        let file_bytes = checked_size(file.as_fd())?;
        let mapped_bytes = usize::try_from(file_bytes).expect("the ring is for 64-bit machines");
        let mapping = Mapping::read_only(file.as_fd(), mapped_bytes)?;
        let (info, layout) = info_from_page(&header_page(&mapping), file_bytes)?;

        let mut reader = Self { segment: Segment { mapping, layout }, info, last: 0, seen: 0 };
        reader.last = reader.look_for_newest().saturating_sub(1);
        Ok(reader)
    }

    /// Marks all frames of the segment as unread, for following a view from one segment to the next.
    pub fn rewind(&mut self) {
        self.last = 0;
    }

    /// Description of the segment.
    pub fn header(&self) -> &SegmentInfo {
        &self.info
    }

    /// The segment's first bytes, to be kept beside its frames: see [`SegmentInfo::from_page`].
    pub fn header_page(&self) -> HeaderPage {
        header_page(&self.segment.mapping)
    }

    /// Copies the newest frame if it is unread. Older unread ones are skipped.
    ///
    /// # Errors
    ///
    /// If the segment is broken, or the writer kept overwriting the frame during the copy. The buffer's content is then
    /// undefined.
    pub fn read_newest(&mut self, frame: &mut TokenFrameBuf) -> Result<ReadOutcome, RingError> {
        for _ in 0..TRIES_MAX {
            let newest = self.look_for_newest();
            if newest <= self.last {
                return Ok(ReadOutcome::Nothing);
            }
            if self.copy(newest, frame)? {
                return Ok(ReadOutcome::Frame { missed: self.mark_read(newest) });
            }
        }
        Err(RingError::Overtaken { tries: TRIES_MAX })
    }

    /// Copies the oldest unread frame that is still in the ring.
    ///
    /// # Errors
    ///
    /// As [`Reader::read_newest`].
    pub fn read_next(&mut self, frame: &mut TokenFrameBuf) -> Result<ReadOutcome, RingError> {
        let mut next = self.last.saturating_add(1);
        for _ in 0..TRIES_MAX {
            let newest = self.look_for_newest();
            if newest <= self.last {
                return Ok(ReadOutcome::Nothing);
            }
            next = next.max(self.oldest_in_ring(newest)).min(newest);
            if self.copy(next, frame)? {
                return Ok(ReadOutcome::Frame { missed: self.mark_read(next) });
            }
            // The writer is overwriting this one, and may not have announced it yet.
            next = next.saturating_add(1);
        }
        Err(RingError::Overtaken { tries: TRIES_MAX })
    }

    /// Copies the frame captured nearest to `capture_ns` (CLOCK_MONOTONIC, in nanoseconds), read or unread; of two equally near
    /// ones, the older. Does not mark it as read. False while the ring is empty.
    ///
    /// # Errors
    ///
    /// As [`Reader::read_newest`].
    pub fn read_nearest(
        &self,
        capture_ns: u64,
        frame: &mut TokenFrameBuf,
    ) -> Result<bool, RingError> {
        for _ in 0..TRIES_MAX {
            let newest = self.segment.live().newest();
            if newest == 0 {
                return Ok(false);
            }
            let oldest = self.oldest_in_ring(newest).max(1);
            let distance = |sequence| {
                let header = self.load_header(sequence)?;
                Some((header.capture_ns.abs_diff(capture_ns), sequence))
            };
            if let Some((_, nearest)) = (oldest..=newest).filter_map(distance).min()
                && self.copy(nearest, frame)?
            {
                return Ok(true);
            }
        }
        Err(RingError::Overtaken { tries: TRIES_MAX })
    }

    /// Borrows the newest frame in place if it is unread.
    ///
    /// # Errors
    ///
    /// As [`Reader::read_newest`].
    pub fn borrow_newest(&mut self) -> Result<Option<BorrowedFrame<'_>>, RingError> {
        for _ in 0..TRIES_MAX {
            let newest = self.look_for_newest();
            if newest <= self.last {
                return Ok(None);
            }
            if let Some(header) = self.load_header(newest) {
                let token_count = self.checked_token_count(&header, newest)?;
                let missed = self.mark_read(newest);
                let slot = self.segment.slot(newest);
                let (layout, head) = (self.segment.layout, FrameHead::from_slot(&header));
                return Ok(Some(BorrowedFrame { slot, layout, head, token_count, missed }));
            }
        }
        Err(RingError::Overtaken { tries: TRIES_MAX })
    }

    /// Waits until there may be news since the last read: a frame, or a change of state. Returns whether there may be;
    /// false after `timeout` or a signal.
    ///
    /// A writer that dies wakes nobody, and another reader can steal the wake, so wait no longer than [`Reader::patience`], then
    /// check the socket that delivered the segment for a hang-up.
    pub fn wait(&self, timeout: Duration) -> bool {
        // An unrepresentable deadline never comes.
        let deadline = Instant::now().checked_add(timeout);
        while !self.has_news() {
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
            // Not private: the writer is another process.
            let flags = futex::Flags::empty();
            match futex::wait(self.segment.futex(), flags, self.seen, rest.as_ref()) {
                // The wake may have been for news already read.
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(error) => {
                    let is_expected = matches!(error, Errno::TIMEDOUT | Errno::INTR);
                    debug_assert!(is_expected, "FUTEX_WAIT on a mapped word: {error}");
                    return self.has_news();
                }
            }
        }
        true
    }

    /// Longest wait before the socket must be checked, 1 to 100 ms. Ends a quarter of the frame interval after the next frame
    /// is due; once overdue, equals the delay so far, at least that quarter.
    ///
    /// Any reader can move the waiters of a futex to another (FUTEX_REQUEUE needs no write access). With this, a stolen wake delays a
    /// punctual frame by a quarter of an interval, and a stalled stream soon costs ten checks a second.
    pub fn patience(&self) -> Duration {
        let publish_ns = |sequence| self.load_header(sequence).map(|header| header.publish_ns);
        let newest = self.segment.live().newest();
        let newest_ns = publish_ns(newest).unwrap_or_else(clock::monotonic_ns);
        // If the writer has just replaced the frame before, the interval counts as 0.
        let before_ns = publish_ns(newest.saturating_sub(1)).unwrap_or(newest_ns);
        Duration::from_nanos(patience_ns(clock::monotonic_ns(), newest_ns, before_ns))
    }

    /// State of the view, and its reason.
    ///
    /// Returns [`State::Ended`] for an unknown state, and if the writer changes it faster than it can be read.
    pub fn state(&self) -> (State, String) {
        let block = self.segment.live().read_state(|state_sequence| {
            let mut block = StateBlock::zeroed();
            load_bytes(bytemuck::bytes_of_mut(&mut block), self.segment.state(state_sequence));
            block
        });
        let Some(StateBlock { code, reason, .. }) = block else {
            return (State::Ended, "the state changes faster than it can be read".to_owned());
        };
        match State::from_code(code) {
            Some(state) => (state, String::from_utf8_lossy(reason.bytes()).into_owned()),
            None => (
                State::Ended,
                format!("the segment has the unknown state {code}: update this reader"),
            ),
        }
    }

    /// Returns the newest ring sequence, and keeps the futex word for [`wait`](Self::wait).
    fn look_for_newest(&mut self) -> u64 {
        let (newest, seen) = self.segment.live().look();
        self.seen = seen;
        newest
    }

    fn has_news(&self) -> bool {
        self.segment.live().has_news(self.last, self.seen)
    }

    /// The oldest frame in the ring when `newest` is the newest.
    fn oldest_in_ring(&self, newest: u64) -> u64 {
        newest.saturating_sub(self.segment.layout.slot_count as u64 - 1)
    }

    /// Marks frame `sequence` as read, and returns the number of unread frames before it.
    fn mark_read(&mut self, sequence: u64) -> u64 {
        let missed = sequence - self.last - 1;
        self.last = sequence;
        missed
    }

    /// Copies frame `sequence`; false if the writer overwrote it meanwhile.
    fn copy(&self, sequence: u64, frame: &mut TokenFrameBuf) -> Result<bool, RingError> {
        let slot = self.segment.slot(sequence);
        let Some(header) = self.load_header(sequence) else { return Ok(false) };
        let token_count = self.checked_token_count(&header, sequence)?;
        frame.resize(token_count, &self.segment.layout);
        load_bytes(bytemuck::cast_slice_mut(&mut frame.records), slot.records(token_count));
        load_bytes(&mut frame.pixels, slot.plane(0, token_count));
        for (index, plane) in (1..).zip(&mut frame.planes) {
            load_bytes(plane, slot.plane(index, token_count));
        }
        frame.head = FrameHead::from_slot(&header);
        Ok(slot.lock().still_holds(sequence))
    }

    /// The header of frame `sequence`, unless its slot holds another.
    fn load_header(&self, sequence: u64) -> Option<SlotHeader> {
        let slot = self.segment.slot(sequence);
        slot.lock().read(sequence, || {
            let mut header = SlotHeader::zeroed();
            load_bytes(bytemuck::bytes_of_mut(&mut header), slot.header());
            header
        })
    }

    /// Validates the token count of a consistent header.
    fn checked_token_count(&self, header: &SlotHeader, sequence: u64) -> Result<usize, RingError> {
        let malformed =
            |field, value: u64| Err(RingError::Malformed { field, value: value.to_string() });
        let token_count = header.token_count as usize;
        if header.ring_sequence != sequence {
            return malformed("ring_sequence", header.ring_sequence);
        }
        if self.segment.layout.capacity < token_count {
            return malformed("token_count", token_count as u64);
        }
        Ok(token_count)
    }
}

impl TokenFrameBuf {
    /// The items of the plane [`index`](SegmentInfo::plane_index) of the segment, 0 for the texels: little-endian, one for each token
    /// unless the order of the plane says otherwise, [`token_stride`](super::PlaneInfo::token_stride) bytes apart.
    pub fn plane(&self, index: usize) -> &[u8] {
        index.checked_sub(1).map_or(&self.pixels, |behind| &self.planes[behind])
    }

    /// Resizes for `token_count` tokens; the first time, reserves the segment's capacity.
    fn resize(&mut self, token_count: usize, layout: &SegmentLayout) {
        let capacity = layout.capacity;
        self.records.reserve(capacity.saturating_sub(self.records.len()));
        self.records.resize(token_count, TokenRecord::zeroed());
        self.planes.resize_with(layout.plane_count - 1, Vec::new);
        let planes = std::iter::once(&mut self.pixels).chain(&mut self.planes);
        for (plane, place) in planes.zip(layout.planes()) {
            plane.reserve(place.bytes(capacity).saturating_sub(plane.len()));
            plane.resize(place.bytes(token_count), 0);
        }
    }
}

/// A frame in place. The writer may overwrite it at any time: results are valid only if [`BorrowedFrame::finish`] succeeds
/// afterwards.
#[derive(Clone, Debug)]
pub struct BorrowedFrame<'a> {
    slot: Slot<'a>,
    layout: SegmentLayout,
    head: FrameHead,
    token_count: usize,
    missed: u64,
}

impl<'a> BorrowedFrame<'a> {
    /// Metadata; a consistent copy.
    pub fn head(&self) -> &FrameHead {
        &self.head
    }

    /// Number of tokens.
    pub fn token_count(&self) -> usize {
        self.token_count
    }

    /// Older frames that were skipped.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The current record of token `index`, below [`BorrowedFrame::token_count`].
    pub fn record(&self, index: usize) -> TokenRecord {
        const WORDS: usize = size_of::<TokenRecord>() / size_of::<u64>();
        let mut record = TokenRecord::zeroed();
        let words = &self.slot.records(self.token_count)[index * WORDS..][..WORDS];
        load_bytes(bytemuck::bytes_of_mut(&mut record), words);
        record
    }

    /// The current texels, as little-endian words to be loaded relaxed. [`BorrowedFrame::pixel_bytes`] bytes of them count; the rest of the
    /// last word is padding.
    pub fn pixel_words(&self) -> &'a [AtomicU64] {
        self.plane_words(0)
    }

    /// [`pixel_words`](Self::pixel_words) of the plane [`index`](SegmentInfo::plane_index) of the segment.
    pub fn plane_words(&self, index: usize) -> &'a [AtomicU64] {
        self.slot.plane(index, self.token_count)
    }

    /// Size of the texels in bytes.
    pub fn pixel_bytes(&self) -> usize {
        self.plane_bytes(0)
    }

    /// [`pixel_bytes`](Self::pixel_bytes) of the plane [`index`](SegmentInfo::plane_index) of the segment.
    pub fn plane_bytes(&self, index: usize) -> usize {
        self.layout.planes()[index].bytes(self.token_count)
    }

    /// Whether everything read so far belongs to this frame.
    pub fn still_valid(&self) -> bool {
        self.slot.lock().still_holds(self.head.ring_sequence)
    }

    /// Ends the borrow.
    ///
    /// # Errors
    ///
    /// If the writer overwrote the frame meanwhile.
    pub fn finish(self) -> Result<(), Lapped> {
        let ring_sequence = self.head.ring_sequence;
        if self.still_valid() { Ok(()) } else { Err(Lapped { ring_sequence }) }
    }
}

/// [`Reader::patience`] at `now_ns`, after frames that were published at `before_ns` and `newest_ns`.
fn patience_ns(now_ns: u64, newest_ns: u64, before_ns: u64) -> u64 {
    let interval_ns = newest_ns.saturating_sub(before_ns);
    let due_ns = newest_ns.saturating_add(interval_ns);
    let slice_ns = if now_ns < due_ns {
        (due_ns - now_ns).saturating_add(interval_ns / 4)
    } else {
        (now_ns - due_ns).max(interval_ns / 4)
    };
    slice_ns.clamp(PATIENCE_MIN_NS, PATIENCE_MAX_NS)
}

/// The header page, with zeros for the live block, which the writer changes at any time.
fn header_page(mapping: &Mapping) -> HeaderPage {
    let mut page = [0; HEADER_BYTES];
    for part in [0..LIVE_OFFSET, CAMERA_FRAME_OFFSET..HEADER_BYTES] {
        load_bytes(&mut page[part.clone()], mapping.words(part.start, part.len()));
    }
    page
}

/// Size of `file` in bytes, if it is a memfd whose size and content are sealed and whose pages are all reserved, so that access
/// to its mapping cannot fault.
fn checked_size(file: BorrowedFd<'_>) -> Result<u64, RingError> {
    let refused = |reason: String| Err(RingError::NotASegment { reason });
    let seals = match fcntl_get_seals(file) {
        Err(Errno::INVAL) => return refused("it is not shared memory".to_owned()),
        seals => seals.during("fcntl(F_GET_SEALS)")?,
    };
    if !seals.contains(REQUIRED_SEALS) {
        return refused(format!("it lacks the seals {:?}", REQUIRED_SEALS.difference(seals)));
    }
    let status = fstat(file).during("fstat")?;
    let bytes = u64::try_from(status.st_size).unwrap_or(0);
    if bytes < HEADER_BYTES as u64 || !bytes.is_multiple_of(8) {
        return refused(format!("it has {bytes} bytes"));
    }
    // st_blocks counts units of 512 bytes whatever the file system.
    let reserved_bytes = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512);
    if reserved_bytes < bytes {
        return refused(format!("only {reserved_bytes} of its {bytes} bytes are reserved"));
    }
    Ok(bytes)
}
