//! The daemon: arguments, logging, exit code.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use foveate::config::{Config, ConfigError};
use foveate::daemon::{self, DaemonError};
use foveate::error::{chain, exit};
use foveate::redact::{self, Redacting};
use tracing_subscriber::EnvFilter;

/// Watches camera streams and publishes foveated tokens in shared memory.
#[derive(Debug, Parser)]
#[command(
    name = "foveated",
    version,
    after_help = "Exit codes: 0 stopped or every stream at its end, 1 failure, 2 wrong usage, 69 something is not there \
                  (a source, a device, the socket), 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket, FOVEATE_VALIDATION=1 the Vulkan \
                  validation layer."
)]
struct Arguments {
    /// The configuration [default: a test pattern as stream `camera`, view `main`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, and do no more
    #[arg(long)]
    check: bool,
    /// Where to serve [default: the configuration's, else $FOVEATE_SOCKET, else foveate.sock in $RUNTIME_DIRECTORY,
    /// $XDG_RUNTIME_DIR/foveate or /run/foveate]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_stderr();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("foveated: {}", redact::redacted(&chain(&failure)));
            ExitCode::from(match failure {
                Failure::Config(_) => exit::CONFIG,
                Failure::Daemon(error) => error.exit_code(),
            })
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::default()), Config::load)?;
    for secret in config.secrets() {
        redact::register(secret);
    }
    if arguments.check {
        println!("the configuration is fine");
        return Ok(());
    }
    let asked_for = arguments.socket.as_deref().or(config.daemon.socket.as_deref());
    let socket = foveate::control::socket_path(asked_for);
    Ok(daemon::run(&config, &socket)?)
}

/// Every line passes the redactor, whoever wrote it.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(|| Redacting::new(io::stderr()))
        .init();
}
