//! Whatever a source process sends: see `source_laws.rs`, which tests run over mutations, too.
#![no_main]

#[path = "../source_laws.rs"]
mod source_laws;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| source_laws::hold_for(bytes));
