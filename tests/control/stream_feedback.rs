//! What clients say of a picture steers that picture, and no other.

use std::sync::Arc;

use foveate_config::{GazeConfig, ViewConfig};
use foveate_core::backend::BackendChoice;
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::gaze::controller::Policy;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::feedback::Feedback;
use foveate_core::geometry::fixation::{Fixation, FixationReason};
use foveate_daemon::channel::{EventFd, view_channel};
use foveate_daemon::stream::{Backends, ServedView, Stream};

use crate::naive::{OwnedFrame, transforms};

#[test]
fn what_was_said_of_a_picture_of_another_extent_is_not_obeyed_and_is_settled() {
    let (large, small) = (Extent::new(192, 100), Extent::new(64, 48));
    for policy in [Policy::default(), Policy::Feedback, Policy::Saliency] {
        let gaze = GazeConfig { policy, ..GazeConfig::default() };
        let plan = ServedView::try_from(&ViewConfig { gaze, ..ViewConfig::default() }).unwrap();
        let (channel, client) = view_channel(&Arc::new(EventFd::new().unwrap()), true);
        let backend = Backends::default().choose(BackendChoice::Cpu, None).unwrap();
        let views = [(plan, channel)];
        let mut stream =
            Stream::new("camera", backend, ChangeConfig::default(), views, Arc::default());
        let mut fixation_of = |extent: Extent, frame_seq: u64| -> Fixation {
            let color = transforms(PixelFormat::Gray8)[0];
            let frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, color, 90);
            stream.step(&frame.view(), &FrameStamp::numbered(frame_seq)).unwrap();
            stream.gaze(0).unwrap().first()
        };
        fixation_of(large, 1);
        // Said of the large picture, and taken when there is a small one already.
        let look = Feedback::look_at(180.0, 90.0, None);
        let ticket = client.send_feedback(look.clone(), large, 1).unwrap();
        let fixation = fixation_of(small, 2);
        assert_ne!(fixation.reason, FixationReason::Look, "{fixation:?}");
        let settled = client.settled(ticket).unwrap();
        assert_eq!(settled.as_slice(), [fixation], "nobody waits for it in vain");

        client.send_feedback(Feedback::look_at(18.0, 9.0, None), small, 2).unwrap();
        let fixation = fixation_of(small, 3);
        assert_eq!((fixation.x, fixation.y, fixation.reason), (18.0, 9.0, FixationReason::Look));
    }
}
