//! Where a view looks: pure code, no device, no clock.

pub mod controller;
mod eye;
pub mod inhibition;
pub mod log;
pub mod moment;
pub mod parameters;
pub mod policy;
pub mod saliency;
mod scan;
