//! A stream whose source breaks reports it at once, and comes back: in the same segments if the frames are of the same
//! kind.

use std::time::{Duration, Instant};

use foveate::client::Next;
use foveate::messages::ViewName;
use foveate_control::StreamState;
use foveate_core::color::ColorTransform;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_ring::{SegmentInfo, State};
use foveate_stats::LossReason;
use rustix::process::Signal;
use serde_json::json;
use testkit::daemon::{Feed, Follower, Place};
use testkit::film::{Film, raw_bytes, raw_pipeline};
use testkit::scene::random_film;
use testkit::wait::until;

/// Many times the second within which a daemon promises to end.
const END: Duration = Duration::from_secs(5);

/// Frames that a pipeline brings before it fails.
const LIFE: u64 = 4;

/// The reason that it gives.
const BROKEN: &str = "Failed after iterations as requested";

#[test]
fn a_returned_source_keeps_picture_and_history() {
    let film = film(Extent::new(130, 101), 11);
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let daemon = place.daemon(&config(&breaking(&place, &film)));
    let mut follower = daemon.subscribe("camera/main");
    let plan = daemon.plan("camera/main").clone();
    let mut epoch = None;
    for frame_seq in 1..=3 * LIFE {
        send(&mut feed, &film, frame_seq, &follower);
        let segment = shown(&mut follower, frame_seq);
        // It says of every tile whether it changed since the frame before: all of them would have after a rebuild.
        film.assert_shows(&plan, &segment, &follower.frame);
        assert_eq!(*epoch.get_or_insert(segment.epoch), segment.epoch, "frame {frame_seq}");
    }
    feed.send(&raw_bytes(film.frame(1)));
    wait_for_stall(&follower);
    until("the loss is listed", || {
        let stream = daemon.listing("camera");
        stream.state == StreamState::Stalled && stream.reason.contains("trying again in ")
    });
    until("all losses are counted", || {
        daemon.listing("camera").restarts.get(&LossReason::Failed) == Some(&3)
    });
    let listing = daemon.listing("camera");
    assert_eq!(listing.counts.frames_captured, 3 * LIFE);
    let output = place.foveate(&["ls", "-v"]).finish();
    assert!(output.stdout.contains("restarts 3: 3 failed"), "{output:?}");
    let log = daemon.stop().stderr;
    assert!(log.contains("the stream has lost its source"), "{log}");
}

#[test]
fn a_source_returning_with_other_frames_starts_a_segment() {
    let [small, large] = [Extent::new(96, 64), Extent::new(130, 101)];
    let films = [film(small, 6), film(large, 7)];
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    place.write("camera.gst", breaking(&place, &films[0]));
    let daemon = place
        .daemon("[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline_file = 'camera.gst'\n[[stream.view]]\nname = 'main'\ngaze = { policy = 'fixed' }\n");
    let mut follower = daemon.subscribe("camera/main");
    for frame_seq in 1..=LIFE {
        feed.send(&raw_bytes(films[0].frame(frame_seq)));
        shown(&mut follower, frame_seq);
    }
    let before = follower.segment().clone();
    place.write("camera.gst", breaking(&place, &films[1]));
    feed.send(&raw_bytes(films[0].frame(1)));
    wait_for_stall(&follower);
    feed.send(&raw_bytes(films[1].frame(LIFE + 1)));
    let after = shown(&mut follower, LIFE + 1);
    assert_eq!((before.extent, after.extent), (small, large));
    assert_ne!(before.epoch, after.epoch);
    films[1].assert_samples(daemon.plan("camera/main"), &after, &follower.frame);
    daemon.stop();
}

#[test]
fn a_view_that_a_client_opened_goes_on_after_a_return() {
    let film = film(Extent::new(96, 64), 3);
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let daemon = place.daemon(&config(&breaking(&place, &film)));
    let mut configured = daemon.subscribe("camera/main");
    feed.send(&raw_bytes(film.frame(1)));
    shown(&mut configured, 1);
    let mut client = daemon.client();
    let table = json!({ "name": "mine", "budget": 32 });
    let name: ViewName = client.open_view("camera", table.as_object().unwrap().clone()).unwrap();
    let subscription = client.subscribe(&name, false).unwrap();
    let mut mine = Follower::new(subscription);
    // It joins as soon as it is made.
    let joined = (2..).find(|&frame_seq| {
        send(&mut feed, &film, frame_seq, &configured);
        shown(&mut configured, frame_seq);
        let next = mine.subscription.next_in_order(&mut mine.frame, Duration::from_millis(50));
        matches!(next.unwrap(), Next::Frame { .. })
    });
    let joined = joined.unwrap();
    while mine.frame.head.stamp.frame_seq < joined {
        mine.next_frame();
    }
    let epoch = mine.segment().epoch;
    for frame_seq in joined + 1..=joined + 2 * LIFE {
        send(&mut feed, &film, frame_seq, &configured);
        shown(&mut configured, frame_seq);
        assert_eq!(shown(&mut mine, frame_seq).epoch, epoch);
    }
    daemon.stop();
}

#[test]
fn a_missing_camera_delays_neither_streams_nor_shutdown() {
    let place = Place::new();
    let daemon = place.daemon(
        "[[stream]]\nname = 'away'\nsource = '/dev/video987'\nbackend = 'cpu'\n\
         [[stream]]\nname = 'there'\nsource = 'test'\nbackend = 'cpu'\n",
    );
    daemon.subscribe("there/main").next_frame();
    until("it was tried again", || {
        daemon
            .listing("away")
            .restarts
            .get(&LossReason::Unreachable)
            .is_some_and(|count| 2 <= *count)
    });
    let listing = daemon.listing("away");
    assert_eq!(listing.state, StreamState::Starting, "no frame has come yet");
    for part in ["no camera \"/dev/video987\"", "trying again in ", " time)"] {
        assert!(listing.reason.contains(part), "{}", listing.reason);
    }
    let asked = Instant::now();
    daemon.process.signal(Signal::TERM);
    daemon.process.finish().assert_clean_exit(0);
    assert!(asked.elapsed() < END, "it took {:?}", asked.elapsed());
}

/// Reads frame `frame_seq`, which comes next, and returns what it came in.
fn shown(follower: &mut Follower, frame_seq: u64) -> SegmentInfo {
    assert_eq!(follower.next_frame().head.stamp.frame_seq, frame_seq);
    follower.segment().clone()
}

/// Waits until the segment says that the stream has stalled, because the pipeline broke.
fn wait_for_stall(follower: &Follower) {
    until("the segment says why no frames come", || {
        let (state, reason) = follower.subscription.reader().unwrap().state();
        state == State::Stalled && reason.contains(BROKEN) && reason.contains("trying again in ")
    });
}

/// Sends frame `frame_seq`, which is to be seen. The frame in which a pipeline fails never gets through and has no number, so it
/// is sent before.
fn send(feed: &mut Feed, film: &Film, frame_seq: u64, follower: &Follower) {
    if 1 < frame_seq && (frame_seq - 1).is_multiple_of(LIFE) {
        feed.send(&raw_bytes(film.frame(frame_seq)));
        wait_for_stall(follower);
    }
    feed.send(&raw_bytes(film.frame(frame_seq)));
}

/// A stream that reads the frames of `film` and fails with every one after [`LIFE`].
fn breaking(place: &Place, film: &Film) -> String {
    let frame = film.frame(1);
    let text = raw_pipeline(&place.path("feed"), frame.format, frame.extent, "");
    let fails = format!("! identity error-after={} ! appsink", LIFE + 1);
    text.replace("! appsink", &fails)
}

fn config(pipeline: &str) -> String {
    format!(
        "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = '{pipeline}'\n\
         [stream.change]\nthreshold = 0\n[[stream.view]]\nname = 'main'\ngaze = {{ policy = 'fixed' }}\n"
    )
}

fn film(extent: Extent, count: usize) -> Film {
    random_film(PixelFormat::Rgbx, extent, ColorTransform::IDENTITY, count)
}
