//! Frame numbers continue from one pipeline to the next, whatever ends a pipeline.

use std::fs::File;
use std::io::{PipeReader, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_capture::reconnecting::{Loss, ReconnectingSource, SourceEvent};
use foveate_capture::{CaptureError, CapturedFrame, End, SourceChoice, SourceSpec};
use foveate_core::backoff::Backoff;
use foveate_stats::stages::Stage;
use foveate_stats::{LossReason, StreamCounters};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use testkit::wait::{HANG, until};

/// Longest wait of a single call.
const TURN: Duration = Duration::from_millis(20);

const CAPS: &str = "video/x-raw,format=GRAY8,width=16,height=16,framerate=200/1";

/// So fast that all that an error causes is there before its pipeline is stopped.
const FAST: &str = "video/x-raw,format=GRAY8,width=16,height=16,framerate=100000/1";

/// Bytes of such a frame.
const FRAME_BYTES: usize = 16 * 16;

#[test]
fn a_live_source_that_ends_begins_again_and_goes_on_counting() {
    let text = format!("videotestsrc is-live=true num-buffers=4 ! {CAPS} ! appsink name=frames");
    let mut scene = Scene::new(&text);
    let mut newest = 0;
    for attempt in 1..=3 {
        let seq = scene.frame().stamp().frame_seq;
        assert!(newest < seq, "frame {seq} after frame {newest}");
        let (loss, last) = scene.loss();
        assert_eq!((&loss.cause, loss.attempt), (&CaptureError::LiveEnded, attempt));
        newest = last.unwrap_or(seq);
    }
    scene.frame();
    assert_eq!(scene.restarts(), [(LossReason::Ended, 3)]);
    let captured = scene.counters.frames_captured.get();
    assert!((13..=16).contains(&captured), "{captured} frames in the fourth pipeline of 4");
}

#[test]
fn a_mid_stream_error_restarts_a_working_pipeline() {
    let text = format!("videotestsrc ! {CAPS} ! identity error-after=3 ! appsink name=frames");
    let mut scene = Scene::new(&text);
    for _ in 0..2 {
        scene.frame();
        assert!(matches!(scene.loss().0.cause, CaptureError::Failed { .. }));
    }
    scene.frame();
    assert_eq!(scene.restarts(), [(LossReason::Failed, 2)]);
}

/// Their last words come in a row: an error, that of the source behind it, and the end, which names the pipeline itself.
#[test]
fn nothing_is_left_of_pipelines_that_were_lost() {
    let text = format!("videotestsrc ! {FAST} ! identity error-after=2 ! appsink name=frames");
    let mut scene = Scene::new(&text);
    for _ in 0..10 {
        scene.frame();
        scene.loss();
    }
    let Scene { source, counters } = scene;
    drop(source);
    until("no pipeline holds the counters", || Arc::strong_count(&counters) == 1);
}

#[test]
fn an_error_before_any_frame_ends_the_stream() {
    let text = format!("videotestsrc ! {CAPS} ! identity error-after=1 ! appsink name=frames");
    let mut scene = Scene::new(&text);
    for _ in 0..2 {
        let end = scene.end();
        assert!(matches!(end, End::Failed(CaptureError::Failed { .. })), "{end:?}");
    }
    assert_eq!(scene.restarts(), []);
}

#[test]
fn a_live_pipeline_without_frames_is_retried() {
    let text =
        format!("videotestsrc is-live=true ! {CAPS} ! valve drop=true ! appsink name=frames");
    let mut spec = SourceSpec::new("test", SourceChoice::Pipeline(text));
    spec.caps_timeout = Duration::from_millis(100);
    let mut scene = Scene::of(spec);
    for _ in 0..2 {
        assert!(matches!(scene.loss().0.cause, CaptureError::CapsTimeout { .. }));
    }
}

#[test]
fn an_end_that_is_no_loss_stays_an_end() {
    let text = format!("videotestsrc num-buffers=4 ! {CAPS} ! appsink name=frames");
    let mut scene = Scene::new(&text);
    scene.frame();
    assert_eq!((scene.end(), scene.end()), (End::Eos, End::Eos));
}

#[test]
fn whether_a_source_is_live_may_be_given() {
    let text = format!("videotestsrc num-buffers=4 ! {CAPS} ! appsink name=frames");
    let spec = SourceSpec::new("test", SourceChoice::Pipeline(text));
    let mut scene = Scene::of(SourceSpec { live: Some(true), ..spec.clone() });
    scene.frame();
    assert_eq!(scene.loss().0.cause, CaptureError::LiveEnded);
    let text = format!("videotestsrc is-live=true num-buffers=4 ! {CAPS} ! appsink name=frames");
    let spec = SourceSpec { source: SourceChoice::Pipeline(text), live: Some(false), ..spec };
    let mut scene = Scene::of(spec);
    scene.frame();
    assert_eq!(scene.end(), End::Eos);
}

#[test]
fn a_missing_camera_is_tried_repeatedly() {
    let source = SourceChoice::Shorthand("/dev/video987".to_owned());
    let mut scene = Scene::of(SourceSpec::new("test", source));
    for attempt in 1..=5 {
        let (loss, _) = scene.loss();
        assert_eq!(loss.cause, CaptureError::NoCamera { device: "/dev/video987".to_owned() });
        assert_eq!(loss.attempt, attempt);
    }
    assert_eq!(scene.restarts(), [(LossReason::Unreachable, 4)]);
}

#[test]
fn a_silent_pipeline_is_given_up_and_another_one_goes_on() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut scene = Scene::fed(&reader, Some(Duration::from_millis(200)));
    for frame_seq in 1..=3 {
        assert_eq!(scene.fed_frame(&mut writer).stamp().frame_seq, frame_seq);
        assert!(matches!(scene.loss().0.cause, CaptureError::Silent { .. }));
        scene.wait_for_restart();
    }
    assert_eq!(scene.restarts()[0].0, LossReason::Silent);
}

#[test]
fn without_a_limit_silence_is_waited_out() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut scene = Scene::fed(&reader, None);
    scene.fed_frame(&mut writer);
    for _ in 0..20 {
        assert!(matches!(scene.source.next_event(TURN), SourceEvent::Nothing));
    }
    assert_eq!(scene.fed_frame(&mut writer).stamp().frame_seq, 2);
}

/// A `filesrc` that waits in read(2) or open(2) on a pipe cannot be stopped, as little as one whose driver hangs.
#[test]
fn a_pipeline_that_does_not_stop_has_no_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("camera");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut spec = SourceSpec::new("test", SourceChoice::Pipeline(piped(&path)));
    spec.restart_timeout = Some(Duration::from_millis(50));
    spec.caps_timeout = Duration::from_millis(50);
    let mut scene = Scene::of(spec);
    let silent = scene.loss().0.cause;
    assert!(matches!(silent, CaptureError::Silent { .. }), "{silent:?}");
    for _ in 0..3 {
        match scene.loss().0.cause {
            CaptureError::NotStopping { remedy } => assert!(remedy.contains("isolation")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(scene.counters.stages.stuck(Duration::ZERO).unwrap().0, Stage::Capture);

    // The thread that hangs in open(2) continues, its pipeline stops, and another one finds a working camera.
    let mut camera = File::options().read(true).write(true).open(&path).unwrap();
    let started = Instant::now();
    loop {
        camera.write_all(&[7; FRAME_BYTES]).unwrap();
        match scene.source.next_event(TURN) {
            SourceEvent::Frame(_) => break,
            SourceEvent::Ended(end) => panic!("{end:?}"),
            SourceEvent::Nothing | SourceEvent::Corrupted | SourceEvent::Lost(_) => {}
        }
        assert!(started.elapsed() < HANG, "no pipeline goes on");
    }
}

#[test]
fn pauses_grow_until_frames_have_come_for_a_while() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut scene = Scene::fed(&reader, Some(Duration::from_millis(500)));
    for attempt in 1..=3 {
        // A single frame does not count as success, whatever time it takes.
        scene.fed_frame(&mut writer);
        assert_eq!(scene.loss().0.attempt, attempt);
        scene.wait_for_restart();
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        scene.fed_frame(&mut writer);
    }
    assert_eq!(scene.loss().0.attempt, 1);
}

#[test]
fn a_loss_is_told_in_a_sentence_that_fits_its_place() {
    let loss = Loss {
        cause: CaptureError::NoCamera { device: "/dev/video0".to_owned() },
        pause: Duration::from_millis(3960),
        attempt: 7,
    };
    let whole = loss.to_string();
    assert!(whole.starts_with("no camera \"/dev/video0\""), "{whole}");
    assert!(whole.ends_with("; trying again in 4.0 s (7th time)"), "{whole}");
    assert_eq!(loss.to_text(1000), whole);
    for bytes_max in 40..whole.len() {
        let text = loss.to_text(bytes_max);
        assert!(text.len() <= bytes_max, "{bytes_max}: {text}");
        assert!(text.ends_with("…; trying again in 4.0 s (7th time)"), "{bytes_max}: {text}");
    }
    for (attempt, ordinal) in [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (11, "11th"),
        (12, "12th"),
        (101, "101st"),
        (113, "113th"),
    ] {
        let text = Loss { attempt, ..loss.clone() }.to_string();
        assert!(text.ends_with(&format!("({ordinal} time)")), "{text}");
    }
}

/// A reconnecting source with short pauses.
struct Scene {
    source: ReconnectingSource,
    counters: Arc<StreamCounters>,
}

impl Scene {
    fn new(pipeline: &str) -> Self {
        Self::of(SourceSpec::new("test", SourceChoice::Pipeline(pipeline.to_owned())))
    }

    fn of(spec: SourceSpec) -> Self {
        let counters = Arc::<StreamCounters>::default();
        let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(20), 1);
        Self {
            source: ReconnectingSource::with_pauses(&spec, &Arc::default(), &counters, pauses),
            counters,
        }
    }

    /// Reads raw frames from a pipe.
    fn fed(pipe: &PipeReader, restart_timeout: Option<Duration>) -> Self {
        let text = format!("fdsrc fd={} ! {}", pipe.as_raw_fd(), parsed_frames());
        let spec = SourceSpec::new("test", SourceChoice::Pipeline(text));
        Self::of(SourceSpec { restart_timeout, caps_timeout: HANG, ..spec })
    }

    /// Takes the next event, which must be a frame.
    fn frame(&mut self) -> CapturedFrame {
        match self.next() {
            SourceEvent::Frame(frame) => frame,
            other => panic!("{other:?} instead of a frame"),
        }
    }

    /// The next loss, and the number of the last frame before it, if there was one.
    fn loss(&mut self) -> (Loss, Option<u64>) {
        let (mut newest, started) = (None, Instant::now());
        loop {
            assert!(started.elapsed() < HANG, "only frames come");
            match self.next() {
                SourceEvent::Frame(frame) => {
                    let seq = frame.stamp().frame_seq;
                    assert!(newest < Some(seq), "frame {seq} after frame {newest:?}");
                    newest = Some(seq);
                }
                SourceEvent::Lost(loss) => return (loss, newest),
                other => panic!("{other:?} instead of a loss"),
            }
        }
    }

    fn end(&mut self) -> End {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < HANG, "only frames come");
            match self.next() {
                SourceEvent::Frame(_) => {}
                SourceEvent::Ended(end) => return end,
                other => panic!("{other:?} instead of an end"),
            }
        }
    }

    fn next(&mut self) -> SourceEvent {
        let started = Instant::now();
        loop {
            match self.source.next_event(TURN) {
                SourceEvent::Nothing => assert!(started.elapsed() < HANG, "nothing happens"),
                news => return news,
            }
        }
    }

    /// Sends a frame and takes it.
    fn fed_frame(&mut self, writer: &mut impl Write) -> CapturedFrame {
        writer.write_all(&[7; FRAME_BYTES]).unwrap();
        self.frame()
    }

    /// Waits, after a loss, until the pipeline before has stopped, which might read what the next one is to read.
    fn wait_for_restart(&mut self) {
        let restarts = self.counters.restarts.total();
        until("the next pipeline has started", || {
            assert!(matches!(self.source.next_event(TURN), SourceEvent::Nothing));
            restarts < self.counters.restarts.total()
        });
    }

    fn restarts(&self) -> Vec<(LossReason, u64)> {
        self.counters.restarts.by_reason().filter(|(_, count)| *count != 0).collect()
    }
}

/// The rest of a description that reads raw frames.
fn parsed_frames() -> &'static str {
    "rawvideoparse format=gray8 width=16 height=16 framerate=100/1 ! appsink name=frames"
}

fn piped(path: &Path) -> String {
    format!("filesrc location={} blocksize={FRAME_BYTES} ! {}", path.display(), parsed_frames())
}
