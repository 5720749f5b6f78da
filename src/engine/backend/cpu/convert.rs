//! Converts the camera's samples to 8-bit RGB, 32 pixels of a row at a time.
//!
//! Twin of `glsl/shared/color.glsl`. Products and sums have 32 bits, scaled so that the integer part is the upper half.
//! Instructions that multiply and add pairs of 16 bits then do most of the work: once for the chroma of two pixels, and
//! once for the luma of each.

use crate::simd::Vectors;
use foveate_core::color::{ColorTransform, FRACTION_BITS, ROUNDING};
use foveate_core::frame::{FrameView, PixelFormat};
use foveate_core::geometry::tile::TILE_SIDE;

/// Pixels of a row of a tile.
pub const SIDE: usize = TILE_SIDE as usize;

const HALF: usize = SIDE / 2;

/// Shift of samples that makes the integer part of a sum its upper 16 bits.
const SCALE_BITS: u32 = 16 - FRACTION_BITS;

/// R, G and B of 32 pixels of a row, before they are clamped to 0..=255.
type RgbWords<V> = [<V as Vectors>::Words; 3];

/// The coefficients of a conversion, ready for multiplication.
#[derive(Clone, Copy)]
pub struct Converter<V: Vectors> {
    vectors: V,
    /// Coefficients of luma for pixels in even and in odd columns.
    luma: [V::Words; 2],
    /// Coefficients of U and V for R, G and B.
    chroma: [V::Words; 3],
    /// Offset and rounding of R, G and B.
    constant: [V::Sums; 3],
    /// Offset and rounding of gray pixels, which have no chroma.
    gray_constant: V::Sums,
}

impl<V: Vectors> Converter<V> {
    /// The coefficients of `color`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "no coefficient reaches 2.2 * 2^13")]
    pub fn new(vectors: V, color: ColorTransform) -> Self {
        let ColorTransform { y, y_offset, rv, gu, gv, bu } = color;
        let luma = y as i16;
        let gray = ROUNDING - y * y_offset;
        let constant = |chroma: i32| (gray - 128 * chroma) << SCALE_BITS;
        Self {
            vectors,
            luma: [vectors.words([luma, 0]), vectors.words([0, luma])],
            chroma: [
                vectors.words([0, rv as i16]),
                vectors.words([gu as i16, gv as i16]),
                vectors.words([bu as i16, 0]),
            ],
            constant: [
                vectors.sums(constant(rv)),
                vectors.sums(constant(gu + gv)),
                vectors.sums(constant(bu)),
            ],
            gray_constant: vectors.sums(constant(0)),
        }
    }

    /// The contribution of 16 pairs of U and V to R, G and B, plus the constants.
    #[inline(always)]
    fn chroma_sums(&self, uv: V::Words) -> [V::Sums; 3] {
        let uv = self.vectors.shifted_left::<SCALE_BITS>(uv);
        let [red, green, blue] = self.chroma;
        let [red_constant, green_constant, blue_constant] = self.constant;
        [
            self.vectors.multiplied_and_added(red_constant, uv, red),
            self.vectors.multiplied_and_added(green_constant, uv, green),
            self.vectors.multiplied_and_added(blue_constant, uv, blue),
        ]
    }

    /// 32 pixels of one channel, from scaled luma.
    #[inline(always)]
    fn channel(&self, luma: V::Words, constant: V::Sums) -> V::Words {
        let [even, odd] = self.luma;
        let even = self.vectors.multiplied_and_added(constant, luma, even);
        let odd = self.vectors.multiplied_and_added(constant, luma, odd);
        self.vectors.upper_halves(even, odd)
    }

    #[inline(always)]
    fn rgb(&self, luma: V::Words, [red, green, blue]: [V::Sums; 3]) -> RgbWords<V> {
        let luma = self.vectors.shifted_left::<SCALE_BITS>(luma);
        [self.channel(luma, red), self.channel(luma, green), self.channel(luma, blue)]
    }

    /// 32 samples of luma as gray.
    #[inline(always)]
    fn gray(&self, luma: &[u8; SIDE]) -> RgbWords<V> {
        let luma = self.vectors.shifted_left::<SCALE_BITS>(self.vectors.widened(luma));
        [self.channel(luma, self.gray_constant); 3]
    }
}

/// The samples under two rows of pixels, the upper one even.
#[derive(Clone, Copy, Debug)]
pub struct RowPair<'a> {
    /// Luma or whole pixels, a row of bytes for each.
    pub rows: [&'a [u8]; 2],
    /// The row of chroma that both share, in one or two planes; else empty.
    pub chroma: [&'a [u8]; 2],
}

impl<'a> RowPair<'a> {
    /// Rows `y` and `y + 1` of `frame`.
    #[inline(always)]
    pub fn new(frame: &FrameView<'a>, y: usize) -> Self {
        let mut chroma: [&[u8]; 2] = [&[]; 2];
        for (index, row) in chroma.iter_mut().enumerate().take(frame.format().plane_count() - 1) {
            *row = frame.row(index + 1, y / 2);
        }
        Self { rows: [frame.row(0, y), frame.row(0, y + 1)], chroma }
    }
}

/// The sample layout of a pixel format.
pub trait Sampling {
    /// R, G and B of the 32 pixels from column `x` of two rows; `x` is a multiple of 32, and all pixels exist.
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2];

    /// R, G and B of `count` pixels, at most 32, from the even column `x` of row `y`. The rest is unspecified.
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V>;
}

/// Calls a function that is generic over the [`Sampling`] of a format.
macro_rules! with_sampling {
    ($format:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::backend::cpu::convert::{Gray, I420, Nv12, Packed, Yuy2};
        match $format {
            PixelFormat::Nv12 => $function::<_, Nv12>($($argument),*),
            PixelFormat::I420 => $function::<_, I420>($($argument),*),
            PixelFormat::Yuy2 => $function::<_, Yuy2>($($argument),*),
            PixelFormat::Rgb => $function::<_, Packed<3, 0, 2>>($($argument),*),
            PixelFormat::Bgr => $function::<_, Packed<3, 2, 0>>($($argument),*),
            PixelFormat::Rgbx | PixelFormat::Rgba => $function::<_, Packed<4, 0, 2>>($($argument),*),
            PixelFormat::Bgrx | PixelFormat::Bgra => $function::<_, Packed<4, 2, 0>>($($argument),*),
            PixelFormat::Gray8 => $function::<_, Gray>($($argument),*),
        }
    }};
}
pub(super) use with_sampling;

/// R, G and B, 0..=255 each, of `count` pixels, at most 32, from the even column `x` of row `y`. The rest is
/// unspecified.
#[inline(always)]
pub fn rgb_row<V: Vectors>(
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    x: usize,
    y: usize,
    count: usize,
) -> [[u8; SIDE]; 3] {
    with_sampling!(frame.format(), rgb_row_of(converter, frame, x, y, count))
}

/// [`rgb_row`] for a known pixel format.
#[inline(always)]
pub fn rgb_row_of<V: Vectors, S: Sampling>(
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    x: usize,
    y: usize,
    count: usize,
) -> [[u8; SIDE]; 3] {
    let vectors = converter.vectors;
    let [red, green, blue] = S::row(converter, frame, x, y, count);
    [vectors.clamped(red), vectors.clamped(green), vectors.clamped(blue)]
}

/// Luma, and chroma for 2 x 2 pixels, interleaved.
#[derive(Debug)]
pub struct Nv12;

impl Sampling for Nv12 {
    #[inline(always)]
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2] {
        two_rows(converter, pair, x, chunk(pair.chroma[0], x))
    }

    #[inline(always)]
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V> {
        let uv: [u8; SIDE] = samples(&frame.row(1, y / 2)[x..], count.next_multiple_of(2));
        one_row(converter, &samples(&frame.row(0, y)[x..], count), &uv)
    }
}

/// Luma, and chroma for 2 x 2 pixels in two planes.
#[derive(Debug)]
pub struct I420;

impl Sampling for I420 {
    #[inline(always)]
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2] {
        let [u, v] = pair.chroma;
        two_rows(converter, pair, x, &interleaved(chunk(u, x / 2), chunk(v, x / 2)))
    }

    #[inline(always)]
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V> {
        let u = samples(&frame.row(1, y / 2)[x / 2..], count.div_ceil(2));
        let v = samples(&frame.row(2, y / 2)[x / 2..], count.div_ceil(2));
        one_row(converter, &samples(&frame.row(0, y)[x..], count), &interleaved(&u, &v))
    }
}

/// Two rows of luma from column `x` that share 16 pairs of U and V.
#[inline(always)]
fn two_rows<V: Vectors>(
    converter: &Converter<V>,
    pair: &RowPair<'_>,
    x: usize,
    uv: &[u8; SIDE],
) -> [RgbWords<V>; 2] {
    let sums = converter.chroma_sums(converter.vectors.widened(uv));
    let [upper, lower] = pair.rows;
    [
        converter.rgb(converter.vectors.widened(chunk(upper, x)), sums),
        converter.rgb(converter.vectors.widened(chunk(lower, x)), sums),
    ]
}

#[inline(always)]
fn one_row<V: Vectors>(
    converter: &Converter<V>,
    luma: &[u8; SIDE],
    uv: &[u8; SIDE],
) -> RgbWords<V> {
    let sums = converter.chroma_sums(converter.vectors.widened(uv));
    converter.rgb(converter.vectors.widened(luma), sums)
}

/// U and V interleaved.
#[inline(always)]
fn interleaved(u: &[u8; HALF], v: &[u8; HALF]) -> [u8; SIDE] {
    let mut uv = [0; SIDE];
    for i in 0..HALF {
        uv[2 * i] = u[i];
        uv[2 * i + 1] = v[i];
    }
    uv
}

/// Y0 Cb Y1 Cr: chroma for 2 pixels of a row.
#[derive(Debug)]
pub struct Yuy2;

impl Yuy2 {
    #[inline(always)]
    fn rgb<V: Vectors>(converter: &Converter<V>, packed: &[u8; 2 * SIDE]) -> RgbWords<V> {
        let [luma, uv] = converter.vectors.unzipped(packed);
        converter.rgb(luma, converter.chroma_sums(uv))
    }
}

impl Sampling for Yuy2 {
    #[inline(always)]
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2] {
        let [upper, lower] = pair.rows;
        [Self::rgb(converter, chunk(upper, 2 * x)), Self::rgb(converter, chunk(lower, 2 * x))]
    }

    #[inline(always)]
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V> {
        let bytes = 2 * count.next_multiple_of(2);
        Self::rgb(converter, &samples(&frame.row(0, y)[2 * x..], bytes))
    }
}

/// Pixels of `BYTES` bytes, 3 or 4, of which byte `RED` is R, the second G, and byte `BLUE` B.
#[derive(Debug)]
pub struct Packed<const BYTES: usize, const RED: usize, const BLUE: usize>;

impl<const BYTES: usize, const RED: usize, const BLUE: usize> Packed<BYTES, RED, BLUE> {
    #[inline(always)]
    fn rgb<V: Vectors>(converter: &Converter<V>, packed: &[u8]) -> RgbWords<V> {
        let pixels = pixels::<BYTES>(packed);
        let [red, ..] = converter.gray(&byte_of(&pixels, RED));
        let [green, ..] = converter.gray(&byte_of(&pixels, 1));
        let [blue, ..] = converter.gray(&byte_of(&pixels, BLUE));
        [red, green, blue]
    }
}

impl<const BYTES: usize, const RED: usize, const BLUE: usize> Sampling
    for Packed<BYTES, RED, BLUE>
{
    #[inline(always)]
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2] {
        let [upper, lower] = pair.rows;
        // No closure: it would be compiled without the instructions.
        [
            Self::rgb(converter, &upper[BYTES * x..][..BYTES * SIDE]),
            Self::rgb(converter, &lower[BYTES * x..][..BYTES * SIDE]),
        ]
    }

    #[inline(always)]
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V> {
        let packed: [u8; 4 * SIDE] = samples(&frame.row(0, y)[BYTES * x..], BYTES * count);
        Self::rgb(converter, &packed[..BYTES * SIDE])
    }
}

/// Luma alone.
#[derive(Debug)]
pub struct Gray;

impl Sampling for Gray {
    #[inline(always)]
    fn rows_of_pair<V: Vectors>(
        converter: &Converter<V>,
        pair: &RowPair<'_>,
        x: usize,
    ) -> [RgbWords<V>; 2] {
        let [upper, lower] = pair.rows;
        [converter.gray(chunk(upper, x)), converter.gray(chunk(lower, x))]
    }

    #[inline(always)]
    fn row<V: Vectors>(
        converter: &Converter<V>,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
        count: usize,
    ) -> RgbWords<V> {
        converter.gray(&samples(&frame.row(0, y)[x..], count))
    }
}

/// The `N` bytes of a row from byte `start` on.
#[inline(always)]
fn chunk<const N: usize>(row: &[u8], start: usize) -> &[u8; N] {
    row[start..].first_chunk().expect("the row reaches to the end of the tile")
}

/// The first `count` bytes of a row; the rest is unspecified.
#[inline(always)]
fn samples<const N: usize>(row: &[u8], count: usize) -> [u8; N] {
    if let Some(samples) = row.first_chunk() {
        return *samples;
    }
    let mut samples = [0; N];
    samples[..count].copy_from_slice(&row[..count]);
    samples
}

// Loops over indices, so that they are vectorised however the crate is linked: an iterator that is not inlined is not.

/// 32 pixels of `BYTES` bytes, 3 or 4, each in the lowest bytes of a word.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "see above")]
pub(super) fn pixels<const BYTES: usize>(row: &[u8]) -> [u32; SIDE] {
    let mut pixels = [0; SIDE];
    let row = &row[..SIDE * BYTES];
    for index in 0..SIDE - 1 {
        pixels[index] = u32::from_le_bytes(*chunk(row, index * BYTES));
    }
    let mut last = [0; 4];
    last[..BYTES].copy_from_slice(&row[(SIDE - 1) * BYTES..]);
    pixels[SIDE - 1] = u32::from_le_bytes(last);
    pixels
}

/// Byte `byte` of each pixel.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a byte of a word")]
fn byte_of(pixels: &[u32; SIDE], byte: usize) -> [u8; SIDE] {
    let mut bytes = [0; SIDE];
    for index in 0..SIDE {
        bytes[index] = (pixels[index] >> (8 * byte)) as u8;
    }
    bytes
}
