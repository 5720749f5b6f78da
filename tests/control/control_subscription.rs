//! A subscriber reads every segment of its view in turn, and learns of every end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::NOTICE_BYTES;
use foveate_control::StreamState;
use foveate_ring::{TokenFrameBuf, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testkit::control::{RawClient, Stage, main_view, publish, publish_aged, start, writer};
use testkit::ring::{bytes_of, sealed_copy};
use testkit::wait::{HANG, until};

/// Between two wakes.
const MOMENT: Duration = Duration::from_micros(50);

#[test]
fn a_subscriber_reads_what_is_published() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    let mut frame = TokenFrameBuf::default();
    assert_eq!(subscription.reader().unwrap().header().epoch, writer.epoch());

    publish(&mut writer, 10, 7);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
    assert_eq!(frame.head.stamp.frame_seq, 10);
    assert_eq!(frame.records.len(), 2);
    assert!(frame.pixels.iter().all(|&texel| texel == 7));
    assert_eq!(subscription.next_frame(&mut frame, Duration::ZERO).unwrap(), Next::TimedOut);
}

#[test]
fn newest_skips_frames_and_next_does_not() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let (mut newest, mut in_order) = (subscribed(&stage), subscribed(&stage));
    for frame_seq in 1..=3 {
        publish(&mut writer, frame_seq, 0);
    }
    let mut frame = TokenFrameBuf::default();
    assert_eq!(newest.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 2 });
    assert_eq!(frame.head.stamp.frame_seq, 3);
    for frame_seq in 1..=3 {
        assert_eq!(in_order.next_in_order(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
        assert_eq!(frame.head.stamp.frame_seq, frame_seq);
    }
}

#[test]
fn frames_that_are_too_old_are_passed_over_and_counted() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let (mut newest, mut in_order) = (subscribed(&stage), subscribed(&stage));
    let (most, old) = (Duration::from_secs(60), Duration::from_secs(61));
    newest.set_max_age(Some(most));
    in_order.set_max_age(Some(most));
    let mut frame = TokenFrameBuf::default();
    publish_aged(&mut writer, 1, 0, old);
    for subscription in [&mut newest, &mut in_order] {
        let nothing = subscription.next_frame(&mut frame, Duration::ZERO).unwrap();
        assert_eq!(nothing, Next::TimedOut);
    }
    publish(&mut writer, 2, 0);
    publish_aged(&mut writer, 3, 0, old);
    publish(&mut writer, 4, 0);
    assert_eq!(newest.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 3 });
    for (frame_seq, missed) in [(2, 1), (4, 1)] {
        let next = in_order.next_in_order(&mut frame, HANG).unwrap();
        assert_eq!((next, frame.head.stamp.frame_seq), (Next::Frame { missed }, frame_seq));
        assert!(frame.head.age() <= most);
    }
    let nearest = newest.nearest_frame(0, &mut frame, HANG).unwrap();
    assert_eq!((nearest, frame.head.stamp.frame_seq), (Next::Frame { missed: 0 }, 1));
}

#[test]
fn a_subscriber_may_come_before_the_first_frame() {
    let stage = Stage::open();
    let port = stage.stream("camera", &["main"]);
    let client = Client::connect(&stage.path).unwrap();
    let mut subscription = client.subscribe(&main_view(), false).unwrap();
    let mut frame = TokenFrameBuf::default();
    let nothing = subscription.next_frame(&mut frame, Duration::from_millis(1)).unwrap();
    assert_eq!(nothing, Next::TimedOut);
    assert!(subscription.reader().is_none());

    let mut writer = start(&port);
    publish(&mut writer, 1, 9);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
}

#[test]
fn a_new_segment_takes_the_place_of_the_old_one() {
    let stage = Stage::open();
    let (port, mut old) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    publish(&mut old, 1, 1);

    let mut new = writer(&main_view());
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    publish(&mut new, 2, 2);
    let mut frame = TokenFrameBuf::default();
    while subscription.next_frame(&mut frame, HANG).unwrap() != Next::NewSegment {}
    assert_eq!(subscription.reader().unwrap().header().epoch, new.epoch());
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
    assert_eq!((frame.head.stamp.frame_seq, frame.pixels[0]), (2, 2));
}

#[test]
fn a_new_segment_follows_the_last_old_frame() {
    let stage = Stage::open();
    let (port, mut old) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    publish(&mut old, 1, 1);
    publish(&mut old, 2, 2);
    let mut new = writer(&main_view());
    publish(&mut new, 3, 3);
    publish(&mut new, 4, 4);
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    until("the new segment arrives", || poll_readable(&subscription, Duration::from_millis(50)));

    let mut frame = TokenFrameBuf::default();
    let mut read = Vec::new();
    while read.last() != Some(&4) {
        match subscription.next_in_order(&mut frame, HANG).unwrap() {
            Next::Frame { missed: 0 } => read.push(frame.head.stamp.frame_seq),
            Next::NewSegment => read.push(0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read, [1, 2, 0, 3, 4]);
}

#[test]
fn frames_come_before_the_end_and_the_end_says_why() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    publish(&mut writer, 1, 1);
    publish(&mut writer, 2, 2);
    port.ended("end of the file");

    let mut frame = TokenFrameBuf::default();
    let mut read = Vec::new();
    let reason = loop {
        match subscription.next_in_order(&mut frame, HANG).unwrap() {
            Next::Frame { .. } => read.push(frame.head.stamp.frame_seq),
            Next::Ended(reason) => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read, [1, 2]);
    assert_eq!(reason, "end of the file");
    let again = subscription.next_frame(&mut frame, HANG).unwrap();
    assert_eq!(again, Next::Ended(reason), "it stays that way");
}

#[test]
fn who_comes_after_the_end_still_gets_the_last_frame() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 5, 5);
    port.ended("end of the file");
    drop(writer);
    let mut subscription = subscribed(&stage);
    let mut frame = TokenFrameBuf::default();
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
    assert_eq!(frame.head.stamp.frame_seq, 5);
    let end = subscription.next_frame(&mut frame, HANG).unwrap();
    assert_eq!(end, Next::Ended("end of the file".to_owned()));
}

#[test]
fn a_stream_that_comes_back_after_its_end_is_followed_on() {
    let stage = Stage::open();
    let (port, _old) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    let mut frame = TokenFrameBuf::default();
    port.ended("the camera is unplugged");
    let end = subscription.next_frame(&mut frame, HANG).unwrap();
    assert_eq!(end, Next::Ended("the camera is unplugged".to_owned()));

    port.update(|status| status.state = StreamState::Live);
    let mut new = start(&port);
    publish(&mut new, 1, 1);
    until("the new segment arrives", || poll_readable(&subscription, Duration::from_millis(50)));
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
    port.ended("the camera is unplugged again");
    let end = subscription.next_frame(&mut frame, HANG).unwrap();
    assert_eq!(end, Next::Ended("the camera is unplugged again".to_owned()));
}

#[test]
fn the_end_of_each_segment_is_told() {
    let stage = Stage::open();
    let (port, _old) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    let mut frame = TokenFrameBuf::default();
    port.ended("unplugged");
    let ended = Next::Ended("unplugged".to_owned());
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), ended);

    // The server sees the state now and then: back and gone again may look like never back.
    let new = writer(&main_view());
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    until("the new segment arrives", || poll_readable(&subscription, Duration::from_millis(50)));
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), ended);
}

#[test]
fn the_death_of_the_daemon_is_noticed() {
    let mut stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let client = Client::connect(&stage.path).unwrap();
    let mut subscription = client.subscribe(&main_view(), true).unwrap();
    let mut frame = TokenFrameBuf::default();
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    // Even where a waker holds another descriptor of the connection.
    let waker = Waker::new(&writer, port.views[0].subscribers()).unwrap();
    publish(&mut writer, 1, 1);
    waker.wake();
    drop(stage.server.take());

    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
    for _ in 0..2 {
        let error = subscription.next_frame(&mut frame, HANG).unwrap_err();
        assert!(matches!(error, SubscriptionError::Disconnected), "{error}");
    }
}

#[test]
fn a_reader_moves_on_from_a_broken_segment() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    // The slot of its only frame says that it holds another one.
    let mut bytes = bytes_of(&writer);
    let slot_stride = u64::from_le_bytes(bytes[32..40].try_into().unwrap());
    let slot = 4096 + usize::try_from(slot_stride).unwrap();
    bytes[slot + 8] = 77;
    port.views[0].set_segment(sealed_copy(&bytes), 7);
    let client = Client::connect(&stage.path).unwrap();
    let mut subscription = client.subscribe(&main_view(), false).unwrap();
    let mut frame = TokenFrameBuf::default();
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    let error = subscription.next_frame(&mut frame, HANG).unwrap_err();
    assert!(matches!(error, SubscriptionError::Ring(_)), "{error}");

    port.views[0].set_segment(writer.reader_fd().unwrap(), writer.epoch());
    until("the other one arrives", || {
        matches!(subscription.next_frame(&mut frame, HANG), Ok(Next::NewSegment))
    });
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
}

#[test]
fn a_stopping_daemon_reports_the_reason_before_hanging_up() {
    let mut stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let mut subscription = subscribed(&stage);
    port.ended("daemon_stopped");
    stage.server.take().unwrap().stop();
    let end = subscription.next_frame(&mut TokenFrameBuf::default(), HANG).unwrap();
    assert_eq!(end, Next::Ended("daemon_stopped".to_owned()));
}

#[test]
fn a_subscriber_that_asked_for_notices_can_be_polled() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let waker = Waker::new(&writer, port.views[0].subscribers()).unwrap();
    let client = Client::connect(&stage.path).unwrap();
    let mut subscription = client.subscribe(&main_view(), true).unwrap();
    let mut frame = TokenFrameBuf::default();
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    assert!(!poll_readable(&subscription, Duration::ZERO));

    for frame_seq in 1..=3 {
        publish(&mut writer, frame_seq, 0);
        waker.wake();
        assert!(poll_readable(&subscription, HANG));
        assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
        assert!(!poll_readable(&subscription, Duration::ZERO), "reading empties the socket");
    }
}

#[test]
fn notices_start_before_the_segment_arrives() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let subscribers = port.views[0].subscribers();
    for _ in 0..500 {
        let client = RawClient::connect(&stage.path);
        client.send(br#"{"op":"subscribe","view":"camera/main","notify":true}"#).unwrap();
        let [answer, segment] = [client.receive(), client.receive()];
        assert!(answer.starts_with(br#"{"ok":true"#), "{answer:?}");
        assert!(segment.starts_with(br#"{"event":"segment""#), "{segment:?}");
        // A frame that is published from here on has a notice.
        assert!(subscribers.try_recv().is_ok());
    }
}

#[test]
fn no_notice_overtakes_the_answer() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    let waker = Waker::new(&writer, port.views[0].subscribers()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                waker.wake();
                // Notices that fill the socket would leave no room for the segment.
                std::thread::sleep(MOMENT);
            }
        });
        let beginnings: Vec<_> = (0..500)
            .map(|_| {
                let client = RawClient::connect(&stage.path);
                client.send(br#"{"op":"subscribe","view":"camera/main","notify":true}"#).unwrap();
                let answer = client.receive();
                let after = std::iter::repeat_with(|| client.receive());
                (answer, after.take(100).find(|message| message.len() != NOTICE_BYTES))
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        for (answer, segment) in beginnings {
            assert!(answer.starts_with(br#"{"ok":true"#), "{answer:?}");
            let segment = segment.expect("a segment among the notices");
            assert!(segment.starts_with(br#"{"event":"segment""#), "{segment:?}");
        }
    });
}

#[test]
fn a_subscriber_that_never_reads_is_dropped_and_others_follow_on() {
    let stage = Stage::open();
    let (port, mut kept) = stage.live_stream("camera", &["main"]);
    let request = br#"{"op":"subscribe","view":"camera/main"}"#;
    let (deaf, other) = (RawClient::connect(&stage.path), RawClient::connect(&stage.path));
    deaf.send(request).unwrap();
    assert_eq!(other.ask(request)["ok"], true);
    let counters = stage.server().counters();
    for _ in 0..5000 {
        assert!(other.receive().starts_with(br#"{"event":"segment""#));
        if counters.clients_dropped.get() == 1 {
            break;
        }
        kept = writer(&main_view());
        port.views[0].set_segment(kept.reader_fd().unwrap(), kept.epoch());
    }
    assert_eq!(counters.clients_dropped.get(), 1);
    let mut subscription = subscribed(&stage);
    let mut frame = TokenFrameBuf::default();
    publish(&mut kept, 1, 1);
    assert_eq!(subscription.next_frame(&mut frame, HANG).unwrap(), Next::Frame { missed: 0 });
}

/// A subscription to `camera/main` that has its first segment.
fn subscribed(stage: &Stage) -> Subscription {
    let client = Client::connect(&stage.path).unwrap();
    let mut subscription = client.subscribe(&main_view(), false).unwrap();
    let next = subscription.next_frame(&mut TokenFrameBuf::default(), HANG).unwrap();
    assert_eq!(next, Next::NewSegment);
    subscription
}

fn poll_readable(subscription: &Subscription, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).unwrap();
    poll(&mut [PollFd::new(subscription, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}
