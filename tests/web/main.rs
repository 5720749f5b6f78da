//! The live page, with a browser and without.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;

mod history;
mod history_browser;
mod web;
mod web_browser;
