//! Laws of streams, and of the daemon's socket, in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../fuzz/laws.rs"]
mod laws;

mod config_fuzz;
mod control_channels;
mod control_feedback;
mod control_hostile;
mod control_reconnection;
mod control_requests;
mod control_socket;
mod control_subscription;
mod control_users;
mod fuzz_corpus;
mod stages_stuck;
mod stream_change;
mod stream_feedback;
mod stream_masks;
mod stream_memory;
mod stream_views;
