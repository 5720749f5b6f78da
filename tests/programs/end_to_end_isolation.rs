//! Streams of one daemon share the processors and nothing else: one that floods, fails or hangs costs another no frame.

use foveate_control::{ClientExt as _, StreamState, StreamStats};
use testkit::daemon::{Daemon, Feed, Place};
use testkit::wait::until;

const WIDTH: usize = 64;
const HEIGHT: usize = 48;

/// As many frames as the processors can make, far more than can be published.
const FLOOD: &str = "[[stream]]\nname = 'flood'\nbackend = 'cpu'\n\
     pipeline = 'videotestsrc pattern=snow is-live=false ! video/x-raw,format=GRAY8,width=160,height=120,framerate=1000/1 \
     ! appsink name=frames sync=false'\n";

const FAILING: &str =
    "[[stream]]\nname = 'failing'\nbackend = 'cpu'\nsource = 'rtsp://127.0.0.1:1/x'\n";

/// Delivers no frame, and never will.
const SILENT: &str = "[[stream]]\nname = 'silent'\nbackend = 'cpu'\n\
     pipeline = 'fakesrc is-live=true num-buffers=-1 silent=true ! valve drop=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=9/1 \
     ! appsink name=frames'\n";

#[test]
fn a_stream_is_unharmed_by_broken_neighbours() {
    let place = Place::new();
    let mut feed = Feed::open(&place.path("fed"));
    let fed = format!(
        "[[stream]]\nname = 'fed'\nbackend = 'cpu'\nrestart = false\npipeline = 'filesrc location={} blocksize=3072 ! rawvideoparse format=gray8 \
         width={WIDTH} height={HEIGHT} framerate=30/1 ! appsink name=frames sync=false'\n",
        place.path("fed").display()
    );
    let daemon = place.daemon(&[&fed, FLOOD, FAILING, SILENT].concat());
    let mut flooded = daemon.subscribe("flood/main");
    flooded.next_frame();
    until("one is known to fail", || !daemon.listing("failing").reason.is_empty());
    let mut follower = daemon.subscribe("fed/main");
    for value in 1..=100_u8 {
        feed.send(&vec![value; WIDTH * HEIGHT]);
        assert_eq!(follower.next_frame().head.stamp.frame_seq, u64::from(value));
    }
    let fed = stats(&daemon, "fed");
    assert_eq!((fed.counts.frames_captured, fed.counts.frames_dropped), (100, 0));
    assert_eq!(daemon.listing("failing").state, StreamState::Starting);
    assert_eq!(daemon.listing("silent").counts.frames_captured, 0);

    // What floods is dropped and counted, and nothing of it waits: one frame may lie in the mailbox, and one be at work.
    let flood = stats(&daemon, "flood");
    assert!(flood.counts.frames_published < flood.counts.frames_captured, "{flood:?}");
    let counted =
        flood.counts.frames_published + flood.counts.frames_dropped + flood.counts.frames_refused;
    let earlier = stats(&daemon, "flood").counts.frames_captured;
    assert!(counted <= earlier, "{counted} of {earlier}");
    drop(flooded);
    daemon.process.signal(rustix::process::Signal::TERM);
    daemon.process.finish().assert_clean_exit(0);
}

/// No stream starves: with too many streams each one keeps publishing, and its drops are counted.
#[test]
fn streams_that_are_too_many_for_the_machine_all_go_on() {
    let place = Place::new();
    let names: Vec<_> = (0..6).map(|index| format!("flood{index}")).collect();
    let stream = |name: &String| FLOOD.replace("'flood'", &format!("'{name}'"));
    let config: String = names.iter().map(stream).collect();
    let daemon = place.daemon(&config);
    let mut followers: Vec<_> =
        names.iter().map(|name| daemon.subscribe(&format!("{name}/main"))).collect();
    let mut last = vec![0; followers.len()];
    for _ in 0..20 {
        for (follower, last) in followers.iter_mut().zip(&mut last) {
            let next = follower.next_frame().head.stamp.frame_seq;
            assert!(*last < next, "frames are published in order");
            *last = next;
        }
    }
    for name in &names {
        let before = stats(&daemon, name);
        let counted = before.counts.frames_published
            + before.counts.frames_dropped
            + before.counts.frames_refused;
        assert!(counted <= stats(&daemon, name).counts.frames_captured, "{name}");
        assert!(0 < before.counts.frames_dropped, "{name} has more frames than it can publish");
        assert_eq!(before.stuck, None, "{name}");
    }
    daemon.stop();
}

fn stats(daemon: &Daemon<'_>, name: &str) -> StreamStats {
    let streams = daemon.client().stats().unwrap().streams;
    streams.into_iter().find(|stream| stream.name == name).unwrap()
}
