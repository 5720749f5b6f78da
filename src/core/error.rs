//! Errors in words and in exit codes.

use std::error::Error;

/// An error and its causes, as `cause: cause: cause`; a cause that only repeats the one before is left out.
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

/// Exit codes of the programs.
pub mod exit {
    /// A failure that has no code of its own.
    pub const FAILURE: u8 = 1;
    /// A wrong command line, as clap has it.
    pub const USAGE: u8 = 2;
    /// Something needed is not there: a source, a device, a daemon, a view. EX_UNAVAILABLE of sysexits.h.
    pub const UNAVAILABLE: u8 = 69;
    /// The configuration cannot be used. EX_CONFIG of sysexits.h.
    pub const CONFIG: u8 = 78;
}
