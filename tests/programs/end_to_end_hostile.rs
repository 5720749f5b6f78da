//! During a storm of hostile clients, the real `foveated` answers each message once, publishes every frame unchanged, obeys the client
//! that asks honestly, and afterwards is what it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foveate::messages::{Look, RefusalReason, ViewName};
use foveate_control::ClientExt as _;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FixationReason;
use testkit::daemon::{Place, ProcessResources};
use testkit::is_long;
use testkit::scene::{FedStream, bt601, random_film, view};
use testkit::storm::Attacker;
use testkit::wait::{RaisedAtLast, until};

/// Hostile clients at a time.
const CLIENTS: u64 = 32;

/// Frames between two looks.
const LOOK_EVERY: u64 = 10;

/// Memory that may be taken by what a storm leaves to the allocator, in kB.
const SLACK_KB: u64 = 32 << 10;

const EXTENT: Extent = Extent::new(160, 96);

#[test]
fn a_storm_of_hostile_clients_changes_nothing_about_what_is_published() {
    let place = Place::new();
    // The views that hostile clients know, and one that they do not.
    let views = [
        view("main", "budget = 40\ngaze = { policy = 'feedback' }"),
        view("channels", "budget = 40\ngaze = { policy = 'relevance' }"),
        view("calm", "budget = 40\ngaze = { policy = 'fixed', silence_ms = 3600000 }"),
    ];
    let settings = format!("backend = 'cpu'\n{}", views.concat());
    let film = random_film(PixelFormat::Gray8, EXTENT, bt601(), 20);
    let mut scene = FedStream::open(&place, film, &settings, "camera/calm");
    let socket = place.socket();
    scene.show(2);
    let before = ProcessResources::of(scene.daemon.process.id());
    every_message_is_answered_once(&mut scene, &socket);
    obey_in_storm(&mut scene, &socket, 1, 1_000);
    let warm = at_rest(&mut scene, &before);
    obey_in_storm(&mut scene, &socket, 2, if is_long() { 1_000_000 } else { 10_000 });
    let after = at_rest(&mut scene, &before);
    let grown_kb = after.memory_kb.saturating_sub(warm.memory_kb);
    assert!(grown_kb < SLACK_KB, "{grown_kb} kB more than before");
    scene.end();
}

/// Ten thousand messages whose answers are all read: the server counts as many refusals for each reason as came back.
fn every_message_is_answered_once(scene: &mut FedStream<'_>, socket: &Path) {
    let refused = |scene: &mut FedStream<'_>| {
        until("nobody else is there", || {
            scene.client.listing().unwrap().server.unwrap().counts.clients == 2
        });
        scene.client.listing().unwrap().server.unwrap().refused
    };
    let before = refused(scene);
    let mut attacker = Attacker::new(socket, 0);
    while attacker.sent < 10_000 {
        attacker.exchange();
        scene.show(1);
    }
    let mut counted: BTreeMap<RefusalReason, u64> = refused(scene);
    for (reason, count) in before {
        *counted.get_mut(&reason).unwrap() -= count;
    }
    counted.retain(|_, count| *count != 0);
    assert_eq!(counted, attacker.refusals);
    assert!(10 <= counted.len(), "not much was tried: {counted:?}");
}

/// Lets clients rage until `count` messages were sent, while each look of the honest client is obeyed in the next frame.
fn obey_in_storm(scene: &mut FedStream<'_>, socket: &Path, seed: u64, count: u64) {
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
            look_and_see(scene);
        }
        drop(end);
    });
    look_and_see(scene);
}

fn look_and_see(scene: &mut FedStream<'_>) {
    let view: ViewName = "camera/calm".parse().unwrap();
    let x = f64::from(u32::try_from(scene.sent % 150).unwrap());
    let looking = scene.client.look(Look::at(&view, x, 40.0)).unwrap();
    assert_eq!(looking.points, [(x, 40.0)]);
    scene.show(LOOK_EVERY);
    let fixation = scene.follower.frame.head.fixation();
    assert_eq!((fixation.x, fixation.y, fixation.reason), (x, 40.0, FixationReason::Look));
    assert!(fixation.since_frame <= scene.sent + 1 - LOOK_EVERY, "{fixation:?}");
}

/// What the daemon has once everybody has left; nothing of theirs is left in the views either.
fn at_rest(scene: &mut FedStream<'_>, before: &ProcessResources) -> ProcessResources {
    let belongings = scene.belongings_at_rest(before);
    let streams = scene.client.list().unwrap();
    let views: Vec<_> = streams.iter().flat_map(|stream| &stream.views).collect();
    assert!(views.iter().map(|view| view.name.view()).eq(["main", "channels", "calm"]));
    for view in &views[..2] {
        assert_eq!(view.steering.holder, None, "a lease outlives its client");
        assert_eq!(view.channels, [], "and so does a map");
    }
    belongings
}
