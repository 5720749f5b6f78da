//! What the fuzzer looks for holds for its corpus and for some thousand mutations of it, also where no fuzzer runs.

use std::panic::catch_unwind;

use foveate::messages::FromDaemon;
use foveate_control::Request;
use foveate_gaze::log::GazeLog;
use serde_json::Value;
use testkit::is_long;
use testkit::mutation::{corpus, mutated};
use testkit::naive::Random;

use crate::laws;

#[test]
fn the_laws_hold_for_the_corpus() {
    for (name, bytes) in corpus() {
        hold(&bytes);
        let is_request = Request::from_datagram(&bytes).is_ok();
        let is_answer = FromDaemon::<Value>::from_datagram(&bytes).is_ok();
        let is_log = GazeLog::parse(&String::from_utf8_lossy(&bytes)).is_ok();
        // Some requests are understood, and what they ask for is refused.
        let is_refused = name.contains("refused") && !name.starts_with("answer");
        let is_understood = is_request || is_answer || is_log;
        assert!(is_refused || is_understood, "{name} is none of what it is there for");
    }
}

#[test]
fn the_laws_hold_for_mutations_of_the_corpus() {
    let corpus: Vec<Vec<u8>> = corpus().into_iter().map(|(_, bytes)| bytes).collect();
    let count = if is_long() { 1_000_000 } else { 20_000 };
    let mut random = Random(1);
    for _ in 0..count {
        hold(&mutated(&corpus, &mut random));
    }
}

/// Shows the bytes for which a law is broken.
fn hold(bytes: &[u8]) {
    let held = catch_unwind(|| laws::hold_for(bytes));
    assert!(held.is_ok(), "for {:?}", String::from_utf8_lossy(bytes));
}
