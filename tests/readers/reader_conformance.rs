//! The readers in Rust, C and Python read the same frames of the same daemon with the same result: every field and every byte.

use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use foveate::messages::{Attend, AttendTokens, Look, Looking, NumberFormat, ViewName};
use foveate_control::ClientExt as _;
use foveate_core::backend::BackendKind;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::token::{DType, Normalisation, Outside, Rounding, TokenFormat};
use foveate_ring::abi::SegmentHeader;
use foveate_ring::canvas::Canvas;
use foveate_ring::{Reader, SegmentSpec, TokenFrameBuf, Writer};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
use rustix::process::Signal;
use serde_json::Value;
use testkit::control::{attend, attend_tokens};
use testkit::daemon::{Outcome, Place, Process};
use testkit::footage;
use testkit::players::Line;
use testkit::ring::{hdr_facts, publish, sealed_copy, spec};
use testkit::scene::{FedStream, bt601, random_film, view};
use testkit::wait::{HANG, until};

use crate::described::{described, described_canvas, next_described, read_line};

/// Frames of the history; fewer than the ring holds, so that no reader is lapped however slow it is.
const FRAMES: u64 = 40;

/// Debian's own, for which its NumPy is.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn every_reader_reads_every_frame_alike() {
    let gaze = "gaze = { policy = 'feedback', saccade_hz = 50, dwell_min_ms = 0 }";
    for settings in [
        "dtype = 'f16'\nlayout = 'foveal'\nfoveae = 3",
        "dtype = 'u8'\npatch = 14\nlayout = 'directional'",
        "dtype = 'bf16'\nlayout = 'uniform'",
        "dtype = 'f32'\nlayout = 'rings'\nstrides = [1, 3]\ngrids = [3, 5]",
        "dtype = 'u8'\nlayout = 'windows'\npatch = 224",
        "dtype = 'f16'\nlayout = 'inset'\npatch = 8\nblocks = 2\nshare = 0.4",
        "dtype = 'u8'\nlayout = 'adaptive'\nmemory = 'canvas'",
        "dtype = 'f32'\nlayout = 'adaptive'\nmemory = 'canvas'\npatch = 14\nnormalisation = 'imagenet'",
    ] {
        let place = Place::new();
        let film = random_film(PixelFormat::Nv12, Extent::new(160, 120), bt601(), 12);
        let main = view("main", &format!("budget = 50\nslots = 64\n{settings}\n{gaze}"));
        let settings = format!("backend = 'cpu'\n{main}");
        let mut fed = FedStream::open(&place, film, &settings, "camera/main");
        let mut expected = vec![next_described(&mut fed)];
        let mut frames = vec![fed.follower.frame.clone()];
        let readers = [c_reader(&place, FRAMES), python_reader(&place, None)];
        let present = 2 + readers.len() as u64;
        until("they follow", || {
            present <= fed.client.listing().unwrap().server.unwrap().counts.clients
        });
        // The last of them may not have opened its segment yet, and then begins with a later frame.
        for frame_seq in 2..=FRAMES {
            let view: ViewName = "camera/main".parse().unwrap();
            match frame_seq % 10 {
                3 => drop(fed.client.look(Look::at(&view, 20.0, frame_seq as f64)).unwrap()),
                6 => drop(
                    fed.client.attend(attend([2, 2], NumberFormat::U8), &[0, 9, 0, 1]).unwrap(),
                ),
                _ => {}
            }
            expected.push(next_described(&mut fed));
            frames.push(fed.follower.frame.clone());
        }
        let segment = fed.follower.segment().clone();
        fed.end();
        for reader in readers {
            let outcome = reader.finish();
            let read: Vec<Value> = outcome.stdout.lines().map(read_line).collect();
            let first =
                read.first().unwrap_or_else(|| panic!("{outcome:#?}"))["frame_seq"].as_u64();
            let skipped = usize::try_from(first.unwrap()).unwrap() - 1;
            assert!(skipped < 10, "it began with frame {}", skipped + 1);
            let mut canvas = Canvas::default();
            let mut expected = expected[skipped..].to_vec();
            for (expected, frame) in expected.iter_mut().zip(&frames[skipped..]) {
                let drawn = described_canvas(&mut canvas, &segment, frame);
                let fields = expected.as_object_mut().unwrap();
                fields.extend(drawn.map(|drawn| ("canvas".to_owned(), drawn)));
            }
            assert_eq!(read, expected, "{outcome:#?}");
        }
    }
}

/// A clip that is decoded, at its own pace: slow readers pass over frames, and agree on those that they read.
#[test]
fn every_reader_reads_the_frames_of_a_clip_alike() {
    const COUNT: u64 = 20;
    let Some(clip) = footage::clip("vtest.avi") else { return };
    let place = Place::new();
    let main = view("main", "budget = 64\nslots = 64\ngaze = { policy = 'saliency' }");
    let source = format!("source = '{}'\nloop = true\nbackend = 'cpu'", clip.display());
    let daemon = place.daemon(&format!("[[stream]]\nname = 'camera'\n{source}\n{main}"));
    let mut follower = daemon.subscribe("camera/main");
    let readers = [c_reader(&place, COUNT), python_reader(&place, Some(COUNT))];
    let read: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let outcomes = readers.map(|reader| scope.spawn(move || reader.finish()));
        let mut published = BTreeMap::new();
        while !outcomes.iter().all(|outcome| outcome.is_finished()) {
            follower.next_frame();
            let frame = described(follower.segment(), &follower.frame);
            published.insert(frame["frame_seq"].as_u64(), frame);
        }
        outcomes.map(|outcome| agreed(&outcome.join().unwrap(), &published)).into()
    });
    assert!(read.iter().all(|frames| frames.len() as u64 == COUNT));
}

/// The frames that a reader printed, each as it was published.
fn agreed(outcome: &Outcome, published: &BTreeMap<Option<u64>, Value>) -> Vec<Value> {
    let frame = |line: &str| {
        let read = read_line(line);
        assert_eq!(published.get(&read["frame_seq"].as_u64()), Some(&read), "{outcome:#?}");
        read
    };
    outcome.stdout.lines().map(frame).collect()
}

/// Fields that no view of the daemon has, as one has the next: all dtypes, grids, several fixations, and records of random bits, so of
/// any origin, step and box.
#[test]
fn every_reader_reads_every_field_alike() {
    for (number, spec) in specs() {
        let mut writer = Writer::create(&spec).unwrap();
        for number in 1..=number {
            publish(&mut writer, number, spec.capacity, spec.format);
        }
        let mut read = TokenFrameBuf::default();
        let mut reader = Reader::from_fd(writer.reader_fd().unwrap()).unwrap();
        reader.read_newest(&mut read).unwrap();
        let expected = described(reader.header(), &read);
        assert_eq!(expected["fixation_count"], 1 + number % 8);
        assert_eq!(expected["tokens"].as_array().unwrap().len(), spec.capacity);
        for start in [c_reader, |place: &Place, _| python_reader(place, Some(1))] {
            let outcome = shown(&writer.reader_fd().unwrap(), start);
            outcome.assert_clean_exit(0);
            assert_eq!(read_line(&outcome.stdout), expected);
        }
    }
}

/// A homography for a point and for scores of tokens, and a rotation for a map, of a camera with a distortion.
#[test]
fn every_client_says_alike_how_the_camera_moved() {
    const CALIBRATION: &str = "image_width: 160\nimage_height: 120\ncamera_matrix: {data: [120, 0, 80, 0, 120, 60, 0, 0, 1]}\n\
         distortion_model: plumb_bob\ndistortion_coefficients: {data: [-0.2, 0.02, 0, 0, 0]}\n";
    let place = Place::new();
    fs::write(place.path("front.yaml"), CALIBRATION).unwrap();
    let film = random_film(PixelFormat::Gray8, Extent::new(160, 120), bt601(), 1);
    let calibration = place.path("front.yaml");
    let settings = format!(
        "backend = 'cpu'\n[stream.camera]\ncalibration = '{}'\n{}",
        calibration.display(),
        view("main", "gaze = { policy = 'feedback' }")
    );
    let mut fed = FedStream::open(&place, film, &settings, "camera/main");
    let tokens = fed.next_frame().records.len();

    let view: ViewName = "camera/main".parse().unwrap();
    let frame = Some(1);
    let homography = Some([1.1, 0.0, 10.0, 0.0, 1.1, -4.5, 0.0, 0.0, 1.0]);
    let rotation = Some([0.0, -0.01745, 0.00873, 0.99981]);
    let client = &mut fed.client;
    let look = client.look(Look { frame, homography, ..Look::at(&view, 50.0, 40.0) }).unwrap();
    assert_eq!(look.points, [(65.0, 39.5)]);
    let map = Attend { frame, rotation, ..attend([3, 4], NumberFormat::U8) };
    let attend = client.attend(map, &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]).unwrap();
    // Two degrees of 120 pixels to the radian.
    let (x, y) = attend.points[0];
    assert!((x - 96.0).abs() < 3.0 && (y - 60.0).abs() < 3.0, "{attend:?}");
    let scored = AttendTokens { homography, ..attend_tokens(1, NumberFormat::U8) };
    let mut scores = vec![0; tokens];
    scores[0] = 1;
    let scored = client.attend_tokens(scored, &scores).unwrap();
    client.release(&view).unwrap();
    let said = |looking: &Looking| {
        let (x, y) = looking.points[0];
        format!("{x:.3} {y:.3}\n")
    };
    let expected: String = [look, attend, scored].iter().map(said).collect();

    let python = |script: &str| {
        let mut command = Command::new(PYTHON);
        command.args(["-B", "-c", script]).arg(place.socket());
        command
    };
    let (socket, package) = (place.socket(), concat!(env!("CARGO_MANIFEST_DIR"), "/python"));
    let environment = [("FOVEATE_SOCKET", socket.to_str().unwrap()), ("PYTHONPATH", package)];
    let clients: [&dyn Fn() -> Process; 3] = [
        &|| place.c_program("ego_motion", &["camera/main"]),
        &|| Process::start(python(STEERED), &environment),
        &|| Process::start(python(STEERED_BY_TASKS), &environment),
    ];
    // One after the other: who steers a view holds it.
    for start in clients {
        let outcome = start().finish();
        outcome.assert_clean_exit(0);
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    }
    let matrix = ["--homography", "1.1,0,10,0,1.1,-4.5,0,0,1"];
    let look = ["look", "camera/main", "50", "40", "--frame", "1", matrix[0], matrix[1]];
    let outcome = place.foveate(&look).finish();
    assert_eq!(outcome.stdout, "camera/main looks at 65, 39.5\n", "{outcome:#?}");
}

/// The steps of `tests/c/ego_motion.c` in Python.
const STEERED: &str = "
import sys, foveate, numpy as np
homography, rotation = [[1.1, 0, 10], [0, 1.1, -4.5], [0, 0, 1]], [0, -0.01745, 0.00873, 0.99981]
def say(looking):
    print(f'{looking.x:.3f} {looking.y:.3f}')
with foveate.open('camera/main', sys.argv[1]) as view:
    frame = view.read()
    weights, scores = np.zeros((3, 4), np.float32), np.zeros(len(frame), np.uint8)
    weights[1, 2] = scores[0] = 1
    say(view.look(50, 40, frame=frame, homography=homography))
    say(view.attend(weights, frame=frame, rotation=rotation))
    say(view.attend_tokens(frame, scores, homography=np.array(homography)))
    view.release()
";

/// The steps of `tests/c/ego_motion.c` with asyncio.
const STEERED_BY_TASKS: &str = "
import asyncio, sys, foveate.aio, numpy as np
homography, rotation = [[1.1, 0, 10], [0, 1.1, -4.5], [0, 0, 1]], [0, -0.01745, 0.00873, 0.99981]
def say(looking):
    print(f'{looking.x:.3f} {looking.y:.3f}')
async def main():
    async with foveate.aio.open('camera/main', sys.argv[1]) as view:
        frame = await view.read()
        weights, scores = np.zeros((3, 4), np.float32), np.zeros(len(frame), np.uint8)
        weights[1, 2] = scores[0] = 1
        say(await view.look(50, 40, frame=frame, homography=homography))
        say(await view.attend(weights, frame=frame, rotation=rotation))
        say(await view.attend_tokens(frame, scores, homography=np.array(homography)))
        await view.release()
asyncio.run(main())
";

/// `tests/ring/ring_hostile.rs` does the same with the Rust reader.
#[test]
fn a_segment_of_another_major_version_is_refused_with_both_versions() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/segments/1.0.segment");
    let mut bytes = fs::read(recorded).unwrap();
    bytes[offset_of!(SegmentHeader, abi_major)] = 3;
    bytes[offset_of!(SegmentHeader, abi_minor)] = 7;
    for start in [c_reader, |place: &Place, _| python_reader(place, Some(1))] {
        let outcome = shown(&sealed_copy(&bytes), start);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{outcome:#?}");
        let both = "follows ABI 3.7, but this reader supports 1.0: ";
        assert!(outcome.stderr.contains(both), "{outcome:#?}");
    }
}

/// Segments, and how many frames to publish in each.
fn specs() -> Vec<(u64, SegmentSpec)> {
    let format = |side, dtype, normalisation| TokenFormat::new(side, dtype, normalisation);
    let mut uniform = SegmentSpec {
        layout: "uniform".to_owned(),
        format: format(16, DType::F16, Normalisation::IMAGENET),
        grid: Some(Extent::new(3, 2)),
        foveae: 1,
        backend: BackendKind::Vulkan,
        camera: None,
        ..spec(6)
    };
    uniform.format.outside = Outside::Mean;
    uniform.format.rounding = Rounding::Floor;
    uniform.picture = hdr_facts();
    let mut rings = SegmentSpec {
        layout: "rings".to_owned(),
        format: format(10, DType::Bf16, Normalisation::CLIP),
        ..spec(7)
    };
    let camera = rings.camera.as_mut().unwrap();
    camera.calibration.distortion = "a_distortion_with_31_characters".to_owned();
    camera.mount = None;
    let windows = SegmentSpec {
        layout: "windows".to_owned(),
        format: format(224, DType::F32, Normalisation::SIGLIP),
        slot_count: 2,
        ..spec(2)
    };
    vec![(3, spec(6)), (8, uniform), (7, rings), (5, windows)]
}

/// What a reader that subscribes and reads one frame prints of `segment`.
fn shown(segment: &OwnedFd, start: fn(&Place, u64) -> Process) -> Outcome {
    let place = Place::new();
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let process = start(&place, 1);
    let listener = Line(listener);
    assert!(listener.has_words(HANG), "nobody calls: {:#?}", process.finish());
    let line = Line(accept(&listener.0).unwrap());
    assert!(line.hear().contains("subscribe"));
    line.say(r#"{"ok":true,"view":"camera/main"}"#);
    let event = r#"{"event":"segment","view":"camera/main","epoch":"00c0ffee00c0ffee"}"#;
    line.send(event, Some(segment.as_fd()));
    process.finish()
}

#[test]
fn every_reader_finds_the_daemons_socket() {
    let place = Place::new();
    let [runtime, user] = ["runtime", "user"].map(|name| place.path(name));
    let places = [
        ("RUNTIME_DIRECTORY", runtime.to_str().unwrap()),
        ("XDG_RUNTIME_DIR", user.to_str().unwrap()),
    ];
    let serve = |places: &[(&str, &str)]| {
        let process = Process::start(Command::new(env!("CARGO_BIN_EXE_foveated")), places);
        process.stderr.wait_for(" serving ");
        process
    };
    let (first, second) = (runtime.join("foveate.sock"), user.join("foveate/foveate.sock"));
    let daemon = serve(&places[1..]);
    assert!(second.exists());

    let mut tool = Command::new(env!("CARGO_BIN_EXE_foveate"));
    tool.args(["watch", "camera/main", "--frames", "1"]);
    let mut c = Command::new(place.compiled("dump"));
    c.args(["camera/main", "1"]);
    let mut python = Command::new(PYTHON);
    python.arg("-B").arg(python_program()).args(["camera/main", "1"]);
    for reader in [tool, c, python] {
        Process::start(reader, &places).finish().assert_clean_exit(0);
    }

    let mut doctor = Command::new(env!("CARGO_BIN_EXE_foveate"));
    doctor.arg("doctor");
    let found = Process::start(doctor, &places).finish().stdout;
    assert!(found.contains(&format!("can be created in {}", runtime.display())), "{found}");
    assert!(found.contains(&format!("with 1 stream on {}", second.display())), "{found}");

    assert!(!first.exists());
    let another = serve(&places);
    assert!(first.exists(), "a daemon does not look for places with a socket");
    for process in [daemon, another] {
        process.signal(Signal::TERM);
        process.finish().assert_clean_exit(0);
    }
}

/// Reads `count` frames, or to the end of the stream.
fn python_reader(place: &Place, count: Option<u64>) -> Process {
    let mut command = Command::new(PYTHON);
    command.arg("-B").arg(python_program()).arg("--socket").arg(place.socket()).arg("camera/main");
    command.args(count.map(|count| count.to_string()));
    Process::start(command, &[])
}

fn python_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/dump.py")
}

/// Reads `count` frames, or to the end of the stream.
fn c_reader(place: &Place, count: u64) -> Process {
    place.c_program("dump", &["camera/main", &count.to_string()])
}
