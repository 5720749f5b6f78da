//! A pipeline in a process of its own gives the frames and errors that it gives in this one, and harms nobody when it dies.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foveate_capture::process::{ProcessError, set_program};
use foveate_capture::reconnecting::{ReconnectingSource, SourceEvent};
use foveate_capture::{
    CaptureError, CapturedFrame, Content, End, Isolation, MaskChange, Masks, Pace, Source,
    SourceChoice, SourceSpec, TakeResult,
};
use foveate_core::backoff::Backoff;
use foveate_core::frame::PixelFormat;
use foveate_core::mask::{Mask, MaskFill};
use foveate_stats::{LossReason, StreamCounters};
use rustix::process::{Pid, Signal, kill_process};
use testkit::film::{rest_of, take_all};
use testkit::naive::Random;
use testkit::wait::{HANG, until};

/// Longest wait of a single call.
const TURN: Duration = Duration::from_millis(20);

/// What of a frame is the same wherever its pipeline runs.
#[derive(PartialEq)]
struct FrameRecord {
    seq: u64,
    pts_ns: Option<u64>,
    facts: String,
    samples: Vec<u8>,
}

impl FrameRecord {
    fn of(frame: &CapturedFrame, content: Content) -> Self {
        let stamp = frame.stamp();
        let mut samples = Vec::new();
        let kind = match content {
            Content::Pictures => {
                let view = frame.view().unwrap();
                for index in 0..view.format().plane_count() {
                    let rows = 0..view.kind().rows(index);
                    rows.for_each(|row| samples.extend_from_slice(view.row(index, row)));
                }
                format!("{:?}", view.kind())
            }
            Content::Depth => {
                let depth = frame.depth().unwrap();
                let width = depth.extent().width as usize;
                let scale = foveate_core::depth::DepthScale {
                    unit_m: 0.001,
                    min_m: 0.0,
                    max_m: f64::INFINITY,
                };
                let mut steps = vec![0; width];
                for row in 0..depth.extent().height as usize {
                    scale.read_row(&depth, row, &mut steps);
                    samples.extend(steps.iter().flat_map(|step| step.to_ne_bytes()));
                }
                format!("{:?} {}", depth.format(), depth.extent())
            }
        };
        let facts = format!("{kind} {:?}", frame.facts());
        Self { seq: stamp.frame_seq, pts_ns: stamp.pts_ns, facts, samples }
    }
}

pub(crate) fn in_process(spec: &SourceSpec) -> SourceSpec {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    set_program(PROGRAM.get_or_init(program));
    SourceSpec { isolation: Isolation::Process, ..spec.clone() }
}

/// A program that is `foveated`, but for some streams, whose names say what is in its place.
fn program() -> PathBuf {
    let path = tempfile::tempdir().unwrap().keep().join("program");
    let text = format!(
        "#!/bin/sh\ncase \"$2\" in\n\
         garbage) exec dd if=/dev/urandom bs=300 count=100 >&0 2>/dev/null ;;\n\
         silent|mute) exec sleep 1000 ;;\n\
         flooding) exec perl -e 'open S, \">&=0\"; $m = \"\\001\\022\" . \"\\0\" x 36; 1 while syswrite S, $m' ;;\n\
         *) exec {} \"$@\" ;;\nesac\n",
        testkit::program("foveated").display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// The frames, how the source ended, whether its samples were exact, and what was counted.
fn taken(spec: &SourceSpec) -> (Vec<FrameRecord>, End, bool, [u64; 3]) {
    taken_with(spec, &Arc::default())
}

fn taken_with(
    spec: &SourceSpec,
    counters: &Arc<StreamCounters>,
) -> (Vec<FrameRecord>, End, bool, [u64; 3]) {
    let mut source = Source::start(spec, counters).unwrap();
    let mut frames = Vec::new();
    let end = take_all(&mut source, |frame| frames.push(FrameRecord::of(&frame, spec.content)));
    let counts = [&counters.frames_captured, &counters.frames_refused, &counters.frames_dropped];
    (frames, end, source.is_exact(), counts.map(|counter| counter.get()))
}

/// Asserts that the frames are the same in a process, at least `least`. Returns how many were copied for the daemon.
fn assert_same(spec: &SourceSpec, least: usize) -> u64 {
    let (here, end, is_exact, counts) = taken(spec);
    let counters = Arc::<StreamCounters>::default();
    let (there, other_end, is_other_exact, other_counts) = taken_with(&in_process(spec), &counters);
    assert!(least <= here.len(), "{} frames", here.len());
    assert_eq!(here.len(), there.len());
    for (one, other) in here.iter().zip(&there) {
        assert_eq!((one.seq, one.pts_ns, &one.facts), (other.seq, other.pts_ns, &other.facts));
        assert!(one.samples == other.samples, "samples of frame {}", one.seq);
    }
    assert_eq!((end, is_exact, counts), (other_end, is_other_exact, other_counts));
    assert_eq!(counters.frames_captured.get(), there.len() as u64);
    counters.frames_copied_to_send.get()
}

fn clip_of(source: SourceChoice) -> SourceSpec {
    SourceSpec { pace: Pace::EveryFrame, caps_timeout: HANG, ..SourceSpec::new("test", source) }
}

fn pipeline(text: &str) -> SourceSpec {
    clip_of(SourceChoice::Pipeline(format!("{text} ! appsink name=frames")))
}

#[test]
fn test_patterns_through_a_process_are_the_same() {
    for format in PixelFormat::ALL.map(PixelFormat::name) {
        // Odd sides, and rows with gaps. The unused half of the last pair of YUY2 is whatever was there.
        let width = if format == PixelFormat::Yuy2.name() { 130 } else { 131 };
        let caps = format!("video/x-raw,format={format},width={width},height=77,framerate=30/1");
        let spec = pipeline(&format!("videotestsrc num-buffers=9 pattern=ball ! {caps}"));
        assert_eq!(assert_same(&spec, 9), 0, "{format}");
        let masked = SourceSpec { masks: masks(), ..spec };
        assert_eq!(assert_same(&masked, 9), 0, "{format}");
    }
}

fn masks() -> Vec<Mask> {
    vec![Mask::rectangle("box", [0.1, 0.2, 0.4, 0.7])]
}

/// Decoders that predict frames from those before have memory of their own for that.
#[test]
fn real_clips_through_a_process_are_the_same() {
    for (name, least) in [("vtest.avi", 795), ("box.mp4", 455)] {
        let Some(clip) = testkit::footage::clip(name) else { return };
        let spec = clip_of(SourceChoice::Shorthand(clip.display().to_string()));
        assert_eq!(assert_same(&spec, least), 0, "{name}");
    }
    let Some(clip) = testkit::footage::clip("box.mp4") else { return };
    let spec = clip_of(SourceChoice::Shorthand(clip.display().to_string()));
    // Masks are filled in place then.
    let masked = SourceSpec { masks: masks(), ..spec };
    assert_eq!(assert_same(&masked, 455), 0);
}

#[test]
fn pictures_of_decoders_through_a_process_are_not_copied() {
    // Sides that are multiples of 16: with others `jpegenc` reads the memory beyond the edge.
    for (width, height) in [(640, 480), (144, 96)] {
        let caps = format!("video/x-raw,format=I420,width={width},height={height}");
        let source = format!("videotestsrc num-buffers=30 pattern=ball ! {caps} ! jpegenc");
        assert_eq!(assert_same(&pipeline(&format!("{source} ! jpegdec")), 30), 0);
        // Where several threads decode, libav holds a frame for a moment longer.
        assert_same(&pipeline(&format!("{source} ! jpegparse ! avdec_mjpeg")), 30);
    }
}

/// A parser cuts frames out of the bytes that it has read, and converters write each frame to new memory.
#[test]
fn only_frames_in_memory_of_their_own_are_copied() {
    let raw = "videotestsrc num-buffers=20 pattern=ball ! video/x-raw,format=I420,width=64,height=48,framerate=10/1";
    let parsed = "rawvideoparse format=i420 width=64 height=48 framerate=10/1";
    assert_eq!(assert_same(&pipeline(&format!("{raw} ! {parsed}")), 20), 20);
    let converted = format!("{raw} ! {parsed} ! videoconvert ! video/x-raw,format=RGBA");
    assert_eq!(assert_same(&pipeline(&converted), 20), 0);
    let repeated = format!("{raw} ! videorate ! video/x-raw,framerate=30/1");
    assert_same(&pipeline(&repeated), 57);
    let cropped = format!("{raw} ! videocrop top=3 left=5 right=2");
    assert_eq!(assert_same(&pipeline(&cropped), 20), 0);
}

/// Its frames are more than a process may share: a queue keeps them.
#[test]
fn frames_beyond_the_bound_of_memory_are_copied() {
    let text = "videotestsrc num-buffers=90 pattern=black ! video/x-raw,format=RGBA,width=320,height=240 ! \
         queue max-size-buffers=80 max-size-bytes=0 max-size-time=0 min-threshold-buffers=70";
    let copied = assert_same(&pipeline(text), 90);
    assert!((1..90).contains(&copied), "{copied}");
}

#[test]
fn depth_through_a_process_is_the_same() {
    for format in ["GRAY16_LE", "GRAY16_BE"] {
        let caps = format!("video/x-raw,format={format},width=61,height=33,framerate=30/1");
        let spec = pipeline(&format!("videotestsrc num-buffers=30 ! {caps}"));
        assert_same(&SourceSpec { content: Content::Depth, ..spec }, 30);
    }
}

#[test]
fn frames_of_another_size_follow_through_a_process() {
    let caps = "video/x-raw,format=I420,framerate=30/1";
    let part = |size: &str| format!("videotestsrc num-buffers=5 ! {caps},{size} ! c.");
    let parts = ["width=64,height=48", "width=320,height=200", "width=32,height=32"].map(part);
    let text = format!("concat name=c ! appsink name=frames {}", parts.join(" "));
    assert_same(&clip_of(SourceChoice::Pipeline(text)), 15);
}

#[test]
fn errors_through_a_process_are_the_same() {
    let sources = [
        SourceChoice::Shorthand("/nowhere/clip.mp4".to_owned()),
        SourceChoice::Pipeline("nosuchelement ! appsink name=frames".to_owned()),
        // Elements without a name are numbered in each process.
        SourceChoice::Pipeline("videotestsrc ! fakesink name=nothing".to_owned()),
        SourceChoice::Shorthand("gopher://x".to_owned()),
        SourceChoice::Pipeline(
            "videotestsrc ! identity name=failing error-after=3 ! appsink name=frames".to_owned(),
        ),
    ];
    for source in sources {
        let spec = SourceSpec { caps_timeout: HANG, ..SourceSpec::new("test", source) };
        let error = |spec: &SourceSpec| {
            let mut source = Source::start(spec, &Arc::default()).unwrap();
            match rest_of(&mut source).1 {
                End::Failed(error) => (error.to_string(), error.exit_code()),
                End::Eos => panic!("{spec:?} ended"),
            }
        };
        assert_eq!(error(&in_process(&spec)), error(&spec));
    }
}

#[test]
fn checks_through_a_process_are_the_same() {
    let sources = [
        SourceChoice::Shorthand("test".to_owned()),
        SourceChoice::Shorthand("/nowhere/clip.mp4".to_owned()),
        SourceChoice::Shorthand("rtsp://192.0.2.1/".to_owned()),
        SourceChoice::Shorthand("rtsp://[".to_owned()),
        SourceChoice::Pipeline("nosuchelement ! appsink name=frames".to_owned()),
        SourceChoice::Pipeline("videotestsrc ! fakesink name=nothing".to_owned()),
    ];
    let mut refused = 0;
    for source in sources {
        let spec = SourceSpec::new("checked", source);
        let error = |spec: &SourceSpec| {
            let error = Source::check(spec, HANG).err()?;
            Some((error.to_string(), error.exit_code()))
        };
        let expected = error(&spec);
        refused += usize::from(expected.is_some());
        assert_eq!(error(&in_process(&spec)), expected);
        assert_eq!(processes_of("checked"), []);
    }
    assert_eq!(refused, 4);
    // One that answers nothing.
    let silent = SourceSpec { stream: "mute".to_owned(), ..in_process(&pipeline("fakesrc")) };
    let error = Source::check(&silent, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, CaptureError::CapsTimeout { .. }), "{error}");
    let garbage = SourceSpec { stream: "garbage".to_owned(), ..silent };
    let error = Source::check(&garbage, HANG).unwrap_err();
    let is_named = matches!(error, CaptureError::Process(ProcessError::Misbehaved { .. }));
    assert!(is_named, "{error}");
}

#[test]
fn a_live_source_that_cannot_wait_says_so_through_a_process() {
    let spec = pipeline("videotestsrc is-live=true");
    let end = |spec: &SourceSpec| taken(spec).1;
    assert_eq!(end(&in_process(&spec)), End::Failed(CaptureError::EveryFrameLive));
}

const CAMERA: &str = "videotestsrc is-live=true pattern=white ! \
     video/x-raw,format=I420,width=64,height=48,framerate=100/1";

/// A camera in a process of its own, which is lost and comes back.
struct Camera {
    source: ReconnectingSource,
    counters: Arc<StreamCounters>,
    newest: u64,
    name: String,
}

impl Camera {
    fn new(name: &str, text: &str) -> Self {
        Self::behind(&Arc::default(), name, text)
    }

    fn behind(masks: &Arc<Masks>, name: &str, text: &str) -> Self {
        let choice = SourceChoice::Pipeline(format!("{text} ! appsink name=frames"));
        let spec = SourceSpec { caps_timeout: HANG, ..SourceSpec::new(name, choice) };
        let counters = Arc::<StreamCounters>::default();
        let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(2), 1);
        let source = ReconnectingSource::with_pauses(&in_process(&spec), masks, &counters, pauses);
        Self { source, counters, newest: 0, name: name.to_owned() }
    }

    fn next(&mut self) -> SourceEvent {
        let started = std::time::Instant::now();
        loop {
            match self.source.next_event(TURN) {
                SourceEvent::Nothing => assert!(started.elapsed() < HANG, "nothing happens"),
                event => return event,
            }
        }
    }

    fn frame(&mut self) -> CapturedFrame {
        match self.next() {
            SourceEvent::Frame(frame) => {
                let seq = frame.stamp().frame_seq;
                assert!(self.newest < seq, "frame {seq} after frame {}", self.newest);
                self.newest = seq;
                frame
            }
            other => panic!("{other:?} instead of a frame"),
        }
    }

    /// Takes frames up to the loss of the process.
    fn error(&mut self) -> ProcessError {
        loop {
            match self.next() {
                SourceEvent::Frame(_) => {}
                SourceEvent::Lost(loss) => match loss.cause {
                    CaptureError::Process(error) => return error,
                    other => panic!("{other:?} instead of an error of the process"),
                },
                other => panic!("{other:?} instead of a loss"),
            }
        }
    }

    /// The processes of this camera.
    fn processes(&self) -> Vec<Pid> {
        processes_of(&self.name)
    }

    fn signal(&self, signal: Signal) {
        // One may have ended meanwhile.
        for pid in self.processes() {
            let _ = kill_process(pid, signal);
        }
    }

    fn restarts(&self) -> Vec<(LossReason, u64)> {
        self.counters.restarts.by_reason().filter(|(_, count)| *count != 0).collect()
    }
}

/// The source processes of stream `name`.
pub(crate) fn processes_of(name: &str) -> Vec<Pid> {
    let expected = format!("\0source\0{name}\0");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.ends_with(expected.as_bytes()))
    });
    pids.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

#[test]
fn a_killed_process_is_counted_and_started_again() {
    let mut camera = Camera::new("killed", CAMERA);
    for attempt in 1..=5 {
        camera.frame();
        camera.signal(Signal::KILL);
        match camera.error() {
            ProcessError::Crashed { how, .. } => assert!(how.contains("signal 9"), "{how}"),
            other => panic!("{other:?}"),
        }
        camera.frame();
        assert_eq!(camera.restarts(), [(LossReason::Crashed, attempt)]);
        assert_eq!(camera.processes().len(), 1);
    }
}

/// While it starts, opens its pipeline, sends a frame, or has just been started: frames go on, and each loss is counted.
#[test]
fn a_process_may_be_killed_at_any_moment() {
    let kills = if std::env::var_os("FOVEATE_LONG").is_some() { 100 } else { 20 };
    let mut random = Random(3);
    let mut camera = Camera::new("random", CAMERA);
    let mut lost = 0;
    while lost < kills {
        let pause = Duration::from_millis(random.below(300).into());
        let started = std::time::Instant::now();
        while started.elapsed() < pause {
            match camera.source.next_event(Duration::from_millis(1)) {
                SourceEvent::Frame(frame) => {
                    let seq = frame.stamp().frame_seq;
                    assert!(camera.newest < seq, "frame {seq} after frame {}", camera.newest);
                    camera.newest = seq;
                }
                SourceEvent::Nothing => {}
                other => panic!("{other:?}"),
            }
        }
        if camera.processes().is_empty() {
            continue;
        }
        camera.signal(Signal::KILL);
        assert!(matches!(camera.error(), ProcessError::Crashed { .. }));
        lost += 1;
    }
    camera.frame();
    assert_eq!(camera.restarts(), [(LossReason::Crashed, kills)]);
}

#[test]
fn a_process_ends_with_its_source() {
    let mut camera = Camera::new("dropped", CAMERA);
    let held = camera.frame();
    assert_eq!(camera.processes().len(), 1);
    drop(camera);
    until("the process is gone", || processes_of("dropped").is_empty());
    // Its memory stays for as long as somebody reads it.
    assert_eq!(held.view().unwrap().row(0, 0), [235; 64]);
}

#[test]
fn a_process_that_takes_too_much_memory_is_named() {
    // Its queue grows by 8 MB a frame, while its appsink waits.
    let hoard = "videotestsrc ! video/x-raw,format=RGBA,width=1920,height=1080,framerate=1000/1 ! \
         queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 ! identity sleep-time=3000000 ! \
         video/x-raw,format=RGBA";
    let mut camera = Camera::new("hoarding", hoard);
    let error = camera.error();
    assert!(matches!(error, ProcessError::OutOfMemory { .. }), "{error}");
    until("it is started again", || {
        camera.source.next_event(TURN);
        camera.restarts() == [(LossReason::OutOfMemory, 1)]
    });
}

#[test]
fn a_process_that_speaks_another_language_is_ended() {
    let mut camera = Camera::new("garbage", CAMERA);
    let error = camera.error();
    assert!(matches!(error, ProcessError::Misbehaved { .. }), "{error}");
    until("it is counted", || {
        camera.source.next_event(TURN);
        camera.restarts().first().is_some_and(|(reason, _)| *reason == LossReason::Crashed)
    });
}

/// Its messages are valid: of no frame at all, as fast as it can.
#[test]
fn a_process_that_floods_its_socket_is_ended() {
    let mut camera = Camera::new("flooding", CAMERA);
    match camera.error() {
        ProcessError::Misbehaved { violation } => {
            assert!(violation.contains("in a second"), "{violation}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_process_that_says_nothing_is_ended() {
    let mut camera = Camera::new("silent", CAMERA);
    let error = camera.error();
    assert!(matches!(error, ProcessError::Hung { .. }), "{error}");
    assert!(processes_of("silent").is_empty());
    until("it is counted", || {
        camera.source.next_event(TURN);
        camera.restarts() == [(LossReason::Stuck, 1)]
    });
    // The next one does not stop when it is asked to.
    drop(camera);
    let is_gone = || {
        !fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == *b"sleep\x001000\0")
        })
    };
    until("it is killed", is_gone);
}

#[test]
fn no_frame_of_a_process_shows_what_masks_hide() {
    let masks = Arc::new(Masks::new(vec![Mask::rectangle("door", [0.1, 0.1, 0.5, 0.6])]));
    let mut camera = Camera::behind(&masks, "masked", CAMERA);
    let shows = |frame: &CapturedFrame, masks: &[Mask]| {
        let view = frame.view().unwrap();
        let fill = MaskFill::new(masks, view.kind());
        assert!((0..3).all(|index| fill.is_filled(index, view.plane(index))));
        // The rest is white.
        assert_eq!(view.row(0, 0)[0], 235);
    };
    let (configured, _) = masks.present();
    shows(&camera.frame(), &configured);
    for step in 1..=20 {
        let moved = Mask::rectangle("moved", [f64::from(step) / 40.0, 0.5, 0.9, 1.0]);
        let set = vec![moved.clone()];
        let revision = masks.change(MaskChange { set, ..MaskChange::default() }).unwrap();
        let all: Vec<_> = configured.iter().cloned().chain([moved]).collect();
        loop {
            let frame = camera.frame();
            shows(&frame, &configured);
            if frame.mask_revision() == revision {
                break shows(&frame, &all);
            }
        }
    }
    assert_eq!(camera.counters.frames_refused.get(), 0);
    assert!(20 < camera.counters.frames_masked.get());
}

#[test]
fn a_slow_consumer_gets_the_newest_frame() {
    let counters = Arc::<StreamCounters>::default();
    let choice = SourceChoice::Pipeline(format!("{CAMERA} ! appsink name=frames"));
    let spec = in_process(&SourceSpec::new("slow", choice));
    let mut source = Source::start(&spec, &counters).unwrap();
    let mut taken = 0;
    for _ in 0..20 {
        let TakeResult::Frame(frame) = source.next_frame(HANG) else { panic!("no frame") };
        taken += 1;
        std::thread::sleep(Duration::from_millis(100));
        drop(frame);
    }
    drop(source);
    let (captured, dropped) = (counters.frames_captured.get(), counters.frames_dropped.get());
    assert!(taken < captured, "{taken} of {captured}");
    // One may have been waiting, and some have been on their way.
    assert!(captured - taken - dropped <= 5, "{captured} - {taken} - {dropped}");
}
