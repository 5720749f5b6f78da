//! Brightness of a coarse level, and windows of it between its texels.

use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;

/// Side of a block in texels.
pub(super) const BLOCK: usize = 4;

/// Texels around a block that count as it does.
const MARGIN: usize = 1;

/// Side of a block with its margins.
pub(super) const SIDE: usize = BLOCK + 2 * MARGIN;

/// Lanes of a row of a window: a whole vector or two. What is in the lanes after [`SIDE`] does not count.
pub(super) const LANES: usize = 8;

/// The texels of a block with its margins, row by row.
pub(super) type Window = [[f32; LANES]; SIDE];

/// Texels behind the last one, so that every row of a window can be read in all lanes, and those right of them.
const PADDING: usize = 2 * LANES;

/// Brightness of each texel, in levels of 256; beyond the edges, that of the nearest one.
#[derive(Clone, Debug)]
pub(super) struct Brightness {
    pub(super) extent: Extent,
    levels: Vec<f32>,
    /// Mean of each block, row by row.
    means: Vec<f32>,
}

impl Brightness {
    pub(super) fn new(extent: Extent) -> Self {
        let blocks = extent.in_cells(BLOCK as u32);
        Self { extent, levels: vec![0.0; extent.area() + PADDING], means: vec![0.0; blocks.area()] }
    }

    pub(super) fn update(&mut self, coarse: &CoarseLevel) {
        for (level, [r, g, b]) in self.levels.iter_mut().zip(&coarse.texels) {
            let sum = u16::from(*r) + 2 * u16::from(*g) + u16::from(*b);
            *level = f32::from(sum) * 0.25;
        }
        self.average();
    }

    /// Makes `texels` black.
    pub(super) fn apply_mask(&mut self, texels: &TileSet) {
        texels.indices().for_each(|index| self.levels[index] = 0.0);
        self.average();
    }

    fn average(&mut self) {
        let columns = self.blocks().width as usize;
        let width = self.extent.width as usize;
        self.means.fill(0.0);
        // Blocks beyond the edges have fewer texels.
        for (y, texels) in self.levels[..self.extent.area()].chunks_exact(width).enumerate() {
            let means = &mut self.means[y / BLOCK * columns..][..columns];
            for (mean, texels) in means.iter_mut().zip(texels.chunks(BLOCK)) {
                *mean += texels.iter().sum::<f32>();
            }
        }
        let side = |block: usize, side: u32| (side as usize - block * BLOCK).min(BLOCK);
        for (index, mean) in self.means.iter_mut().enumerate() {
            let (column, row) = (index % columns, index / columns);
            *mean /= (side(column, self.extent.width) * side(row, self.extent.height)) as f32;
        }
    }

    /// Columns and rows of blocks.
    pub(super) fn blocks(&self) -> Extent {
        self.extent.in_cells(BLOCK as u32)
    }

    pub(super) fn means(&self) -> &[f32] {
        &self.means
    }

    pub(super) fn levels(&self) -> &[f32] {
        &self.levels[..self.extent.area()]
    }

    fn clamped(&self, x: isize, y: isize) -> (usize, usize) {
        let inside = |at: isize, side: u32| at.clamp(0, side as isize - 1).unsigned_abs();
        (inside(x, self.extent.width), inside(y, self.extent.height))
    }

    fn at(&self, x: isize, y: isize) -> f32 {
        let (x, y) = self.clamped(x, y);
        self.levels[y * self.extent.width as usize + x]
    }

    /// Whether the window at a block, and the texels around that, are the same as in another picture.
    pub(super) fn is_same_at(&self, other: &Self, column: usize, row: usize) -> bool {
        let reach = (MARGIN + 1) as isize;
        let span = |block: usize, side: u32| {
            let first = (block * BLOCK) as isize;
            let inside = |at: isize| at.clamp(0, side as isize).unsigned_abs();
            inside(first - reach)..inside(first + BLOCK as isize + reach)
        };
        let columns = span(column, self.extent.width);
        span(row, self.extent.height).all(|y| {
            let start = y * self.extent.width as usize;
            let texels = start + columns.start..start + columns.end;
            self.levels[texels.clone()] == other.levels[texels]
        })
    }

    /// `N` x `N` texels, the first of them displaced from that of the window at a block by whole texels, in rows of `WIDE` of which the
    /// others do not count.
    #[inline(always)]
    pub(super) fn patch<const N: usize, const WIDE: usize>(
        &self,
        (column, row): (usize, usize),
        (dx, dy): (isize, isize),
    ) -> [[f32; WIDE]; N] {
        let left = (column * BLOCK) as isize - MARGIN as isize + dx;
        let top = (row * BLOCK) as isize - MARGIN as isize + dy;
        let (width, height) = (self.extent.width as usize, self.extent.height as usize);
        let is_inside =
            |first: isize, side: usize| 0 <= first && first + N as isize <= side as isize;
        let mut patch = [[0.0; WIDE]; N];
        if is_inside(left, width) && is_inside(top, height) {
            let first = top.unsigned_abs() * width + left.unsigned_abs();
            for (y, texels) in patch.iter_mut().enumerate() {
                texels.copy_from_slice(&self.levels[first + y * width..][..WIDE]);
            }
            return patch;
        }
        for (y, texels) in patch.iter_mut().enumerate() {
            for (x, texel) in texels[..N].iter_mut().enumerate() {
                *texel = self.at(left + x as isize, top + y as isize);
            }
        }
        patch
    }

    /// The window at a block, displaced by (`dx`, `dy`) texels; between texels, by bilinear interpolation.
    pub(super) fn window(&self, block: (usize, usize), (dx, dy): (f32, f32)) -> Window {
        let ((whole_x, part_x), (whole_y, part_y)) = (split(dx), split(dy));
        let texels = self.patch::<{ SIDE + 1 }, { LANES + 1 }>(block, (whole_x, whole_y));
        let mut across = [[0.0; LANES]; SIDE + 1];
        for (across, texels) in across.iter_mut().zip(&texels) {
            for x in 0..LANES {
                across[x] = texels[x] + part_x * (texels[x + 1] - texels[x]);
            }
        }
        let mut window = [[0.0; LANES]; SIDE];
        for y in 0..SIDE {
            for x in 0..LANES {
                window[y][x] = across[y][x] + part_y * (across[y + 1][x] - across[y][x]);
            }
        }
        window
    }

    /// The window at a block, and its gradients along x and along y, in levels a texel.
    pub(super) fn with_gradients(&self, block: (usize, usize)) -> [Window; 3] {
        let texels = self.patch::<{ SIDE + 2 }, { LANES + 2 }>(block, (-1, -1));
        let [mut window, mut across, mut down] = [[[0.0; LANES]; SIDE]; 3];
        for y in 0..SIDE {
            let [above, here, below] = [&texels[y], &texels[y + 1], &texels[y + 2]];
            for x in 0..LANES {
                window[y][x] = here[x + 1];
                across[y][x] = 0.5 * (here[x + 2] - here[x]);
                down[y][x] = 0.5 * (below[x + 1] - above[x + 1]);
            }
        }
        [window, across, down]
    }
}

/// The whole number below a shift, and what is left. Not by `floor`, which older x86-64 has no instruction for.
#[expect(clippy::cast_possible_truncation, reason = "a shift within a coarse level")]
#[inline(always)]
fn split(shift: f32) -> (isize, f32) {
    let toward_0 = shift as i32;
    let whole = toward_0 - i32::from(shift < toward_0 as f32);
    (whole as isize, shift - whole as f32)
}
