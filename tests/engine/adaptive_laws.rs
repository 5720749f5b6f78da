//! The layout `adaptive` gives the tokens of its definition, on every backend, whatever came before.

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::detail::Detail;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::view::ViewSpec;
use testkit::adaptive;
use testkit::history::move_on;
use testkit::naive::{OwnedFrame, Random, transforms};

use crate::each_backend::Make;

/// Whole tiles and cut ones, with levels within a block and above, and a picture that fits every budget.
const EXTENTS: [(u32, u32); 7] =
    [(256, 128), (203, 149), (97, 33), (640, 352), (17, 300), (1100, 700), (40, 24)];

const FRAMES: u64 = 12;

laws! {
    losses_are_those_of_the_definition
    tokens_are_those_of_the_definition
    auto_looks_at_what_is_needed_most
    a_view_that_rested_follows_what_changed_meanwhile
}

fn losses_are_those_of_the_definition(make: Make<'_>) {
    let mut random = Random(31);
    for (index, (width, height)) in EXTENTS.into_iter().enumerate() {
        let extent = Extent::new(width, height);
        let format = PixelFormat::ALL[index % PixelFormat::ALL.len()];
        let mut frame = OwnedFrame::random(format, extent, color_of(format), &mut random);
        let mut engine = engine(make, &frame);
        let spec = spec(ConsumerMemory::None, 40, 16);
        let mut views = [engine.view(spec, Memory::default()).unwrap()];
        for frame_seq in 1..=FRAMES {
            engine.step(&frame.view(), &stamp(frame_seq), &mut views).unwrap();
            let detail = engine.detail().expect("a view follows it");
            let expected = adaptive::losses(&frame, detail.levels());
            for level in 1..=detail.levels() {
                let losses = detail.losses(level).unwrap();
                // Above the levels within a block a mean is a fraction.
                let slack = u32::from(4 < level);
                let differs = |(found, expected): (&u32, &u32)| slack < found.abs_diff(*expected);
                let wrong =
                    losses.iter().zip(&expected[level as usize]).filter(|&pair| differs(pair));
                assert_eq!(wrong.count(), 0, "{extent}, frame {frame_seq}, level {level}");
            }
            move_on(&mut frame, 2 + random.below(4), frame_seq, &mut random);
        }
    }
}

fn tokens_are_those_of_the_definition(make: Make<'_>) {
    let mut random = Random(32);
    for (index, (width, height)) in EXTENTS.into_iter().enumerate() {
        let extent = Extent::new(width, height);
        let mut frame =
            OwnedFrame::random(PixelFormat::Nv12, extent, color_of(PixelFormat::Nv12), &mut random);
        let mut engine = engine(make, &frame);
        let side = [16, 14, 8][index % 3];
        let budget = [30, 75, 20][index % 3];
        for (first, memory) in [1, 1 + FRAMES].into_iter().zip(ConsumerMemory::ALL) {
            let mut views = [engine.view(spec(memory, budget, side), Memory::default()).unwrap()];
            let mut expected =
                adaptive::View::new(extent, side, budget, memory, stamp(first).capture_ns);
            for frame_seq in first..first + FRAMES {
                if frame_seq == first + 6 {
                    engine.apply_mask(&TileSet::none(extent), frame_seq, &mut views);
                    expected.reset(stamp(frame_seq).capture_ns);
                }
                let before: Vec<u64> = engine.tracker().changed_frames().to_vec();
                engine.step(&frame.view(), &stamp(frame_seq), &mut views).unwrap();
                let detail = engine.detail().expect("a view follows it");
                let losses = losses_of(detail);
                let changed: Vec<bool> = before
                    .iter()
                    .zip(engine.tracker().changed_frames())
                    .map(|(before, after)| frame_seq == first || before != after)
                    .collect();
                let mut squares = expected.step(&losses, &changed, stamp(frame_seq).capture_ns);
                squares.sort_unstable();
                let found = squares_of(&views[0], side);
                assert_eq!(found, squares, "{extent}, {memory}, frame {frame_seq}");
                assert!(squares.len() <= budget);
                // Now and then nothing moves.
                if frame_seq % 4 != 0 {
                    move_on(&mut frame, 2 + random.below(4), frame_seq, &mut random);
                }
            }
        }
    }
}

/// No client has weighed a channel, so the gaze follows the need alone.
fn auto_looks_at_what_is_needed_most(make: Make<'_>) {
    let mut random = Random(33);
    for (width, height) in [(640, 352), (1100, 700)] {
        let extent = Extent::new(width, height);
        let mut frame =
            OwnedFrame::random(PixelFormat::Nv12, extent, color_of(PixelFormat::Nv12), &mut random);
        let mut engine = engine(make, &frame);
        let memory = ConsumerMemory::None;
        let spec = ViewSpec { policy: Policy::Auto, ..spec(memory, 60, 16) };
        let hysteresis = spec.parameters.hysteresis;
        let mut views = [engine.view(spec, Memory::default()).unwrap()];
        let mut expected = adaptive::View::new(extent, 16, 60, memory, stamp(1).capture_ns);
        for frame_seq in 1..=FRAMES {
            let before: Vec<u64> = engine.tracker().changed_frames().to_vec();
            engine.step(&frame.view(), &stamp(frame_seq), &mut views).unwrap();
            let gaze = views[0].gaze().unwrap();
            assert!(gaze.relevance.is_none());
            if 1 < frame_seq {
                // By the frame before, as every decision.
                let share = |(here, most): (f64, f64)| here / most.max(1.0);
                let places = gaze.fixations.iter().map(|fixation| (fixation.x, fixation.y));
                let best = places.map(|at| share(expected.need_at(at))).fold(0.0, f64::max);
                assert!(1.0 / hysteresis < best + 1e-3, "{extent}, frame {frame_seq}: {gaze:?}");
            }
            let detail = engine.detail().expect("a view follows it");
            let losses = losses_of(detail);
            let changed: Vec<bool> = before
                .iter()
                .zip(engine.tracker().changed_frames())
                .map(|(before, after)| frame_seq == 1 || before != after)
                .collect();
            expected.step(&losses, &changed, stamp(frame_seq).capture_ns);
            move_on(&mut frame, 2 + random.below(4), frame_seq, &mut random);
        }
    }
}

/// The detail is dropped while all views rest, and then computed again.
fn a_view_that_rested_follows_what_changed_meanwhile(make: Make<'_>) {
    let mut random = Random(34);
    let (extent, memory) = (Extent::new(640, 352), ConsumerMemory::None);
    let format = PixelFormat::Nv12;
    let frames = [0, 320].map(|x| {
        let mut frame = OwnedFrame::uniform(format, extent, color_of(format), 128);
        frame.scramble(x, 0, 300, &mut random);
        frame
    });
    let mut engine = engine(make, &frames[0]);
    let mut views = [engine.view(spec(memory, 60, 16), Memory::default()).unwrap()];
    let mut expected = adaptive::View::new(extent, 16, 60, memory, stamp(1).capture_ns);
    for (frame_seq, frame, rests) in
        [(1, &frames[0], false), (2, &frames[1], true), (3, &frames[1], false)]
    {
        views[0].set_resting(rests);
        engine.step(&frame.view(), &stamp(frame_seq), &mut views).unwrap();
        if rests {
            assert!(engine.detail().is_none());
            continue;
        }
        let detail = engine.detail().expect("a view follows it");
        let losses = losses_of(detail);
        let all = vec![true; TileSet::all(extent).count()];
        let mut squares = expected.step(&losses, &all, stamp(frame_seq).capture_ns);
        squares.sort_unstable();
        assert_eq!(squares_of(&views[0], 16), squares, "frame {frame_seq}");
    }
}

/// Losses of each level, from 0 on.
fn losses_of(detail: &Detail) -> Vec<Vec<u32>> {
    let losses = |level| detail.losses(level).map_or_else(Vec::new, <[u32]>::to_vec);
    (0..=detail.levels()).map(losses).collect()
}

fn squares_of<S>(view: &View<S>, side: u32) -> Vec<adaptive::Square> {
    let square = |token: &Token| {
        let level = token.sx.trailing_zeros();
        let side = side << level;
        (level, token.x.cast_unsigned() / side, token.y.cast_unsigned() / side)
    };
    let mut squares: Vec<_> = view.planes().plan().tokens.iter().map(square).collect();
    squares.sort_unstable();
    squares
}

fn color_of(format: PixelFormat) -> ColorTransform {
    transforms(format)[0]
}

fn engine(make: Make<'_>, frame: &OwnedFrame) -> Engine {
    let change = ChangeConfig { threshold: Threshold::Fixed(0), ..ChangeConfig::default() };
    Engine::new(make(frame.kind()).backend, change, 1)
}

fn spec(memory: ConsumerMemory, budget: usize, side: u32) -> ViewSpec {
    let layout = Layout::Adaptive { memory };
    let format = TokenFormat::new(side, DType::U8, Normalisation::NONE);
    ViewSpec {
        layout,
        budget,
        format,
        policy: Policy::Fixed { x: 0.5, y: 0.5 },
        ..ViewSpec::default()
    }
}

fn stamp(frame_seq: u64) -> FrameStamp {
    FrameStamp { capture_ns: frame_seq * 900_000_000, ..FrameStamp::numbered(frame_seq) }
}
