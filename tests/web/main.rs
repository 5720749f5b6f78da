//! The live page, with a browser and without.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/browser.rs"]
mod browser;
#[path = "../support/control.rs"]
mod control;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/film.rs"]
mod film;
#[path = "../support/layouts.rs"]
mod layouts;
#[path = "../support/left_out.rs"]
mod left_out;
#[path = "../common/naive.rs"]
mod naive;
#[path = "../support/tool.rs"]
mod tool;
#[path = "../support/users.rs"]
mod users;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/web_server.rs"]
mod web_server;

mod web;
mod web_browser;
