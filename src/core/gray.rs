//! Sixteen-bit gray as 8 bits: which samples become black and white, and the table that scales those between.

use std::fmt;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

#[cfg(feature = "serde")]
use crate::value::ConfigValue;

/// The samples that become 0 and 255. A sample s between becomes round((s - `low`) * 255 / (`high` - `low`)), half up; those outside
/// become 0 or 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct GrayRange {
    low: u16,
    high: u16,
}

/// Width of the narrowest range that is chosen automatically: every sample in it gets a level of its own.
const NARROWEST: u16 = 255;

/// Samples for each outlier, the smallest and the largest of them, that an automatic range leaves out: a sensor has dead pixels.
const SAMPLES_PER_OUTLIER: usize = 1000;

impl GrayRange {
    /// All samples.
    pub const FULL: Self = Self { low: 0, high: u16::MAX };

    /// The range from `low` to `high`; `None` unless `low` is less than `high`.
    pub const fn new(low: u16, high: u16) -> Option<Self> {
        if low < high { Some(Self { low, high }) } else { None }
    }

    /// The sample that becomes 0, and the sample that becomes 255.
    pub const fn bounds(self) -> [u16; 2] {
        [self.low, self.high]
    }

    /// The 8 bits of a sample.
    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    pub const fn level(self, sample: u16) -> u8 {
        let clamped = if sample < self.low {
            self.low
        } else if self.high < sample {
            self.high
        } else {
            sample
        };
        let (width, above) = ((self.high - self.low) as u32, (clamped - self.low) as u32);
        ((2 * above * 255 + width) / (2 * width)) as u8
    }

    /// The range of what was counted, without the outermost thousandth at either end, and at least 255 wide.
    fn of(counts: &SampleCounts) -> Self {
        let (low, high) = (counts.first(0..=u16::MAX), counts.first((0..=u16::MAX).rev()));
        let high = high.max(low.saturating_add(NARROWEST));
        Self { low: low.min(high - NARROWEST), high }
    }
}

impl fmt::Display for GrayRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.low, self.high)
    }
}

/// How a range other than [`GrayRange::FULL`] is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum GrayScaling {
    /// The range of the samples of the first frame, or of each picture that is taken alone, without the outermost thousandth at either
    /// end, and at least 255 wide.
    Auto,
    /// A given range.
    Fixed(GrayRange),
}

impl GrayScaling {
    /// Values that a configuration accepts.
    pub const ALLOWED: &str = "\"auto\", or [low, high], the samples from 0 to 65535 that become black and white, such as [7000, 9000]";

    /// The range that a configuration asks for.
    ///
    /// # Errors
    ///
    /// If the value is not allowed.
    #[cfg(feature = "serde")]
    pub fn from_config(given: &ConfigValue) -> Result<Self, String> {
        let sample = |given: &ConfigValue| u16::try_from(given.whole()?).ok();
        let scaling = match given.list(sample).as_deref() {
            Some(&[low, high]) => GrayRange::new(low, high).map(Self::Fixed),
            _ => given.text().filter(|word| *word == "auto").map(|_| Self::Auto),
        };
        given.expect(scaling, Self::ALLOWED)
    }
}

#[cfg(feature = "serde")]
impl From<GrayScaling> for ConfigValue {
    fn from(scaling: GrayScaling) -> Self {
        match scaling {
            GrayScaling::Auto => "auto".into(),
            GrayScaling::Fixed(range) => range.bounds().into(),
        }
    }
}

/// How often each sample occurs in a picture.
struct SampleCounts {
    of: Vec<u32>,
    total: usize,
}

impl SampleCounts {
    fn of(samples: impl Iterator<Item = u16>) -> Self {
        let (mut of, mut total) = (vec![0_u32; 1 << 16], 0);
        for sample in samples {
            of[usize::from(sample)] += 1;
            total += 1;
        }
        Self { of, total }
    }

    /// The first of `samples`, which are all in order, that is not left out as an outlier.
    fn first(&self, mut samples: impl Iterator<Item = u16>) -> u16 {
        let (mut seen, left_out) = (0, self.total / SAMPLES_PER_OUTLIER);
        let is_kept = |sample: &u16| {
            seen += self.of[usize::from(*sample)] as usize;
            left_out < seen
        };
        samples.find(is_kept).unwrap_or(0)
    }

    /// Which levels are lost in a full range.
    fn loss(&self) -> Option<GrayLoss> {
        let present = (0..=u16::MAX).filter(|&sample| 0 < self.of[usize::from(sample)]);
        let (mut samples, mut are_used) = (0, [false; 256]);
        for sample in present {
            samples += 1;
            are_used[usize::from(GrayRange::FULL.level(sample))] = true;
        }
        let levels = are_used.into_iter().filter(|is_used| *is_used).count();
        let suggested = GrayRange::of(self);
        (levels < samples).then_some(GrayLoss { samples, levels, suggested })
    }
}

/// Different samples of a picture that became equal under the default range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrayLoss {
    /// Number of different samples.
    pub samples: usize,
    /// Number of different levels of 8 bits that the samples became.
    pub levels: usize,
    /// A range that would keep more samples.
    pub suggested: GrayRange,
}

impl fmt::Display for GrayLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, levels, suggested } = self;
        write!(
            f,
            "16-bit gray loses precision: {samples} levels of the first picture become {levels}; set `gray_range = {suggested}`, or \
             \"auto\""
        )
    }
}

/// A range as a table.
#[derive(Clone)]
pub struct GrayScale {
    /// The samples that become 0 and 255.
    pub range: GrayRange,
    /// The loss to warn of; `None` if nothing is lost, or somebody has chosen the range.
    pub loss: Option<GrayLoss>,
    /// The level of 8 bits for each sample.
    levels: Box<[u8]>,
}

impl GrayScale {
    /// The scale for a stream or a picture that begins with `samples`.
    pub fn new(scaling: Option<GrayScaling>, samples: impl Iterator<Item = u16>) -> Self {
        let (range, loss) = match scaling {
            None => (GrayRange::FULL, SampleCounts::of(samples).loss()),
            Some(GrayScaling::Auto) => (GrayRange::of(&SampleCounts::of(samples)), None),
            Some(GrayScaling::Fixed(range)) => (range, None),
        };
        Self { range, loss, levels: (0..=u16::MAX).map(|sample| range.level(sample)).collect() }
    }

    /// The 8 bits of a sample.
    pub fn level(&self, sample: u16) -> u8 {
        self.levels[usize::from(sample)]
    }
}

impl fmt::Debug for GrayScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrayScale").field("range", &self.range).finish_non_exhaustive()
    }
}
