//! The retina in safe Rust.
