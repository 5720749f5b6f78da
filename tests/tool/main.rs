//! `foveate` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "vulkan")]
mod gpu_run;
mod prerequisites;
#[cfg(feature = "gst")]
mod testkit_laws;
mod tool_bench;
#[cfg(feature = "gst")]
mod tool_commands;
#[cfg(feature = "gst")]
mod tool_extract;
#[cfg(feature = "gst")]
mod tool_health;
