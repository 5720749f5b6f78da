//! [Relevance channels](foveate_core::channel) of one view, one value per cell.
//!
//! Appearance is updated when a tile of the cell changes, motion and attention in every frame, normals and occlusion when a
//! depth map is injected, all others at a gaze decision. The position of a cell is constant.

#![expect(clippy::cast_possible_truncation, reason = "places in a picture, cells of a grid")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrayvec::ArrayVec;

use self::depth::Depth;
use super::features::TileFeatures;
use super::injection::Injection;
use super::scorer::OCTAVES_MAX;
use super::seen::{Seen, SeenTiles};
use crate::motion::Motions;
use crate::saliency::Saliency;
use foveate_core::channel::{CELLS_MAX, CHANNELS, Computed, cells_of};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::geometry::weights::Weights;

mod cluster;
mod depth;
mod distance;
mod local;
mod motion;

/// The injected channel that normals and occlusion are derived from.
pub const DEPTH: &str = "depth";

/// Time constants in seconds: of age, of what was not seen, and of the moving average of attention.
const AGE_S: f32 = 1.0;
const UNSEEN_S: f32 = 2.0;
const ATTENTION_S: f32 = 1.0;

/// Root mean squared difference of pixels, as a share of the luma range, from which on a cell has strong edges.
const STRONG_EDGES: f32 = 0.1;

/// Change from which on a cell counts as changing.
const CHANGING: f32 = 0.1;

/// The channels of one view, and the state they are computed from.
#[derive(Debug)]
pub struct Scene {
    extent: Extent,
    /// Columns and rows of cells.
    grid: Extent,
    /// Tiles along a side of a cell, a power of two.
    tiles: u32,
    /// Channel by channel, in the order of [`CHANNELS`]; cells row by row.
    computed: Vec<Vec<f32>>,
    /// Injected maps by name, sampled on the grid.
    injected: BTreeMap<String, Injected>,
    /// Whether each cell has changed in the frame that is taken in.
    changed: Vec<bool>,
    /// Time at which each cell last changed.
    changed_ns: Vec<u64>,
    /// Time at which each cell was last seen; `None` for never.
    seen_ns: Vec<Option<u64>>,
    /// How finely each cell is sampled by the plan of the frame before.
    fineness: Vec<f32>,
    /// The share of each cell that the plan of the frame before shows finely.
    sight: Vec<f32>,
    /// The plan of `fineness` and `sight`.
    plan: Option<TokenPlan>,
    /// `frame_seq` and time of the frame that was absorbed last; frame 0 before any.
    absorbed: (u64, u64),
    /// `frame_seq` of the last frame whose tiles were absorbed; 0 before any.
    tiles_frame_seq: u64,
    /// The cells that masks cover at least in part, since frame `hidden_since`.
    hidden: Vec<bool>,
    hidden_since: u64,
    /// Whether a cell looks otherwise than at the last decision.
    looks_changed: bool,
    /// Number of gaze decisions so far.
    decisions: u64,
    /// `frame_seq` of the newest frame absorbed at the last decision; 0 before any.
    decided_frame_seq: u64,
}

/// A channel that a client injected.
#[derive(Debug)]
struct Injected {
    given: Arc<Injection>,
    cells: Vec<f32>,
    until_ns: u64,
}

impl Scene {
    /// The scene of a source of `extent`, before its first picture.
    pub fn new(extent: Extent) -> Self {
        let (grid, cell_px) = cells_of(extent);
        let zeros = vec![0.0; grid.area()];
        let mut scene = Self {
            extent,
            grid,
            tiles: cell_px / TILE_SIDE,
            computed: vec![zeros.clone(); CHANNELS.len()],
            injected: BTreeMap::new(),
            changed: vec![false; grid.area()],
            changed_ns: vec![0; grid.area()],
            seen_ns: vec![None; grid.area()],
            fineness: zeros.clone(),
            sight: zeros,
            plan: None,
            absorbed: (0, 0),
            tiles_frame_seq: 0,
            hidden: vec![false; grid.area()],
            hidden_since: 0,
            looks_changed: true,
            decisions: 0,
            decided_frame_seq: 0,
        };
        scene.place();
        scene
    }

    /// Columns and rows of cells.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// Side of a cell in pixels.
    pub fn cell_px(&self) -> u32 {
        self.tiles * TILE_SIDE
    }

    /// The cells of a channel, row by row; `None` for an injected one that is not there.
    pub fn channel(&self, name: &str) -> Option<&[f32]> {
        match CHANNELS.iter().position(|channel| channel.name == name) {
            Some(index) => Some(&self.computed[index]),
            None => self.injected.get(name).map(|injected| injected.cells.as_slice()),
        }
    }

    /// Takes an injected channel, which is forgotten at `until_ns`.
    pub fn inject(&mut self, given: &Arc<Injection>, until_ns: u64) {
        let mut cells = sampled(given, self.extent, self.grid, self.cell_px());
        if given.frame_seq() < self.hidden_since {
            clear(&mut cells, &self.hidden);
        }
        let injected = Injected { given: Arc::clone(given), cells, until_ns };
        if given.name() == DEPTH {
            self.derive_from_depth(Some(&injected.cells));
        }
        self.injected.insert(given.name().to_owned(), injected);
    }

    /// Forgets the injected channels whose time is over.
    pub fn forget(&mut self, now_ns: u64) {
        self.keep_injected(|_, injected| now_ns < injected.until_ns);
    }

    /// Forgets the injected channels of these names.
    pub fn withdraw(&mut self, names: &[String]) {
        self.keep_injected(|name, _| !names.contains(name));
    }

    fn keep_injected(&mut self, is_kept: impl Fn(&String, &Injected) -> bool) {
        self.injected.retain(|name, injected| is_kept(name, injected));
        if !self.injected.contains_key(DEPTH) {
            self.derive_from_depth(None);
        }
    }

    /// Masks cover `texels` of the coarse level from frame `frame_seq`, the next one, on: forgets what was seen there, whether it was looked
    /// at, what was injected of earlier frames there, and the score.
    pub fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        let (columns, coarse) = (self.grid.width as usize, texels.grid());
        let level = CoarseLevel::level_of(PyramidShape::new(self.extent));
        let side = self.cell_px() >> level;
        assert_eq!(coarse.in_cells(side), self.grid, "texels of the coarse level");
        self.hidden.fill(false);
        self.hidden_since = frame_seq;
        for (column, row) in texels.iter() {
            self.hidden[(row / side) as usize * columns + (column / side) as usize] = true;
        }
        for index in (0..self.hidden.len()).filter(|index| self.hidden[*index]) {
            local::fill(&mut self.computed, index, &TileFeatures::default(), 0);
            self.changed_ns[index] = 0;
            // They would tell that something there was worth a look.
            self.seen_ns[index] = None;
            self.computed[Computed::Attention as usize][index] = 0.0;
            self.computed[Computed::Unseen as usize][index] = 1.0;
        }
        self.looks_changed = true;
        self.of_mut(Computed::Relevance).fill(0.0);
        for injected in self.injected.values_mut() {
            if injected.given.frame_seq() < frame_seq {
                clear(&mut injected.cells, &self.hidden);
            }
        }
        let depth = self.injected.get(DEPTH).map(|depth| depth.cells.clone());
        self.derive_from_depth(depth.as_deref());
    }

    /// Takes in what was seen of a frame, once; its motion again, which masks that came since may have changed.
    pub fn absorb(&mut self, seen: &Seen<'_>, now_ns: u64) {
        let (last, last_ns) = self.absorbed;
        if seen.frame_seq < last {
            return;
        }
        let motion = seen.motion.and_then(Motions::newest);
        let motion = motion.filter(|motion| motion.frames().1 == seen.frame_seq);
        let cell_px = self.cell_px();
        motion::fill(&mut self.computed, self.grid, cell_px, motion);
        if seen.frame_seq == last && last != 0 {
            return;
        }
        if let Some(tiles) = &seen.tiles {
            self.absorb_tiles(tiles, seen.frame_seq, now_ns);
            self.tiles_frame_seq = seen.frame_seq;
        }
        if let Some(plan) = seen.plan {
            let elapsed_ns = now_ns.saturating_sub(last_ns);
            self.attend_to(plan, seen.frame_seq, (now_ns, elapsed_ns));
        }
        self.absorbed = (seen.frame_seq, now_ns);
    }

    /// `frame_seq` of the newest frame that was taken in; 0 before any.
    pub fn frame_seq(&self) -> u64 {
        self.absorbed.0
    }

    /// Number of gaze decisions so far.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// `frame_seq` of the newest frame absorbed at the last decision; 0 before any.
    pub fn decided_frame_seq(&self) -> u64 {
        self.decided_frame_seq
    }

    /// Computes the channels that depend on saliency, other cells, fixations or time.
    pub fn decide(&mut self, saliency: &Saliency, fixations: &[Fixation], now_ns: u64) {
        self.decisions += 1;
        self.decided_frame_seq = self.absorbed.0;
        self.pool_saliency(saliency);
        let (grid, longer_side) = (self.grid, self.extent.longer_side() as f32);
        if std::mem::take(&mut self.looks_changed) {
            let strong = |edges: &f32| STRONG_EDGES <= *edges;
            let edges: Vec<bool> = self.of(Computed::Edges).iter().map(strong).collect();
            distance::fill(self.of_mut(Computed::EdgeDistance), grid, &edges);
            cluster::fill(&mut self.computed, grid);
        }
        let changing: Vec<bool> =
            self.of(Computed::Change).iter().map(|change| CHANGING <= *change).collect();
        distance::fill(self.of_mut(Computed::ChangeDistance), grid, &changing);

        let cell_px = self.cell_px() as f32;
        let columns = grid.width as usize;
        for index in 0..grid.area() {
            let middle = |cell: usize| (cell as f32 + 0.5) * cell_px;
            let (x, y) = (middle(index % columns), middle(index / columns));
            let to = |fixation: &Fixation| {
                let (dx, dy) = (fixation.x as f32 - x, fixation.y as f32 - y);
                (dx * dx + dy * dy).sqrt()
            };
            let nearest = fixations.iter().map(to).fold(longer_side, f32::min);
            let elapsed_s = |since: u64| now_ns.saturating_sub(since) as f32 * 1e-9;
            let saturated = |seconds: f32, constant: f32| seconds / (seconds + constant);
            let unseen =
                self.seen_ns[index].map_or(1.0, |since| saturated(elapsed_s(since), UNSEEN_S));
            let age = saturated(elapsed_s(self.changed_ns[index]), AGE_S);
            self.of_mut(Computed::Eccentricity)[index] = nearest / longer_side;
            self.of_mut(Computed::Unseen)[index] = unseen;
            self.of_mut(Computed::Age)[index] = age;
        }
    }

    /// A weight for each cell.
    pub fn weights<'a>(&self, cells: &'a [f32]) -> Weights<'a> {
        let grid = self.grid;
        let side = |cells: u32| f64::from(cells * self.cell_px());
        let region = Region { x0: 0.0, y0: 0.0, x1: side(grid.width), y1: side(grid.height) };
        Weights { grid, region, cells }
    }

    /// The relevance map of the cells' weights, to the power of `gain`; `None` if uniform.
    pub fn map(&self, cells: &[f32], gain: f64) -> Option<RelevanceMap> {
        let (grid, weights) = (self.grid, self.weights(cells));
        let middle = |cell: u32, count: u32, length: u32| {
            (f64::from(cell) + 0.5) * f64::from(length) / f64::from(count)
        };
        let rows = (0..grid.height).map(|row| middle(row, grid.height, self.extent.height));
        let columns: ArrayVec<f64, { CELLS_MAX as usize }> =
            (0..grid.width).map(|column| middle(column, grid.width, self.extent.width)).collect();
        let at = |y| columns.iter().map(move |x| weights.at(*x, y));
        let values: Vec<f32> = rows.flat_map(at).collect();
        RelevanceMap::from_values(grid, &values, gain)
    }

    /// Stores the score as the channel `relevance` for the next decision.
    pub fn set_score(&mut self, octaves: &[f32]) {
        for (cell, octaves) in self.of_mut(Computed::Relevance).iter_mut().zip(octaves) {
            *cell = octaves / OCTAVES_MAX;
        }
    }

    fn of(&self, channel: Computed) -> &[f32] {
        &self.computed[channel as usize]
    }

    fn of_mut(&mut self, channel: Computed) -> &mut [f32] {
        &mut self.computed[channel as usize]
    }

    fn place(&mut self) {
        let Self { extent, grid, .. } = *self;
        let side = self.cell_px() as f32;
        let middle = |cell: u32, length: u32| ((cell as f32 + 0.5) * side / length as f32).min(1.0);
        for (index, cell) in (0..grid.height)
            .flat_map(|row| (0..grid.width).map(move |column| (column, row)))
            .enumerate()
        {
            self.of_mut(Computed::X)[index] = middle(cell.0, extent.width);
            self.of_mut(Computed::Y)[index] = middle(cell.1, extent.height);
        }
        self.of_mut(Computed::Unseen).fill(1.0);
        self.of_mut(Computed::EdgeDistance).fill(1.0);
        self.of_mut(Computed::ChangeDistance).fill(1.0);
    }

    /// The channels of the cells with a tile that changed since the tiles before. What masks cover since a later frame stays hidden.
    fn absorb_tiles(&mut self, tiles: &SeenTiles<'_>, frame_seq: u64, now_ns: u64) {
        let last = self.tiles_frame_seq;
        let tile_grid = self.extent.in_cells(TILE_SIDE);
        self.note_changed(tiles.changed_frame, last, tile_grid.width as usize);
        for index in 0..self.changed.len() {
            let was_hidden = self.hidden[index] && last < self.hidden_since;
            let is_hidden = self.hidden[index] && frame_seq < self.hidden_since;
            if is_hidden || !self.changed[index] && !was_hidden {
                continue;
            }
            let features = self.features_of(index, tiles.features, tile_grid);
            local::fill(&mut self.computed, index, &features, tiles.black);
            self.changed_ns[index] = now_ns;
            self.looks_changed = true;
        }
    }

    /// Notes which cells have a tile that changed after frame `last`; all of them if that is 0.
    fn note_changed(&mut self, changed_frame: &[u64], last: u64, tile_columns: usize) {
        let (columns, tiles) = (self.grid.width as usize, self.tiles as usize);
        self.changed.fill(last == 0);
        for (row, frames) in changed_frame.chunks_exact(tile_columns).enumerate() {
            let cells = &mut self.changed[row / tiles * columns..][..columns];
            for (changed, frames) in cells.iter_mut().zip(frames.chunks(tiles)) {
                *changed |= frames.iter().any(|frame| last < *frame);
            }
        }
    }

    /// The sums over the tiles of a cell.
    fn features_of(&self, index: usize, tiles: &[TileFeatures], tile_grid: Extent) -> TileFeatures {
        let (column, row) = (index as u32 % self.grid.width, index as u32 / self.grid.width);
        let along = |cell: u32, count: u32| cell * self.tiles..((cell + 1) * self.tiles).min(count);
        let mut features = TileFeatures::default();
        for row in along(row, tile_grid.height) {
            for column in along(column, tile_grid.width) {
                features += tiles[(row * tile_grid.width + column) as usize];
            }
        }
        features
    }

    /// Notes how finely `plan` samples each cell in frame `frame_seq`, from `elapsed_ns` before `now_ns` on; not in cells that masks cover
    /// since a later frame.
    fn attend_to(&mut self, plan: &TokenPlan, frame_seq: u64, (now_ns, elapsed_ns): (u64, u64)) {
        if self.plan.as_ref() != Some(plan) {
            self.take_plan(plan);
            self.plan = Some(plan.clone());
        }
        let elapsed_s = elapsed_ns as f32 * 1e-9;
        let share = elapsed_s / (elapsed_s + ATTENTION_S);
        let attentions = &mut self.computed[Computed::Attention as usize];
        for (index, attention) in attentions.iter_mut().enumerate() {
            if self.hidden[index] && frame_seq < self.hidden_since {
                continue;
            }
            let is_seen = SIGHT_MIN <= self.sight[index];
            if is_seen {
                self.seen_ns[index] = Some(now_ns);
            }
            *attention += share * (self.fineness[index].min(1.0) - *attention);
        }
    }

    /// Notes how finely the tokens of a plan sample each cell, and which share of it is under tokens that show it finely: tokens with a step
    /// below 2, and the finest of the plan.
    fn take_plan(&mut self, plan: &TokenPlan) {
        let (cell, patch_side) = (self.cell_px(), plan.patch_side);
        let longer = |token: &Token| token.width(patch_side).max(token.height(patch_side));
        let finest = plan.tokens.iter().map(longer).min().unwrap_or(0);
        self.fineness.fill(0.0);
        self.sight.fill(0.0);
        for token in &plan.tokens {
            let lies = token.pixel_box(self.extent, patch_side);
            let side = longer(token);
            let fineness = patch_side as f32 / side as f32;
            let is_seen = side < 2 * patch_side || side == finest;
            for row in lies.y0 / cell..lies.y1.div_ceil(cell) {
                for column in lies.x0 / cell..lies.x1.div_ceil(cell) {
                    let index = (row * self.grid.width + column) as usize;
                    // By its share of the cell.
                    let side = |from: u32, to: u32, cell_at: u32| {
                        (to.min((cell_at + 1) * cell) - from.max(cell_at * cell)) as f32
                    };
                    let area = side(lies.x0, lies.x1, column) * side(lies.y0, lies.y1, row);
                    let whole =
                        side(0, self.extent.width, column) * side(0, self.extent.height, row);
                    self.fineness[index] += fineness * area / whole;
                    if is_seen {
                        self.sight[index] += area / whole;
                    }
                }
            }
        }
    }

    /// The means, and the greatest change, of the texels under each cell.
    fn pool_saliency(&mut self, saliency: &Saliency) {
        let texel_grid = saliency.grid();
        let shape = PyramidShape::new(self.extent);
        let side = (self.cell_px() >> CoarseLevel::level_of(shape)) as usize;
        let width = texel_grid.width as usize;
        let columns = self.grid.width as usize;
        let contrasts = saliency.contrasts();
        for index in 0..self.grid.area() {
            let bounded = |cell: usize, count: u32| (cell * side).min(count as usize);
            let along = |cell: usize, count: u32| bounded(cell, count)..bounded(cell + 1, count);
            let xs = along(index % columns, texel_grid.width);
            let ys = along(index / columns, texel_grid.height);
            let count = (xs.len() * ys.len()).max(1) as f32;
            let (mut sums, mut change) = ([0.0; 3], 0f32);
            for y in ys {
                let texels = y * width + xs.start..y * width + xs.end;
                for (sum, contrast) in sums.iter_mut().zip(contrasts) {
                    for contrast in &contrast[texels.clone()] {
                        *sum += contrast;
                    }
                }
                change = saliency.change()[texels].iter().fold(change, |a, b| a.max(*b));
            }
            let channels = [Computed::Intensity, Computed::RedGreen, Computed::BlueYellow];
            for (channel, sum) in channels.into_iter().zip(sums) {
                self.of_mut(channel)[index] = (sum / count / 255.0).min(1.0);
            }
            self.of_mut(Computed::Change)[index] = change;
        }
    }

    fn derive_from_depth(&mut self, cells: Option<&[f32]>) {
        let Some(cells) = cells else {
            let derived =
                [Computed::NormalX, Computed::NormalY, Computed::NormalZ, Computed::Occlusion];
            return derived.into_iter().for_each(|channel| self.of_mut(channel).fill(0.0));
        };
        let depth = Depth { cells, grid: self.grid, cell_px: self.cell_px(), extent: self.extent };
        depth.fill(&mut self.computed);
    }

    /// The injected channels, with the time at which each is forgotten.
    pub fn injected(&self) -> impl Iterator<Item = (&Injection, u64)> {
        self.injected.values().map(|injected| (&*injected.given, injected.until_ns))
    }
}

/// Sets the `hidden` cells to 0.
fn clear(cells: &mut [f32], hidden: &[bool]) {
    let hidden = cells.iter_mut().zip(hidden).filter(|(_, is_hidden)| **is_hidden);
    hidden.for_each(|(cell, _)| *cell = 0.0);
}

/// Share of a cell under tokens that are fine enough from which on it counts as seen.
const SIGHT_MIN: f32 = 0.75;

/// An injected map on the cells: its mean over each, where it is 0 outside its box. Of depth, where 0 is unknown, the mean over what the
/// box covers.
fn sampled(given: &Injection, extent: Extent, grid: Extent, cell_px: u32) -> Vec<f32> {
    let (source, region) = (given.grid(), given.region());
    let columns = overlaps((region.x0, region.x1), source.width, extent.width, cell_px);
    let rows = overlaps((region.y0, region.y1), source.height, extent.height, cell_px);
    let covered = |overlaps: &[(usize, f64)]| overlaps.iter().map(|(_, part)| part).sum::<f64>();
    let mut cells = Vec::with_capacity(grid.area());
    for row in &rows {
        for column in &columns {
            let mut sum = 0.0;
            for (y, height) in row {
                for (x, width) in column {
                    let value = given.values()[y * source.width as usize + x];
                    sum += width * height * f64::from(value);
                }
            }
            let is_all = given.name() != DEPTH;
            let share = if is_all { 1.0 } else { covered(row) * covered(column) };
            cells.push(if share == 0.0 { 0.0 } else { (sum / share) as f32 });
        }
    }
    cells
}

/// For each cell of `cell_px` pixels along an axis of `length`: the cells of a map that lie in it, and which part of it each covers. The map has
/// `count` cells between `from` and `to`.
fn overlaps(
    (from, to): (f64, f64),
    count: u32,
    length: u32,
    cell_px: u32,
) -> Vec<Vec<(usize, f64)>> {
    let side = (to - from) / f64::from(count);
    let cell = |start: u32| {
        let (start, end) = (f64::from(start), f64::from((start + cell_px).min(length)));
        let bounded = |place: f64| ((place - from) / side).clamp(0.0, f64::from(count));
        let (first, past) = (bounded(start).floor() as u32, bounded(end).ceil() as u32);
        let part = |index: u32| {
            let (left, right) =
                (from + f64::from(index) * side, from + f64::from(index + 1) * side);
            (index as usize, (right.min(end) - left.max(start)).max(0.0) / (end - start))
        };
        (first..past).map(part).filter(|(_, part)| 0.0 < *part).collect()
    };
    (0..length).step_by(cell_px as usize).map(cell).collect()
}
