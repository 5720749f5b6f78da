//! Ten thousand messages that make no sense, from clients that come and go as they like, leave nothing behind.
//!
//! One test, because it counts what belongs to the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foveate::client::Client;
use foveate::messages::{Look, RefusalReason};
use foveate_config::{GazeConfig, ViewConfig};
use foveate_control::{ClientExt as _, ServerListing};
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::{Layout, PlanRequest};
use foveate_ring::{Waker, Writer};
use foveate_server::channel::{ViewChannel, ViewUpdate};
use foveate_server::directory::{StreamPort, ViewCommand};
use foveate_server::server::ServerLimits;
use testkit::control::{self, EXTENT, Stage, main_view, publish, start, view_config};
use testkit::is_long;
use testkit::storm::Attacker;
use testkit::wait::{RaisedAtLast, until};

/// Clients at a time.
const CLIENTS: u64 = 32;

/// Memory that may be taken by what a storm leaves to the allocator, in bytes.
const SLACK: usize = 16 << 20;

#[test]
fn a_storm_of_messages_is_answered_and_leaves_nothing_behind() {
    let stage = Stage::open_limited(ServerLimits { opened_bytes: 64 << 20, ..control::UNLIMITED });
    let mut port = attentive_stream(&stage);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| play_frames(&mut port, &is_over));
        let _end = RaisedAtLast(&is_over);
        until("the stream is live", || looks_and_releases(&stage));
        let mut witness = Client::connect(&stage.path).unwrap();
        until_alone(&mut witness);
        let before = ProcessResources::now();
        every_message_is_answered_once(&stage);
        storm(&stage.path, 1, 2_000);
        all_are_gone(&stage, &mut witness, &before);
        let warm = ProcessResources::now();

        storm(&stage.path, 2, if is_long() { 1_000_000 } else { 10_000 });
        all_are_gone(&stage, &mut witness, &before);
        let grown = ProcessResources::now().memory.saturating_sub(warm.memory);
        assert!(grown < SLACK, "{grown} bytes more than before");
    });
}

/// Ten thousand messages whose answers are all read: the server counts as many refusals for each reason as came back.
fn every_message_is_answered_once(stage: &Stage) {
    let before = server(stage);
    let mut attacker = Attacker::new(&stage.path, 0);
    while attacker.sent < 10_000 {
        attacker.exchange();
    }
    let after = server(stage);
    let mut counted: BTreeMap<RefusalReason, u64> = after.refused;
    for (reason, count) in before.refused {
        *counted.get_mut(&reason).unwrap() -= count;
    }
    counted.retain(|_, count| *count != 0);
    assert_eq!(counted, attacker.refusals);
    assert!(10 <= counted.len(), "not much was tried: {counted:?}");
}

/// Lets clients rage until `count` messages were sent.
fn storm(socket: &Path, seed: u64, count: u64) {
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let sent = &sent;
            scope.spawn(move || {
                let mut attacker = Attacker::new(socket, CLIENTS * seed + number);
                while sent.load(Ordering::Relaxed) < count {
                    let before = attacker.sent;
                    attacker.exchange();
                    attacker.offend();
                    sent.fetch_add(attacker.sent - before, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Resources of a process.
#[derive(Debug)]
struct ProcessResources {
    descriptors: usize,
    threads: usize,
    memory: usize,
}

impl ProcessResources {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).unwrap().count();
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let memory = pages * rustix::param::page_size();
        Self { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"), memory }
    }
}

/// Waits until what clients held is given back, and looks that the view is there as it was.
fn all_are_gone(stage: &Stage, witness: &mut Client, before: &ProcessResources) {
    until_alone(witness);
    let streams = witness.list().unwrap();
    let views: Vec<_> = streams.iter().flat_map(|stream| &stream.views).collect();
    assert!(views.iter().map(|view| view.name.view()).eq(["main", "channels"]));
    for view in views {
        assert_eq!(view.steering.holder, None, "a lease outlives its client");
        assert!(view.channels.is_empty(), "and so does a map");
    }
    assert!(looks_and_releases(stage));
    until_alone(witness);
    // The frame loop lets go of those that it notified, and of views, a frame later.
    until("descriptors and threads are as many as before", || {
        let now = ProcessResources::now();
        (now.descriptors, now.threads) == (before.descriptors, before.threads)
    });
}

/// Waits until the server has only this client.
fn until_alone(witness: &mut Client) {
    until("only this client is served", || {
        witness.listing().unwrap().server.unwrap().counts.clients == 1
    });
}

/// Whether a client can steer the view, and sees that it did.
fn looks_and_releases(stage: &Stage) -> bool {
    let mut client = Client::connect(&stage.path).unwrap();
    let looked = client.look(Look { wait: true, ..Look::at(&main_view(), 5.0, 6.0) });
    looked.is_ok_and(|looking| !looking.fixations.is_empty())
        && client.release(&main_view()).is_ok()
}

fn server(stage: &Stage) -> ServerListing {
    Client::connect(&stage.path).unwrap().listing().unwrap().server.unwrap()
}

/// A stream with a view that takes maps and one that takes channels.
fn attentive_stream(stage: &Stage) -> StreamPort {
    let relevance = Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
    let views = [("main", Policy::Feedback), ("channels", relevance)];
    let views = views.map(|(name, policy)| {
        let gaze = GazeConfig { policy, ..GazeConfig::default() };
        ViewConfig { gaze, ..view_config(name) }
    });
    stage.stream_of("camera", views.to_vec())
}

/// Plays the frame loop of a stream.
fn play_frames(port: &mut StreamPort, is_over: &AtomicBool) {
    let writer = start(port);
    let mut channels = std::mem::take(&mut port.views).into_iter();
    let mut views = vec![PlayedView::new(channels.next().unwrap(), writer)];
    views.extend(channels.map(PlayedView::open));
    let mut frame_seq = 0;
    while !is_over.load(Ordering::Relaxed) {
        match port.commands.recv_timeout(Duration::from_millis(1)) {
            Ok(ViewCommand::Open(channel)) => views.push(PlayedView::open(*channel)),
            Ok(ViewCommand::Close(name)) => {
                let index = views.iter().position(|view| *view.channel.name() == name).unwrap();
                views.remove(index);
            }
            Ok(other) => panic!("{other:?} is for operators"),
            Err(_) => {}
        }
        frame_seq += 1;
        for view in &mut views {
            view.show(frame_seq);
        }
    }
}

/// A view of the frame loop.
struct PlayedView {
    channel: ViewChannel,
    waker: Waker,
    writer: Writer,
}

impl PlayedView {
    fn new(channel: ViewChannel, writer: Writer) -> Self {
        let waker = Waker::new(&writer, channel.subscribers()).unwrap();
        Self { channel, waker, writer }
    }

    /// Gives its subscribers a segment.
    fn open(channel: ViewChannel) -> Self {
        let writer = control::writer(channel.name());
        channel.set_segment(writer.reader_fd().unwrap(), writer.epoch());
        Self::new(channel, writer)
    }

    /// Looks at another place in each frame.
    fn show(&mut self, frame_seq: u64) {
        while self.channel.next_feedback().is_some() {}
        let reason = FixationReason::Policy;
        let at = Fixation::at((9.0, 9.0), reason);
        let fixation = Fixation { id: frame_seq, since_frame: frame_seq, ..at };
        let gaze = Gaze::at(fixation, None);
        let shape = PyramidShape::new(EXTENT);
        self.channel.update(&ViewUpdate {
            frame_seq,
            shape,
            gaze: &gaze,
            plan: &Layout::Uniform.plan(&PlanRequest {
                shape,
                patch_side: 14,
                budget: 9,
                fixations: &gaze.foci(),
                relevance: None,
                before: None,
                demand: None,
            }),
            plan_since: frame_seq,
            is_planned_afresh: false,
            is_settled: true,
        });
        publish(&mut self.writer, frame_seq, 0);
        self.waker.wake();
    }
}
