//! A reader never takes a frame that mixes two, however fast the writer is.
//!
//! Frames differ in every word and what a frame holds follows from its number, so a single word of another shows.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foveate_ring::{
    FrameHead, ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Writer,
};

use crate::ring::{as_token_frame, copy_items, frame, reader_of, spec};

/// Frames that the writer publishes as fast as it can. The ring of two slots is then lapped all the time.
const FRAME_COUNT: u64 = 20_000;

/// Different contents of frames; odd, so that each slot sees all of them. The first has many tokens, the others few.
const CONTENTS: usize = 5;

const MANY: usize = 64;
const FEW: usize = 3;

/// A change of the state is quicker than a frame.
const STATE_COUNT: usize = 5_000_000;

#[test]
fn copies_of_the_newest_frame_are_whole() {
    race(|reader, frame| reader.read_newest(frame));
}

#[test]
fn copies_of_the_next_frame_are_whole() {
    race(|reader, frame| reader.read_next(frame));
}

#[test]
fn a_borrowed_frame_that_is_still_valid_is_whole() {
    race(|reader, frame| {
        let Some(borrowed) = reader.borrow_newest()? else { return Ok(ReadOutcome::Nothing) };
        frame.head.clone_from(borrowed.head());
        frame.records.clear();
        frame.records.extend((0..borrowed.token_count()).map(|index| borrowed.record(index)));
        copy_items(&borrowed, 0, &mut frame.pixels);
        frame.planes.resize_with(1, Vec::new);
        copy_items(&borrowed, 1, &mut frame.planes[0]);
        // A lapped frame is no frame, but it was read.
        let missed = borrowed.missed();
        Ok(borrowed.finish().map_or(ReadOutcome::Nothing, |()| ReadOutcome::Frame { missed }))
    });
}

#[test]
fn a_state_has_the_reason_that_was_given_with_it() {
    let mut writer = Writer::create(&spec(1)).unwrap();
    let reader = reader_of(&writer);
    // Three, so that each of the two places sees all of them.
    let states = [
        (State::Live, "l".repeat(80)),
        (State::Stalled, "s".repeat(127)),
        (State::Ended, "e".repeat(50)),
    ];
    writer.set_state(states[0].0, &states[0].1);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (state, reason) in states.iter().cycle().take(STATE_COUNT) {
                writer.set_state(*state, reason);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            let state = reader.state();
            assert!(states.contains(&state), "{state:?}");
        }
    });
}

/// Lets a writer and a reader run against each other, and checks each frame that the reader takes.
fn race(
    mut read: impl FnMut(&mut Reader, &mut TokenFrameBuf) -> Result<ReadOutcome, RingError> + Send,
) {
    let spec = SegmentSpec { slot_count: 2, ..spec(MANY) };
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    let frames: [_; CONTENTS] = std::array::from_fn(|content| {
        frame(content as u64, if content == 0 { MANY } else { FEW }, spec.format)
    });
    let frames = &frames;
    let is_done = &AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut frame = TokenFrameBuf::default();
            let mut taken = 0;
            loop {
                let was_done = is_done.load(Ordering::Acquire);
                match read(&mut reader, &mut frame) {
                    Ok(ReadOutcome::Frame { .. }) => {
                        check(&frame, frames);
                        taken += 1;
                    }
                    // A ring of two may be overrun many times in a row.
                    Ok(ReadOutcome::Nothing) | Err(RingError::Overtaken { .. }) => {
                        if was_done {
                            return taken;
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for number in 1..=FRAME_COUNT {
            let frame = &frames[content_of(number)];
            assert_eq!(writer.publish(&as_token_frame(frame)), number);
            if frame.records.len() == MANY {
                // The reader begins to copy what is soon replaced by frames that are written much quicker.
                (0..500).for_each(|_| hint::spin_loop());
            }
        }
        is_done.store(true, Ordering::Release);
        reading.join().unwrap()
    });
    assert!(0 < taken, "the reader took no frame at all");
}

fn content_of(number: u64) -> usize {
    usize::try_from(number).unwrap() % CONTENTS
}

fn check(frame: &TokenFrameBuf, frames: &[TokenFrameBuf]) {
    let FrameHead { ring_sequence, publish_ns, .. } = frame.head;
    let expected = &frames[content_of(ring_sequence)];
    assert_eq!(frame.head, FrameHead { ring_sequence, publish_ns, ..expected.head.clone() });
    assert!(frame.records == expected.records, "records of frame {ring_sequence}");
    assert!(frame.pixels == expected.pixels, "texels of frame {ring_sequence}");
    assert!(frame.planes == expected.planes, "planes of frame {ring_sequence}");
}
