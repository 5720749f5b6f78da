//! Saliency: change, and contrast with the surroundings.
//!
//! Centre-surround contrast over scales in brightness and two opponent colours, each map weighted by how isolated its peaks
//! are, after Itti, Koch and Niebur, "A model of saliency-based visual attention for rapid scene analysis", IEEE PAMI 20
//! (1998), and a weak centre bias, after Tatler, "The central fixation bias in scene viewing", Journal of Vision 7 (2007).
//! Change weighs most.

use self::change::Background;
use self::contrast::Contrast;
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;

mod aligned;
pub(crate) mod change;
mod contrast;

/// Weight of contrast relative to change.
const CONTRAST_WEIGHT: f32 = 0.2;

/// Passes of the smoothing of change, each with 1/4, 1/2, 1/4 along both axes, so that the centre of a moving thing is its peak.
const CHANGE_SMOOTHINGS: usize = 2;

/// Saliency of the coarse level of one source. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub struct Saliency {
    grid: Extent,
    background: Background,
    contrast: Contrast,
    /// Centre bias, 0..=1.
    prior: Vec<f32>,
    change: Vec<f32>,
    map: Vec<f32>,
    scratch: Vec<f32>,
}

impl Saliency {
    /// Saliency of a source of `extent`, before its first picture. The edge weighs `centre_prior` less than the centre, 0..=1.
    pub fn new(extent: Extent, centre_prior: f64) -> Self {
        let shape = PyramidShape::new(extent);
        let grid = shape.level_extent(CoarseLevel::level_of(shape));
        let zeros = vec![0.0; grid.area()];
        Self {
            grid,
            background: Background::new(grid),
            contrast: Contrast::new(grid),
            prior: prior(grid, centre_prior),
            change: zeros.clone(),
            map: zeros.clone(),
            scratch: zeros,
        }
    }

    /// Columns and rows of the coarse level and of both maps.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// Saliency as of the last [`weigh`](Self::weigh), row by row; not negative.
    pub fn map(&self) -> &[f32] {
        &self.map
    }

    /// Change as of the last [`weigh`](Self::weigh), row by row, 0..=1.
    pub fn change(&self) -> &[f32] {
        &self.change
    }

    /// Contrast in brightness, red against green and blue against yellow as of the last [`weigh`](Self::weigh), row by row, in
    /// levels of 256.
    pub fn contrasts(&self) -> &[Vec<f32>; 3] {
        self.contrast.maps()
    }

    /// The next picture has moved against the one before: `before_from_now` takes its places in texels to those before; `None` if it is
    /// not known how. What moves with the background does not count as change then.
    pub fn follow(&mut self, before_from_now: Option<Affine>) {
        self.background.follow(before_from_now);
    }

    /// Forgets what was seen in `texels` of the newest picture, which are black in it, and all maps until the next
    /// [`weigh`](Self::weigh).
    pub fn apply_mask(&mut self, texels: &TileSet) {
        self.background.apply_mask(texels);
        self.contrast.clear();
        self.change.fill(0.0);
        self.map.fill(0.0);
    }

    /// Computes saliency and change of a picture against the pictures absorbed so far. If it is of another scene, the background starts
    /// over once it is absorbed.
    pub fn weigh(&mut self, seen: &CoarseLevel) {
        let samples = seen.texels.as_flattened();
        self.background.change_into(samples, &mut self.change);
        for _ in 0..CHANGE_SMOOTHINGS {
            smooth(&mut self.change, &mut self.scratch, self.grid.width as usize);
        }
        let share = singularity(&self.change, 0.0);
        for (map, change) in self.map.iter_mut().zip(&self.change) {
            *map = share * change;
        }
        self.contrast.add_to(&seen.texels, CONTRAST_WEIGHT, &mut self.map);
        for (map, prior) in self.map.iter_mut().zip(&self.prior) {
            *map *= prior;
        }
    }

    /// Takes a picture into the background model, `elapsed_s` seconds after the one before.
    pub fn absorb(&mut self, seen: &CoarseLevel, elapsed_s: f32) {
        self.background.absorb(seen.texels.as_flattened(), elapsed_s);
    }
}

/// Isolation of the peaks of a map, 0..=1: near 1 for few peaks over low ground, near 0 for a uniform map. A map whose peak is
/// below `floor` counts for less.
///
/// The measure is Itti's (greatest - mean)^2, with the mean of all cells in place of the mean of the other peaks.
fn singularity(map: &[f32], floor: f32) -> f32 {
    let (greatest, sum) = greatest_and_sum(map);
    let share = (greatest - sum / map.len() as f32) / greatest.max(floor);
    if 0.0 < greatest { share * share } else { 0.0 }
}

/// The greatest value and the sum of a map, in eight lanes, because a single running sum would be bound by its latency.
fn greatest_and_sum(map: &[f32]) -> (f32, f32) {
    let (chunks, rest) = map.as_chunks::<8>();
    let (mut greatest, mut sum) = ([0f32; 8], [0f32; 8]);
    for chunk in chunks {
        for lane in 0..8 {
            greatest[lane] =
                if greatest[lane] < chunk[lane] { chunk[lane] } else { greatest[lane] };
            sum[lane] += chunk[lane];
        }
    }
    let greatest = greatest.iter().chain(rest).copied().fold(0.0, f32::max);
    (greatest, sum.iter().chain(rest).sum())
}

/// Smooths rows of `width` by 1/4, 1/2, 1/4 along both axes; edges are replicated.
pub(crate) fn smooth(map: &mut [f32], scratch: &mut [f32], width: usize) {
    for (target, row) in scratch.chunks_exact_mut(width).zip(map.chunks_exact(width)) {
        for (target, near) in target.iter_mut().skip(1).zip(row.windows(3)) {
            *target = 0.25 * (near[0] + near[2]) + 0.5 * near[1];
        }
        let last = width - 1;
        target[0] = 0.75 * row[0] + 0.25 * row[1.min(last)];
        target[last] = 0.75 * row[last] + 0.25 * row[last.saturating_sub(1)];
    }
    let height = map.len() / width;
    let row = |index: usize| &scratch[index * width..][..width];
    for (index, target) in map.chunks_exact_mut(width).enumerate() {
        let (above, below) = (row(index.saturating_sub(1)), row((index + 1).min(height - 1)));
        for (((target, above), here), below) in
            target.iter_mut().zip(above).zip(row(index)).zip(below)
        {
            *target = 0.25 * (above + below) + 0.5 * here;
        }
    }
}

/// 1 in the centre, 1 - `strength` at the edges, falling with the square of the distance.
#[expect(clippy::cast_possible_truncation, reason = "fractions, 0..=1")]
fn prior(grid: Extent, strength: f64) -> Vec<f32> {
    let offset = |index: u32, count: u32| (2.0 * f64::from(index) + 1.0) / f64::from(count) - 1.0;
    let weight = |(x, y): (u32, u32)| {
        let (dx, dy) = (offset(x, grid.width), offset(y, grid.height));
        (1.0 - strength * (dx * dx).max(dy * dy)) as f32
    };
    let cells = (0..grid.height).flat_map(|y| (0..grid.width).map(move |x| (x, y)));
    cells.map(weight).collect()
}
