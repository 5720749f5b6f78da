//! Foveate: camera streams in, foveated multi-resolution tokens out.
//!
//! ```text
//!  GStreamer thread |  frame loop of the stream (one thread)                        | consumers
//!                   |                                                               |
//!  capture -mailbox-+-> change --> retina.update ..................> publish -> ring-+-> read only
//!                   |   (tiles)    ingest -> reduce -> sample                       |
//!                   |                                    ^                          |
//!                   |                       token plans <- layout <- gaze <- link <-+-- control
//! ```
//!
//! In reading order: the words in [`geometry`], [`frame`], [`color`] and [`token`]; the stages [`change`],
//! [`retina`], [`layout`], [`gaze`] and [`ring`]; `stream`, one frame through the stages; [`link`] and [`control`],
//! clients and sockets; `daemon` and `tool`, the two programs.

pub mod backend;
pub mod backoff;
pub mod camera;
#[cfg(feature = "gst")]
pub mod capture;
pub mod change;
pub mod clock;
pub mod color;
pub mod config;
pub mod control;
pub mod crew;
#[cfg(all(feature = "gst", feature = "cli"))]
pub mod daemon;
pub mod error;
pub mod frame;
pub mod gaze;
pub mod geometry;
#[cfg(feature = "vulkan")]
pub mod gpu;
pub mod layout;
pub mod link;
#[cfg(feature = "cli")]
pub mod log;
pub mod rate;
pub mod redact;
pub mod retina;
pub mod ring;
pub mod simd;
pub mod stats;
pub mod stream;
pub mod token;
#[cfg(feature = "cli")]
pub mod tool;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
