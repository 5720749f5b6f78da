//! A buffer belongs to one side at a time, and none is lost, whatever elements, the process and the daemon do in any order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use foveate_core::color::{ColorRange, Colorimetry};
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelAspect;
use foveate_core::source::Pace;
use foveate_socket::receive;
use foveate_stats::StreamCounters;
use proptest::prelude::*;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use super::{Handover, PostOutcome, SourceFrame};
use crate::frame::{FrameLayout, SampleFormat};
use crate::ledger::{AcceptedFrame, Ledger};
use crate::pool::{Pool, PoolLimits, PooledMemory, Purpose};
use crate::wire::{FrameCounts, FrameReady, FromSource, SourceStamp, ToSource};

const FRAMES_MAX: u8 = 3;
const BUFFERS_MAX: u8 = 8;
const BYTES_MAX: u64 = 1 << 20;
const LIMITS: PoolLimits =
    PoolLimits { buffers_max: BUFFERS_MAX, bytes_max: BYTES_MAX, buffer_bytes_max: BYTES_MAX / 2 };
const NOW_NS: u64 = 1_000_000_000_000;

/// Rows of a frame of an element begin later in its buffer than those of a copy.
const OFFSET: usize = 16;
const STRIDE: usize = 80;

/// Memory of an element.
enum Memory {
    Pooled(PooledMemory),
    Own(Vec<u8>),
}

impl Memory {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pooled(memory) => memory.as_mut(),
            Self::Own(bytes) => bytes,
        }
    }
}

/// A reference to the memory of an element, as of a buffer of GStreamer; it is read by its address.
struct TestFrame {
    _memory: Arc<Mutex<Memory>>,
    bytes: &'static [u8],
}

impl SourceFrame for TestFrame {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

/// Both ends of a handover.
struct Scene {
    socket: OwnedFd,
    process: OwnedFd,
    pool: Arc<Pool>,
    handover: Arc<Handover<TestFrame>>,
    counters: Arc<StreamCounters>,
    ledger: Ledger,
    /// Memory that an element has, which it writes to if nobody else has it.
    elements: Vec<Arc<Mutex<Memory>>>,
    extent: Extent,
    /// What the daemon has, and the sample that each has everywhere.
    held: Vec<(AcceptedFrame, u8)>,
    newest: u64,
    /// The newest frame that the daemon got.
    seen: u64,
}

impl Scene {
    fn new(pace: Pace) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let (unix, whole) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, theirs) = socketpair(unix, whole, flags, None).unwrap();
        let again = |socket: &OwnedFd| socket.try_clone().unwrap();
        let (socket, process) = (again(&own), again(&theirs));
        let theirs = Arc::new(theirs);
        let pool = Pool::new(Arc::clone(&theirs), LIMITS, FRAMES_MAX);
        let counters = Arc::<StreamCounters>::default();
        let (own_pool, own_counters) = (Arc::clone(&pool), Arc::clone(&counters));
        let handover = Handover::new(theirs, own_pool, FRAMES_MAX, pace, own_counters);
        let ledger = Ledger::new(Arc::new(own), LIMITS, 0);
        Self {
            socket,
            process,
            pool,
            handover: Arc::new(handover),
            counters,
            ledger,
            elements: Vec::new(),
            extent: Extent::new(64, 48),
            held: Vec::new(),
            newest: 0,
            seen: 0,
        }
    }

    fn layout(&self) -> FrameLayout {
        let color = Colorimetry {
            matrix: None,
            range: ColorRange::Full,
            transfer: None,
            is_matrix_assumed: false,
            is_range_assumed: false,
        };
        let samples = SampleFormat::Picture(PixelFormat::Gray8, color);
        let (mut layout, _) = FrameLayout::packed(samples, self.extent, PixelAspect::SQUARE);
        (layout.planes[0].offset, layout.planes[0].stride) = (OFFSET, STRIDE);
        layout
    }

    fn frame_bytes(&self) -> usize {
        OFFSET + STRIDE * self.extent.height as usize
    }

    /// Memory of an element that nobody else has, or new memory.
    fn writable(&mut self, is_pooled: bool) -> Arc<Mutex<Memory>> {
        let bytes = self.frame_bytes();
        let free = self.elements.iter().position(|memory| {
            let is_like = matches!(*memory.lock().unwrap(), Memory::Pooled(_)) == is_pooled;
            is_like && Arc::strong_count(memory) == 1
        });
        if let Some(place) = free {
            return Arc::clone(&self.elements[place]);
        }
        let pooled = is_pooled.then(|| self.pool.allocate(bytes, Purpose::Element).ok()).flatten();
        let memory = pooled.map_or_else(|| Memory::Own(vec![0; bytes]), Memory::Pooled);
        let memory = Arc::new(Mutex::new(memory));
        self.elements.push(Arc::clone(&memory));
        memory
    }

    /// An element writes a frame, which is handed over.
    fn write(&mut self, is_pooled: bool) -> PostOutcome {
        let memory = self.writable(is_pooled);
        let sample = u8::try_from((self.newest + 1) % 251).unwrap();
        memory.lock().unwrap().bytes_mut().fill(sample);
        self.post(memory)
    }

    /// Hands over what an element wrote earlier.
    fn repeat(&mut self, at: usize) {
        if !self.elements.is_empty() {
            let memory = Arc::clone(&self.elements[at % self.elements.len()]);
            self.post(memory);
        }
    }

    fn post(&mut self, memory: Arc<Mutex<Memory>>) -> PostOutcome {
        let (frame, ready) = self.frame(memory);
        self.handover.post(frame, ready)
    }

    /// The next frame.
    fn frame(&mut self, memory: Arc<Mutex<Memory>>) -> (TestFrame, FrameReady) {
        self.newest = self.counters.frames_captured.next();
        let bytes = {
            let mut memory = memory.lock().unwrap();
            let bytes = memory.bytes_mut();
            // SAFETY: the frame holds the memory for as long as it has the slice.
            #[expect(unsafe_code, reason = "as a buffer of GStreamer")]
            unsafe {
                std::slice::from_raw_parts(bytes.as_ptr(), bytes.len())
            }
        };
        let ready = FrameReady {
            buffer: 0,
            layout: self.layout(),
            stamp: SourceStamp {
                number: self.newest,
                pts_ns: None,
                capture_ns: 1,
                capture_unix_ns: 1,
                capture_clock: CaptureClock::Unknown,
                arrival_ns: 1,
            },
            mask_revision: 1,
            is_live: true,
            is_exact: false,
            counts: FrameCounts::default(),
        };
        (TestFrame { _memory: memory, bytes }, ready)
    }

    /// The daemon takes a message, if there is one; a newer frame takes the place of the last one of `keeps`.
    fn receive_frame(&mut self, keeps: usize) -> bool {
        let mut bytes = [0; 8192];
        let (len, file) = match receive(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok(received) => received,
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                return false;
            }
        };
        match FromSource::decode(&bytes[..len]).unwrap() {
            FromSource::Buffer(number) => {
                self.ledger.add(number, file.as_ref().map(AsFd::as_fd)).unwrap();
            }
            FromSource::Gone(number) => self.ledger.remove(number).unwrap(),
            FromSource::Counts(counts) => self.ledger.count(&counts).unwrap(),
            FromSource::Frame(frame) => {
                self.ledger.count(&frame.counts).unwrap();
                let taken = self.ledger.accept(&frame, NOW_NS).unwrap();
                let sample = sample_of(&taken);
                self.seen = taken.stamp.frame_seq;
                self.held.truncate(keeps);
                self.held.push((taken, sample));
            }
            other => panic!("{other:?}"),
        }
        true
    }

    /// The process hears that a buffer was freed, if one was.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 64];
        let Ok((len, _)) = receive(&self.process, &mut bytes, RecvFlags::DONTWAIT) else {
            return false;
        };
        match ToSource::decode(&bytes[..len]) {
            Ok(ToSource::Free(number)) => self.handover.free(number),
            other => panic!("{other:?}"),
        }
        true
    }

    /// What the daemon has is what it was when it came.
    fn check(&self) {
        for (frame, sample) in &self.held {
            assert_eq!(sample_of(frame), *sample, "a frame changed while the daemon had it");
        }
        assert!(self.held.len() <= usize::from(FRAMES_MAX));
    }
}

/// The sample that all of a frame has.
fn sample_of(frame: &AcceptedFrame) -> u8 {
    let view = frame.layout.picture(frame.buffer.bytes()).unwrap();
    let first = view.row(0, 0)[0];
    let rows = (0..frame.layout.extent.height as usize).map(|y| view.row(0, y));
    rows.for_each(|row| assert!(row.iter().all(|sample| *sample == first)));
    first
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        is_pooled: bool,
    },
    Repeat(usize),
    Take {
        keeps: usize,
    },
    Release(prop::sample::Index),
    Hear,
    /// Elements get other buffers, of another size.
    Renegotiate(u32),
    Report,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(|is_pooled| Step::Write { is_pooled }),
        1 => any::<usize>().prop_map(Step::Repeat),
        6 => (0..2_usize).prop_map(|keeps| Step::Take { keeps }),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
        4 => Just(Step::Hear),
        1 => (1..60_u32).prop_map(Step::Renegotiate),
        1 => Just(Step::Report),
    ]
}

proptest! {
    #[test]
    fn frames_stay_as_they_were_and_no_buffer_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let mut scene = Scene::new(Pace::Realtime);
        for step in steps {
            match step {
                Step::Write { is_pooled } => {
                    prop_assert!(scene.write(is_pooled) != PostOutcome::Closed);
                }
                Step::Repeat(at) => scene.repeat(at),
                Step::Take { keeps } => drop(scene.receive_frame(keeps)),
                Step::Release(at) => {
                    if !scene.held.is_empty() {
                        let at = at.index(scene.held.len());
                        scene.held.remove(at);
                    }
                }
                Step::Hear => drop(scene.hear()),
                Step::Renegotiate(height) => {
                    scene.elements.clear();
                    scene.extent.height = height;
                }
                Step::Report => scene.handover.report_counts(),
            }
            scene.check();
        }
        // The newest frame arrives, however long the daemon took.
        scene.held.clear();
        while scene.receive_frame(0) || scene.hear() {
            scene.check();
            scene.held.clear();
        }
        prop_assert_eq!(scene.seen, scene.newest);
        scene.elements.clear();
        // All that is left are buffers for copies, none of which is in use.
        let idle = scene.handover.state.lock().idle.len();
        prop_assert!(idle <= usize::from(FRAMES_MAX));
        prop_assert_eq!(scene.pool.len(), idle);
        while scene.receive_frame(0) {}
        prop_assert_eq!(scene.ledger.len(), idle);
    }
}

#[test]
fn frames_in_the_pool_are_not_copied() {
    let mut scene = Scene::new(Pace::Realtime);
    for _ in 0..20 {
        scene.write(true);
        while scene.receive_frame(0) {}
        while scene.hear() {}
    }
    assert_eq!(scene.counters.frames_copied_to_send.get(), 0);
    scene.write(false);
    assert_eq!(scene.counters.frames_copied_to_send.get(), 1);
    // One that is repeated while the daemon has it is copied, too.
    while scene.receive_frame(0) {}
    while scene.hear() {}
    let memory = scene.writable(true);
    scene.post(Arc::clone(&memory));
    scene.post(memory);
    assert_eq!(scene.counters.frames_copied_to_send.get(), 2);
}

#[test]
fn the_newest_frame_waits_for_a_slow_daemon() {
    let mut scene = Scene::new(Pace::Realtime);
    for _ in 0..FRAMES_MAX + 1 {
        assert_eq!(scene.write(true), PostOutcome::Taken);
    }
    assert_eq!(scene.write(true), PostOutcome::Replaced);
    while scene.receive_frame(0) {}
    assert_eq!(scene.held[0].0.stamp.frame_seq, u64::from(FRAMES_MAX));
    while scene.hear() {}
    while scene.receive_frame(0) {}
    assert_eq!(scene.held[0].0.stamp.frame_seq, u64::from(FRAMES_MAX) + 2);
}

#[test]
fn every_frame_waits_until_the_daemon_may_have_it() {
    const FRAMES: u64 = 40;
    let mut scene = Scene::new(Pace::EveryFrame);
    let memories = (0..FRAMES).map(|_| Arc::new(Mutex::new(Memory::Own(vec![1; 8192]))));
    let frames: Vec<_> = memories.map(|memory| scene.frame(memory)).collect();
    let handover = Arc::clone(&scene.handover);
    let posting = std::thread::spawn(move || {
        frames.into_iter().map(|(frame, ready)| handover.post(frame, ready)).collect::<Vec<_>>()
    });
    let mut last = 0;
    while last < FRAMES {
        scene.receive_frame(0);
        if let Some((frame, _)) = scene.held.pop() {
            assert_eq!(frame.stamp.frame_seq, last + 1);
            last += 1;
        }
        scene.hear();
    }
    assert!(posting.join().unwrap().iter().all(|posted| *posted == PostOutcome::Taken));
}

#[test]
fn whoever_waits_goes_on_when_the_daemon_hangs_up() {
    let mut scene = Scene::new(Pace::EveryFrame);
    for _ in 0..FRAMES_MAX {
        scene.write(true);
    }
    let (frame, ready) = scene.frame(Arc::new(Mutex::new(Memory::Own(vec![1; 8192]))));
    let handover = Arc::clone(&scene.handover);
    let posting = std::thread::spawn(move || handover.post(frame, ready));
    scene.handover.hang_up();
    assert_eq!(posting.join().unwrap(), PostOutcome::Closed);
    scene.handover.finish(&FromSource::Ended);
}

#[test]
fn elements_leave_room_for_copies() {
    let scene = Scene::new(Pace::Realtime);
    let whole = usize::try_from(BYTES_MAX).unwrap();
    assert!(scene.pool.allocate(whole / 2 + 1, Purpose::Copy).is_err());
    let bytes = whole / 4;
    let lent: Vec<_> =
        (0..9).map_while(|_| scene.pool.allocate(bytes, Purpose::Element).ok()).collect();
    assert_eq!(lent.len(), 2, "half of the bytes");
    let copies: Vec<_> =
        (0..9).map_while(|_| scene.pool.allocate(bytes, Purpose::Copy).ok()).collect();
    assert_eq!(copies.len(), 2);
    drop((lent, copies));
    let lent: Vec<_> =
        (0..99).map_while(|_| scene.pool.allocate(1, Purpose::Element).ok()).collect();
    assert_eq!(lent.len(), usize::from(BUFFERS_MAX - FRAMES_MAX));
    let copies: Vec<_> =
        (0..99).map_while(|_| scene.pool.allocate(1, Purpose::Copy).ok()).collect();
    assert_eq!(copies.len(), usize::from(FRAMES_MAX));
}
