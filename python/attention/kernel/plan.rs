//! The attention plan: sizes, cells and buffers that follow from shapes and settings alone.

/// Most levels of cells.
pub const LEVELS_MAX: usize = 3;

/// Cells of the coarsest level are scored so many at a time.
pub(crate) const PANEL: usize = 16;

/// Children of a cell are scored so many at a time.
pub(crate) const GROUP: usize = 4;

/// No cell: a place that is there to fill a row.
const NONE: u32 = u32::MAX;

/// Extents of the arrays, which are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Batch times heads: each is an attention of its own.
    pub heads: usize,
    /// Queries of a head.
    pub queries: usize,
    /// Rows of the grid of keys.
    pub rows: usize,
    /// Columns of the grid of keys.
    pub columns: usize,
    /// Numbers of a query, and of a key.
    pub width: usize,
    /// Numbers of a value.
    pub value_width: usize,
}

impl Shape {
    /// Keys of a head.
    pub fn keys(&self) -> usize {
        self.rows * self.columns
    }
}

/// How the cells of a level are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellLevel {
    /// Share of the level's cells that is opened at most, above 0 and up to 1.
    pub top: f64,
    /// Added to the scores of its cells. With any other than 0, equal keys no longer give what full attention gives.
    pub bias: f32,
}

/// Settings of a plan: cells, levels and scale.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSettings {
    /// Side of a cell in cells of the level below, at least 2.
    pub coarse: usize,
    /// Level 1, whose cells are made of keys, and those above it; at most [`LEVELS_MAX`].
    pub levels: Vec<CellLevel>,
    /// Factor of all dot products, usually `1 / sqrt(width)`.
    pub scale: f32,
}

/// What an attention of one shape needs to know before it sees numbers.
#[derive(Clone, Debug)]
pub struct AttentionPlan {
    pub(crate) shape: Shape,
    pub(crate) coarse: usize,
    pub(crate) scale: f32,
    /// From the keys, level 0, to the coarsest.
    pub(crate) levels: Vec<LevelCells>,
}

/// The cells of a level, or the keys.
///
/// Those of the coarsest level lie row by row, filled up to whole panels. Those below lie cell by cell of the level above,
/// in its order, and row by row within; each such family is filled up to [`LevelCells::family`] places.
#[derive(Clone, Debug)]
pub(crate) struct LevelCells {
    /// Rows and columns of the level.
    pub(crate) extent: [usize; 2],
    /// How many may be opened; 0 for keys.
    pub(crate) open: usize,
    /// Places for the children of a cell above: a multiple of [`GROUP`]. 0 for the coarsest level.
    pub(crate) family: usize,
    /// The cell at each place, row by row; [`NONE`] for fillers.
    order: Vec<u32>,
    /// Keys in each cell, row by row.
    pub(crate) counts: Vec<f32>,
    /// Bias of each place's score; negative infinity for padding.
    pub(crate) offsets: Vec<f32>,
}

impl LevelCells {
    /// How many cells there are.
    pub(crate) fn count(&self) -> usize {
        self.counts.len()
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.order.len()
    }

    /// The cell at a place, row by row.
    pub(crate) fn cell_at(&self, place: usize) -> Option<usize> {
        let cell = self.order[place];
        (cell != NONE).then_some(cell as usize)
    }

    /// Bias of each cell's score, row by row.
    #[cfg(feature = "vulkan")]
    pub(crate) fn offsets_by_cell(&self) -> Vec<f32> {
        let mut offsets = vec![0.0; self.count()];
        for (place, offset) in self.offsets.iter().enumerate() {
            if let Some(cell) = self.cell_at(place) {
                offsets[cell] = *offset;
            }
        }
        offsets
    }

    /// Index by which ties are broken.
    pub(crate) fn rank(&self, place: usize) -> u32 {
        self.order[place]
    }
}

impl AttentionPlan {
    /// Checks shape and settings.
    ///
    /// # Errors
    ///
    /// If one of them is out of its range, with what was expected.
    pub fn new(shape: Shape, settings: &AttentionSettings) -> Result<Self, String> {
        check(shape, settings)?;
        let extents: Vec<_> = (0..=settings.levels.len())
            .map(|level| {
                let side = settings.coarse.saturating_pow(u32::try_from(level).unwrap_or(u32::MAX));
                [shape.rows.div_ceil(side), shape.columns.div_ceil(side)]
            })
            .collect();
        let mut orders = vec![coarsest_order(extents[extents.len() - 1])];
        for above in (1..extents.len()).rev() {
            let parents = &orders[orders.len() - 1];
            orders.push(order_below(settings.coarse, extents[above], extents[above - 1], parents));
        }
        let levels = extents.iter().zip(orders.into_iter().rev()).enumerate();
        let levels = levels.map(|(level, (extent, order))| {
            let side = settings.coarse.saturating_pow(u32::try_from(level).unwrap_or(u32::MAX));
            let family =
                if level == settings.levels.len() { 0 } else { family(settings.coarse, *extent) };
            let treated = level.checked_sub(1).map(|index| settings.levels[index]);
            cells(shape, *extent, side, family, order, treated)
        });
        let levels = levels.collect();
        Ok(Self { shape, coarse: settings.coarse, scale: settings.scale, levels })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn coarsest(&self) -> &LevelCells {
        &self.levels[self.levels.len() - 1]
    }
}

fn check(shape: Shape, settings: &AttentionSettings) -> Result<(), String> {
    let Shape { rows, columns, width, value_width, .. } = shape;
    let extents =
        [("rows", rows), ("columns", columns), ("width", width), ("value width", value_width)];
    if let Some((name, _)) = extents.into_iter().find(|(_, extent)| *extent == 0) {
        return Err(format!("invalid `{name}`: 0 (expected at least 1)"));
    }
    if rows.checked_mul(columns).is_none_or(|keys| 1 << 28 < keys) {
        return Err(format!("grid too large: {rows} by {columns} keys (expected at most 2^28)"));
    }
    let AttentionSettings { coarse, ref levels, scale } = *settings;
    if coarse < 2 {
        return Err(format!("invalid `coarse`: {coarse} (expected at least 2)"));
    }
    let count = levels.len();
    if !(1..=LEVELS_MAX).contains(&count) {
        return Err(format!("invalid `levels`: {count} (expected 1 to {LEVELS_MAX})"));
    }
    for &CellLevel { top, bias } in levels {
        if !(0.0 < top && top <= 1.0) {
            return Err(format!("invalid `top`: {top} (expected a share above 0 and up to 1)"));
        }
        if !bias.is_finite() {
            return Err(format!("invalid `bias`: {bias} (expected a finite number)"));
        }
    }
    if !scale.is_finite() {
        return Err(format!("invalid `scale`: {scale} (expected a finite number)"));
    }
    Ok(())
}

/// Rows and columns of the cells of a level that make up one of the level above. A level may be smaller than a cell.
fn block(coarse: usize, extent: [usize; 2]) -> [usize; 2] {
    extent.map(|side| side.min(coarse))
}

fn family(coarse: usize, extent: [usize; 2]) -> usize {
    block(coarse, extent).iter().product::<usize>().next_multiple_of(GROUP)
}

fn coarsest_order(extent: [usize; 2]) -> Vec<u32> {
    let count = extent[0] * extent[1];
    let mut order: Vec<_> = (0..index(count)).collect();
    order.resize(count.next_multiple_of(PANEL), NONE);
    order
}

/// The order of a level, given that of the one above, the `parents`.
fn order_below(coarse: usize, above: [usize; 2], extent: [usize; 2], parents: &[u32]) -> Vec<u32> {
    let [rows, columns] = block(coarse, extent);
    let family = family(coarse, extent);
    let mut order = Vec::with_capacity(parents.len() * family);
    for parent in parents {
        let start = order.len();
        if *parent != NONE {
            let parent = *parent as usize;
            let [top, left] = [parent / above[1] * coarse, parent % above[1] * coarse];
            for row in top..(top + rows).min(extent[0]) {
                let cells = row * extent[1]..(row + 1) * extent[1];
                let right = (left + columns).min(extent[1]);
                order.extend((cells.start + left..cells.start + right).map(index));
            }
        }
        order.resize(start + family, NONE);
    }
    order
}

fn cells(
    shape: Shape,
    extent: [usize; 2],
    side: usize,
    family: usize,
    order: Vec<u32>,
    treated: Option<CellLevel>,
) -> LevelCells {
    let mut counts = Vec::with_capacity(extent[0] * extent[1]);
    for row in 0..extent[0] {
        let rows = side.min(shape.rows - row * side);
        counts.extend((0..extent[1]).map(|column| {
            let columns = side.min(shape.columns - column * side);
            (rows * columns) as f32
        }));
    }
    let bias = treated.map_or(0.0, |level| level.bias);
    let offset = |place: &u32| match *place {
        NONE => f32::NEG_INFINITY,
        cell => counts[cell as usize].ln() + bias,
    };
    let offsets = order.iter().map(offset).collect();
    let open = treated.map_or(0, |level| opened(level.top, counts.len()));
    LevelCells { extent, open, family, order, counts, offsets }
}

/// The number of cells that are opened at most.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 1 to the number of cells"
)]
fn opened(top: f64, count: usize) -> usize {
    ((top * count as f64).ceil() as usize).min(count)
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most 2^28 keys")]
fn index(place: usize) -> u32 {
    place as u32
}
