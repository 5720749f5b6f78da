//! Token format: side, number format and normalisation.
//!
//! A token is stored channel by channel, row by row: `[3, P, P]`, R then G then B.

use std::ops::RangeInclusive;

use crate::geometry::pyramid::rounded_mean;

#[cfg(feature = "half")]
pub mod numbers;
#[cfg(feature = "serde")]
mod text;

/// The number format of a token's texels, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 0..=255, not normalised.
    U8,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an IEEE 754 binary32.
    Bf16,
    /// IEEE 754 binary32.
    F32,
}

crate::names!(DType { U8 = "u8", F16 = "f16", Bf16 = "bf16", F32 = "f32" });
crate::codes!(DType { U8 = 1, F16 = 2, Bf16 = 3, F32 = 4 });

impl DType {
    /// Bytes of one texel of one channel.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    /// The number that `bytes` begin with.
    pub fn number(self, bytes: &[u8]) -> f64 {
        match self {
            Self::U8 => f64::from(bytes[0]),
            Self::F16 => f64_from_f16(u16::from_le_bytes([bytes[0], bytes[1]])),
            Self::Bf16 => f64::from(f32::from_le_bytes([0, 0, bytes[0], bytes[1]])),
            Self::F32 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        }
    }
}

/// Value of a texel without a real pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outside {
    /// The nearest texel of the token's grid that has one.
    #[default]
    Edge,
    /// The number 0, which is the mean of a normalised view.
    Mean,
}

crate::names!(Outside { Edge = "edge", Mean = "mean" });
crate::codes!(Outside { Edge = 0, Mean = 1 });

/// How the mean of a texel's pixels becomes 8 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Round to the nearest value, half up.
    #[default]
    HalfUp,
    /// Round down.
    Floor,
}

crate::names!(Rounding { HalfUp = "half-up", Floor = "floor" });
crate::codes!(Rounding { HalfUp = 0, Floor = 1 });

impl Rounding {
    /// The mean of `count` samples with sum `sum`, rounded once. `count` is at most 2^22.
    #[inline]
    pub const fn mean(self, sum: u32, count: u32) -> u8 {
        match self {
            Self::HalfUp => rounded_mean(sum, count),
            #[expect(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples")]
            Self::Floor => (sum / count) as u8,
        }
    }
}

/// Sides of a token in texels, both included; those of windows are larger, and a sample has 1.
pub const PATCH_SIDES: RangeInclusive<u32> = 8..=64;

/// Sides of a window in texels, both included.
pub const WINDOW_SIDES: RangeInclusive<u32> = 224..=1024;

/// Side of a sample in texels, a token of the layout `samples`. Its texel has 32 bits, as devices write whole words.
pub const SAMPLE_SIDE: u32 = 1;

/// Whether a token may have `side` texels a side.
pub fn is_patch_side(side: u32) -> bool {
    let is_even = side.is_multiple_of(2);
    side == SAMPLE_SIDE || is_even && (PATCH_SIDES.contains(&side) || WINDOW_SIDES.contains(&side))
}

/// How 0..=255 becomes a model's input: (value / 255 - mean) / std, for R, G and B. As text it is the name of a preset, or the
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    /// Subtracted from value / 255.
    pub mean: [f64; 3],
    /// Divides the difference; never 0.
    pub std: [f64; 3],
}

impl Normalisation {
    /// 0..=255 as it is.
    pub const NONE: Self = Self { mean: [0.0; 3], std: [1.0 / 255.0; 3] };
    /// The range 0..=1.
    pub const UNIT: Self = Self { mean: [0.0; 3], std: [1.0; 3] };
    /// The statistics of ImageNet that torchvision's models expect.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
    /// The statistics that OpenAI's CLIP models expect.
    pub const CLIP: Self = Self {
        mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
        std: [0.268_629_54, 0.261_302_58, 0.275_777_11],
    };
    /// -1..=1, as SigLIP models expect.
    pub const SIGLIP: Self = Self { mean: [0.5; 3], std: [0.5; 3] };

    /// The presets and their names in a configuration.
    pub const PRESETS: [(&'static str, Self); 5] = [
        ("none", Self::NONE),
        ("unit", Self::UNIT),
        ("imagenet", Self::IMAGENET),
        ("clip", Self::CLIP),
        ("siglip", Self::SIGLIP),
    ];
}

/// Format of a view's tokens in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenFormat {
    /// P: side of a token in texels; see [`is_patch_side`].
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// Normalisation of 0..=255; [`Normalisation::NONE`] for [`DType::U8`].
    pub normalisation: Normalisation,
    /// Value of a texel without a real pixel.
    pub outside: Outside,
    /// Rounding of means to 8 bits.
    pub rounding: Rounding,
}

impl Default for TokenFormat {
    fn default() -> Self {
        Self::new(16, DType::F16, Normalisation::IMAGENET)
    }
}

impl TokenFormat {
    /// A format whose means are rounded half up, and whose texels outside the source repeat the nearest one inside.
    pub const fn new(patch_side: u32, dtype: DType, normalisation: Normalisation) -> Self {
        let (outside, rounding) = (Outside::Edge, Rounding::HalfUp);
        Self { patch_side, dtype, normalisation, outside, rounding }
    }

    /// The 8-bit value that a texel of `channel` was made from; `bytes` begin with the texel.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn denormalised(self, channel: usize, bytes: &[u8]) -> u8 {
        if self.dtype == DType::U8 {
            return bytes[0];
        }
        let number = self.dtype.number(bytes);
        let Normalisation { mean, std } = self.normalisation;
        ((number * std[channel] + mean[channel]) * 255.0).round().clamp(0.0, 255.0) as u8
    }

    /// Bytes of one token: 3 * P * P texels. A multiple of 4.
    pub const fn token_bytes(self) -> usize {
        3 * (self.patch_side * self.patch_side) as usize * self.dtype.bytes()
    }
}

/// The value of an IEEE 754 binary16, by its bits. A subnormal is its fraction times 2^-24.
fn f64_from_f16(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1F, f64::from(bits & 0x3FF));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1F if fraction == 0.0 => f64::INFINITY,
        0x1F => f64::NAN,
        _ => (fraction / 1024.0 + 1.0) * 2f64.powi(i32::from(exponent) - 15),
    };
    if sign == 0 { magnitude } else { -magnitude }
}
