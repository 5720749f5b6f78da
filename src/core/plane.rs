//! Planes: the arrays that a view publishes, each with one item for each token.

use crate::token::{DType, TokenFormat};

/// Name of the plane that holds the tokens' texels, always the first.
pub const PIXELS: &str = "pixels";

/// Name of the plane that holds the relevance that the layout used for each token.
pub const RELEVANCE: &str = "relevance";

/// What a plane holds for each token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Its name.
    pub name: &'static str,
    /// One letter for each axis, `N` for the tokens first: `NCHW` is token, channel, row, column.
    pub order: &'static str,
    /// Number format of an element.
    pub dtype: DType,
    /// Extent of each axis behind the first; elements follow each other without gaps, the last axis fastest.
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
