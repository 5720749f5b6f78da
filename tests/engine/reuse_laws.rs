//! A token keeps the texels that it was last published with, and its `changed_frame`, exactly while none of them has moved by more than
//! the threshold since then: on every backend, wherever the gaze goes, whatever the picture does. No texel is further from the newest
//! frame than the published bound.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::num::NonZeroU32;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameStamp, FrameTime, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{DType, Normalisation, Outside, Rounding, SAMPLE_SIDE, TokenFormat};
use foveate_engine::{Engine, Memory};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::layout::rings::Rings;
use foveate_gaze::layout::samples::Samples;
use foveate_gaze::view::ViewSpec;
use testkit::history::move_on;
use testkit::is_long;
use testkit::naive::{self, OwnedFrame, Random};
use testkit::published::{Definition, texels};

use crate::each_backend::Make;

laws! {
    tokens_keep_their_texels_exactly_while_none_moves_beyond_the_threshold
    tokens_larger_than_working_memory_keep_theirs_too
    a_small_change_beside_a_token_leaves_it_alone
    masks_publish_every_token_anew
    a_falling_threshold_publishes_what_moved_beyond_it
}

fn tokens_keep_their_texels_exactly_while_none_moves_beyond_the_threshold(make: Make<'_>) {
    let mut random = Random(31);
    let mut kept = 0;
    for round in 0..if is_long() { 60 } else { 12 } {
        let format = PixelFormat::ALL[round % PixelFormat::ALL.len()];
        let threshold = match round % 4 {
            0 => Threshold::Auto { limit: 1 + random.below(20) as u8 },
            _ => Threshold::Fixed(1 + random.below(12) as u8),
        };
        let refresh_frames = NonZeroU32::new(random.below(3) * 4);
        let extent = Extent::new(40 + random.below(260), 30 + random.below(160));
        let change = ChangeConfig { threshold, refresh_frames };
        kept += play(make, (format, extent), change, random_spec(&mut random), &mut random);
    }
    assert!(100 < kept, "{kept} tokens kept what had moved");
}

/// Some of their rows are sampled before others.
fn tokens_larger_than_working_memory_keep_theirs_too(make: Make<'_>) {
    let mut random = Random(32);
    let change = ChangeConfig { threshold: Threshold::Fixed(6), refresh_frames: None };
    let kind = (PixelFormat::I420, Extent::new(420, 330));
    assert!(0 < play(make, kind, change, spec(48, 12), &mut random));
}

/// Plays a history, and compares each frame with the definition. Returns how many tokens kept texels that had moved.
fn play(
    make: Make<'_>,
    (format, extent): (PixelFormat, Extent),
    change: ChangeConfig,
    spec: ViewSpec,
    random: &mut Random,
) -> usize {
    let colors = naive::transforms(format);
    let color = colors[random.below(colors.len() as u32) as usize];
    let mut frame = OwnedFrame::random(format, extent, color, random);
    let mut engine = Engine::new(make(frame.kind()).backend, change, 1);
    let mut view = engine.view(spec, Memory::default()).unwrap();
    let mut definition = Definition::new(&frame.view(), change);
    let habit = random.below(6);
    for frame_seq in 1..=30 {
        let stamp =
            FrameStamp { capture_ns: frame_seq * 50_000_000, ..FrameStamp::numbered(frame_seq) };
        if 1 < frame_seq {
            let kind = if random.below(3) == 0 { random.below(6) } else { habit };
            move_on(&mut frame, kind, frame_seq, random);
            // Single samples beyond the threshold: their tiles are taken over, with all in them that has moved by less.
            for _ in 0..4 {
                let (x, y) = (random.below(extent.width), random.below(extent.height));
                frame.adjust(x, y, 1, |sample| sample ^ 0x40);
            }
        }
        if 3 < frame_seq && random.below(4) == 0 {
            let feedback = look(extent, random);
            view.take_feedback(&feedback, FrameTime::of(&stamp), 1);
        }
        view.set_resting(random.below(6) == 0);
        engine.step(&frame.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();
        definition.step(&frame.view(), frame_seq, &view);
    }
    definition.kept
}

/// Half of a token's tile changes, and its own half does not.
fn a_small_change_beside_a_token_leaves_it_alone(make: Make<'_>) {
    let (format, extent) = (PixelFormat::Rgbx, Extent::new(64, 64));
    let mut frame = OwnedFrame::uniform(format, extent, naive::transforms(format)[0], 90);
    let counts = [0, 8].map(|threshold| {
        let change = ChangeConfig { threshold: Threshold::Fixed(threshold), refresh_frames: None };
        let mut engine = Engine::new(make(frame.kind()).backend, change, 1);
        let mut view = engine.view(spec(16, 16), Memory::default()).unwrap();
        for frame_seq in 1..=2 {
            frame.adjust(0, 0, 16, |_| if frame_seq == 1 { 90 } else { 200 });
            let stamp = FrameStamp::numbered(frame_seq);
            engine.step(&frame.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();
        }
        let records = &view.sink.frame().records;
        assert_eq!(records.len(), 16);
        assert_eq!(view.planes().stale().len(), 4, "tokens over the tile");
        (view.planes().kept(), records.iter().filter(|record| record.changed_frame == 2).count())
    });
    assert_eq!(counts, [(12, 4), (15, 1)]);
}

/// Even where the picture differs by less than the threshold from what a token was published with.
fn masks_publish_every_token_anew(make: Make<'_>) {
    let (format, extent) = (PixelFormat::Rgb, Extent::new(96, 96));
    let mut frame = OwnedFrame::uniform(format, extent, naive::transforms(format)[0], 90);
    let change = ChangeConfig { threshold: Threshold::Fixed(8), refresh_frames: None };
    let mut engine = Engine::new(make(frame.kind()).backend, change, 1);
    let mut views = [engine.view(spec(16, 36), Memory::default()).unwrap()];
    for frame_seq in 1..=4 {
        match frame_seq {
            // Beyond the threshold at one sample of each tile, within it at the others.
            2 => {
                frame.adjust(0, 0, 96, |sample| sample + 3);
                for (x, y) in (0..9).map(|tile| (tile % 3 * 32, tile / 3 * 32)) {
                    frame.adjust(x, y, 1, |sample| sample + 20);
                }
            }
            // Within it everywhere: the resident copy does not follow.
            3 => frame.adjust(0, 0, 96, |sample| sample + 3),
            4 => {
                engine.apply_mask(&TileSet::none_of(engine.coarse_extent()), frame_seq, &mut views)
            }
            _ => {}
        }
        engine.step(&frame.view(), &FrameStamp::numbered(frame_seq), &mut views).unwrap();
        let exact = texels(&naive::picture(&frame), &views[0]);
        let is_exact = views[0].sink.frame().pixels == exact;
        assert_eq!(is_exact, frame_seq == 1 || frame_seq == 4, "frame {frame_seq}");
    }
    assert_eq!(views[0].planes().stale().len(), views[0].planes().plan().tokens.len());
}

/// A threshold follows noise, which comes to an end.
fn a_falling_threshold_publishes_what_moved_beyond_it(make: Make<'_>) {
    let (format, extent) = (PixelFormat::Gray8, Extent::new(320, 256));
    let mut random = Random(33);
    let color = naive::transforms(format)[1];
    let still = OwnedFrame::uniform(format, extent, color, 100);
    let change = ChangeConfig { threshold: Threshold::Auto { limit: 16 }, refresh_frames: None };
    let mut engine = Engine::new(make(still.kind()).backend, change, 1);
    let mut view = engine.view(spec(16, 60), Memory::default()).unwrap();
    let mut definition = Definition::new(&still.view(), change);
    let mut bounds = Vec::new();
    for frame_seq in 1..=90 {
        let mut frame = still.clone();
        let noise = if frame_seq < 40 { 4 } else { 0 };
        frame.adjust(0, 0, 320, |sample| sample + random.below(noise + 1) as u8);
        // Tiles are taken over, and their tokens keep what they have.
        let (x, y) = (random.below(extent.width), random.below(extent.height));
        frame.adjust(x, y, 1, |sample| sample + 30);
        let stamp = FrameStamp::numbered(frame_seq);
        engine.step(&frame.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();
        definition.step(&frame.view(), frame_seq, &view);
        bounds.push(view.sink.frame().head.sample_bound);
    }
    assert!(4 < bounds[38] && bounds[89] < bounds[38], "{bounds:?}");
    assert!(0 < definition.kept);
}

fn spec(patch_side: u32, budget: usize) -> ViewSpec {
    ViewSpec {
        layout: Layout::Foveal { e0_px: Some(20.0), foveae: 1, coarsest: None },
        budget,
        format: TokenFormat::new(patch_side, DType::U8, Normalisation::NONE),
        policy: Policy::Fixed { x: 0.5, y: 0.5 },
        parameters: GazeParameters { dwell_min_ms: 0, ..GazeParameters::default() },
        ..ViewSpec::default()
    }
}

/// Boxes of a level's texels and with real steps, beyond the picture too.
fn random_spec(random: &mut Random) -> ViewSpec {
    let layout = match random.below(6) {
        0 => Layout::Foveal { e0_px: Some(20.0), foveae: 1, coarsest: None },
        1 => Layout::Uniform,
        2 => Layout::Inset(Inset::default()),
        3 => Layout::Directional { e0_px: Some(30.0) },
        4 => return random_samples(random),
        _ => Layout::Rings(Rings::new(&[1, 2, 6], &[2, 3, 3]).unwrap()),
    };
    let base = spec([8, 14, 16, 40][random.below(4) as usize], 20 + random.below(60) as usize);
    let outside = [Outside::Edge, Outside::Mean][random.below(2) as usize];
    let rounding = [Rounding::HalfUp, Rounding::Floor][random.below(2) as usize];
    ViewSpec { layout, format: TokenFormat { outside, rounding, ..base.format }, ..base }
}

/// Samples near the fixation, some of them at the same place.
fn random_samples(random: &mut Random) -> ViewSpec {
    let mut offset = || f64::from(random.below(160)) / 2.0 - 40.0;
    let rows: Vec<_> = (0..60).map(|row| [offset(), offset(), f64::from(1 + row % 9)]).collect();
    let layout = Layout::Samples(Samples::new(&rows).unwrap());
    let outside = [Outside::Edge, Outside::Mean][random.below(2) as usize];
    let format = TokenFormat::new(SAMPLE_SIDE, DType::F32, Normalisation::NONE);
    ViewSpec { layout, format: TokenFormat { outside, ..format }, ..spec(SAMPLE_SIDE, rows.len()) }
}

fn look(image: Extent, random: &mut Random) -> Feedback {
    let [x, y] = [image.width, image.height].map(|side| f64::from(random.below(side)));
    Feedback::look_at(x, y, None)
}
