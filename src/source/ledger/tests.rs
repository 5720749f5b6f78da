//! Whatever a process sends, the daemon takes no frame that it cannot read, and no buffer is both sides' at a time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use foveate_core::color::{ColorRange, Colorimetry};
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelAspect;
use foveate_socket::receive;
use proptest::prelude::*;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use super::{COUNT_MAX, Ledger, Violation};
use crate::frame::{FrameLayout, PlaneLayout, SampleFormat};
use crate::memory::{MapError, WritableMemory};
use crate::pool::PoolLimits;
use crate::wire::{FrameCounts, FrameReady, FromSource, SourceStamp, ToSource};

const NOW_NS: u64 = 1_000_000_000_000;
const BUFFERS: u8 = 3;
const BYTES_MAX: u64 = 1 << 20;
const LIMITS: PoolLimits =
    PoolLimits { buffers_max: BUFFERS, bytes_max: BYTES_MAX, buffer_bytes_max: BYTES_MAX };
const EXTENT: Extent = Extent::new(64, 48);

fn pair() -> (Arc<OwnedFd>, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    let (own, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    (Arc::new(own), theirs)
}

fn gray() -> SampleFormat {
    let color = Colorimetry {
        matrix: None,
        range: ColorRange::Full,
        transfer: None,
        is_matrix_assumed: false,
        is_range_assumed: false,
    };
    SampleFormat::Picture(PixelFormat::Gray8, color)
}

/// Frame `number` in `buffer`, as an honest process sends it.
fn frame(buffer: u8, number: u64) -> FrameReady {
    FrameReady {
        buffer,
        layout: FrameLayout::packed(gray(), EXTENT, PixelAspect::SQUARE).0,
        stamp: SourceStamp {
            number,
            pts_ns: Some(5),
            capture_ns: NOW_NS - 10,
            capture_unix_ns: NOW_NS,
            capture_clock: CaptureClock::RunningTime,
            arrival_ns: NOW_NS - 5,
        },
        mask_revision: 1,
        is_live: true,
        is_exact: false,
        counts: FrameCounts { captured: 1, ..FrameCounts::default() },
    }
}

/// A ledger with one buffer, which is large enough, and one frame counted.
fn scene() -> (Ledger, OwnedFd) {
    let (own, theirs) = pair();
    let mut ledger = Ledger::new(own, LIMITS, 100);
    let (_, file) = WritableMemory::new(EXTENT.area()).unwrap();
    ledger.add(0, Some(file.as_fd())).unwrap();
    ledger.count(&FrameCounts { captured: 1, ..FrameCounts::default() }).unwrap();
    (ledger, theirs)
}

fn freed(socket: &OwnedFd) -> Option<u8> {
    let mut bytes = [0; 64];
    let (len, _) = receive(socket, &mut bytes, RecvFlags::DONTWAIT).ok()?;
    match ToSource::decode(&bytes[..len]) {
        Ok(ToSource::Free(number)) => Some(number),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_honest_frame_is_taken_and_its_buffer_freed() {
    let (mut ledger, theirs) = scene();
    let taken = ledger.accept(&frame(0, 1), NOW_NS).unwrap();
    assert_eq!((taken.stamp.frame_seq, taken.stamp.pts_ns), (101, Some(5)));
    assert_eq!(taken.buffer.bytes().len(), EXTENT.area());
    assert_eq!(freed(&theirs), None);
    drop(taken);
    assert_eq!(freed(&theirs), Some(0));
}

#[test]
fn what_no_process_sends_is_refused() {
    type Lie = fn(&mut FrameReady);
    let lies: [(&str, Lie); 11] = [
        ("no buffer 1", |frame| frame.buffer = 1),
        ("no buffer 255", |frame| frame.buffer = 255),
        ("does not fit", |frame| frame.layout.extent.height += 1),
        ("does not fit", |frame| frame.layout.extent = Extent::new(0, 0)),
        ("does not fit", |frame| frame.layout.extent = Extent::new(u32::MAX, u32::MAX)),
        ("does not fit", |frame| frame.layout.planes[0].offset = usize::MAX),
        ("does not fit", |frame| {
            frame.layout.planes[0] = PlaneLayout { offset: 1, stride: usize::MAX };
        }),
        ("after frame 0 of 1", |frame| frame.stamp.number = 2),
        ("time of arrival", |frame| frame.stamp.arrival_ns = NOW_NS + 1),
        ("capture time", |frame| frame.stamp.capture_ns = NOW_NS),
        ("presentation time", |frame| frame.stamp.pts_ns = Some(u64::MAX)),
    ];
    let (mut ledger, theirs) = scene();
    for (expected, lie) in lies {
        let mut lying = frame(0, 1);
        lie(&mut lying);
        let violation = ledger.accept(&lying, NOW_NS).unwrap_err().to_string();
        assert!(violation.contains(expected), "{violation}");
    }
    // A refused frame leaves the buffer with the process.
    assert_eq!(freed(&theirs), None);
    ledger.accept(&frame(0, 1), NOW_NS).unwrap();
}

#[test]
fn a_buffer_that_is_held_is_neither_filled_nor_replaced() {
    let (mut ledger, _theirs) = scene();
    let _held = ledger.accept(&frame(0, 1), NOW_NS).unwrap();
    ledger.count(&FrameCounts { captured: 1, ..FrameCounts::default() }).unwrap();
    assert_eq!(ledger.accept(&frame(0, 2), NOW_NS).unwrap_err(), Violation::Held(0));
    let (_, file) = WritableMemory::new(4096).unwrap();
    assert_eq!(ledger.add(0, Some(file.as_fd())), Err(Violation::Held(0)));
}

#[test]
fn a_buffer_is_gone_only_while_the_process_has_it() {
    let (mut ledger, _theirs) = scene();
    let held = ledger.accept(&frame(0, 1), NOW_NS).unwrap();
    assert_eq!(ledger.remove(0), Err(Violation::Held(0)));
    drop(held);
    assert_eq!(ledger.remove(0), Ok(()));
    for number in [0, 1, BUFFERS, u8::MAX] {
        assert_eq!(ledger.remove(number), Err(Violation::NoBuffer(number)));
    }
    // Its bytes are free for others.
    let (_, large) = WritableMemory::new(usize::try_from(BYTES_MAX).unwrap()).unwrap();
    ledger.add(1, Some(large.as_fd())).unwrap();
}

#[test]
fn buffers_are_limited_in_number_and_size() {
    let (mut ledger, _theirs) = scene();
    let (_, small) = WritableMemory::new(4096).unwrap();
    assert_eq!(ledger.add(BUFFERS, Some(small.as_fd())), Err(Violation::NoBuffer(BUFFERS)));
    assert_eq!(ledger.add(1, None), Err(Violation::NoDescriptor(1)));
    let (_, large) = WritableMemory::new(usize::try_from(BYTES_MAX).unwrap()).unwrap();
    let refused = ledger.add(1, Some(large.as_fd())).unwrap_err();
    assert!(matches!(refused, Violation::Memory(MapError::Size { .. })), "{refused}");
    // In place of the first it is not too much.
    assert_eq!(ledger.add(0, Some(large.as_fd())), Ok(BYTES_MAX));
    assert_eq!(ledger.bytes(), BYTES_MAX);
    let limits = PoolLimits { buffer_bytes_max: BYTES_MAX - 1, ..LIMITS };
    let mut ledger = Ledger::new(pair().0, limits, 0);
    match ledger.add(0, Some(large.as_fd())) {
        Err(Violation::Memory(MapError::Size { max, .. })) => assert_eq!(max, BYTES_MAX - 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn counts_are_limited() {
    let (mut ledger, _theirs) = scene();
    let counts = |captured| FrameCounts { captured, ..FrameCounts::default() };
    ledger.count(&counts(COUNT_MAX)).unwrap();
    assert_eq!(ledger.count(&counts(COUNT_MAX + 1)), Err(Violation::Counts(COUNT_MAX + 1)));
}

proptest! {
    /// Any bytes in any order: every frame that is taken can be read, all of it.
    #[test]
    fn every_frame_that_is_taken_can_be_read(
        messages in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..200), any::<prop::sample::Index>(), any::<bool>()), 1..40,
        ),
    ) {
        let (mut ledger, _theirs) = scene();
        let mut held = Vec::new();
        let mut bytes = Vec::new();
        for (number, (noise, at, is_frame)) in messages.iter().enumerate() {
            // An honest frame with some bytes changed, or noise alone.
            if *is_frame {
                FromSource::Frame(frame(0, number as u64 + 1)).encode(&mut bytes);
                let start = at.index(bytes.len());
                let len = noise.len().min(4).min(bytes.len() - start);
                bytes[start..start + len].copy_from_slice(&noise[..len]);
            } else {
                bytes.clone_from(noise);
            }
            let Ok(FromSource::Frame(frame)) = FromSource::decode(&bytes) else { continue };
            let _ = ledger.count(&frame.counts);
            let Ok(taken) = ledger.accept(&frame, NOW_NS) else { continue };
            taken.layout.check(taken.buffer.bytes()).unwrap();
            if number % 3 == 0 {
                held.push(taken);
                held.truncate(1);
            }
        }
    }
}

/// The protocol of buffers, as the two ends follow it: who may touch which buffer, and what is on its way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Model {
    /// Buffers that the process may write.
    free: BTreeSet<u8>,
    /// The one that it writes.
    writing: Option<u8>,
    frames: VecDeque<u8>,
    /// The one that waits in the mailbox.
    waiting: Option<u8>,
    /// The one that the frame loop reads.
    reading: Option<u8>,
    freed: VecDeque<u8>,
}

impl Model {
    /// Every state that one step of any thread leads to.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut state = self.clone();
            change(&mut state);
            next.push(state);
        };
        if self.writing.is_none() && !self.free.is_empty() {
            step(&|state| state.writing = state.free.pop_last());
        }
        if self.writing.is_some() {
            step(&|state| {
                let written = state.writing.take();
                state.frames.extend(written);
            });
        }
        if !self.frames.is_empty() {
            // The newest frame replaces the one that waits, which is freed.
            step(&|state| {
                let newest = state.frames.pop_front();
                state.freed.extend(std::mem::replace(&mut state.waiting, newest));
            });
        }
        if self.waiting.is_some() && self.reading.is_none() {
            step(&|state| state.reading = state.waiting.take());
        }
        if self.reading.is_some() {
            step(&|state| {
                let read = state.reading.take();
                state.freed.extend(read);
            });
        }
        if !self.freed.is_empty() {
            step(&|state| {
                let freed = state.freed.pop_front();
                state.free.extend(freed);
            });
        }
        next
    }

    /// Each buffer is in one place.
    fn holds(&self, buffers: u8) -> bool {
        let places = self.free.iter().chain(&self.frames).chain(&self.freed);
        let single = [&self.writing, &self.waiting, &self.reading].into_iter().flatten();
        let mut all: Vec<_> = places.chain(single).copied().collect();
        all.sort_unstable();
        all == (0..buffers).collect::<Vec<_>>()
    }
}

/// All orders in which the two processes may run: a buffer is never both sides', and there is always a next step, even while the frame
/// loop reads one frame for ever.
#[test]
fn every_order_of_steps_keeps_each_buffer_in_one_place() {
    for buffers in 2..=4 {
        let first = Model {
            free: (0..buffers).collect(),
            writing: None,
            frames: VecDeque::new(),
            waiting: None,
            reading: None,
            freed: VecDeque::new(),
        };
        let (mut seen, mut open) = (BTreeSet::from([first.clone()]), vec![first]);
        while let Some(state) = open.pop() {
            assert!(state.holds(buffers));
            let next = state.next();
            // With three or more, new frames replace old ones while one is being read.
            let goes_on = next.iter().any(|next| next.reading == state.reading);
            assert!(goes_on || buffers < 3, "the process waits for a slow reader");
            open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
        }
        assert!(10 < seen.len(), "{} states", seen.len());
    }
}
