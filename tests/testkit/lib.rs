//! What the tests share: the naive definition, and daemons, readers and devices to try.

#![allow(missing_docs, reason = "for tests alone")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::len_without_is_empty,
    clippy::new_without_default,
    clippy::should_implement_trait,
    reason = "for tests alone"
)]

#[cfg(feature = "engine")]
pub mod adaptive;
pub mod allocations;
#[cfg(feature = "engine")]
pub mod backends;
pub mod connection;
#[cfg(feature = "gst")]
pub mod control;
#[cfg(feature = "gst")]
pub mod daemon;
#[cfg(feature = "vulkan")]
pub mod device;
#[cfg(feature = "gst")]
pub mod film;
#[cfg(feature = "engine")]
pub mod follow;
pub mod footage;
pub mod history;
#[cfg(feature = "gst")]
pub mod hostile_camera;
#[cfg(feature = "gst")]
pub mod layouts;
pub mod left_out;
pub mod mutation;
pub mod naive;
pub mod players;
pub mod program;
#[cfg(feature = "engine")]
pub mod published;
pub mod ring;
#[cfg(all(feature = "gst", feature = "vulkan"))]
pub mod scene;
pub mod spirv;
#[cfg(feature = "gst")]
pub mod storm;
#[cfg(all(feature = "gst", feature = "vulkan"))]
pub mod stream;
pub mod thief;
pub mod threads;
#[cfg(feature = "gst")]
pub mod tool;
pub mod users;
pub mod wait;
#[cfg(all(feature = "gst", feature = "web"))]
pub mod web_server;

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the sources.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Whether the long tests are to run: more cases, and more iterations.
pub fn is_long() -> bool {
    env::var_os("FOVEATE_LONG").is_some_and(|value| value == "1")
}

/// One of the two programs, which Cargo builds beside the tests.
pub fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join(name)
}
