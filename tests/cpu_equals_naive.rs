//! The CPU backend gives what the naive definition gives, bit for bit: every format, matrix and range, every level,
//! every texel, every byte of every token; and updating gives what rebuilding gives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/naive.rs"]
mod naive;

use foveate::color::ColorTransform;
use foveate::frame::PixelFormat;
use foveate::geometry::extent::Extent;
use foveate::geometry::plan::TokenPlan;
use foveate::geometry::tile::TileSet;
use foveate::retina::cpu::CpuRetina;
use foveate::retina::cpu::simd::Instructions;
use foveate::retina::{Retina, ViewSample, ViewSpec};
use foveate::token::{DType, Normalisation, TokenFormat};
use naive::{OwnedFrame, Random};

/// Smaller than a patch, than a tile, odd, and common; every format is tested on these.
const SMALL_EXTENTS: [Extent; 6] = [
    Extent::new(1, 1),
    Extent::new(2, 3),
    Extent::new(17, 13),
    Extent::new(63, 65),
    Extent::new(176, 144),
    Extent::new(331, 97),
];

/// Large ones, with tails of several levels, and one that is far wider than high.
const LARGE_EXTENTS: [Extent; 5] = [
    Extent::new(640, 272),
    Extent::new(768, 576),
    Extent::new(1918, 1079),
    Extent::new(1920, 1080),
    Extent::new(8192, 64),
];

#[test]
fn every_format_matrix_and_range_at_small_sizes() {
    let mut random = Random(1);
    for extent in SMALL_EXTENTS {
        for format in PixelFormat::ALL {
            for color in naive::transforms(format) {
                check_rebuild(&OwnedFrame::random(format, extent, color, &mut random));
            }
        }
    }
}

#[test]
fn every_format_at_large_sizes() {
    let mut random = Random(2);
    for (index, extent) in LARGE_EXTENTS.into_iter().enumerate() {
        for format in PixelFormat::ALL {
            let colors = naive::transforms(format);
            check_rebuild(&OwnedFrame::random(
                format,
                extent,
                colors[index % colors.len()],
                &mut random,
            ));
        }
    }
}

#[test]
fn a_white_source_of_the_largest_sides_is_white_on_every_level() {
    for extent in [Extent::new(Extent::MAX_SIDE, 33), Extent::new(33, Extent::MAX_SIDE)] {
        let row = vec![255; extent.area()];
        let plane = foveate::frame::Plane { bytes: &row, stride: extent.width as usize };
        let color = ColorTransform::IDENTITY;
        let frame =
            foveate::frame::FrameView::new(PixelFormat::Gray8, extent, color, &[plane]).unwrap();
        let mut retina = CpuRetina::new(PixelFormat::Gray8, extent, color, &[]);
        retina.update(&frame, &TileSet::all(extent), &mut []).unwrap();
        for level in 0..retina.shape().level_count() {
            assert!(retina.read_level(level).unwrap().iter().all(|&value| value == 255));
        }
    }
}

#[test]
fn updating_random_tiles_equals_rebuilding() {
    let mut random = Random(3);
    let rounds = if std::env::var_os("FOVEATE_LONG").is_some() { 500 } else { 12 };
    for format in PixelFormat::ALL {
        let extent = Extent::new(40 + random.below(400), 40 + random.below(300));
        let color = naive::transforms(format)[0];
        let mut frame = OwnedFrame::random(format, extent, color, &mut random);
        let mut retina = CpuRetina::new(format, extent, color, &[]);
        retina.update(&frame.view(), &TileSet::all(extent), &mut []).unwrap();
        for _ in 0..rounds {
            let dirty = scramble_tiles(&mut frame, &mut random);
            retina.update(&frame.view(), &dirty, &mut []).unwrap();
            assert_levels(&mut retina, &naive::pyramid(&naive::picture(&frame)), &frame);
        }
    }
}

#[test]
fn every_set_of_vector_instructions_gives_the_same_bytes() {
    let mut random = Random(5);
    for format in PixelFormat::ALL {
        let extent = Extent::new(100, 70);
        let color = naive::transforms(format)[1];
        let frame = OwnedFrame::random(format, extent, color, &mut random);
        let expected = naive::pyramid(&naive::picture(&frame));
        for instructions in Instructions::available() {
            let mut retina =
                CpuRetina::new(format, extent, color, &[]).with_instructions(instructions);
            retina.update(&frame.view(), &TileSet::all(extent), &mut []).unwrap();
            assert_levels(&mut retina, &expected, &frame);
        }
    }
}

#[test]
fn tokens_in_every_number_format_and_normalisation() {
    let mut random = Random(4);
    for extent in [Extent::new(5, 9), Extent::new(211, 150)] {
        let color = naive::transforms(PixelFormat::Nv12)[0];
        let frame = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
        let levels = naive::pyramid(&naive::picture(&frame));
        let formats = token_formats();
        let views: Vec<_> =
            formats.iter().map(|&format| ViewSpec { format, capacity: 40 }).collect();
        let mut retina = CpuRetina::new(PixelFormat::Nv12, extent, color, &views);
        let mut samples: Vec<_> = formats
            .iter()
            .map(|&format| {
                sample_of(naive::random_plan(&levels, format.patch_side, 40, &mut random), format)
            })
            .collect();
        retina.update(&frame.view(), &TileSet::all(extent), &mut samples).unwrap();
        for (sample, format) in samples.iter().zip(formats) {
            assert!(
                sample.pixels() == naive::tokens(&levels, sample.plan(), format),
                "{extent} {format:?}"
            );
        }
    }
}

fn check_rebuild(frame: &OwnedFrame) {
    let mut retina = CpuRetina::new(frame.format, frame.extent, frame.color, &[]);
    retina.update(&frame.view(), &TileSet::all(frame.extent), &mut []).unwrap();
    assert_levels(&mut retina, &naive::pyramid(&naive::picture(frame)), frame);
}

fn assert_levels(retina: &mut CpuRetina, expected: &[naive::Picture], frame: &OwnedFrame) {
    assert_eq!(retina.shape().level_count() as usize, expected.len());
    for (level, expected) in (0..).zip(expected) {
        let texels = retina.read_level(level).unwrap();
        assert!(texels == expected.bytes(), "level {level} of {} {:?}", frame.extent, frame.format);
    }
}

/// Draws new samples in some tiles, and returns them with a few that did not change.
fn scramble_tiles(frame: &mut OwnedFrame, random: &mut Random) -> TileSet {
    let mut dirty = TileSet::none(frame.extent);
    let grid = dirty.grid();
    for round in 0..random.below(6) {
        let (column, row) = (random.below(grid.width), random.below(grid.height));
        dirty.insert(column, row);
        if 0 < round {
            frame.scramble(column * 32, row * 32, 32, random);
        }
    }
    dirty
}

fn sample_of(plan: TokenPlan, format: TokenFormat) -> ViewSample {
    let mut sample = ViewSample::new(format, plan.tokens.len());
    sample.set_plan(plan);
    sample
}

fn token_formats() -> Vec<TokenFormat> {
    let mut formats = Vec::new();
    for patch_side in [14, 16] {
        formats.push(TokenFormat {
            patch_side,
            dtype: DType::U8,
            normalisation: Normalisation::NONE,
        });
        for dtype in [DType::F16, DType::Bf16, DType::F32] {
            for (_, normalisation) in Normalisation::PRESETS {
                formats.push(TokenFormat { patch_side, dtype, normalisation });
            }
        }
    }
    formats
}
