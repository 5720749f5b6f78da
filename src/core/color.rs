//! From the camera's samples to 8-bit RGB, in integers, defined once for the CPU, the shaders and the tests.
//!
//! With Y' = Y - `y_offset`, U' = U - 128 and V' = V - 128, and coefficients round(c * 2^13),
//!
//! ```text
//! R = clamp((y * Y' +         rv * V' + 4096) >> 13, 0, 255)
//! G = clamp((y * Y' + gu * U' + gv * V' + 4096) >> 13, 0, 255)
//! B = clamp((y * Y' + bu * U'           + 4096) >> 13, 0, 255)
//! ```
//!
//! where c follows from the matrix's Kr and Kb as in Rec. ITU-R BT.601-7, BT.709-6 and BT.2020-2. RGB samples
//! take the place of Y', each on its own; in full range that is the identity. Chroma is replicated: the
//! sample of pixel (x, y) is (x / 2, y / 2) where both sides are halved, (x / 2, y) where only the width is.

/// Fractional bits of a coefficient. 16-bit multiply-add instructions hold the largest, 2.14 * 2^13.
pub const FRACTION_BITS: u32 = 13;

/// Added before the shift, so that it rounds half up.
pub const ROUNDING: i32 = 1 << (FRACTION_BITS - 1);

/// The matrix of the caps' colorimetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorMatrix {
    /// Standard definition.
    Bt601,
    /// High definition.
    Bt709,
    /// Ultra high definition, non-constant luminance.
    Bt2020,
    /// The 1953 NTSC weights, `fcc` in GStreamer.
    Fcc,
    /// SMPTE 240M.
    Smpte240m,
}

impl ColorMatrix {
    /// Kr and Kb: the weights of red and blue in luma.
    pub const fn weights(self) -> (f64, f64) {
        match self {
            Self::Bt601 => (0.299, 0.114),
            Self::Bt709 => (0.2126, 0.0722),
            Self::Bt2020 => (0.2627, 0.0593),
            Self::Fcc => (0.30, 0.11),
            Self::Smpte240m => (0.212, 0.087),
        }
    }
}

/// What sample values stand for black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorRange {
    /// Luma 16..=235, chroma 16..=240.
    Limited,
    /// 0..=255.
    Full,
}

/// The coefficients of the conversion, in units of 2^-13; in memory as shaders have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct ColorTransform {
    /// Subtracted from luma: 16 or 0.
    pub y_offset: i32,
    /// Luma to every channel.
    pub y: i32,
    /// V to red.
    pub rv: i32,
    /// U to green; negative.
    pub gu: i32,
    /// V to green; negative.
    pub gv: i32,
    /// U to blue.
    pub bu: i32,
}

impl ColorTransform {
    /// RGB samples of full range, unchanged.
    pub const IDENTITY: Self =
        Self { y_offset: 0, y: 1 << FRACTION_BITS, rv: 0, gu: 0, gv: 0, bu: 0 };

    /// The conversion of Y'CbCr samples of a matrix and a range. Gray samples use its luma part.
    pub fn from_ycbcr(matrix: ColorMatrix, range: ColorRange) -> Self {
        let (kr, kb) = matrix.weights();
        let kg = 1.0 - kr - kb;
        let (y_offset, y_scale, c_scale) = match range {
            ColorRange::Limited => (16, 255.0 / 219.0, 255.0 / 224.0),
            ColorRange::Full => (0, 1.0, 1.0),
        };
        Self {
            y_offset,
            y: fixed(y_scale),
            rv: fixed(2.0 * (1.0 - kr) * c_scale),
            gu: fixed(-2.0 * (1.0 - kb) * kb / kg * c_scale),
            gv: fixed(-2.0 * (1.0 - kr) * kr / kg * c_scale),
            bu: fixed(2.0 * (1.0 - kb) * c_scale),
        }
    }

    /// The conversion of RGB samples of a range.
    pub fn from_rgb(range: ColorRange) -> Self {
        let luma = Self::from_ycbcr(ColorMatrix::Bt709, range);
        Self { y_offset: luma.y_offset, y: luma.y, ..Self::IDENTITY }
    }

    /// The most by which a channel of an 8-bit RGB pixel, or of a mean of such pixels, can move when no sample moves
    /// by more than `sample_bound`: ceil(`sample_bound` * S / 2^13) + 1, and 0 where no sample moves.
    ///
    /// S is the largest sum, over R, G and B, of the magnitudes of the coefficients that the channel has. Before it is
    /// rounded a channel is that linear sum of its samples, so it moves by at most `sample_bound` * S / 2^13. Rounding
    /// adds at most a half at either end, which makes 1; clamping only brings two values closer. A mean moves no
    /// further than the pixel that moves furthest, which is a whole number, so that rounding the mean adds nothing.
    /// RGB samples have no coefficient but `y`. Nor have gray ones, for which a Y'CbCr conversion's bound is wide.
    pub fn rgb_bound(self, sample_bound: u8) -> u32 {
        if sample_bound == 0 {
            return 0;
        }
        let [y, rv, gu, gv, bu] =
            [self.y, self.rv, self.gu, self.gv, self.bu].map(i32::unsigned_abs);
        let sum = y + rv.max(gu + gv).max(bu);
        (u32::from(sample_bound) * sum).div_ceil(1 << FRACTION_BITS) + 1
    }

    /// RGB of one Y'CbCr sample.
    pub fn rgb(self, y: u8, u: u8, v: u8) -> [u8; 3] {
        let y = (i32::from(y) - self.y_offset) * self.y;
        let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
        [y + self.rv * v, y + self.gu * u + self.gv * v, y + self.bu * u].map(rounded)
    }

    /// One channel of an RGB sample, or all three of a gray one.
    pub fn channel(self, sample: u8) -> u8 {
        rounded((i32::from(sample) - self.y_offset) * self.y)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "no coefficient exceeds 2.2 * 2^13")]
fn fixed(coefficient: f64) -> i32 {
    (coefficient * f64::from(1 << FRACTION_BITS)).round() as i32
}

fn rounded(sum: i32) -> u8 {
    ((sum + ROUNDING) >> FRACTION_BITS).clamp(0, 255) as u8
}
