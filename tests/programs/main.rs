//! The daemon as it is shipped, from a source to a reader.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/control.rs"]
mod control;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../common/device.rs"]
mod device;
#[path = "../support/film.rs"]
mod film;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/mutation.rs"]
mod mutation;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/players.rs"]
mod players;
#[path = "../support/scene.rs"]
mod scene;
#[path = "../support/scrape.rs"]
mod scrape;
#[path = "../support/storm.rs"]
mod storm;
#[path = "../support/systemd.rs"]
mod systemd;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/web_server.rs"]
mod web_server;

mod bad_input;
mod daemon_stall;
mod dashboard;
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
