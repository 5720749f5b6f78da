//! Push constants that describe a plan to the shaders, and the layout of a query's numbers.
//!
//! Device side: `plan.glsl`, `attend.glsl`

use bytemuck::{Pod, Zeroable};

use crate::plan::{AttentionPlan, LEVELS_MAX};

/// Numbers of a word, of which keys and values consist.
pub(super) const WORD: usize = 4;

/// The cells of a level. Public, like all types shared with shaders, for the tests that compare layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LevelRecord {
    /// Rows of cells.
    pub rows: u32,
    /// Columns of cells.
    pub columns: u32,
    /// Side of a cell in keys; at most that of the grid.
    pub side: u32,
    /// The first one among the cells of all levels.
    pub first_cell: u32,
    /// How many may be opened; 0 for keys.
    pub open: u32,
    /// Rows of the cells that one of the level above is made of.
    pub family_rows: u32,
    /// Columns of these.
    pub family_columns: u32,
    /// Where the scores of the level begin in the row of a query.
    pub first_score: u32,
    /// Where the list of opened cells begins in the row of a query.
    pub first_opened: u32,
}

/// Push constants of the pass that makes means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct MeansPush {
    /// Heads that are held at the same time.
    pub heads: u32,
    /// Levels, with the keys.
    pub level_count: u32,
    /// Cells of all levels.
    pub cells: u32,
    /// Numbers of a vector.
    pub width: u32,
}

/// Push constants of the passes of a piece: some queries of each of some heads.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct AttendPush {
    /// Heads of the piece.
    pub heads: u32,
    /// Queries of a head.
    pub queries: u32,
    /// Levels, with the keys.
    pub level_count: u32,
    /// Cells of all levels.
    pub cells: u32,
    /// Words of a key.
    pub width: u32,
    /// Numbers of a value.
    pub value_width: u32,
    /// Side of a cell in cells of the level below.
    pub coarse: u32,
    /// Words of a query's row.
    pub row_words: u32,
    /// Where the sum of a query's weights, and how many cells it opened of each level from 1, lie in its row.
    pub first_record: u32,
    /// Factor of the dot products.
    pub scale: f32,
}

/// A plan as the shaders see it.
#[derive(Debug)]
pub(super) struct PlanRecords {
    levels: [LevelRecord; LEVELS_MAX + 1],
    /// Of the cells from level 1: `ln(keys) + bias`.
    offsets: Vec<f32>,
    level_count: usize,
    /// Cells of all levels.
    pub(super) cells: usize,
    /// 32-bit words of a query's row: scores, then opened cells, then its record.
    pub(super) row_words: usize,
    first_record: usize,
}

impl PlanRecords {
    pub(super) fn new(plan: &AttentionPlan) -> Self {
        let mut levels = [LevelRecord::default(); LEVELS_MAX + 1];
        let mut offsets = Vec::new();
        let (mut cells, mut row_words) = (0, 0);
        let longest = plan.shape.rows.max(plan.shape.columns);
        let mut side = 1_usize;
        for (level, (record, at)) in levels.iter_mut().zip(&plan.levels).enumerate() {
            let family = at.extent.map(|side| side.min(plan.coarse));
            let above = plan.levels.get(level + 1);
            let places =
                above.map_or(at.count(), |above| above.open * family.iter().product::<usize>());
            *record = LevelRecord {
                rows: count(at.extent[0]),
                columns: count(at.extent[1]),
                side: count(side.min(longest)),
                first_cell: count(cells),
                open: count(at.open),
                family_rows: count(family[0]),
                family_columns: count(family[1]),
                first_score: count(row_words),
                first_opened: count(row_words + places),
            };
            if 0 < level {
                offsets.extend(at.offsets_by_cell());
            }
            cells += at.count();
            row_words += places + at.open;
            side = side.saturating_mul(plan.coarse);
        }
        let (level_count, first_record) = (plan.levels.len(), row_words);
        Self {
            levels,
            offsets,
            level_count,
            cells,
            row_words: row_words + level_count,
            first_record,
        }
    }

    /// Levels and offsets as the shaders read them.
    pub(super) fn bytes(&self) -> [&[u8]; 2] {
        [bytemuck::bytes_of(&self.levels), bytemuck::cast_slice(&self.offsets)]
    }

    /// What the pass makes means of, vectors of `width` numbers.
    pub(super) fn means(&self, heads: usize, width: usize) -> MeansPush {
        MeansPush {
            heads: count(heads),
            level_count: count(self.level_count),
            cells: count(self.cells),
            width: count(width),
        }
    }

    /// What the passes of a piece work on.
    pub(super) fn piece(&self, plan: &AttentionPlan, heads: usize, queries: usize) -> AttendPush {
        AttendPush {
            heads: count(heads),
            queries: count(queries),
            level_count: count(self.level_count),
            cells: count(self.cells),
            width: count(plan.shape.width.div_ceil(WORD)),
            value_width: count(plan.shape.value_width),
            coarse: count(plan.coarse),
            row_words: count(self.row_words),
            first_record: count(self.first_record),
            scale: plan.scale,
        }
    }
}

/// A count as a shader's 32-bit number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most 2^28 keys have fewer than 2^32 cells, and buffers of more words exceed every device's limit"
)]
pub(super) fn count(entries: usize) -> u32 {
    entries as u32
}
