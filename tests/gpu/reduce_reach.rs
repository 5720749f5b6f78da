//! The pass that builds the tail touches only what lies above dirty tiles: those texels are exact, the others keep
//! whatever they hold. Through a backend one could not tell, as a rebuilt texel has the same bytes.

use std::sync::Arc;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT, rounded_mean};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_engine::backend::vulkan::shaders::REDUCE;
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, Lane,
};
use testkit::device::with_gpu;
use testkit::naive::Random;

/// No texel has these bytes: the shader sets the highest to 0xFF.
const UNTOUCHED: u32 = 0x1234_5678;

#[test]
fn only_the_tail_above_dirty_tiles_is_written() {
    with_gpu(|gpu| {
        let mut random = Random(1);
        // Levels whose sizes are not multiples of 32 texels, odd sizes, one column, and the most tiles in a row.
        for (width, height) in
            [(1920, 1080), (1001, 700), (5, 5000), (Extent::SIDE_MAX, 33), (4096, 4096)]
        {
            let shape = PyramidShape::new(Extent::new(width, height));
            let mut tail = Tail::new(gpu, shape, &mut random);
            let all: Vec<_> = tail.tiles().collect();
            tail.reduce(gpu, &all);
            for tile_count in [0, 1, 7] {
                let dirty: Vec<_> = (0..tile_count)
                    .map(|_| all[random.below(u32::try_from(all.len()).unwrap()) as usize])
                    .collect();
                tail.check(gpu, &dirty, &mut random);
            }
        }
    });
}

/// Push constants of the pass: columns and rows of the tile grid, levels of the tail, and the sums of a layer.
type Push = [u32; 4];

/// Column, row and layer of a tile, as the pass reads them.
type Tile = [u32; 3];

/// What the pass works on, without a backend around it.
struct Tail {
    shape: PyramidShape,
    /// The tile grid, then level after level: R, G, B and the number of pixels.
    sums: Buffer,
    texels: Buffer,
    pass: ComputePass,
}

impl Tail {
    /// Random sums of whole tiles.
    fn new(gpu: &Arc<Gpu>, shape: PyramidShape, random: &mut Random) -> Self {
        let entries = (TILE_LEVEL_COUNT - 1..shape.level_count())
            .map(|level| shape.level_extent(level).area())
            .sum::<usize>();
        let desc = ComputePassDesc {
            name: "reduce",
            shader: REDUCE,
            bindings: &[BindingKind::Buffer; 3],
            constants: &[],
            push_bytes: size_of::<Push>(),
        };
        let mut tail = Self {
            shape,
            sums: Buffer::new(gpu, "sums", BufferKind::Readback, entries * 16).unwrap(),
            texels: Buffer::new(gpu, "texels", BufferKind::Readback, entries * 4).unwrap(),
            pass: ComputePass::new(gpu, &desc).unwrap(),
        };
        let tiles: Vec<_> = tail.tiles().collect();
        tail.change(&tiles, random);
        tail
    }

    fn grid(&self) -> Extent {
        self.shape.level_extent(TILE_LEVEL_COUNT - 1)
    }

    fn tiles(&self) -> impl Iterator<Item = Tile> + use<> {
        let Extent { width, height } = self.grid();
        (0..height).flat_map(move |row| (0..width).map(move |column| [column, row, 0]))
    }

    fn change(&mut self, tiles: &[Tile], random: &mut Random) {
        let width = self.grid().width;
        let sums = self.sums.mapped::<[u32; 4]>();
        let pixels = TILE_SIDE * TILE_SIDE;
        for [column, row, _] in tiles {
            let [r, g, b] = [(); 3].map(|()| random.below(255 * pixels + 1));
            sums[(row * width + column) as usize] = [r, g, b, pixels];
        }
    }

    /// Runs the pass for `dirty`.
    fn reduce(&self, gpu: &Arc<Gpu>, dirty: &[Tile]) {
        let count = u32::try_from(dirty.len()).unwrap();
        // Workgroups, which the pass does not read, and the count.
        let list = [&[0, 0, 0, count], dirty.as_flattened()].concat();
        let list_bytes = size_of_val(&list[..]);
        let mut tiles = Buffer::new(gpu, "tiles", BufferKind::HostWritten, list_bytes + 8).unwrap();
        tiles.mapped()[..list.len()].copy_from_slice(&list);
        let Extent { width, height } = self.grid();
        let tail_level_count = self.shape.level_count() - TILE_LEVEL_COUNT;
        let push: Push = [width, height, tail_level_count, 0];
        let bindings =
            [Binding::Update(&self.sums), Binding::Write(&self.texels), Binding::Read(&tiles)];
        let mut lane = Lane::new(gpu, "reduce", 1).unwrap();
        lane.run(|recorder| recorder.dispatch(&self.pass, &bindings, &push, 1)).unwrap();
    }

    /// Changes the sums of `dirty`, runs the pass, and looks at every texel of the tail.
    fn check(&mut self, gpu: &Arc<Gpu>, dirty: &[Tile], random: &mut Random) {
        self.change(dirty, random);
        self.texels.mapped::<u32>().fill(UNTOUCHED);
        self.reduce(gpu, dirty);
        let texels = self.texels.mapped::<u32>();
        let sums = self.sums.mapped::<[u32; 4]>();
        let mut offset = self.shape.level_extent(TILE_LEVEL_COUNT - 1).area();
        assert!(texels[..offset].iter().all(|texel| *texel == UNTOUCHED));
        for level in TILE_LEVEL_COUNT..self.shape.level_count() {
            let extent = self.shape.level_extent(level);
            let shift = level - (TILE_LEVEL_COUNT - 1);
            for y in 0..extent.height {
                for x in 0..extent.width {
                    let is_reached = dirty
                        .iter()
                        .any(|[column, row, _]| column >> shift == x && row >> shift == y);
                    let expected =
                        if is_reached { mean(self.shape, sums, level, x, y) } else { UNTOUCHED };
                    let at = offset + (y * extent.width + x) as usize;
                    assert_eq!(texels[at], expected, "{extent} texels of level {level}: {x}, {y}");
                }
            }
            offset += extent.area();
        }
    }
}

/// The texel (`x`, `y`) of a level, from the sums of all the tiles below.
fn mean(shape: PyramidShape, sums: &[[u32; 4]], level: u32, x: u32, y: u32) -> u32 {
    let grid = shape.level_extent(TILE_LEVEL_COUNT - 1);
    let side = 1 << (level - (TILE_LEVEL_COUNT - 1));
    let mut total = [0; 4];
    for row in y * side..((y + 1) * side).min(grid.height) {
        for column in x * side..((x + 1) * side).min(grid.width) {
            let sum = sums[(row * grid.width + column) as usize];
            total = std::array::from_fn(|part| total[part] + sum[part]);
        }
    }
    let [r, g, b] = [0, 1, 2].map(|part| rounded_mean(total[part], total[3]));
    u32::from_le_bytes([r, g, b, 0xFF])
}
