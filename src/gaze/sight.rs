//! What a view has been shown of the picture: the more finely and the more recently a block was shown, the less it is needed.

use super::need::Need;
use crate::detail::{BLOCK_SIDE, Detail, TILE_BLOCKS};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;

/// All of a block, in parts.
const WHOLE: u32 = 1 << 16;

/// Time constants in seconds with which what is known of a block is forgotten: of a block that has changed since it was shown, so that
/// things that move are looked at again after a few saccades, and of any other.
const CHANGED_S: f64 = 3.0;
const SAME_S: f64 = 10.0;

/// What a view of a layout that follows fixations knows of each block of 16x16 source pixels.
#[derive(Clone, Debug)]
pub struct Sight {
    extent: Extent,
    /// Columns and rows of blocks.
    grid: Extent,
    /// The level whose loss is what there is to see.
    base: u32,
    /// How much of each block the view knows, in parts of [`WHOLE`].
    known: Vec<u32>,
    /// Whether each block has changed since it was shown.
    is_changed: Vec<bool>,
    /// What each block lost at the base when it was shown.
    shown_losses: Vec<u32>,
    need: Need,
    at: FrameTime,
}

impl Sight {
    /// A view that knows nothing yet of pictures of `extent`. What the pictures lose at level `base` is what there is to see.
    pub fn new(extent: Extent, base: u32) -> Self {
        let grid = extent.in_cells(BLOCK_SIDE);
        Self {
            extent,
            grid,
            base,
            known: vec![0; grid.area()],
            is_changed: vec![false; grid.area()],
            shown_losses: vec![0; grid.area()],
            need: Need::none(extent),
            at: FrameTime { frame_seq: 0, time_ns: 0 },
        }
    }

    /// The level whose loss is what there is to see.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// What the view needs after the newest frame that was noted.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Forgets what the view was shown.
    pub fn reset(&mut self) {
        self.known.fill(0);
    }

    /// Masks cover `texels` of the coarse level: forgets what was seen there, and that it was.
    pub fn apply_mask(&mut self, texels: &TileSet) {
        let shape = PyramidShape::new(self.extent);
        let level = CoarseLevel::level_of(shape);
        if texels.grid() != shape.level_extent(level) {
            // Of a picture of another extent.
            return self.reset();
        }
        let texel_side = 1 << level;
        let blocks_of = |texel: u32, count: u32| {
            let start = texel * texel_side / BLOCK_SIDE;
            start..((texel + 1) * texel_side).div_ceil(BLOCK_SIDE).min(count)
        };
        for (column, row) in texels.iter() {
            for row in blocks_of(row, self.grid.height) {
                for column in blocks_of(column, self.grid.width) {
                    self.known[(row * self.grid.width + column) as usize] = 0;
                }
            }
        }
    }

    /// Notes the frame of `at`, whose `detail` is up to date, and which was shown by `plan`. Of each tile, row by row, `changed_frame` is
    /// the newest frame that changed it.
    ///
    /// # Panics
    ///
    /// If `detail` has fewer levels than the base.
    pub fn note(
        &mut self,
        detail: &Detail,
        changed_frame: &[u64],
        at: FrameTime,
        plan: &TokenPlan,
    ) {
        if self.base == 0 {
            return;
        }
        let losses = detail.losses(self.base).expect("all levels up to the base");
        self.forget(changed_frame, at);
        self.show(plan, losses);
        let blocks = losses.iter().zip(&self.known).zip(&self.shown_losses);
        self.need.fill(blocks.map(|((loss, known), shown)| {
            // A new thing in a block has more detail or less than what was shown there; the same thing that moved has as much.
            let likeness = *loss.min(shown) as f32 / (*loss.max(shown)).max(1) as f32;
            *loss as f32 * (1.0 - likeness * *known as f32 / WHOLE as f32)
        }));
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a whole")]
    fn forget(&mut self, changed_frame: &[u64], at: FrameTime) {
        let before = std::mem::replace(&mut self.at, at);
        let passed_s = at.time_ns.saturating_sub(before.time_ns) as f64 * 1e-9;
        let [same, changed] = [SAME_S, CHANGED_S]
            .map(|constant| (f64::from(WHOLE) * (-passed_s / constant).exp()) as u64);
        let width = self.grid.width as usize;
        let columns = width.div_ceil(TILE_BLOCKS as usize);
        for (index, (known, is_changed)) in
            self.known.iter_mut().zip(&mut self.is_changed).enumerate()
        {
            let (column, row) = (index % width, index / width);
            let tile = row / TILE_BLOCKS as usize * columns + column / TILE_BLOCKS as usize;
            *is_changed |= before.frame_seq < changed_frame[tile];
            let left = if *is_changed { changed } else { same };
            *known = (u64::from(*known) * left / u64::from(WHOLE)) as u32;
        }
    }

    fn show(&mut self, plan: &TokenPlan, losses: &[u32]) {
        let width = self.grid.width as usize;
        for token in &plan.tokens {
            let lies = token.pixel_box(self.extent, plan.patch_side);
            let step = u32::from(token.sx.max(token.sy));
            // A texel of one pixel shows all of the block; one of the base, none of what it loses.
            let level = step.max(1).ilog2().min(self.base);
            let shown = WHOLE * (self.base - level) / self.base.max(1);
            for row in lies.y0.div_ceil(BLOCK_SIDE)..lies.y1.div_ceil(BLOCK_SIDE) {
                for column in lies.x0.div_ceil(BLOCK_SIDE)..lies.x1.div_ceil(BLOCK_SIDE) {
                    let index = row as usize * width + column as usize;
                    if self.known[index] <= shown {
                        self.known[index] = shown;
                        self.is_changed[index] = false;
                        self.shown_losses[index] = losses[index];
                    }
                }
            }
        }
    }
}
