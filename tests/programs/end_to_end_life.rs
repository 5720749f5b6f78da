//! The real programs from start to end: signals, deaths on either side, files that end or begin again, and what
//! `foveate look` and `foveate snap` do to a living daemon.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use foveate::client::Next;
use foveate::messages::Look;
use foveate_config::SourceChoice;
use foveate_control::StreamState;
use foveate_core::color::ColorTransform;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use rustix::process::Signal;
use testkit::daemon::{Feed, Place, Process};
use testkit::film::{Film, encode, raw_bytes, raw_pipeline};
use testkit::naive::OwnedFrame;
use testkit::scene::{self, PATTERN};
use testkit::wait::until;

/// The name of a group of this system, if it has one.
fn group_name(number: u32) -> Option<String> {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let number = number.to_string();
    fields
        .into_iter()
        .find(|fields| fields.get(2) == Some(&number.as_str()))
        .map(|fields| fields[0].to_owned())
}

/// Many times the second within which a daemon promises to end.
const END: Duration = Duration::from_secs(5);

#[test]
fn socket_access_is_configurable_and_logged() {
    let group = fs::metadata("/proc/self").unwrap().gid();
    let named = group_name(group);
    for given in named.into_iter().chain([group.to_string()]) {
        let place = Place::new();
        let access = format!("[daemon]\nsocket_mode = '0606'\nsocket_group = '{given}'\n");
        let daemon = place.daemon(&format!("{access}{PATTERN}"));
        let socket = fs::metadata(place.socket()).unwrap();
        assert_eq!(socket.permissions().mode() & 0o7777, 0o606);
        assert_eq!(socket.gid(), group);
        let _client = daemon.client();
        daemon.process.stderr.wait_for("a client has connected");
        let log = daemon.process.stderr.so_far();
        let line = log.lines().find(|line| line.contains("a client has connected")).unwrap();
        for part in [format!("process {}", std::process::id()), format!("group={group}")] {
            assert!(line.contains(&part), "{line}");
        }
    }
}

#[test]
fn sigterm_and_sigint_end_the_daemon_cleanly_and_tell_its_readers() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let daemon = place.daemon(PATTERN);
        let mut follower = daemon.subscribe("camera/main");
        follower.next_frame();
        let watching = place.foveate(&["watch", "camera/main", "--json"]);
        watching.stdout.wait_for("\n");

        let asked = Instant::now();
        daemon.process.signal(signal);
        daemon.process.finish().assert_clean_exit(0);
        assert!(asked.elapsed() < END, "it took {:?}", asked.elapsed());
        assert_eq!(follower.end(), "daemon_stopped");
        assert!(!place.socket().exists());
        let watched = watching.finish();
        watched.assert_clean_exit(0);
        assert!(
            watched.message().ends_with("; the stream ended: the daemon stopped"),
            "{watched:?}"
        );
    }
}

#[test]
fn a_daemon_whose_decoder_waits_for_a_camera_ends_as_cleanly() {
    let place = Place::new();
    let feed = Feed::open(&place.path("camera"));
    let text = raw_pipeline(&place.path("camera"), PixelFormat::Gray8, Extent::new(64, 48), "");
    let daemon = place.daemon(&format!("[[stream]]\nname = 'camera'\npipeline = '{text}'\n"));
    let mut follower = daemon.subscribe("camera/main");
    let asked = Instant::now();
    daemon.stop();
    assert!(asked.elapsed() < END, "it took {:?}", asked.elapsed());
    assert_eq!(follower.end(), "daemon_stopped");
    drop(feed);
}

#[test]
fn the_reason_of_a_stall_ends_with_it() {
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let film = random_film(1);
    let daemon = place.daemon(&fed_config(&place, &film));
    let is = |state| daemon.listing("camera").state == state;

    feed.send(&raw_bytes(film.frame(1)));
    until("frames come", || is(StreamState::Live));
    until("the silence is noticed", || is(StreamState::Stalled));
    let reason = daemon.listing("camera").reason;
    assert!(reason.starts_with("no frame for "), "{reason}");
    feed.send(&raw_bytes(film.frame(1)));
    until("frames come again", || is(StreamState::Live));
    assert_eq!(daemon.listing("camera").reason, "");
}

#[test]
fn the_daemon_ends_after_its_last_file() {
    let place = Place::new();
    encode_clip(&place.path("short.avi"), 3);
    let mut feed = Feed::open(&place.path("feed"));
    let long = random_film(4);
    let config = format!(
        "[[stream]]\nname = 'short'\nsource = 'short.avi'\n\
         [[stream]]\nname = 'long'\npace = 'every-frame'\npipeline = '{}'\n",
        raw_pipeline(&place.path("feed"), PixelFormat::Rgbx, long.frame(1).extent, "")
    );
    let daemon = place.daemon(&config);
    assert_eq!(daemon.subscribe("short/main").end(), "end of file");
    let listing = daemon.listing("short");
    assert_eq!((listing.state, listing.reason.as_str()), (StreamState::Ended, "end of file"));
    assert_eq!(listing.counts.frames_captured, 3);
    assert_eq!(listing.counts.frames_dropped + listing.counts.frames_published, 3);

    // The other stream does not mind.
    let mut follower = daemon.subscribe("long/main");
    for frame_seq in 1..=long.len() as u64 {
        feed.send(&raw_bytes(long.frame(frame_seq)));
        assert_eq!(follower.next_frame().head.stamp.frame_seq, frame_seq);
    }
    drop(feed);
    assert_eq!(follower.end(), "end of file");
    daemon.process.finish().assert_clean_exit(0);
    assert!(!place.socket().exists());
}

#[test]
fn a_looped_file_goes_on_counting_in_the_same_segment() {
    let place = Place::new();
    encode_clip(&place.path("clip.avi"), 3);
    let config = "[[stream]]\nname = 'clip'\nsource = 'clip.avi'\nloop = true\n";
    for pace in ["realtime", "every-frame"] {
        let daemon = place.daemon(&format!("{config}pace = '{pace}'\n"));
        let mut follower = daemon.subscribe("clip/main");
        let first = follower.next_frame().head.stamp.frame_seq;
        let epoch = follower.segment().epoch;
        let mut last = first;
        while last < first + 10 {
            let next = follower.next();
            assert!(matches!(next, Next::Frame { .. }), "{next:?}");
            let seq = follower.frame.head.stamp.frame_seq;
            assert!(last < seq, "frame {seq} after frame {last}");
            last = seq;
        }
        assert_eq!(follower.segment().epoch, epoch);
        daemon.stop();
    }
}

#[test]
fn readers_find_the_camera_in_the_ring() {
    let film = random_film(1);
    let Extent { width, height } = film.frame(1).extent;
    let place = Place::new();
    // Calibrated at twice the size, and mounted upside down.
    place.write(
        "camera.yaml",
        format!(
            "image_width: {}\nimage_height: {}\ncamera_matrix: {{data: [90, 0, 50, 0, 91, 40, 0, 0, 1]}}\n\
             distortion_model: plumb_bob\ndistortion_coefficients: {{data: [0.1, -0.2, 0, 0, 0.05]}}\n",
            2 * width,
            2 * height
        ),
    );
    let table = "[stream.camera]\ncalibration = 'camera.yaml'\nrotate = 180\nparent_frame = 'base_link'\n\
                 translation = [1.0, 2.0, 3.0]\n";
    let mut feed = Feed::open(&place.path("feed"));
    let daemon = place.daemon(&format!("{}{table}", fed_config(&place, &film)));
    let mut follower = daemon.subscribe("camera/main");
    feed.send(&raw_bytes(film.frame(1)));
    follower.next_frame();
    let camera = follower.segment().camera.clone().unwrap();
    assert_eq!(camera.calibration.extent, Extent::new(2 * width, 2 * height));
    assert_eq!(camera.calibration.k, [90.0, 0.0, 50.0, 0.0, 91.0, 40.0, 0.0, 0.0, 1.0]);
    assert_eq!(camera.calibration.coefficients, [0.1, -0.2, 0.0, 0.0, 0.05]);
    assert_eq!(camera.optical_frame, "camera_optical");
    let (parent, matrix) = camera.mount.unwrap();
    assert_eq!(
        (parent.as_str(), [matrix[3], matrix[7], matrix[11]]),
        ("base_link", [1.0, 2.0, 3.0])
    );
    let [width, height] = [width, height].map(f64::from);
    assert_eq!(camera.source_from_calibrated, [-0.5, 0.0, width, 0.0, -0.5, height]);
    daemon.stop();
}

#[test]
fn snap_draws_what_the_tokens_say() {
    let film = random_film(1);
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let daemon = place.daemon(&fed_config(&place, &film));
    let mut follower = daemon.subscribe("camera/main");
    feed.send(&raw_bytes(film.frame(1)));
    follower.next_frame();
    daemon.client().look(Look::at(&"camera/main".parse().unwrap(), 12.0, 9.0)).unwrap();
    feed.send(&raw_bytes(film.frame(1)));
    follower.next_frame();
    let out = place.path("pictures");
    let output = place.foveate(&["snap", "camera/main", "--out", out.to_str().unwrap()]).finish();
    output.assert_clean_exit(0);

    let extent = film.frame(1).extent;
    let names = ["rebuilt.png", "boxes.png", "density.png", "scanpath.png"];
    let [rebuilt, .., scanpath] = names.map(|name| {
        let path = out.join(name);
        assert!(output.stdout.lines().any(|line| Path::new(line) == path), "{output:?}");
        let (size, pixels) = decoded_png(&path);
        assert_eq!(size, extent, "{name}");
        pixels
    });
    let picture = &film.pyramid(1)[0];
    let mut compared = 0;
    for record in follower.frame.records.iter().filter(|record| record.sx == 1) {
        for y in record.y0..record.y1 {
            for x in record.x0..record.x1 {
                let at = (y * extent.width + x) as usize;
                assert_eq!(rebuilt[at], picture.texels[at], "pixel {x}, {y}");
                compared += 1;
            }
        }
    }
    assert!(extent.area() / 8 < compared, "{compared} pixels lie in tokens of level 0");
    let names: Vec<_> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    // From the first fixation to the second, in the colour of the newest way.
    let way = |(x, y): (u32, u32)| scanpath[(y * extent.width + x) as usize] == [255, 82, 82];
    let (from, to) = ((extent.width / 2, extent.height / 2), (12, 9));
    assert!(way(((from.0 + to.0) / 2, (from.1 + to.1) / 2)), "the way from {from:?} to {to:?}");
    assert!(!way((2, extent.height - 3)));

    // The picture of a stream without frames is old.
    until("it has stalled", || daemon.listing("camera").state == StreamState::Stalled);
    let output = place.foveate(&["snap", "camera/main", "--out", out.to_str().unwrap()]).finish();
    output.assert_clean_exit(0);
    assert!(output.stderr.starts_with("camera/main is stalled: "), "{output:?}");
    assert!(output.stderr.contains("this frame is "), "{output:?}");
    daemon.stop();
}

/// A canvas of enough frames is the picture, though each of them shows a part of it.
#[test]
fn snap_draws_a_canvas() {
    let film = random_film(1);
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let views = "[[stream.view]]\nname = 'detail'\nbudget = 30\nmemory = 'canvas'\n";
    let daemon = place.daemon(&format!("{}{views}", fed_config(&place, &film)));
    feed.send(&raw_bytes(film.frame(1)));
    let out = place.path("pictures");
    let out = out.to_str().unwrap();
    let arguments = ["snap", "camera/detail", "--out", out, "--canvas", "30"];
    let snap = place.foveate(&arguments);
    // For many times as long as it takes.
    for _ in 0..300 {
        feed.send(&raw_bytes(film.frame(1)));
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = snap.finish();
    output.assert_clean_exit(0);
    let path = Path::new(out).join("canvas.png");
    assert!(output.stdout.lines().any(|line| Path::new(line) == path), "{output:?}");
    let (extent, canvas) = decoded_png(&path);
    let (_, rebuilt) = decoded_png(&Path::new(out).join("rebuilt.png"));
    let picture = &film.pyramid(1)[0];
    assert_eq!(extent, film.frame(1).extent);
    assert!(canvas == picture.texels, "all of it");
    assert!(rebuilt != picture.texels, "a frame has not all of it");

    let output = place.foveate(&["snap", "camera/main", "--out", out, "--canvas", "1"]).finish();
    output.assert_clean_exit(1);
    assert!(output.message().contains("memory = \"canvas\""), "{output:?}");
    daemon.stop();
}

#[test]
fn snap_on_a_full_disk_leaves_no_file() {
    let film = random_film(1);
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let daemon = place.daemon(&fed_config(&place, &film));
    let mut follower = daemon.subscribe("camera/main");
    feed.send(&raw_bytes(film.frame(1)));
    follower.next_frame();
    let out = place.path("pictures");
    // A limit on the size of files, of one block of 512 bytes, stands in for a full disk. The shell ignores the signal
    // that comes with it, and its children inherit that.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_foveate")).arg("--socket").arg(place.socket());
    command.args(["snap", "camera/main", "--out"]).arg(&out);
    let output = Process::start(command, &[]).finish();
    output.assert_clean_exit(1);
    let message = output.message();
    assert!(message.starts_with("foveate: cannot write "), "{message}");
    assert!(message.contains("rebuilt.png") && message.contains("too large"), "{message}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    daemon.stop();
}

/// A clip of a moving ball at 100 frames a second.
fn encode_clip(path: &Path, frame_count: u32) {
    encode(
        path,
        &format!(
            "videotestsrc pattern=ball num-buffers={frame_count} ! \
         video/x-raw,format=I420,width=96,height=64,framerate=100/1 ! avimux"
        ),
    );
    assert_eq!(
        Film::decoded(SourceChoice::Shorthand(path.display().to_string())).len(),
        frame_count as usize
    );
}

fn random_film(count: usize) -> Film {
    let extent = Extent::new(130, 101);
    scene::random_film(PixelFormat::Rgbx, extent, ColorTransform::IDENTITY, count)
}

/// Stream `camera`, whose frames come from the feed at `feed`, and whose tokens are finest in a large middle.
fn fed_config(place: &Place, film: &Film) -> String {
    let OwnedFrame { format, extent, .. } = *film.frame(1);
    format!(
        "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npace = 'every-frame'\npipeline = '{}'\n\
         [[stream.view]]\nname = 'main'\nlayout = 'foveal'\nbudget = 30\ngaze = {{ policy = 'fixed' }}\n",
        raw_pipeline(&place.path("feed"), format, extent, "")
    )
}

fn decoded_png(path: &Path) -> (Extent, Vec<[u8; 3]>) {
    let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    let pixels = bytes.chunks_exact(3).map(|rgb| [rgb[0], rgb[1], rgb[2]]).collect();
    (Extent::new(info.width, info.height), pixels)
}
