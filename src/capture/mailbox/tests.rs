//! The mailbox loses nothing uncounted: what is posted is taken, or replaced and reported, in order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::{PostResult, TakeResult, mailbox};
use crate::{CaptureError, End, Pace};

/// Far above what anything takes.
const HANG: Duration = Duration::from_secs(120);

proptest! {
    /// Whatever the order of posting and taking: a taken value is the newest, and a post says `Replaced`
    /// exactly when the value before it was not taken.
    #[test]
    fn newest_wins_and_every_replacement_is_told(takes in prop::collection::vec(any::<bool>(), 1..200)) {
        let (mut producer, mut consumer) = mailbox(Pace::Realtime);
        let mut waiting = None;
        for (value, take) in takes.into_iter().enumerate() {
            if take {
                let taken = match consumer.take(Duration::ZERO) {
                    TakeResult::Frame(value) => Some(value),
                    TakeResult::TimedOut => None,
                    TakeResult::Ended(end) => panic!("nobody ended it: {end:?}"),
                };
                prop_assert_eq!(taken, waiting.take());
            } else {
                let expected = if waiting.replace(value).is_some() { PostResult::Replaced } else { PostResult::Delivered };
                prop_assert_eq!(producer.post(value), expected);
            }
        }
    }
}

#[test]
fn between_threads_every_value_is_taken_in_order_or_reported_replaced() {
    const COUNT: u64 = 200_000;
    let (mut producer, mut consumer) = mailbox(Pace::Realtime);
    let ender = producer.mailbox();
    let posting = thread::spawn(move || {
        let replaced =
            (1..=COUNT).filter(|value| producer.post(*value) == PostResult::Replaced).count();
        ender.end(End::Eos);
        replaced as u64
    });
    let (mut taken, mut last) = (0, 0);
    loop {
        match consumer.take(HANG) {
            TakeResult::Frame(value) => {
                assert!(last < value, "{value} after {last}");
                (taken, last) = (taken + 1, value);
            }
            TakeResult::Ended(end) => break assert_eq!(end, End::Eos),
            TakeResult::TimedOut => panic!("the consumer was not woken"),
        }
    }
    assert_eq!(last, COUNT, "the newest value is never lost");
    assert_eq!(taken + posting.join().unwrap(), COUNT);
}

#[test]
fn with_every_frame_nothing_is_replaced() {
    const COUNT: u64 = 20_000;
    let (mut producer, mut consumer) = mailbox(Pace::EveryFrame);
    let ender = producer.mailbox();
    let posting = thread::spawn(move || {
        for value in 1..=COUNT {
            assert_eq!(producer.post(value), PostResult::Delivered);
        }
        ender.end(End::Eos);
    });
    for expected in 1..=COUNT {
        match consumer.take(HANG) {
            TakeResult::Frame(value) => assert_eq!(value, expected),
            other => panic!("{other:?} instead of {expected}"),
        }
    }
    assert!(matches!(consumer.take(HANG), TakeResult::Ended(End::Eos)));
    posting.join().unwrap();
}

#[test]
fn dropping_the_consumer_releases_a_waiting_producer() {
    let (mut producer, consumer) = mailbox(Pace::EveryFrame);
    assert_eq!(producer.post(1), PostResult::Delivered);
    let waiting = thread::spawn(move || producer.post(2));
    drop(consumer);
    assert_eq!(waiting.join().unwrap(), PostResult::Closed);
}

#[test]
fn ending_releases_the_producer_and_keeps_the_frame() {
    let (mut producer, mut consumer) = mailbox(Pace::EveryFrame);
    let ender = producer.mailbox();
    assert_eq!(producer.post(1), PostResult::Delivered);
    let waiting = thread::spawn(move || producer.post(2));
    ender.end(End::Failed(CaptureError::LiveEnded));
    assert_eq!(waiting.join().unwrap(), PostResult::Closed);
    assert!(matches!(consumer.take(HANG), TakeResult::Frame(1)));
    let end = End::Failed(CaptureError::LiveEnded);
    for _ in 0..2 {
        assert!(matches!(consumer.take(HANG), TakeResult::Ended(told) if told == end));
    }
}

#[test]
fn the_first_end_counts() {
    let (producer, mut consumer) = mailbox::<u8>(Pace::Realtime);
    producer.mailbox().end(End::Eos);
    producer.mailbox().end(End::Failed(CaptureError::LiveEnded));
    assert!(matches!(consumer.take(HANG), TakeResult::Ended(End::Eos)));
}

#[test]
fn an_empty_mailbox_times_out() {
    let (_producer, mut consumer) = mailbox::<u8>(Pace::Realtime);
    assert!(matches!(consumer.take(Duration::from_millis(5)), TakeResult::TimedOut));
}

#[test]
fn a_value_that_nobody_takes_is_released_with_the_consumer() {
    let value = std::sync::Arc::new(());
    let (mut producer, consumer) = mailbox(Pace::Realtime);
    producer.post(std::sync::Arc::clone(&value));
    drop(consumer);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}
