//! Tokens at the points of a table, in its order: the retinas of published models.
//!
//! Where a token is one texel, as is usual, each row of the table is one sample.

use std::path::PathBuf;
use std::sync::Arc;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation;
use foveate_core::geometry::plan::{STEP_MAX, Token};

mod file;

/// Most rows of a table: the largest budget.
pub const ROWS_MAX: usize = 5_000;

/// Most pixels by which a point lies beside the fixation, along each axis: twice the longest side of a picture.
pub const OFFSET_MAX: f64 = 2.0 * Extent::SIDE_MAX as f64;

/// Most pixels under all tokens of a table together, four pictures of 3840 x 2160: each may be read in every frame.
pub const PIXELS_MAX: u64 = 1 << 25;

/// A table of points around the fixation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// The file that it was read from.
    pub file: PathBuf,
    /// Rows of the table; a configuration that was read has at least one.
    pub rows: Arc<[Sample]>,
}

/// A row of a table: a token around a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Pixels right of the fixation.
    pub x: f64,
    /// Pixels below the fixation.
    pub y: f64,
    /// Source pixels under a texel along each axis.
    pub step: u16,
}

impl Samples {
    /// The table of `rows`, each x, y and step, that no file has.
    ///
    /// # Errors
    ///
    /// If there is no row or more than [`ROWS_MAX`], or a row has other numbers than [`Sample`] may have, with what was expected.
    pub fn new(rows: &[[f64; 3]]) -> Result<Self, String> {
        if !(1..=ROWS_MAX).contains(&rows.len()) {
            return Err(format!("{} rows (expected 1 to {ROWS_MAX})", rows.len()));
        }
        let rows = (1..).zip(rows).map(|(number, row)| sample(number, *row));
        Ok(Self { file: PathBuf::new(), rows: rows.collect::<Result<_, _>>()? })
    }

    /// Pixels under all of its tokens together.
    pub fn pixels(&self, patch_side: u32) -> u64 {
        let side = |sample: &Sample| u64::from(patch_side) * u64::from(sample.step);
        self.rows.iter().map(|sample| side(sample).pow(2)).sum()
    }

    /// A token of each row, in order: the square of P steps a side around its point, moved to the nearest whole pixels, right and
    /// down from the middle between two. Its group is log2 of its step, rounded down. As many as `budget` allows.
    pub(super) fn tokens(
        &self,
        extent: Extent,
        patch_side: u32,
        budget: usize,
        fixation: (f64, f64),
    ) -> Vec<Token> {
        let (x, y) = fixation::snapped(extent, fixation.0, fixation.1);
        let token = |sample: &Sample| {
            let half = f64::from(patch_side) * f64::from(sample.step) / 2.0;
            #[expect(clippy::cast_possible_truncation, reason = "near a source")]
            let corner = |point: f64| (point - half + 0.5).floor() as i32;
            #[expect(clippy::cast_possible_truncation, reason = "at most 11")]
            let group = sample.step.ilog2() as u16;
            Token {
                x: corner(x + sample.x),
                y: corner(y + sample.y),
                sx: sample.step,
                sy: sample.step,
                group,
                ..Token::default()
            }
        };
        self.rows.iter().take(budget).map(token).collect()
    }
}

fn sample(number: usize, [x, y, step]: [f64; 3]) -> Result<Sample, String> {
    let offset = -OFFSET_MAX..=OFFSET_MAX;
    if !(offset.contains(&x) && offset.contains(&y)) {
        return Err(format!(
            "x = {x}, y = {y} in row {number} (expected pixels from the fixation, at most {OFFSET_MAX})"
        ));
    }
    if step.fract() != 0.0 || !(1.0..=f64::from(STEP_MAX)).contains(&step) {
        return Err(format!(
            "step = {step} in row {number} (expected a whole number of pixels from 1 to {STEP_MAX})"
        ));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let step = step as u16;
    Ok(Sample { x, y, step })
}
