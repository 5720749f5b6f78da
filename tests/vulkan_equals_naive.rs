//! On any Vulkan device every texel of every level and every byte of every token is what the naive definition gives,
//! for every format, colour transform and size, and whatever came before.

#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::with_gpu;
use foveate::frame::PixelFormat;
use foveate::geometry::extent::Extent;
use foveate::geometry::plan::TokenPlan;
use foveate::geometry::tile::{TILE_SIDE, TileSet};
use foveate::gpu::Gpu;
use foveate::retina::vulkan::VulkanRetina;
use foveate::retina::{Retina, ViewSample, ViewSpec};
use foveate::token::{DType, Normalisation, TokenFormat};
use naive::{OwnedFrame, Picture, Random};

#[path = "common/device.rs"]
mod device;
#[path = "common/naive.rs"]
mod naive;

#[test]
fn every_colour_transform_of_every_format_is_exact() {
    with_gpu(|gpu| {
        let mut random = Random(1);
        for format in PixelFormat::ALL {
            for color in naive::transforms(format) {
                let extent = Extent::new(37, 21);
                check_levels(gpu, &OwnedFrame::random(format, extent, color, &mut random));
            }
        }
    });
}

#[test]
fn every_size_is_exact_in_every_format() {
    let extents = [(1, 1), (2, 3), (17, 13), (33, 64), (176, 144), (263, 257), (3, 300)];
    with_gpu(|gpu| {
        let mut random = Random(2);
        for (index, format) in PixelFormat::ALL.into_iter().enumerate() {
            let transforms = naive::transforms(format);
            for (width, height) in extents {
                let color = transforms[index % transforms.len()];
                let extent = Extent::new(width, height);
                check_levels(gpu, &OwnedFrame::random(format, extent, color, &mut random));
            }
        }
    });
}

#[test]
fn large_sources_are_exact() {
    let sources = [
        (PixelFormat::I420, 640, 272),
        (PixelFormat::Yuy2, 768, 576),
        (PixelFormat::Nv12, 1918, 1079),
        (PixelFormat::Bgrx, 1920, 1080),
        (PixelFormat::Gray8, 8192, 64),
        (PixelFormat::Nv12, 5, 16_384),
    ];
    with_gpu(|gpu| {
        let mut random = Random(3);
        for (format, width, height) in sources {
            let color = naive::transforms(format)[0];
            let extent = Extent::new(width, height);
            check_levels(gpu, &OwnedFrame::random(format, extent, color, &mut random));
        }
    });
}

#[test]
fn a_white_source_stays_white_up_to_the_last_level() {
    with_gpu(|gpu| {
        let extent = Extent::new(4096, 2048);
        let color = naive::transforms(PixelFormat::Gray8)[1];
        let frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, color, 255);
        let mut retina = retina(gpu, &frame, &[]);
        retina.update(&frame.view(), &TileSet::all(extent), &mut []).unwrap();
        for level in 0..retina.shape().level_count() {
            assert!(retina.read_level(level).unwrap().iter().all(|&value| value == 255), "{level}");
        }
    });
}

#[test]
fn updating_equals_rebuilding_after_any_history() {
    with_gpu(|gpu| {
        let mut random = Random(4);
        for format in [PixelFormat::Nv12, PixelFormat::I420, PixelFormat::Yuy2, PixelFormat::Rgba] {
            let color = naive::transforms(format)[0];
            let extent = Extent::new(523, 301);
            let mut frame = OwnedFrame::random(format, extent, color, &mut random);
            let mut retina = retina(gpu, &frame, &[]);
            retina.update(&frame.view(), &TileSet::all(extent), &mut []).unwrap();
            for _ in 0..4 {
                let dirty = change_some_tiles(&mut frame, &mut random);
                retina.update(&frame.view(), &dirty, &mut []).unwrap();
            }
            assert_levels_equal(&mut retina, &naive::pyramid(&naive::picture(&frame)));
        }
    });
}

#[test]
fn clean_tiles_keep_their_texels() {
    with_gpu(|gpu| {
        let mut random = Random(5);
        let extent = Extent::new(200, 100);
        let color = naive::transforms(PixelFormat::Nv12)[0];
        let before = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
        let after = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
        let mut retina = retina(gpu, &before, &[]);
        retina.update(&before.view(), &TileSet::all(extent), &mut []).unwrap();
        retina.update(&after.view(), &TileSet::none(extent), &mut []).unwrap();
        assert_levels_equal(&mut retina, &naive::pyramid(&naive::picture(&before)));
    });
}

#[test]
fn tokens_of_all_views_are_exact_in_every_number_format() {
    let views: Vec<_> = [14, 16]
        .into_iter()
        .flat_map(|patch_side| {
            [
                (DType::U8, Normalisation::NONE),
                (DType::F16, Normalisation::IMAGENET),
                (DType::Bf16, Normalisation::CLIP),
                (DType::F32, Normalisation::SIGLIP),
                (DType::F16, Normalisation::NONE),
            ]
            .map(|(dtype, normalisation)| TokenFormat {
                patch_side,
                dtype,
                normalisation,
            })
        })
        .map(|format| ViewSpec { format, capacity: 40 })
        .collect();
    with_gpu(|gpu| {
        let mut random = Random(6);
        for (width, height) in [(9, 5), (700, 431)] {
            let extent = Extent::new(width, height);
            let color = naive::transforms(PixelFormat::Nv12)[0];
            let mut frame = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
            let mut retina = retina(gpu, &frame, &views);
            let mut dirty = TileSet::all(extent);
            for token_counts in [[40; 2], [7, 0], [0, 0], [1, 40]] {
                check_tokens(&mut retina, &frame, &dirty, &views, token_counts, &mut random);
                dirty = change_some_tiles(&mut frame, &mut random);
            }
        }
    });
}

#[test]
fn more_groups_than_one_row_of_a_dispatch_holds_are_sampled() {
    let format =
        TokenFormat { patch_side: 16, dtype: DType::F32, normalisation: Normalisation::UNIT };
    let views = [ViewSpec { format, capacity: 500 }];
    with_gpu(|gpu| {
        let mut random = Random(7);
        let extent = Extent::new(100, 100);
        let color = naive::transforms(PixelFormat::Rgbx)[0];
        let frame = OwnedFrame::random(PixelFormat::Rgbx, extent, color, &mut random);
        let mut retina = retina(gpu, &frame, &views);
        let dirty = TileSet::all(extent);
        check_tokens(&mut retina, &frame, &dirty, &views, [500; 2], &mut random);
    });
}

fn retina(gpu: &Arc<Gpu>, frame: &OwnedFrame, views: &[ViewSpec]) -> VulkanRetina {
    VulkanRetina::new(gpu, frame.format, frame.extent, frame.color, views).unwrap()
}

/// Builds a pyramid from one frame and compares all of it.
fn check_levels(gpu: &Arc<Gpu>, frame: &OwnedFrame) {
    let mut retina = retina(gpu, frame, &[]);
    retina.update(&frame.view(), &TileSet::all(frame.extent), &mut []).unwrap();
    assert_levels_equal(&mut retina, &naive::pyramid(&naive::picture(frame)));
}

fn assert_levels_equal(retina: &mut VulkanRetina, expected: &[Picture]) {
    assert_eq!(retina.shape().level_count() as usize, expected.len());
    let source = expected[0].extent;
    for (level, expected) in (0..).zip(expected) {
        let found = retina.read_level(level).unwrap();
        assert_eq!(found.len(), expected.bytes().len(), "level {level}");
        let different = found.iter().zip(expected.bytes()).position(|(a, b)| a != b);
        if let Some(at) = different {
            let width = expected.extent.width as usize;
            let (x, y, channel) = (at / 3 % width, at / 3 / width, at % 3);
            let (found, expected) = (found[at], expected.bytes()[at]);
            panic!(
                "{source}, level {level}, texel ({x}, {y}): {found} for {expected} in channel {channel}"
            );
        }
    }
}

/// Random plans of the given lengths, views taking turns; all tokens are compared.
fn check_tokens(
    retina: &mut VulkanRetina,
    frame: &OwnedFrame,
    dirty: &TileSet,
    views: &[ViewSpec],
    token_counts: [usize; 2],
    random: &mut Random,
) {
    let levels = naive::pyramid(&naive::picture(frame));
    let plans: Vec<TokenPlan> = views
        .iter()
        .zip(token_counts.into_iter().cycle())
        .map(|(view, count)| naive::random_plan(&levels, view.format.patch_side, count, random))
        .collect();
    let mut samples: Vec<_> = views
        .iter()
        .zip(plans)
        .map(|(view, plan)| {
            let mut sample = ViewSample::new(view.format, view.capacity);
            sample.set_plan(plan);
            sample
        })
        .collect();
    retina.update(&frame.view(), dirty, &mut samples).unwrap();
    for sample in &samples {
        let expected = naive::tokens(&levels, sample.plan(), sample.format());
        assert!(sample.pixels() == expected, "{:?} of {}", sample.format(), frame.extent);
    }
}

/// Changes every sample of some tiles and returns which.
fn change_some_tiles(frame: &mut OwnedFrame, random: &mut Random) -> TileSet {
    let mut dirty = TileSet::none(frame.extent);
    let grid = dirty.grid();
    for _ in 0..=random.below(12) {
        let (column, row) = (random.below(grid.width), random.below(grid.height));
        frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, random);
        dirty.insert(column, row);
    }
    dirty
}
