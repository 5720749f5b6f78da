//! Gaze control: pure code, without device or clock.

pub mod compensation;
mod consumer;
pub mod controller;
pub mod ego;
mod fixation_state;
pub mod inhibition;
pub mod log;
pub mod need;
mod parameters;
mod peaks;
pub mod policy;
mod pursuit;
pub mod saliency;
pub mod sight;
mod weigher;

pub use self::parameters::GazeParameters;
