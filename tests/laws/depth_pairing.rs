//! Which depth picture a frame gets: the nearest within the bound of those that have arrived, and nothing else.

use foveate_core::depth::pairing::{ClipRounds, Moment, Pairing, WAITING_MAX};
use proptest::prelude::*;

const BOUND_NS: u64 = 17;

fn at(ns: u64) -> Moment {
    Moment { round: 0, ns }
}

/// An arrival in a stream: a depth picture or a frame.
#[derive(Clone, Copy, Debug)]
enum Event {
    Depth(Moment),
    Frame(Moment),
}

/// Two clocks that go on, each by steps of its own; sometimes a clip starts over.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (any::<bool>(), 0_u64..60, 0_u32..40);
    proptest::collection::vec(event, 1..80).prop_map(|steps| {
        let (mut depth, mut frame) = (Moment::default(), Moment::default());
        let events = steps.into_iter().map(|(is_depth, step, over)| {
            let clock = if is_depth { &mut depth } else { &mut frame };
            match over {
                0 => *clock = Moment { round: clock.round + 1, ns: step },
                _ => clock.ns += step,
            }
            if is_depth { Event::Depth(*clock) } else { Event::Frame(*clock) }
        });
        events.collect()
    })
}

proptest! {
    /// Of all pictures that have arrived, no other one is nearer, and every picture is taken, dropped or waiting.
    #[test]
    fn a_frame_gets_the_nearest_picture_that_has_arrived(events in events()) {
        let mut pairing = Pairing::new(BOUND_NS);
        let (mut arrived, mut taken, mut dropped) = (Vec::new(), Vec::new(), 0);
        for event in events {
            match event {
                Event::Depth(at) => {
                    dropped += u64::from(pairing.add(at, arrived.len()).1);
                    arrived.push(at);
                }
                Event::Frame(at) => {
                    let (found, passed) = pairing.pair(at);
                    let found = found.copied();
                    dropped += passed;
                    // Only the newest pictures wait. Those before the picture of an earlier frame are farther from this frame.
                    let newest = arrived.len().saturating_sub(WAITING_MAX)..arrived.len();
                    let nearest = newest
                        .filter(|index| arrived[*index].round == at.round)
                        .map(|index| (arrived[index].ns.abs_diff(at.ns), index))
                        .filter(|(distance, _)| *distance <= BOUND_NS)
                        .min();
                    prop_assert_eq!(found.map(|index| arrived[index].ns.abs_diff(at.ns)),
                        nearest.map(|(distance, _)| distance));
                    if let Some(index) = found {
                        prop_assert_eq!(arrived[index].round, at.round);
                        taken.push(index);
                    }
                }
            }
        }
        taken.dedup();
        let (_, waiting) = pairing.pair(Moment { round: u64::MAX, ns: 0 });
        prop_assert_eq!(taken.len() as u64 + dropped + waiting, arrived.len() as u64);
    }
}

#[test]
fn a_picture_that_comes_after_its_frame_is_late() {
    let mut pairing = Pairing::new(BOUND_NS);
    assert_eq!(pairing.pair(at(100)), (None, 0));
    assert_eq!(pairing.pair(at(133)), (None, 0));
    assert_eq!(pairing.add(at(50), 'a'), (false, false));
    assert_eq!(pairing.add(at(101), 'b'), (true, false));
    // One picture is late once.
    assert_eq!(pairing.add(at(102), 'c'), (false, false));
    assert_eq!(pairing.add(at(140), 'd'), (true, false));
    // It may still be the nearest of the next frame.
    assert_eq!(pairing.pair(at(150)), (Some(&'d'), 3));
    assert_eq!(pairing.add(at(151), 'e'), (false, false));
}

#[test]
fn the_oldest_makes_room_and_one_picture_serves_several_frames() {
    let mut pairing = Pairing::new(BOUND_NS);
    let most = WAITING_MAX as u64;
    for time in 0..most {
        assert_eq!(pairing.add(at(1000 * time), time), (false, false));
    }
    assert_eq!(pairing.add(at(1000 * most), most), (false, true));
    assert_eq!(pairing.pair(at(0)), (None, 0));
    assert_eq!(pairing.pair(at(1000)), (Some(&1), 0));
    assert_eq!(pairing.pair(at(1016)), (Some(&1), 0));
    assert_eq!(pairing.pair(at(1018)), (None, 0));
    assert!(pairing.is_settled(at(1000 * most)) && !pairing.is_settled(at(1000 * most + 1)));
}

/// A clip that starts over is not paired with the round before.
#[test]
fn rounds_are_told_apart() {
    let (mut rounds, mut pairing) = (ClipRounds::default(), Pairing::new(BOUND_NS));
    let moments = [0, 33, 66, 0, 33].map(|ns| rounds.moment(ns));
    assert_eq!(moments.map(|moment| moment.round), [0, 0, 0, 1, 1]);
    pairing.add(moments[2], 'l');
    assert_eq!(pairing.pair(moments[3]), (None, 1));
    pairing.add(moments[3], 'f');
    assert_eq!(pairing.pair(moments[3]), (Some(&'f'), 0));
    // Of the same time, in the round before.
    assert_eq!(pairing.pair(at(0)), (None, 0));
    // Some disorder is no other round; a clip whose first picture was skipped is one.
    let moments = [40, 33, 500, 533, 20].map(|ms| rounds.moment(1_000_000 * ms));
    assert_eq!(moments.map(|moment| moment.round), [1, 1, 1, 1, 2]);
}

/// Pictures that came before it was known by which time they are paired.
#[test]
fn pictures_can_be_given_other_times() {
    let mut pairing = Pairing::new(BOUND_NS);
    pairing.add(at(7000), 0_u64);
    pairing.add(at(7033), 33);
    assert_eq!(pairing.pair(at(0)), (None, 0));
    pairing.retime(|ns| at(*ns));
    assert_eq!(pairing.pair(at(30)), (Some(&33), 1));
    assert_eq!(pairing.add(at(0), 0), (false, false));
    assert_eq!(pairing.pair(Moment { round: 1, ns: 0 }), (None, 1));
}
