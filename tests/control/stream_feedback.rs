//! What clients say of a picture steers that picture, and no other.

use std::sync::Arc;
use std::time::Duration;

use foveate_config::{GazeConfig, ViewConfig};
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason};
use foveate_core::geometry::region::Region;
use foveate_daemon::stream::{ServedView, Stream, ViewPace};
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::relevance::injection::Injection;
use testkit::naive::{OwnedFrame, Random, transforms};
use testkit::stream::{channel, on_cpu};

#[test]
fn an_expired_map_is_dropped_and_counted() {
    const EXTENT: Extent = Extent::new(64, 48);
    let policy = Policy::Relevance { scorer: None, weights: Default::default(), passes: 1 };
    let gaze = GazeConfig { policy, ..GazeConfig::default() };
    let plan = ServedView::try_from(&ViewConfig { gaze, ..ViewConfig::default() }).unwrap();
    let (channel, client) = channel();
    let views = [(plan, channel)];
    let mut stream =
        Stream::new("camera", on_cpu(), ChangeConfig::default(), views, Arc::default());
    let color = transforms(PixelFormat::Gray8)[0];
    let frame = OwnedFrame::uniform(PixelFormat::Gray8, EXTENT, color, 90);
    let mut show = |frame_seq: u64, ms: u64| {
        let stamp = FrameStamp { pts_ns: Some(ms * 1_000_000), ..FrameStamp::numbered(frame_seq) };
        stream.step(&frame.view(), &stamp).unwrap();
    };
    let inject = |frame_seq: u64, ttl_ms: u32, image: Extent| {
        let area = (Extent::new(1, 1), Region::of(image));
        let map = Injection::new("depth", area, image, vec![1.0], frame_seq, ttl_ms).unwrap();
        client.send_feedback(Feedback::Inject(Arc::new(map)), image, 1, false).unwrap()
    };
    let late = || client.counters().injections_late.get();
    // Frames 1, 3, 5, ... 199, 10 ms after one another.
    (0..100).for_each(|number| show(2 * number + 1, 10 * number));
    // At 1000 ms frame 181 is 100 ms old, and so is 182, of which nothing is known.
    for (round, made_from) in [181, 182].into_iter().enumerate() {
        let (round, newest) = (round as u64, 201 + 2 * round as u64);
        let ticket = inject(made_from, 101, EXTENT);
        show(newest, 1000);
        assert_eq!(late(), 2 * round);
        assert!(client.settled(ticket).is_some());
        inject(made_from, 100, EXTENT);
        inject(made_from, 90, EXTENT);
        show(newest + 1, 1000);
        assert_eq!(late(), 2 * (round + 1));
    }
    // A map of a frame that is ten seconds old, whose time is no longer known.
    (0..100).for_each(|number| show(300 + number, 12_000 + 10 * number));
    let ticket = inject(1, 60_000, EXTENT);
    show(400, 13_000);
    assert_eq!(late(), 5);
    assert!(client.settled(ticket).is_some(), "the waiting client gets an answer");
    // A map of a picture of another size is dropped, as all feedback about one is.
    inject(1, 60_000, Extent::new(65, 48));
    show(401, 13_010);
    assert_eq!(late(), 5);
}

#[test]
fn feedback_for_another_extent_is_settled_unused() {
    let (large, small) = (Extent::new(192, 100), Extent::new(64, 48));
    for policy in [Policy::Fixed { x: 0.5, y: 0.5 }, Policy::Feedback, Policy::Saliency] {
        let gaze = GazeConfig { policy, ..GazeConfig::default() };
        let plan = ServedView::try_from(&ViewConfig { gaze, ..ViewConfig::default() }).unwrap();
        let (channel, client) = channel();
        let views = [(plan, channel)];
        let mut stream =
            Stream::new("camera", on_cpu(), ChangeConfig::default(), views, Arc::default());
        let mut fixation_of = |extent: Extent, frame_seq: u64| -> Fixation {
            let color = transforms(PixelFormat::Gray8)[0];
            let frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, color, 90);
            stream.step(&frame.view(), &FrameStamp::numbered(frame_seq)).unwrap();
            stream.gaze(0).unwrap().first()
        };
        fixation_of(large, 1);
        // Said of the large picture, and taken when there is a small one already.
        let look = Feedback::look_at(180.0, 90.0, None);
        let ticket = client.send_feedback(look.clone(), large, 1, false).unwrap();
        let fixation = fixation_of(small, 2);
        assert_ne!(fixation.reason, FixationReason::Look, "{fixation:?}");
        let settled = client.settled(ticket).unwrap();
        assert_eq!(settled.as_slice(), [fixation], "the waiting client gets an answer");

        client.send_feedback(Feedback::look_at(18.0, 9.0, None), small, 2, false).unwrap();
        let fixation = fixation_of(small, 3);
        assert_eq!((fixation.x, fixation.y, fixation.reason), (18.0, 9.0, FixationReason::Look));
    }
}

/// The picture goes to the right by 4 pixels a frame. A client says where a place is in the frame to come; a view that keeps a rate takes
/// it frames later, and looks where the place is then, if that is measured.
#[test]
fn compensated_feedback_is_carried_from_its_target_frame() {
    const EXTENT: Extent = Extent::new(256, 192);
    const PLACE: (f64, f64) = (100.0, 90.0);
    for (motion, compensation) in [(true, true), (false, true), (true, false)] {
        let policy = Policy::Fixed { x: 0.5, y: 0.5 };
        let mut gaze = GazeConfig { policy, ..GazeConfig::default() };
        gaze.parameters.compensation = compensation;
        let plan = ServedView::try_from(&ViewConfig { gaze, ..ViewConfig::default() }).unwrap();
        let pace = ViewPace { interval: Some(Duration::from_millis(70)), when_read: false };
        let plans = [plan.clone(), ServedView { name: "few".to_owned(), pace, ..plan }];
        let mut clients = Vec::new();
        let views = plans.map(|plan| {
            let (channel, client) = channel();
            clients.push(client);
            (plan, channel)
        });
        let change = ChangeConfig::default();
        let mut stream =
            Stream::new("camera", on_cpu(), change, views, Arc::default()).with_motion(motion);
        for number in 1..=12 {
            let arrival_ns = 10_000_000 * number;
            let numbered = FrameStamp::numbered(number);
            let stamp = FrameStamp { pts_ns: Some(arrival_ns), arrival_ns, ..numbered };
            stream.step(&panned(EXTENT, 4.0 * number as f64).view(), &stamp).unwrap();
            if number == 3 {
                let look = Feedback::look_at(PLACE.0, PLACE.1, None);
                for client in &clients {
                    client
                        .send_feedback(look.clone(), EXTENT, arrival_ns + 5_000_000, true)
                        .unwrap();
                }
            }
        }
        let [all, few] = [0, 1].map(|view| stream.gaze(view).unwrap().first());
        assert_eq!((all.since_frame, all.x, all.y), (4, PLACE.0, PLACE.1));
        let later = few.since_frame - 4;
        assert!(3 < later && few.reason == FixationReason::Look, "{few:?}");
        let is_carried = motion && compensation;
        let x = PLACE.0 + if is_carried { 4.0 * later as f64 } else { 0.0 };
        let off = (few.x - x).hypot(few.y - PLACE.1);
        assert!(off < if is_carried { 2.0 } else { f64::MIN_POSITIVE }, "{few:?} instead of {x}");
    }
}

/// Random shades of squares of 16 pixels, smoothed between, that have gone to the right by `shift` pixels.
#[allow(clippy::cast_possible_truncation, reason = "shades of a test")]
fn panned(extent: Extent, shift: f64) -> OwnedFrame {
    let color = transforms(PixelFormat::Gray8)[0];
    let mut frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, color, 0);
    let (bytes, stride) = frame.plane_mut(0);
    let shade = |column: u64, row: u64| f64::from(Random(1 + 977 * column + 31 * row).byte());
    for (index, byte) in bytes.iter_mut().enumerate() {
        let x = ((index % stride) as f64 - shift) / 16.0 + 64.0;
        let y = (index / stride) as f64 / 16.0;
        let (column, row) = (x as u64, y as u64);
        let mix = |row: u64| {
            let (left, right) = (shade(column, row), shade(column + 1, row));
            left + (x - column as f64) * (right - left)
        };
        *byte = (mix(row) + (y - row as f64) * (mix(row + 1) - mix(row))) as u8;
    }
    frame
}
