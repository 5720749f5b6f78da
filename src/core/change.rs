//! Rules of change detection.

use std::num::NonZeroU32;

#[cfg(feature = "serde")]
mod text;

/// Rules of change detection. By default every change counts, however small, and unchanged tiles are not read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeConfig {
    /// The most by which a camera sample may differ from the one that the pyramid was built from.
    pub threshold: Threshold,
    /// Every tile is read again at least once in so many frames, at most 1000000.
    pub refresh_frames: Option<NonZeroU32>,
}

impl ChangeConfig {
    /// Whether a token keeps its texels while none of them changes by more than the threshold. If the threshold is always 0, each token
    /// over a tile that changes is published again.
    pub fn keeps_tokens(&self) -> bool {
        self.threshold != Threshold::Fixed(0)
    }

    /// The configuration with the threshold for a source whose samples are exact, or are not.
    #[must_use]
    pub fn for_source(self, is_exact: bool) -> Self {
        let threshold = match self.threshold {
            Threshold::BySource { .. } if is_exact => Threshold::Fixed(0),
            Threshold::BySource { limit } => Threshold::Auto { limit },
            given => given,
        };
        Self { threshold, ..self }
    }
}

/// The difference that a sample may have. As text it is the number, `"auto"`, or `"source"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A fixed difference, in steps of 8 bits.
    Fixed(u8),
    /// As many steps as the noise of the camera and flickering lamps need.
    Auto {
        /// The most steps.
        limit: u8,
    },
    /// 0 for a source whose samples are exact: still pictures, and clips without a lossy codec. For others, as [`Auto`](Self::Auto).
    BySource {
        /// The most steps.
        limit: u8,
    },
}

impl Threshold {
    /// The limit where none is given. It bridges noise of two and a half steps (40 dB), as of a camera in poor light;
    /// where there is more, a picture that changes by a sixteenth of its range must not be ignored.
    pub const LIMIT_DEFAULT: u8 = 16;
}

impl Default for Threshold {
    /// Every change counts.
    fn default() -> Self {
        Self::Fixed(0)
    }
}
