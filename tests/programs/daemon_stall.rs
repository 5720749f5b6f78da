//! A stream whose source falls silent is stalled with a reason, until frames arrive again.

use foveate_control::StreamState;
use testkit::daemon::{Feed, Place};
use testkit::wait::until;

const FRAME_BYTES: usize = 64 * 48 * 3 / 2;

#[test]
fn the_reason_of_a_stall_ends_with_it() {
    let place = Place::new();
    let mut feed = Feed::open(&place.path("fed"));
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = 'filesrc location={} blocksize={FRAME_BYTES} \
         ! rawvideoparse format=nv12 width=64 height=48 framerate=30/1 ! appsink name=frames'\n",
        place.path("fed").display()
    ));
    let is = |state| daemon.listing("camera").state == state;

    feed.send(&[128; 3 * FRAME_BYTES]);
    until("frames come", || is(StreamState::Live));
    until("the silence is noticed", || is(StreamState::Stalled));
    let reason = daemon.listing("camera").reason;
    assert!(reason.starts_with("no frame for "), "{reason}");
    feed.send(&[128; 3 * FRAME_BYTES]);
    until("frames come again", || is(StreamState::Live));
    assert_eq!(daemon.listing("camera").reason, "");
}
