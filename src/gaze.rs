//! Where a view looks: pure code, no device, no clock.

pub mod controller;
pub mod log;
