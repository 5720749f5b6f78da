//! Measures by how much lamps that flicker brighten and darken the picture.
//!
//! A lamp on mains of 50 or 60 Hz flickers at twice that, and beats with the rate of frames: the whole picture, or with a rolling
//! shutter each band of rows, brightens and darkens several times a second. A copy of the picture that was taken at one
//! moment differs from the picture at another by up to the whole swing, so a threshold of change has to bridge the swing as well as the noise.
//!
//! - *For a row of blocks* it takes the change of the means of the blocks since the frame before, if at least three quarters of the blocks
//!   agree in its sign: the change of the block at the far quartile, less what noise adds there. Where things move the blocks do not
//!   agree, and the change counts as none, as does a change that noise would explain.
//! - *For the last [`WINDOW`] frames* it takes the swing of the sum of these changes, if the sum has gone up and down by at least twice
//!   that much: light that comes and goes. A light that is switched, or a day that ends, does not return.
//! - *For the picture* it takes the lower median of the rows.

use foveate_core::frame::{FrameKind, FrameView};

use super::noise::{BLOCK_SAMPLES, BLOCKS, GRID_COLUMNS, GRID_ROWS, SampleBlock, Sites};
use super::noise::{components, grid_of, places, read_block};

/// Frames in the measurement: two seconds at thirty frames a second.
pub const WINDOW: usize = 60;

/// The least change of a block's mean that counts, in steps.
const LEAST: f64 = 0.25;

/// The least change that counts, as a share of the noise of a sample: twice the deviation of the difference of two means of 64.
const LEAST_OF_NOISE: f64 = 0.36;

/// The far quartile of a normal distribution with the deviation of such a difference: what noise adds to a change, as a share of the noise
/// of a sample. It has to be subtracted because it does not cancel out over a period with more changes of one sign than of the other.
const QUARTILE_OF_NOISE: f64 = 0.119;

/// Measures the swing of frames of one kind. The same frames give the same swing on any machine.
#[derive(Clone, Debug)]
pub struct LightSwing {
    /// Every component except chroma.
    components: Vec<LightComponent>,
}

#[derive(Clone, Debug)]
struct LightComponent {
    sites: Sites,
    columns: usize,
    /// Top left samples of the blocks, row by row.
    places: Vec<(usize, usize)>,
    /// The sum of each block in the newest frame; empty before the first.
    sums: Vec<i32>,
    /// Changes of the last frames of each row of blocks, in steps of a block's sum.
    rows: Vec<[i32; WINDOW]>,
    /// Frames so far.
    count: usize,
}

impl LightSwing {
    /// The swing of frames of `kind`, before the first frame.
    pub fn new(kind: FrameKind) -> Self {
        let sites = components(kind.format).iter().filter(|sites| !sites.is_chroma());
        Self { components: sites.map(|&sites| LightComponent::new(sites, kind)).collect() }
    }

    /// Reads some blocks of `frame`, which is of the kind of the measurement; `sigma` is the noise of a sample.
    pub fn observe(&mut self, frame: &FrameView<'_>, sigma: f64) {
        self.components.iter_mut().for_each(|component| component.observe(frame, sigma));
    }

    /// Steps of 8 bits by which the light brightens and darkens the picture; 0 if it does not come and go.
    pub fn steps(&self) -> f64 {
        let swings = self.components.iter().map(LightComponent::swing);
        f64::from(swings.max().unwrap_or(0)) / BLOCK_SAMPLES as f64
    }
}

impl LightComponent {
    fn new(sites: Sites, kind: FrameKind) -> Self {
        let samples = sites.samples(kind.format, kind.extent);
        let (columns, rows) = grid_of(samples);
        let mut places = places(samples);
        places.truncate(columns * rows);
        // A rolling shutter takes what lies at the same height at the same time.
        for row in places.chunks_mut(columns.max(1)) {
            let y = row[0].1;
            row.iter_mut().for_each(|place| place.1 = y);
        }
        // A picture smaller than a block has no rows.
        let rows = vec![[0; WINDOW]; if columns == 0 { 0 } else { rows }];
        let columns = columns.max(1);
        Self { sites, columns, places, sums: Vec::with_capacity(BLOCKS), rows, count: 0 }
    }

    fn observe(&mut self, frame: &FrameView<'_>, sigma: f64) {
        let Self { sites, columns, places, sums, rows, count } = self;
        let sum = |place: &(usize, usize)| sum(&read_block(frame, *sites, *place));
        if sums.is_empty() {
            sums.extend(places.iter().map(sum));
            return;
        }
        let blocks = places.chunks(*columns).zip(sums.chunks_mut(*columns));
        for ((places, before), changes) in blocks.zip(rows) {
            let mut differences = [0; GRID_COLUMNS];
            let differences = &mut differences[..places.len()];
            for ((difference, place), before) in differences.iter_mut().zip(places).zip(before) {
                let now = sum(place);
                *difference = now - std::mem::replace(before, now);
            }
            changes[*count % WINDOW] = agreed(differences, sigma);
        }
        *count += 1;
    }

    fn swing(&self) -> i32 {
        let mut swings = [0; GRID_ROWS];
        let swings = &mut swings[..self.rows.len()];
        for (swing, changes) in swings.iter_mut().zip(&self.rows) {
            let (before, after) = changes.split_at(self.count % WINDOW);
            *swing = swing_of(after.iter().chain(before));
        }
        swings.sort_unstable();
        swings.get(swings.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }
}

fn sum(block: &SampleBlock) -> i32 {
    block.iter().map(|&sample| i32::from(sample)).sum()
}

/// The change that at least three quarters of the blocks agree on, in steps of a block's sum; 0 for none, or one that does not count.
#[expect(clippy::cast_possible_truncation, reason = "no more than the change")]
fn agreed(differences: &mut [i32], sigma: f64) -> i32 {
    let least = LEAST.max(LEAST_OF_NOISE * sigma) * BLOCK_SAMPLES as f64;
    let noise = QUARTILE_OF_NOISE * sigma * BLOCK_SAMPLES as f64;
    differences.sort_unstable();
    let last = differences.len() - 1;
    let (lower, upper) = (differences[last / 4], differences[last - last / 4]);
    let change = match (lower.signum(), upper.signum()) {
        (1, 1) => upper,
        (-1, -1) => lower,
        _ => 0,
    };
    let size = f64::from(change.abs());
    if size < least { 0 } else { change.signum() * (size - noise).round() as i32 }
}

/// The swing of the sums of `changes`, in their order, if they come and go.
fn swing_of<'a>(changes: impl Iterator<Item = &'a i32>) -> i32 {
    let (mut sum, mut least, mut most, mut up, mut down) = (0, 0, 0, 0, 0);
    for change in changes {
        sum += change;
        (least, most) = (sum.min(least), sum.max(most));
        up += (*change).max(0);
        down -= (*change).min(0);
    }
    let swing = most - least;
    if 2 * swing <= up.min(down) { swing } else { 0 }
}
