//! Runs one kernel of the engine a number of times over the same picture, so that its instructions can be counted
//! (`scripts/arm.sh --count`): `kernels KERNEL INSTRUCTIONS TIMES`. Prints how many pixels, texels or numbers each time takes.

#![allow(clippy::unwrap_used, reason = "a measurement ends where something is wrong")]

use std::env;
use std::hint::black_box;

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::relevance::features::TileFeatures;
use foveate_core::token::{DType, Normalisation, Outside, Rounding, TokenFormat};
use foveate_engine::backend::cpu::convert::{Converter, SIDE, rgb_row};
use foveate_engine::backend::cpu::features::FeatureRun;
use foveate_engine::backend::cpu::ingest::{IngestRuns, Scratch};
use foveate_engine::backend::cpu::level::{bands, levels_above_0};
use foveate_engine::backend::cpu::sample::{Encoder, PyramidTexels, Room, SampleToken, Target};
use foveate_engine::change::difference::{PlaneDifferences, SampleMask};
use foveate_engine::simd::{Instructions, Kernel, Lookup, Vectors};

/// A row of tiles.
const EXTENT: Extent = Extent::new(512, TILE_SIDE);
const PIXELS: usize = EXTENT.width as usize * EXTENT.height as usize;
const TILES: usize = EXTENT.width as usize / TILE_SIDE as usize;
const PATCH: u32 = 16;
const TEXELS: usize = 3 * PATCH as usize * PATCH as usize;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kernel, instructions, times] = &arguments[..] else {
        panic!("kernels KERNEL INSTRUCTIONS TIMES")
    };
    let instructions =
        Instructions::available().into_iter().find(|set| set.name() == instructions).unwrap();
    let bytes = noise(PIXELS * 3 / 2, 1);
    let frame = frame_of(&bytes);
    let work: &dyn Fn() = match &kernel[..] {
        "compare" => &|| compare(instructions, &frame),
        "convert" => &|| instructions.run(Convert(&frame)),
        "ingest" => &|| ingest(instructions, &frame),
        "features" => &|| features(instructions, &frame),
        "sample-0" => &|| sample(instructions, &frame, Token::of_level(0, 16, 16)),
        "sample-1" => &|| sample(instructions, &frame, Token::of_level(1, 16, 0)),
        "sample-boxes" => &|| sample(instructions, &frame, boxes()),
        "halves" => &|| instructions.run(Halves),
        other => panic!("no kernel {other}"),
    };
    for _ in 0..times.parse().unwrap() {
        work();
    }
    let count = match &kernel[..] {
        "compare" | "convert" | "ingest" | "features" => PIXELS,
        _ => TEXELS,
    };
    println!("{count}");
}

fn kind() -> FrameKind {
    let color = ColorTransform::from_ycbcr(ColorMatrix::Bt709, ColorRange::Limited);
    FrameKind { format: PixelFormat::Nv12, extent: EXTENT, color }
}

fn frame_of(bytes: &[u8]) -> FrameView<'_> {
    let FrameKind { format, extent, color } = kind();
    let stride = EXTENT.width as usize;
    let (luma, chroma) = bytes.split_at(PIXELS);
    let planes = [luma, chroma].map(|bytes| Plane { bytes, stride });
    FrameView::new(format, extent, color, &planes).unwrap()
}

/// Both planes, every sample of which may differ.
fn compare(instructions: Instructions, frame: &FrameView<'_>) {
    let (mask, old) = (SampleMask::new(kind()), vec![77; PIXELS]);
    let mut columns = vec![0; mask.longest_row()];
    let mut largest = [0; TILES];
    for plane in 0..2 {
        let row_bytes = kind().row_bytes(plane);
        instructions.run(PlaneDifferences {
            new: black_box(frame),
            plane,
            first_row: 0,
            old: &old[..row_bytes * kind().rows(plane)],
            row_bytes,
            mask: &mask,
            columns: &mut columns,
            largest: &mut largest,
        });
    }
    black_box(largest);
}

/// Samples to 8-bit R, G and B, as for tokens of level 0.
struct Convert<'a>(&'a FrameView<'a>);

impl Kernel for Convert<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let converter = Converter::new(vectors, self.0.color());
        for y in 0..EXTENT.height as usize {
            for x in (0..EXTENT.width as usize).step_by(SIDE) {
                black_box(rgb_row(&converter, self.0, x, y, SIDE));
            }
        }
    }
}

/// Levels 1 to 5 and the sums of the tiles.
fn ingest(instructions: Instructions, frame: &FrameView<'_>) {
    let (mut levels, mut sums) = (levels_above_0(PyramidShape::new(EXTENT)), [[0; 3]; TILES]);
    let mut scratch = Scratch::default();
    for mut band in bands(&mut levels, &mut sums, 1, TILES) {
        let (target, runs) = (&mut band.tile_row(0), &mut std::iter::once(0..TILES));
        instructions.run(IngestRuns { frame, target, runs, scratch: &mut scratch });
    }
    black_box(sums);
}

fn features(instructions: Instructions, frame: &FrameView<'_>) {
    let mut target = vec![TileFeatures::default(); TILES];
    instructions.run(FeatureRun { frame, row: 0, columns: 0..TILES, target: &mut target });
    black_box(target);
}

/// One token of half floats.
fn sample(instructions: Instructions, frame: &FrameView<'_>, token: Token) {
    thread_local! {
        static ENCODER: Encoder = Encoder::new(TokenFormat {
            patch_side: PATCH,
            dtype: DType::F16,
            normalisation: Normalisation::SIGLIP,
            outside: Outside::Edge,
            rounding: Rounding::HalfUp,
        });
        static LEVELS: Vec<foveate_engine::backend::cpu::level::CpuLevel> =
            levels_above_0(PyramidShape::new(EXTENT));
    }
    let mut pixels = [0; 2 * TEXELS];
    ENCODER.with(|encoder| {
        LEVELS.with(|levels| {
            let texels = PyramidTexels { shape: PyramidShape::new(EXTENT), frame, levels };
            let (target, room) = (Target::Bytes(&mut pixels), &mut Room::default());
            SampleToken { texels, encoder, token, target, room, sent: None }.run(instructions);
        });
    });
    black_box(pixels);
}

/// Texels of 2x1 pixels, which are of no level.
fn boxes() -> Token {
    Token { sx: 2, sy: 1, ..Token::of_level(0, 16, 16) }
}

/// Bytes to half floats of a normalisation that is a line.
struct Halves;

impl Kernel for Halves {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        thread_local! {
            static LINE: Lookup = {
                let number = |value: usize| half::f16::from_f64((value as f64 / 255.0 - 0.5) / 0.5);
                Lookup::near(std::array::from_fn(|value| number(value).to_le_bytes()), 2.0 / 255.0, -1.0)
            };
        }
        let values = black_box([77; TEXELS]);
        let mut found = [[0; 2]; TEXELS];
        LINE.with(|line| vectors.looked_up(line, &values, &mut found));
        black_box(found);
    }
}

/// Bytes that look random.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56).to_le_bytes()[0]
    };
    (0..count).map(next).collect()
}
