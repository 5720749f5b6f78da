//! From frames to foveated tokens: what changed, the pyramid that is kept from it, and its sampling.
//!
//! ```text
//!  frame --> Engine::step(frame, stamp, views) --> planes of each view --> its sink
//!              change -> ingest -> reduce -> sample                          ring | memory
//! ```
//!
//! [`change`] says which tiles count, a [`backend`] keeps the pyramid and samples, a [`View`] says where to look, and a
//! [`sink`] takes what was sampled.

pub mod backend;
pub mod change;
mod engine;
pub mod planes;
pub mod pool;
pub mod simd;
pub mod sink;
mod view;

pub use self::engine::{Engine, RetiredBackend, StageTimes};
pub use self::sink::{Memory, SampledFrame, Sink};
pub use self::view::{View, ViewBuilder};
