//! A reader never takes a frame that mixes two, however fast the writer is.
//!
//! Every word of a frame follows from its number, so a single word of another frame shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foveate::ring::{
    ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrame, TokenFrameBuf, TokenRecord,
    Writer,
};
use support::{as_token_frame, frame, reader_of, spec};

#[path = "support/ring.rs"]
mod support;

const TOKEN_COUNT: usize = 24;

/// Frames that the writer publishes as fast as it can. The ring of two slots is then lapped all the time.
const FRAME_COUNT: u64 = 10_000;

/// A change of the state is quicker than a frame.
const STATE_COUNT: usize = 100_000;

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
        frame.head = *borrowed.head();
        frame.records.clear();
        frame.records.extend((0..borrowed.token_count()).map(|index| borrowed.record(index)));
        frame.pixels.clear();
        let words = borrowed.pixel_words().iter().map(|word| word.load(Ordering::Relaxed));
        frame.pixels.extend(words.flat_map(u64::to_le_bytes));
        frame.pixels.truncate(borrowed.pixel_bytes());
        // A lapped frame is no frame, but it was read.
        let missed = borrowed.missed();
        Ok(borrowed.finish().map_or(ReadOutcome::Nothing, |()| ReadOutcome::Frame { missed }))
    });
}

#[test]
fn a_state_has_the_reason_that_was_given_with_it() {
    let mut writer = Writer::create(&spec(1)).unwrap();
    let reader = reader_of(&writer);
    let states = [(State::Stalled, "s".repeat(127)), (State::Ended, "e".repeat(50))];
    writer.set_state(states[0].0, &states[0].1);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (state, reason) in states.iter().cycle().take(STATE_COUNT) {
                writer.set_state(*state, reason);
                // Leaves the readers a moment: no daemon writes its state all the time.
                (0..100).for_each(|_| hint::spin_loop());
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
    let spec = SegmentSpec { slot_count: 2, ..spec(TOKEN_COUNT) };
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    let template = frame(1, TOKEN_COUNT, spec.format);
    let is_done = AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        let is_done = &is_done;
        let reading = scope.spawn(move || {
            let mut frame = TokenFrameBuf::default();
            let mut taken = 0;
            loop {
                let was_done = is_done.load(Ordering::Acquire);
                match read(&mut reader, &mut frame) {
                    Ok(ReadOutcome::Frame { .. }) => {
                        check(&frame);
                        taken += 1;
                    }
                    // A ring of two may be overrun 64 times in a row.
                    Ok(ReadOutcome::Nothing) | Err(RingError::Overtaken { .. }) => {
                        if was_done {
                            return taken;
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let (mut records, mut pixels) = (template.records.clone(), template.pixels.clone());
        for number in 1..=FRAME_COUNT {
            fill(number, &mut records, &mut pixels);
            let mut stamp = template.head.stamp;
            stamp.frame_seq = number;
            stamp.capture_ns = mixed(number);
            let whole = as_token_frame(&template);
            let (records, pixels) = (&records[..], &pixels[..]);
            assert_eq!(writer.publish(&TokenFrame { stamp, records, pixels, ..whole }), number);
        }
        is_done.store(true, Ordering::Release);
        reading.join().unwrap()
    });
    assert!(0 < taken, "the reader took no frame at all");
}

fn fill(number: u64, records: &mut [TokenRecord], pixels: &mut [u8]) {
    for record in records {
        record.changed_frame = number;
        record.x0 = u32::try_from(mixed(number) >> 32).unwrap();
        record.relevance = number as f32;
    }
    for (chunk, index) in pixels.chunks_exact_mut(8).zip(0..) {
        chunk.copy_from_slice(&mixed(number ^ index << 32).to_le_bytes());
    }
}

fn check(frame: &TokenFrameBuf) {
    let number = frame.head.ring_sequence;
    assert_eq!(frame.head.stamp.frame_seq, number);
    assert_eq!(frame.head.stamp.capture_ns, mixed(number));
    let mut expected = (frame.records.clone(), frame.pixels.clone());
    fill(number, &mut expected.0, &mut expected.1);
    assert_eq!(frame.records, expected.0, "records of frame {number}");
    assert!(frame.pixels == expected.1, "texels of frame {number}");
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 27
}
