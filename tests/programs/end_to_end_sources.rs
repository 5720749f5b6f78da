//! What a source may be, and what becomes of one that blocks, is damaged, turned, or short.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use foveate_control::StreamState;
use foveate_core::npy::NpyArray;
use testkit::daemon::{Place, ProcessResources};
use testkit::film::encode;
use testkit::wait::until;

use crate::end_to_end_process::processes;

const CAMERA: &str = "[[stream]]\nname = 'camera'\nsource = 'test'\nbackend = 'cpu'\n";

#[test]
fn a_source_whose_opening_blocks_holds_up_nobody() {
    for isolation in ["none", "process"] {
        let place = Place::new();
        let fifo = make_fifo(&place, "cam.fifo");
        let blocked = format!(
            "[[stream]]\nname = 'blocked'\nsource = 'cam.fifo'\ncaps_timeout_ms = 600000\nbackend = 'cpu'\n\
             isolation = '{isolation}'\n"
        );
        let daemon = place.daemon(&format!("{CAMERA}{blocked}"));
        daemon.subscribe("camera/main").next_frame();

        // The blocked stream is removed, added and removed again, and other streams too.
        let foveate =
            |arguments: [&str; 2]| place.foveate(&arguments).finish().assert_clean_exit(0);
        foveate(["remove-stream", "blocked"]);
        let again = blocked.replace("cam.fifo", &fifo.display().to_string());
        let file = place.write("again.toml", again);
        foveate(["add-stream", file.to_str().unwrap()]);
        let other = place.write("other.toml", CAMERA.replace("'camera'", "'other'"));
        foveate(["add-stream", other.to_str().unwrap()]);
        daemon.subscribe("other/main").next_frame();
        foveate(["remove-stream", "blocked"]);
        foveate(["remove-stream", "other"]);
        foveate(["add-stream", file.to_str().unwrap()]);
        daemon.subscribe("camera/main").next_frame();
        let outcome = daemon.stop();
        let goes_on = |line: &str| {
            line.contains("goes on in the background")
                && ["blocked", "isolation = "].iter().all(|part| line.contains(part))
        };
        let is_left = outcome.stderr.lines().any(goes_on);
        assert_eq!(is_left, isolation == "none", "{outcome:#?}");
    }
}

#[test]
fn a_source_blocked_in_opening_times_out() {
    let place = Place::new();
    make_fifo(&place, "cam.fifo");
    let config = place.write(
        "c.toml",
        "[[stream]]\nname = 'a'\nsource = 'cam.fifo'\ncaps_timeout_ms = 300\nbackend = 'cpu'\n",
    );
    let config = config.to_str().unwrap();
    let outcome = place.foveated(&["--config", config], &[]).finish();
    outcome.assert_clean_exit(69);
    for part in ["no frame within", "FIFO", "`caps_timeout_ms`"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
    let (out, fifo) = (place.path("out"), place.path("cam.fifo"));
    let [out, fifo] = [&out, &fifo].map(|path| path.to_str().unwrap());
    let outcome = place.foveate(&["extract", fifo, "--out", out, "--config", config]).finish();
    outcome.assert_clean_exit(69);
    assert!(outcome.message().contains("no frame within"), "{outcome:#?}");
}

#[test]
fn processes_that_block_in_opening_are_killed() {
    const MOST: usize = 4;
    let place = Place::new();
    let fifo = make_fifo(&place, "cam.fifo").display().to_string();
    let blocked = |number| {
        format!(
            "[[stream]]\nname = 's{number}'\nsource = '{fifo}'\nisolation = 'process'\ncaps_timeout_ms = 100\n\
             backend = 'cpu'\n"
        )
    };
    let daemon = place.daemon(CAMERA);
    daemon.subscribe("camera/main").next_frame();
    let before = ProcessResources::of(daemon.process.id()).threads;
    let processes_before = processes(daemon.process.id()).len();
    for number in 0..MOST {
        let file = place.write("blocked.toml", blocked(number));
        place.foveate(&["add-stream", file.to_str().unwrap()]).finish().assert_clean_exit(0);
    }
    for number in 0..MOST {
        let name = format!("s{number}");
        until("it has ended", || daemon.listing(&name).state == StreamState::Ended);
        assert!(daemon.listing(&name).reason.contains("FIFO"), "{:?}", daemon.listing(&name));
    }
    until("no process is left", || processes(daemon.process.id()).len() == processes_before);
    until("no thread is left", || ProcessResources::of(daemon.process.id()).threads <= before);
    daemon.stop();
}

#[test]
fn checking_a_configuration_opens_no_source() {
    let place = Place::new();
    make_fifo(&place, "cam.fifo");
    place.check("[[stream]]\nname = 'a'\nsource = 'cam.fifo'\n").assert_clean_exit(0);
}

#[test]
fn a_fifo_is_opened_once() {
    let place = Place::new();
    let fifo = make_fifo(&place, "clip.fifo");
    let formats: [(&[u8], _); 2] = [(&y4m(30, 'p'), "progressive"), (&y4m(30, 't'), "interlaced")];
    for (clip, kind) in formats {
        for _ in 0..3 {
            // With a second opening it would see a broken pipe.
            let (path, clip) = (fifo.clone(), clip.to_vec());
            let writer = thread::spawn(move || {
                let mut pipe = File::options().write(true).open(path).unwrap();
                pipe.write_all(&clip)
            });
            let extracted = place.extract(&fifo, &[]);
            extracted.assert_clean_exit(0);
            assert_eq!(
                frame_numbers(&place.path("out/main")),
                (1..=30).collect::<Vec<_>>(),
                "{kind}"
            );
            writer.join().unwrap().unwrap();
        }
    }
}

/// The pipeline is rebuilt with a deinterlacer; earlier frames get no number.
#[test]
fn an_interlaced_clip_is_numbered_from_1_in_every_run() {
    let place = Place::new();
    let clip = place.path("clip.mp4");
    encode(
        &clip,
        "videotestsrc num-buffers=80 ! video/x-raw,format=I420,width=320,height=240,interlace-mode=interleaved ! \
         avenc_mpeg4 flags=ildct+ilme ! qtmux",
    );
    for _ in 0..10 {
        place.extract(&clip, &[]).assert_clean_exit(0);
        assert_eq!(frame_numbers(&place.path("out/main")), (1..=80).collect::<Vec<_>>());
    }
}

#[test]
fn a_clip_shorter_than_the_interval_of_its_rate_goes_round() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(3, 'p'));
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'a'\nsource = '{}'\nloop = true\nmax_fps = 5.0\nbackend = 'cpu'\n",
        clip.display()
    ));
    let mut follower = daemon.subscribe("a/main");
    for _ in 0..4 {
        follower.next_frame();
    }
    daemon.stop();
}

#[test]
fn extract_ignores_rate_and_readers() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(12, 'p'));
    let views = "[[stream.view]]\nname = 'slow'\nmax_fps = 1.0\nbudget = 4\n\
                 [[stream.view]]\nname = 'read'\npublish = 'when-read'\nbudget = 4\n\
                 [[stream.view]]\nname = 'all'\nbudget = 4\n";
    let config = place.write("c.toml", format!("{CAMERA}{views}"));
    let outcome = place.extract(&clip, &["--config", config.to_str().unwrap()]);
    outcome.assert_clean_exit(0);
    for view in ["slow", "read", "all"] {
        let folder = place.path("out").join(view);
        assert_eq!(frame_numbers(&folder), (1..=12).collect::<Vec<_>>(), "{view}");
        let tokens = fs::read(folder.join("tokens.npy")).unwrap();
        assert_eq!(NpyArray::parse(&tokens).unwrap().shape, [12, 4]);
    }
}

#[test]
fn a_gif_ends_and_its_frames_have_times() {
    let place = Place::new();
    let clip = place.write("clip.gif", gif(5));
    let outcome = place.extract(&clip, &[]);
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.ends_with("main: 5 frames\n"), "{outcome:#?}");
    let times = column(&place.path("out/main"), "pts_ns");
    assert_eq!(times, (0..5).map(|frame| frame * 100_000_000).collect::<Vec<_>>());
}

#[test]
fn times_are_those_of_the_edit_list() {
    let place = Place::new();
    let clip = place.path("clip.mp4");
    encode(
        &clip,
        "videotestsrc num-buffers=25 ! video/x-raw,format=I420,width=64,height=48,framerate=25/1 ! jpegenc ! qtmux",
    );
    // The clip begins with the third picture, as one whose codec reorders them.
    edit_mp4(&clip, 2);
    place.extract(&clip, &[]).assert_clean_exit(0);
    let times = column(&place.path("out/main"), "pts_ns");
    assert_eq!(times, (0..23).map(|frame| frame * 40_000_000).collect::<Vec<_>>());
}

#[test]
fn pictures_are_turned_as_their_tags_say_or_as_configured() {
    let place = Place::new();
    // Bright on the left alone.
    let picture = "videotestsrc num-buffers=1 pattern=black ! video/x-raw,format=I420,width=64,height=32 ! \
                   videobox left=-32 fill=white ! video/x-raw,width=96";
    let clips = [
        ("turned.jpg", "jpegenc quality=100 ! taginject tags=image-orientation=rotate-90 ! jifmux"),
        ("turned.mp4", "jpegenc quality=100 ! qtmux"),
    ];
    for (name, encoder) in clips {
        let clip = place.path(name);
        encode(&clip, &format!("{picture} ! {encoder}"));
        if name.ends_with(".mp4") {
            turn_mp4(&clip);
        }
        for (orientation, bright) in
            [("'auto'", "top"), ("0", "left"), ("90", "top"), ("180", "right"), ("270", "bottom")]
        {
            let view =
                "[[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 20\ndtype = 'u8'\n";
            let stream = format!("{CAMERA}orientation = {orientation}\n{view}");
            let config = place.write("c.toml", stream);
            let outcome = place.extract(&clip, &["--config", config.to_str().unwrap()]);
            outcome.assert_clean_exit(0);
            let segment = &segments(&place)[0];
            let sides = (segment["source_width"].as_u64(), segment["source_height"].as_u64());
            let is_upright = matches!(bright, "top" | "bottom");
            let expected = if is_upright { (Some(32), Some(96)) } else { (Some(96), Some(32)) };
            assert_eq!(sides, expected, "{name} {orientation}");
            assert_eq!(bright_side(&place), bright, "{name} {orientation}");
            assert_eq!(frame_numbers(&place.path("out/main")), [1], "{name} {orientation}");
            let says = outcome.stderr.contains("turned as their tag says");
            assert_eq!(says, orientation == "'auto'", "{outcome:#?}");
        }
    }
}

#[test]
fn the_range_is_what_the_caps_say_whatever_the_matrix() {
    let place = Place::new();
    let view = "[[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 64\ndtype = 'u8'\n";
    let config = place.write("c.toml", format!("{CAMERA}{view}"));
    for (colorimetry, assumed) in [("1:4:0:0", &[][..]), ("1:0:0:0", &["matrix"])] {
        // A ramp of all levels, which limited range would clip at both ends.
        let ramp: Vec<_> =
            (0..=255_u8).flat_map(|level| [level; 64]).chain([128; 2 * 32 * 128]).collect();
        let pipeline = format!(
            "filesrc location={} blocksize=24576 ! rawvideoparse format=i420 width=64 height=256 ! \
             capssetter caps=video/x-raw,colorimetry=(string){colorimetry} ! appsink name=frames",
            place.write("ramp.yuv", ramp).display()
        );
        let out = place.path("out");
        let [config, out] = [&config, &out].map(|path| path.to_str().unwrap());
        let arguments =
            ["extract", "--pipeline", &pipeline, "--config", config, "--out", out, "--force"];
        let outcome = place.foveate_in(&arguments, &[("RUST_LOG", "info")]).finish();
        outcome.assert_clean_exit(0);
        let samples = pixels(&place);
        let range = (samples.iter().min().copied(), samples.iter().max().copied());
        assert_eq!(range, (Some(0), Some(255)), "{colorimetry}");
        assert_eq!(samples.iter().collect::<BTreeSet<_>>().len(), 256, "{colorimetry}");
        let color = &segments(&place)[0]["color"];
        let told = serde_json::json!({
            "matrix": "bt601", "range": "full", "transfer": null, "assumed": assumed,
        });
        assert_eq!(*color, told);
        let note = if assumed.is_empty() { "bt601, full range" } else { "(assumed: matrix)" };
        assert!(outcome.stderr.contains(note), "{outcome:#?}");
    }
}

#[test]
fn hdr_and_aspect_are_reported_everywhere_and_warned_of_once() {
    let place = Place::new();
    let pipeline = "videotestsrc is-live=true ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1,\
         colorimetry=(string)bt2100-pq,pixel-aspect-ratio=64/45 ! appsink name=frames";
    let stream = |name: &str, keys: &str| {
        format!("[[stream]]\nname = '{name}'\nbackend = 'cpu'\npipeline = '{pipeline}'\n{keys}\n")
    };
    let daemon = place.daemon(&(stream("wide", "") + &stream("square", "square_pixels = true")));
    for name in ["wide", "square"] {
        until("it publishes", || 1 < daemon.listing(name).counts.frames_published);
    }
    let input = daemon.listing("wide").detail;
    assert_eq!((input.extent, input.pixel_aspect), (Some([64, 48]), Some([64, 45])));
    let color = input.color.unwrap();
    assert_eq!(color.hdr_name(), Some("PQ"));
    assert!(!color.is_matrix_assumed && !color.is_range_assumed);
    let shown = place.foveate(&["ls", "wide"]).finish().stdout;
    let expected =
        "frames   NV12 64x48, pixels 64:45, bt2020, limited range, transfer smpte2084 (PQ)\n";
    assert!(shown.contains(expected), "{shown}");
    let input = daemon.listing("square").detail;
    assert_eq!((input.extent, input.pixel_aspect), (Some([91, 48]), Some([1, 1])));

    let watched = place.foveate(&["watch", "wide/main", "--json", "--frames", "1"]).finish().stdout;
    let watched: serde_json::Value = serde_json::from_str(watched.lines().next().unwrap()).unwrap();
    let segment = &watched["segment"];
    assert_eq!(segment["pixel_aspect"], serde_json::json!([64, 45]));
    assert_eq!(segment["color"]["transfer"], "smpte2084");
    let log = daemon.stop().stderr;
    let warned = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(warned("the pixels are not square"), 1, "{log}");
    assert_eq!(warned("HDR samples are treated as SDR"), 2, "once a stream: {log}");
}

#[test]
fn a_truncated_clip_is_extracted_up_to_there() {
    let place = Place::new();
    for (muxer, name) in [("matroskamux", "clip.mkv"), ("avimux", "clip.avi")] {
        let clip = place.path(name);
        encode(
            &clip,
            &format!(
                "videotestsrc num-buffers=90 ! video/x-raw,format=I420,width=64,height=48 ! jpegenc ! {muxer}"
            ),
        );
        let whole = place.extract(&clip, &[]);
        assert!(!whole.stderr.contains("truncated"), "{whole:#?}");
        let bytes = fs::read(&clip).unwrap();
        fs::write(&clip, &bytes[..bytes.len() / 2]).unwrap();
        let outcome = place.extract(&clip, &[]);
        for part in ["truncated", name] {
            assert!(outcome.stderr.contains(part), "{outcome:#?}");
        }
        let count = frame_numbers(&place.path("out/main")).len();
        assert!((10..80).contains(&count), "{count} frames of {name}");
    }
}

/// Encodes a uniform gray picture, 32 pixels high.
fn paint(path: &Path, gray: u32, width: u32) {
    encode(
        path,
        &format!(
            "videotestsrc num-buffers=1 pattern=solid-color foreground-color={} ! \
         video/x-raw,format=RGB,width={width},height=32 ! pngenc",
            0xFF00_0000 | (gray * 0x0001_0101)
        ),
    );
}

#[test]
fn folder_pictures_come_in_natural_order() {
    let place = Place::new();
    let folder = place.path("pictures");
    fs::create_dir(&folder).unwrap();
    let paint = |name: &str, color: u32, width: u32| paint(&folder.join(name), color, width);
    paint("p10.png", 100, 48);
    paint("p9.png", 90, 48);
    paint("p1.PNG", 10, 48);
    fs::write(folder.join("labels.txt"), "p1 cat").unwrap();
    fs::write(folder.join(".hidden.png"), "no picture").unwrap();
    let view = "[[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 6\ndtype = 'u8'\n";
    let config = place.write("c.toml", format!("{CAMERA}{view}"));
    let arguments = ["--config", config.to_str().unwrap(), "--sequence"];
    place.extract(&folder, &arguments).assert_clean_exit(0);
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3]);
    let seconds = [0, 1_000_000_000, 2_000_000_000];
    assert_eq!(column(&place.path("out/main"), "pts_ns"), seconds);
    let samples = pixels(&place);
    let firsts: Vec<_> = samples.chunks_exact(samples.len() / 3).map(|frame| frame[0]).collect();
    assert_eq!(firsts, [10, 90, 100]);

    paint("p11.png", 110, 64);
    let outcome = place.extract(&folder, &arguments);
    outcome.assert_clean_exit(78);
    for part in ["p11.png", "64x32", "48x32", "as the pictures before it"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3], "what came before is kept");

    let scaled = ["--config", config.to_str().unwrap(), "--scale"];
    place.extract(&folder, &scaled).assert_clean_exit(0);
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3, 4]);
    let samples = pixels(&place);
    let last = samples.chunks_exact(samples.len() / 4).next_back().unwrap();
    assert!(last.contains(&110) && last[0] < 10, "scaled, below a black border: {last:?}");

    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    for (arguments, message) in
        [(&[][..], "no pictures in"), (&["--sequence"], "no pictures in the folder")]
    {
        let outcome = place.extract(&empty, arguments);
        outcome.assert_clean_exit(78);
        assert!(outcome.message().contains(message), "{outcome:#?}");
    }
}

/// Separate pictures: of any size, and beside other files.
#[test]
fn the_pictures_of_a_folder_are_taken_by_themselves() {
    let place = Place::new();
    let folder = place.path("pictures");
    fs::create_dir(&folder).unwrap();
    let paint = |name: &str, color: u32, width: u32| paint(&folder.join(name), color, width);
    paint("p10.png", 100, 48);
    paint("p9.png", 90, 64);
    paint("p1.png", 10, 48);
    fs::write(folder.join("p2.png"), "no picture").unwrap();
    let view = "[[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 8\ndtype = 'u8'\n";
    let config = place.write("c.toml", format!("{CAMERA}{view}"));
    let arguments = ["--config", config.to_str().unwrap()];
    let outcome = place.extract(&folder, &arguments);
    outcome.assert_clean_exit(0);
    assert!(outcome.message().contains("cannot read 1 of 4 files"), "{outcome:#?}");
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3]);
    assert_eq!(column(&place.path("out/main"), "token_count"), [6, 8, 6]);
    assert_eq!(column(&place.path("out/main"), "segment"), [0, 1, 0], "one for each size");
    let samples = pixels(&place);
    let firsts: Vec<_> = samples.chunks_exact(samples.len() / 3).map(|frame| frame[0]).collect();
    assert_eq!(firsts, [10, 90, 100]);
    let listed: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("out/pictures.json")).unwrap()).unwrap();
    let numbers: Vec<_> =
        listed.as_array().unwrap().iter().map(|file| file["frame_seq"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), None, Some(2), Some(3)]);
    assert!(listed[1]["error"].as_str().unwrap().contains("cannot be decoded"), "{listed}");

    let refused = ["--config", config.to_str().unwrap(), "--unreadable", "refuse"];
    let outcome = place.extract(&folder, &refused);
    outcome.assert_clean_exit(1);
    assert!(outcome.message().contains("p2.png cannot be decoded"), "{outcome:#?}");
    assert_eq!(frame_numbers(&place.path("out/main")), [1], "what came before is kept");

    let gaze = "[stream.view.gaze]\npolicy = 'saliency'\n";
    let config = place.write("c.toml", format!("{CAMERA}{view}{gaze}"));
    let outcome = place.extract(&folder, &["--config", config.to_str().unwrap()]);
    outcome.assert_clean_exit(2);
    assert!(outcome.message().contains("--sequence"), "{outcome:#?}");
}

/// What cannot be a picture never refuses a folder, and a FIFO is never opened.
#[test]
fn a_folder_leaves_out_what_cannot_be_played() {
    let place = Place::new();
    let folder = place.path("pictures");
    fs::create_dir(&folder).unwrap();
    paint(&folder.join("p1.png"), 10, 48);
    paint(&folder.join("p3.png"), 30, 48);
    make_fifo(&place, "pictures/p2.png");
    fs::copy(folder.join("p1.png"), folder.join(OsStr::from_bytes(b"p\xFF.png"))).unwrap();

    let outcome = place.extract(&folder, &["--sequence"]);
    outcome.assert_clean_exit(0);
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2]);
    for part in ["p2.png", "not a regular file", "p\\xFF.png", "not UTF-8"] {
        assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
    }

    let outcome = place.extract(&folder, &[]);
    outcome.assert_clean_exit(0);
    assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3]);
    let listed = fs::read_to_string(place.path("out/pictures.json")).unwrap();
    assert!(listed.contains("cannot be read: not a regular file"), "{listed}");
}

#[test]
fn a_picture_of_too_many_pixels_is_refused() {
    let place = Place::new();
    let folder = place.path("pictures");
    fs::create_dir(&folder).unwrap();
    paint(&folder.join("p1.png"), 10, 48);
    paint(&folder.join("p2.png"), 10, 64);
    for arguments in [&["--sequence"][..], &["--unreadable", "refuse"]] {
        let most = ["--max-pixels", "1536"];
        let outcome = place.extract(&folder, &[arguments, &most].concat());
        assert_ne!(outcome.code, Some(0), "{outcome:#?}");
        for part in ["p2.png", "64x32", "at most 1536", "`max_pixels`"] {
            assert!(outcome.message().contains(part), "{outcome:#?}");
        }
        assert_eq!(frame_numbers(&place.path("out/main")), [1], "what came before is kept");
    }
}

#[test]
fn a_single_picture_in_a_loop_is_a_stream() {
    let place = Place::new();
    let picture = place.path("one.png");
    encode(&picture, "videotestsrc num-buffers=1 ! pngenc");
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'a'\nsource = '{}'\nloop = true\nbackend = 'cpu'\n",
        picture.display()
    ));
    let mut follower = daemon.subscribe("a/main");
    let first = follower.next_frame().head.stamp;
    let second = follower.next_frame().head.stamp;
    assert_eq!(first.frame_seq + 1, second.frame_seq);
    // One a second: a picture never comes earlier.
    assert!(900_000_000 < second.arrival_ns - first.arrival_ns, "{first:?} {second:?}");
    daemon.stop();
}

/// The keyframe never comes.
#[test]
fn a_stream_says_that_it_waits_for_a_keyframe() {
    let place = Place::new();
    let daemon = place.daemon(
        "[[stream]]\nname = 'a'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true \
         ! video/x-raw,width=64,height=48,framerate=25/1 ! openh264enc gop-size=100000 ! h264parse \
         ! video/x-h264,alignment=au ! identity drop-buffer-flags=header ! avdec_h264 ! appsink name=frames'\n",
    );
    let is_waiting = || daemon.listing("a").reason.starts_with("waiting for a keyframe; ");
    until("the stream says so", is_waiting);
    let listing = daemon.listing("a");
    assert_eq!(listing.state, StreamState::Starting);
    assert_eq!(listing.counts.frames_published, 0);
    assert!(0 < listing.counts.frames_corrupted);
    let shown = place.foveate(&["ls", "-v"]).finish().stdout;
    assert!(
        shown.contains("starting: waiting for a keyframe") && shown.contains(" damaged"),
        "{shown}"
    );
    daemon.stop();
}

#[test]
fn standard_input_is_a_clip() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(4, 'p'));
    for feed in ["cat CLIP | TOOL", "TOOL < CLIP"] {
        let tool = format!(
            "{} extract /dev/stdin --out {}",
            env!("CARGO_BIN_EXE_foveate"),
            place.path("out").display()
        );
        let line = feed.replace("TOOL", &tool).replace("CLIP", clip.to_str().unwrap());
        let status = Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(status.success(), "{line}");
        assert_eq!(frame_numbers(&place.path("out/main")), [1, 2, 3, 4]);
        fs::remove_dir_all(place.path("out")).unwrap();
    }
}

#[test]
fn a_part_of_a_clip_or_of_a_pipeline_is_extracted() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(20, 'p'));
    place.extract(&clip, &["--start", "0.2", "--frames", "4"]).assert_clean_exit(0);
    assert_eq!(frame_numbers(&place.path("out/main")), [6, 7, 8, 9]);
    let times = column(&place.path("out/main"), "pts_ns");
    assert_eq!(times, [200_000_000, 240_000_000, 280_000_000, 320_000_000]);

    let out = place.path("out");
    let pipeline =
        "videotestsrc ! video/x-raw,format=GRAY8,width=32,height=32 ! appsink name=frames";
    let out_text = out.to_str().unwrap();
    let arguments = ["extract", "--pipeline", pipeline, "--frames", "3", "--out", out_text];
    let outcome = place.foveate(&arguments).finish();
    outcome.assert_clean_exit(2);
    for part in ["out/main exists already", "another --out", "--force"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
    assert_eq!(frame_numbers(&out.join("main")), [6, 7, 8, 9], "what is there is kept");
    place.foveate(&[&arguments[..], &["--force"]].concat()).finish().assert_clean_exit(0);
    assert_eq!(frame_numbers(&out.join("main")), [1, 2, 3]);
}

#[test]
fn the_first_picture_of_an_animated_png_is_taken() {
    let place = Place::new();
    let still = place.path("still.png");
    encode(&still, "videotestsrc num-buffers=1 ! pngenc");
    let mut bytes = fs::read(still).unwrap();
    // The chunk acTL of two frames, after the header.
    let chunk =
        [0, 0, 0, 8, b'a', b'c', b'T', b'L', 0, 0, 0, 2, 0, 0, 0, 0, 0xF3, 0x8D, 0x93, 0x70];
    bytes.splice(33..33, chunk);
    let outcome = place.extract(place.write("anim.png", bytes), &[]);
    outcome.assert_clean_exit(0);
    assert!(outcome.stderr.contains("animated PNG"), "{outcome:#?}");
}

/// Frames of 32x24 pixels, 10 a second.
fn gif(frame_count: u8) -> Vec<u8> {
    let mut clip = b"GIF89a\x20\0\x18\0\xF6\0\0".to_vec();
    clip.extend((0..128).flat_map(|level| [2 * level; 3]));
    for frame in 0..frame_count {
        clip.extend(b"\x21\xF9\x04\x04\x0A\0\0\0\x2C\0\0\0\0\x20\0\x18\0\0\x07");
        // Codes of 8 bits, which stay so because the table is cleared before it grows.
        let samples = (0..32 * 24_u32)
            .map(|at| ((at % 32 + at / 32 + 10 * u32::from(frame)) % 128).to_le_bytes()[0]);
        let samples = samples.collect::<Vec<_>>();
        let mut codes =
            samples.chunks(100).flat_map(|run| [&[128], run].concat()).collect::<Vec<_>>();
        codes.push(129);
        for block in codes.chunks(255) {
            clip.push(u8::try_from(block.len()).unwrap());
            clip.extend(block);
        }
        clip.push(0);
    }
    clip.push(b';');
    clip
}

/// Frames of 64x48 pixels, 25 a second, `scan` as in the header of Y4M.
fn y4m(frame_count: usize, scan: char) -> Vec<u8> {
    let mut clip = format!("YUV4MPEG2 W64 H48 F25:1 I{scan} A1:1 C420jpeg\n").into_bytes();
    for frame in 0..frame_count {
        clip.extend_from_slice(b"FRAME\n");
        clip.extend((0..64 * 48).map(|at| (16 + (at + 5 * frame) % 200).to_le_bytes()[0]));
        clip.extend([128; 2 * 32 * 24]);
    }
    clip
}

pub(crate) fn make_fifo(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// The field `frame_seq` of `frames.npy`.
fn frame_numbers(folder: &Path) -> Vec<u64> {
    column(folder, "frame_seq")
}

/// A field of 8 bytes of `frames.npy`.
fn column(folder: &Path, name: &str) -> Vec<u64> {
    let bytes = fs::read(folder.join("frames.npy")).unwrap();
    let array = NpyArray::parse(&bytes).unwrap();
    let mut sizes = Vec::new();
    item_bytes(&mut &*array.dtype, &mut sizes);
    let at =
        sizes.iter().take_while(|(field, _)| field != name).map(|(_, size)| size).sum::<usize>();
    let row = sizes.iter().map(|(_, size)| size).sum();
    let size = sizes.iter().find(|(field, _)| field == name).unwrap().1;
    let number = |row: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&row[at..at + size]);
        u64::from_le_bytes(bytes)
    };
    array.bytes.chunks_exact(row).map(number).collect()
}

/// Bytes of an element of an array of this dtype. Adds the fields of a record with their bytes.
pub(crate) fn item_bytes(dtype: &mut &str, fields: &mut Vec<(String, usize)>) -> usize {
    let skip = |dtype: &mut &str, text: &str| {
        let rest = dtype.strip_prefix(text);
        *dtype = rest.unwrap_or(dtype);
        rest.is_some()
    };
    if !skip(dtype, "[") {
        let code = dtype.trim_start_matches('\'');
        let digit;
        (digit, *dtype) = code[2..].split_at(1);
        skip(dtype, "'");
        return digit.parse().unwrap();
    }
    let mut sum = 0;
    while !skip(dtype, "]") {
        skip(dtype, ", ");
        assert!(skip(dtype, "('"), "{dtype}");
        let (name, rest) = dtype.split_once("', ").unwrap();
        *dtype = rest;
        let mut bytes = item_bytes(dtype, &mut Vec::new());
        if skip(dtype, ", (") {
            let (count, rest) = dtype.split_once(",)").unwrap();
            (bytes, *dtype) = (bytes * count.parse::<usize>().unwrap(), rest);
        }
        assert!(skip(dtype, ")"), "{dtype}");
        fields.push((name.to_owned(), bytes));
        sum += bytes;
    }
    sum
}

/// Makes the matrix of the track of a clip turn it by 90 degrees.
fn turn_mp4(clip: &Path) {
    let mut bytes = fs::read(clip).unwrap();
    let header = bytes.windows(4).position(|name| name == b"tkhd").unwrap();
    let matrix = [0, 0x0001_0000, 0, 0xFFFF_0000_u32, 0, 0, 32 << 16, 0, 0x4000_0000];
    let matrix = matrix.into_iter().flat_map(u32::to_be_bytes);
    // After the name, 40 bytes of version 0.
    bytes.splice(header + 44..header + 80, matrix);
    fs::write(clip, bytes).unwrap();
}

/// Gives the only track of a clip of 25 pictures a second an edit list that leaves out the first `frames`.
fn edit_mp4(clip: &Path, frames: u32) {
    let mut bytes = fs::read(clip).unwrap();
    let find =
        |bytes: &[u8], name: &[u8]| bytes.windows(4).position(|found| found == name).unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let timescale = |bytes: &[u8], name: &[u8]| word(bytes, find(bytes, name) + 16);
    let (movie, media) = (timescale(&bytes, b"mvhd"), timescale(&bytes, b"mdhd"));
    let words = [28, u32::from_be_bytes(*b"elst"), 0, 1, movie, frames * media / 25, 0x0001_0000];
    let words = [36, u32::from_be_bytes(*b"edts")].into_iter().chain(words);
    let edits: Vec<_> = words.flat_map(u32::to_be_bytes).collect();
    for name in [b"moov", b"trak"] {
        let at = find(&bytes, name) - 4;
        let size = word(&bytes, at) + 36;
        bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    let header = find(&bytes, b"tkhd") - 4;
    let behind = header + word(&bytes, header) as usize;
    bytes.splice(behind..behind, edits);
    fs::write(clip, bytes).unwrap();
}

/// `segments.json` of view `main`.
fn segments(place: &Place) -> serde_json::Value {
    serde_json::from_slice(&fs::read(place.path("out/main/segments.json")).unwrap()).unwrap()
}

/// The bytes of `pixels.npy` of view `main`.
fn pixels(place: &Place) -> Vec<u8> {
    let bytes = fs::read(place.path("out/main/pixels.npy")).unwrap();
    NpyArray::parse(&bytes).unwrap().bytes.to_vec()
}

/// The side of the picture whose tokens are brighter than those of the other three.
fn bright_side(place: &Place) -> &'static str {
    let (samples, bytes) = (pixels(place), fs::read(place.path("out/main/tokens.npy")).unwrap());
    let records = NpyArray::parse(&bytes).unwrap().bytes;
    let segment = &segments(place)[0];
    let [width, height] =
        ["source_width", "source_height"].map(|side| segment[side].as_u64().unwrap());
    let mut sums = [("left", 0), ("right", 0), ("top", 0), ("bottom", 0)];
    // Bytes 8 to 24 of a record of 56 are its box.
    for (record, token) in records.chunks_exact(56).zip(samples.chunks_exact(3 * 16 * 16)) {
        let word =
            |at: usize| u64::from(u32::from_le_bytes(record[at..at + 4].try_into().unwrap()));
        let (x, y) = (word(8) + word(16), word(12) + word(20));
        let sum: u64 = token.iter().map(|sample| u64::from(*sample)).sum();
        let is_at = [x < width, width < x, y < height, height < y];
        for ((_, total), is_at) in sums.iter_mut().zip(is_at) {
            *total += if is_at { sum } else { 0 };
        }
    }
    sums.into_iter().max_by_key(|(_, sum)| *sum).unwrap().0
}
