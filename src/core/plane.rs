//! Planes: the arrays that a view publishes. Most have one item per token, others a fixed number of items.

use crate::geometry::extent::Extent;
use crate::geometry::tile::TILE_SIDE;
use crate::token::{DType, TokenFormat};

/// Name of the plane of token texels, always the first.
pub const PIXELS: &str = "pixels";

/// Name of the plane of the relevance that the layout used for each token.
pub const RELEVANCE: &str = "relevance";

/// Name of the plane of channels, on the cells of the picture, that a scorer read.
pub const CHANNELS: &str = "channels";

/// Name of the plane of depth: nearest, mean and share of known depth.
pub const DEPTH: &str = "depth";

/// Name of the plane of boxes in space.
pub const BOXES: &str = "boxes";

/// Name of the plane of the frames that changed the tiles of the picture.
pub const TILES: &str = "tiles";

/// Name, type and shape of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Name of the plane.
    pub name: &'static str,
    /// Axes, one letter each: `NCHW` is token, channel, row, column. The items are tokens if it begins with `N`.
    pub order: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Number of items; `None` if the items are tokens.
    pub count: Option<u32>,
    /// Length of each axis after the first; elements are packed, the last axis varies fastest.
    pub item_shape: Vec<u32>,
}

impl PlaneSpec {
    /// Texels of `format`: `[N, 3, P, P]`.
    pub fn pixels(format: TokenFormat) -> Self {
        let side = format.patch_side;
        Self {
            name: PIXELS,
            order: "NCHW",
            dtype: format.dtype,
            count: None,
            item_shape: vec![3, side, side],
        }
    }

    /// Relevance, 1 where all parts of the image matter equally: `[N]`, f32.
    pub fn relevance() -> Self {
        Self { name: RELEVANCE, order: "N", dtype: DType::F32, count: None, item_shape: Vec::new() }
    }

    /// `count` channels on a grid of cells: `[C, rows, columns]`.
    pub fn channels(dtype: DType, count: u32, grid: Extent) -> Self {
        let item_shape = vec![grid.height, grid.width];
        Self { name: CHANNELS, order: "CHW", dtype, count: Some(count), item_shape }
    }

    /// Depth of each token, f32: `[N, 3]`.
    pub fn depth_of_tokens() -> Self {
        Self { name: DEPTH, order: "NC", dtype: DType::F32, count: None, item_shape: vec![3] }
    }

    /// Depth of each texel of tokens of `side` texels: `[N, 3, P, P]`.
    pub fn depth_of_texels(dtype: DType, side: u32) -> Self {
        Self { name: DEPTH, order: "NCHW", dtype, count: None, item_shape: vec![3, side, side] }
    }

    /// Least x, y, z and greatest x, y, z of each token in the camera's optical frame, in metres, f32: `[N, 6]`.
    pub fn boxes() -> Self {
        Self { name: BOXES, order: "NC", dtype: DType::F32, count: None, item_shape: vec![6] }
    }

    /// The number of a frame for each tile of a source of `extent`: `[rows, columns, 8]`. The number is a u64 as eight bytes, because
    /// readers refuse segments with number formats that they do not know.
    pub fn tiles(extent: Extent) -> Self {
        let grid = extent.in_cells(TILE_SIDE);
        let item_shape = vec![grid.width, 8];
        Self { name: TILES, order: "HWB", dtype: DType::U8, count: Some(grid.height), item_shape }
    }

    /// Whether the items of a plane of this name change only with the texels of their token.
    pub fn follows_texels(name: &str) -> bool {
        matches!(name, PIXELS | RELEVANCE)
    }

    /// Bytes of one item.
    pub fn item_bytes(&self) -> usize {
        let elements: usize = self.item_shape.iter().map(|&side| side as usize).product();
        elements * self.dtype.bytes()
    }
}
