//! Which tokens of a view keep the texels that they were last published with.
//!
//! A token keeps them, and its `changed_frame`, while none of them has moved by more than the threshold of change detection since
//! then. Texels are compared before they are normalised, where the backends sample; one without a real pixel stands for the nearest
//! that has one. Each backend remembers them in rows, two for each token of the largest plan: those of the plan, and those of the plan
//! before, in which tokens that kept their place are found.

use std::ops::Range;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::{TILE_SIDE, tiles_under};

use crate::planes::SamplerSpec;

/// The published texels that the tokens of a view are compared with, so that tokens that hardly changed are kept.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Whether tokens are compared at all.
    is_on: bool,
    capacity: u32,
    /// Columns of the tile grid.
    grid_width: usize,
    /// The most by which a texel of a kept token may differ in the newest frame from the published one.
    threshold: u8,
    /// The first row of the plan's tokens.
    first_row: u32,
    /// For each token, the row of the texels that it was last published with; `None` if it has not been published, is to be published
    /// again, or the change is unknown.
    rows: Vec<Option<u32>>,
    /// For each token, the most by which one of its texels has moved since it was last published.
    pub(crate) moved: Vec<u8>,
}

impl Reuse {
    /// An empty memory: every token is sampled at first.
    pub(crate) fn new(SamplerSpec { capacity, keeps_unchanged, .. }: SamplerSpec) -> Self {
        let room = if keeps_unchanged { capacity } else { 0 };
        Self {
            is_on: keeps_unchanged,
            #[expect(clippy::cast_possible_truncation, reason = "a plan has at most 65536 tokens")]
            capacity: capacity as u32,
            grid_width: 0,
            threshold: 0,
            first_row: 0,
            rows: Vec::with_capacity(room),
            moved: Vec::with_capacity(room),
        }
    }

    /// Forgets published tokens: all are published again.
    pub(crate) fn forget(&mut self) {
        self.rows.fill(None);
        self.moved.fill(0);
    }

    /// Follows a new plan over a source of `extent`. `rows` gives for each token its row in the frame before, if that frame had it. If
    /// `is_next`, this is the first plan since that frame, and the frame's rows are not overwritten.
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
        self.rows.clear();
        self.rows.extend(rows);
        self.moved.clear();
        self.moved.resize(self.rows.len(), 0);
    }

    /// Whether tokens are compared.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The row of the texels that token `index` was last published with, if they are remembered.
    pub(crate) fn published_row(&self, index: usize) -> Option<u32> {
        *self.rows.get(index)?
    }

    /// The row in which texels of token `index` are remembered for later.
    pub(crate) fn row(&self, index: usize) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a plan has at most 65536 tokens")]
        let index = index as u32;
        self.first_row + index
    }

    /// The row in which texels of the plan's first token are remembered.
    pub(crate) fn first_row(&self) -> u32 {
        self.first_row
    }

    /// Takes the rule of the next frame, by which tokens are read from `boxes`. Tokens over a refreshed tile are published again.
    /// Returns whether a token has moved by more than the rule allows.
    pub(crate) fn follow(&mut self, rule: &IngestRule, boxes: &[PixelBox]) -> bool {
        self.threshold = rule.threshold;
        for (row, region) in self.rows.iter_mut().zip(boxes) {
            row.take_if(|_| covers(&rule.refreshed, *region, self.grid_width));
        }
        self.moved.iter().any(|moved| self.threshold < *moved)
    }

    /// The most by which a texel of a kept token may have moved.
    pub(crate) fn threshold(&self) -> u8 {
        self.threshold
    }

    /// For each token, the row of the texels that it is compared with; empty if none is compared.
    #[cfg(feature = "vulkan")]
    pub(crate) fn rows(&self) -> &[Option<u32>] {
        &self.rows
    }

    /// For each token, the row as in `rows`, and the place to note the most by which one of its texels has moved: 0 where nothing is
    /// compared.
    pub(crate) fn rows_mut(&mut self) -> (&[Option<u32>], &mut [u8]) {
        (&self.rows, &mut self.moved)
    }

    /// Ends the comparison of token `index`, which was sampled. Returns whether it keeps the texels and the `changed_frame` that it was
    /// last published with.
    pub(crate) fn settle(&mut self, index: usize) -> bool {
        let row = self.is_on.then(|| self.row(index));
        let Some(before) = self.rows.get_mut(index) else { return false };
        let moved = &mut self.moved[index];
        let is_kept = std::mem::replace(before, row).is_some() && *moved <= self.threshold;
        if !is_kept {
            *moved = 0;
        }
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
