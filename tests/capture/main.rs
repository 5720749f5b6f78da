//! Laws of sources: pipelines, frames, times, and what becomes of real clips.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod specs;
mod walkers;
mod watched;

mod capture_clips;
mod capture_confinement;
mod capture_damage;
mod capture_depth;
mod capture_frames;
mod capture_masks;
mod capture_media;
mod capture_network;
mod capture_process;
mod capture_reconnecting;
mod capture_refusals;
mod clips;
mod event_clips;
mod gaze_clips;
mod gaze_replays;
mod rate_limit;
