//! The readers in Rust, C and Python agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../common/device.rs"]
mod device;
#[path = "../support/film.rs"]
mod film;
#[path = "../common/footage.rs"]
mod footage;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/players.rs"]
mod players;
#[path = "../support/ring.rs"]
mod ring;
#[path = "../support/scene.rs"]
mod scene;
#[path = "../support/wait.rs"]
mod wait;

mod c_reader;
mod described;
mod reader_conformance;
mod rust_restart;
