//! Foveate's shared types and pure code: extents, tiles, tokens, frames, [`color`], places. How a view looks is in `foveate-gaze`.
//! No devices, threads, or files other than those that a configuration names, which [`mod@file`] reads.
//!
//! Features for producers of tokens: `half` converts texels between number formats; `bytemuck` makes
//! [`color::ColorTransform`] plain data for shaders; `serde` reads and writes what a configuration
//! says.

pub mod address;
pub mod backend;
pub mod backoff;
pub mod camera;
pub mod change;
pub mod channel;
pub mod clock;
pub mod code;
pub mod color;
pub mod depth;
pub mod ego;
pub mod error;
pub mod event;
pub mod exif;
pub mod file;
pub mod frame;
pub mod geometry;
pub mod gray;
pub mod jpeg;
pub mod json;
pub mod mask;
pub mod name;
pub mod npy;
pub mod pixel;
pub mod plane;
pub mod rate;
pub mod source;
pub mod token;
#[cfg(feature = "serde")]
pub mod value;
