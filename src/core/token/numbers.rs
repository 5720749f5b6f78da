//! Converts 8-bit samples to the numbers of a token's format.

use super::{DType, Normalisation, TokenFormat};

impl TokenFormat {
    /// The number that each value of R, G and B becomes, as the low [`DType::bytes`] bytes of a word.
    pub fn table(self) -> [[u32; 256]; 3] {
        let Normalisation { mean, std } = self.normalisation;
        std::array::from_fn(|channel| {
            std::array::from_fn(|value| {
                let value = value as f64;
                let number = if self.keeps_values() {
                    value
                } else {
                    (value / 255.0 - mean[channel]) / std[channel]
                };
                encoded(number, self.dtype)
            })
        })
    }

    /// Factor and offset of the line on which the numbers of a channel lie before they are rounded to the number format.
    pub fn line(self, channel: usize) -> (f64, f64) {
        let Normalisation { mean, std } = self.normalisation;
        if self.keeps_values() {
            (1.0, 0.0)
        } else {
            (1.0 / (255.0 * std[channel]), -mean[channel] / std[channel])
        }
    }

    /// Whether values are not normalised.
    fn keeps_values(self) -> bool {
        self.normalisation == Normalisation::NONE || self.dtype == DType::U8
    }
}

/// `number` in a number format, as the low [`DType::bytes`] bytes of a word.
#[expect(clippy::cast_possible_truncation, reason = "rounding to the number format is the purpose")]
#[expect(clippy::cast_sign_loss, reason = "0..=255")]
pub fn encoded(number: f64, dtype: DType) -> u32 {
    match dtype {
        DType::U8 => u32::from(number as u8),
        DType::F16 => u32::from(half::f16::from_f64(number).to_bits()),
        DType::Bf16 => u32::from(half::bf16::from_f64(number).to_bits()),
        DType::F32 => (number as f32).to_bits(),
    }
}
