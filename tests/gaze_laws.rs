//! Whatever clients say and whatever the source does, a fixation stays in the image, on its grid, and gets a new id
//! exactly when it moves.

use foveate::gaze::controller::{Controller, Policy};
use foveate::geometry::extent::Extent;
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
        let mut controller = Controller::new(Policy::Fixed { x, y }, extent, 1);
        for (frame_seq, operation) in (2..).zip(operations) {
            let before = controller.fixation();
            match operation {
                Operation::Look(x, y) => controller.look(x, y, frame_seq),
                Operation::Resize(width, height) => {
                    extent = Extent::new(width, height);
                    controller.resize(extent, frame_seq);
                }
            }
            let after = controller.fixation();
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
    let mut controller = Controller::new(Policy::Fixed { x: 0.5, y: 0.5 }, Extent::new(100, 50), 7);
    assert_eq!((controller.fixation().x, controller.fixation().y), (50.0, 25.0));
    assert_eq!(controller.fixation().reason, FixationReason::Policy);
    controller.look(10.03, 20.0, 9);
    let fixation = controller.fixation();
    assert_eq!((fixation.x, fixation.y, fixation.since_frame), (10.0, 20.0, 9));
    assert_eq!(fixation.reason, FixationReason::Look);
}

fn operation() -> impl Strategy<Value = Operation> {
    let look = (-1e6..1e6f64, -1e6..1e6f64).prop_map(|(x, y)| Operation::Look(x, y));
    let resize =
        (1..2000u32, 1..2000u32).prop_map(|(width, height)| Operation::Resize(width, height));
    prop_oneof![look, resize]
}
