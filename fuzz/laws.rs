//! Laws for arbitrary bytes in place of a message or a gaze log: nothing panics, refusals fit in a datagram with their
//! reason, and accepted input survives a round trip.

use std::fmt::Debug;
use std::sync::Arc;

use foveate::messages::{
    Attend, AttendTokens, DATAGRAM_BYTES_MAX, FromDaemon, Inject, Looking, Refusal, RefusalReason,
    SubscriptionEvent, TTL_MS_DEFAULT,
};
use foveate_control::{Listing, Request, numbers, refused};
use foveate_core::ego::EgoTransform;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Focus;
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::weights::Peak;
use foveate_daemon::stream::ServedView;
use foveate_gaze::controller::{Controller, Policy};
use foveate_gaze::layout::{Layout, PlanRequest};
use foveate_gaze::log::{GazeLog, LogEntry, entry_line, header_line};
use foveate_gaze::relevance::injection::{Injection, VALUE_MAX};
use foveate_gaze::view::ViewSpec;
use foveate_server::described::view_from_table;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A picture whose sides are odd.
const IMAGE: Extent = Extent::new(97, 65);

/// Panics if a law is broken.
pub(crate) fn hold_for(bytes: &[u8]) {
    if bytes.len() <= DATAGRAM_BYTES_MAX {
        hold_for_request(bytes);
        hold_for_answer::<Value>(bytes);
        hold_for_answer::<Listing>(bytes);
        hold_for_answer::<Looking>(bytes);
    }
    hold_for_log(&String::from_utf8_lossy(bytes));
}

fn hold_for_request(datagram: &[u8]) {
    let (request, payload) = match Request::from_datagram(datagram) {
        Ok(understood) => understood,
        Err(refusal) => return hold_for_refusal(&refusal, &[RefusalReason::BadRequest]),
    };
    let again = request.to_datagram(payload);
    assert_eq!(Request::from_datagram(&again), Ok((request.clone(), payload)));
    match request {
        Request::Attend(attend) => hold_for_map(&attend, payload),
        Request::AttendTokens(attend) => hold_for_scores(&attend, payload),
        Request::Inject(inject) => hold_for_injection(&inject, payload),
        Request::OpenView { view, .. } => match view_from_table(&view) {
            Ok(config) => {
                let plan = ServedView::try_from(&config).expect("it names no file");
                let ViewSpec { layout, budget, format, .. } = &plan.spec;
                let tokens = layout
                    .plan(&plan_request(format.patch_side, *budget, &[Focus::at(8.0, 64.9)]))
                    .tokens;
                assert!((1..=*budget).contains(&tokens.len()));
            }
            Err(refusal) => hold_for_refusal(&refusal, &[RefusalReason::BadRequest]),
        },
        _ => {}
    }
}

fn plan_request(patch_side: u32, budget: usize, fixations: &[Focus]) -> PlanRequest<'_> {
    let shape = PyramidShape::new(IMAGE);
    PlanRequest {
        shape,
        patch_side,
        budget,
        fixations,
        relevance: None,
        before: None,
        demand: None,
    }
}

fn hold_for_refusal(refusal: &Refusal, expected: &[RefusalReason]) {
    assert!(expected.contains(&refusal.reason), "{refusal:?}");
    assert!(!refusal.error.is_empty());
    let datagram = refused(refusal);
    assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "{} bytes", datagram.len());
    let read = FromDaemon::<Value>::from_datagram(&datagram).expect("it is a message");
    assert_eq!(read, FromDaemon::Refused(refusal.clone()));
}

fn hold_for_map(attend: &Attend, payload: &[u8]) {
    let region = attend.region.unwrap_or(Region::of(IMAGE));
    let [rows, columns] = attend.shape;
    match numbers(attend.dtype, payload) {
        Ok(weights) => {
            if let Ok(map) = AttentionMap::new(Extent::new(columns, rows), region, IMAGE, weights) {
                hold_for_peak(&map);
                if let Ok(Some(motion)) = attend.ego_motion() {
                    let transform = EgoTransform::of(motion, IMAGE, None);
                    let moved = transform.ok().and_then(|transform| transform.map_now(&map));
                    moved.iter().for_each(hold_for_peak);
                }
            }
        }
        Err(refusal) => hold_for_refusal(&refusal, &[RefusalReason::WrongCount]),
    }
}

fn hold_for_injection(inject: &Inject, payload: &[u8]) {
    let [rows, columns] = inject.shape;
    let area = (Extent::new(columns, rows), inject.region.unwrap_or(Region::of(IMAGE)));
    let (frame, ttl_ms) = (inject.frame.unwrap_or(1), inject.ttl_ms.unwrap_or(TTL_MS_DEFAULT));
    match numbers(inject.dtype, payload) {
        Ok(values) => match Injection::new(&inject.name, area, IMAGE, values, frame, ttl_ms) {
            Ok(injection) => {
                let values = injection.values();
                assert_eq!(values.len(), injection.grid().area());
                assert!(values.iter().all(|value| value.abs() <= VALUE_MAX));
                assert!(!injection.is_over(5, 5), "it lives for a while");
                assert!(injection.is_over(5, u64::MAX), "and not for ever");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(refusal) => hold_for_refusal(&refusal, &[RefusalReason::WrongCount]),
    }
}

fn hold_for_scores(attend: &AttendTokens, payload: &[u8]) {
    let plan = Layout::default().plan(&plan_request(14, 9, &[Focus::at(50.0, 20.0)]));
    match numbers(attend.dtype, payload) {
        Ok(scores) => {
            if let Ok(map) = AttentionMap::painted(&plan, IMAGE, &scores) {
                hold_for_peak(&map);
            }
        }
        Err(refusal) => hold_for_refusal(&refusal, &[RefusalReason::WrongCount]),
    }
}

fn hold_for_peak(map: &AttentionMap) {
    let Peak { x, y, .. } = map.peak();
    let (right, bottom) = (f64::from(IMAGE.width), f64::from(IMAGE.height));
    assert!((0.0..=right).contains(&x) && (0.0..=bottom).contains(&y), "({x}, {y}) of {map:?}");
    let pooled = map.as_weights().pooled(IMAGE, Extent::new(7, 5));
    assert!(pooled.iter().all(|weight| weight.is_finite() && 0.0 <= *weight), "{map:?}");
}

fn hold_for_answer<T: DeserializeOwned + PartialEq + Debug>(datagram: &[u8]) {
    if let Ok(FromDaemon::<T>::Event(event)) = FromDaemon::from_datagram(datagram) {
        let again = FromDaemon::<T>::from_datagram(&event.to_datagram());
        assert_eq!(again.expect("it is a message"), FromDaemon::Event(event.clone()));
        if let SubscriptionEvent::Gaze(event) = event
            && let Ok(gaze) = event.entry.gaze()
        {
            assert_eq!(GazeEntry::new(&gaze, event.entry.frame).gaze(), Ok(gaze));
        }
    }
}

fn hold_for_log(text: &str) {
    let Ok(log) = GazeLog::parse(text) else { return };
    let mut lines = vec![header_line(&log.view, log.extent)];
    let line = |LogEntry { frame, gaze, is_planned_afresh }: &LogEntry| {
        let is_planned_afresh = *is_planned_afresh;
        entry_line(&GazeEntry { is_planned_afresh, ..GazeEntry::new(gaze, *frame) })
    };
    lines.extend(log.entries.iter().map(line));
    assert_eq!(GazeLog::parse(&lines.join("\n")).expect("it was read"), log);

    let at = FrameTime { frame_seq: 1, time_ns: 0 };
    let policy = Policy::Replay { log: Arc::new(log) };
    let mut controller = Controller::new(policy, Default::default(), false, IMAGE, 8, at);
    controller.arrive(FrameTime { frame_seq: 5, time_ns: 1 }, None);
    let gaze = controller.gaze();
    let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
    let foci = gaze.foci();
    let plan = Layout::default().plan(&PlanRequest { relevance, ..plan_request(16, 20, &foci) });
    assert!((1..=20).contains(&plan.tokens.len()));
}
