//! Attention maps, as consumers send them.

use std::fmt;

use super::extent::Extent;
use super::plan::TokenPlan;
use super::region::Region;
use super::weights::{Peak, Weights};

/// Longest side of a map that a consumer may send.
pub const ATTENTION_SIDE_MAX: u32 = 128;

/// A validated map: finite numbers, none negative, not all 0, on a grid of equal cells over a region.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionMap {
    grid: Extent,
    region: Region,
    /// Row by row.
    weights: Vec<f32>,
    /// Computed once, at construction.
    peak: Peak,
}

/// Why numbers are not an attention map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttentionError {
    /// The number of values does not match the cells or tokens.
    Count {
        /// Number of weights given.
        given: usize,
        /// Number of weights needed.
        wanted: usize,
    },
    /// The grid is empty or too large.
    Grid {
        /// Columns and rows.
        grid: Extent,
    },
    /// The region has no area, or is not finite.
    EmptyRegion,
    /// No cell touches the image.
    Outside {
        /// Extent of the image.
        image: Extent,
    },
    /// A value is NaN or infinite.
    NotFinite {
        /// Index of the weight.
        index: usize,
        /// Value of the weight.
        value: f32,
    },
    /// A value is negative.
    Negative {
        /// Index of the weight.
        index: usize,
        /// Value of the weight.
        value: f32,
    },
    /// All values over the image are 0.
    AllZero,
}

impl fmt::Display for AttentionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { given, wanted } => write!(f, "{given} values (expected {wanted})"),
            Self::Grid { grid } => write!(
                f,
                "invalid map size: {grid} cells (expected 1 to {ATTENTION_SIDE_MAX} a side); pool it first"
            ),
            Self::EmptyRegion => f.write_str(
                "invalid `box` (expected finite [x0, y0, x1, y1] with x0 < x1 and y0 < y1)",
            ),
            Self::Outside { image } => {
                write!(f, "`box` is outside the image of {image} pixels")
            }
            Self::NotFinite { index, value } => {
                write!(f, "invalid value {index}: {value} (expected a finite number)")
            }
            Self::Negative { index, value } => {
                write!(f, "invalid value {index}: {value} (expected 0 or more)")
            }
            Self::AllZero => f.write_str("all values over the image are 0 (expected one above 0)"),
        }
    }
}

impl std::error::Error for AttentionError {}

impl AttentionMap {
    /// Validates a map of `grid` cells over `region` of an image. Cells that do not touch the image are validated too, but ignored.
    ///
    /// # Errors
    ///
    /// See [`AttentionError`].
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
        if weights.len() != grid.area() {
            return Err(AttentionError::Count { given: weights.len(), wanted: grid.area() });
        }
        region.has_area().then_some(()).ok_or(AttentionError::EmptyRegion)?;
        check_numbers(&weights)?;
        Self::over(image, grid, region, weights)
    }

    /// Paints one score per token onto a grid. Scores beyond the last token are padding, and ignored.
    ///
    /// A cell is as wide as the finest token of the plan. On the patch grid each takes the score of the token that covers it; in other
    /// plans, and where cells are larger because there would be more than 512 a side, the greatest score of the tokens that touch
    /// it. Either way, a token with a higher score is painted higher.
    ///
    /// # Errors
    ///
    /// If there are too few scores, or they are invalid.
    pub fn painted(
        plan: &TokenPlan,
        image: Extent,
        scores: &[f32],
    ) -> Result<Self, AttentionError> {
        let wanted = plan.tokens.len();
        let Some(scores) = scores.get(..wanted) else {
            return Err(AttentionError::Count { given: scores.len(), wanted });
        };
        check_numbers(scores)?;
        let side = plan.patch_side;
        let sides = plan.tokens.iter().map(|token| token.width(side).min(token.height(side)));
        let mut cell = sides.min().unwrap_or(side);
        while PAINTED_SIDE_MAX < image.in_cells(cell).longer_side() {
            cell *= 2;
        }
        let grid = image.in_cells(cell);
        let mut weights = vec![0.0; grid.area()];
        for (token, score) in plan.tokens.iter().zip(scores) {
            let lies = token.pixel_box(image, side);
            for row in lies.y0 / cell..lies.y1.div_ceil(cell) {
                for column in lies.x0 / cell..lies.x1.div_ceil(cell) {
                    let at = row as usize * grid.width as usize + column as usize;
                    weights[at] = score.max(weights[at]);
                }
            }
        }
        let length = |cells: u32| f64::from(cells) * f64::from(cell);
        let region = Region { x0: 0.0, y0: 0.0, x1: length(grid.width), y1: length(grid.height) };
        Self::over(image, grid, region, weights)
    }

    /// Columns and rows.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// The box that it covers.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Row by row.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The place that it asks for: its peak over the image, to within half a cell; see [`Weights::peak`].
    pub fn peak(&self) -> Peak {
        self.peak
    }

    /// The map as borrowed weights.
    pub fn as_weights(&self) -> Weights<'_> {
        Weights { grid: self.grid, region: self.region, cells: &self.weights }
    }

    /// The map without the cells that do not touch the image, which have no effect.
    #[expect(clippy::cast_possible_truncation, reason = "cells of a grid")]
    pub fn within(&self, image: Extent) -> Self {
        let Some(window) = self.as_weights().window(image) else { return self.clone() };
        let columns = self.grid.width as usize;
        let weights = window.indices(columns).map(|index| self.weights[index]).collect();
        let edge = |cell: usize, count: u32, from: f64, to: f64| {
            from + (to - from) * (cell as f64 / f64::from(count))
        };
        let (Region { x0, y0, x1, y1 }, Extent { width, height }) = (self.region, self.grid);
        let (columns, rows) = (window.columns, window.rows);
        let region = Region {
            x0: edge(columns.start, width, x0, x1),
            y0: edge(rows.start, height, y0, y1),
            x1: edge(columns.end, width, x0, x1),
            y1: edge(rows.end, height, y0, y1),
        };
        let grid = Extent::new(columns.len() as u32, rows.len() as u32);
        Self { grid, region, weights, peak: self.peak }
    }

    /// A map of as many cells over `region`, whose weights `weight` gives for their middles in pixels, finite and not negative. `None`
    /// if it attends to nothing of the image.
    pub fn resampled(
        &self,
        image: Extent,
        region: Region,
        weight: impl Fn((f64, f64)) -> f32,
    ) -> Option<Self> {
        let Region { x0, y0, x1, y1 } = region;
        let middle = |cell: u32, count: u32, from: f64, to: f64| {
            from + (f64::from(cell) + 0.5) / f64::from(count) * (to - from)
        };
        let Extent { width, height } = self.grid;
        let places = (0..height).flat_map(|row| (0..width).map(move |column| (column, row)));
        let place = |(column, row)| (middle(column, width, x0, x1), middle(row, height, y0, y1));
        let weights = places.map(place).map(weight).collect();
        Self::over(image, self.grid, region, weights).ok()
    }

    /// The map of checked numbers, if they attend to something of the image.
    fn over(
        image: Extent,
        grid: Extent,
        region: Region,
        weights: Vec<f32>,
    ) -> Result<Self, AttentionError> {
        let view = Weights { grid, region, cells: &weights };
        if view.window(image).is_none() {
            return Err(AttentionError::Outside { image });
        }
        let peak = view.peak(image).filter(|peak| 0.0 < peak.weight);
        let peak = peak.ok_or(AttentionError::AllZero)?;
        Ok(Self { grid, region, weights, peak })
    }
}

/// The longest side of a painted map.
const PAINTED_SIDE_MAX: u32 = 512;

fn check_numbers(numbers: &[f32]) -> Result<(), AttentionError> {
    for (index, &value) in numbers.iter().enumerate() {
        if !value.is_finite() {
            return Err(AttentionError::NotFinite { index, value });
        }
        if value < 0.0 {
            return Err(AttentionError::Negative { index, value });
        }
    }
    Ok(())
}
