//! Laws of the ring that need a segment in shared memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod numbered;

mod abi_files;
mod picture_laws;
mod ring_abi;
mod ring_hostile;
mod ring_processes;
mod ring_read_only;
mod ring_recorded;
mod ring_round_trip;
mod ring_waking;
