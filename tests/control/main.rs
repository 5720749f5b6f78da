//! Laws of streams, and of the daemon's socket, in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/control.rs"]
mod control;
#[cfg(feature = "vulkan")]
#[path = "../common/device.rs"]
mod device;
#[path = "../common/history.rs"]
mod history;
#[path = "../../fuzz/laws.rs"]
mod laws;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/mutation.rs"]
mod mutation;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/ring.rs"]
mod ring;
#[path = "../support/users.rs"]
mod users;
#[path = "../support/wait.rs"]
mod wait;

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
