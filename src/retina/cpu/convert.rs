//! From the camera's samples to 8-bit RGB, a row of a tile at a time.
//!
//! Twin of `glsl/shared/color.glsl`. Sums of products are kept in two parts of 16 bits, which together are exact, so that
//! registers hold twice as many as of 32 bits. Rows are arrays and loops
//! have no branches, so that the compiler turns them into vector instructions. Nothing in them is a closure, because those
//! of `array::map` are compiled apart, for other instructions.

use crate::color::{ColorTransform, FRACTION_BITS};
use crate::frame::{FrameView, PixelFormat};
use crate::geometry::tile::TILE_SIDE;

/// Pixels of a row of a tile.
pub const SIDE: usize = TILE_SIDE as usize;

const HALF: usize = SIDE / 2;

/// R, G and B of a row of a tile, 0..=255 each.
pub type RgbRow = [[u16; SIDE]; 3];

/// The samples under two rows of pixels, the upper one even.
#[derive(Clone, Copy, Debug)]
pub struct RowPair<'a> {
    /// Luma or whole pixels, a row of bytes for each.
    pub rows: [&'a [u8]; 2],
    /// The row of chroma that both share, in one or two planes; otherwise empty.
    pub chroma: [&'a [u8]; 2],
}

impl<'a> RowPair<'a> {
    /// Rows `y` and `y + 1` of `frame`.
    #[inline(always)]
    pub fn new(frame: &FrameView<'a>, y: usize) -> Self {
        let chroma = |plane: usize| -> &'a [u8] {
            if plane < frame.format().plane_count() { frame.row(plane, y / 2) } else { &[] }
        };
        Self { rows: [frame.row(0, y), frame.row(0, y + 1)], chroma: [chroma(1), chroma(2)] }
    }
}

/// How a format keeps its samples.
pub trait Sampling {
    /// R, G and B of the 32 pixels from column `x` of two rows; `x` is a multiple of 32, and all pixels are there.
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2];

    /// R, G and B of `count` pixels, at most 32, from column `x`, which is even, of row `y`. What comes after them means
    /// nothing.
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow;
}

/// Calls a function that is generic over the [`Sampling`] of a format.
macro_rules! with_sampling {
    ($format:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::retina::cpu::convert::{Gray, I420, Nv12, Packed, Yuy2};
        match $format {
            PixelFormat::Nv12 => $function::<Nv12>($($argument),*),
            PixelFormat::I420 => $function::<I420>($($argument),*),
            PixelFormat::Yuy2 => $function::<Yuy2>($($argument),*),
            PixelFormat::Rgbx | PixelFormat::Rgba => $function::<Packed<0, 2>>($($argument),*),
            PixelFormat::Bgrx | PixelFormat::Bgra => $function::<Packed<2, 0>>($($argument),*),
            PixelFormat::Gray8 => $function::<Gray>($($argument),*),
        }
    }};
}
pub(super) use with_sampling;

/// R, G and B of `count` pixels, at most 32, from column `x`, which is even, of row `y`. What comes after them means
/// nothing.
#[inline(always)]
pub fn rgb_row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
    #[inline(always)]
    fn row<S: Sampling>(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        S::row(frame, x, y, count)
    }
    with_sampling!(frame.format(), row(frame, x, y, count))
}

/// Luma, and chroma for 2 x 2 pixels, interleaved.
#[derive(Debug)]
pub struct Nv12;

impl Sampling for Nv12 {
    #[inline(always)]
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2] {
        let chroma: &[u8; SIDE] = chunk(pair.chroma[0], x);
        let (u, v) = (every_nth::<2, HALF>(chroma, 0), every_nth::<2, HALF>(chroma, 1));
        let terms = chroma_terms(color, &u, &v);
        let [upper, lower] = pair.rows;
        [
            rgb_from_luma(color, chunk(upper, x), &terms),
            rgb_from_luma(color, chunk(lower, x), &terms),
        ]
    }

    #[inline(always)]
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        let chroma: [u8; SIDE] = samples(&frame.row(1, y / 2)[x..], count.next_multiple_of(2));
        let (u, v) = (every_nth::<2, HALF>(&chroma, 0), every_nth::<2, HALF>(&chroma, 1));
        let terms = chroma_terms(frame.color(), &u, &v);
        rgb_from_luma(frame.color(), &samples(&frame.row(0, y)[x..], count), &terms)
    }
}

/// Luma, and chroma for 2 x 2 pixels in two planes.
#[derive(Debug)]
pub struct I420;

impl Sampling for I420 {
    #[inline(always)]
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2] {
        let [u, v] = pair.chroma;
        let terms = chroma_terms(color, chunk(u, x / 2), chunk(v, x / 2));
        let [upper, lower] = pair.rows;
        [
            rgb_from_luma(color, chunk(upper, x), &terms),
            rgb_from_luma(color, chunk(lower, x), &terms),
        ]
    }

    #[inline(always)]
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        let u = samples(&frame.row(1, y / 2)[x / 2..], count.div_ceil(2));
        let v = samples(&frame.row(2, y / 2)[x / 2..], count.div_ceil(2));
        let terms = chroma_terms(frame.color(), &u, &v);
        rgb_from_luma(frame.color(), &samples(&frame.row(0, y)[x..], count), &terms)
    }
}

/// Y0 Cb Y1 Cr: chroma for 2 pixels of a row.
#[derive(Debug)]
pub struct Yuy2;

impl Yuy2 {
    #[inline(always)]
    fn rgb(color: ColorTransform, packed: &[u8; 2 * SIDE]) -> RgbRow {
        let (u, v) = (every_nth::<4, HALF>(packed, 1), every_nth::<4, HALF>(packed, 3));
        rgb_from_luma(color, &every_nth::<2, SIDE>(packed, 0), &chroma_terms(color, &u, &v))
    }
}

impl Sampling for Yuy2 {
    #[inline(always)]
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2] {
        let [upper, lower] = pair.rows;
        [Self::rgb(color, chunk(upper, 2 * x)), Self::rgb(color, chunk(lower, 2 * x))]
    }

    #[inline(always)]
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        let bytes = 2 * count.next_multiple_of(2);
        Self::rgb(frame.color(), &samples(&frame.row(0, y)[2 * x..], bytes))
    }
}

/// Pixels of four bytes, of which byte `RED` is R, the second G, and byte `BLUE` B.
#[derive(Debug)]
pub struct Packed<const RED: usize, const BLUE: usize>;

impl<const RED: usize, const BLUE: usize> Packed<RED, BLUE> {
    #[inline(always)]
    fn rgb(color: ColorTransform, packed: &[u8; 4 * SIDE]) -> RgbRow {
        [
            channel(color, &every_nth::<4, SIDE>(packed, RED)),
            channel(color, &every_nth::<4, SIDE>(packed, 1)),
            channel(color, &every_nth::<4, SIDE>(packed, BLUE)),
        ]
    }
}

impl<const RED: usize, const BLUE: usize> Sampling for Packed<RED, BLUE> {
    #[inline(always)]
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2] {
        let [upper, lower] = pair.rows;
        [Self::rgb(color, chunk(upper, 4 * x)), Self::rgb(color, chunk(lower, 4 * x))]
    }

    #[inline(always)]
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        Self::rgb(frame.color(), &samples(&frame.row(0, y)[4 * x..], 4 * count))
    }
}

/// Luma alone.
#[derive(Debug)]
pub struct Gray;

impl Sampling for Gray {
    #[inline(always)]
    fn rows_of_pair(color: ColorTransform, pair: &RowPair<'_>, x: usize) -> [RgbRow; 2] {
        let [upper, lower] = pair.rows;
        [[channel(color, chunk(upper, x)); 3], [channel(color, chunk(lower, x)); 3]]
    }

    #[inline(always)]
    fn row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> RgbRow {
        [channel(frame.color(), &samples(&frame.row(0, y)[x..], count)); 3]
    }
}

/// The `N` bytes of a row from byte `start` on.
#[inline(always)]
fn chunk<const N: usize>(row: &[u8], start: usize) -> &[u8; N] {
    row[start..].first_chunk().expect("the row goes on to the end of the tile")
}

/// The first `count` bytes of a row; the others are 0.
#[inline(always)]
fn samples<const N: usize>(row: &[u8], count: usize) -> [u8; N] {
    let mut samples = [0; N];
    samples[..count].copy_from_slice(&row[..count]);
    samples
}

/// `COUNT` bytes of a row, each `STEP` after the one before.
#[inline(always)]
fn every_nth<const STEP: usize, const COUNT: usize>(row: &[u8], offset: usize) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for (byte, group) in bytes.iter_mut().zip(row.as_chunks::<STEP>().0) {
        *byte = group[offset];
    }
    bytes
}

/// Bits of a coefficient's finer part, and of the fraction that is kept beside the sum.
const FINE_BITS: u32 = 7;

/// Bits of a fraction within the coarser part of a sum.
const COARSE_BITS: u32 = FRACTION_BITS - FINE_BITS;

/// Products of samples and a coefficient, or sums of such: `coarse` / 2^6 + `fine` / 2^13, exactly.
#[derive(Clone, Copy)]
struct Products<const N: usize> {
    coarse: [i16; N],
    fine: [i16; N],
}

impl<const N: usize> Products<N> {
    /// The products of `samples`, less `offset`, and a coefficient.
    ///
    /// Differences have 9 bits and no coefficient reaches 2.2 * 2^13, so that its upper and its lower 7 bits both give
    /// products of 16 bits: those of chroma, the largest, are at most 128 * 138.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two parts of a number below 2^15")]
    fn new(samples: &[u8; N], offset: i32, coefficient: i32) -> Self {
        const FINE_MASK: i16 = (1 << FINE_BITS) - 1;
        let (upper, lower) = ((coefficient >> FINE_BITS) as i16, coefficient as i16 & FINE_MASK);
        let offset = offset as i16;
        let mut products = Self { coarse: [0; N], fine: [0; N] };
        for (i, sample) in samples.iter().enumerate() {
            let sample = i16::from(*sample).wrapping_sub(offset);
            let fine = sample.wrapping_mul(lower);
            products.coarse[i] = sample.wrapping_mul(upper).wrapping_add(fine >> FINE_BITS);
            products.fine[i] = fine & FINE_MASK;
        }
        products
    }

    /// With the half that rounds when the fraction is dropped.
    #[inline(always)]
    fn rounded(mut self) -> Self {
        for coarse in &mut self.coarse {
            *coarse = coarse.wrapping_add(1 << (COARSE_BITS - 1));
        }
        self
    }

    /// The sum, of at most three products. What is beyond 16 bits is beyond 255 too.
    #[inline(always)]
    fn plus(mut self, other: &Self) -> Self {
        for i in 0..N {
            self.coarse[i] = self.coarse[i].saturating_add(other.coarse[i]);
            self.fine[i] = self.fine[i].wrapping_add(other.fine[i]);
        }
        self
    }

    /// The values without their fractions, as samples of 8 bits.
    #[inline(always)]
    #[expect(clippy::cast_sign_loss, reason = "clamped")]
    fn clamped(&self) -> [u16; N] {
        let mut values = [0; N];
        for (i, value) in values.iter_mut().enumerate() {
            let sum = self.coarse[i].saturating_add(self.fine[i] >> FINE_BITS);
            *value = (sum >> COARSE_BITS).clamp(0, 255) as u16;
        }
        values
    }
}

impl Products<HALF> {
    /// Each of them twice: for the two pixels of a row that share it.
    #[inline(always)]
    fn doubled(&self) -> Products<SIDE> {
        let mut doubled = Products { coarse: [0; SIDE], fine: [0; SIDE] };
        for i in 0..HALF {
            doubled.coarse[2 * i] = self.coarse[i];
            doubled.coarse[2 * i + 1] = self.coarse[i];
            doubled.fine[2 * i] = self.fine[i];
            doubled.fine[2 * i + 1] = self.fine[i];
        }
        doubled
    }
}

/// What the chroma of 16 pairs of pixels adds to R, G and B of each pixel, and what rounds.
#[inline(always)]
fn chroma_terms(color: ColorTransform, u: &[u8; HALF], v: &[u8; HALF]) -> [Products<SIDE>; 3] {
    let red = Products::new(v, 128, color.rv);
    let green = Products::new(u, 128, color.gu).plus(&Products::new(v, 128, color.gv));
    let blue = Products::new(u, 128, color.bu);
    [red.rounded().doubled(), green.rounded().doubled(), blue.rounded().doubled()]
}

#[inline(always)]
fn rgb_from_luma(color: ColorTransform, luma: &[u8; SIDE], terms: &[Products<SIDE>; 3]) -> RgbRow {
    let luma = Products::new(luma, color.y_offset, color.y);
    let [red, green, blue] = terms;
    [luma.plus(red).clamped(), luma.plus(green).clamped(), luma.plus(blue).clamped()]
}

/// One channel of RGB samples, or all three of gray ones.
#[inline(always)]
fn channel(color: ColorTransform, samples: &[u8; SIDE]) -> [u16; SIDE] {
    Products::new(samples, color.y_offset, color.y).rounded().clamped()
}
