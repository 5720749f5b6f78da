//! A stream that loses its GPU gets it back, and its readers cannot tell.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use foveate_config::ViewConfig;
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::backend::{BackendKind, ChangeSite};
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameKind, FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{Backends, ServedView, Stream, StreamBackend, ViewPace};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_gpu::{Gpu, GpuError, ValidationLog};
use foveate_ring::{ReadOutcome, Reader, TokenFrameBuf};
use foveate_server::channel::{ClientChannel, EventFd, view_channel};
use foveate_stats::StreamCounters;
use parking_lot::Mutex;
use testkit::device::with_gpu;
use testkit::history::move_on;
use testkit::naive::{self, OwnedFrame, Picture, Random};
use testkit::wait::{HANG, until};

const SECOND_NS: u64 = 1_000_000_000;

/// Longer than any pause.
const HOUR_NS: u64 = 3600 * SECOND_NS;

/// Views that a stream begins with.
const FIRST_VIEWS: usize = 2;

#[test]
fn repeated_gpu_losses_change_no_published_byte() {
    with_driver(|driver| {
        for seed in 1..=4 {
            let mut random = Random(seed);
            // With another threshold, the texels that tokens keep are lost with the device.
            let config =
                ChangeConfig { threshold: Threshold::Fixed(0), ..random_config(&mut random) };
            let lossy = driver.stream(&Backends::of(driver), ChangeOn::Cpu, config);
            let mut pair = Pair::new(lossy, config, &mut random);
            // A required device must be there for the first frame.
            pair.step_equal("the first", &mut random);
            while pair.lossy.returns() < 3 || pair.lossy.is_on_cpu() {
                pair.meet_fate(driver, true, &mut random);
                pair.step_equal(&format!("seed {seed}"), &mut random);
            }
            assert_eq!(pair.lossy.counters.backend_fallbacks.get(), 3);
        }
    });
}

#[test]
fn a_loss_with_gpu_detection_changes_no_pixel() {
    with_driver(|driver| {
        for seed in 11..=13 {
            let mut random = Random(seed);
            // What differs by less is lost with the resident copy.
            let config =
                ChangeConfig { threshold: Threshold::Fixed(0), ..random_config(&mut random) };
            let lossy = driver.stream(&Backends::of(driver), ChangeOn::Gpu, config);
            let mut pair = Pair::new(lossy, config, &mut random);
            // A required device must be there for the first frame.
            pair.step_equal("the first", &mut random);
            while pair.lossy.returns() < 3 || pair.lossy.is_on_cpu() {
                pair.meet_fate(driver, true, &mut random);
                pair.move_on(&mut random);
                for (found, expected) in pair.step() {
                    assert!(found.pixels == expected.pixels, "seed {seed}");
                    assert_eq!(bounds(&found), bounds(&expected), "seed {seed}");
                }
            }
            assert_eq!(pair.lossy.stream.backend().change_on, ChangeSite::Gpu);
        }
    });
}

/// The texels that tokens keep are lost with the device: afterwards other tokens keep theirs, and none is further from the frame than the
/// published bound.
#[test]
fn with_a_threshold_no_texel_exceeds_the_bound_after_a_loss() {
    with_driver(|driver| {
        for (seed, change_on) in (41..=44).zip([ChangeOn::Cpu, ChangeOn::Gpu].into_iter().cycle()) {
            let mut random = Random(seed);
            let threshold = Threshold::Fixed(4 + random.below(6) as u8);
            let config = ChangeConfig { threshold, ..random_config(&mut random) };
            let lossy = driver.stream(&Backends::of(driver), change_on, config);
            let mut pair = Pair::new(lossy, config, &mut random);
            // A required device must be there for the first frame.
            pair.step_within_bound(&mut random);
            while pair.lossy.returns() < 3 || pair.lossy.is_on_cpu() {
                pair.meet_fate(driver, true, &mut random);
                pair.step_within_bound(&mut random);
            }
        }
    });
}

/// From a loss on, the resident copy of a stream whose GPU had it is another one. Its return changes nothing more.
#[test]
fn change_state_moves_back_to_the_gpu_exactly() {
    with_driver(|driver| {
        for seed in 21..=24 {
            let mut random = Random(seed);
            let config =
                ChangeConfig { threshold: Threshold::Fixed(0), ..random_config(&mut random) };
            let away = Driver::new(&driver.device);
            let mut pair = Pair::new(
                driver.stream(&Backends::of(driver), ChangeOn::Gpu, config),
                config,
                &mut random,
            );
            pair.whole = away.stream(&Backends::of(&away), ChangeOn::Gpu, config);
            for _ in 0..5 {
                pair.step_equal("before", &mut random);
            }
            away.refuse(u32::MAX);
            driver.lose();
            away.lose();
            pair.step_equal("the loss", &mut random);
            while pair.lossy.is_on_cpu() {
                pair.meet_fate(driver, false, &mut random);
                pair.step_equal("away", &mut random);
            }
            assert_eq!(pair.lossy.stream.backend().change_on, ChangeSite::Gpu);
            for _ in 0..20 {
                pair.step_equal("after", &mut random);
            }
            assert!(pair.whole.is_on_cpu() && !pair.lossy.is_on_cpu());
            drop(pair);
            away.assert_clean();
        }
    });
}

#[test]
fn streams_that_lose_a_device_share_the_new_one() {
    with_driver(|driver| {
        let backends = Backends::of(driver);
        let config = ChangeConfig::default();
        let mut random = Random(31);
        let mut pairs = [ChangeOn::Cpu, ChangeOn::Gpu]
            .map(|on| Pair::new(driver.stream(&backends, on, config), config, &mut random));
        for round in 0..3_usize {
            for pair in &mut pairs {
                pair.step_equal_but_for_changes(&mut random);
            }
            assert_eq!(driver.opened(), 1 + round);
            let memory = backends.memory_bytes()[&driver.device];
            assert_eq!(memory, driver.newest().unwrap().memory_bytes());
            driver.lose();
            for pair in &mut pairs {
                pair.until("the loss", &mut random, PlayedStream::is_on_cpu);
            }
            assert!(backends.memory_bytes().is_empty(), "the device is gone");
            for pair in &mut pairs {
                pair.now_ns += HOUR_NS;
                pair.until("the return", &mut random, |lossy| !lossy.is_on_cpu());
            }
            assert!(driver.living() == 1, "nobody holds the lost device");
        }
        let returns = pairs.each_ref().map(|pair| pair.lossy.returns());
        assert_eq!(returns, [3, 3]);
    });
}

/// Views could not be made for it otherwise.
#[test]
fn a_stream_at_rest_leaves_a_lost_gpu_too() {
    with_driver(|driver| {
        for on in [ChangeOn::Cpu, ChangeOn::Gpu] {
            let (config, mut random) = (ChangeConfig::default(), Random(41));
            let lossy = driver.stream(&Backends::of(driver), on, config);
            let mut pair = Pair::new(lossy, config, &mut random);
            pair.step_equal("the first", &mut random);
            let lossy = &mut pair.lossy;
            for view in &lossy.views {
                lossy.stream.set_pace(&view.name, ViewPace { interval: None, when_read: true });
            }
            driver.lose();
            assert!(!lossy.join(98), "a lost device makes no view");
            pair.frame.scramble(0, 0, 40, &mut random);
            let published = lossy.counters.frames_published.get();
            assert!(lossy.step(&pair.frame, &FrameStamp::numbered(2)).iter().all(Option::is_none));
            assert!(lossy.is_on_cpu());
            let counters = &lossy.counters;
            assert_eq!(
                (counters.frames_published.get(), counters.frames_rested.get()),
                (published, 1)
            );
            assert!(lossy.join(98), "the CPU does");
        }
    });
}

#[test]
fn tries_follow_the_law_of_pauses() {
    with_driver(|driver| {
        let mut random = Random(41);
        let config = ChangeConfig::default();
        let lossy = driver.stream(&Backends::of(driver), ChangeOn::Cpu, config);
        let mut pair = Pair::new(lossy, config, &mut random);
        pair.step_equal("before", &mut random);
        driver.lose();
        driver.refuse(11);
        pair.until("the loss", &mut random, PlayedStream::is_on_cpu);
        for attempt in 1..=12 {
            pair.assert_tries(attempt, attempt.into(), &mut random);
        }
        pair.until("the return", &mut random, |lossy| !lossy.is_on_cpu());
        assert_eq!(driver.asked(), 1 + 12);
        // One that is lost again at once is not well, and waited for longer.
        driver.lose();
        pair.until("the second loss", &mut random, PlayedStream::is_on_cpu);
        pair.assert_tries(13, 13, &mut random);
        pair.until("the second return", &mut random, |lossy| !lossy.is_on_cpu());
        // After an hour it was.
        pair.now_ns += HOUR_NS;
        driver.lose();
        pair.until("the third loss", &mut random, PlayedStream::is_on_cpu);
        pair.assert_tries(1, 14, &mut random);
        pair.until("the third return", &mut random, |lossy| !lossy.is_on_cpu());
    });
}

#[test]
fn what_was_built_for_other_frames_or_views_is_built_again() {
    with_driver(|driver| {
        for on in [ChangeOn::Cpu, ChangeOn::Gpu] {
            let mut random = Random(51);
            let config = ChangeConfig::default();
            let mut pair =
                Pair::new(driver.stream(&Backends::of(driver), on, config), config, &mut random);
            let changes: [fn(&mut Pair, &mut Random); 3] =
                [Pair::resize, |pair, _| pair.leave(1), |pair, _| pair.join()];
            for change in changes {
                pair.step_equal_but_for_changes(&mut random);
                driver.lose();
                pair.until("the loss", &mut random, PlayedStream::is_on_cpu);
                let gate = driver.gate.lock();
                let before = pair.lossy.counters.backend_attempts.get();
                pair.now_ns += HOUR_NS;
                pair.step_equal_but_for_changes(&mut random);
                assert_eq!(pair.lossy.counters.backend_attempts.get(), before + 1);
                change(&mut pair, &mut random);
                pair.step_equal_but_for_changes(&mut random);
                drop(gate);
                pair.until("the return", &mut random, |lossy| !lossy.is_on_cpu());
                assert_eq!(pair.lossy.counters.backend_attempts.get(), before + 1);
            }
            assert_eq!(pair.lossy.returns(), 3);
        }
    });
}

#[test]
fn a_device_failing_at_its_first_frame_is_retried() {
    with_driver(|driver| {
        for on in [ChangeOn::Cpu, ChangeOn::Gpu] {
            // A submission warms the passes of the pyramid, and one those of each view; another fills the pyramid, and the next
            // is a frame.
            let warm = 1 + FIRST_VIEWS as u64;
            for (submissions, fallbacks) in [(0, 1), (1, 1), (warm, 1), (warm + 1, 2)] {
                let mut random = Random(61);
                let config = ChangeConfig::default();
                let lossy = driver.stream(&Backends::of(driver), on, config);
                let mut pair = Pair::new(lossy, config, &mut random);
                pair.step_equal_but_for_changes(&mut random);
                driver.lose();
                driver.lose_next_after(submissions);
                pair.until("the loss", &mut random, PlayedStream::is_on_cpu);
                let failed = pair.lossy.stream.backend_changes();
                pair.now_ns += HOUR_NS;
                let has_failed = |lossy: &PlayedStream| {
                    lossy.stream.backend_changes() != failed && lossy.is_on_cpu()
                };
                pair.until("the failure", &mut random, has_failed);
                assert_eq!(pair.lossy.counters.backend_fallbacks.get(), fallbacks);
                let reason = pair.lossy.stream.backend().reason.clone();
                assert!(reason.contains("device lost"), "{reason}");
                assert!(reason.contains("(2nd time)"), "{reason}");
                pair.now_ns += HOUR_NS;
                pair.until("the return", &mut random, |lossy| !lossy.is_on_cpu());
                assert_eq!(pair.lossy.counters.backend_attempts.get(), 2);
            }
        }
    });
}

#[test]
fn a_gpu_that_refuses_the_first_frame_is_tried_again() {
    with_driver(|driver| {
        let mut random = Random(71);
        let config = ChangeConfig::default();
        driver.lose_next_after(0);
        let backends = Backends::of(driver);
        let backend = backends.choose(BackendChoice::Auto, Some(&driver.device)).unwrap();
        assert_eq!(backend.info().kind, BackendKind::Vulkan);
        let mut pair = Pair::new(PlayedStream::new(backend, config), config, &mut random);
        pair.step_equal("the first", &mut random);
        assert!(pair.lossy.is_on_cpu());
        pair.now_ns += HOUR_NS;
        pair.until("the return", &mut random, |lossy| !lossy.is_on_cpu());
        assert_eq!(pair.lossy.counters.backend_fallbacks.get(), 1);
        assert_eq!(pair.lossy.returns(), 1);
    });
}

#[test]
fn who_never_had_a_gpu_never_tries_one() {
    with_driver(|driver| {
        let backends = Backends::of(driver);
        let mut random = Random(81);
        for (choice, device) in
            [(BackendChoice::Cpu, None), (BackendChoice::Auto, Some("no such device"))]
        {
            let config = ChangeConfig::default();
            let backend = backends.choose(choice, device).unwrap();
            let mut pair = Pair::new(PlayedStream::new(backend, config), config, &mut random);
            for _ in 0..5 {
                pair.now_ns += HOUR_NS;
                pair.step_equal("on the CPU", &mut random);
            }
            assert_eq!(pair.lossy.counters.backend_attempts.get(), 0);
        }
        assert_eq!(driver.asked(), 0);
    });
}

#[test]
fn a_driver_that_hangs_holds_up_nobody() {
    with_driver(|driver| {
        let mut random = Random(91);
        let config = ChangeConfig::default();
        let backends = Backends::of(driver);
        let lossy = driver.stream(&backends, ChangeOn::Cpu, config);
        let mut pair = Pair::new(lossy, config, &mut random);
        pair.step_equal("before", &mut random);
        driver.lose();
        pair.until("the loss", &mut random, PlayedStream::is_on_cpu);
        let gate = driver.gate.lock();
        pair.now_ns += HOUR_NS;
        for _ in 0..20 {
            pair.now_ns += SECOND_NS;
            pair.step_equal("the driver hangs", &mut random);
        }
        until("the driver is asked", || driver.asked() == 2);
        assert!(backends.memory_bytes().is_empty());
        drop(pair);
        drop(gate);
        until("the thread lets go", || driver.living() == 1 && driver.opened() == 2);
    });
}

/// Runs a test on a driver whose devices can be lost, and fails it on any validation message.
fn with_driver(test: impl FnOnce(&Arc<Driver>)) {
    with_gpu(|gpu| {
        let driver = Driver::new(&gpu.summary().name);
        test(&driver);
        driver.assert_clean();
    });
}

/// A driver whose devices can be lost, and that can refuse to open any, or hang.
struct Driver {
    device: String,
    /// The driver hangs while this is locked.
    gate: Mutex<()>,
    state: Mutex<DriverState>,
}

#[derive(Default)]
struct DriverState {
    asked: u32,
    refusals: u32,
    /// After how many submissions the next device that is opened is lost.
    next_loss: Option<u64>,
    devices: Vec<(Weak<Gpu>, Arc<ValidationLog>)>,
}

impl Driver {
    fn new(device: &str) -> Arc<Self> {
        let (gate, state) = (Mutex::default(), Mutex::default());
        Arc::new(Self { device: device.to_owned(), gate, state })
    }

    fn open(&self, name: Option<&str>) -> Result<Arc<Gpu>, GpuError> {
        self.state.lock().asked += 1;
        let _gate = self.gate.lock();
        let mut state = self.state.lock();
        if let Some(left) = state.refusals.checked_sub(1) {
            state.refusals = left;
            return Err(GpuError::DriverMissing);
        }
        let gpu = Gpu::open_validated(name)?;
        if let Some(submissions) = state.next_loss.take() {
            gpu.inject_device_loss_after(submissions);
        }
        let log = gpu.validation_log().expect("tests run under validation");
        state.devices.push((Arc::downgrade(&gpu), log));
        Ok(gpu)
    }

    /// A stream on it.
    fn stream(&self, backends: &Backends, on: ChangeOn, config: ChangeConfig) -> PlayedStream {
        let backend = backends.choose(BackendChoice::Vulkan, Some(&self.device)).unwrap();
        PlayedStream::new(backend.with_change_on(on).unwrap(), config)
    }

    fn newest(&self) -> Option<Arc<Gpu>> {
        self.state.lock().devices.last().and_then(|(gpu, _)| gpu.upgrade())
    }

    /// Loses the newest device.
    fn lose(&self) {
        self.newest().unwrap().inject_device_loss();
    }

    fn lose_next_after(&self, submissions: u64) {
        self.state.lock().next_loss = Some(submissions);
    }

    fn refuse(&self, times: u32) {
        self.state.lock().refusals = times;
    }

    /// How often it was asked for a device.
    fn asked(&self) -> u32 {
        self.state.lock().asked
    }

    /// Devices that it has opened.
    fn opened(&self) -> usize {
        self.state.lock().devices.len()
    }

    /// Devices that somebody holds.
    fn living(&self) -> usize {
        self.state.lock().devices.iter().filter(|(gpu, _)| 0 < gpu.strong_count()).count()
    }

    /// Waits until no device is in use, and checks the validation messages of all of them.
    fn assert_clean(&self) {
        until("all devices are closed", || self.living() == 0);
        for (_, log) in &self.state.lock().devices {
            if let Some(message) = log.first() {
                panic!("the first of {} validation messages: {message}", log.count());
            }
        }
    }
}

/// Backends whose devices a driver opens.
trait OfDriver {
    fn of(driver: &Arc<Driver>) -> Self;
}

impl OfDriver for Backends {
    fn of(driver: &Arc<Driver>) -> Self {
        let driver = Arc::clone(driver);
        Self::opening_with(Arc::clone(testkit::backends::pool()), move |name| driver.open(name))
    }
}

/// A stream that loses its GPU, and one that sees the same without.
struct Pair {
    lossy: PlayedStream,
    whole: PlayedStream,
    frame: OwnedFrame,
    frame_seq: u64,
    now_ns: u64,
}

impl Pair {
    fn new(lossy: PlayedStream, config: ChangeConfig, random: &mut Random) -> Self {
        let formats = PixelFormat::ALL;
        let format = formats[random.below(formats.len() as u32) as usize];
        let color = naive::transforms(format)[0];
        let frame = OwnedFrame::random(format, random_extent(random), color, random);
        let on_cpu = Backends::default().choose(BackendChoice::Cpu, None).unwrap();
        let whole = PlayedStream::new(on_cpu, config);
        Self { lossy, whole, frame, frame_seq: 0, now_ns: HOUR_NS }
    }

    /// Something that happens to both of them, a loss, or time that passes.
    fn meet_fate(&mut self, driver: &Arc<Driver>, may_lose: bool, random: &mut Random) {
        let view = random.below(self.lossy.views.len() as u32) as usize;
        // A view built on another thread fits only if none of these changes comes meanwhile.
        match random.below(300) {
            0..3 if may_lose && !self.lossy.is_on_cpu() && self.lossy.returns() < 3 => {
                driver.lose();
            }
            3..13 => self.now_ns += HOUR_NS,
            13 => self.join(),
            14 if 1 < self.lossy.views.len() => self.leave(view),
            15 => self.resize(random),
            16..40 => self.look(view, random),
            _ => {}
        }
    }

    /// Adds a view.
    fn join(&mut self) {
        // A stream that has not noticed its loss refuses it.
        if self.lossy.join(self.frame_seq) {
            assert!(self.whole.join(self.frame_seq));
        }
    }

    fn leave(&mut self, view: usize) {
        self.lossy.leave(view);
        self.whole.leave(view);
    }

    /// The frames get another size.
    fn resize(&mut self, random: &mut Random) {
        let kind = self.frame.kind();
        self.frame = OwnedFrame::random(kind.format, random_extent(random), kind.color, random);
    }

    /// A client looks elsewhere.
    fn look(&mut self, view: usize, random: &mut Random) {
        let Extent { width, height } = self.frame.extent;
        let (x, y) = (random.below(width).into(), random.below(height).into());
        for played in [&mut self.lossy, &mut self.whole] {
            let look = Feedback::look_at(x, y, None);
            played.views[view].client.send_feedback(look, self.frame.extent, 1, false).unwrap();
        }
    }

    fn move_on(&mut self, random: &mut Random) {
        move_on(&mut self.frame, random.below(6), self.frame_seq, random);
    }

    /// The token frames of both for the next frame.
    fn step(&mut self) -> Vec<(TokenFrameBuf, TokenFrameBuf)> {
        self.frame_seq += 1;
        let capture_ns = self.frame_seq * SECOND_NS / 10;
        let stamp = FrameStamp {
            arrival_ns: self.now_ns,
            capture_ns,
            ..FrameStamp::numbered(self.frame_seq)
        };
        let found = self.lossy.step(&self.frame, &stamp);
        let pairs = found.into_iter().zip(self.whole.step(&self.frame, &stamp));
        let of_both = pairs.filter_map(|(found, expected)| {
            assert_eq!(
                found.is_some(),
                expected.is_some(),
                "only one took frame {}",
                stamp.frame_seq
            );
            found.zip(expected)
        });
        of_both.collect()
    }

    /// Feeds the next frame, and compares what both publish.
    fn step_equal(&mut self, context: &str, random: &mut Random) {
        self.move_on(random);
        for (found, expected) in self.step() {
            let context = format!("{context}, frame {} of {}", self.frame_seq, self.frame.extent);
            assert_eq!(bounds(&found), bounds(&expected), "{context}");
            assert_eq!(found.head.dirty_tiles, expected.head.dirty_tiles, "{context}");
            assert_eq!(found.records, expected.records, "{context}");
            assert!(found.pixels == expected.pixels, "{context}");
        }
    }

    /// The same where the GPU may have had the resident copy.
    fn step_equal_but_for_changes(&mut self, random: &mut Random) {
        self.move_on(random);
        for (found, expected) in self.step() {
            assert_eq!(bounds(&found), bounds(&expected), "frame {}", self.frame_seq);
            assert!(found.pixels == expected.pixels, "frame {}", self.frame_seq);
        }
    }

    /// Shows the next frame, and both publish the same bound and keep within it.
    fn step_within_bound(&mut self, random: &mut Random) {
        self.move_on(random);
        let published = self.step();
        let picture = naive::picture(&self.frame);
        for (found, expected) in published {
            assert_eq!(found.head.rgb_bound, expected.head.rgb_bound, "frame {}", self.frame_seq);
            for tokens in [found, expected] {
                let furthest = furthest(&tokens, &picture);
                assert!(furthest <= tokens.head.rgb_bound, "frame {}: {furthest}", self.frame_seq);
            }
        }
    }

    /// Shows frames until something is true of the stream, without advancing its time.
    fn until(&mut self, what: &str, random: &mut Random, is_so: impl Fn(&PlayedStream) -> bool) {
        let deadline = Instant::now() + HANG;
        while !is_so(&self.lossy) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.lossy.stream.backend());
            self.step_equal_but_for_changes(random);
        }
    }

    /// The pause that has just begun is one after so many failures: no try is made before its end, and the one that was
    /// announced after it, number `total` in all. Returns once that has ended.
    fn assert_tries(&mut self, failures: u32, total: u64, random: &mut Random) {
        let pause_ns = (SECOND_NS << (failures - 1)).min(300 * SECOND_NS);
        let reason = &self.lossy.stream.backend().reason;
        assert!(reason.contains("; trying again in "), "{reason}");
        assert!(reason.contains(&format!(" s ({failures}")), "{reason}");
        let (began_ns, changes) = (self.now_ns, self.lossy.stream.backend_changes());
        self.now_ns = began_ns + pause_ns / 4 * 3 - 1;
        self.step_equal("too soon", random);
        assert_eq!(self.lossy.counters.backend_attempts.get(), total - 1, "after {failures}");
        self.now_ns = began_ns + pause_ns / 4 * 5;
        self.step_equal("soon enough", random);
        assert_eq!(self.lossy.counters.backend_attempts.get(), total, "after {failures}");
        let is_over = |lossy: &PlayedStream| lossy.stream.backend_changes() != changes;
        self.until("the try is over", random, is_over);
    }
}

/// A stream and the readers of its views.
struct PlayedStream {
    stream: Stream,
    counters: Arc<StreamCounters>,
    views: Vec<ViewReader>,
    wakeup: Arc<EventFd>,
    /// Kind of the newest frame.
    kind: Option<FrameKind>,
}

/// A view, the reader of its newest segment, and who steers it.
struct ViewReader {
    name: String,
    reader: Option<(u64, Reader)>,
    client: ClientChannel,
}

impl PlayedStream {
    fn new(backend: StreamBackend, config: ChangeConfig) -> Self {
        let wakeup = Arc::new(EventFd::new().unwrap());
        let counters = Arc::<StreamCounters>::default();
        let (mut views, mut plans) = (Vec::new(), Vec::new());
        for number in 0..FIRST_VIEWS {
            let (channel, client) = view_channel(&wakeup, "camera", ViewConfig::default(), None);
            let plan = plan(number as u64);
            views.push(ViewReader { name: plan.name.clone(), reader: None, client });
            plans.push((plan, channel));
        }
        let stream = Stream::new("camera", backend, config, plans, Arc::clone(&counters));
        Self { stream, counters, views, wakeup, kind: None }
    }

    fn is_on_cpu(&self) -> bool {
        self.stream.backend().kind == BackendKind::Cpu
    }

    fn returns(&self) -> u64 {
        self.counters.backend_returns.get()
    }

    /// Makes a view on the spot, and takes it in. Says whether the device let it.
    fn join(&mut self, number: u64) -> bool {
        let (channel, client) = view_channel(&self.wakeup, "camera", ViewConfig::default(), None);
        let (plan, builder) = (plan(number), self.stream.view_builder());
        let mut view = builder.new_view(&plan, channel);
        if builder.build(&mut view).is_err() {
            return false;
        }
        self.stream.add_view(view).unwrap();
        self.views.push(ViewReader { name: plan.name, reader: None, client });
        true
    }

    fn leave(&mut self, view: usize) {
        let view = self.views.remove(view);
        drop(self.stream.remove_view(&view.name).unwrap());
    }

    /// What the views publish of a frame; `None` of those that do not take it.
    fn step(&mut self, frame: &OwnedFrame, stamp: &FrameStamp) -> Vec<Option<TokenFrameBuf>> {
        let kept = self.kind.replace(frame.kind()) == Some(frame.kind());
        self.stream.step(&frame.view(), stamp).unwrap();
        let Self { stream, views, .. } = self;
        let newest = |(index, view): (usize, &mut ViewReader)| {
            let (segment, epoch) = stream.segment(index).unwrap().unwrap();
            if view.reader.as_ref().is_none_or(|(read, _)| *read != epoch) {
                assert!(view.reader.is_none() || !kept, "frames of one kind, and another segment");
                view.reader = Some((epoch, Reader::from_fd(segment).unwrap()));
            }
            let (_, reader) = view.reader.as_mut().unwrap();
            let mut frame = TokenFrameBuf::default();
            match reader.read_newest(&mut frame).unwrap() {
                ReadOutcome::Frame { missed } => assert_eq!(missed, 0),
                ReadOutcome::Nothing => return None,
            }
            Some(frame)
        };
        views.iter_mut().enumerate().map(newest).collect()
    }
}

/// View number `number`: neighbours differ.
fn plan(number: u64) -> ServedView {
    let (is_even, is_paced) = (number.is_multiple_of(2), number % 5 == 1);
    let float = (16, DType::F16, Normalisation::IMAGENET);
    let (patch_side, dtype, normalisation) =
        if is_even { float } else { (14, DType::U8, Normalisation::NONE) };
    ServedView {
        name: format!("view{number}"),
        slot_count: 2,
        pace: ViewPace {
            interval: is_paced.then_some(Duration::from_millis(250)),
            when_read: false,
        },
        spec: ViewSpec {
            layout: if is_even { Layout::default() } else { Layout::Uniform },
            budget: 40 + (number % 7) as usize,
            format: TokenFormat::new(patch_side, dtype, normalisation),
            policy: if number.is_multiple_of(3) { Policy::Saliency } else { Policy::Feedback },
            parameters: GazeParameters { pursuit: number % 4 < 2, ..GazeParameters::default() },
            ..ViewSpec::default()
        },
    }
}

fn random_config(random: &mut Random) -> ChangeConfig {
    let threshold = match random.below(3) {
        0 => Threshold::Fixed(0),
        1 => Threshold::Fixed(6),
        _ => Threshold::Auto { limit: 9 },
    };
    ChangeConfig { threshold, refresh_frames: NonZeroU32::new(random.below(4) * 3) }
}

fn random_extent(random: &mut Random) -> Extent {
    Extent::new(40 + random.below(200), 40 + random.below(120))
}

/// The most by which a texel of the tokens differs from one made of the picture; 0 of those whose numbers are not texels.
fn furthest(tokens: &TokenFrameBuf, picture: &Picture) -> u32 {
    let format = TokenFormat::new(14, DType::U8, Normalisation::NONE);
    if tokens.pixels.len() != tokens.records.len() * format.token_bytes() {
        return 0;
    }
    let places = tokens.records.iter().map(|record| record.token()).collect();
    let plan = TokenPlan { patch_side: format.patch_side, tokens: places };
    let exact = naive::tokens(picture, &plan, format);
    let differences = tokens.pixels.iter().zip(&exact).map(|(a, b)| a.abs_diff(*b));
    differences.max().unwrap_or(0).into()
}

/// What does not depend on when a tile changed.
fn bounds(frame: &TokenFrameBuf) -> impl PartialEq + std::fmt::Debug + use<> {
    let head = &frame.head;
    (head.sample_bound, head.rgb_bound, head.tile_count, head.fixations.clone())
}
