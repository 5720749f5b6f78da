//! What `foveate record` writes of a real daemon, and what `foveate replay` publishes of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use foveate::client::{Client, Next};
use foveate_control::ClientExt as _;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_ring::canvas::Canvas;
use foveate_ring::{FrameHead, HeaderPage, SegmentInfo, TokenFrameBuf};
use foveate_tool::recording::messages::{GazeMessage, StateMessage, descriptors};
use foveate_tool::recording::playback::{Playback, PlaybackItem};
use foveate_tool::recording::{RecordingSettings, ViewRecorder};
use mcap::Summary;
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader};
use prost::Message;
use rustix::process::Signal;
use serde_json::Map;
use testkit::daemon::{Follower, Place, Process};
use testkit::film::Film;
use testkit::left_out::is_left_out;
use testkit::scene::{FedStream, bt601, random_film, view};
use testkit::wait::until;

const EXTENT: Extent = Extent::new(160, 120);

/// Of the header of a segment: what differs when it is published again.
const EPOCH: std::ops::Range<usize> = 64..72;

#[test]
fn a_recording_holds_what_the_ring_held_byte_by_byte() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&["--pictures-hz", "1000"]);
    stage.publish(20);
    let page = stage.page();
    let frames = stage.end();
    let outcome = recorder.finish();
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.contains(": 21 frames, "), "{}", outcome.stdout);
    assert!(!outcome.stderr.contains("missing"), "{}", outcome.stderr);

    let held = RecordedFrames::of([path.clone()]);
    assert_eq!(held.segments.len(), 1);
    assert!(*held.segments[0].0 == page, "the header of the segment");
    assert_same(&held.frames, &frames);
    assert!(!held.is_cut_short);

    let bytes = fs::read(&path).unwrap();
    let summary = Summary::read(&bytes).unwrap().unwrap();
    assert!(!summary.chunk_indexes.is_empty());
    assert!(summary.chunk_indexes.iter().all(|chunk| chunk.compression == "zstd"));
    let counts = &summary.stats.as_ref().unwrap().channel_message_counts;
    let counts: BTreeMap<_, _> = summary
        .channels
        .values()
        .map(|channel| {
            let schema = channel.schema.as_ref().unwrap();
            assert_eq!(
                (&channel.message_encoding[..], &schema.encoding[..]),
                ("protobuf", "protobuf")
            );
            ((channel.topic.as_str(), schema.name.as_str()), counts[&channel.id])
        })
        .collect();
    for (topic, count) in [
        (("/camera/main/segment", "foveate.Segment"), 1),
        (("/camera/main/tokens", "foveate.TokenFrame"), 21),
        // The fixation stays.
        (("/camera/main/gaze", "foveate.Gaze"), 1),
    ] {
        assert_eq!(counts[&topic], count, "{topic:?} in {counts:?}");
    }
    let images = counts[&("/camera/main/image", "foxglove.CompressedImage")];
    assert!((1..=21).contains(&images), "{images}");
    assert_eq!(counts[&("/camera/main/boxes", "foxglove.CompressedImage")], images);
    assert_eq!(counts[&("/camera/main/annotations", "foxglove.ImageAnnotations")], images);
    let events = messages::<StateMessage>(&bytes, "/camera/main/status");
    let kinds: Vec<_> = events.iter().map(|(_, event)| event.kind.as_str()).collect();
    assert_eq!(kinds[0], "live", "{kinds:?}");
    let (_, last) = events.last().unwrap();
    assert_eq!((&last.kind[..], &last.reason[..]), ("ended", "end of file"));
    let gazes = messages::<GazeMessage>(&bytes, "/camera/main/gaze");
    assert_eq!(gazes[0].1.frame_seq, frames[0].head.stamp.frame_seq);
    assert_eq!((gazes[0].1.fixations[0].x, gazes[0].1.fixations[0].y), (80.0, 60.0));
    let times: Vec<_> = frames.iter().map(|frame| frame.head.stamp.capture_unix_ns).collect();
    let tokens = messages::<()>(&bytes, "/camera/main/tokens");
    assert!(tokens.iter().map(|(time, ())| *time).eq(times), "the log times are those of capture");
}

#[test]
fn rotated_recordings_are_whole_and_within_size() {
    const LIMIT: u64 = 512 << 10;
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&["--rotate-size", "512KiB"]);
    stage.publish(60);
    let frames = stage.end();
    recorder.finish().assert_clean_exit(0);

    let paths = files(&path);
    assert!(3 <= paths.len(), "{paths:?}");
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        let fits = if path == &paths[paths.len() - 1] { 1..=LIMIT } else { LIMIT / 2..=LIMIT };
        assert!(fits.contains(&(bytes.len() as u64)), "{}: {} bytes", path.display(), bytes.len());
        assert!(Summary::read(&bytes).unwrap().unwrap().stats.is_some());
        // By itself.
        let held = RecordedFrames::of([path.clone()]);
        assert!(!held.frames.is_empty() && !held.is_cut_short);
        assert_eq!(held.segments.len(), 1);
        assert_eq!(messages::<GazeMessage>(&bytes, "/camera/main/gaze").len(), 1);
    }
    let held = RecordedFrames::of(paths);
    assert_eq!(held.segments.len(), 1, "it is one segment");
    assert_same(&held.frames, &frames);
}

#[test]
fn a_full_disk_ends_recording_with_a_whole_file() {
    if is_left_out("FOVEATE_WITHOUT_SYSTEMD") {
        return;
    }
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let copy = place.path("copy.mcap");
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m none {disk} || exit 99\n\
         {foveate} --socket {socket} record camera/main --mcap {disk}/run.mcap\n\
         code=$?\n\
         cp {disk}/run.mcap {copy}\n\
         exit $code",
        foveate = env!("CARGO_BIN_EXE_foveate"),
        socket = place.socket().display(),
        disk = disk.display(),
        copy = copy.display(),
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let recorder = Process::start(command, &[]);
    // Random texels: it takes some hundred frames.
    until("the disk is full", || {
        stage.publish(1);
        recorder.stderr.so_far().contains("disk full")
    });
    let outcome = recorder.finish();
    outcome.assert_clean_exit(1);
    assert!(outcome.stderr.contains("the file is complete"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("No space left on device"), "{}", outcome.stderr);

    let bytes = fs::read(&copy).unwrap();
    assert!((1 << 19) < bytes.len(), "{} bytes of the disk were used", bytes.len());
    let summary = Summary::read(&bytes).unwrap().unwrap();
    assert!(summary.stats.unwrap().message_count != 0);
    let held = RecordedFrames::of([copy]);
    assert!(!held.is_cut_short);
    assert!(10 < held.frames.len(), "{} frames", held.frames.len());
    assert_published(&held.frames, &stage.frames);
}

/// The clock decides, so only that there are several files is certain.
#[test]
fn a_recording_rotates_after_the_given_time() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&["--rotate-seconds", "1", "--pictures-hz", "0"]);
    until("a third file is begun", || {
        stage.publish(1);
        3 <= files(&path).len()
    });
    let frames = stage.end();
    recorder.finish().assert_clean_exit(0);

    for path in files(&path) {
        assert!(Summary::read(&fs::read(path).unwrap()).unwrap().unwrap().stats.is_some());
    }
    let held = RecordedFrames::of(files(&path));
    assert_eq!((held.segments.len(), held.is_cut_short), (1, false));
    assert_published(&held.frames, &frames);
    assert_eq!(held.frames.len() as u64 + held.missed, frames.len() as u64);
}

#[test]
fn a_daemon_that_is_killed_leaves_a_whole_recording() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&[]);
    stage.publish(10);
    let Stage { fed, frames, .. } = stage;
    fed.daemon.process.signal(Signal::KILL);
    assert_eq!(fed.daemon.process.finish().signal, Some(9));
    let outcome = recorder.finish();
    outcome.assert_clean_exit(69);
    assert!(outcome.message().contains("the daemon"), "{}", outcome.message());

    let bytes = fs::read(&path).unwrap();
    assert!(Summary::read(&bytes).unwrap().unwrap().stats.is_some());
    let held = RecordedFrames::of([path]);
    assert!(!held.is_cut_short);
    assert_published(&held.frames, &frames);
}

#[test]
fn what_a_killed_recorder_had_written_can_be_read() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&[]);
    until("more chunks are written", || {
        stage.publish(1);
        (1 << 20) < fs::metadata(&path).unwrap().len()
    });
    recorder.signal(Signal::KILL);
    assert_eq!(recorder.finish().signal, Some(9));
    assert!(Summary::read(&fs::read(&path).unwrap()).is_err(), "lacks an index");

    let whole = RecordedFrames::of([path.clone()]);
    assert!(whole.is_cut_short && !whole.frames.is_empty());
    assert_published(&whole.frames, &stage.frames);
    // As if the last chunk had been written in part.
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 20_000]).unwrap();
    let torn = RecordedFrames::of([path]);
    assert!(torn.is_cut_short && !torn.frames.is_empty());
    assert!(torn.frames.len() < whole.frames.len());
    assert_published(&torn.frames, &stage.frames);
}

#[test]
fn frames_that_a_recorder_misses_are_counted() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 8);
    let (path, recorder) = stage.recorder(&["--pictures-hz", "0"]);
    recorder.signal(Signal::STOP);
    // Twice as many as the ring has slots.
    stage.publish(16);
    recorder.signal(Signal::CONT);
    stage.publish(1);
    stage.end();
    let outcome = recorder.finish();
    outcome.assert_clean_exit(0);

    let held = RecordedFrames::of([path.clone()]);
    let numbers: Vec<_> = held.frames.iter().map(|frame| frame.head.stamp.frame_seq).collect();
    let gaps = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum::<u64>();
    assert!(0 < gaps, "{numbers:?}");
    assert_eq!(held.missed, gaps);
    let events = messages::<StateMessage>(&fs::read(&path).unwrap(), "/camera/main/status");
    assert_eq!(events.iter().map(|(_, event)| event.missed).sum::<u64>(), gaps);
    let told = format!("{gaps} frames are missing");
    assert!(outcome.stderr.contains(&told), "{told} is not in {}", outcome.stderr);
}

#[test]
fn readers_of_a_replay_get_what_was_recorded() {
    // Fewer than there are frames: replayed as fast as they are taken, they must not lap their reader.
    let place = Place::new();
    let mut stage = Stage::open(&place, 32);
    let (path, recorder) = stage.recorder(&["--rotate-size", "700KiB"]);
    stage.publish(60);
    let page = stage.page();
    stage.end();
    recorder.finish().assert_clean_exit(0);
    let paths = files(&path);
    // As recorded: a busy machine may have lapped the recorder.
    let frames = RecordedFrames::of(paths.clone()).frames;
    assert!(2 <= paths.len() && 32 < frames.len(), "{} frames in {paths:?}", frames.len());

    let place = Place::new();
    let paths: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    for pace in [&["--fast"][..], &["--speed", "2"]] {
        let arguments = [&["replay"], &paths[..], pace].concat();
        let replay = place.foveate(&arguments);
        let mut follower = following(&place);
        let mut replayed = Vec::new();
        let reason = loop {
            match follower.next() {
                Next::Frame { missed } => {
                    assert_eq!(missed, 0, "{pace:?}");
                    if pace == ["--fast"] {
                        // A reader that takes its time.
                        thread::sleep(Duration::from_millis(5));
                    }
                    replayed.push(follower.frame.clone());
                }
                Next::NewSegment => {
                    let again = follower.subscription.reader().unwrap().header_page();
                    assert!(again[..EPOCH.start] == page[..EPOCH.start]);
                    assert!(again[EPOCH] != page[EPOCH]);
                    assert!(again[EPOCH.end..] == page[EPOCH.end..]);
                }
                Next::Ended(reason) => break reason,
                Next::TimedOut => panic!("the replay stands still"),
            }
        };
        assert_eq!(reason, "end of file");
        for (replayed, recorded) in replayed.iter_mut().zip(&frames) {
            // When it was published is new, and where in the ring.
            assert!(recorded.head.publish_ns < replayed.head.publish_ns);
            replayed.head.publish_ns = recorded.head.publish_ns;
            replayed.head.ring_sequence = recorded.head.ring_sequence;
        }
        assert_same(&replayed, &frames);
        replay.finish().assert_clean_exit(0);
    }
}

/// A recorder asks for a refresh, so a recording has all that its player needs.
#[test]
fn a_canvas_is_rebuilt_from_a_recording() {
    let place = Place::new();
    let film = random_film(PixelFormat::Nv12, EXTENT, bt601(), 1);
    let mut stage = Stage::of(&place, film, "budget = 40\nslots = 64\nmemory = 'canvas'");
    stage.publish(20);
    let (path, recorder) = stage.recorder(&["--pictures-hz", "0"]);
    stage.publish(30);
    stage.end();
    recorder.finish().assert_clean_exit(0);

    let held = RecordedFrames::of([path]);
    let (_, segment) = &held.segments[0];
    let mut canvas = Canvas::default();
    for frame in &held.frames {
        canvas.update(segment, frame).unwrap();
    }
    assert!(canvas.steps().iter().all(|step| *step == 1), "{:?}", canvas.steps());
    let film = random_film(PixelFormat::Nv12, EXTENT, bt601(), 1);
    assert!(canvas.rgb() == film.pyramid(1)[0].texels);
}

/// An hour in which nothing happened, by CLOCK_REALTIME, because that was set.
#[test]
fn a_clock_step_while_recording_does_not_delay_replay() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&[]);
    stage.publish(8);
    stage.end();
    recorder.finish().assert_clean_exit(0);
    let held = RecordedFrames::of([path]);
    let place = Place::new();
    let path = place.path("set.mcap");
    let mut again = plain_recorder(&path);
    let (page, info) = &held.segments[0];
    again.begin_segment(page.clone(), info.clone());
    let count = held.frames.len();
    assert!(2 < count);
    for (index, mut frame) in held.frames.into_iter().enumerate() {
        frame.head.stamp.capture_unix_ns += if index < count / 2 { 0 } else { 3_600_000_000_000 };
        again.record_frame(frame, 0).unwrap();
    }
    again.finish().unwrap();
    let replay = place.foveate(&["replay", path.to_str().unwrap(), "--at-once"]).finish();
    replay.assert_clean_exit(0);
    assert!(replay.stdout.contains(&format!("{count} frames")), "{}", replay.stdout);
}

#[test]
fn a_replay_that_begins_at_once_waits_for_no_reader() {
    let place = Place::new();
    let (path, frames) = recorded(&place, 5);
    let fast = ["replay", path.to_str().unwrap(), "--fast", "--at-once"];
    let outcome = place.foveate(&fast).finish();
    outcome.assert_clean_exit(0);
    assert_eq!(outcome.stdout, format!("{} frames\n", frames.len()));
}

/// And without `--now` their times are the recorded ones.
#[test]
fn a_looped_replay_starts_a_new_segment() {
    let place = Place::new();
    let (path, frames) = recorded(&place, 5);
    for now in [&["--now"][..], &[]] {
        let again = ["replay", path.to_str().unwrap(), "--fast", "--loop"];
        let replay = place.foveate(&[&again, now].concat());
        let mut follower = following(&place);
        let mut epochs = Vec::new();
        while epochs.len() < 3 {
            match follower.next() {
                Next::NewSegment => {
                    epochs.push(follower.segment().epoch);
                }
                Next::Frame { .. } => {
                    let replayed = follower.frame.head.clone();
                    let index = usize::try_from(replayed.stamp.frame_seq - 1).unwrap();
                    let recorded = &frames[index].head;
                    let age = |head: &FrameHead| head.publish_ns - head.stamp.capture_ns;
                    if now.is_empty() {
                        assert_eq!(replayed.stamp, recorded.stamp);
                    } else {
                        assert!(recorded.publish_ns < replayed.stamp.capture_ns);
                        assert!(age(recorded) <= age(&replayed), "what publishing takes is added");
                        let moved = replayed.stamp.capture_ns - recorded.stamp.capture_ns;
                        assert_eq!(replayed.stamp.arrival_ns - recorded.stamp.arrival_ns, moved);
                    }
                }
                other => panic!("{other:?} instead of a frame"),
            }
        }
        epochs.dedup();
        assert_eq!(epochs.len(), 3, "{epochs:?}");
        replay.signal(Signal::TERM);
        replay.finish().assert_clean_exit(0);
    }
}

#[test]
fn a_replayed_view_is_listed_and_refuses_to_be_steered() {
    let place = Place::new();
    let mut stage = Stage::open(&place, 64);
    let (path, recorder) = stage.recorder(&[]);
    stage.publish(3);
    stage.end();
    recorder.finish().assert_clean_exit(0);

    let place = Place::new();
    let replay = place.foveate(&["replay", path.to_str().unwrap(), "--stream", "again"]);
    until("it answers", || Client::connect(&place.socket()).is_ok());
    let mut client = Client::connect(&place.socket()).unwrap();
    let listing = client.list().unwrap();
    assert_eq!(listing[0].name, "again");
    assert_eq!(listing[0].views[0].name.to_string(), "again/main");
    let look = place.foveate(&["look", "again/main", "10", "10"]).finish();
    look.assert_clean_exit(69);
    assert!(look.message().contains("is a recording"), "{}", look.message());
    let refused = client.open_view("again", Map::new()).unwrap_err().to_string();
    assert!(refused.contains("stream `again` is a recording"), "{refused}");
    replay.signal(Signal::TERM);
    replay.finish().assert_clean_exit(0);
}

#[test]
fn a_recording_that_exists_is_not_overwritten() {
    let place = Place::new();
    let _stage = Stage::open(&place, 8);
    let path = place.write("run.mcap", b"precious");
    let record = ["record", "camera/main", "--mcap", path.to_str().unwrap()];
    let outcome = place.foveate(&record).finish();
    outcome.assert_clean_exit(1);
    assert!(outcome.stderr.contains("choose another name"), "{}", outcome.stderr);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn files_that_are_not_recordings_are_refused() {
    let place = Place::new();
    let text = place.write("text.mcap", b"This is not a recording.");
    let short = place.write("short.mcap", b"hello");
    for (path, code, part) in [
        (text, 1, "cannot read"),
        (short, 1, "is not a recording of a view"),
        (place.path("none.mcap"), 69, "cannot read"),
    ] {
        let outcome = place.foveate(&["replay", path.to_str().unwrap()]).finish();
        outcome.assert_clean_exit(code);
        assert!(outcome.message().contains(part), "{}", outcome.message());
    }
}

#[test]
fn chunks_of_every_compression_are_replayed() {
    let place = Place::new();
    let (path, frames) = recorded(&place, 12);
    for compression in ["", "lz4", "zstd"] {
        let again = path.with_extension("again");
        fs::write(&again, rechunked(&path, compression, |_, _| false)).unwrap();
        let held = RecordedFrames::of([again]);
        assert_same(&held.frames, &frames);
        assert_eq!((held.damaged, held.is_cut_short), (vec![], false), "{compression}");
    }
    let again = path.with_extension("again");
    fs::write(&again, rechunked(&path, "brotli", |_, _| false)).unwrap();
    let error = Playback::new([again]).advance(&|| false).map(|_| ()).unwrap_err();
    assert!(foveate_core::error::chain(&error).contains("brotli"), "{error:?}");
}

#[test]
fn a_damaged_chunk_is_left_out_and_counted() {
    let place = Place::new();
    let (path, frames) = recorded(&place, 12);
    let damaged = path.with_extension("damaged");
    for compression in ["", "lz4", "zstd"] {
        fs::write(&damaged, rechunked(&path, compression, |index, _| index == 4)).unwrap();
        let held = RecordedFrames::of([damaged.clone()]);
        assert_eq!((held.damaged.len(), held.is_cut_short), (1, false), "{:?}", held.damaged);
        let lost = frames.len() - held.frames.len();
        assert!(lost <= 1, "{lost} frames");
        assert_published(&held.frames, &frames);
        // Without the segment no frame can be played.
        let is_segment = |_: usize, bytes: usize| (4096..4300).contains(&bytes);
        fs::write(&damaged, rechunked(&path, compression, is_segment)).unwrap();
        let held = RecordedFrames::of([damaged.clone()]);
        assert!(held.frames.is_empty() && 1 < held.damaged.len(), "{:?}", held.damaged);
    }
    fs::write(&damaged, rechunked(&path, "lz4", |index, _| index == 4)).unwrap();
    let replay =
        place.foveate(&["replay", damaged.to_str().unwrap(), "--at-once", "--fast"]).finish();
    replay.assert_clean_exit(0);
    assert!(replay.stdout.contains(", 1 damaged parts were left out"), "{}", replay.stdout);
    assert!(replay.stderr.contains("a chunk "), "{}", replay.stderr);
}

#[test]
fn what_a_chunk_only_announces_is_not_allocated() {
    let place = Place::new();
    // As much as 33 kB of zstd make.
    let zeros = zstd::encode_all(std::io::repeat(0).take(300 << 20), 3).unwrap();
    for (size, why) in
        [(2 << 30, "announces 2147483648 bytes"), (100, "is damaged"), (301 << 20, "announces")]
    {
        let path = place.write("bomb.mcap", file_of(&[(6, chunk(size, 1, "zstd", &zeros))]));
        let held = RecordedFrames::of([path]);
        assert_eq!(held.damaged.len(), 1);
        assert!(held.damaged[0].contains(why), "{:?}", held.damaged);
    }
    let mut long = file_of(&[]);
    long.truncate(8);
    long.extend([6]);
    long.extend((200u64 << 20).to_le_bytes());
    assert!(RecordedFrames::of([place.write("long.mcap", &long)]).is_cut_short);
}

#[test]
fn a_ring_that_is_too_large_is_not_made() {
    let place = Place::new();
    let held = RecordedFrames::of([recorded(&place, 2).0]);
    let path = place.path("large.mcap");
    let (mut page, info) = held.segments[0].clone();
    let (slot_count, stride) = (info.slot_count as u64, 1u64 << 28);
    page[16..24].copy_from_slice(&(4096 + slot_count * stride).to_le_bytes());
    page[32..40].copy_from_slice(&stride.to_le_bytes());
    let mut recorder = plain_recorder(&path);
    recorder.begin_segment(page, info);
    recorder.record_frame(held.frames[0].clone(), 0).unwrap();
    recorder.finish().unwrap();
    let replay = place.foveate(&["replay", path.to_str().unwrap(), "--at-once"]).finish();
    replay.assert_clean_exit(1);
    assert!(replay.message().contains("expected at most 2147483648"), "{}", replay.message());
}

#[test]
fn a_signal_ends_a_replay_that_decompresses() {
    let place = Place::new();
    let zeros = zstd::encode_all(std::io::repeat(0).take(250 << 20), 3).unwrap();
    let chunk = (6, chunk(250 << 20, 0, "zstd", &zeros));
    let path = place.write("long.mcap", file_of(&vec![chunk; 1000]));
    let replay = place.foveate(&["replay", path.to_str().unwrap()]);
    thread::sleep(Duration::from_millis(500));
    replay.signal(Signal::TERM);
    replay.finish().assert_clean_exit(0);
}

/// A recording with each message in a chunk of its own; those are damaged whose number and size are chosen.
fn rechunked(path: &Path, compression: &str, is_damaged: impl Fn(usize, usize) -> bool) -> Vec<u8> {
    const MESSAGE: u8 = 5;
    let bytes = fs::read(path).unwrap();
    let (mut reader, mut rest) = (LinearReader::new(), &bytes[..]);
    let (mut records, mut chunks) = (Vec::new(), 0);
    while let Some(event) = reader.next_event() {
        match event.unwrap() {
            LinearReadEvent::ReadRequest(bytes) => {
                let (now, later) = rest.split_at(bytes.min(rest.len()));
                reader.insert(now.len()).copy_from_slice(now);
                reader.notify_read(now.len());
                rest = later;
            }
            LinearReadEvent::Record { opcode: MESSAGE, data } => {
                let record = record(MESSAGE, data);
                let mut packed = match compression {
                    "lz4" => {
                        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                        encoder.write_all(&record).unwrap();
                        encoder.finish().unwrap()
                    }
                    "zstd" => zstd::encode_all(&record[..], 3).unwrap(),
                    _ => record.clone(),
                };
                if is_damaged(chunks, record.len()) {
                    let middle = packed.len() / 2;
                    packed[middle] ^= 0x55;
                }
                chunks += 1;
                let crc = crc32fast::hash(&record);
                records.push((6, chunk(record.len() as u64, crc, compression, &packed)));
            }
            // Schemas and channels stay where they are, outside of chunks.
            LinearReadEvent::Record { opcode: opcode @ (3 | 4), data } => {
                records.push((opcode, data.to_vec()));
            }
            LinearReadEvent::Record { .. } => {}
        }
    }
    file_of(&records)
}

/// An MCAP file without an index.
fn file_of(records: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut file = mcap::MAGIC.to_vec();
    file.extend(record(1, &[0; 8]));
    records.iter().for_each(|(opcode, body)| file.extend(record(*opcode, body)));
    file.extend(record(15, &[0; 4]));
    file.extend(record(2, &[0; 20]));
    file.extend(mcap::MAGIC);
    file
}

fn record(opcode: u8, body: &[u8]) -> Vec<u8> {
    [&[opcode][..], &(body.len() as u64).to_le_bytes(), body].concat()
}

/// The body of a chunk.
fn chunk(bytes: u64, crc: u32, compression: &str, packed: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend(bytes.to_le_bytes());
    body.extend(crc.to_le_bytes());
    body.extend(u32::try_from(compression.len()).unwrap().to_le_bytes());
    body.extend(compression.as_bytes());
    body.extend((packed.len() as u64).to_le_bytes());
    body.extend(packed);
    body
}

/// The definitions of `docs/data/foveate.proto` are what a file says of its messages.
#[test]
fn the_documented_messages_are_those_of_the_files() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/data/foveate.proto");
    let document = fs::read_to_string(document).unwrap();
    let documented: Vec<String> = document
        .lines()
        .map(|line| line.split("//").next().unwrap().trim())
        .filter(|line| line.starts_with("message ") || line.ends_with(';'))
        .filter(|line| !line.starts_with("syntax") && !line.starts_with("package"))
        .map(|line| line.trim_end_matches([' ', '{', ';']).to_owned())
        .collect();
    let mut described = Vec::new();
    for message in &descriptors().file[0].message_type {
        described.push(format!("message {}", message.name()));
        for field in &message.field {
            let label = if format!("{:?}", field.label()) == "Repeated" { "repeated " } else { "" };
            let kind = match field.type_name() {
                "" => format!("{:?}", field.r#type()).to_lowercase(),
                name => name.rsplit('.').next().unwrap().to_owned(),
            };
            described.push(format!("{label}{kind} {} = {}", field.name(), field.number()));
        }
    }
    assert_eq!(documented, described);
}

/// A daemon with one view of a random film, whose frames a test sends; the first is there from the beginning.
struct Stage<'a> {
    fed: FedStream<'a>,
    place: &'a Place,
    /// All that were published.
    frames: Vec<TokenFrameBuf>,
}

impl<'a> Stage<'a> {
    /// A stage whose ring has `slots` slots.
    fn open(place: &'a Place, slots: u32) -> Self {
        let film = random_film(PixelFormat::Nv12, EXTENT, bt601(), 12);
        Self::of(place, film, &format!("budget = 40\nslots = {slots}"))
    }

    /// With these settings of the view.
    fn of(place: &'a Place, film: Film, settings: &str) -> Self {
        let main = view("main", settings);
        let fed = FedStream::open(place, film, &format!("backend = 'cpu'\n{main}"), "camera/main");
        let mut stage = Self { fed, place, frames: Vec::new() };
        stage.publish(1);
        stage
    }

    /// Starts a recorder, and returns the file and the process once the file has the first frame.
    fn recorder(&self, arguments: &[&str]) -> (PathBuf, Process) {
        let path = self.place.path("run.mcap");
        let record = ["record", "camera/main", "--mcap", path.to_str().unwrap()];
        let recorder = self.place.foveate(&[&record, arguments].concat());
        until("the first chunk is written", || {
            fs::metadata(&path).is_ok_and(|file| 4096 < file.len())
        });
        (path, recorder)
    }

    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            let frame = self.fed.next_frame().clone();
            self.frames.push(frame);
        }
    }

    /// The header of the segment.
    fn page(&self) -> HeaderPage {
        self.fed.follower.subscription.reader().unwrap().header_page()
    }

    /// No frame comes any more; returns all.
    fn end(self) -> Vec<TokenFrameBuf> {
        self.fed.end();
        self.frames
    }
}

/// A recording, and the frames in it.
fn recorded(place: &Place, count: u64) -> (PathBuf, Vec<TokenFrameBuf>) {
    let mut stage = Stage::open(place, 64);
    let (path, recorder) = stage.recorder(&["--pictures-hz", "0"]);
    stage.publish(count);
    let frames = stage.end();
    recorder.finish().assert_clean_exit(0);
    (path, frames)
}

/// Writes one file, without pictures.
fn plain_recorder(path: &Path) -> ViewRecorder {
    let path = path.to_owned();
    let settings =
        RecordingSettings { path, rotate_bytes: None, rotate_after: None, picture_interval: None };
    ViewRecorder::create(&"camera/main".parse().unwrap(), settings).unwrap()
}

/// A reader of what a replay serves, once it does.
fn following(place: &Place) -> Follower {
    until("it answers", || Client::connect(&place.socket()).is_ok());
    let client = Client::connect(&place.socket()).unwrap();
    Follower::new(client.subscribe(&"camera/main".parse().unwrap(), false).unwrap())
}

/// The files of the recording that begins with `path`.
fn files(path: &Path) -> Vec<PathBuf> {
    let numbered = |number: u32| path.with_file_name(format!("run-{number:04}.mcap"));
    let others = (1..).map(numbered).take_while(|path| path.exists());
    [path.to_owned()].into_iter().chain(others).collect()
}

/// The contents of recorded files.
#[derive(Default)]
struct RecordedFrames {
    segments: Vec<(Box<HeaderPage>, SegmentInfo)>,
    frames: Vec<TokenFrameBuf>,
    missed: u64,
    damaged: Vec<String>,
    is_cut_short: bool,
}

impl RecordedFrames {
    fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let (mut held, mut playback) = (Self::default(), Playback::new(files));
        while let Some(played) = playback.advance(&|| false).unwrap() {
            match played {
                PlaybackItem::Segment(page, info) => held.segments.push((page, *info)),
                PlaybackItem::Frame { frame, missed, .. } => {
                    held.frames.push(*frame);
                    held.missed += missed;
                }
                PlaybackItem::State(..) | PlaybackItem::Event(_) => {}
                PlaybackItem::Damaged(_, why) => held.damaged.push(why),
                PlaybackItem::CutShort(..) => held.is_cut_short = true,
            }
        }
        held
    }
}

/// The messages of a topic with their log times, as any reader of MCAP gets them.
fn messages<T: Message + Default>(file: &[u8], topic: &str) -> Vec<(u64, T)> {
    let stream = mcap::MessageStream::new(file).unwrap().map(Result::unwrap);
    let of_topic = stream.filter(|message| message.channel.topic == topic);
    of_topic.map(|message| (message.log_time, T::decode(&message.data[..]).unwrap())).collect()
}

/// Each is the same as the one that was published under its number.
fn assert_published(held: &[TokenFrameBuf], published: &[TokenFrameBuf]) {
    let index = |frame: &TokenFrameBuf| usize::try_from(frame.head.stamp.frame_seq - 1).unwrap();
    let of_held: Vec<_> = held.iter().map(|frame| published[index(frame)].clone()).collect();
    assert_same(held, &of_held);
}

/// Byte by byte.
fn assert_same(held: &[TokenFrameBuf], published: &[TokenFrameBuf]) {
    assert_eq!(held.len(), published.len());
    for (held, published) in held.iter().zip(published) {
        let frame_seq = published.head.stamp.frame_seq;
        assert_eq!(held.head, published.head, "frame {frame_seq}");
        assert_eq!(held.records, published.records, "frame {frame_seq}");
        assert!(held.pixels == published.pixels, "frame {frame_seq}");
        assert!(held.planes == published.planes, "frame {frame_seq}");
    }
}
