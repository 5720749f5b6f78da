//! Laws of the ring that need a segment in shared memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/numbered.rs"]
mod numbered;
#[path = "../support/players.rs"]
mod players;
#[path = "../support/ring.rs"]
mod ring;
#[path = "../support/thief.rs"]
mod thief;
#[path = "../support/wait.rs"]
mod wait;

mod abi_files;
mod picture_laws;
mod ring_abi;
mod ring_hostile;
mod ring_memory;
mod ring_processes;
mod ring_publish_time;
mod ring_read_only;
mod ring_recorded;
mod ring_round_trip;
mod ring_torn;
mod ring_waking;
