//! Laws of what only a Vulkan device does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/backends.rs"]
mod backends;
#[path = "../common/child.rs"]
mod child;
#[path = "../common/device.rs"]
mod device;
#[path = "../common/history.rs"]
mod history;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/vulkan.rs"]
mod vulkan;
#[path = "../support/wait.rs"]
mod wait;

mod detect_laws;
mod engine_on_device;
#[cfg(feature = "gst")]
mod gpu_return;
mod gpu_times;
mod hierarchical_attention;
mod reduce_reach;
mod shader_layouts;
#[cfg(feature = "gst")]
mod stream_change_on;
mod token_target;
mod vulkan_device;
