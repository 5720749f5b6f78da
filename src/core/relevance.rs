//! Relevance: what each part of the picture is worth, from what it looks like, what clients inject, and what was seen of it.
//!
//! A [`scene`] makes [channels](channel) of the [features] of tiles, the coarse level, time and [injected maps](injection); a
//! [`scorer`] reads them.

pub mod channel;
pub mod features;
pub mod injection;
pub mod scene;
pub mod scorer;
pub mod seen;
