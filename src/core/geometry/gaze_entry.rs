//! JSON form of a gaze, for recorders.

use std::sync::Arc;

use super::extent::Extent;
use super::fixation::{FOVEAE_MAX, Fixation, Fixations, Gaze};
use super::relevance::{Relevance, RelevanceMap};

/// Longest side of a recorded relevance map.
const GRID_SIDE_MAX: u32 = 128;

/// The gaze of a view from a frame on.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeEntry {
    /// `frame_seq` of the first frame that was sampled so, or of the first one after recording began.
    pub frame: u64,
    /// The points, 1 to 8.
    pub fixations: Vec<Fixation>,
    /// Relevance of each part of the image; `null` where all of it matters equally.
    pub relevance: Option<RelevanceEntry>,
    /// Whether this frame was planned without regard to the plan before, as after new masks.
    pub is_planned_afresh: bool,
}

crate::object!(GazeEntry {
    "frame": frame, "fixations": fixations, "relevance": relevance;
    "afresh": is_planned_afresh,
}, strict);

/// A relevance map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelevanceEntry {
    /// `frame_seq` of the frame that the map was made from.
    pub frame: u64,
    /// Columns and rows.
    pub grid: [u32; 2],
    /// One [code](RelevanceMap::from_codes) a cell, row by row, in two hexadecimal digits each.
    pub codes: String,
}

crate::object!(RelevanceEntry { "frame": frame, "grid": grid, "codes": codes }, strict);

impl GazeEntry {
    /// The entry for a view that has `gaze` from `frame_seq` on.
    pub fn new(gaze: &Gaze, frame_seq: u64) -> Self {
        let relevance = gaze.relevance.as_deref().map(RelevanceEntry::from);
        Self {
            frame: frame_seq,
            fixations: gaze.fixations.to_vec(),
            relevance,
            is_planned_afresh: false,
        }
    }

    /// The gaze of this entry.
    ///
    /// # Errors
    ///
    /// If it has no fixation or too many, or its relevance map is malformed, with what was expected.
    pub fn gaze(&self) -> Result<Gaze, String> {
        let relevance = self.relevance.as_ref().map(RelevanceEntry::relevance).transpose()?;
        let fixations = Fixations::try_from(self.fixations.as_slice()).ok();
        let fixations = fixations.filter(|fixations| !fixations.is_empty());
        let fixations = fixations
            .ok_or_else(|| format!("invalid number of fixations (expected 1 to {FOVEAE_MAX})"))?;
        Ok(Gaze { fixations, relevance: relevance.map(Arc::new) })
    }
}

impl RelevanceEntry {
    fn relevance(&self) -> Result<Relevance, String> {
        let [width, height] = self.grid;
        let sides = 1..=GRID_SIDE_MAX;
        if !sides.contains(&width) || !sides.contains(&height) {
            return Err(format!("invalid \"grid\" (expected 1 to {GRID_SIDE_MAX} cells a side)"));
        }
        let grid = Extent::new(width, height);
        let digits = self.codes.as_bytes();
        if digits.len() != 2 * grid.area() {
            let wanted = 2 * grid.area();
            return Err(format!("invalid \"codes\" (expected {wanted} hexadecimal digits)"));
        }
        let codes: Option<Vec<u8>> = digits.as_chunks::<2>().0.iter().map(code_of).collect();
        let codes = codes.ok_or("invalid \"codes\" (expected hexadecimal digits)")?;
        Ok(Relevance { map: RelevanceMap::from_codes(grid, &codes), frame_seq: self.frame })
    }
}

impl From<&Relevance> for RelevanceEntry {
    fn from(Relevance { map, frame_seq }: &Relevance) -> Self {
        let grid = map.grid();
        let codes = map.codes().iter().map(|code| format!("{code:02x}")).collect();
        Self { frame: *frame_seq, grid: [grid.width, grid.height], codes }
    }
}

fn code_of(digits: &[u8; 2]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(16 * digit(digits[0])? + digit(digits[1])?).ok()
}
