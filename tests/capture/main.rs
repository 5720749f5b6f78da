//! Laws of sources: pipelines, frames, times, and what becomes of real clips.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/backends.rs"]
mod backends;
#[path = "../common/device.rs"]
mod device;
#[path = "../support/film.rs"]
mod film;
#[path = "../common/follow.rs"]
mod follow;
#[path = "../common/footage.rs"]
mod footage;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../common/published.rs"]
mod published;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/walkers.rs"]
mod walkers;
#[path = "../support/watched.rs"]
mod watched;

mod capture_clips;
mod capture_damage;
mod capture_depth;
mod capture_expansion;
mod capture_frames;
mod capture_masks;
mod capture_reconnecting;
mod capture_refusals;
mod capture_times;
mod capture_transient;
mod clips;
mod event_clips;
mod gaze_clips;
mod mailbox;
mod rate_limit;
mod wall_clock;
