//! Where a view looks, for those who record it.

use serde::{Deserialize, Serialize};

use super::{FixationListing, ViewName};
use crate::geometry::relevance::Relevance;
use crate::link::GazeNote;

/// Where a view looks from a frame on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GazeEvent {
    /// Which view.
    pub view: ViewName,
    /// `frame_seq` of the first frame that was sampled so, or of the first one after the subscription.
    pub frame: u64,
    /// The point.
    pub fixation: FixationListing,
    /// How much each part of the image matters; absent where all of it matters alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<RelevanceListing>,
    /// Events of this view that were lost so far because too many came at once.
    pub lost: u64,
}

impl GazeEvent {
    /// The event that tells `note`, when `lost` others were lost so far.
    pub(in crate::control) fn new(view: &ViewName, note: &GazeNote, lost: u64) -> Self {
        let GazeNote { frame_seq, gaze } = note;
        Self {
            view: view.clone(),
            frame: *frame_seq,
            fixation: gaze.fixation.into(),
            relevance: gaze.relevance.as_deref().map(Into::into),
            lost,
        }
    }
}

/// How much each part of the image matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelevanceListing {
    /// `frame_seq` of the frame that it was made from.
    pub frame: u64,
    /// Columns and rows.
    pub grid: [u32; 2],
    /// One code for each cell, row by row, two hexadecimal digits each: the weight is 2 ^ ((code - 128) / 32).
    pub codes: String,
}

impl From<&Relevance> for RelevanceListing {
    fn from(Relevance { map, frame_seq }: &Relevance) -> Self {
        let (grid, codes) = (map.grid(), map.codes());
        let codes = codes.iter().map(|code| format!("{code:02x}")).collect();
        Self { frame: *frame_seq, grid: [grid.width, grid.height], codes }
    }
}
