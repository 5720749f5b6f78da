//! A small Vulkan library.
/// An operating error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {}
