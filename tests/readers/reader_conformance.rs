//! The readers in Rust, C and Python read the same frames of the same daemon alike: every field and every byte.

use std::path::Path;
use std::process::Command;

use foveate::messages::{Attend, Look, NumberFormat, ViewName};
use foveate_control::ClientExt as _;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use serde_json::{Value, json};

use crate::daemon::{Feed, Follower, Place, Process};
use crate::film::raw_bytes;
use crate::scene::{bt601, fed, random_film, stream, view};
use crate::wait::until;

/// Frames of the history; fewer than the ring holds, so that no reader is lapped however slow it is.
const FRAMES: u64 = 40;

/// Debian's own, for which its NumPy is.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn every_reader_reads_every_frame_alike() {
    let gaze = "gaze = { policy = 'feedback', saccade_hz = 50, dwell_min_ms = 0 }";
    for settings in ["dtype = 'f16'", "dtype = 'u8'\npatch = 14", "dtype = 'bf16'", "dtype = 'f32'"]
    {
        let place = Place::new();
        let film = random_film(PixelFormat::Nv12, Extent::new(160, 120), bt601(), 12);
        let mut feed = Feed::open(&place.path("camera"));
        let main = view("main", &format!("budget = 50\nslots = 64\n{settings}\n{gaze}"));
        let settings = format!("backend = 'cpu'\n{main}");
        let daemon = place.daemon(&stream("camera", &fed(&place, "camera", &film), &settings));
        let (mut client, mut follower) = (daemon.client(), daemon.subscribe("camera/main"));
        feed.send(&raw_bytes(film.frame(1)));
        let mut expected = vec![described(&mut follower)];
        let readers = [c_reader(&place), python_reader(&place)];
        let present = 2 + readers.len() as u64;
        until("they follow", || {
            present <= client.listing().unwrap().server.unwrap().counts.clients
        });
        // The last of them may not have opened its segment yet, and then begins with a later frame.
        for frame_seq in 2..=FRAMES {
            let view: ViewName = "camera/main".parse().unwrap();
            match frame_seq % 10 {
                3 => drop(client.look(Look::at(&view, 20.0, frame_seq as f64)).unwrap()),
                6 => drop(client.attend(map(view), &[0, 9, 0, 1]).unwrap()),
                _ => {}
            }
            feed.send(&raw_bytes(film.frame(frame_seq)));
            expected.push(described(&mut follower));
        }
        drop(feed);
        for reader in readers {
            let outcome = reader.finish();
            let read: Vec<Value> = outcome
                .stdout
                .lines()
                .map(|line| exact(serde_json::from_str(line).unwrap()))
                .collect();
            let first =
                read.first().unwrap_or_else(|| panic!("{outcome:#?}"))["frame_seq"].as_u64();
            let skipped = usize::try_from(first.unwrap()).unwrap() - 1;
            assert!(skipped < 10, "it began with frame {}", skipped + 1);
            assert_eq!(read, expected[skipped..], "{outcome:#?}");
        }
    }
}

fn map(view: ViewName) -> Attend {
    Attend { view, shape: [2, 2], dtype: NumberFormat::U8, region: None, frame: None, wait: false }
}

/// Reads to the end of the stream.
fn python_reader(place: &Place) -> Process {
    let mut command = Command::new(PYTHON);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/dump.py");
    command.arg("-B").arg(program).arg("camera/main").arg("--socket").arg(place.socket());
    Process::start(command, &[])
}

/// Reads to the end of the stream.
fn c_reader(place: &Place) -> Process {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = place.path("dump");
    let status = Command::new("cc")
        .args(["-std=c11", "-O2", "-I"])
        .arg(root.join("include"))
        .arg(root.join("tests/c/dump.c"))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.unwrap().success(), "the C reader compiles");
    let mut command = Command::new(program);
    command.args(["camera/main", &FRAMES.to_string()]);
    Process::start(command, &[("FOVEATE_SOCKET", place.socket().to_str().unwrap())])
}

/// C prints 20.0 as 20.
fn exact(mut line: Value) -> Value {
    for name in ["fixation_x", "fixation_y"] {
        line[name] = line[name].as_f64().unwrap().into();
    }
    line
}

fn described(follower: &mut Follower) -> Value {
    follower.next_frame();
    let (frame, segment) = (&follower.frame, follower.subscription.reader().unwrap().header());
    let head = &frame.head;
    let (stamp, fixation) = (head.stamp, head.fixation);
    json!({
        "ring_sequence": head.ring_sequence,
        "frame_seq": stamp.frame_seq,
        "pts_ns": stamp.pts_ns,
        "capture_ns": stamp.capture_ns,
        "capture_unix_ns": stamp.capture_unix_ns,
        "capture_clock": stamp.capture_clock.code(),
        "arrival_ns": stamp.arrival_ns,
        "publish_ns": head.publish_ns,
        "fixation_id": fixation.id,
        "fixation_x": fixation.x,
        "fixation_y": fixation.y,
        "fixation_since_frame": fixation.since_frame,
        "fixation_reason": fixation.reason.code(),
        "sample_bound": head.sample_bound,
        "rgb_bound": head.rgb_bound,
        "dirty_tiles": head.dirty_tiles,
        "tile_count": head.tile_count,
        "relevance_frame": head.relevance_frame,
        "asked_ns": head.asked_ns,
        "token_count": frame.records.len(),
        "records": fnv1a_64(bytemuck::cast_slice(&frame.records)),
        "pixels": fnv1a_64(&frame.pixels),
        "relevance": fnv1a_64(frame.plane(1)),
        "blocks": fnv1a_64(frame.replicated(segment).as_flattened()),
        "smooth": fnv1a_64(frame.smoothed(segment).as_flattened()),
    })
}

/// The FNV-1a hash of 64 bits, in hexadecimal.
fn fnv1a_64(bytes: &[u8]) -> String {
    let hash = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}
