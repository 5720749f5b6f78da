//! Where a view looks: pure code, no device, no clock.

pub mod controller;
mod fixation_state;
pub mod inhibition;
pub mod log;
pub mod parameters;
pub mod policy;
pub mod saliency;
mod scan;
