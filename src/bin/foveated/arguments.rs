//! The command line of `foveated`, of which the tests make its manual page, too.

use std::path::PathBuf;

use clap::Parser;

/// Watches camera streams and publishes foveated tokens in shared memory.
#[derive(Debug, Parser)]
#[command(
    name = "foveated",
    version,
    after_help = "Exit codes: 0 stopped, or all streams ended and none failed, 1 failure, 2 wrong usage, 69 something is \
                  unavailable (a source, a device, the socket), 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket; FOVEATE_VALIDATION=1 enables the Vulkan \
                  validation layer. CREDENTIALS_DIRECTORY holds values for ${NAME} in the configuration. NOTIFY_SOCKET, \
                  WATCHDOG_USEC, LISTEN_FDS and JOURNAL_STREAM of a service manager are supported."
)]
pub(crate) struct DaemonArguments {
    /// The configuration [default: the test scene as stream `camera`, view `main`]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// More streams: every *.toml in this directory, ordered by name
    #[arg(long, value_name = "DIR", requires = "config")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Check the configuration, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Path of the control socket [default: the configuration's, else $FOVEATE_SOCKET, else foveate.sock in
    /// $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate or /run/foveate]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}
