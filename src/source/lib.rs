//! Types of sources that capture, the daemon and the control server share. They do not need GStreamer, so that the code that parses
//! foreign bytes can be in another process.

pub mod discipline;
pub mod frame;
pub mod handover;
pub mod ledger;
mod masks;
pub mod memory;
pub mod pool;
pub mod processes;
pub mod wire;

pub use masks::{MaskChange, MaskCoverage, MaskRefusal, Masks};
