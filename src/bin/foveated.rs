//! `foveated`, the daemon: arguments, logging, exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use foveate_config::{Config, ConfigError};
use foveate_core::error::{chain, exit};
use foveate_daemon::DaemonError;
use foveate_log::redact::{self, Masked};

/// Watches camera streams and publishes foveated tokens in shared memory.
#[derive(Debug, Parser)]
#[command(
    name = "foveated",
    version,
    after_help = "Exit codes: 0 stopped or all streams ended, 1 failure, 2 wrong usage, 69 something is unavailable (a source, \
                  a device, the socket), 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket; FOVEATE_VALIDATION=1 enables the Vulkan \
                  validation layer. CREDENTIALS_DIRECTORY holds values for ${NAME} in the configuration. NOTIFY_SOCKET, \
                  WATCHDOG_USEC, LISTEN_FDS and JOURNAL_STREAM of a service manager are supported."
)]
struct Arguments {
    /// The configuration [default: a test pattern as stream `camera`, view `main`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// More streams: every *.toml in this directory, ordered by name
    #[arg(long, value_name = "DIR", requires = "config")]
    config_dir: Option<PathBuf>,
    /// Check the configuration, and exit
    #[arg(long)]
    check: bool,
    /// Path of the control socket [default: the configuration's, else $FOVEATE_SOCKET, else foveate.sock in
    /// $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate or /run/foveate]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// What [`foveate_daemon::check`] found.
    #[error("{}", .0.iter().map(|failure| chain(failure)).collect::<Vec<_>>().join("\n"))]
    Streams(Vec<DaemonError>),
}

/// Limits what the C library keeps: else the freed memory of each of dozens of decoder threads, a hundred megabytes in a few
/// minutes. `MALLOC_ARENA_MAX` in the environment counts instead.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way")]
fn limit_arenas() {
    const ARENAS_MAX: i32 = 2;
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX) };
    }
}

fn main() -> ExitCode {
    #[cfg(target_env = "gnu")]
    limit_arenas();
    let arguments = Arguments::parse();
    let log = foveate_log::to_journal_or_stderr(foveate_log::LevelFilter::INFO);
    let mut masked = Vec::new();
    match run(&arguments, &mut masked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Behind the lines of the log. Where those cannot be written, this would wait for ever.
            if log.flush() {
                // Fails if standard error is closed.
                let text = redact::printable(&redact::redacted(&chain(&failure)));
                let _ = writeln!(io::stderr(), "foveated: {text}");
            }
            ExitCode::from(match failure {
                Failure::Config(_) => exit::CONFIG,
                Failure::Daemon(error) => error.exit_code(),
                Failure::Streams(errors) => {
                    errors.iter().map(DaemonError::exit_code).max().unwrap_or(exit::FAILURE)
                }
            })
        }
    }
}

/// Masks what is secret in the configuration in `masked`, which the caller keeps until it has shown the failure.
fn run(arguments: &Arguments, masked: &mut Vec<Masked>) -> Result<(), Failure> {
    let read = || match (&arguments.config, &arguments.config_dir) {
        (Some(file), Some(directory)) => Config::load_with(file, directory),
        (Some(file), None) => Config::load(file),
        (None, _) => Ok(Config::default()),
    };
    let config = read()?;
    *masked = foveate_daemon::masked(&config);
    if arguments.check {
        let failures = foveate_daemon::check(&config.streams, None);
        if !failures.is_empty() {
            return Err(Failure::Streams(failures));
        }
        // The exit code suffices if standard output is closed.
        let _ = writeln!(io::stdout(), "the configuration is valid");
        return Ok(());
    }
    let asked_for = arguments.socket.as_deref().or(config.daemon.socket.as_deref());
    let socket = foveate::socket_path(asked_for);
    Ok(foveate_daemon::run(&config, masked, &socket, &read)?)
}
