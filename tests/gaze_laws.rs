//! Whatever clients say and whatever the source does, a fixation stays in the image, on its grid, and gets a new id
//! exactly when it moves.

use foveate::config::GazeParameters;
use foveate::gaze::controller::{Controller, Moment, Policy};
use foveate::geometry::extent::Extent;
use foveate::geometry::feedback::Feedback;
use foveate::geometry::fixation::FixationReason;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Look(f64, f64),
    Resize(u32, u32),
}

proptest! {
    #[test]
    fn fixations_stay_in_the_image_and_ids_count_moves(
        operations in prop::collection::vec(operation(), 0..40), x in 0.0..=1.0f64, y in 0.0..=1.0f64,
    ) {
        let mut extent = Extent::new(640, 480);
        let mut controller = new_controller(x, y, extent, 1);
        for (frame_seq, operation) in (2..).zip(operations) {
            let before = controller.gaze().fixation;
            match operation {
                Operation::Look(x, y) => look(&mut controller, x, y, frame_seq),
                Operation::Resize(width, height) => {
                    extent = Extent::new(width, height);
                    controller.resize(extent, moment(frame_seq));
                }
            }
            let after = controller.gaze().fixation;
            prop_assert!((0.0..=f64::from(extent.width)).contains(&after.x));
            prop_assert!((0.0..=f64::from(extent.height)).contains(&after.y));
            prop_assert_eq!((after.x * 16.0).fract(), 0.0);
            let moved = (before.x, before.y, before.reason) != (after.x, after.y, after.reason);
            prop_assert_eq!(after.id, before.id + u64::from(moved));
            prop_assert_eq!(after.since_frame, if moved { frame_seq } else { before.since_frame });
        }
    }
}

#[test]
fn a_look_obeys_at_once_and_says_why() {
    let mut controller = new_controller(0.5, 0.5, Extent::new(100, 50), 7);
    assert_eq!((controller.gaze().fixation.x, controller.gaze().fixation.y), (50.0, 25.0));
    assert_eq!(controller.gaze().fixation.reason, FixationReason::Policy);
    look(&mut controller, 10.03, 20.0, 9);
    let fixation = controller.gaze().fixation;
    assert_eq!((fixation.x, fixation.y, fixation.since_frame), (10.0, 20.0, 9));
    assert_eq!(fixation.reason, FixationReason::Look);
}

fn operation() -> impl Strategy<Value = Operation> {
    let look = (-1e6..1e6f64, -1e6..1e6f64).prop_map(|(x, y)| Operation::Look(x, y));
    let resize =
        (1..2000u32, 1..2000u32).prop_map(|(width, height)| Operation::Resize(width, height));
    prop_oneof![look, resize]
}

fn new_controller(x: f64, y: f64, extent: Extent, frame_seq: u64) -> Controller {
    let policy = Policy::Fixed { x, y };
    Controller::new(policy, GazeParameters::default(), extent, moment(frame_seq))
}

fn look(controller: &mut Controller, x: f64, y: f64, frame_seq: u64) {
    controller.take(&Feedback::Look { x, y, hold_ns: None }, moment(frame_seq));
}

fn moment(frame_seq: u64) -> Moment {
    Moment { frame_seq, time_ns: frame_seq * 33_333_333 }
}
