//! During a storm of hostile clients, the real `foveated` publishes every frame unchanged, obeys the client that asks
//! honestly, and afterwards is what it was.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foveate::client::{Client, Next};
use foveate::messages::{Look, ViewName};
use foveate_control::ClientExt as _;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FixationReason;
use testkit::daemon::{Belongings, Daemon, Feed, Follower, Place};
use testkit::film::{Film, raw_bytes, raw_pipeline};
use testkit::is_long;
use testkit::naive::{OwnedFrame, Random};
use testkit::storm::Attacker;
use testkit::wait::until;

/// Hostile clients at a time.
const CLIENTS: u64 = 32;

/// Frames between two looks.
const LOOK_EVERY: u64 = 10;

/// Memory that may be taken by what a storm leaves to the allocator, in kB.
const SLACK_KB: u64 = 32 << 10;

const EXTENT: Extent = Extent::new(160, 96);

#[test]
fn a_storm_of_hostile_clients_changes_nothing_about_what_is_published() {
    let (place, film) = (Place::new(), random_film());
    let mut feed = Feed::open(&place.path("camera"));
    let daemon = place.daemon(&config(&place));
    let mut scene = Scene {
        film: &film,
        feed: &mut feed,
        follower: daemon.subscribe("camera/calm"),
        client: daemon.client(),
        daemon: &daemon,
        frame_seq: 0,
    };
    let socket = place.socket();
    scene.show(2);
    let before = Belongings::of(daemon.process.id());
    scene.obey_in_storm(&socket, 1, 1_000);
    let warm = scene.belongings_at_rest(&before);
    let long = is_long();
    scene.obey_in_storm(&socket, 2, if long { 1_000_000 } else { 10_000 });
    let after = scene.belongings_at_rest(&before);
    let grown_kb = after.memory_kb.saturating_sub(warm.memory_kb);
    assert!(grown_kb < SLACK_KB, "{grown_kb} kB more than before");
    drop(scene);
    daemon.stop();
}

/// A stream whose frames a test sends one by one, and an honest client that steers a view of it and follows that.
struct Scene<'a> {
    film: &'a Film,
    feed: &'a mut Feed,
    follower: Follower,
    client: Client,
    daemon: &'a Daemon<'a>,
    frame_seq: u64,
}

impl Scene<'_> {
    /// Sends `count` frames; each is published, and as it is.
    fn show(&mut self, count: u64) {
        for _ in 0..count {
            self.frame_seq += 1;
            self.feed.send(&raw_bytes(self.film.frame(self.frame_seq)));
            loop {
                match self.follower.next() {
                    Next::NewSegment => {}
                    Next::Frame { missed: 0 } => break,
                    other => panic!("{other:?} instead of frame {}", self.frame_seq),
                }
            }
            let frame = &self.follower.frame;
            assert_eq!(frame.head.stamp.frame_seq, self.frame_seq);
            let segment = self.follower.subscription.reader().unwrap().header();
            self.film.assert_shows(self.daemon.plan("camera/calm"), segment, frame);
        }
    }

    /// Lets clients rage until `count` messages were sent, while each look of the honest client is obeyed in the next frame.
    fn obey_in_storm(&mut self, socket: &Path, seed: u64, count: u64) {
        let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let end = RaisedAtLast(&is_over);
            for number in 0..CLIENTS {
                let (is_over, sent) = (&is_over, &sent);
                scope.spawn(move || {
                    let mut attacker = Attacker::new(socket, CLIENTS * seed + number);
                    while !is_over.load(Ordering::Relaxed) {
                        let before = attacker.sent;
                        attacker.exchange();
                        attacker.offend();
                        sent.fetch_add(attacker.sent - before, Ordering::Relaxed);
                    }
                });
            }
            while sent.load(Ordering::Relaxed) < count {
                self.look_and_see();
            }
            drop(end);
        });
        self.look_and_see();
    }

    fn look_and_see(&mut self) {
        let view: ViewName = "camera/calm".parse().unwrap();
        let x = f64::from(u32::try_from(self.frame_seq % 150).unwrap());
        let looking = self.client.look(Look::at(&view, x, 40.0)).unwrap();
        assert_eq!((looking.x, looking.y), (x, 40.0));
        self.show(LOOK_EVERY);
        let fixation = self.follower.frame.head.fixation();
        assert_eq!((fixation.x, fixation.y, fixation.reason), (x, 40.0, FixationReason::Look));
        assert!(fixation.since_frame <= self.frame_seq + 1 - LOOK_EVERY, "{fixation:?}");
    }

    /// What the daemon has once everybody has left: no more descriptors and threads than `before`.
    fn belongings_at_rest(&mut self, before: &Belongings) -> Belongings {
        until("only the follower and the honest client are there", || {
            self.client.listing().unwrap().server.unwrap().counts.clients == 2
        });
        let mut belongings = Belongings::of(self.daemon.process.id());
        until("all threads and descriptors are given back", || {
            // The frame loop lets go of views and of those that it notified with the next frames.
            self.show(1);
            belongings = Belongings::of(self.daemon.process.id());
            belongings.is_no_more_than(before)
        });
        let streams = self.client.list().unwrap();
        let views = streams.iter().flat_map(|stream| &stream.views);
        assert!(views.map(|view| view.name.to_string()).eq(["camera/main", "camera/calm"]));
        belongings
    }
}

/// The view that hostile clients know, and one that they do not.
fn config(place: &Place) -> String {
    let source = raw_pipeline(&place.path("camera"), PixelFormat::Gray8, EXTENT, "");
    format!(
        "[[stream]]
         name = 'camera'
         pipeline = '{source}'
         pace = 'every-frame'
         backend = 'cpu'
         [[stream.view]]
         name = 'main'
         budget = 40
         gaze = {{ policy = 'feedback' }}
         [[stream.view]]
         name = 'calm'
         budget = 40
         gaze = {{ policy = 'fixed', silence_ms = 3600000 }}
        "
    )
}

fn random_film() -> Film {
    let mut random = Random(7);
    let color = ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Full);
    let first = OwnedFrame::random(PixelFormat::Gray8, EXTENT, color, &mut random);
    Film::random(first, 20, &mut random)
}

/// A flag that is raised however the test ends, so that its threads end.
struct RaisedAtLast<'a>(&'a AtomicBool);

impl Drop for RaisedAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
