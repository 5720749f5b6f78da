//! Laws of what only a Vulkan device does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child;
mod vulkan;

mod detect_laws;
mod engine_on_device;
#[cfg(feature = "gst")]
mod gpu_return;
mod gpu_times;
mod reduce_reach;
#[cfg(feature = "gst")]
mod stream_change_on;
mod token_target;
mod vulkan_device;
