//! Laws of change and of backends, on the CPU and on every backend that is built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
#[macro_use]
mod each_backend;

mod adaptive_laws;
mod backend_equals_naive;
mod backend_views;
mod batch_laws;
mod canvas_laws;
mod change_laws;
mod coarse_level;
mod depth_laws;
mod gaze_laws;
mod noise_laws;
mod pool_laws;
mod reuse_laws;
mod tile_features;
mod view_planes;
