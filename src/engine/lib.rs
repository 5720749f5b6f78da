//! Makes foveated tokens of frames: change detection, the resident pyramid, and its sampling.
//!
//! ```text
//!  frame --> Engine::step(frame, stamp, views) --> planes of each view --> its sink
//!              change -> ingest -> reduce -> sample                          ring | memory
//! ```
//!
//! [`change`] decides which tiles are ingested, a [`backend`] keeps the pyramid and samples it, a [`View`] decides
//! where to look, and a [`sink`] takes the tokens. A [`batch`] is for pictures that are seen once.
//!
//! ```
//! use std::sync::Arc;
//!
//! use foveate_core::color::ColorTransform;
//! use foveate_core::frame::{FrameStamp, FrameView, PixelFormat, Plane};
//! use foveate_core::geometry::extent::Extent;
//! use foveate_gaze::view::ViewSpec;
//! use foveate_engine::backend::cpu::CpuBackend;
//! use foveate_engine::pool::Pool;
//! use foveate_engine::{Engine, Memory};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let (format, extent, color) = (PixelFormat::Rgbx, Extent::new(640, 480), ColorTransform::IDENTITY);
//!     let mut picture = vec![0; 640 * 480 * 4];
//!     let kind = FrameView::new(format, extent, color, &[Plane { bytes: &picture, stride: 640 * 4 }])?.kind();
//!     let pool = Arc::new(Pool::new(1));
//!     let mut engine = Engine::new(Box::new(CpuBackend::new(kind, &pool)), Default::default(), 1);
//!     let mut views = [engine.view(ViewSpec::default(), Memory::default())?];
//!     for frame_seq in 1..=3 {
//!         picture[..3].fill(80 * frame_seq as u8); // The pixel in the upper left corner.
//!         let frame = FrameView::new(format, extent, color, &[Plane { bytes: &picture, stride: 640 * 4 }])?;
//!         engine.step(&frame, &FrameStamp::numbered(frame_seq), &mut views)?;
//!         let tokens = views[0].sink.frame();
//!         let changed = tokens.records.iter().filter(|token| token.changed_frame == frame_seq).count();
//!         println!("{} tokens, {changed} changed, {} bytes", tokens.records.len(), tokens.pixels.len());
//! #       assert!(if frame_seq == 1 { changed == tokens.records.len() } else { (1..=4).contains(&changed) });
//!     }
//!     Ok(())
//! }
//! ```

pub mod aligned;
pub mod backend;
pub mod batch;
pub mod change;
pub mod channels;
pub mod depth;
mod engine;
pub mod planes;
pub mod pool;
mod reuse;
pub mod segment;
pub mod sink;
mod view;

pub use self::engine::{Engine, StageTimes};
pub use self::sink::{FrameChanges, Memory, SampledFrame, Sink};
pub use self::view::{View, ViewBuilder};
pub use foveate_simd as simd;
