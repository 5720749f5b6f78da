//! Estimates a camera's noise from the still parts of the picture.
//!
//! The difference of a block of samples between two frames has the noise of both and, where nothing moves, nothing
//! else. So each frame compares [`BLOCKS`] blocks of each component (Y, U and V, or R, G and B), spread over the
//! picture, with the same blocks [`LAG`] frames before. Taking the noise from the difference of two frames follows
//! Rosin (Thresholding for Change Detection, BMVC 1997).
//!
//! - *Of a block* it takes the variance of the differences about their mean, so that a change of light in the whole
//!   block does not count. A block with clipped samples shows too little noise, and is left out.
//! - *Of the blocks of a frame* it takes the lower quartile: things that move raise the variance of what they cover and
//!   of what they uncover, and never lower it. (The least varied blocks: Meer, Jolion and Rosenfeld, A Fast Parallel
//!   Algorithm for Blind Estimation of Noise Variance, IEEE PAMI 12, 1990; Olsen, Estimation of Noise in Images: An
//!   Evaluation, CVGIP: Graphical Models and Image Processing 55, 1993.) Motion over half of the picture in each of the
//!   frames leaves at least a quarter still, and raises the estimate by less than a quarter.
//! - *Of the last [`WINDOW`] frames* it takes the lower quartile again, so that cuts do not count.
//!
//! Samples are whole numbers, and a difference of whole numbers hides or adds some noise, depending on what the means
//! would be without it (Widrow, Kollár and Liu, Statistical Theory of Quantization, IEEE TIM 45, 1996). [`NOISE_OF_VARIANCE`]
//! takes the case that hides most, means that are whole numbers, so the noise is never put too low; of noise below half
//! a step it may be too high by 0.2 steps.
//!
//! The lag is not 1 because the filters of cameras and the skipped blocks of codecs make a frame like the one before,
//! while the resident copy that frames are compared with may be old. It is a prime number so as not to walk in step
//! with a codec's groups of pictures.
//!
//! Where noise depends on brightness, the estimate is that of the quieter parts, and the noisier ones stay dirty, which
//! costs time but no exactness. The gamma curve of video makes the noise of light nearly the same everywhere.

use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;

/// Frames between the two that are compared.
pub const LAG: usize = 7;

/// Frames in the estimate: about a second. It has followed a change of light after this many frames plus [`LAG`].
pub const WINDOW: usize = 24;

/// Most blocks compared in one frame, per component: one in each cell of a grid.
pub const BLOCKS: usize = GRID_COLUMNS * GRID_ROWS;

pub(super) const GRID_COLUMNS: usize = 8;
pub(super) const GRID_ROWS: usize = 6;

/// Frames before the first estimate.
const FRAMES_MIN: usize = 8;

/// Samples of a block.
const BLOCK_COLUMNS: usize = 8;
const BLOCK_ROWS: usize = 8;
pub(super) const BLOCK_SAMPLES: usize = BLOCK_COLUMNS * BLOCK_ROWS;

/// A block with more clipped samples than this is left out.
const CLIPPED_MAX: u8 = 8;

/// The percentile taken, of blocks and of frames.
const RANK_PERCENT: usize = 25;

/// The variance of a block of white noise at this percentile, relative to its mean: the chi-squared distribution of 63
/// degrees of freedom reaches 0.25 at 0.8748 * 63.
const RANK_SHARE: f64 = 0.8748;

/// The variance that rounding adds to a difference, once for each frame.
const ROUNDING_VARIANCE: f64 = 1.0 / 6.0;

/// Pairs of the variance of a difference and the noise that it shows, in steps. Rounded noise n of deviation s about a
/// whole number has the variance of sum over k >= 0 of (2k + 1) P(|n| >= k + 1/2), and a difference twice that.
pub const NOISE_OF_VARIANCE: [(f64, f64); 12] = [
    (0.003_556, 0.16),
    (0.024_839, 0.20),
    (0.074_442, 0.24),
    (0.148_292, 0.28),
    (0.236_357, 0.32),
    (0.329_919, 0.36),
    (0.423_660, 0.40),
    (0.515_520, 0.44),
    (0.605_803, 0.48),
    (0.696_092, 0.52),
    (0.788_310, 0.56),
    (0.884_139, 0.60),
];

/// Estimates the noise of frames of one kind. The same frames give the same estimates on any machine.
#[derive(Clone, Debug)]
pub struct NoiseEstimator {
    components: Vec<NoiseComponent>,
    /// Frames so far, modulo [`LAG`].
    turn: usize,
    /// Whether each place has been read once.
    is_primed: bool,
}

impl NoiseEstimator {
    /// An estimator before its first frame.
    pub fn new(kind: FrameKind) -> Self {
        let components =
            components(kind.format).iter().map(|&site| NoiseComponent::new(site, kind));
        Self { components: components.collect(), turn: 0, is_primed: false }
    }

    /// Reads some blocks of `frame`, which is of the kind that this was built for.
    pub fn observe(&mut self, frame: &FrameView<'_>) {
        for component in &mut self.components {
            component.observe(frame, self.turn, self.is_primed);
        }
        self.turn = (self.turn + 1) % LAG;
        self.is_primed |= self.turn == 0;
    }

    /// Standard deviation of the noise of a sample, in steps of 8 bits: that of the noisiest component. `None` before
    /// enough frames, and for sources smaller than a block.
    pub fn sigma(&self) -> Option<f64> {
        self.components.iter().filter_map(NoiseComponent::sigma).reduce(f64::max)
    }
}

/// Location of the samples of one component in a row of its plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sites {
    plane: usize,
    first_byte: usize,
    /// Bytes from one sample to the next.
    step: usize,
    is_chroma: bool,
}

impl Sites {
    /// Whether the samples are chroma (U or V).
    pub(super) fn is_chroma(self) -> bool {
        self.is_chroma
    }

    /// Columns and rows of samples in a picture of `extent`.
    pub(super) fn samples(self, format: PixelFormat, extent: Extent) -> Extent {
        let Extent { width, height } = extent;
        match (format, self.is_chroma) {
            (_, false) => extent,
            (PixelFormat::Yuy2, true) => Extent::new(width.div_ceil(2), height),
            (_, true) => Extent::new(width.div_ceil(2), height.div_ceil(2)),
        }
    }
}

const fn luma(plane: usize, first_byte: usize, step: usize) -> Sites {
    Sites { plane, first_byte, step, is_chroma: false }
}

const fn chroma(plane: usize, first_byte: usize, step: usize) -> Sites {
    Sites { plane, first_byte, step, is_chroma: true }
}

/// The components of a format, without alpha.
pub(super) fn components(format: PixelFormat) -> &'static [Sites] {
    const NV12: [Sites; 3] = [luma(0, 0, 1), chroma(1, 0, 2), chroma(1, 1, 2)];
    const I420: [Sites; 3] = [luma(0, 0, 1), chroma(1, 0, 1), chroma(2, 0, 1)];
    const YUY2: [Sites; 3] = [luma(0, 0, 2), chroma(0, 1, 4), chroma(0, 3, 4)];
    const RGB: [Sites; 3] = [luma(0, 0, 3), luma(0, 1, 3), luma(0, 2, 3)];
    const RGBX: [Sites; 3] = [luma(0, 0, 4), luma(0, 1, 4), luma(0, 2, 4)];
    const GRAY: [Sites; 1] = [luma(0, 0, 1)];
    match format {
        PixelFormat::Nv12 => &NV12,
        PixelFormat::I420 => &I420,
        PixelFormat::Yuy2 => &YUY2,
        PixelFormat::Rgb | PixelFormat::Bgr => &RGB,
        PixelFormat::Rgbx | PixelFormat::Bgrx | PixelFormat::Rgba | PixelFormat::Bgra => &RGBX,
        PixelFormat::Gray8 => &GRAY,
    }
}

pub(super) type SampleBlock = [u8; BLOCK_SAMPLES];

/// The noise history of one component.
#[derive(Clone, Debug)]
struct NoiseComponent {
    sites: Sites,
    /// Samples below the first or above the second may have been clipped.
    unclipped: (u8, u8),
    /// Top left samples of the blocks: those of the first turn, of the second, ...
    places: Vec<(usize, usize)>,
    /// Each block as it was last read.
    before: Vec<SampleBlock>,
    /// The spreads of the last frames.
    spreads: [u64; WINDOW],
    /// Frames so far that had a spread.
    count: usize,
}

impl NoiseComponent {
    fn new(sites: Sites, kind: FrameKind) -> Self {
        let places = places(sites.samples(kind.format, kind.extent));
        let before = vec![[0; BLOCK_SAMPLES]; places.len()];
        let unclipped = match (kind.color.y_offset, sites.is_chroma) {
            (0, _) => (1, 254),
            (_, false) => (17, 234),
            (_, true) => (17, 239),
        };
        Self { sites, unclipped, places, before, spreads: [0; WINDOW], count: 0 }
    }

    fn observe(&mut self, frame: &FrameView<'_>, turn: usize, is_primed: bool) {
        let count = self.places.len() / LAG;
        let mut spreads = [0; BLOCKS];
        let mut found = 0;
        let own = turn * count..(turn + 1) * count;
        for (&place, before) in self.places[own.clone()].iter().zip(&mut self.before[own]) {
            let now = read_block(frame, self.sites, place);
            if let Some(spread) = spread(before, &now, self.unclipped) {
                spreads[found] = spread;
                found += 1;
            }
            *before = now;
        }
        // If nearly the whole picture is clipped, the rest says little.
        if is_primed && count.div_ceil(8) <= found && 0 < found {
            self.spreads[self.count % WINDOW] = ranked(&mut spreads[..found]);
            self.count += 1;
        }
    }

    fn sigma(&self) -> Option<f64> {
        let mut spreads = self.spreads;
        let known = &mut spreads[..self.count.min(WINDOW)];
        let is_enough = FRAMES_MIN <= known.len();
        is_enough.then(|| noise_of(ranked(known) as f64 / SPREAD_UNITS))
    }
}

/// The value at percentile [`RANK_PERCENT`].
fn ranked(values: &mut [u64]) -> u64 {
    let rank = (values.len() - 1) * RANK_PERCENT / 100;
    *values.select_nth_unstable(rank).1
}

/// Ratio of a block's spread to its variance: n (n - 1) for n samples.
const SPREAD_UNITS: f64 = (BLOCK_SAMPLES * (BLOCK_SAMPLES - 1)) as f64;

/// The variance of the differences of two blocks about their mean, in units of 1 / [`SPREAD_UNITS`]; `None` where too
/// many samples of one are clipped.
fn spread(before: &SampleBlock, now: &SampleBlock, (low, high): (u8, u8)) -> Option<u64> {
    // Narrow numbers and no early exit, so that it vectorises.
    let mut differences = [0_i16; BLOCK_SAMPLES];
    let mut clipped = 0_u8;
    for (difference, (&before, &now)) in differences.iter_mut().zip(before.iter().zip(now)) {
        *difference = i16::from(now) - i16::from(before);
        clipped += u8::from((before.min(now) < low) | (high < before.max(now)));
    }
    let sum = i64::from(differences.iter().sum::<i16>());
    let square = |&difference: &i16| i32::from(difference) * i32::from(difference);
    let squares = i64::from(differences.iter().map(square).sum::<i32>());
    // Never below 0.
    let spread = (BLOCK_SAMPLES as i64 * squares - sum * sum).unsigned_abs();
    (clipped <= CLIPPED_MAX).then_some(spread)
}

/// The noise, in steps, for a variance of differences at the percentile taken.
fn noise_of(variance_at_rank: f64) -> f64 {
    let variance = variance_at_rank / RANK_SHARE;
    if variance == 0.0 {
        return 0.0;
    }
    let above = NOISE_OF_VARIANCE.iter().position(|(limit, _)| variance < *limit);
    match above {
        Some(0) => NOISE_OF_VARIANCE[0].1,
        Some(above) => {
            let ((v0, s0), (v1, s1)) = (NOISE_OF_VARIANCE[above - 1], NOISE_OF_VARIANCE[above]);
            s0 + (variance - v0) / (v1 - v0) * (s1 - s0)
        }
        None => ((variance - ROUNDING_VARIANCE) / 2.0).sqrt(),
    }
}

pub(super) fn read_block(
    frame: &FrameView<'_>,
    sites: Sites,
    place: (usize, usize),
) -> SampleBlock {
    match sites.step {
        1 => read_stepped::<1>(frame, sites, place),
        2 => read_stepped::<2>(frame, sites, place),
        3 => read_stepped::<3>(frame, sites, place),
        _ => read_stepped::<4>(frame, sites, place),
    }
}

/// The step is a constant, so that reading vectorises.
fn read_stepped<const STEP: usize>(
    frame: &FrameView<'_>,
    sites: Sites,
    (x, y): (usize, usize),
) -> SampleBlock {
    let mut block = [0; BLOCK_SAMPLES];
    let Plane { bytes, stride } = frame.plane(sites.plane);
    let bytes = &bytes[y * stride + sites.first_byte + x * STEP..];
    for (row, target) in block.chunks_exact_mut(BLOCK_COLUMNS).enumerate() {
        let source = &bytes[row * stride..][..(BLOCK_COLUMNS - 1) * STEP + 1];
        for (column, target) in target.iter_mut().enumerate() {
            *target = source[column * STEP];
        }
    }
    block
}

/// Columns and rows of the cells of the grid over so many samples.
pub(super) fn grid_of(samples: Extent) -> (usize, usize) {
    let (width, height) = (samples.width as usize, samples.height as usize);
    ((width / BLOCK_COLUMNS).min(GRID_COLUMNS), (height / BLOCK_ROWS).min(GRID_ROWS))
}

/// The places of all turns: in each cell of a grid one for each turn, anywhere in the cell.
pub(super) fn places(samples: Extent) -> Vec<(usize, usize)> {
    let (width, height) = (samples.width as usize, samples.height as usize);
    let (columns, rows) = grid_of(samples);
    let mut places = Vec::with_capacity(LAG * columns * rows);
    for turn in 0..LAG {
        for row in 0..rows {
            for column in 0..columns {
                let hash = scattered((turn * BLOCKS + row * GRID_COLUMNS + column) as u64);
                let x = within(width, columns, column, BLOCK_COLUMNS, hash >> 32);
                let y = within(height, rows, row, BLOCK_ROWS, hash & 0xFFFF_FFFF);
                places.push((x, y));
            }
        }
    }
    places
}

/// Start of a block of `len` of `samples` samples in cell `index` of `count`; `chance` is a random number of 32 bits.
fn within(samples: usize, count: usize, index: usize, len: usize, chance: u64) -> usize {
    let start = samples * index / count;
    let room = samples * (index + 1) / count - start - len;
    start + (((room as u64 + 1) * chance) >> 32) as usize
}

/// Hashes whole numbers to 64 bits (Steele, Lea and Flood's SplitMix, OOPSLA 2014).
fn scattered(index: u64) -> u64 {
    let z = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
