//! Laws of change and of backends, on the CPU and on every backend that is built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(unsafe_code, reason = "an allocator that counts")]
#[path = "../common/allocations.rs"]
mod allocations;
#[path = "../common/backends.rs"]
mod backends;
#[cfg(feature = "vulkan")]
#[path = "../common/device.rs"]
mod device;
#[macro_use]
mod each_backend;
#[path = "../common/follow.rs"]
mod follow;
#[path = "../common/history.rs"]
mod history;
#[cfg(feature = "vulkan")]
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../common/published.rs"]
mod published;
#[path = "../support/threads.rs"]
mod threads;
#[path = "../support/wait.rs"]
mod wait;

mod backend_equals_naive;
mod backend_views;
mod batch_laws;
mod change_laws;
mod coarse_level;
mod depth_laws;
mod noise_laws;
mod pool_laws;
mod reuse_laws;
mod tile_features;
mod view_planes;
