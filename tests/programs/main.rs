//! The daemon as it is shipped, from a source to a reader.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scrape;
#[path = "../../fuzz/source_laws.rs"]
mod source_laws;
mod systemd;

mod architecture;
mod bad_input;
mod dashboard;
#[cfg(feature = "web")]
mod demo;
mod end_to_end;
mod end_to_end_admin;
mod end_to_end_depth;
#[cfg(feature = "mcap")]
mod end_to_end_events;
mod end_to_end_extract;
mod end_to_end_gaze;
mod end_to_end_hostile;
mod end_to_end_http;
mod end_to_end_isolation;
mod end_to_end_kill;
mod end_to_end_life;
mod end_to_end_limits;
#[cfg(feature = "mcap")]
mod end_to_end_masks;
mod end_to_end_misbehaving;
mod end_to_end_process;
#[cfg(feature = "mcap")]
mod end_to_end_record;
mod end_to_end_return;
mod end_to_end_rtsp;
mod end_to_end_secrets;
mod end_to_end_sources;
mod end_to_end_systemd;
mod log;
mod manual;
mod manual_texts;
mod metrics;
mod service;
