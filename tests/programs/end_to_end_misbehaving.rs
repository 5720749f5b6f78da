//! Sources that harm: cameras that send without an end, a plug-in that crashes, hoards, hangs or writes where it should not, and one
//! that lies to the daemon. Each harms its own process, is named and counted, and costs no other stream a frame.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use foveate::client::Client;
use foveate_capture::process::Confinement;
use foveate_control::{ClientExt as _, StreamListing};
use foveate_core::clock::monotonic_ns;
use foveate_core::color::{ColorRange, Colorimetry};
use foveate_core::depth::DepthFormat;
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelAspect;
use foveate_source::frame::{FrameLayout, PlaneLayout, SampleFormat};
use foveate_source::wire::{Failure, FrameCounts, FrameReady, FromSource, SourceStamp};
use foveate_stats::LossReason;
use testkit::daemon::{Daemon, Feed, Follower, Place};
use testkit::film::encode;
use testkit::hostile_camera::{
    Conduct, HostileCamera, jpeg_behind_comments, jpeg_of_size, png_of_size,
};
use testkit::left_out::leave_part_out;
use testkit::mutation::mutated;
use testkit::naive::Random;
use testkit::wait::{HANG, until};
use testkit::{is_long, repository};

use crate::end_to_end_process::processes;
use crate::source_laws;

const WIDTH: usize = 64;
const HEIGHT: usize = 48;

/// Most memory of a source process that delivers nothing, in kB: 512 MiB of heap and stacks, and the program with its libraries.
/// `docs/guide/service.md` promises it.
const SOURCE_KB_MAX: u64 = 640 << 10;

/// Most memory by which bad neighbours may let the daemon grow, in kB.
const DAEMON_GROWTH_KB_MAX: u64 = 64 << 10;

/// A stream in a process of its own, which is fed by hand beside bad ones.
struct FedCamera<'a> {
    daemon: Daemon<'a>,
    client: Client,
    feed: Feed,
    follower: Follower,
    sent: u64,
    /// The largest that were seen, in kB: of a source process, and of the daemon, at first and at most.
    source_kb: u64,
    daemon_kb: [u64; 2],
}

impl<'a> FedCamera<'a> {
    fn open(place: &'a Place, others: &str, environment: &[(&str, &str)]) -> Self {
        let feed = Feed::open(&place.path("fed"));
        let fed = format!(
            "[[stream]]\nname = 'fed'\nbackend = 'cpu'\nrestart = false\nisolation = 'process'\ncaps_timeout_ms = 60000\n\
             pipeline = 'filesrc location={} blocksize={} ! rawvideoparse format=gray8 width={WIDTH} height={HEIGHT} \
             framerate=30/1 ! appsink name=frames sync=false'\n",
            place.path("fed").display(),
            WIDTH * HEIGHT,
        );
        let daemon = place.daemon_in(&[&fed, others].concat(), environment);
        let (client, follower) = (daemon.client(), daemon.subscribe("fed/main"));
        let kb = memory_kb(daemon.process.id(), "VmRSS:").unwrap();
        Self { daemon, client, feed, follower, sent: 0, source_kb: 0, daemon_kb: [kb; 2] }
    }

    /// Sends frames, each of which is published before the next one, until `is_over`.
    fn feed_until(&mut self, mut is_over: impl FnMut(&BTreeMap<String, StreamListing>) -> bool) {
        let started = std::time::Instant::now();
        loop {
            self.sent += 1;
            self.feed.send(&[u8::try_from(self.sent % 251).unwrap(); WIDTH * HEIGHT]);
            assert_eq!(self.follower.next_frame().head.stamp.frame_seq, self.sent);
            if !self.sent.is_multiple_of(8) {
                continue;
            }
            self.note_memory();
            let streams = self.client.list().unwrap();
            let streams = streams.into_iter().map(|stream| (stream.name.clone(), stream)).collect();
            if is_over(&streams) {
                return;
            }
            let log = self.daemon.process.stderr.so_far();
            assert!(started.elapsed() < HANG, "{streams:#?}\n{log}");
        }
    }

    fn note_memory(&mut self) {
        let daemon = self.daemon.process.id();
        let of = |pid, name| memory_kb(pid, name).unwrap_or(0);
        self.daemon_kb[1] = self.daemon_kb[1].max(of(daemon, "VmRSS:"));
        for pid in processes(daemon) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            self.source_kb = self.source_kb.max(of(pid, "VmHWM:"));
        }
    }

    /// All frames were published, memory was limited, and the daemon ends as it should. Returns what it has logged.
    fn end(self) -> String {
        let streams = self.daemon.client().list().unwrap();
        let counts = &streams.iter().find(|stream| stream.name == "fed").unwrap().counts;
        assert_eq!((counts.frames_captured, counts.frames_dropped), (self.sent, 0));
        assert_eq!(counts.frames_refused, 0);
        assert!(self.source_kb < SOURCE_KB_MAX, "a source process took {} kB", self.source_kb);
        let [before, most] = self.daemon_kb;
        assert!(most - before < DAEMON_GROWTH_KB_MAX, "the daemon grew from {before} to {most} kB");
        self.daemon.stop().stderr
    }
}

/// A line of the status of a process; `None` if it has ended.
fn memory_kb(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// A bad stream, and the error that it must report.
struct BadStream {
    name: &'static str,
    /// Source and further settings.
    settings: String,
    /// Parts of the reason in the listing, one of which is there, and how it is counted.
    said: Vec<(&'static str, LossReason)>,
}

impl BadStream {
    fn config(&self) -> String {
        let Self { name, settings, .. } = self;
        format!(
            "[[stream]]\nname = '{name}'\nbackend = 'cpu'\nisolation = 'process'\ncaps_timeout_ms = 60000\n{settings}\n"
        )
    }

    /// Whether the listing names what is wrong, and its restart is counted.
    fn is_named(&self, streams: &BTreeMap<String, StreamListing>) -> bool {
        let stream = &streams[self.name];
        let is_counted = |counted| stream.restarts.get(counted).is_some_and(|count| 0 < *count);
        self.said
            .iter()
            .any(|(reason, counted)| is_counted(counted) && stream.reason.contains(reason))
    }
}

/// Feeds the good stream until all others are named, and returns what the daemon has logged.
fn run_beside(place: &Place, all: &[BadStream], environment: &[(&str, &str)]) -> String {
    let config: String = all.iter().map(BadStream::config).collect();
    let mut fed = FedCamera::open(place, &config, environment);
    let mut left: Vec<_> = all.iter().collect();
    // A reason is seen between the loss and the next frame.
    fed.feed_until(|streams| {
        left.retain(|bad| !bad.is_named(streams));
        left.is_empty()
    });
    let log = fed.end();
    for BadStream { name, said, .. } in all {
        let says = |line: &str| {
            line.contains(name) && said.iter().any(|(reason, _)| line.contains(reason))
        };
        assert!(log.lines().any(says), "{name}: {said:?} is not in\n{log}");
    }
    log
}

#[test]
fn hostile_cameras_harm_no_other_stream() {
    let place = Place::new();
    encode(
        &place.path("picture.jpg"),
        "videotestsrc num-buffers=1 ! video/x-raw,width=64,height=48 ! jpegenc",
    );
    let jpeg = jpeg_of_size(&fs::read(place.path("picture.jpg")).unwrap(), 30_000, 30_000);
    let late = jpeg_behind_comments(&jpeg, 100_000);
    let secret = place.write("secret.ts", [0; 188]);
    let trap = HostileCamera::new(Conduct::status(404));
    let hoards = ("limit of 512 MiB of memory", LossReason::OutOfMemory);
    let memory = vec![hoards];
    let unreadable = |reason| vec![(reason, LossReason::Unreadable)];
    let conducts = [
        ("description", Conduct::EndlessDescription, memory.clone()),
        ("play", Conduct::EndlessPlay, memory),
        ("part", Conduct::EndlessPart, unreadable("without an end")),
        ("jpeg", Conduct::Pictures(Arc::new(jpeg)), unreadable("`max_pixels`")),
        ("late", Conduct::Pictures(Arc::new(late.clone())), unreadable("`max_pixels`")),
        // It comes in parts of 4 kB. The decoder tells its size and asks for memory.
        (
            "unseen",
            Conduct::body("image/jpeg", late),
            vec![hoards, ("30000x30000 pixels", LossReason::Unreadable)],
        ),
        (
            "png",
            Conduct::body("image/png", png_of_size(16_384, 16_384)),
            unreadable("`max_pixels`"),
        ),
        ("playlist", Conduct::EndlessPlaylist, unreadable("an HLS playlist")),
        (
            "file",
            Conduct::playlist(&[&format!("file://{}", secret.display())]),
            unreadable("an HLS playlist"),
        ),
        ("inside", Conduct::playlist(&[&trap.address()]), unreadable("an HLS playlist")),
    ];
    let cameras = conducts.map(|(name, conduct, said)| (name, HostileCamera::new(conduct), said));
    let bad = cameras.each_ref().map(|(name, camera, said)| BadStream {
        name,
        settings: format!("source = '{}'\nmax_pixels = 10000000", camera.address()),
        said: said.clone(),
    });
    run_beside(&place, &bad, &[]);
    assert_eq!(trap.requests(), [""; 0]);
}

/// Compiles the plug-in, and returns what lets a daemon find it.
fn plugin(place: &Place) -> [(&'static str, String); 2] {
    let mut flags = Command::new("pkg-config");
    let flags = flags.args(["--cflags", "--libs", "gstreamer-base-1.0"]).output().unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let folder = place.path("plugins");
    fs::create_dir(&folder).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]);
    compiler.args(["-shared", "-fPIC"]).arg(repository().join("tests/c/misbehaving.c"));
    compiler.arg("-o").arg(folder.join("libmisbehaving.so")).args(flags.split_whitespace());
    assert!(compiler.status().unwrap().success(), "misbehaving.c compiles");
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    // A registry of its own: that of the user knows nothing of it. It is written once, not by each process.
    let found = [("GST_PLUGIN_PATH", text(folder)), ("GST_REGISTRY", text(place.path("registry")))];
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let config = place.write(
        "check.toml",
        format!("[[stream]]\nname = 'any'\ncaps_timeout_ms = 60000\n{}\n", does("nothing")),
    );
    let arguments = ["--check", "--config", config.to_str().unwrap()];
    place.foveated(&arguments, &environment).finish().assert_clean_exit(0);
    found
}

fn does(deed: &str) -> String {
    format!("pipeline = 'misbehaving deed={deed} ! appsink name=frames'")
}

#[test]
fn a_plugin_that_misbehaves_harms_no_other_stream() {
    let place = Place::new();
    let found = plugin(&place);
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let bad = |name, settings, reason, counted| {
        let said = vec![(reason, counted)];
        BadStream { name, settings, said }
    };
    let all = [
        bad("crash", does("crash"), "signal 11 (SIGSEGV)", LossReason::Crashed),
        bad("leak", does("leak"), "limit of 512 MiB of memory", LossReason::OutOfMemory),
        bad(
            "hoard",
            does("hoard") + "\n[stream.limits]\nmemory_mib = 300",
            "shared memory included, and was ended at its limit of 300 MiB of memory",
            LossReason::OutOfMemory,
        ),
        bad(
            "loop",
            does("loop") + "\nrestart_timeout_ms = 1000",
            "no frame for 1 s",
            LossReason::Silent,
        ),
    ];
    let log = run_beside(&place, &all, &environment);
    let stops = |line: &str| line.contains("loop") && line.contains("is killed");
    assert!(log.lines().any(stops), "{log}");
}

/// How the kernel answers is in the log.
#[test]
fn a_plugin_that_reaches_out_harms_no_other_stream() {
    let place = Place::new();
    let found = plugin(&place);
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let deeds = ["fork", "exec", "shadow", "scribble", "flap"];
    let stream =
        |name: &&'static str| BadStream { name, settings: does(name), said: Vec::new() }.config();
    let config: String = deeds.iter().map(stream).collect();
    let mut fed = FedCamera::open(&place, &config, &environment);
    fed.feed_until(|streams| {
        let published = |name: &&str| 30 < streams[*name].counts.frames_published;
        // One that could become another program delivers nothing.
        deeds.iter().filter(|name| **name != "exec").all(published)
    });
    fed.daemon.process.stderr.wait_for("misbehaving: exec was ");
    // Changes of the format do not fill the log.
    until("changes that were not logged are counted", || {
        let counts = |line: &str| line.contains("publishing") && line.contains("unlogged_before=");
        fed.daemon.process.stderr.so_far().lines().any(counts)
    });
    let log = fed.end();
    let Confinement { landlock, has_filter } = Confinement::of_kernel();
    let deeds = [
        ("fork", has_filter, "seccomp"),
        ("exec", has_filter, "seccomp"),
        ("opening /etc/shadow", landlock.is_some(), "Landlock"),
    ];
    for (deed, is_refused, by) in deeds {
        let answer = format!("misbehaving: {deed} was ");
        let line = log.lines().find(|line| line.contains(&answer));
        let line = line.unwrap_or_else(|| panic!("{answer:?} is not in\n{log}"));
        if is_refused {
            assert!(!line.contains("was allowed"), "{line}");
        } else {
            leave_part_out(&format!("no {by}"));
        }
    }
}

/// The first frame of a process that is honest.
fn honest() -> FrameReady {
    let color = Colorimetry {
        matrix: None,
        range: ColorRange::Full,
        transfer: None,
        is_matrix_assumed: false,
        is_range_assumed: false,
    };
    let samples = SampleFormat::Picture(PixelFormat::Gray8, color);
    FrameReady {
        buffer: 0,
        layout: FrameLayout::packed(samples, EXTENT, PixelAspect::SQUARE).0,
        stamp: SourceStamp {
            number: 1,
            pts_ns: Some(5),
            capture_ns: 1,
            capture_unix_ns: 2,
            capture_clock: CaptureClock::RunningTime,
            arrival_ns: 3,
        },
        mask_revision: MASK_REVISION,
        is_live: true,
        is_exact: false,
        counts: FrameCounts { captured: 1, ..FrameCounts::default() },
    }
}

const EXTENT: Extent = Extent::new(64, 48);

/// Revision of the masks of a stream without masks.
const MASK_REVISION: u64 = 2;

/// Bytes of a buffer that a frame fits in.
const BYTES: usize = 64 * 48;

/// A line of the script of the plug-in.
fn line(message: &[u8], rest: &str) -> String {
    let digits: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}{rest};")
}

fn message(message: &FromSource) -> String {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    line(&bytes, "")
}

fn buffer(number: u8, kind: &str) -> String {
    message(&FromSource::Buffer(number)).replace(';', &format!("+{kind};"))
}

/// A buffer, and a frame in it that is honest but for `lie`.
fn frame(lie: impl FnOnce(&mut FrameReady)) -> String {
    let mut frame = honest();
    lie(&mut frame);
    buffer(0, &format!("sealed:{BYTES}")) + &message(&FromSource::Frame(frame))
}

fn says(script: &str) -> String {
    // Half of a line of a pipeline could be taken for a comment or a parameter.
    format!("pipeline = 'misbehaving deed=say script=\"{script}\" ! appsink name=frames'")
}

/// The script of a process that breaks the protocol, and how that is named.
type Lie = (&'static str, String, &'static str);

fn lies_about_buffers() -> Vec<Lie> {
    vec![
        ("unsealed", buffer(0, "unsealed:4096"), "is not sealed"),
        ("file", buffer(0, "file"), "is not sealed"),
        ("pipe", buffer(0, "pipe"), "is not sealed"),
        ("nothing", message(&FromSource::Buffer(0)), "without a descriptor"),
        ("hollow", buffer(0, "hollow:4096"), "has 4096 bytes, 0 of which exist"),
        ("huge", buffer(0, "hollow:1099511627776"), "has 1099511627776 bytes"),
        ("empty", buffer(0, "hollow:0"), "has 0 bytes"),
        // Ten times what frames of `max_pixels` need.
        ("oversize", buffer(0, "sealed:40000000"), "has 40000000 bytes"),
        ("beyond", buffer(200, "sealed:4096"), "no buffer 200"),
        ("early", message(&FromSource::Frame(honest())), "no buffer 0"),
    ]
}

fn lies_about_layouts() -> Vec<Lie> {
    const MISFIT: &str = "does not fit its buffer";
    let of = |samples, extent| {
        let layout = FrameLayout::packed(samples, extent, PixelAspect::SQUARE).0;
        buffer(0, "sealed:8192") + &message(&FromSource::Frame(FrameReady { layout, ..honest() }))
    };
    let small = buffer(0, "sealed:3000") + &message(&FromSource::Frame(honest()));
    let steps = PlaneLayout { offset: 1, stride: usize::MAX };
    vec![
        ("small", small, MISFIT),
        ("stride", frame(|frame| frame.layout.planes[0].stride = 1), MISFIT),
        ("steps", frame(|frame| frame.layout.planes[0] = steps), MISFIT),
        ("offset", frame(|frame| frame.layout.planes[0].offset = usize::MAX), MISFIT),
        (
            "sides",
            frame(|frame| frame.layout.extent = Extent::new(u32::MAX, u32::MAX)),
            "4294967295x4294967295 pixels (expected at most 4000 in all",
        ),
        ("pixels", of(honest().layout.samples, Extent::new(64, 100)), "64x100"),
        (
            "depth",
            of(SampleFormat::Depth(DepthFormat::ALL[0]), EXTENT),
            "depth in place of pictures",
        ),
    ]
}

fn lies_about_stamps() -> Vec<Lie> {
    vec![
        ("arrival", frame(|frame| frame.stamp.arrival_ns = u64::MAX), "invalid time of arrival"),
        ("capture", frame(|frame| frame.stamp.capture_ns = 4), "invalid capture time"),
        ("unix", frame(|frame| frame.stamp.capture_unix_ns = u64::MAX), "invalid capture time"),
        ("pts", frame(|frame| frame.stamp.pts_ns = Some(u64::MAX)), "invalid presentation time"),
        ("number", frame(|frame| frame.stamp.number = 2), "frame 2 after frame 0 of 1"),
        ("zero", frame(|frame| frame.stamp.number = 0), "frame 0 after frame 0 of 1"),
        ("masks", frame(|frame| frame.mask_revision = 99), "change 99 of the masks"),
    ]
}

fn lies_in_other_messages() -> Vec<Lie> {
    let counts =
        |captured| message(&FromSource::Counts(FrameCounts { captured, ..FrameCounts::default() }));
    let failure = message(&FromSource::Failed(Failure {
        text: "red \x1b[31m and rtsp://u:MARKER@h/x".to_owned(),
        reason: LossReason::Crashed,
        is_transient: true,
        is_configuration: false,
        is_every_frame_live: false,
    }));
    vec![
        ("counts", counts(u32::MAX), "it counted 4294967295 frames"),
        ("garbage", line(b"\x07any", ""), "of version 7"),
        ("kind", line(b"\x01\xff", ""), "an unknown message: 255"),
        ("long", line(&[1, 19, 0], ""), "which is not its length"),
        ("cut", line(&[[1, 18].as_slice(), &[0; 9000]].concat(), ""), "which is not its length"),
        ("hangup", line(b"", ""), "closed its socket"),
        ("flood", counts(0).replace(';', "*1000000;"), "messages in a second"),
        ("escape", failure, "red "),
    ]
}

#[test]
fn a_plugin_that_lies_to_the_daemon_harms_no_other_stream() {
    let place = Place::new();
    let found = plugin(&place);
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let lies =
        [lies_about_buffers(), lies_about_layouts(), lies_about_stamps(), lies_in_other_messages()];
    let all: Vec<_> = lies
        .into_iter()
        .flatten()
        .map(|(name, script, reason)| {
            let settings = says(&script) + "\nmax_pixels = 4000";
            BadStream { name, settings, said: vec![(reason, LossReason::Crashed)] }
        })
        .collect();
    let log = run_beside(&place, &all, &environment);
    assert!(!log.contains('\x1b') && !log.contains("MARKER"), "{log}");
}

/// Each is valid. The daemon maps them all, which costs it time.
#[test]
fn a_plugin_that_sends_buffers_without_end_is_ended() {
    let place = Place::new();
    let found = plugin(&place);
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let script = buffer(0, "sealed:16777216*1000000");
    let said = vec![("new buffers of more than 512 MiB in each second", LossReason::Crashed)];
    run_beside(&place, &[BadStream { name: "again", settings: says(&script), said }], &environment);
}

/// Facts that cannot be checked are wrong for the frames of the liar, and for nothing else.
#[test]
fn wild_facts_of_frames_are_published_as_they_are() {
    let place = Place::new();
    let found = plugin(&place);
    let environment = found.each_ref().map(|(name, value)| (*name, &**value));
    let second = |lie: fn(&mut FrameReady)| {
        let mut frame = honest();
        (frame.buffer, frame.stamp.number) = (1, 2);
        lie(&mut frame);
        buffer(1, "sealed:16384") + &message(&FromSource::Frame(frame))
    };
    let scripts = [
        ("honest", frame(|_| ())),
        (
            "aspect",
            frame(|frame| {
                frame.layout.pixel_aspect = PixelAspect { width: 1, height: u32::MAX };
            }),
        ),
        (
            "wide",
            frame(|frame| {
                frame.layout.pixel_aspect = PixelAspect { width: u32::MAX, height: 1 };
            }),
        ),
        ("times", frame(|frame| frame.stamp.pts_ns = Some((1 << 63) - 1)) + &second(|_| ())),
        (
            "numbers",
            frame(|frame| {
                (frame.counts.captured, frame.stamp.number) = (1 << 20, 1 << 20);
            }),
        ),
        ("narrow", frame(|frame| frame.layout.extent = Extent::new(1, 1))),
        ("sizes", frame(|_| ()) + &second(|frame| frame.layout.extent = Extent::new(1, 48))),
        (
            "formats",
            frame(|_| ())
                + &second(|frame| {
                    let SampleFormat::Picture(_, color) = frame.layout.samples else { return };
                    let samples = SampleFormat::Picture(PixelFormat::Rgba, color);
                    frame.layout = FrameLayout::packed(samples, EXTENT, PixelAspect::SQUARE).0;
                }),
        ),
    ];
    let config: String = scripts
        .iter()
        .map(|(name, script)| BadStream { name, settings: says(script), said: Vec::new() })
        .map(|bad| bad.config())
        .collect();
    let mut fed = FedCamera::open(&place, &config, &environment);
    let names: Vec<_> = scripts.iter().map(|(name, _)| *name).collect();
    let mut published = vec![0; names.len()];
    fed.feed_until(|streams| {
        for (published, name) in published.iter_mut().zip(&names) {
            *published = streams[*name].counts.frames_published;
        }
        published.iter().all(|count| 0 < *count)
    });
    fed.end();
}

/// Checks the laws of the fuzzer without its random bytes.
#[test]
fn the_laws_hold_for_mutations_of_messages_of_sources() {
    let second = |lie: fn(&mut FrameReady)| {
        let mut frame = honest();
        (frame.buffer, frame.stamp.number) = (1, 2);
        lie(&mut frame);
        FromSource::Frame(frame)
    };
    let failure = Failure {
        text: "no camera".to_owned(),
        reason: LossReason::Unreachable,
        is_transient: true,
        is_configuration: false,
        is_every_frame_live: false,
    };
    let depth = |frame: &mut FrameReady| {
        let samples = SampleFormat::Depth(DepthFormat::ALL[0]);
        frame.layout = FrameLayout::packed(samples, EXTENT, PixelAspect::SQUARE).0;
    };
    let color = |frame: &mut FrameReady| {
        let SampleFormat::Picture(_, color) = frame.layout.samples else { return };
        let samples = SampleFormat::Picture(PixelFormat::I420, color);
        frame.layout = FrameLayout::packed(samples, EXTENT, PixelAspect::SQUARE).0;
    };
    let messages = [
        FromSource::Buffer(1),
        FromSource::Frame(honest()),
        second(|_| {}),
        second(depth),
        second(color),
        FromSource::Counts(FrameCounts { captured: 1, ..FrameCounts::default() }),
        FromSource::Ended,
        FromSource::Failed(failure),
    ];
    let behind_length = |message: &FromSource| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        [&[u8::try_from(bytes.len()).unwrap()], &bytes[..]].concat()
    };
    let mut corpus: Vec<_> = messages.iter().map(behind_length).collect();
    corpus.push(corpus.concat());
    let (seed, count) = if is_long() { (monotonic_ns(), 200_000) } else { (1, 20_000) };
    // Shown if it fails.
    println!("seed {seed}");
    let mut random = Random(seed);
    corpus.iter().for_each(|bytes| source_laws::hold_for(bytes));
    for _ in 0..count {
        source_laws::hold_for(&mutated(&corpus, &mut random));
    }
}
