//! Once a stream on the CPU is warm, no thread of the process allocates memory for a frame, whatever changes or moves in it.
//!
//! All of it is one test: another one that runs meanwhile would allocate, and be counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foveate_config::ViewConfig;
use foveate_core::backend::BackendChoice;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::depth::{DepthDetail, DepthFormat, DepthScale, DepthStamp, DepthView};
use foveate_core::frame::{FrameStamp, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{Backends, ServedView, Stream, ViewPace};
use foveate_engine::depth::DepthPicture;
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_server::channel::{EventFd, view_channel};
use foveate_stats::StreamCounters;
use parking_lot::{Condvar, Mutex};
use testkit::allocations::CountingAllocator;
use testkit::naive::{self, OwnedFrame, Random};
use testkit::threads::is_asleep;
use testkit::wait::until;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator { on_allocation: count_if_asked };

/// Enough tiles for every stage to be shared out among threads; the last column and row of them are cut.
const EXTENT: Extent = Extent::new(950, 530);

/// Frames of a round of refreshing.
const ROUND: u32 = 10;

#[test]
fn a_warm_stream_allocates_nothing_on_any_thread() {
    HARNESS_WAITS.store(!is_main_thread(), Ordering::SeqCst);
    for format in PixelFormat::ALL {
        let film = Film::new(format);
        for threshold in [Threshold::Fixed(0), Threshold::Fixed(8), Threshold::Auto { limit: 16 }] {
            for refresh_frames in [None, NonZeroU32::new(ROUND)] {
                film.play(ChangeConfig { threshold, refresh_frames });
            }
        }
    }
}

/// Frames, and the order in which they come.
struct Film {
    frames: Vec<OwnedFrame>,
    order: Vec<usize>,
}

impl Film {
    /// A picture; with another corner; another picture; the first one moved; and with noise.
    fn new(format: PixelFormat) -> Self {
        let mut random = Random(1);
        let color = naive::transforms(format)[0];
        let picture = OwnedFrame::random(format, EXTENT, color, &mut random);
        let mut corner = picture.clone();
        corner.scramble(0, 0, 100, &mut random);
        let other = OwnedFrame::random(format, EXTENT, color, &mut random);
        let moved = moved_down(&picture);
        let mut frames = vec![picture, corner, other, moved];
        for _ in 0..NOISY {
            let mut noisy = frames[0].clone();
            noisy.adjust(0, 0, EXTENT.longer_side(), |sample| {
                sample ^ u8::try_from(random.below(4)).unwrap()
            });
            frames.push(noisy);
        }
        let noise = (0..40).map(|step| 4 + step % NOISY);
        let order = [0, 0, 1, 1, 0, 3, 0, 2, 2, 0].into_iter().chain(noise).chain([0, 3, 0, 2, 1]);
        Self { frames, order: order.collect() }
    }

    /// Plays it once to warm up, and once more while allocations are counted.
    fn play(&self, change: ChangeConfig) {
        let counters = Arc::<StreamCounters>::default();
        let mut stream = stream(change, &counters);
        let (mut frame_seq, mut fastest) = (0, None);
        let samples = vec![7; 2 * EXTENT.area()];
        let plane = Plane { bytes: &samples, stride: 2 * EXTENT.width as usize };
        let view = DepthView::new(DepthFormat::Gray16Le, EXTENT, plane).unwrap();
        let scale = DepthScale { unit_m: 0.001, min_m: 0.0, max_m: 10.0 };
        let mut ingested = BTreeSet::new();
        for is_warm in [false, true] {
            for &index in &self.order {
                frame_seq += 1;
                let pts_ns = Some(40_000_000 * frame_seq);
                let stamp = FrameStamp { pts_ns, ..FrameStamp::numbered(frame_seq) };
                let frame = self.frames[index].view();
                // Depth comes with every second frame, and is another one with every fourth.
                let number = DepthStamp { capture_ns: 1, frame_seq: 1 + frame_seq / 4 };
                let picture = DepthPicture { view, scale, stamp: number };
                let depth = Some(&picture).filter(|_| frame_seq % 2 == 0);
                let (stepped, allocated) =
                    counted(|| stream.step_with(&frame, &stamp, depth, &|| false));
                stepped.unwrap();
                if is_warm {
                    let what = (frame.format(), change, frame_seq);
                    assert_eq!(allocated, 0, "allocations for {what:?}");
                    ingested.insert(stream.ingested().unwrap().count());
                    fastest = fastest.max(counters.picture_speed.get());
                }
            }
            settle();
        }
        check_coverage(&ingested, change);
        // In thousandths of a pixel a second: 16 pixels in 40 ms.
        let is_found = fastest.is_some_and(|speed| speed.abs_diff(400_000) < 20_000);
        assert!(is_found, "the motion of the picture is {fastest:?}");
    }
}

/// The same picture 16 pixels further down; what leaves it comes in at the top.
fn moved_down(picture: &OwnedFrame) -> OwnedFrame {
    let mut moved = picture.clone();
    for index in 0..picture.format.plane_count() {
        let is_halved = picture.format.plane_shape(index, EXTENT).rows < EXTENT.height;
        let (bytes, stride) = moved.plane_mut(index);
        let down = if is_halved { 8 } else { 16 };
        bytes.rotate_right(down * stride);
    }
    moved
}

/// Frames of noise, which is not in step with the ones that an estimate compares.
const NOISY: usize = 9;

/// There were frames of which nothing, something and everything was ingested, but for the tiles whose turn it was.
fn check_coverage(ingested: &BTreeSet<usize>, change: ChangeConfig) {
    let tiles = EXTENT.in_cells(TILE_SIDE).area();
    let turn = change.refresh_frames.map_or(0, |round| tiles.div_ceil(round.get() as usize));
    let (fewest, most) = (ingested.first().unwrap(), ingested.last().unwrap());
    assert!(*fewest <= turn && *most == tiles, "{ingested:?} of {tiles}");
    assert!(ingested.range(turn + 1..tiles).next().is_some(), "{ingested:?} of {tiles}");
}

/// A stream of two views, each with a subscriber.
fn stream(change: ChangeConfig, counters: &Arc<StreamCounters>) -> Stream {
    let normalisation = Normalisation::CLIP;
    let format = TokenFormat::new(16, DType::F16, normalisation);
    let foveal = ServedView {
        name: "foveal".to_owned(),
        slot_count: 3,
        pace: ViewPace::default(),
        spec: ViewSpec {
            layout: Layout::Foveal { e0_px: None, foveae: 1, coarsest: None },
            budget: 273,
            format,
            policy: Policy::Fixed { x: 0.5, y: 0.5 },
            parameters: GazeParameters::default(),
            ..ViewSpec::default()
        },
    };
    let format = TokenFormat::new(14, DType::U8, Normalisation::NONE);
    let uniform = ServedView {
        name: "uniform".to_owned(),
        spec: ViewSpec {
            layout: Layout::Uniform,
            format,
            depth: DepthDetail::Tokens,
            ..foveal.spec.clone()
        },
        ..foveal.clone()
    };
    let wakeup = Arc::new(EventFd::new().unwrap());
    let views = [foveal, uniform].map(|plan| {
        let (channel, client) = view_channel(&wakeup, "camera", ViewConfig::default(), None);
        let (notices, own) = UnixDatagram::pair().unwrap();
        assert!(client.add_subscriber(OwnedFd::from(notices)));
        // Open for as long as the process: it hears of every frame, until it is full.
        std::mem::forget((own, client));
        (plan, channel)
    });
    let backend = Backends::default().choose(BackendChoice::Cpu, None).unwrap();
    Stream::new("camera", backend, change, views, Arc::clone(counters))
        .with_camera(None, true)
        .with_events(true)
        .with_motion(true)
}

/// Returns when every other thread has got as far as to sleep, and this one has slept once: that takes memory once in
/// the life of a thread.
fn settle() {
    Condvar::new().wait_for(&mut Mutex::new(()).lock(), Duration::from_nanos(1));
    until("the other threads sleep", others_sleep);
}

fn others_sleep() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().file_name());
    let mut others = threads.map(|name| name.into_string().unwrap()).filter(|name| *name != own);
    others.all(|name| is_asleep(&name))
}

/// What `work` returns, and how often memory was allocated in the process meanwhile.
fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    ALLOCATIONS.store(0, Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    let result = work();
    COUNTS.store(false, Ordering::SeqCst);
    (result, ALLOCATIONS.load(Ordering::SeqCst))
}

fn count_if_asked() {
    if COUNTS.load(Ordering::Relaxed) && !is_harness() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Whether the harness waits on the main thread for this test. After a minute it prints, and allocates, that the test takes long.
static HARNESS_WAITS: AtomicBool = AtomicBool::new(false);

fn is_harness() -> bool {
    HARNESS_WAITS.load(Ordering::Relaxed) && is_main_thread()
}

fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}
