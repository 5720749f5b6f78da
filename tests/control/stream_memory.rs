//! A stream takes the memory of all its rings, or none of it.

use std::sync::Arc;

use foveate_core::change::ChangeConfig;
use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{ServedView, Stream, StreamError};
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{RingError, SegmentSpec, check_memory};
use foveate_server::channel::ViewChannel;
use testkit::naive::OwnedFrame;
use testkit::ring;
use testkit::stream::{on_cpu, served, spec};

const FORMAT: TokenFormat = TokenFormat::new(16, DType::F32, Normalisation::UNIT);

const VIEWS: usize = 8;

#[test]
fn rings_that_exceed_memory_together_are_refused() {
    let budget = fitting_budget();
    check_memory(&[segment(budget)]).expect("one fits");
    let specs = vec![segment(budget); VIEWS];
    let RingError::OutOfMemory { bytes, .. } = check_memory(&specs).unwrap_err() else { panic!() };

    let plans = (0..VIEWS).map(|index| (plan(index, budget), ViewChannel::unconnected()));
    let mut stream =
        Stream::new("camera", on_cpu(), ChangeConfig::default(), plans, Arc::default());
    let color = ColorTransform::IDENTITY;
    let frame = OwnedFrame::uniform(PixelFormat::Gray8, Extent::new(8, 8), color, 0);
    let error = stream.step(&frame.view(), &FrameStamp::numbered(1)).unwrap_err();
    let StreamError::Rings(source) = &error else { panic!("{error}") };
    assert!(source.to_string().contains(&bytes.to_string()), "{source}");
    assert!((0..VIEWS).all(|index| stream.segment(index).unwrap().is_none()));
}

/// Tokens of a ring that takes about a quarter of the memory that is available.
fn fitting_budget() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024 / 4 / SLOTS / (FORMAT.token_bytes() + 64)
}

const SLOTS: usize = 64;

fn segment(capacity: usize) -> SegmentSpec {
    let planes = vec![PlaneSpec::relevance()];
    SegmentSpec { format: FORMAT, slot_count: SLOTS, camera: None, planes, ..ring::spec(capacity) }
}

fn plan(index: usize, budget: usize) -> ServedView {
    let spec = ViewSpec { format: FORMAT, ..spec(Layout::Uniform, budget) };
    ServedView { slot_count: SLOTS, ..served(&format!("view{index}"), spec) }
}
