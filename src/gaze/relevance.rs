//! Relevance of each part of the picture, from its features, injected maps, and how well it was seen.
//!
//! A [`scene`] makes [channels](foveate_core::channel) of the [features] of tiles, the coarse level, time and [injected maps](injection); a
//! [`scorer`] reads them.

pub mod features;
pub mod injection;
pub mod scene;
pub mod scorer;
pub mod seen;
