//! Geometry: pure arithmetic on extents, tiles, levels and patches, and the types that stages exchange. It knows no device and
//! no clock, allocates only what it returns, and never fails.

pub mod affine;
pub mod attention;
pub mod coarse;
pub mod extent;
pub mod fixation;
pub mod gaze_entry;
pub mod patch;
pub mod plan;
pub mod pyramid;
pub mod region;
pub mod relevance;
pub mod rule;
pub mod tile;
pub mod weights;
