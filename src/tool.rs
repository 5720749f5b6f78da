//! The subcommands of `foveate`.
