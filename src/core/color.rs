//! Conversion of camera samples to 8-bit RGB in integers: one definition for the CPU, the shaders and the tests.
//!
//! With Y' = Y - `y_offset`, U' = U - 128 and V' = V - 128, and coefficients round(c * 2^13),
//!
//! ```text
//! R = clamp((y * Y' +         rv * V' + 4096) >> 13, 0, 255)
//! G = clamp((y * Y' + gu * U' + gv * V' + 4096) >> 13, 0, 255)
//! B = clamp((y * Y' + bu * U'           + 4096) >> 13, 0, 255)
//! ```
//!
//! where c follows from the matrix's Kr and Kb as in Rec. ITU-R BT.601-7, BT.709-6 and BT.2020-2. RGB samples each take the
//! place of Y'; in full range that is the identity. Chroma is replicated: the sample of pixel (x, y) is (x / 2, y / 2) where
//! both sides are halved, (x / 2, y) where only the width is.

/// Fractional bits of a coefficient. 16-bit multiply-add instructions hold the largest, 2.14 * 2^13.
pub const FRACTION_BITS: u32 = 13;

/// Added before the shift to round half up.
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
    /// Its name in GStreamer's colorimetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bt601 => "bt601",
            Self::Bt709 => "bt709",
            Self::Bt2020 => "bt2020",
            Self::Fcc => "fcc",
            Self::Smpte240m => "smpte240m",
        }
    }

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

/// Sample values of black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorRange {
    /// Luma 16..=235, chroma 16..=240.
    Limited,
    /// 0..=255.
    Full,
}

impl ColorRange {
    /// `limited` or `full`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::Full => "full",
        }
    }
}

/// Coefficients of the conversion in units of 2^-13, laid out as in shaders.
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
    /// Full-range RGB, unchanged.
    pub const IDENTITY: Self =
        Self { y_offset: 0, y: 1 << FRACTION_BITS, rv: 0, gu: 0, gv: 0, bu: 0 };

    /// Conversion of Y'CbCr samples. Gray samples use the luma part.
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

    /// Conversion of RGB samples.
    pub fn from_rgb(range: ColorRange) -> Self {
        let luma = Self::from_ycbcr(ColorMatrix::Bt709, range);
        Self { y_offset: luma.y_offset, y: luma.y, ..Self::IDENTITY }
    }

    /// Bound on the change of a channel of an 8-bit RGB pixel, or of a mean of such pixels, when no sample changes by more than
    /// `sample_bound`: ceil(`sample_bound` * S / 2^13) + 1, and 0 for a bound of 0.
    ///
    /// S is the largest sum of the magnitudes of a channel's coefficients, over R, G and B. Before rounding a channel is that linear
    /// sum of its samples, so it changes by at most `sample_bound` * S / 2^13. Rounding adds at most a half at either end, together 1;
    /// clamping only brings values closer. A mean changes no more than the pixel that changes most, by a whole number, so rounding
    /// the mean adds nothing. RGB and gray samples have no coefficient but `y`; for gray ones the bound of a Y'CbCr conversion is loose.
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
