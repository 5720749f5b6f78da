//! What holds for every policy, whatever clients say and whatever the source and its clock do; and what each policy
//! promises beyond.

#![allow(clippy::cast_possible_truncation, reason = "numbers of a test")]

use std::sync::Arc;

use foveate_core::frame::FrameTime;
use foveate_core::gaze::GazeParameters;
use foveate_core::gaze::controller::{Controller, Policy};
use foveate_core::gaze::log::{GazeLog, entry_line, header_line};
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::feedback::Feedback;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::weights::Peak;
use proptest::prelude::*;

const EXTENT: Extent = Extent::new(640, 480);
const FRAME_NS: u64 = 33_333_333;
const SECOND_NS: u64 = 1_000_000_000;

/// What happens before a frame.
#[derive(Clone, Debug)]
enum Operation {
    Nothing,
    Look { x: f64, y: f64, hold_ns: Option<u64> },
    Attend { seed: u64 },
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
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fixed_keeps_the_laws(frames in frames(), x in 0.0..=1.0f64, y in 0.0..=1.0f64) {
        Course::new(Policy::Fixed { x, y }, parameters()).play(&frames)?;
    }

    #[test]
    fn feedback_keeps_the_laws(frames in frames(), parameters in any_parameters()) {
        Course::new(Policy::Feedback, parameters).play(&frames)?;
    }

    #[test]
    fn saliency_keeps_the_laws(frames in frames(), parameters in any_parameters()) {
        Course::new(Policy::Saliency, parameters).play(&frames)?;
    }

    /// A log of any policy, written and read again: the replay is what was recorded, and keeps what it kept.
    #[test]
    fn replay_keeps_the_laws_and_repeats_what_was_recorded(
        frames in frames(), parameters in any_parameters(), attends in any::<bool>(),
    ) {
        let policy = if attends { Policy::Feedback } else { Policy::Saliency };
        let recorded = Course::new(policy, parameters).play(&frames)?;
        let log = GazeLog::parse(&text_of(&recorded)).unwrap();
        let replayed = Course::new(Policy::Replay { log: Arc::new(log) }, parameters).play(&frames)?;
        prop_assert_eq!(recorded, replayed);
    }

    #[test]
    fn the_same_calls_lead_to_the_same_gaze(frames in frames(), parameters in any_parameters()) {
        let play = || Course::new(Policy::Feedback, parameters).play(&frames);
        prop_assert_eq!(play()?, play()?);
    }

    /// However long the client keeps sending, once the map has been decided on.
    #[test]
    fn a_map_that_is_equal_to_the_one_before_causes_no_saccade(
        first in any::<u64>(), seed in any::<u64>(), parameters in any_parameters(),
    ) {
        let saccade_hz = parameters.saccade_hz.max(2.0);
        let mut course = Course::new(Policy::Feedback, GazeParameters { saccade_hz, ..parameters });
        course.pass(SECOND_NS, Operation::Attend { seed: first })?;
        let mut decided = None;
        for time in 0..32 {
            course.pass(SECOND_NS / 4, Operation::Attend { seed })?;
            // After dwelling for at most 2 s, and waiting for half a second.
            if 12 <= time {
                let before = *decided.get_or_insert(course.fixation());
                prop_assert_eq!(course.fixation(), before);
            }
        }
    }
}

#[test]
fn a_look_holds_as_long_as_it_says() {
    for policy in [fixed(), Policy::Feedback, Policy::Saliency] {
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
fn a_look_without_a_time_holds_for_ever_where_the_policy_is_fixed() {
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
fn attention_is_followed_from_the_next_decision_on_and_for_as_long_as_it_comes() {
    let mut course = Course::new(Policy::Feedback, parameters());
    course.pass(SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency);
    course.pass(SECOND_NS / 2, Operation::Attend { seed: 5 }).unwrap();
    let Peak { x, y, .. } = map_of(5, EXTENT).peak();
    let fixation = course.fixation();
    assert_eq!(fixation.reason, FixationReason::Attend);
    assert!((fixation.x - x).abs() <= 0.05 && (fixation.y - y).abs() <= 0.05);
    assert_eq!(course.relevance_frame(), Some(4), "of the map");
    course.pass(SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation(), fixation);
    course.pass(2 * SECOND_NS, Operation::Nothing).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency, "after silence");
    assert!(course.relevance_frame() > Some(4), "of what is seen");
}

#[test]
fn attention_is_ignored_by_other_policies() {
    for policy in [fixed(), Policy::Saliency] {
        let course = |operation: Operation| {
            let mut course = Course::new(policy.clone(), parameters());
            course.pass(SECOND_NS, operation).unwrap();
            course.controller.gaze().clone()
        };
        assert_eq!(course(Operation::Attend { seed: 7 }), course(Operation::Nothing));
    }
}

#[test]
fn release_gives_the_eye_back_to_the_policy_at_the_next_frame() {
    let mut course = Course::new(Policy::Feedback, parameters());
    course.pass(SECOND_NS, Operation::Attend { seed: 5 }).unwrap();
    course.step(&frame(look(10.0, 20.0, None))).unwrap();
    course.pass(SECOND_NS / 3, Operation::Nothing).unwrap();
    course.step(&frame(Operation::Release)).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Saliency);
}

#[test]
fn before_anything_is_seen_the_middle_is_looked_at() {
    for policy in [Policy::Feedback, Policy::Saliency] {
        let mut controller = Controller::new(policy, parameters(), EXTENT, frame_time(1, 0));
        assert!(controller.wants_coarse());
        let black = CoarseLevel::new(PyramidShape::new(EXTENT));
        for frame_seq in 1..100 {
            let seen = (frame_seq > 50).then_some((&black, frame_seq - 1));
            controller.step(frame_time(frame_seq, frame_seq * FRAME_NS), seen);
        }
        let Fixation { id, x, y, reason, .. } = controller.gaze().fixation;
        assert_eq!((id, x, y, reason), (1, 320.0, 240.0, FixationReason::Policy));
        assert_eq!(controller.gaze().relevance, None);
    }
}

#[test]
fn a_gain_of_0_makes_no_relevance() {
    let parameters = GazeParameters { relevance_gain: 0.0, ..parameters() };
    let mut course = Course::new(Policy::Feedback, parameters);
    course.pass(SECOND_NS, Operation::Attend { seed: 1 }).unwrap();
    assert_eq!(course.fixation().reason, FixationReason::Attend);
    assert_eq!(course.controller.gaze().relevance, None);
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
        Controller::new(Policy::Replay { log }, parameters(), twice, frame_time(1, 0));
    let mut at = |frame_seq| {
        controller.step(frame_time(frame_seq, 0), None);
        let Fixation { id, x, y, .. } = controller.gaze().fixation;
        (id, x, y)
    };
    let (first, second) = ((3, 128.0, 96.0), (4, 1280.0, 0.0));
    let seen = [1, 9, 10, 19, 20, 500, 12].map(&mut at);
    assert_eq!(seen, [first, first, first, first, second, second, first]);
}

/// One controller on its way through frames, and what is known of it from outside.
struct Course {
    policy: Policy,
    parameters: GazeParameters,
    controller: Controller,
    extent: Extent,
    at: FrameTime,
    /// The stream's time, which stands still when it jumps back.
    elapsed_ns: u64,
    moved_ns: Option<u64>,
    /// The interval in which a map last decided.
    decided: Option<u64>,
    seen: Option<(CoarseLevel, u64)>,
}

impl Course {
    fn new(policy: Policy, parameters: GazeParameters) -> Self {
        let at = frame_time(1, 0);
        let controller = Controller::new(policy.clone(), parameters, EXTENT, at);
        let (moved_ns, decided) = (None, None);
        Self {
            policy,
            parameters,
            controller,
            extent: EXTENT,
            at,
            elapsed_ns: 0,
            moved_ns,
            decided,
            seen: None,
        }
    }

    /// Plays frames, and returns the extent and the gaze of each.
    fn play(&mut self, frames: &[Frame]) -> Result<Vec<(u64, Extent, Gaze)>, TestCaseError> {
        let mut gazes = Vec::new();
        for frame in frames {
            self.step(frame)?;
            gazes.push((self.at.frame_seq, self.extent, self.controller.gaze().clone()));
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
        let before = self.controller.gaze().clone();
        let time_ns = self.at.time_ns.saturating_add_signed(frame.after_ns);
        self.elapsed_ns += time_ns.saturating_sub(self.at.time_ns);
        let jumped_back = time_ns < self.at.time_ns;
        self.at = frame_time(self.at.frame_seq + 1, time_ns);
        self.operate(&frame.operation);
        let seen = self.seen.as_ref().map(|(coarse, frame_seq)| (coarse, *frame_seq));
        self.controller.step(self.at, seen);
        self.seen = Some((picture(frame.seed, self.extent), self.at.frame_seq));
        let is_forced = jumped_back || matches!(frame.operation, Operation::Release);
        self.check(&before, &frame.operation, is_forced)
    }

    fn operate(&mut self, operation: &Operation) {
        let feedback = match *operation {
            Operation::Nothing => return,
            Operation::Look { x, y, hold_ns } => Feedback::Look { x, y, hold_ns },
            Operation::Attend { seed } => {
                Feedback::Attend { map: Arc::new(map_of(seed, self.extent)), frame_seq: 4 }
            }
            Operation::Release => Feedback::Release,
            Operation::Resize(width, height) => {
                self.extent = Extent::new(width, height);
                self.seen = None;
                return self.controller.resize(self.extent, self.at);
            }
        };
        self.controller.take(&feedback, self.at);
    }

    fn check(
        &mut self,
        before: &Gaze,
        operation: &Operation,
        is_forced: bool,
    ) -> Result<(), TestCaseError> {
        let gaze = self.controller.gaze().clone();
        let Fixation { x, y, reason, .. } = gaze.fixation;
        prop_assert!((0.0..=f64::from(self.extent.width)).contains(&x), "{x} of {}", self.extent);
        prop_assert!((0.0..=f64::from(self.extent.height)).contains(&y), "{y} of {}", self.extent);
        prop_assert_eq!(((x * 16.0).fract(), (y * 16.0).fract()), (0.0, 0.0));
        if matches!(self.policy, Policy::Replay { .. }) {
            return Ok(());
        }
        let identity = |fixation: &Fixation| (fixation.x, fixation.y, fixation.reason);
        let moved = identity(&before.fixation) != identity(&gaze.fixation);
        prop_assert_eq!(gaze.fixation.id, before.fixation.id + u64::from(moved));
        let since = if moved { self.at.frame_seq } else { before.fixation.since_frame };
        prop_assert_eq!(gaze.fixation.since_frame, since);
        self.check_obedience(operation, reason)?;
        self.check_pace(moved, gaze.relevance != before.relevance, operation, is_forced)
    }

    fn check_obedience(
        &self,
        operation: &Operation,
        reason: FixationReason,
    ) -> Result<(), TestCaseError> {
        match *operation {
            Operation::Look { x, y, .. } if !x.is_nan() && !y.is_nan() => {
                let Fixation { x: looks_x, y: looks_y, .. } = self.controller.gaze().fixation;
                let (width, height) = (f64::from(self.extent.width), f64::from(self.extent.height));
                prop_assert!((looks_x - x.clamp(0.0, width)).abs() <= 1.0 / 16.0);
                prop_assert!((looks_y - y.clamp(0.0, height)).abs() <= 1.0 / 16.0);
                prop_assert_eq!(reason, FixationReason::Look);
            }
            Operation::Release => prop_assert!(reason != FixationReason::Look || self.dwells()),
            _ => {}
        }
        Ok(())
    }

    /// Maps move the eye only after it has dwelt, and decide at most once an interval.
    fn check_pace(
        &mut self,
        moved: bool,
        weighed: bool,
        operation: &Operation,
        is_forced: bool,
    ) -> Result<(), TestCaseError> {
        let is_look = matches!(operation, Operation::Look { .. });
        let is_by_map = moved
            && !is_look
            && !matches!(operation, Operation::Resize(..))
            && !matches!(self.policy, Policy::Fixed { .. });
        if is_by_map {
            prop_assert!(
                !self.dwells(),
                "a saccade after {} ns",
                self.elapsed_ns - self.moved_ns.unwrap()
            );
        }
        if is_by_map || weighed {
            let interval = (self.elapsed_ns as f64 * 1e-9 * self.parameters.saccade_hz) as u64;
            prop_assert!(
                is_forced || self.decided != Some(interval),
                "two decisions in an interval"
            );
            self.decided = Some(interval);
        }
        if moved && !matches!(operation, Operation::Resize(..)) {
            self.moved_ns = Some(self.elapsed_ns);
        }
        Ok(())
    }

    /// Whether it must not move yet.
    fn dwells(&self) -> bool {
        let dwell_ns = u64::from(self.parameters.dwell_min_ms) * 1_000_000;
        self.moved_ns.is_some_and(|moved_ns| self.elapsed_ns < moved_ns + dwell_ns)
    }

    fn fixation(&self) -> Fixation {
        self.controller.gaze().fixation
    }

    fn relevance_frame(&self) -> Option<u64> {
        self.controller.gaze().relevance.as_ref().map(|relevance| relevance.frame_seq)
    }
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
    let fixation = Fixation { id, x, y, since_frame: 1, reason: FixationReason::Look };
    Gaze { fixation, relevance: None }
}

fn fixed() -> Policy {
    Policy::Fixed { x: 0.5, y: 0.25 }
}

fn look(x: f64, y: f64, hold_ns: Option<u64>) -> Operation {
    Operation::Look { x, y, hold_ns }
}

fn frame(operation: Operation) -> Frame {
    Frame { operation, after_ns: i64::try_from(FRAME_NS).unwrap(), seed: 9 }
}

fn parameters() -> GazeParameters {
    GazeParameters::default()
}

fn any_parameters() -> impl Strategy<Value = GazeParameters> {
    let pace = (prop_oneof![Just(4.0), 0.01..1000.0f64], 0..2000u32, 1.0..=10.0f64);
    (pace, 0.0..=1.0f64, 1..5000u32, 0.01..=1.0f64).prop_map(
        |(
            (saccade_hz, dwell_min_ms, hysteresis),
            inhibition,
            inhibition_decay_ms,
            inhibition_radius,
        )| {
            GazeParameters {
                saccade_hz,
                dwell_min_ms,
                hysteresis,
                inhibition,
                inhibition_decay_ms,
                inhibition_radius,
                ..parameters()
            }
        },
    )
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
    let look =
        (coordinate(), coordinate(), hold_ns).prop_map(|(x, y, hold_ns)| look(x, y, hold_ns));
    let resize =
        (1..800u32, 1..800u32).prop_map(|(width, height)| Operation::Resize(width, height));
    prop_oneof![
        6 => Just(Operation::Nothing),
        2 => look,
        4 => (0..6u64).prop_map(|seed| Operation::Attend { seed }),
        1 => Just(Operation::Release),
        1 => resize,
    ]
}

/// A map with two bumps.
fn map_of(seed: u64, extent: Extent) -> AttentionMap {
    let grid = Extent::new(16, 12);
    let mut weights = vec![0.01; grid.area()];
    let cell =
        |salt: u64| (seed.wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize;
    weights[cell(1) % grid.area()] = 1.0;
    weights[cell(2) % grid.area()] = 0.7;
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

fn frame_time(frame_seq: u64, time_ns: u64) -> FrameTime {
    FrameTime { frame_seq, time_ns }
}
