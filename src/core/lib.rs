//! The words of Foveate, and what is pure: extents, tiles, tokens and their [`layout`], [`color`], where a view looks
//! ([`gaze`]). Knows no device, no thread and no file.

pub mod backend;
pub mod backoff;
pub mod camera;
pub mod clock;
pub mod color;
pub mod error;
pub mod frame;
pub mod gaze;
pub mod geometry;
pub mod layout;
pub mod name;
pub mod plane;
pub mod rate;
pub mod token;
