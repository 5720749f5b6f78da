//! Change detection: which tiles changed since they were ingested, and which are refreshed anyway.

pub mod detect;
pub mod difference;
pub mod light;
pub mod noise;
pub mod refresh;
pub mod resident;
pub mod threshold;
pub mod tracker;
