//! `foveate` as a user runs it, and the scripts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "gst")]
#[path = "../support/control.rs"]
mod control;
#[cfg(feature = "vulkan")]
#[path = "../common/device.rs"]
mod device;
#[cfg(feature = "gst")]
#[path = "../support/layouts.rs"]
mod layouts;
#[cfg(feature = "vulkan")]
#[path = "../support/left_out.rs"]
mod left_out;
#[cfg(feature = "gst")]
#[path = "../support/tool.rs"]
mod tool;
#[path = "../support/wait.rs"]
mod wait;

mod doctor;
#[cfg(feature = "vulkan")]
mod gpu_run;
mod tool_bench;
#[cfg(feature = "gst")]
mod tool_commands;
#[cfg(feature = "gst")]
mod tool_extract;
#[cfg(feature = "gst")]
mod tool_health;
mod tool_meter;
