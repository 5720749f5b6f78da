//! Whatever bytes come over the socket, or stand in a log: see `laws.rs`, which tests run over the corpus, too.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| laws::hold_for(bytes));
