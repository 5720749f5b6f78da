//! What holds for every policy and any count of foveae, whatever clients say and whatever the source and its clock do; and what
//! each policy promises beyond.

#![allow(clippy::cast_possible_truncation, reason = "numbers of a test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use foveate_core::frame::FrameTime;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{
    FOVEAE_MAX, Fixation, FixationReason, Fixations, Gaze, Points, snapped,
};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_core::geometry::relevance::Relevance;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::geometry::weights::Peak;
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::{Controller, FoveaPolicy, Policy};
use foveate_gaze::feedback::{ChannelWeight, Feedback, LookArea};
use foveate_gaze::log::{GazeLog, entry_line, header_line};
use foveate_gaze::motion::Motions;
use foveate_gaze::need::Need;
use foveate_gaze::relevance::features::TileFeatures;
use foveate_gaze::relevance::injection::Injection;
use foveate_gaze::relevance::seen::{Seen, SeenTiles};
use proptest::prelude::*;

const EXTENT: Extent = Extent::new(640, 480);
const FRAME_NS: u64 = 33_333_333;
const SECOND_NS: u64 = 1_000_000_000;

/// The frame that clients send maps of: the first, which no policy has seen.
const MAP_FRAME: u64 = 1;

/// The input before a frame.
#[derive(Clone, Debug)]
enum Operation {
    Nothing,
    Look { points: Points, hold_ns: Option<u64> },
    Attend { seed: u64 },
    Show { map: Arc<AttentionMap> },
    Inject { seed: u64 },
    Weigh { seed: u64 },
    Release,
    Resize(u32, u32),
}

/// A frame: what happens before it, how long after the one before it comes, and what is to be seen.
#[derive(Clone, Debug)]
struct Frame {
    operation: Operation,
    /// In nanoseconds; negative where the stream begins again.
    after_ns: i64,
    seed: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn every_policy_keeps_the_laws(
        frames in frames(), parameters in any_parameters(), (policy, foveae) in any_policy(),
    ) {
        Course::with(policy, parameters, foveae).play(&frames)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A log of any policy, written and read again: the replay is what was recorded, and keeps what it kept.
    #[test]
    fn replay_keeps_the_laws_and_repeats_what_was_recorded(
        frames in frames(), parameters in any_parameters(), attends in 0..5,
        foveae in foveae(), several in several_policies(),
    ) {
        let (policy, foveae) = match attends {
            0 => (Policy::Feedback, foveae),
            1 => (Policy::Saliency, foveae),
            2 => (relevance(), foveae),
            3 => (Policy::Auto, foveae),
            _ => (each(&several), several.len()),
        };
        let recorded = Course::with(policy, parameters, foveae).play(&frames)?;
        let log = GazeLog::parse(&text_of(&recorded)).unwrap();
        let policy = Policy::Replay { log: Arc::new(log) };
        let replayed = Course::with(policy, parameters, foveae).play(&frames)?;
        prop_assert_eq!(recorded, replayed);
    }

    #[test]
    fn equal_calls_lead_to_equal_gaze(
        frames in frames(), parameters in any_parameters(), foveae in foveae(),
    ) {
        for policy in [Policy::Feedback, relevance(), Policy::Auto] {
            let play = || Course::with(policy.clone(), parameters, foveae).play(&frames);
            prop_assert_eq!(play()?, play()?);
        }
    }

    /// However long the client keeps sending, once the map has been decided on.
    #[test]
    fn an_equal_map_causes_no_saccade(
        first in any::<u64>(), seed in any::<u64>(), parameters in any_parameters(), foveae in foveae(),
    ) {
        let parameters =
            GazeParameters { saccade_hz: parameters.saccade_hz.max(2.0), ..parameters };
        let mut course = Course::with(Policy::Feedback, parameters, foveae);
        course.pass(SECOND_NS, Operation::Attend { seed: first })?;
        let mut decided = None;
        for time in 0..32 {
            course.pass(SECOND_NS / 4, Operation::Attend { seed })?;
            // After dwelling for at most 2 s, and waiting for half a second.
            if 12 <= time {
                let now = course.fixations();
                prop_assert_eq!(decided.get_or_insert_with(|| now.clone()), &now);
            }
        }
    }
}

#[test]
fn a_look_holds_as_long_as_it_says() {
    for policy in [fixed(), Policy::Feedback, Policy::Saliency, relevance(), Policy::Auto] {
        let mut course = Course::new(policy, parameters());
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        course.step(&frame(look(10.0, 20.0, Some(5 * SECOND_NS)))).unwrap();
        course.pass(4 * SECOND_NS, Operation::Attend { seed: 1 }).unwrap();
        assert_eq!(place(&course), (10.0, 20.0, FixationReason::Look));
        course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
        assert_ne!(course.fixation().reason, FixationReason::Look);
    }
}

#[test]
fn a_fixed_policy_holds_a_look_for_ever() {
    let mut course = Course::new(fixed(), parameters());
    course.step(&frame(look(10.0, 20.0, None))).unwrap();
    course.pass(20 * SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(place(&course), (10.0, 20.0, FixationReason::Look));
    course.step(&frame(Operation::Release)).unwrap();
    assert_eq!(place(&course), (320.0, 120.0, FixationReason::Policy));
}

#[test]
fn a_look_without_a_time_holds_until_silence_or_newer_attention() {
    for policy in [Policy::Feedback, Policy::Saliency] {
        let mut course = Course::new(policy, parameters());
        course.step(&frame(look(10.0, 20.0, None))).unwrap();
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        assert_eq!(place(&course), (10.0, 20.0, FixationReason::Look));
        course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
        assert_eq!(course.fixation().reason, FixationReason::Saliency);
    }
    let mut course = Course::new(Policy::Feedback, parameters());
    course.step(&frame(look(10.0, 20.0, None))).unwrap();
    course.pass(SECOND_NS / 2, Operation::Attend { seed: 3 }).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Attend);
}

#[test]
fn attention_is_followed_while_it_comes() {
    let mut course = Course::new(Policy::Feedback, parameters());
    course.pass(SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency);
    course.pass(SECOND_NS / 2, Operation::Attend { seed: 5 }).unwrap();
    let Peak { x, y, .. } = map_of(5, EXTENT).peak();
    let fixation = course.fixation();
    assert_eq!(fixation.reason, FixationReason::Attend);
    assert!((fixation.x - x).abs() <= 0.05 && (fixation.y - y).abs() <= 0.05);
    assert_eq!(course.relevance_frame(), Some(MAP_FRAME), "of the map");
    course.pass(SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation(), fixation);
    course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency, "after silence");
    assert_ne!(course.relevance_frame(), Some(MAP_FRAME), "of what is seen");
}

#[test]
fn attention_is_ignored_by_other_policies() {
    for policy in [fixed(), Policy::Saliency] {
        let course = |operation: Operation| {
            let mut course = Course::new(policy.clone(), parameters());
            course.pass(SECOND_NS, operation).unwrap();
            course.gaze.clone()
        };
        assert_eq!(course(Operation::Attend { seed: 7 }), course(Operation::Nothing));
    }
}

/// As those of `feedback`, and what the view needs where those of saliency looked.
#[test]
fn auto_follows_maps_until_silence_and_then_need() {
    let mut course = Course::new(Policy::Auto, parameters());
    course.pass(SECOND_NS, Operation::Attend { seed: 5 }).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Attend);
    course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
    assert!(course.fixation().reason.has_map_of(FixationReason::Unseen), "after silence");
    course.pass(SECOND_NS, look(10.0, 20.0, None)).unwrap();
    assert_eq!(place(&course), (10.0, 20.0, FixationReason::Look));
    course.pass(SECOND_NS / 2, Operation::Release).unwrap();
    assert!(course.fixation().reason.has_map_of(FixationReason::Unseen), "after a release");
}

/// Two bumps far apart are two places, and a line of them is one.
#[test]
fn a_concentrated_map_asks_for_its_box() {
    let line = map_from(|x, y| {
        let is_on = (200.0..400.0).contains(&x) && (100.0..120.0).contains(&y);
        if is_on { 1.0 } else { 0.2 }
    });
    let two = bumps(&[((100.0, 100.0), 1.0), ((500.0, 400.0), 0.9)]);
    for policy in [Policy::Feedback, Policy::Auto] {
        let region = |map: &Arc<AttentionMap>| {
            let mut course = Course::new(policy.clone(), parameters());
            course.pass(SECOND_NS / 2, Operation::Show { map: Arc::clone(map) }).unwrap();
            course.fixation().region
        };
        let wanted = Region { x0: 200.0, y0: 100.0, x1: 400.0, y1: 120.0 };
        assert_eq!(region(&line), Some(wanted), "{policy}");
        assert_eq!(region(&two), None, "{policy}");
    }
}

#[test]
fn looking_at_a_box_sets_the_fixations_region() {
    let area = LookArea { size: Some((50.0, 31.0)), share: Some(0.5) };
    for policy in [fixed(), Policy::Feedback, Policy::Saliency, relevance(), Policy::Auto] {
        let mut controller =
            Controller::new(policy, parameters(), false, EXTENT, 1, frame_time(1, 0));
        let points = Points::from_iter([(620.0, 100.5)]);
        let look = Feedback::Look { points, hold_ns: None, frame_seq: None, area };
        controller.accept_feedback(&look, frame_time(2, FRAME_NS));
        let fixation = only(controller.gaze());
        let cut = Region { x0: 595.0, y0: 85.0, x1: 640.0, y1: 116.0 };
        assert_eq!((fixation.region, fixation.share), (Some(cut), Some(0.5)));
        controller.arrive(frame_time(2, FRAME_NS), None);
        // The same place, and no box.
        controller
            .accept_feedback(&Feedback::look_at(620.0, 100.5, None), frame_time(3, 2 * FRAME_NS));
        let again = only(controller.gaze());
        assert_eq!(again, Fixation { region: None, share: None, ..fixation });
    }
}

#[test]
fn points_divide_the_share_that_is_asked_for() {
    let mut controller =
        Controller::new(Policy::Feedback, parameters(), false, EXTENT, 2, frame_time(1, 0));
    let points = Points::from_iter([(100.0, 100.0), (500.0, 300.0)]);
    let area = LookArea { size: None, share: Some(0.5) };
    let look = Feedback::Look { points, hold_ns: None, frame_seq: None, area };
    controller.accept_feedback(&look, frame_time(2, FRAME_NS));
    let shares = controller.gaze().fixations.iter().map(|fixation| fixation.share);
    assert!(shares.eq([Some(0.25); 2]));
}

#[test]
fn a_box_that_is_pursued_moves_with_its_middle() {
    let chase = Chase { object: (60.0, 0.0), ..Chase::default() };
    let parameters = Chase::parameters(true);
    let mut controller =
        Controller::new(Policy::Auto, parameters, false, EXTENT, 1, frame_time(1, 0));
    let mut motions = Motions::new(PyramidShape::new(EXTENT));
    let mut seen: Option<(CoarseLevel, u64)> = None;
    for index in 0..40 {
        let at = frame_time(index + 1, index * FRAME_NS);
        if index == 2 {
            let area = LookArea { size: Some((80.0, 40.0)), share: None };
            let points = Points::from_iter([chase.begin]);
            let hold_ns = Some(u64::MAX);
            controller
                .accept_feedback(&Feedback::Look { points, hold_ns, frame_seq: None, area }, at);
        }
        let what = seen.as_ref().map(|(coarse, frame_seq)| Seen {
            motion: Some(&motions),
            ..Seen::coarsely(coarse, *frame_seq)
        });
        controller.arrive(at, what);
        let shown = chase.picture(index);
        motions.follow(&shown, at);
        seen = Some((shown, at.frame_seq));
    }
    let Fixation { x, y, region, .. } = only(controller.gaze());
    let Region { x0, y0, x1, y1 } = region.expect("a box");
    assert!(chase.begin.0 + 40.0 < x, "it is followed: {x}");
    assert_eq!((x1 - x0, y1 - y0), (80.0, 40.0));
    assert!((0.5 * (x0 + x1) - x).abs() <= 0.5 && (0.5 * (y0 + y1) - y).abs() <= 0.5);
}

#[test]
fn release_returns_the_gaze_to_the_policy() {
    let mut course = Course::new(Policy::Feedback, parameters());
    course.pass(SECOND_NS, Operation::Attend { seed: 5 }).unwrap();
    course.step(&frame(look(10.0, 20.0, None))).unwrap();
    course.pass(SECOND_NS / 3, Operation::Nothing).unwrap();
    course.pass(FRAME_NS, Operation::Release).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency);
}

/// Nor where there is nothing to see, as in a black picture.
#[test]
fn where_nothing_is_needed_the_middle_is_looked_at() {
    for policy in [Policy::Feedback, Policy::Saliency, relevance(), Policy::Auto] {
        assert!(policy.reads(false).coarse);
        let is_scored = policy == relevance();
        let begin = frame_time(1, 0);
        let mut controller = Controller::new(policy, parameters(), false, EXTENT, 3, begin);
        let black = CoarseLevel::new(PyramidShape::new(EXTENT));
        for frame_seq in 1..100 {
            // A scorer finds places in any picture.
            let seen = |seq: u64| (seq > 50 && !is_scored).then(|| Seen::coarsely(&black, seq));
            controller.arrive(frame_time(frame_seq, frame_seq * FRAME_NS), seen(frame_seq - 1));
            let Fixation { id, x, y, reason, .. } = only(controller.gaze());
            assert_eq!((id, x, y, reason), (1, 320.0, 240.0, FixationReason::Policy));
            assert_eq!(controller.gaze().relevance, None);
            controller.decide(seen(frame_seq), &Need::none(EXTENT), &unchanged());
        }
    }
}

/// The greatest need first, as often as decisions are made, and elsewhere once it is met. The second place changes all the time.
#[test]
fn what_is_needed_most_is_looked_at_in_turn() {
    let mut controller =
        Controller::new(Policy::Auto, parameters(), false, EXTENT, 1, frame_time(1, 0));
    let columns = EXTENT.width as usize / 16;
    let mut blocks = vec![1.0; EXTENT.area() / 256];
    let places = [(3, 4), (30, 8), (20, 24)];
    for (rank, (column, row)) in (0..).zip(places) {
        blocks[row * columns + column] = 3000.0 / f32::from(1u8 + rank);
    }
    let mut need = Need::none(EXTENT);
    let mut changed_frame = unchanged();
    let (column, row) = places[1];
    let changing = row / 2 * columns / 2 + column / 2;
    let mut looked_at: Vec<(u64, f64, f64)> = Vec::new();
    let mut reasons = Vec::new();
    for frame_seq in 1..40 {
        controller.arrive(frame_time(frame_seq, frame_seq * FRAME_NS), None);
        let Fixation { id, x, y, reason, .. } = only(controller.gaze());
        if looked_at.last().is_none_or(|(last, ..)| *last != id) {
            looked_at.push((id, x, y));
            reasons.push(reason);
        }
        // What lies around the fixation has been shown.
        for (block, needed) in blocks.iter_mut().enumerate() {
            let (column, row) = (block % columns, block / columns);
            let middle = |index: usize| index as f64 * 16.0 + 8.0;
            if 1 < id && (middle(column) - x).hypot(middle(row) - y) < 64.0 {
                *needed = 0.0;
            }
        }
        changed_frame[changing] = frame_seq;
        need.fill(blocks.iter().copied());
        controller.decide(None, &need, &changed_frame);
    }
    for ((_, x, y), (column, row)) in looked_at[1..4].iter().zip(places) {
        let (at_x, at_y) = (column as f64 * 16.0 + 8.0, row as f64 * 16.0 + 8.0);
        assert!((x - at_x).abs() <= 64.0 && (y - at_y).abs() <= 64.0, "{looked_at:?}");
    }
    assert!((4..=7).contains(&looked_at.len()), "four decisions a second: {looked_at:?}");
    use FixationReason::{Changed, Unseen};
    assert_eq!(reasons[1..4], [Unseen, Changed, Unseen]);
}

/// Of two places that are needed as much, the one that a client's weights favour.
#[test]
fn a_weighed_channel_decides_what_is_needed_most() {
    let strokes = |weight| {
        let mut course = Course::new(Policy::Auto, parameters());
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        let before = course.relevance_frame();
        let weights = Arc::new([ChannelWeight { name: "strokes".to_owned(), weight }]);
        course.controller.accept_feedback(&Feedback::Weigh(weights), course.at);
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        (before, course.gaze.relevance.clone(), course.fixation())
    };
    let (before, liked, at_liked) = strokes(8.0);
    let (_, disliked, at_disliked) = strokes(-8.0);
    assert_eq!(before, None, "channels count only once somebody weighs them");
    let weight = |relevance: &Option<Arc<Relevance>>, at: &Fixation| {
        let pixel = PixelBox::of(at.x as u32..at.x as u32 + 1, at.y as u32..at.y as u32 + 1);
        relevance.as_ref().expect("a map").map.greatest(EXTENT, pixel)
    };
    assert!(weight(&liked, &at_disliked) < weight(&liked, &at_liked));
    assert!(weight(&disliked, &at_liked) < weight(&disliked, &at_disliked));
}

#[test]
fn a_gain_of_0_makes_no_relevance() {
    let parameters = GazeParameters { relevance_gain: 0.0, ..parameters() };
    let mut course = Course::new(Policy::Feedback, parameters);
    course.pass(SECOND_NS, Operation::Attend { seed: 1 }).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Attend);
    assert_eq!(course.gaze.relevance, None);
}

#[test]
fn a_replay_begins_with_its_first_entry_and_fits_the_source() {
    let text = [
        header_line("camera/main", EXTENT),
        entry_line(&GazeEntry::new(&gaze_at(3, 64.0, 48.0), 10)),
        entry_line(&GazeEntry::new(&gaze_at(4, 640.0, 0.0), 20)),
    ];
    let log = Arc::new(GazeLog::parse(&text.join("\n")).unwrap());
    let twice = Extent::new(1280, 960);
    let mut controller =
        Controller::new(Policy::Replay { log }, parameters(), false, twice, 1, frame_time(1, 0));
    let mut at = |frame_seq| {
        controller.arrive(frame_time(frame_seq, 0), None);
        let Fixation { id, x, y, .. } = only(controller.gaze());
        (id, x, y)
    };
    let (first, second) = ((3, 128.0, 96.0), (4, 1280.0, 0.0));
    let seen = [1, 9, 10, 19, 20, 500, 12].map(&mut at);
    assert_eq!(seen, [first, first, first, first, second, second, first]);
}

/// Where another recorder came, or masks changed. An entry that only repeats the gaze changes nothing.
#[test]
fn a_replay_plans_afresh_where_the_log_says_so() {
    let entry = |id, x, frame, is_planned_afresh| {
        let entry = GazeEntry::new(&gaze_at(id, x, 48.0), frame);
        entry_line(&GazeEntry { is_planned_afresh, ..entry })
    };
    let text = [
        header_line("camera/main", EXTENT),
        entry(3, 64.0, 10, false),
        entry(3, 64.0, 20, true),
        entry(3, 64.0, 25, false),
        entry(4, 128.0, 30, false),
    ];
    let log = Arc::new(GazeLog::parse(&text.join("\n")).unwrap());
    let mut controller =
        Controller::new(Policy::Replay { log }, parameters(), false, EXTENT, 1, frame_time(1, 0));
    let afresh = [9, 10, 11, 19, 20, 21, 25, 30, 31].map(|frame_seq| {
        controller.arrive(frame_time(frame_seq, 0), None);
        controller.plans_afresh()
    });
    assert_eq!(afresh, [false, false, false, false, true, false, false, false, false]);
}

/// Bumps beside a stronger one and faint ones get no fovea; the others do, the strongest first.
#[test]
fn each_peak_of_a_map_gets_a_fovea() {
    // The second lies within the inhibition around the first.
    let map = bumps(&[
        ((100.0, 100.0), 1.0),
        ((125.0, 100.0), 0.6),
        ((500.0, 400.0), 0.7),
        ((100.0, 400.0), 0.2),
    ]);
    let seen = |foveae| {
        let mut course = Course::with(Policy::Feedback, parameters(), foveae);
        course.pass(SECOND_NS / 2, Operation::Show { map: Arc::clone(&map) }).unwrap();
        course.fixations()
    };
    for foveae in 2..=FOVEAE_MAX {
        let found = seen(foveae);
        assert_eq!(found.len(), 2, "{found:?}");
        for (fixation, (x, y, weight)) in
            found.iter().zip([(100.0, 100.0, 1.0), (500.0, 400.0, 0.7)])
        {
            assert!((fixation.x - x).hypot(fixation.y - y) < 5.0, "{fixation:?}");
            assert!((fixation.weight - weight).abs() < 0.05, "{fixation:?}");
            assert_eq!(fixation.reason, FixationReason::Attend);
        }
    }
    assert_eq!(seen(1).as_slice(), &seen(2)[..1], "one fovea sees the strongest");
}

/// An object wider than the inhibition gets several foveae, one as wide does not.
#[test]
fn a_wide_thing_gets_several_foveae() {
    let count = |width_px: f64| {
        let weight = |x: f64, y: f64| {
            let (dx, dy) = ((x - 320.0) / width_px, (y - 240.0) / 20.0);
            (-0.5 * (dx * dx + dy * dy)).exp()
        };
        let mut course = Course::with(Policy::Feedback, parameters(), 3);
        course.pass(SECOND_NS / 2, Operation::Show { map: map_from(weight) }).unwrap();
        course.fixations().len()
    };
    let radius_px = 0.06 * 640.0;
    assert_eq!([0.5, 0.9, 3.0].map(|share| count(share * radius_px)), [1, 1, 3]);
}

#[test]
fn a_fovea_stays_with_what_it_looks_at_while_others_move() {
    let mut course = Course::with(Policy::Feedback, parameters(), 3);
    let places = [(100.0, 100.0), (500.0, 100.0), (300.0, 400.0)];
    let shown = |places: [(f64, f64); 3], weights: [f64; 3]| {
        let [a, b, c] = [0, 1, 2].map(|index| (places[index], weights[index]));
        Operation::Show { map: bumps(&[a, b, c]) }
    };
    course.pass(SECOND_NS, shown(places, [1.0, 0.9, 0.8])).unwrap();
    let before = course.fixations();
    assert_eq!([0, 1, 2].map(|index| before[index].id), [2, 3, 4]);

    // Another order of their strengths, but the same places.
    course.pass(SECOND_NS, shown(places, [0.8, 0.9, 1.0])).unwrap();
    assert_eq!(course.fixations(), before);

    // One of them walks on.
    course.pass(SECOND_NS, shown([places[0], (560.0, 160.0), places[2]], [1.0, 0.9, 0.8])).unwrap();
    let after = course.fixations();
    assert_eq!((after[0], after[2], after.len()), (before[0], before[2], 3));
    assert!((after[1].x - 560.0).hypot(after[1].y - 160.0) < 5.0, "{after:?}");
    assert_eq!(after[1].id, 5);
}

/// For each fovea: a new object must be worth more than what the nearest fovea without a goal looks at.
#[test]
fn every_fovea_has_hysteresis() {
    let present = [((100.0, 100.0), 1.0), ((500.0, 100.0), 0.6)];
    let after = |weight: f64| {
        let mut course = Course::with(Policy::Feedback, parameters(), 2);
        course.pass(SECOND_NS, Operation::Show { map: bumps(&present) }).unwrap();
        let before = course.fixations();
        let map = bumps(&[present[0], present[1], ((300.0, 400.0), weight)]);
        course.pass(SECOND_NS, Operation::Show { map }).unwrap();
        (before, course.fixations())
    };
    let (before, stays) = after(0.65);
    assert_eq!(stays, before, "0.65 is not 1.2 times 0.6");
    let (before, moved) = after(0.8);
    assert_eq!(moved[0], before[0]);
    assert!((moved[1].x - 300.0).hypot(moved[1].y - 400.0) < 5.0, "{moved:?}");

    // A fovea ends where its place is no longer worth one, by the same factor.
    let after = |weight: f64| {
        let mut course = Course::with(Policy::Feedback, parameters(), 2);
        course.pass(SECOND_NS, Operation::Show { map: bumps(&present) }).unwrap();
        let map = bumps(&[present[0], (present[1].0, weight)]);
        course.pass(SECOND_NS, Operation::Show { map }).unwrap();
        course.fixations().len()
    };
    assert_eq!([0.23, 0.18].map(after), [2, 1]);
}

/// Two things become one: the fovea that goes for its middle sees it, and the other one is free for what appears elsewhere, even
/// if that is hardly stronger than the place beside the middle where it is.
#[test]
fn two_foveae_do_not_stay_at_one_thing() {
    let mut course = Course::with(Policy::Feedback, parameters(), 2);
    let map = bumps(&[((330.0, 100.0), 1.0), ((400.0, 100.0), 0.9)]);
    course.pass(SECOND_NS, Operation::Show { map }).unwrap();
    assert_eq!(course.fixations().len(), 2);
    let bump = |dx: f64, dy: f64| (-0.5 * (dx * dx + dy * dy)).exp();
    let map = map_from(|x, y| {
        let one = bump((x - 365.0) / 30.0, (y - 100.0) / 12.0);
        one.max(0.55 * bump((x - 400.0) / 12.0, (y - 400.0) / 12.0))
    });
    course.pass(SECOND_NS, Operation::Show { map }).unwrap();
    let found = course.fixations();
    let near = |x: f64, y: f64| found.iter().any(|at| (at.x - x).hypot(at.y - y) < 5.0);
    assert!(near(365.0, 100.0) && near(400.0, 400.0), "{found:?}");
}

#[test]
fn every_fovea_dwells() {
    let dwell = GazeParameters {
        dwell_min_ms: 2000,
        saccade_hz: 1000.0,
        silence_ms: 60_000,
        ..parameters()
    };
    let mut course = Course::with(Policy::Feedback, dwell, 2);
    let show =
        |places: [(f64, f64); 2]| Operation::Show { map: bumps(&places.map(|at| (at, 1.0))) };
    course.pass(3 * SECOND_NS, show([(100.0, 100.0), (500.0, 100.0)])).unwrap();
    course.pass(SECOND_NS, show([(100.0, 100.0), (500.0, 300.0)])).unwrap();
    let before = course.fixations();
    course.pass(SECOND_NS / 2, show([(100.0, 300.0), (500.0, 400.0)])).unwrap();
    let meanwhile = course.fixations();
    assert_eq!(meanwhile[1], before[1], "it has moved a second ago");
    assert!((meanwhile[0].y - 300.0).abs() < 5.0, "the other one three seconds ago: {meanwhile:?}");
    course.pass(SECOND_NS, show([(100.0, 300.0), (500.0, 400.0)])).unwrap();
    let after = course.fixations();
    assert_eq!(after[0], meanwhile[0]);
    assert!((after[1].y - 400.0).abs() < 5.0, "{after:?}");
}

/// It is a choice of places: those alone are looked at while it holds.
#[test]
fn a_look_at_fewer_points_than_foveae_leaves_the_others_out() {
    for policy in [fixed(), Policy::Feedback, Policy::Saliency] {
        let mut course = Course::with(policy, parameters(), 3);
        course.pass(SECOND_NS, Operation::Attend { seed: 1 }).unwrap();
        let points = Points::from_iter([(10.0, 20.0), (600.0, 400.0), (10.0, 20.0)]);
        course.step(&frame(Operation::Look { points, hold_ns: Some(SECOND_NS) })).unwrap();
        let looked = course.fixations();
        assert_eq!(looked.len(), 2, "the third is the first: {looked:?}");
        course.pass(SECOND_NS / 2, Operation::Attend { seed: 2 }).unwrap();
        assert_eq!(course.fixations(), looked);
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        assert!(course.fixations().iter().all(|at| at.reason != FixationReason::Look));
    }
}

#[test]
fn saliency_looks_at_several_things_at_once() {
    let mut course = Course::with(Policy::Saliency, parameters(), 2);
    course.pass(SECOND_NS / 3, Operation::Nothing).unwrap();
    let found = course.fixations();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|at| at.reason == FixationReason::Saliency), "{found:?}");
    let apart = (found[0].x - found[1].x).hypot(found[0].y - found[1].y);
    assert!(0.06 * 640.0 < apart, "{found:?}");
}

#[test]
fn a_replay_uses_one_recorded_place_per_fovea() {
    let mut gaze = gaze_at(3, 64.0, 48.0);
    gaze.fixations.extend(gaze_at(4, 128.0, 48.0).fixations);
    gaze.fixations.extend(gaze_at(5, 256.0, 48.0).fixations);
    let text = [header_line("camera/main", EXTENT), entry_line(&GazeEntry::new(&gaze, 10))];
    let log = Arc::new(GazeLog::parse(&text.join("\n")).unwrap());
    for foveae in [1, 2, 3, 8] {
        let policy = Policy::Replay { log: Arc::clone(&log) };
        let course = Course::with(policy, parameters(), foveae);
        assert_eq!(course.fixations().as_slice(), &gaze.fixations[..foveae.min(3)]);
    }
}

/// A consumer moves its own fovea, the first or the second, and no other one, however it does.
#[test]
fn of_several_policies_clients_move_the_foveae_of_feedback_alone() {
    for own in [0, 1] {
        let mut policies = [FoveaPolicy::Fixed; 2];
        policies[own] = FoveaPolicy::Feedback;
        let mut course = Course::of_several(&policies, parameters());
        course.pass(SECOND_NS, Operation::Nothing).unwrap();
        let fixed = course.fixations()[1 - own];
        assert_eq!((fixed.x, fixed.y, fixed.reason), (320.0, 120.0, FixationReason::Policy));
        let points = Points::from_iter([(10.0, 20.0), (600.0, 400.0)]);
        course.step(&frame(Operation::Look { points, hold_ns: None })).unwrap();
        let looked = course.fixations();
        let look = looked[own];
        assert_eq!((look.x, look.y, look.reason), (10.0, 20.0, FixationReason::Look));
        assert_eq!((looked.len(), looked[1 - own]), (2, fixed), "the second point has no fovea");
        course.pass(SECOND_NS / 2, Operation::Attend { seed: 5 }).unwrap();
        let attended = course.fixations();
        assert_eq!((attended[own].reason, attended[1 - own]), (FixationReason::Attend, fixed));
        assert_eq!(course.relevance_frame(), Some(MAP_FRAME), "of the map");
        course.pass(FRAME_NS, Operation::Release).unwrap();
        let released = course.fixations();
        assert_eq!((released[own].reason, released[1 - own]), (FixationReason::Saliency, fixed));
    }
}

/// What saliency finds first is what the consumer looks at, and it goes elsewhere; so does it from where the consumer comes to.
#[test]
fn saliency_keeps_away_from_what_the_consumer_looks_at() {
    let alone = {
        let mut course = Course::new(Policy::Saliency, parameters());
        course.pass(SECOND_NS / 3, Operation::Nothing).unwrap();
        course.fixation()
    };
    for own in [0, 1] {
        let mut policies = [FoveaPolicy::Saliency; 2];
        policies[own] = FoveaPolicy::Feedback;
        let mut course = Course::of_several(&policies, parameters());
        course.step(&frame(look(alone.x, alone.y, None))).unwrap();
        course.pass(SECOND_NS / 3, Operation::Nothing).unwrap();
        let radius_px = 0.06 * 640.0;
        let apart = |course: &Course| {
            let found = course.fixations();
            assert_eq!(found[1 - own].reason, FixationReason::Saliency, "{found:?}");
            (found[0].x - found[1].x).hypot(found[0].y - found[1].y)
        };
        assert!(radius_px < apart(&course), "{:?}", course.fixations());
        let other = course.fixations()[1 - own];
        course.pass(SECOND_NS / 2, Operation::Nothing).unwrap();
        assert_eq!(course.fixations()[1 - own], other, "it has no reason to leave");
        course.pass(SECOND_NS / 2, look(other.x, other.y, None)).unwrap();
        assert!(radius_px < apart(&course), "{:?}", course.fixations());
    }
}

/// Both look around by themselves while the consumer is silent, each at something else.
#[test]
fn feedback_and_saliency_do_not_look_at_one_thing() {
    let policies = [FoveaPolicy::Feedback, FoveaPolicy::Saliency];
    let mut course = Course::of_several(&policies, parameters());
    course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
    let found = course.fixations();
    assert!(found.iter().all(|at| at.reason == FixationReason::Saliency), "{found:?}");
    let apart = (found[0].x - found[1].x).hypot(found[0].y - found[1].y);
    assert!(0.06 * 640.0 < apart, "{found:?}");
}

/// Ids are one sequence, and the place in the list is that of the policy.
#[test]
fn foveae_of_several_policies_are_numbered_together_and_stay_in_order() {
    let policies = [FoveaPolicy::Fixed, FoveaPolicy::Feedback, FoveaPolicy::Saliency];
    let mut course = Course::of_several(&policies, parameters());
    // The two that look around begin in the middle, as one.
    assert_eq!(course.fixations().iter().map(|at| at.id).collect::<Vec<_>>(), [1, 2]);
    let reasons = [FixationReason::Policy, FixationReason::Attend, FixationReason::Saliency];
    course.pass(SECOND_NS / 3, Operation::Attend { seed: 5 }).unwrap();
    let mut newest = 2;
    for seed in 0..6 {
        course.pass(SECOND_NS / 3, Operation::Attend { seed }).unwrap();
        let found = course.fixations();
        assert_eq!(found.iter().map(|at| at.reason).collect::<Vec<_>>(), reasons);
        assert_eq!((found[0].id, found[0].since_frame), (1, 1));
        let greatest = found.iter().map(|at| at.id).max().unwrap();
        assert!(newest <= greatest && greatest <= newest + 6, "{found:?} after {newest}");
        newest = greatest;
    }
    assert!(6 < newest, "{newest}");
}

/// A pursuit keeps its fixation, moves with its object in steps, and stays where it was without pursuit.
#[test]
fn a_fixation_follows_what_it_is_at() {
    let chase = Chase { object: (60.0, 30.0), ..Chase::default() };
    let still = chase.play(Policy::Feedback, 90, false);
    assert!(still[40..].iter().all(|(gaze, _)| gaze == &still[40].0));
    let followed = chase.play(Policy::Feedback, 90, true);
    let first = followed[10].0.first();
    assert_eq!(first.reason, FixationReason::Attend);
    for (gaze, object) in &followed[10..] {
        let at = only(gaze);
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
        let first = Fixation { x: at.x, y: at.y, region: at.region, ..first };
        assert_eq!(at, first, "the same fixation");
    }
    let (begin, end) = (first, followed[89].0.first());
    assert!(120.0 < end.x - begin.x, "it has moved: {begin:?} {end:?}");
    // Steps of 8 pixels, a texel of the coarse level.
    let moves = followed[10..].windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!((10..=30).contains(&moves), "{moves} moves");
    assert_eq!((end.x % 8.0, end.y % 8.0), (0.0, 0.0));
}

/// Of each policy, but not a place of the configuration.
#[test]
fn what_clients_chose_is_followed_and_nothing_else() {
    let chase = Chase { object: (60.0, 0.0), ..Chase::default() };
    let begin = chase.begin;
    let look = Chase { looks: true, ..chase };
    for policy in [fixed(), Policy::Feedback, Policy::Saliency, relevance(), Policy::Auto] {
        let seen = look.play(policy, 60, true);
        assert_eq!((seen[1].0.first().x, seen[1].0.first().y), begin, "at once, and there");
        let (gaze, object) = &seen[55];
        let at = only(gaze);
        assert_eq!((at.id, at.reason), (seen[1].0.first().id, FixationReason::Look));
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
    }
    let home = chase.play(Policy::Fixed { x: begin.0 / 640.0, y: begin.1 / 480.0 }, 60, true);
    assert!(home.iter().all(|(gaze, _)| gaze == &home[0].0));
}

/// A map that is moved along with what moved since decides again and again, and nothing is lost by that.
#[test]
fn pursuit_and_compensation_go_together() {
    let chase = Chase { object: (60.0, 30.0), ..Chase::default() };
    let both = GazeParameters { compensation: true, ..Chase::parameters(true) };
    let seen = chase.play_with(Policy::Feedback, 90, both);
    let id = seen[10].0.first().id;
    for (gaze, object) in &seen[10..] {
        let at = only(gaze);
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
        assert_eq!((at.id, at.reason), (id, FixationReason::Attend));
    }
}

/// Not behind what it follows by the frame that has not been seen yet.
#[test]
fn pursuit_is_ahead_of_what_was_seen() {
    let chase =
        Chase { begin: (100.0, 240.0), object: (240.0, 0.0), looks: true, ..Chase::default() };
    let seen = chase.play(Policy::Feedback, 60, true);
    let behind = seen[5..25].iter().map(|(gaze, object)| object.0 - only(gaze).x);
    let behind = behind.sum::<f64>() / 20.0;
    assert!(behind.abs() < 7.0, "a frame is 8 pixels, and it is {behind} behind");
}

/// It goes as fast as the thing does, in a view that takes few of the frames, too.
#[test]
fn a_view_with_fewer_frames_follows_as_well() {
    let chase = Chase { object: (90.0, -30.0), every: 3, ..Chase::default() };
    for (gaze, object) in &chase.play(Policy::Feedback, 120, true)[5..] {
        let at = only(gaze);
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
    }
}

/// A place in the frame to come is not moved by what moved before it.
#[test]
fn pursuit_continues_from_a_moved_look() {
    let begin = (100.0, 240.0);
    let chase =
        Chase { begin, object: (240.0, 0.0), looks: true, is_exact: true, ..Chase::default() };
    let seen = chase.play(Policy::Feedback, 40, true);
    let ahead = seen[4..24].iter().map(|(gaze, object)| only(gaze).x - object.0);
    let ahead = ahead.sum::<f64>() / 20.0;
    assert!(ahead.abs() < 4.0, "a frame is 8 pixels, and it is {ahead} ahead");
}

/// Among foveae of other policies, too, it stays the same fixation.
#[test]
fn of_several_policies_each_pursues_by_itself() {
    let chase = Chase { object: (60.0, 30.0), ..Chase::default() };
    let policy = each(&[FoveaPolicy::Fixed, FoveaPolicy::Feedback]);
    let seen = chase.play(policy, 90, true);
    let ids: Vec<_> = seen[10].0.fixations.iter().map(|at| (at.id, at.reason)).collect();
    for (gaze, object) in &seen[10..] {
        let [fixed, at] = gaze.fixations[..] else { panic!("{gaze:?}") };
        assert_eq!((fixed.x, fixed.y), (320.0, 120.0));
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
        assert_eq!([(fixed.id, fixed.reason), (at.id, at.reason)], ids[..]);
    }
}

/// On a moving camera, what stands still moves in the picture, and is followed.
#[test]
fn the_background_is_followed_where_the_camera_moves() {
    let camera = (-45.0, 20.0);
    let seen = Chase { object: camera, camera, looks: true, ..Chase::default() };
    for (gaze, object) in &seen.play(Policy::Feedback, 60, true)[2..50] {
        let at = only(gaze);
        assert!((at.x - object.0).hypot(at.y - object.1) < 16.0, "{at:?} for {object:?}");
    }
}

/// It left the picture: the map that led there decides again, at once, and not before.
#[test]
fn a_lost_track_ends_in_a_saccade() {
    // Otherwise a decision would come after a second, and a saccade after ten.
    let chase = Chase { begin: (500.0, 240.0), object: (60.0, 0.0), ..Chase::default() };
    let rare = GazeParameters { saccade_hz: 1.0, dwell_min_ms: 10_000, ..Chase::parameters(true) };
    let seen = chase.play_with(Policy::Feedback, 120, rare);
    let first = seen[40].0.first();
    assert_eq!(first.reason, FixationReason::Attend);
    let left = seen[40..].iter().position(|(gaze, _)| only(gaze).id != first.id);
    let left = 40 + left.expect("a saccade");
    let object = seen[left].1;
    assert!((636.0..666.0).contains(&object.0), "when it was out of sight: {object:?}");
    let back = only(&seen[left].0);
    assert_eq!((back.id, back.reason), (first.id + 1, FixationReason::Attend));
    assert!((back.x - 500.0).abs() < 8.0, "where the map says: {back:?}");
}

#[test]
fn what_is_faster_than_the_limit_is_not_followed() {
    let chase = Chase { object: (90.0, 0.0), ..Chase::default() };
    let end = |pursuit_speed_max| {
        let parameters = GazeParameters { pursuit_speed_max, ..Chase::parameters(true) };
        let seen = chase.play_with(Policy::Feedback, 60, parameters);
        let (gaze, object) = &seen[59];
        (only(gaze).x - object.0).abs()
    };
    // 90 pixels a second are 0.14 of the longer side.
    assert!(end(0.25) < 16.0 && 60.0 < end(0.1), "{} {}", end(0.25), end(0.1));
}

/// A new map that sees the thing a little beside where it is followed moves the fixation there, as the same one.
#[test]
fn a_new_map_corrects_pursuit_without_a_saccade() {
    let chase =
        Chase { object: (15.0, 0.0), corrected: Some((30, (0.0, 14.0))), ..Chase::default() };
    let seen = chase.play(Policy::Feedback, 60, true);
    let (before, after) = (only(&seen[29].0), only(&seen[45].0));
    assert_eq!(after.id, before.id);
    assert!(6.0 < after.y - before.y, "{before:?} {after:?}");
    let uncorrected = Chase { corrected: None, ..chase }.play(Policy::Feedback, 60, true);
    assert!((only(&uncorrected[45].0).y - before.y).abs() < 8.0);
}

/// Something that moves before a camera that may move, too, and a client that says once where it is.
#[derive(Clone, Copy)]
struct Chase {
    /// First place, in pixels.
    begin: (f64, f64),
    /// Velocities in pixels a second.
    object: (f64, f64),
    camera: (f64, f64),
    /// Whether the client looks, and does not attend.
    looks: bool,
    /// In which frame it says again where it is, and by how much beside.
    corrected: Option<(u64, (f64, f64))>,
    /// The view takes one of so many frames; motion is found in all.
    every: u64,
    /// Whether the client that looks says where the thing is in the frame to come.
    is_exact: bool,
}

impl Default for Chase {
    fn default() -> Self {
        let (still, begin) = ((0.0, 0.0), (200.0, 240.0));
        Self {
            begin,
            object: still,
            camera: still,
            looks: false,
            corrected: None,
            every: 1,
            is_exact: false,
        }
    }
}

impl Chase {
    fn parameters(pursuit: bool) -> GazeParameters {
        // Compensation moves maps along at decisions, with and without pursuit.
        GazeParameters { pursuit, silence_ms: 60_000, compensation: false, ..parameters() }
    }

    fn play(&self, policy: Policy, frames: u64, pursuit: bool) -> Vec<(Gaze, (f64, f64))> {
        self.play_with(policy, frames, Self::parameters(pursuit))
    }

    /// The gaze at each frame that the view takes, and where the object is in it.
    fn play_with(
        &self,
        policy: Policy,
        frames: u64,
        parameters: GazeParameters,
    ) -> Vec<(Gaze, (f64, f64))> {
        let foveae = if let Policy::Several { policy, .. } = &policy { policy.len() } else { 1 };
        let at = frame_time(1, 0);
        let mut controller = Controller::new(policy, parameters, false, EXTENT, foveae, at);
        let mut motions = Motions::new(PyramidShape::new(EXTENT));
        let mut seen: Option<(CoarseLevel, u64)> = None;
        let mut played = Vec::new();
        for index in 0..frames {
            let at = frame_time(index + 1, index * FRAME_NS);
            let now = self.place(index);
            if index == self.every && self.looks {
                let (x, y) = if self.is_exact { now } else { self.begin };
                let points = Points::from_iter([(x, y)]);
                let frame_seq = self.is_exact.then_some(at.frame_seq);
                let look = Feedback::Look {
                    points,
                    hold_ns: Some(u64::MAX),
                    frame_seq,
                    area: LookArea::default(),
                };
                controller.accept_feedback(&look, at);
            } else if index == self.every && !self.looks {
                self.attend(&mut controller, self.place(index - 1), at);
            }
            if let Some((_, (dx, dy))) = self.corrected.filter(|(frame, _)| *frame == index) {
                let (x, y) = self.place(index - 1);
                self.attend(&mut controller, (x + dx, y + dy), at);
            }
            let what = seen.as_ref().map(|(coarse, frame_seq)| Seen {
                motion: Some(&motions),
                ..Seen::coarsely(coarse, *frame_seq)
            });
            let is_taken = index % self.every == 0;
            if is_taken {
                controller.arrive(at, what);
                played.push((controller.gaze().clone(), now));
            }
            let shown = self.picture(index);
            motions.follow(&shown, at);
            let (coarse, frame_seq) = seen.insert((shown, at.frame_seq));
            // Until the client speaks nothing else moves it.
            if is_taken && self.every <= index {
                let what = Seen { motion: Some(&motions), ..Seen::coarsely(coarse, *frame_seq) };
                controller.decide(Some(what), &Need::none(EXTENT), &unchanged());
            }
        }
        played
    }

    fn attend(&self, controller: &mut Controller, (x, y): (f64, f64), at: FrameTime) {
        let bump = |px: f64, py: f64| {
            let (dx, dy) = ((px - x) / 30.0, (py - y) / 30.0);
            (-0.5 * (dx * dx + dy * dy)).exp()
        };
        let frame_seq = at.frame_seq - 1;
        controller.accept_feedback(
            &Feedback::Attend { map: map_from(bump), frame_seq, lies_in: None },
            at,
        );
    }

    fn place(&self, index: u64) -> (f64, f64) {
        let time = index as f64 * FRAME_NS as f64 * 1e-9;
        (self.begin.0 + self.object.0 * time, self.begin.1 + self.object.1 * time)
    }

    /// Waves as far as one can see, and others in a disc.
    fn picture(&self, index: u64) -> CoarseLevel {
        let mut coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
        let columns = coarse.extent().width as usize;
        let (time, place) = (index as f64 * FRAME_NS as f64 * 1e-9, self.place(index));
        for (texel, color) in coarse.texels.iter_mut().enumerate() {
            let middle = |at: usize| (at as f64 + 0.5) * 8.0;
            let (x, y) = (middle(texel % columns), middle(texel / columns));
            let wave = |x: f64, y: f64, scale: f64| {
                (x / scale).sin() * (0.8 * y / scale).cos() + (0.7 * (x - 1.3 * y) / scale).sin()
            };
            let ground = wave(x - self.camera.0 * time, y - self.camera.1 * time, 23.0);
            let (dx, dy) = (x - place.0, y - place.1);
            // The edge is as soft as a texel.
            let inside = ((52.0 - dx.hypot(dy)) / 8.0).clamp(0.0, 1.0);
            let shade = (1.0 - inside) * ground + inside * (wave(dx, dy, 17.0) + 1.0);
            *color = [(110.0 + 40.0 * shade) as u8; 3];
        }
        coarse
    }
}

/// One controller on its way through frames, and what is known of it from outside.
struct Course {
    policy: Policy,
    parameters: GazeParameters,
    foveae: usize,
    controller: Controller,
    extent: Extent,
    extent_before: Extent,
    at: FrameTime,
    /// The stream's time, which stands still when it jumps back.
    elapsed_ns: u64,
    /// When a saccade led to each fixation, by its id.
    moved_ns: BTreeMap<u64, u64>,
    /// The greatest id so far.
    last_id: u64,
    /// The gaze of the newest frame.
    gaze: Gaze,
    /// The interval in which attention last decided, and that in which need did.
    decided: [Option<u64>; 2],
    /// Whether a decision was due before its time in the frame before, and whether a client released the gaze then.
    was_forced: bool,
    was_released: bool,
    /// The time of the frame before.
    elapsed_before_ns: u64,
    seen: Option<(CoarseLevel, u64)>,
    motions: Motions,
    /// Features and newest change of each tile of what was seen.
    tiles: Option<Tiles>,
}

/// Features and newest change of each tile.
type Tiles = (Vec<TileFeatures>, Vec<u64>);

/// The newest frame, as a policy sees it.
fn seen_of<'a>(
    seen: &'a Option<(CoarseLevel, u64)>,
    motions: &'a Motions,
    tiles: &'a Option<Tiles>,
) -> Option<Seen<'a>> {
    let (coarse, frame_seq) = seen.as_ref()?;
    let tiles = tiles.as_ref().map(|(features, changed_frame)| SeenTiles {
        features,
        changed_frame,
        black: 16,
    });
    Some(Seen { motion: Some(motions), tiles, ..Seen::coarsely(coarse, *frame_seq) })
}

impl Course {
    /// A course of a view with one fovea.
    fn new(policy: Policy, parameters: GazeParameters) -> Self {
        Self::with(policy, parameters, 1)
    }

    /// Of a view with a fovea for each of these policies.
    fn of_several(policies: &[FoveaPolicy], parameters: GazeParameters) -> Self {
        Self::with(each(policies), parameters, policies.len())
    }

    fn with(policy: Policy, parameters: GazeParameters, foveae: usize) -> Self {
        let at = frame_time(1, 0);
        let mut controller = Controller::new(policy.clone(), parameters, false, EXTENT, foveae, at);
        controller.arrive(at, None);
        let gaze = controller.gaze().clone();
        let last_id = gaze.newest().id;
        Self {
            policy,
            parameters,
            foveae,
            controller,
            extent: EXTENT,
            extent_before: EXTENT,
            at,
            elapsed_ns: 0,
            moved_ns: BTreeMap::new(),
            last_id,
            gaze,
            decided: [None; 2],
            was_forced: false,
            was_released: false,
            elapsed_before_ns: 0,
            seen: None,
            motions: Motions::new(PyramidShape::new(EXTENT)),
            tiles: None,
        }
    }

    /// Plays frames, and returns the extent and the gaze of each.
    fn play(&mut self, frames: &[Frame]) -> Result<Vec<(u64, Extent, Gaze)>, TestCaseError> {
        let mut gazes = Vec::new();
        for frame in frames {
            self.step(frame)?;
            gazes.push((self.at.frame_seq, self.extent, self.gaze.clone()));
        }
        Ok(gazes)
    }

    /// An operation, and frames for so long.
    fn pass(&mut self, time_ns: u64, operation: Operation) -> Result<(), TestCaseError> {
        self.step(&frame(operation))?;
        for _ in 0..time_ns.div_ceil(FRAME_NS) {
            self.step(&frame(Operation::Nothing))?;
        }
        Ok(())
    }

    /// One frame, as a stream takes it, and every law after it.
    fn step(&mut self, frame: &Frame) -> Result<(), TestCaseError> {
        let before = self.gaze.clone();
        self.extent_before = self.extent;
        let time_ns = self.at.time_ns.saturating_add_signed(frame.after_ns);
        self.elapsed_before_ns = self.elapsed_ns;
        self.elapsed_ns += time_ns.saturating_sub(self.at.time_ns);
        let jumped_back = time_ns < self.at.time_ns;
        self.at = frame_time(self.at.frame_seq + 1, time_ns);
        self.operate(&frame.operation);
        self.controller.arrive(self.at, seen_of(&self.seen, &self.motions, &self.tiles));
        self.gaze = self.controller.gaze().clone();
        let is_forced =
            jumped_back || matches!(frame.operation, Operation::Release | Operation::Weigh { .. });
        let was_forced = std::mem::replace(&mut self.was_forced, is_forced);
        self.check(&before, &frame.operation, is_forced || was_forced)?;
        self.was_released = matches!(frame.operation, Operation::Release);
        let shown = picture(frame.seed, self.extent);
        self.motions.follow(&shown, self.at);
        self.seen = Some((shown, self.at.frame_seq));
        self.tiles = Some(tiles_of(frame.seed, self.extent, self.at.frame_seq));
        let (_, changed_frame) = self.tiles.as_ref().expect("of this frame");
        let need = need_of(frame.seed, self.extent);
        let seen = seen_of(&self.seen, &self.motions, &self.tiles);
        self.controller.decide(seen, &need, changed_frame);
        Ok(())
    }

    fn operate(&mut self, operation: &Operation) {
        let feedback = match operation {
            Operation::Nothing => return,
            Operation::Look { points, hold_ns } => Feedback::Look {
                points: points.clone(),
                hold_ns: *hold_ns,
                frame_seq: None,
                area: LookArea::default(),
            },
            Operation::Attend { seed } => {
                let map = Arc::new(map_of(*seed, self.extent));
                Feedback::Attend { map, frame_seq: MAP_FRAME, lies_in: None }
            }
            Operation::Show { map } => {
                Feedback::Attend { map: Arc::clone(map), frame_seq: MAP_FRAME, lies_in: None }
            }
            Operation::Inject { seed } => {
                let map = map_of(*seed, self.extent);
                let (grid, values) = (map.grid(), map.weights().to_vec());
                let lies = (grid, Region::of(self.extent));
                let name = ["depth", "query"][*seed as usize % 2];
                let frame_seq = self.at.frame_seq.saturating_sub(*seed);
                let given = Injection::new(name, lies, self.extent, values, frame_seq, 200);
                Feedback::Inject(Arc::new(given.unwrap()))
            }
            Operation::Weigh { seed } => {
                let names = ["query", "strokes", "depth", "none"];
                let weight = (*seed as f32 - 3.0) * 2.0;
                let name = names[*seed as usize % names.len()].to_owned();
                Feedback::Weigh(Arc::new([ChannelWeight { name, weight }]))
            }
            Operation::Release => Feedback::Release,
            Operation::Resize(width, height) => {
                self.extent = Extent::new(*width, *height);
                (self.seen, self.tiles) = (None, None);
                self.motions = Motions::new(PyramidShape::new(self.extent));
                return self.controller.resize(self.extent, self.at);
            }
        };
        self.controller.accept_feedback(&feedback, self.at);
    }

    fn check(
        &mut self,
        before: &Gaze,
        operation: &Operation,
        is_forced: bool,
    ) -> Result<(), TestCaseError> {
        let gaze = self.gaze.clone();
        prop_assert!((1..=self.foveae).contains(&gaze.fixations.len()), "{:?}", gaze.fixations);
        for Fixation { x, y, weight, .. } in &gaze.fixations {
            prop_assert!(
                (0.0..=f64::from(self.extent.width)).contains(x),
                "{x} of {}",
                self.extent
            );
            prop_assert!(
                (0.0..=f64::from(self.extent.height)).contains(y),
                "{y} of {}",
                self.extent
            );
            prop_assert_eq!(((x * 16.0).fract(), (y * 16.0).fract()), (0.0, 0.0));
            prop_assert!(0.0 < *weight && *weight <= 1.0, "{weight}");
        }
        if matches!(self.policy, Policy::Replay { .. }) {
            return Ok(());
        }
        let mut places = gaze.points();
        places.sort_by(|a, b| a.partial_cmp(b).unwrap());
        prop_assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", gaze.fixations);
        let moved = self.check_identities(before, &gaze)?;
        self.check_obedience(operation)?;
        self.check_pace(before, moved, gaze.relevance != before.relevance, operation, is_forced)
    }

    /// What was looked at for the same reason stays the fixation that it was, and so does what is pursued; others get the next
    /// numbers. Returns whether any fixation is new or has ended.
    fn check_identities(&mut self, before: &Gaze, gaze: &Gaze) -> Result<bool, TestCaseError> {
        let identity = |fixation: &Fixation| (fixation.x, fixation.y, fixation.reason);
        let mut kept = 0;
        for fixation in &gaze.fixations {
            if let Some(same) = before.fixations.iter().find(|old| old.id == fixation.id) {
                let pursued = Fixation { x: fixation.x, y: fixation.y, ..*same };
                let asked = [FixationReason::Look, FixationReason::Attend];
                let moves = self.parameters.pursuit && asked.contains(&same.reason);
                let expected = if moves { pursued } else { *same };
                // A newer map may ask for another box around the same place.
                prop_assert_eq!(Fixation { region: expected.region, ..*fixation }, expected);
                let has_point = |region: Region| {
                    (region.x0 - 0.5..=region.x1 + 0.5).contains(&fixation.x)
                        && (region.y0 - 0.5..=region.y1 + 0.5).contains(&fixation.y)
                };
                prop_assert!(fixation.region.is_none_or(has_point), "{fixation:?}");
                kept += 1;
            } else {
                let mut old = before.fixations.iter();
                let same = old.find(|old| identity(old) == identity(fixation));
                let goes_on = |old: &Fixation| gaze.fixations.iter().any(|at| at.id == old.id);
                prop_assert!(same.is_none_or(goes_on) || self.parameters.pursuit);
                prop_assert_eq!(fixation.id, self.last_id + 1);
                prop_assert_eq!(fixation.since_frame, self.at.frame_seq);
                self.last_id = fixation.id;
            }
        }
        Ok(kept < gaze.fixations.len() || kept < before.fixations.len())
    }

    fn check_obedience(&self, operation: &Operation) -> Result<(), TestCaseError> {
        let fixations = &self.gaze.fixations;
        match operation {
            Operation::Look { points, .. } => {
                let mut wanted = Vec::new();
                let valid = points.iter().filter(|(x, y)| !x.is_nan() && !y.is_nan());
                for (x, y) in valid.take(self.policy.steered(self.foveae)) {
                    let (width, height) = (self.extent.width.into(), self.extent.height.into());
                    let place = snapped(self.extent, x.clamp(0.0, width), y.clamp(0.0, height));
                    if !wanted.contains(&(place.0, place.1, FixationReason::Look)) {
                        wanted.push((place.0, place.1, FixationReason::Look));
                    }
                }
                let is_own = |at: &&Fixation| {
                    !matches!(self.policy, Policy::Several { .. })
                        || at.reason == FixationReason::Look
                };
                let found = fixations.iter().filter(is_own);
                let found: Vec<_> = found.map(|at| (at.x, at.y, at.reason)).collect();
                // What a fovea of another policy looks at already is looked at.
                let is_taken = |(x, y): (f64, f64)| {
                    fixations.iter().any(|at| (at.x, at.y) == (x, y) && !is_own(&at))
                };
                wanted.retain(|(x, y, _)| !is_taken((*x, *y)));
                prop_assert!(wanted.is_empty() || found == wanted, "{found:?} for {wanted:?}");
            }
            // Not where the fixations have other numbers now.
            Operation::Resize(..) => {}
            _ if self.was_released => {
                // One of another policy may have left the place just now, and it was there before.
                let was_hidden = |at: &Fixation| {
                    matches!(self.policy, Policy::Several { .. })
                        && !self.moved_ns.contains_key(&at.id)
                };
                let looks = |at: &&Fixation| at.reason == FixationReason::Look && !was_hidden(at);
                // As of the decision, after the frame before.
                let dwelt = |at: &Fixation| self.dwells_at(at.id, self.elapsed_before_ns);
                prop_assert!(fixations.iter().filter(looks).all(dwelt));
            }
            _ => {}
        }
        Ok(())
    }

    /// Maps move each fovea only after it has dwelt, and decide at most once an interval.
    fn check_pace(
        &mut self,
        before: &Gaze,
        moved: bool,
        weighed: bool,
        operation: &Operation,
        is_forced: bool,
    ) -> Result<(), TestCaseError> {
        let is_look = matches!(operation, Operation::Look { .. });
        let is_resize = matches!(operation, Operation::Resize(..));
        let is_by_map =
            moved && !is_look && !is_resize && !matches!(self.policy, Policy::Fixed { .. });
        let now = self.fixations();
        if is_by_map {
            // Not where a fovea of another policy has come to the same place.
            let is_left = |fixation: &&Fixation| {
                !now.iter().any(|at| (at.x, at.y) == (fixation.x, fixation.y))
            };
            let has_ended = |at: &&Fixation| !now.iter().any(|other| other.id == at.id);
            let mut ended = before.fixations.iter().filter(has_ended).filter(is_left);
            let dwelling = ended.find(|fixation| self.dwells(fixation.id));
            // A lost object need not dwell.
            let may_lose = self.parameters.pursuit;
            prop_assert!(may_lose || dwelling.is_none(), "{dwelling:?}: a saccade too soon");
        }
        let is_new = |at: &&Fixation| !before.fixations.iter().any(|other| other.id == at.id);
        let is_attended = |at: &Fixation| at.reason == FixationReason::Attend;
        let is_asked = |at: &Fixation| is_attended(at) || at.reason == FixationReason::Look;
        let leads = self.relevance_frame() == Some(MAP_FRAME);
        // Of several policies another one's map may come to the front.
        let weighed = weighed && !matches!(self.policy, Policy::Several { .. });
        let by_attention =
            weighed && leads || is_by_map && now.iter().filter(is_new).any(is_attended);
        let by_need =
            weighed && !leads || is_by_map && now.iter().filter(is_new).any(|at| !is_asked(at));
        // Attention decides on this frame, and need after the one before.
        let decisions = [(by_attention, self.elapsed_ns), (by_need, self.elapsed_before_ns)];
        for (decided, (decides, elapsed_ns)) in self.decided.iter_mut().zip(decisions) {
            if decides {
                let interval = (elapsed_ns as f64 * 1e-9 * self.parameters.saccade_hz) as u64;
                prop_assert!(
                    is_forced || self.parameters.pursuit || *decided != Some(interval),
                    "two decisions in an interval"
                );
                *decided = Some(interval);
            }
        }
        for fixation in now.iter().filter(is_new) {
            // A change of size does not count as a saccade. Where it brings fixations together, the first goes on.
            let moved_ns = if is_resize {
                let aim = (fixation.x, fixation.y, fixation.reason);
                let mut old = before.fixations.iter();
                let same = old.find(|old| scaled(old, self.extent_before, self.extent) == aim);
                same.map_or(Some(self.elapsed_ns), |same| self.moved_ns.get(&same.id).copied())
            } else {
                // One of another policy has left it, and it was there before.
                let mut old = before.fixations.iter();
                let was_hidden = matches!(self.policy, Policy::Several { .. })
                    && !(is_look && fixation.reason == FixationReason::Look)
                    && old.any(|old| (old.x, old.y) == (fixation.x, fixation.y));
                (!was_hidden).then_some(self.elapsed_ns)
            };
            self.moved_ns.extend(moved_ns.map(|moved_ns| (fixation.id, moved_ns)));
        }
        Ok(())
    }

    /// Whether a fixation must not end yet.
    fn dwells(&self, id: u64) -> bool {
        self.dwells_at(id, self.elapsed_ns)
    }

    fn dwells_at(&self, id: u64, elapsed_ns: u64) -> bool {
        let dwell_ns = u64::from(self.parameters.dwell_min_ms) * 1_000_000;
        self.moved_ns.get(&id).is_some_and(|moved_ns| elapsed_ns < moved_ns + dwell_ns)
    }

    /// The only fixation.
    fn fixation(&self) -> Fixation {
        only(&self.gaze)
    }

    fn fixations(&self) -> Fixations {
        self.gaze.fixations.clone()
    }

    fn relevance_frame(&self) -> Option<u64> {
        self.gaze.relevance.as_ref().map(|relevance| relevance.frame_seq)
    }
}

/// Where a fixation is after a change of size, and why.
fn scaled(fixation: &Fixation, from: Extent, to: Extent) -> (f64, f64, FixationReason) {
    let across = fixation.x / f64::from(from.width) * f64::from(to.width);
    let down = fixation.y / f64::from(from.height) * f64::from(to.height);
    let (x, y) = snapped(to, across, down);
    (x, y, fixation.reason)
}

fn only(gaze: &Gaze) -> Fixation {
    assert_eq!(gaze.fixations.len(), 1, "{:?}", gaze.fixations);
    gaze.first()
}

/// The log of what was recorded: an entry where the gaze is another one.
fn text_of(recorded: &[(u64, Extent, Gaze)]) -> String {
    let mut lines = vec![header_line("camera/main", EXTENT)];
    let mut last = None;
    for (frame_seq, _, gaze) in recorded {
        if last != Some(gaze) {
            lines.push(entry_line(&GazeEntry::new(gaze, *frame_seq)));
            last = Some(gaze);
        }
    }
    lines.join("\n")
}

fn place(course: &Course) -> (f64, f64, FixationReason) {
    let Fixation { x, y, reason, .. } = course.fixation();
    (x, y, reason)
}

fn gaze_at(id: u64, x: f64, y: f64) -> Gaze {
    let reason = FixationReason::Look;
    Gaze::at(Fixation { id, ..Fixation::at((x, y), reason) }, None)
}

fn relevance() -> Policy {
    Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 }
}

fn fixed() -> Policy {
    Policy::Fixed { x: 0.5, y: 0.25 }
}

fn each(policies: &[FoveaPolicy]) -> Policy {
    Policy::Several { policy: policies.to_vec(), x: 0.5, y: 0.25 }
}

/// Every policy but a replay, each as often as the others, with a number of foveae.
fn any_policy() -> impl Strategy<Value = (Policy, usize)> {
    let relevance = |passes| Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes };
    prop_oneof![
        ((0.0..=1.0f64, 0.0..=1.0f64).prop_map(|(x, y)| Policy::Fixed { x, y }), foveae()),
        (Just(Policy::Feedback), foveae()),
        (Just(Policy::Saliency), foveae()),
        ((1..=2u32).prop_map(relevance), foveae()),
        (Just(Policy::Auto), foveae()),
        several_policies().prop_map(|policies| (each(&policies), policies.len())),
    ]
}

/// One to eight foveae of up to four policies, equal ones side by side.
fn several_policies() -> impl Strategy<Value = Vec<FoveaPolicy>> {
    use FoveaPolicy::{Auto, Feedback, Fixed, Relevance, Saliency};
    let one = |attending| Just([Fixed, attending, Saliency, Relevance]).prop_shuffle();
    let order = prop_oneof![one(Feedback), one(Auto)];
    (order, 0..=1usize, prop::array::uniform3(0..=2usize)).prop_filter_map(
        "no fovea",
        |(order, fixed, [feedback, saliency, relevance])| {
            let count = |policy: FoveaPolicy| match policy {
                Fixed => fixed,
                Auto | Feedback => feedback,
                Saliency => saliency,
                Relevance => relevance,
            };
            let foveae: Vec<_> =
                order.into_iter().flat_map(|policy| vec![policy; count(policy)]).collect();
            (!foveae.is_empty()).then_some(foveae)
        },
    )
}

fn look(x: f64, y: f64, hold_ns: Option<u64>) -> Operation {
    Operation::Look { points: Points::from_iter([(x, y)]), hold_ns }
}

fn frame(operation: Operation) -> Frame {
    Frame { operation, after_ns: i64::try_from(FRAME_NS).unwrap(), seed: 9 }
}

fn parameters() -> GazeParameters {
    GazeParameters::default()
}

fn foveae() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), 1..=FOVEAE_MAX]
}

fn any_parameters() -> impl Strategy<Value = GazeParameters> {
    let pace = (prop_oneof![Just(4.0), 0.01..1000.0f64], 0..2000u32, 1.0..=10.0f64);
    let pace = (pace, any::<bool>(), 0.01..=10.0f64);
    pace.prop_map(|((saccade_hz, dwell_min_ms, hysteresis), pursuit, pursuit_speed_max)| {
        GazeParameters {
            saccade_hz,
            dwell_min_ms,
            hysteresis,
            pursuit,
            pursuit_speed_max,
            ..parameters()
        }
    })
}

/// Frames with floods of messages in them, and clocks that stand still, leap, and begin again.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let after_ns = prop_oneof![
        8 => Just(33_333_333i64),
        2 => 0..500_000_000i64,
        1 => Just(0i64),
        1 => -100_000_000_000..100_000_000_000i64,
        1 => Just(i64::MIN),
    ];
    let frame = (operation(), after_ns, 0..12u64);
    let frame = frame.prop_map(|(operation, after_ns, seed)| Frame { operation, after_ns, seed });
    prop::collection::vec(frame, 1..120)
}

fn operation() -> impl Strategy<Value = Operation> {
    let coordinate =
        || prop_oneof![8 => -100.0..2000.0f64, 1 => -1e300..1e300f64, 1 => Just(f64::NAN)];
    let hold_ns = prop::option::of(prop_oneof![0..2_000_000_000u64, Just(u64::MAX)]);
    let points = prop::collection::vec((coordinate(), coordinate()), 1..=FOVEAE_MAX);
    let look = (points, hold_ns).prop_map(|(points, hold_ns)| Operation::Look {
        points: Points::from_iter(points),
        hold_ns,
    });
    let resize =
        (1..800u32, 1..800u32).prop_map(|(width, height)| Operation::Resize(width, height));
    prop_oneof![
        6 => Just(Operation::Nothing),
        2 => look,
        4 => (0..6u64).prop_map(|seed| Operation::Attend { seed }),
        1 => (0..6u64).prop_map(|seed| Operation::Inject { seed }),
        1 => (0..6u64).prop_map(|seed| Operation::Weigh { seed }),
        1 => Just(Operation::Release),
        1 => resize,
    ]
}

/// A map with bumps at places in pixels, 12 pixels wide, of the given weights; where they overlap, the greater one.
fn bumps(places: &[((f64, f64), f64)]) -> Arc<AttentionMap> {
    map_from(|x, y| {
        let bump = |&((at_x, at_y), weight): &((f64, f64), f64)| {
            let (dx, dy) = ((x - at_x) / 12.0, (y - at_y) / 12.0);
            weight * (-0.5 * (dx * dx + dy * dy)).exp()
        };
        places.iter().map(bump).fold(0.0, f64::max)
    })
}

/// A map of cells of 5 pixels, from the weight at each place in pixels.
fn map_from(weight: impl Fn(f64, f64) -> f64) -> Arc<AttentionMap> {
    let grid = Extent::new(128, 96);
    let place = |cell: u32| f64::from(cell) * 5.0 + 2.5;
    let cells = (0..96).flat_map(|row| (0..128).map(move |column| (column, row)));
    let weights = cells.map(|(column, row)| weight(place(column), place(row)) as f32).collect();
    Arc::new(AttentionMap::new(grid, Region::of(EXTENT), EXTENT, weights).unwrap())
}

/// A map with six bumps.
fn map_of(seed: u64, extent: Extent) -> AttentionMap {
    let grid = Extent::new(16, 12);
    let mut weights = vec![0.01; grid.area()];
    let cell =
        |salt: u64| (seed.wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize;
    for (salt, weight) in
        [(1, 1.0), (2, 0.7), (3, 0.6), (4, 0.5), (5, 0.3), (6, 0.2)].into_iter().rev()
    {
        weights[cell(salt) % grid.area()] = weight;
    }
    AttentionMap::new(grid, Region::of(extent), extent, weights).unwrap()
}

/// A grey picture with a bright and a coloured square in it.
fn picture(seed: u64, extent: Extent) -> CoarseLevel {
    let mut coarse = CoarseLevel::new(PyramidShape::new(extent));
    let Extent { width, height } = coarse.extent();
    coarse.texels.fill([90, 90, 90]);
    for (salt, color) in [(seed, [240, 240, 240]), (seed + 40, [90, 20, 20])] {
        let place = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (x, y) = ((place >> 40) as u32 % width, (place >> 20) as u32 % height);
        for row in y..(y + 5).min(height) {
            for column in x..(x + 4).min(width) {
                coarse.texels[(row * width + column) as usize] = color;
            }
        }
    }
    coarse
}

/// Tiles of which some have edges, and when each changed.
fn tiles_of(seed: u64, extent: Extent, frame_seq: u64) -> (Vec<TileFeatures>, Vec<u64>) {
    let tiles = extent.in_cells(TILE_SIDE).area() as u64;
    let number = |tile: u64| (seed + tile).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let features = |tile: u64| TileFeatures {
        count: 1024,
        luma: 1024 * 90,
        luma_squared: 1024 * 90 * 90,
        differences: [992; 2],
        gradient_squared: [(number(tile) % 4_000_000) as u32; 2],
        strokes: [(number(tile) % 50) as u32; 2],
        ..TileFeatures::default()
    };
    let changed = |tile: u64| if number(tile) % 3 == 0 { frame_seq } else { 1 };
    ((0..tiles).map(features).collect(), (0..tiles).map(changed).collect())
}

/// Tiles that have not changed since the first frame.
fn unchanged() -> Vec<u64> {
    vec![1; EXTENT.in_cells(TILE_SIDE).area()]
}

/// What a view needs of each block, any number of it.
fn need_of(seed: u64, extent: Extent) -> Need {
    let blocks = extent.in_cells(16).area() as u64;
    let number = |block: u64| (seed * 4096 + block).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
    let mut need = Need::none(extent);
    need.fill((0..blocks).map(|block| (number(block) % 1000) as f32));
    need
}

fn frame_time(frame_seq: u64, time_ns: u64) -> FrameTime {
    FrameTime { frame_seq, time_ns }
}
