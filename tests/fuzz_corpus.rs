//! What the fuzzer looks for holds for its corpus and for some thousand mutations of it, also where no fuzzer runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../fuzz/laws.rs"]
mod laws;
#[path = "common/naive.rs"]
mod naive;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use foveate::control::messages::{FromDaemon, Request};
use foveate::gaze::log::GazeLog;
use naive::Random;
use serde_json::Value;

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
    let count = if std::env::var_os("FOVEATE_LONG").is_some() { 1_000_000 } else { 20_000 };
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

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/messages");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    };
    let mut corpus: Vec<_> = files.map(named).collect();
    corpus.sort();
    assert!(20 < corpus.len());
    corpus
}

/// One to four changes: a byte flipped, a part cut out or doubled, a piece of another one put in, a number made extreme.
fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const NUMBERS: [&str; 9] =
        ["0", "-1", "1e308", "-1e308", "5e-324", "0.1", "18446744073709551615", "null", "[]"];
    let any = |random: &mut Random| &corpus[index(corpus.len(), random)];
    let mut bytes = any(random).clone();
    for _ in 0..=random.below(4) {
        let [from, to] = {
            let mut ends = [0, 0].map(|_: u32| index(bytes.len() + 1, random));
            ends.sort_unstable();
            ends
        };
        match random.below(5) {
            0 if from < bytes.len() => bytes[from] ^= 1 << random.below(8),
            1 => drop(bytes.drain(from..to)),
            2 => bytes.splice(from..from, bytes[from..to].to_vec()).for_each(drop),
            3 => {
                let other = any(random);
                let start = index(other.len() + 1, random);
                bytes.splice(from..to, other[start..].iter().copied()).for_each(drop);
            }
            _ => replace_number(&mut bytes, NUMBERS[index(NUMBERS.len(), random)], random),
        }
    }
    bytes
}

/// Puts `number` where one of the numbers stands.
fn replace_number(bytes: &mut Vec<u8>, number: &str, random: &mut Random) {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.e".contains(byte);
    let skip = index(bytes.len() + 1, random);
    let Some(start) = bytes[skip..].iter().position(|byte| byte.is_ascii_digit()) else { return };
    let start = skip + start;
    let len = bytes[start..].iter().take_while(|byte| is_number(byte)).count();
    bytes.splice(start..start + len, number.bytes()).for_each(drop);
}

/// Any of `count` indices.
fn index(count: usize, random: &mut Random) -> usize {
    random.below(u32::try_from(count).unwrap()) as usize
}
