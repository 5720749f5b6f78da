//! What the bytes of a token mean: its side, its number format and its normalisation.
//!
//! A token is stored channel by channel, row by row: `[3, P, P]`, R then G then B.

use serde::{Deserialize, Serialize};

/// The number format of a token's texels, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

impl DType {
    /// Bytes of one texel of one channel.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    /// The number that stands for it in a ring.
    pub const fn code(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::F16 => 2,
            Self::Bf16 => 3,
            Self::F32 => 4,
        }
    }

    /// The number format that a number in a ring stands for.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::U8),
            2 => Some(Self::F16),
            3 => Some(Self::Bf16),
            4 => Some(Self::F32),
            _ => None,
        }
    }
}

/// How 0..=255 becomes a model's input: (value / 255 - mean) / std, for R, G and B.
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
    /// 0..=1.
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

/// What one view's tokens look like in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenFormat {
    /// P: side of a token in texels, 14 or 16.
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// From 0..=255 to the number; [`Normalisation::NONE`] for [`DType::U8`].
    pub normalisation: Normalisation,
}

impl TokenFormat {
    /// Bytes of one token: 3 * P * P texels. A multiple of 4.
    pub const fn token_bytes(self) -> usize {
        3 * (self.patch_side * self.patch_side) as usize * self.dtype.bytes()
    }

    /// The 8-bit value that a texel of `channel` was made from; `bytes` begin with the texel.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn denormalised(self, channel: usize, bytes: &[u8]) -> u8 {
        let number = match self.dtype {
            DType::U8 => return bytes[0],
            DType::F16 => half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            DType::Bf16 => half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            DType::F32 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        };
        let Normalisation { mean, std } = self.normalisation;
        ((number * std[channel] + mean[channel]) * 255.0).round().clamp(0.0, 255.0) as u8
    }

    /// The number that each value of each channel becomes, as the low [`DType::bytes`] bytes of a word.
    pub fn table(self) -> NormalisationTable {
        let Normalisation { mean, std } = self.normalisation;
        NormalisationTable(std::array::from_fn(|channel| {
            std::array::from_fn(|value| {
                let value = value as f64;
                let number = if self.normalisation == Normalisation::NONE || self.dtype == DType::U8
                {
                    value
                } else {
                    (value / 255.0 - mean[channel]) / std[channel]
                };
                encoded(number, self.dtype)
            })
        }))
    }
}

/// 256 words for each of R, G and B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalisationTable(pub [[u32; 256]; 3]);

#[expect(clippy::cast_possible_truncation, reason = "rounding to the number format is the purpose")]
#[expect(clippy::cast_sign_loss, reason = "0..=255")]
fn encoded(number: f64, dtype: DType) -> u32 {
    match dtype {
        DType::U8 => u32::from(number as u8),
        DType::F16 => u32::from(half::f16::from_f64(number).to_bits()),
        DType::Bf16 => u32::from(half::bf16::from_f64(number).to_bits()),
        DType::F32 => (number as f32).to_bits(),
    }
}
