//! From frames to foveated tokens: change detection, the resident pyramid, and its sampling.
//!
//! ```text
//!  frame --> Engine::step(frame, stamp, views) --> planes of each view --> its sink
//!              change -> ingest -> reduce -> sample                          ring | memory
//! ```
//!
//! [`change`] decides which tiles are ingested, a [`backend`] keeps the pyramid and samples it, a [`View`] decides
//! where to look, and a [`sink`] takes the tokens.

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
