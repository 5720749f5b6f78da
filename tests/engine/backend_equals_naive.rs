//! Every backend gives what the naive definition gives, bit for bit: every format, matrix and range, every level, every
//! texel, every byte of every token, and whatever came before. One suite for all that implement the trait.

use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Focus;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::token::{DType, Normalisation, Outside, Rounding, SAMPLE_SIDE, TokenFormat};
use foveate_gaze::layout::{Layout, PlanRequest};
use foveate_gaze::view::VIEWS_MAX;

use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::planes::SamplerSpec;
use foveate_engine::simd::Instructions;
use testkit::backends::{Player, pool_limited_to};
use testkit::is_long;
use testkit::naive::{self, OwnedFrame, Picture, Random};

use crate::each_backend::Make;

laws! {
    every_colour_transform_of_every_format_is_exact
    every_small_size_is_exact_in_every_format
    large_sources_are_exact
    a_white_source_is_white_on_every_level
    updating_equals_rebuilding_after_any_history
    clean_tiles_keep_their_texels
    tokens_are_exact_in_every_format_and_normalisation
    tokens_follow_every_change_while_the_plan_stays
    more_tokens_than_one_row_of_a_dispatch_holds_are_sampled
    tokens_of_every_format_are_exact_at_odd_extents
    windows_are_exact
    real_steps_are_exact_over_the_longest_sources
    real_steps_of_the_usual_side_are_exact
}

#[test]
fn every_set_of_vector_instructions_gives_the_same_bytes() {
    for instructions in Instructions::available() {
        let pool = pool_limited_to(instructions);
        let make = |kind| Player::new(CpuBackend::new(kind, &pool));
        every_colour_transform_of_every_format_is_exact(&make);
        every_small_size_is_exact_in_every_format(&make);
        tokens_of_every_format_are_exact_at_odd_extents(&make);
    }
}

fn every_colour_transform_of_every_format_is_exact(make: Make<'_>) {
    let mut random = Random(1);
    for format in PixelFormat::ALL {
        for color in naive::transforms(format) {
            let extent = Extent::new(37, 21);
            check_levels(make, &OwnedFrame::random(format, extent, color, &mut random));
        }
    }
}

/// Smaller than a patch, than a tile, odd, at the edge of a tile, with and without a tail.
fn every_small_size_is_exact_in_every_format(make: Make<'_>) {
    let mut random = Random(2);
    for (width, height) in
        [(1, 1), (2, 3), (17, 13), (33, 64), (63, 65), (176, 144), (263, 257), (3, 300), (331, 97)]
    {
        for (index, format) in PixelFormat::ALL.into_iter().enumerate() {
            let colors = naive::transforms(format);
            let (extent, color) = (Extent::new(width, height), colors[index % colors.len()]);
            check_levels(make, &OwnedFrame::random(format, extent, color, &mut random));
        }
    }
}

/// With tails of several levels; the last two are the highest and the widest that there may be.
fn large_sources_are_exact(make: Make<'_>) {
    let mut random = Random(3);
    let extents = [
        (640, 272),
        (768, 576),
        (1918, 1079),
        (1920, 1080),
        (8192, 64),
        (5, Extent::SIDE_MAX),
        (Extent::SIDE_MAX, 3),
    ];
    for (index, (width, height)) in extents.into_iter().enumerate() {
        let formats = if is_long() { 8 } else { 4 };
        for format in (0..formats).map(|step| PixelFormat::ALL[(index + 3 * step) % 8]) {
            let colors = naive::transforms(format);
            let (extent, color) = (Extent::new(width, height), colors[index % colors.len()]);
            check_levels(make, &OwnedFrame::random(format, extent, color, &mut random));
        }
    }
}

/// White is where sums are largest.
fn a_white_source_is_white_on_every_level(make: Make<'_>) {
    for (width, height) in [(Extent::SIDE_MAX, 33), (33, Extent::SIDE_MAX), (4096, 2048)] {
        let extent = Extent::new(width, height);
        let color = naive::transforms(PixelFormat::Gray8)[1];
        let frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, color, 255);
        let mut player = make(frame.kind());
        player.update(&frame.view(), &TileSet::all(extent), &mut []);
        for level in 0..player.backend.shape().level_count() {
            let texels = player.read_level(level);
            assert!(texels.iter().all(|&value| value == 255), "level {level} of {extent}");
        }
    }
}

fn updating_equals_rebuilding_after_any_history(make: Make<'_>) {
    let mut random = Random(4);
    let rounds = if is_long() { 500 } else { 6 };
    for format in PixelFormat::ALL {
        let extent = Extent::new(257 + random.below(200), 40 + random.below(300));
        let color = naive::transforms(format)[0];
        let mut frame = OwnedFrame::random(format, extent, color, &mut random);
        let mut player = make(frame.kind());
        player.update(&frame.view(), &TileSet::all(extent), &mut []);
        for _ in 0..rounds {
            let dirty = change_some_tiles(&mut frame, &mut random);
            player.update(&frame.view(), &dirty, &mut []);
            assert_levels_equal(&mut player, &naive::pyramid(&naive::picture(&frame)));
        }
    }
}

fn clean_tiles_keep_their_texels(make: Make<'_>) {
    let mut random = Random(5);
    let extent = Extent::new(200, 100);
    let color = naive::transforms(PixelFormat::Nv12)[0];
    let before = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
    let after = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
    let mut player = make(before.kind());
    player.update(&before.view(), &TileSet::all(extent), &mut []);
    let rule = IngestRule { is_first: false, threshold: u8::MAX, refreshed: 0..0 };
    player.backend.begin_update(&after.view(), &rule, &mut []).unwrap();
    player.backend.end_update(&TileSet::none(extent), &mut []).unwrap();
    assert_levels_equal(&mut player, &naive::pyramid(&naive::picture(&before)));
}

fn tokens_are_exact_in_every_format_and_normalisation(make: Make<'_>) {
    let views =
        token_formats().map(|format| SamplerSpec { format, capacity: 40, keeps_unchanged: false });
    let views: Vec<_> = views.collect();
    let mut random = Random(6);
    for (width, height) in [(5, 9), (211, 150), (700, 431)] {
        let extent = Extent::new(width, height);
        let color = naive::transforms(PixelFormat::Nv12)[0];
        let mut frame = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
        let mut player = make(frame.kind());
        let mut dirty = TileSet::all(extent);
        for token_counts in [[40; 2], [7, 0], [0, 0], [1, 40]] {
            // As many as a backend takes at a time.
            for views in views.chunks(VIEWS_MAX) {
                check_tokens(&mut player, &frame, &dirty, views, token_counts, &mut random);
            }
            dirty = change_some_tiles(&mut frame, &mut random);
        }
    }
}

/// Only tokens over dirty tiles are sampled again; the others must be as if they were.
fn tokens_follow_every_change_while_the_plan_stays(make: Make<'_>) {
    let formats = token_formats().collect::<Vec<_>>();
    let mut random = Random(8);
    for round in 0..if is_long() { 100 } else { 6 } {
        let extent = Extent::new(40 + random.below(400), 30 + random.below(300));
        let color = naive::transforms(PixelFormat::I420)[0];
        let mut frame = OwnedFrame::random(PixelFormat::I420, extent, color, &mut random);
        let format = formats[round % formats.len()];
        let mut player = make(frame.kind());
        let mut samples =
            [player.planes(SamplerSpec { format, capacity: 60, keeps_unchanged: false })];
        let mut dirty = TileSet::all(extent);
        for step in 0..8 {
            let picture = naive::picture(&frame);
            if step % 4 == 0 {
                let plan = naive::random_plan(extent, format.patch_side, 60, &mut random);
                samples[0].set_plan(plan, extent);
            }
            let versions = samples[0].versions().to_vec();
            let pixels = samples[0].pixels().to_vec();
            player.update(&frame.view(), &dirty, &mut samples);
            let expected = naive::tokens(&picture, samples[0].plan(), format);
            assert!(samples[0].pixels() == expected, "step {step} of {extent}");
            let bytes = format.token_bytes();
            for (token, (before, after)) in versions.iter().zip(samples[0].versions()).enumerate() {
                let place = token * bytes..(token + 1) * bytes;
                assert!(before < after || pixels[place.clone()] == expected[place], "{token}");
            }
            dirty = change_some_tiles(&mut frame, &mut random);
        }
    }
}

fn more_tokens_than_one_row_of_a_dispatch_holds_are_sampled(make: Make<'_>) {
    let format = TokenFormat::new(16, DType::F32, Normalisation::UNIT);
    let views = [SamplerSpec { format, capacity: 500, keeps_unchanged: false }];
    let mut random = Random(7);
    let extent = Extent::new(100, 100);
    let color = naive::transforms(PixelFormat::Rgbx)[0];
    let frame = OwnedFrame::random(PixelFormat::Rgbx, extent, color, &mut random);
    let mut player = make(frame.kind());
    let dirty = TileSet::all(extent);
    check_tokens(&mut player, &frame, &dirty, &views, [500; 2], &mut random);
}

fn tokens_of_every_format_are_exact_at_odd_extents(make: Make<'_>) {
    let mut random = Random(9);
    let tokens = TokenFormat::new(16, DType::U8, Normalisation::NONE);
    let floored = TokenFormat { patch_side: 30, rounding: Rounding::Floor, ..tokens };
    let cleared = TokenFormat { patch_side: 12, outside: Outside::Mean, ..tokens };
    let views = [tokens, floored, cleared].map(|format| SamplerSpec {
        format,
        capacity: 25,
        keeps_unchanged: false,
    });
    for format in PixelFormat::ALL {
        for color in naive::transforms(format).into_iter().take(2) {
            let extent = Extent::new(61 + 2 * random.below(60), 31 + 2 * random.below(40));
            let frame = OwnedFrame::random(format, extent, color, &mut random);
            let mut player = make(frame.kind());
            let all = TileSet::all(extent);
            check_tokens(&mut player, &frame, &all, &views, [25; 2], &mut random);
        }
    }
}

/// The layout's own plan, and boxes whose steps are not powers of two.
fn windows_are_exact(make: Make<'_>) {
    let mut random = Random(10);
    let extent = Extent::new(701, 333);
    let color = naive::transforms(PixelFormat::Nv12)[0];
    let frame = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
    let picture = naive::picture(&frame);
    for (patch_side, dtype, outside) in [
        (224, DType::U8, Outside::Edge),
        (230, DType::F16, Outside::Mean),
        (1024, DType::U8, Outside::Mean),
    ] {
        let mut player = make(frame.kind());
        let format =
            TokenFormat { outside, ..TokenFormat::new(patch_side, dtype, Normalisation::NONE) };
        let mut samples =
            [player.planes(SamplerSpec { format, capacity: 8, keeps_unchanged: false })];
        let request = PlanRequest {
            shape: PyramidShape::new(extent),
            patch_side,
            budget: 7,
            fixations: &[Focus::at(400.0, 20.0)],
            relevance: None,
            before: None,
            demand: None,
        };
        let TokenPlan { mut tokens, .. } = Layout::Windows.plan(&request);
        let hanging = Token { x: -100, y: 200, sx: 3, sy: 2, ..Token::default() };
        tokens.push(hanging);
        samples[0].set_plan(TokenPlan { patch_side, tokens }, extent);
        player.update(&frame.view(), &TileSet::all(extent), &mut samples);
        let expected = naive::tokens(&picture, samples[0].plan(), format);
        assert!(samples[0].pixels() == expected, "windows of {patch_side}");
    }
}

/// Rows and columns of one pixel, and tokens as long as they may be, so that one side is of a fine level and the other is long.
fn real_steps_are_exact_over_the_longest_sources(make: Make<'_>) {
    let mut random = Random(11);
    for (width, height, patch_side) in
        [(16_384, 1, 8), (1, 16_384, 16), (4_500, 3, 64), (3, 4_500, 10)]
    {
        let extent = Extent::new(width, height);
        let color = naive::transforms(PixelFormat::Gray8)[0];
        let frame = OwnedFrame::random(PixelFormat::Gray8, extent, color, &mut random);
        let format = TokenFormat::new(patch_side, DType::U8, Normalisation::NONE);
        let long = u16::try_from(4_096 / patch_side - 1).unwrap();
        let mut token = |sx, sy| {
            let mut extra = || u8::try_from(1 + random.below(patch_side - 1)).unwrap();
            let (extra_width, extra_height) = (extra(), extra());
            let x = random.below(width).cast_signed() - 5;
            let y = random.below(height).cast_signed() - 5;
            Token { x, y, sx, sy, extra_width, extra_height, ..Token::default() }
        };
        let tokens = [(long, long), (long, 1), (1, long), (long, 9), (5, 5), (1, 1)];
        let tokens = tokens.map(|(sx, sy)| token(sx, sy)).to_vec();
        let mut player = make(frame.kind());
        let mut samples =
            [player.planes(SamplerSpec { format, capacity: 6, keeps_unchanged: false })];
        samples[0].set_plan(TokenPlan { patch_side, tokens }, extent);
        player.update(&frame.view(), &TileSet::all(extent), &mut samples);
        let expected = naive::tokens(&naive::picture(&frame), samples[0].plan(), format);
        assert!(samples[0].pixels() == expected, "{extent}, tokens of {patch_side}");
    }
}

/// Most of these have sums of 16 bits: up to 257 rows, and four texels of a level under one of the token.
fn real_steps_of_the_usual_side_are_exact(make: Make<'_>) {
    let mut random = Random(12);
    let usual = TokenFormat::new(16, DType::U8, Normalisation::NONE);
    let floored = TokenFormat { rounding: Rounding::Floor, ..usual };
    let cleared = TokenFormat { outside: Outside::Mean, ..usual };
    for round in 0..if is_long() { 200 } else { 20 } {
        let format = PixelFormat::ALL[round % PixelFormat::ALL.len()];
        let extent = Extent::new(17 + random.below(500), 9 + random.below(400));
        let color = naive::transforms(format)[0];
        let frame = OwnedFrame::random(format, extent, color, &mut random);
        let mut token = || {
            let side = 17 + random.below(244);
            let ratio = [1, 2, 4, 5][random.below(4) as usize];
            let other =
                side.saturating_mul(ratio).saturating_add_signed(random.below(3).cast_signed() - 1);
            let (width, height) = if random.below(2) == 0 { (side, other) } else { (other, side) };
            let place = |length: u32, side: u32, random: &mut Random| {
                random.below(length + 2 * side).cast_signed() - (side + side / 2).cast_signed()
            };
            let x = place(extent.width, width, &mut random);
            let y = place(extent.height, height, &mut random);
            let step = |side: u32| u16::try_from(side / 16).unwrap();
            let extra = |side: u32| u8::try_from(side % 16).unwrap();
            let (sx, sy, extra_width, extra_height) =
                (step(width), step(height), extra(width), extra(height));
            Token { x, y, sx, sy, extra_width, extra_height, ..Token::default() }
        };
        let tokens: Vec<Token> = (0..30).map(|_| token()).collect();
        let format = [usual, floored, cleared][round % 3];
        let mut player = make(frame.kind());
        let mut samples =
            [player.planes(SamplerSpec { format, capacity: 30, keeps_unchanged: false })];
        samples[0].set_plan(TokenPlan { patch_side: 16, tokens }, extent);
        player.update(&frame.view(), &TileSet::all(extent), &mut samples);
        let expected = naive::tokens(&naive::picture(&frame), samples[0].plan(), format);
        assert!(samples[0].pixels() == expected, "{extent}, round {round}");
    }
}

/// Builds a pyramid from one frame and compares all of it.
fn check_levels(make: Make<'_>, frame: &OwnedFrame) {
    let mut player = make(frame.kind());
    player.update(&frame.view(), &TileSet::all(frame.extent), &mut []);
    assert_levels_equal(&mut player, &naive::pyramid(&naive::picture(frame)));
}

fn assert_levels_equal(player: &mut Player, expected: &[Picture]) {
    assert_eq!(player.backend.shape().level_count() as usize, expected.len());
    let source = expected[0].extent;
    for (level, expected) in (0..).zip(expected) {
        let found = player.read_level(level);
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
    player: &mut Player,
    frame: &OwnedFrame,
    dirty: &TileSet,
    views: &[SamplerSpec],
    token_counts: [usize; 2],
    random: &mut Random,
) {
    let (picture, extent) = (naive::picture(frame), frame.extent);
    let sample = |(view, count): (&SamplerSpec, usize)| {
        let mut sample = player.planes(*view);
        sample.set_plan(naive::random_plan(extent, view.format.patch_side, count, random), extent);
        sample
    };
    let mut samples: Vec<_> =
        views.iter().zip(token_counts.into_iter().cycle()).map(sample).collect();
    player.update(&frame.view(), dirty, &mut samples);
    for sample in &samples {
        let expected = naive::tokens(&picture, sample.plan(), sample.spec().format);
        assert!(sample.pixels() == expected, "{:?} of {}", sample.spec().format, frame.extent);
    }
}

/// Changes every sample of some tiles, and returns them with one that may not have changed.
fn change_some_tiles(frame: &mut OwnedFrame, random: &mut Random) -> TileSet {
    let mut dirty = TileSet::none(frame.extent);
    let grid = dirty.grid();
    for round in 0..random.below(12) {
        let (column, row) = (random.below(grid.width), random.below(grid.height));
        dirty.insert(column, row);
        if 0 < round {
            frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, random);
        }
    }
    dirty
}

fn token_formats() -> impl Iterator<Item = TokenFormat> {
    let floats = [DType::F16, DType::Bf16, DType::F32].into_iter();
    let floats = floats.flat_map(|dtype| Normalisation::PRESETS.map(|(_, preset)| (dtype, preset)));
    let kinds = std::iter::once((DType::U8, Normalisation::NONE)).chain(floats);
    let sides = [16, 14, 8, 28, 32, 10, 64, 22].into_iter().cycle();
    let outsides = [Outside::Edge, Outside::Mean, Outside::Edge].into_iter().cycle();
    let roundings = [Rounding::HalfUp, Rounding::HalfUp, Rounding::Floor].into_iter().cycle();
    let kinds = kinds.flat_map(|kind| [kind, kind]).zip(sides).zip(outsides.zip(roundings));
    let formats = kinds.map(|(((dtype, normalisation), patch_side), (outside, rounding))| {
        let format = TokenFormat::new(patch_side, dtype, normalisation);
        TokenFormat { outside, rounding, ..format }
    });
    let sample = TokenFormat::new(SAMPLE_SIDE, DType::F32, Normalisation::IMAGENET);
    let cleared = TokenFormat { outside: Outside::Mean, rounding: Rounding::Floor, ..sample };
    [sample, cleared].into_iter().chain(formats)
}
