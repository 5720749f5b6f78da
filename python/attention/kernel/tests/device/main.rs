//! Laws of attention on a Vulkan device.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hierarchical_attention;
mod shader_layouts;
