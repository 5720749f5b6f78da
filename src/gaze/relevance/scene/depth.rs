//! Normals of surfaces and occlusion edges, from depth.

use foveate_core::channel::Computed;
use foveate_core::geometry::extent::Extent;

/// Depth of each cell, in any unit, measured along the optical axis; 0 or less is unknown.
pub(super) struct Depth<'a> {
    pub(super) cells: &'a [f32],
    pub(super) grid: Extent,
    pub(super) cell_px: u32,
    pub(super) extent: Extent,
}

impl Depth<'_> {
    /// Fills the channels derived from depth; 0 where it is unknown.
    #[expect(clippy::needless_range_loop, reason = "the index of a cell in several channels")]
    pub(super) fn fill(&self, channels: &mut [Vec<f32>]) {
        for index in 0..self.grid.area() {
            let [x, y, z] = self.normal(index).unwrap_or([0.0; 3]);
            channels[Computed::NormalX as usize][index] = x;
            channels[Computed::NormalY as usize][index] = y;
            channels[Computed::NormalZ as usize][index] = z;
            channels[Computed::Occlusion as usize][index] = self.occlusion(index);
        }
    }

    fn depth(&self, index: Option<usize>) -> Option<f32> {
        index.map(|index| self.cells[index]).filter(|depth| 0.0 < *depth)
    }

    /// The cells before and after one, along x and along y.
    fn neighbours(&self, index: usize) -> [[Option<usize>; 2]; 2] {
        let width = self.grid.width as usize;
        let column = index % width;
        [
            [(0 < column).then(|| index - 1), (column + 1 < width).then_some(index + 1)],
            [
                index.checked_sub(width),
                Some(index + width).filter(|below| *below < self.cells.len()),
            ],
        ]
    }

    /// The point in space of a cell, of a pinhole camera whose focal length is the picture's longer side.
    fn point(&self, index: usize) -> Option<[f32; 3]> {
        let z = self.depth(Some(index))?;
        let width = self.grid.width as usize;
        let focal = self.extent.longer_side() as f32;
        let ray = |cell: usize, side: u32| {
            ((cell as f32 + 0.5) * self.cell_px as f32 - side as f32 / 2.0) / focal
        };
        let (x, y) =
            (ray(index % width, self.extent.width), ray(index / width, self.extent.height));
        Some([x * z, y * z, z])
    }

    /// The unit normal towards the camera; its third part is positive for a surface that faces it.
    fn normal(&self, index: usize) -> Option<[f32; 3]> {
        let here = self.point(index)?;
        let tangent = |[before, after]: [Option<usize>; 2]| {
            let before = before.and_then(|index| self.point(index)).unwrap_or(here);
            let after = after.and_then(|index| self.point(index)).unwrap_or(here);
            [after[0] - before[0], after[1] - before[1], after[2] - before[2]]
        };
        let [along, down] = self.neighbours(index).map(tangent);
        // down x along points towards the camera, against z.
        let cross = [
            down[1] * along[2] - down[2] * along[1],
            down[2] * along[0] - down[0] * along[2],
            down[0] * along[1] - down[1] * along[0],
        ];
        let length = (cross[0] * cross[0] + cross[1] * cross[1] + cross[2] * cross[2]).sqrt();
        (0.0 < length)
            .then(|| [cross[0] / length, cross[1] / length, (-cross[2] / length).max(0.0)])
    }

    fn occlusion(&self, index: usize) -> f32 {
        let Some(here) = self.depth(Some(index)) else { return 0.0 };
        let bend =
            |[before, after]: [Option<usize>; 2]| match (self.depth(before), self.depth(after)) {
                (Some(before), Some(after)) => (before - 2.0 * here + after).abs() / here,
                _ => 0.0,
            };
        self.neighbours(index).map(bend).into_iter().fold(0.0, f32::max).min(1.0)
    }
}
