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

use std::fmt;

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

// As in GStreamer's colorimetry.
crate::names!(ColorMatrix {
    Bt601 = "bt601", Bt709 = "bt709", Bt2020 = "bt2020", Fcc = "fcc", Smpte240m = "smpte240m",
});

// As in GStreamer's GstVideoColorMatrix, whose 0 is unknown and whose 1 is RGB.
crate::codes!(ColorMatrix { Fcc = 2, Bt709 = 3, Bt601 = 4, Smpte240m = 5, Bt2020 = 6 });

crate::names!(ColorRange { Limited = "limited", Full = "full" });

// As in GStreamer's GstVideoColorRange, whose 0 is unknown.
crate::codes!(ColorRange { Full = 1, Limited = 2 });

/// The transfer function: how samples follow from light. Samples are used as they are, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// Linear.
    Gamma10,
    /// Gamma 1.8.
    Gamma18,
    /// Gamma 2.0.
    Gamma20,
    /// Gamma 2.2.
    Gamma22,
    /// Rec. ITU-R BT.709: most video.
    Bt709,
    /// SMPTE 240M.
    Smpte240m,
    /// sRGB: most pictures.
    Srgb,
    /// Gamma 2.8.
    Gamma28,
    /// Logarithmic, 100:1.
    Log100,
    /// Logarithmic, 316.22777:1.
    Log316,
    /// Rec. ITU-R BT.2020 for 12 bits.
    Bt2020Of12,
    /// Adobe RGB.
    AdobeRgb,
    /// Rec. ITU-R BT.2020 for 10 bits.
    Bt2020Of10,
    /// SMPTE ST 2084: PQ, of HDR10.
    Smpte2084,
    /// ARIB STD-B67: HLG.
    AribStdB67,
    /// Rec. ITU-R BT.601.
    Bt601,
}

// Names and numbers are those of GStreamer's GstVideoTransferFunction, whose 0 is unknown.
crate::names!(Transfer {
    Gamma10 = "gamma10", Gamma18 = "gamma18", Gamma20 = "gamma20", Gamma22 = "gamma22", Bt709 = "bt709",
    Smpte240m = "smpte240m", Srgb = "srgb", Gamma28 = "gamma28", Log100 = "log100", Log316 = "log316",
    Bt2020Of12 = "bt2020-12", AdobeRgb = "adobergb", Bt2020Of10 = "bt2020-10", Smpte2084 = "smpte2084",
    AribStdB67 = "arib-std-b67", Bt601 = "bt601",
});

crate::codes!(Transfer {
    Gamma10 = 1, Gamma18 = 2, Gamma20 = 3, Gamma22 = 4, Bt709 = 5, Smpte240m = 6, Srgb = 7, Gamma28 = 8, Log100 = 9,
    Log316 = 10, Bt2020Of12 = 11, AdobeRgb = 12, Bt2020Of10 = 13, Smpte2084 = 14, AribStdB67 = 15, Bt601 = 16,
});

impl Transfer {
    /// Common name of a transfer function of high dynamic range (HDR); `None` for others.
    pub const fn hdr_name(self) -> Option<&'static str> {
        match self {
            Self::Smpte2084 => Some("PQ"),
            Self::AribStdB67 => Some("HLG"),
            _ => None,
        }
    }
}

/// The meaning of samples, and which parts of it were assumed because the caps of the source leave them open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colorimetry {
    /// Matrix of Y'CbCr; `None` for RGB.
    pub matrix: Option<ColorMatrix>,
    /// Range of the samples.
    pub range: ColorRange,
    /// Transfer function; `None` if the caps leave it open.
    pub transfer: Option<Transfer>,
    /// Whether the matrix was chosen by the height of the frames.
    pub is_matrix_assumed: bool,
    /// Whether the range was chosen by the format.
    pub is_range_assumed: bool,
}

impl Colorimetry {
    /// The conversion to RGB.
    pub fn transform(self) -> ColorTransform {
        match self.matrix {
            Some(matrix) => ColorTransform::from_ycbcr(matrix, self.range),
            None => ColorTransform::from_rgb(self.range),
        }
    }

    /// Names of the parts that were assumed because the caps leave them open: `matrix`, `range`, or both.
    fn assumed(self) -> Vec<&'static str> {
        let assumed = [(self.is_matrix_assumed, "matrix"), (self.is_range_assumed, "range")];
        assumed.into_iter().filter(|(is_assumed, _)| *is_assumed).map(|(_, name)| name).collect()
    }

    /// Name of the transfer function, if it is `PQ` or `HLG`.
    pub fn hdr_name(self) -> Option<&'static str> {
        self.transfer.and_then(Transfer::hdr_name)
    }
}

impl fmt::Display for Colorimetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = self.matrix.map_or("RGB", ColorMatrix::name);
        write!(f, "{matrix}, {} range", self.range.name())?;
        if let Some(transfer) = self.transfer {
            write!(f, ", transfer {transfer}")?;
        }
        if let Some(name) = self.hdr_name() {
            write!(f, " ({name})")?;
        }
        match &self.assumed()[..] {
            [] => Ok(()),
            assumed => write!(f, " (assumed: {})", assumed.join(", ")),
        }
    }
}

/// A [`Colorimetry`] as JSON.
struct ColorObject {
    matrix: Option<ColorMatrix>,
    range: ColorRange,
    transfer: Option<Transfer>,
    assumed: Vec<String>,
}

crate::object!(ColorObject {
    "matrix": matrix, "range": range, "transfer": transfer, "assumed": assumed,
});

impl crate::json::serde_core::Serialize for Colorimetry {
    fn serialize<S: crate::json::serde_core::Serializer>(
        &self,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let Self { matrix, range, transfer, .. } = *self;
        let assumed = self.assumed().into_iter().map(str::to_owned).collect();
        ColorObject { matrix, range, transfer, assumed }.serialize(serializer)
    }
}

impl<'de> crate::json::serde_core::Deserialize<'de> for Colorimetry {
    fn deserialize<D: crate::json::serde_core::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let ColorObject { matrix, range, transfer, assumed } =
            ColorObject::deserialize(deserializer)?;
        let [is_matrix_assumed, is_range_assumed] =
            ["matrix", "range"].map(|what| assumed.iter().any(|assumed| assumed == what));
        Ok(Self { matrix, range, transfer, is_matrix_assumed, is_range_assumed })
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
