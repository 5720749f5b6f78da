//! A stream takes the memory of all its rings, or none of it.

use std::sync::Arc;

use foveate_core::backend::BackendChoice;
use foveate_core::change::ChangeConfig;
use foveate_core::color::{ColorRange, ColorTransform};
use foveate_core::frame::{FrameStamp, FrameView, PixelFormat, Plane};
use foveate_core::gaze::GazeParameters;
use foveate_core::gaze::controller::Policy;
use foveate_core::geometry::extent::Extent;
use foveate_core::layout::Layout;
use foveate_core::pixel::PixelFacts;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_core::view::ViewSpec;
use foveate_daemon::channel::ViewChannel;
use foveate_daemon::stream::{Backends, ServedView, Stream, StreamError, ViewPace};
use foveate_ring::{RingError, SegmentSpec, check_memory};

const FORMAT: TokenFormat = TokenFormat::new(16, DType::F32, Normalisation::UNIT);

const VIEWS: usize = 8;

#[test]
fn rings_that_exceed_memory_together_are_refused() {
    let budget = fitting_budget();
    check_memory(&[spec(budget)]).expect("one fits");
    let specs = vec![spec(budget); VIEWS];
    let RingError::OutOfMemory { bytes, .. } = check_memory(&specs).unwrap_err() else { panic!() };

    let plans = (0..VIEWS).map(|index| (plan(index, budget), ViewChannel::unconnected()));
    let backend = Backends::default().choose(BackendChoice::Cpu, None).unwrap();
    let mut stream = Stream::new("camera", backend, ChangeConfig::default(), plans, Arc::default());
    let samples = [0; 64];
    let plane = Plane { bytes: &samples, stride: 8 };
    let color = ColorTransform::from_rgb(ColorRange::Full);
    let frame = FrameView::new(PixelFormat::Gray8, Extent::new(8, 8), color, &[plane]).unwrap();
    let error = stream.step(&frame, &FrameStamp::numbered(1)).unwrap_err();
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

fn spec(capacity: usize) -> SegmentSpec {
    SegmentSpec {
        stream: "camera".to_owned(),
        view: "main".to_owned(),
        layout: "uniform".to_owned(),
        format: FORMAT,
        capacity,
        grid: None,
        foveae: 1,
        extent: Extent::new(8, 8),
        pixel_format: "GRAY8".to_owned(),
        picture: PixelFacts::default(),
        backend: foveate_core::backend::BackendKind::Cpu,
        device: "a processor".to_owned(),
        slot_count: SLOTS,
        camera: None,
        planes: vec![PlaneSpec::relevance()],
        channels: None,
    }
}

fn plan(index: usize, budget: usize) -> ServedView {
    ServedView {
        name: format!("view{index}"),
        slot_count: SLOTS,
        pace: ViewPace::default(),
        spec: ViewSpec {
            layout: Layout::Uniform,
            budget,
            format: FORMAT,
            policy: Policy::Fixed { x: 0.5, y: 0.5 },
            parameters: GazeParameters::default(),
            ..ViewSpec::default()
        },
    }
}
