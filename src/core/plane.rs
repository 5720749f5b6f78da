//! Planes: the arrays that a view publishes, each with one item per token.

use crate::token::{DType, TokenFormat};

/// Name of the plane of token texels, always the first.
pub const PIXELS: &str = "pixels";

/// Name of the plane of the relevance that the layout used for each token.
pub const RELEVANCE: &str = "relevance";

/// Name, type and shape of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Its name.
    pub name: &'static str,
    /// Axes, one letter each, `N` for tokens first: `NCHW` is token, channel, row, column.
    pub order: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Length of each axis after the first; elements are packed, the last axis varies fastest.
    pub item_shape: Vec<u32>,
}

impl PlaneSpec {
    /// Texels of `format`: `[N, 3, P, P]`.
    pub fn pixels(format: TokenFormat) -> Self {
        let side = format.patch_side;
        Self { name: PIXELS, order: "NCHW", dtype: format.dtype, item_shape: vec![3, side, side] }
    }

    /// Relevance, 1 where all parts of the image matter alike: `[N]`, f32.
    pub fn relevance() -> Self {
        Self { name: RELEVANCE, order: "N", dtype: DType::F32, item_shape: Vec::new() }
    }

    /// Bytes of one item.
    pub fn item_bytes(&self) -> usize {
        let elements: usize = self.item_shape.iter().map(|&side| side as usize).product();
        elements * self.dtype.bytes()
    }
}
