//! The readers in Rust, C and Python agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod c_reader;
mod described;
mod reader_conformance;
mod rust_restart;
