//! Laws of the daemon's socket, against a daemon in miniature.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/control.rs"]
mod control;
#[path = "../../fuzz/laws.rs"]
mod laws;
#[path = "../common/mutation.rs"]
mod mutation;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/ring.rs"]
mod ring;
#[path = "../support/wait.rs"]
mod wait;

mod control_feedback;
mod control_hostile;
mod control_reconnection;
mod control_requests;
mod control_socket;
mod control_subscription;
mod fuzz_corpus;
mod stages_stuck;
