//! Relevance: what each part of the picture is worth, from what it looks like, what clients inject, and what was seen of it.

pub mod channel;
pub mod features;
pub mod injection;
pub mod scorer;
