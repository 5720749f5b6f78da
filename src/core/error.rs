//! Error chains and exit codes.

use std::error::Error;

/// An error and its causes, joined by `: `; a cause that the text before already ends with is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

/// Exit codes of all programs.
pub mod exit {
    /// Any other failure.
    pub const FAILURE: u8 = 1;
    /// Invalid command line; clap's code.
    pub const USAGE: u8 = 2;
    /// A source, device, daemon or view is unavailable. EX_UNAVAILABLE of sysexits.h.
    pub const UNAVAILABLE: u8 = 69;
    /// Unusable configuration. EX_CONFIG of sysexits.h.
    pub const CONFIG: u8 = 78;
}
