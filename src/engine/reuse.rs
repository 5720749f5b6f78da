//! Which tokens of a view keep the texels that they were last published with.
//!
//! A token keeps them, and its `changed_frame`, while none of them has moved by more than the threshold of change detection since
//! then. Texels are compared before they are normalised, where the backends sample. Each backend remembers them in rows, two for each
//! token of the largest plan: those of the plan, and those of the plan before, in which tokens that kept their place are found.

use std::ops::Range;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::{TILE_SIDE, tiles_under};

use crate::planes::SamplerSpec;

/// The comparison of a token with what it was last published with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// The row of the texels that it was last published with; `None` if it has not been published, or nobody remembers.
    pub(crate) row: Option<u32>,
    /// The most by which each may differ.
    pub(crate) tolerance: u8,
}

/// What is known of the tokens of a view for [`Comparison`]s.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Whether tokens are compared at all.
    is_on: bool,
    capacity: u32,
    /// Columns of the tile grid.
    grid_width: usize,
    /// Of the newest frame.
    threshold: u8,
    /// The tiles that were refreshed in the newest frame.
    refreshed: Range<usize>,
    /// Whether a tile was refreshed while the view sampled nothing.
    missed_refresh: bool,
    /// The first row of the plan's tokens.
    first_row: u32,
    /// A comparison for each token.
    comparisons: Vec<Comparison>,
    /// For each token, the most by which one of its texels has moved since it was last published.
    pub(crate) moved: Vec<u8>,
}

impl Reuse {
    /// Nothing is known yet.
    pub(crate) fn new(SamplerSpec { capacity, keeps, .. }: SamplerSpec) -> Self {
        let room = if keeps { capacity } else { 0 };
        Self {
            is_on: keeps,
            #[expect(clippy::cast_possible_truncation, reason = "a plan has at most 65536 tokens")]
            capacity: capacity as u32,
            grid_width: 0,
            threshold: 0,
            refreshed: 0..0,
            missed_refresh: false,
            first_row: 0,
            comparisons: Vec::with_capacity(room),
            moved: Vec::with_capacity(room),
        }
    }

    /// Forgets what tokens were published with: all are published anew.
    pub(crate) fn forget(&mut self) {
        self.comparisons.iter_mut().for_each(|comparison| comparison.row = None);
        self.moved.fill(0);
    }

    /// Follows a new plan over a source of `extent`. `rows` gives for each token the row that it has had, if the frame before had it;
    /// rows of that frame are not overwritten if `is_next`, the first plan since then.
    pub(crate) fn set_plan(
        &mut self,
        extent: Extent,
        is_next: bool,
        rows: impl Iterator<Item = Option<u32>>,
    ) {
        if !self.is_on {
            return;
        }
        if is_next {
            self.first_row = self.capacity - self.first_row;
        }
        self.grid_width = extent.in_cells(TILE_SIDE).width as usize;
        self.comparisons.clear();
        self.comparisons.extend(rows.map(|row| Comparison { row, tolerance: 0 }));
        self.moved.clear();
        self.moved.resize(self.comparisons.len(), 0);
    }

    /// Whether tokens are compared.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The row of the texels that token `index` was last published with, if they are remembered.
    pub(crate) fn published_row(&self, index: usize) -> Option<u32> {
        self.comparisons.get(index)?.row
    }

    /// The row in which texels of token `index` are remembered for later.
    pub(crate) fn row(&self, index: usize) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a plan has at most 65536 tokens")]
        let index = index as u32;
        self.first_row + index
    }

    /// The first of these rows.
    pub(crate) fn first_row(&self) -> u32 {
        self.first_row
    }

    /// Takes the rule of the next frame. Returns whether a token has moved by more than it allows.
    pub(crate) fn follow(&mut self, rule: &IngestRule) -> bool {
        self.threshold = rule.threshold;
        self.refreshed.clone_from(&rule.refreshed);
        self.moved.iter().any(|moved| self.threshold < *moved)
    }

    /// Notes that this update samples nothing.
    pub(crate) fn rest(&mut self) {
        self.missed_refresh |= !self.refreshed.is_empty();
    }

    /// Says how tokens that are read from `boxes` are compared in this update. Those over a tile that is refreshed keep their texels
    /// only if they are the same.
    pub(crate) fn prepare(&mut self, boxes: &[PixelBox]) {
        if !self.is_on {
            return;
        }
        let misses = std::mem::take(&mut self.missed_refresh);
        for (comparison, region) in self.comparisons.iter_mut().zip(boxes) {
            let is_exact = misses || covers(&self.refreshed, *region, self.grid_width);
            comparison.tolerance = if is_exact { 0 } else { self.threshold };
        }
    }

    /// The comparison of each token in this update; empty if none is compared.
    #[cfg(feature = "vulkan")]
    pub(crate) fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }

    /// The same, and where the most is noted by which a texel of each has moved: 0 where nothing is compared.
    pub(crate) fn comparisons_mut(&mut self) -> (&[Comparison], &mut [u8]) {
        (&self.comparisons, &mut self.moved)
    }

    /// Ends the comparison of token `index`, which was sampled. Returns whether it keeps the texels and the `changed_frame` that it was
    /// last published with.
    pub(crate) fn settle(&mut self, index: usize) -> bool {
        let row = self.is_on.then(|| self.row(index));
        let Some(comparison) = self.comparisons.get_mut(index) else { return false };
        let moved = &mut self.moved[index];
        let is_kept = comparison.row.is_some() && *moved <= comparison.tolerance;
        if !is_kept {
            *moved = 0;
        }
        comparison.row = row;
        is_kept
    }
}

/// Whether one of `tiles`, numbered row by row in a grid of `width` columns, lies under `region`.
fn covers(tiles: &Range<usize>, region: PixelBox, width: usize) -> bool {
    let columns = tiles_under(region.x0, region.x1);
    !tiles.is_empty()
        && tiles_under(region.y0, region.y1).any(|row| {
            let first = row as usize * width;
            tiles.start < first + columns.end as usize
                && first + (columns.start as usize) < tiles.end
        })
}
