//! A subscription that has lost its daemon reconnects on request. It reads no frame twice, and every frame that the ring
//! still holds.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate::ControlError;
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::{Look, Refusal, RefusalReason};
use foveate_ring::{TokenFrameBuf, Waker};
use foveate_server::directory::Directory;
use foveate_server::server::{Server, ServerLimits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketAddrUnix, bind, listen};
use testkit::control::{
    RawClient, Stage, UNLIMITED, main_view, publish, seqpacket_socket, start, writer,
};
use testkit::wait::HANG;

/// Wait for a message that must not come.
const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn the_ring_stays_readable_without_a_daemon() {
    let mut stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::new(&stage, false);
    drop(stage.server.take());
    follower.until_lost();
    for frame_seq in 1..=3 {
        let error = follower.subscription.reconnect().unwrap_err();
        assert!(matches!(error, ControlError::NoDaemon { .. }), "{error:?}");
        assert!(error.is_transient());
        // What a dying daemon managed to publish is read between two tries.
        publish(&mut writer, frame_seq, 0);
        assert_eq!(follower.next(), Next::Frame { missed: 0 });
        follower.until_lost();
    }
}

#[test]
fn a_restarted_daemon_is_followed_from_its_first_frame() {
    let mut stage = Stage::open();
    let (port, mut old) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::new(&stage, false);
    publish(&mut old, 1, 1);
    publish(&mut old, 2, 2);
    stop(&mut stage);
    let mut new = writer(&main_view());
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    publish(&mut new, 1, 3);
    publish(&mut new, 2, 4);
    stage.serve(UNLIMITED);

    follower.subscription.reconnect().unwrap();
    let mut read = Vec::new();
    while read.last() != Some(&4) {
        match follower.next() {
            Next::Frame { missed: 0 } => read.push(follower.frame.pixels[0]),
            Next::NewSegment => read.push(0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read, [1, 2, 0, 3, 4], "what the old ring holds was published first");
}

#[test]
fn a_hung_up_connection_continues_in_the_same_ring() {
    let mut stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::new(&stage, false);
    publish(&mut writer, 1, 0);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
    stop(&mut stage);
    follower.until_lost();
    stage.serve(UNLIMITED);

    follower.subscription.reconnect().unwrap();
    assert_eq!(follower.next_within(MOMENT), Next::TimedOut, "nothing is read twice");
    publish(&mut writer, 2, 0);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
    assert_eq!(follower.frame.head.stamp.frame_seq, 2);
}

#[test]
fn a_daemon_that_has_no_frame_yet_is_waited_for() {
    let mut stage = Stage::open();
    let (_port, _old) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::new(&stage, false);
    stop(&mut stage);
    stage.directory = Directory::new().unwrap();
    let port = stage.stream("camera", &["main"]);
    stage.serve(UNLIMITED);

    follower.subscription.reconnect().unwrap();
    assert_eq!(follower.next_within(MOMENT), Next::TimedOut);
    let mut new = start(&port);
    publish(&mut new, 1, 0);
    assert_eq!(follower.next(), Next::NewSegment);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
}

#[test]
fn notices_come_again_where_they_were_asked_for() {
    let mut stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let waker = Waker::new(&writer, port.views[0].subscribers()).unwrap();
    let mut follower = Follower::new(&stage, true);
    stop(&mut stage);
    follower.until_lost();
    stage.serve(UNLIMITED);

    follower.subscription.reconnect().unwrap();
    assert_eq!(follower.next_within(MOMENT), Next::TimedOut);
    publish(&mut writer, 1, 0);
    waker.wake();
    let mut entries = [PollFd::new(&follower.subscription, PollFlags::IN)];
    poll(&mut entries, Some(&Timespec::try_from(HANG).unwrap())).unwrap();
    assert!(entries[0].revents().contains(PollFlags::IN));
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
}

#[test]
fn too_many_clients_is_transient() {
    let mut stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::new(&stage, false);
    stop(&mut stage);
    stage.serve(ServerLimits { clients: 1, ..UNLIMITED });
    let other = RawClient::connect(&stage.path);
    assert_eq!(other.ask(br#"{"op":"list"}"#)["ok"], true);
    let (reason, is_transient) = follower.refusal();
    assert_eq!((reason, is_transient), (RefusalReason::TooManyClients, true));

    stop(&mut stage);
    stage.directory = Directory::new().unwrap();
    let _other = stage.stream("attic", &["main"]);
    stage.serve(UNLIMITED);
    let (reason, is_transient) = follower.refusal();
    assert_eq!((reason, is_transient), (RefusalReason::UnknownView, false));
}

/// As behind systemd, whose socket stays where the daemon was killed.
#[test]
fn a_socket_that_listens_while_nobody_accepts_is_no_daemon() {
    let mut stage = Stage::open();
    let (port, mut old) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::reconnecting(&stage);
    assert_eq!(follower.next(), Next::NewSegment);
    publish(&mut old, 1, 0);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
    stop(&mut stage);
    let listener = listener(&stage.path);
    let started = Instant::now();
    for timeout in [0, 0, 1, 150, 0, 150, 1] {
        follower.assert_away(Duration::from_millis(timeout));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());

    let mut new = writer(&main_view());
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    publish(&mut new, 1, 0);
    let directory = Arc::clone(&stage.directory);
    let server = Server::adopt(listener, directory, UNLIMITED).unwrap();
    assert_eq!(follower.next(), Next::NewSegment);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
    assert!(!follower.subscription.is_disconnected());
    let clients = server.counters().clients_accepted.get();
    assert_eq!(clients, 1, "it waits in the queue instead of filling it");
}

#[test]
fn a_subscription_that_reconnects_is_opened_before_its_daemon() {
    let mut stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    stop(&mut stage);
    let mut follower = Follower::reconnecting(&stage);
    follower.assert_away(Duration::ZERO);
    follower.assert_away(MOMENT);
    stage.serve(UNLIMITED);
    assert_eq!(follower.next(), Next::NewSegment);
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
}

#[test]
fn one_descriptor_outlives_every_daemon() {
    let mut stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    let mut follower = Follower::reconnecting(&stage);
    let descriptor = follower.subscription.as_fd().as_raw_fd();
    while !matches!(follower.next_when_readable(), Ok(Next::NewSegment)) {}
    assert_eq!(follower.next(), Next::Frame { missed: 0 });
    for frame_seq in 2..5 {
        stop(&mut stage);
        for _ in 0..3 {
            let error = follower.next_when_readable().unwrap_err();
            assert!(matches!(error, SubscriptionError::Disconnected), "{error:?}");
        }
        stage.serve(UNLIMITED);
        // Over a connection that has only been dropped, the ring stays the same.
        while follower.subscription.is_disconnected() {
            let _ = follower.next_when_readable();
        }
        publish(&mut writer, frame_seq, 0);
        assert!(matches!(follower.next(), Next::Frame { .. }));
        assert_eq!(follower.subscription.as_fd().as_raw_fd(), descriptor);
    }
}

#[test]
fn a_subscription_that_reconnects_tells_what_waiting_does_not_mend() {
    let mut stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let mut follower = Follower::reconnecting(&stage);
    assert_eq!(follower.next(), Next::NewSegment);
    stop(&mut stage);
    stage.directory = Directory::new().unwrap();
    let _other = stage.stream("attic", &["main"]);
    stage.serve(UNLIMITED);
    let error = follower.subscription.next_in_order(&mut follower.frame, HANG).unwrap_err();
    let SubscriptionError::Control(ControlError::Refused(refusal)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(refusal.reason, RefusalReason::UnknownView);
}

#[test]
fn a_stopped_daemon_is_waited_for_until_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("still.sock");
    let _listener = listener(&path);
    let started = Instant::now();
    let mut client = Client::connect_for(&path, Duration::from_millis(10)).unwrap();
    assert!(matches!(
        client.look(Look::at(&main_view(), 0.0, 0.0)),
        Err(ControlError::TimedOut { .. })
    ));
    assert!(matches!(client.release(&main_view()), Err(ControlError::TimedOut { .. })));
    let opened = client.open_view("camera", serde_json::Map::new());
    assert!(matches!(opened, Err(ControlError::TimedOut { .. })));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let beyond =
        client.look(Look { normalised: true, ..Look::at(&main_view(), 5.0, 0.3) }).unwrap_err();
    assert!(beyond.to_string().contains("0 to 1"), "{beyond}");
}

/// A socket at `path` that listens, but never accepts.
fn listener(path: &Path) -> OwnedFd {
    let listener = seqpacket_socket();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 8).unwrap();
    listener
}

/// A view that is followed.
struct Follower {
    subscription: Subscription,
    frame: TokenFrameBuf,
}

impl Follower {
    /// Follows `camera/main`, and has its first segment.
    fn new(stage: &Stage, notify: bool) -> Self {
        let client = Client::connect(&stage.path).unwrap();
        let subscription = client.subscribe(&main_view(), notify).unwrap();
        let mut follower = Self { subscription, frame: TokenFrameBuf::default() };
        assert_eq!(follower.next(), Next::NewSegment);
        follower
    }

    /// Follows `camera/main` of the daemon that there is, or will be.
    fn reconnecting(stage: &Stage) -> Self {
        let subscription = Subscription::reconnecting(&stage.path, &main_view(), true).unwrap();
        Self { subscription, frame: TokenFrameBuf::default() }
    }

    /// No daemon has answered within `timeout`.
    fn assert_away(&mut self, timeout: Duration) {
        let error = self.subscription.next_in_order(&mut self.frame, timeout).unwrap_err();
        assert!(matches!(error, SubscriptionError::Disconnected), "{error:?}");
        assert!(self.subscription.is_disconnected());
    }

    /// Reads the next message as an event loop does.
    fn next_when_readable(&mut self) -> Result<Next, SubscriptionError> {
        let mut entries = [PollFd::new(&self.subscription, PollFlags::IN)];
        let ready = poll(&mut entries, Some(&Timespec::try_from(HANG).unwrap())).unwrap();
        assert_eq!(ready, 1, "the descriptor is never readable again");
        self.subscription.next_in_order(&mut self.frame, Duration::ZERO)
    }

    fn next(&mut self) -> Next {
        self.next_within(HANG)
    }

    fn next_within(&mut self, timeout: Duration) -> Next {
        self.subscription.next_in_order(&mut self.frame, timeout).unwrap()
    }

    /// The daemon is gone, and every frame was read.
    fn until_lost(&mut self) {
        let error = self.subscription.next_in_order(&mut self.frame, HANG).unwrap_err();
        assert!(matches!(error, SubscriptionError::Disconnected), "{error:?}");
    }

    /// Why it may not reconnect, and whether that is temporary.
    fn refusal(&mut self) -> (RefusalReason, bool) {
        let error = self.subscription.reconnect().unwrap_err();
        let is_transient = error.is_transient();
        match error {
            ControlError::Refused(Refusal { reason, .. }) => (reason, is_transient),
            other => panic!("{other:?}"),
        }
    }
}

fn stop(stage: &mut Stage) {
    stage.server.take().unwrap().stop();
}
