//! `foveate-zenoh`: arguments, logging, exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use foveate::messages::ViewName;
use foveate::socket_path;
use foveate_core::error::{chain, exit};
use foveate_log::redact::{printable, redacted};
use foveate_zenoh::session::{self, Endpoints, SessionError};
use foveate_zenoh::steering::Steering;
use foveate_zenoh::view::{Settings, View};
use signal_hook::consts::{SIGINT, SIGTERM};
use zenoh::Wait;

/// Publish views of `foveated` over Zenoh, as foveate/HOST/STREAM/VIEW, and let consumers there steer them.
#[derive(Debug, Parser)]
#[command(
    name = "foveate-zenoh",
    version,
    after_help = "It reads as any reader does, waits for a daemon that is not there, and never delays one. docs/guide/fleet.md is the \
                  guide.\n\
                  Exit codes: 0 stopped by a signal, 1 failure, 2 wrong usage, 69 Zenoh is unavailable, 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket."
)]
struct Arguments {
    /// The views, as `foveate ls` names them; they may appear later
    #[arg(value_name = "STREAM/VIEW", required = true)]
    views: Vec<ViewName>,
    /// The daemon's socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY,
    /// $XDG_RUNTIME_DIR/foveate and /run/foveate]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Name of this machine in the keys [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// A router or peer to connect to, such as tls/router.example:7447; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    connect: Vec<String>,
    /// An address to listen on for readers without a router, such as tcp/127.0.0.1:7447; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// A configuration of Zenoh in JSON5, for TLS, access control and more; without one, others are met only where --connect and
    /// --listen say
    #[arg(long, value_name = "FILE")]
    zenoh_config: Option<PathBuf>,
    /// Publish a whole frame each COUNT messages, whatever changed: 1 leaves nothing out, 0 sends one when a reader asks
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    whole_every: u64,
    /// Refuse to steer the views
    #[arg(long)]
    read_only: bool,
    /// Interval of publishing counts and state, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    status_every: u64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "--connect, --listen or --zenoh-config is expected: nobody is met without being asked for"
    )]
    NoEndpoint,
    #[error("--host {0:?} is not part of a key: letters, digits, `.`, `_` and `-` are allowed")]
    Host(String),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("Zenoh refuses: {0}")]
    Zenoh(String),
    #[error("cannot watch for signals, or start a thread")]
    System(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoEndpoint | Self::Host(_) => exit::USAGE,
            Self::Session(SessionError::Config(_)) => exit::CONFIG,
            Self::Session(SessionError::Open(_)) => exit::UNAVAILABLE,
            Self::Zenoh(_) | Self::System(_) => exit::FAILURE,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = foveate_log::to_journal_or_stderr("info,zenoh=warn");
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.flush();
            // Fails if standard error is closed.
            let text = printable(&redacted(&chain(&failure)));
            let _ = writeln!(io::stderr(), "foveate-zenoh: {text}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { views, socket, host, connect, listen, zenoh_config, .. } = arguments;
    if connect.is_empty() && listen.is_empty() && zenoh_config.is_none() {
        return Err(Failure::NoEndpoint);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let socket = socket_path(socket.as_deref());
    let settings = Settings {
        socket: socket.clone(),
        host: checked_host(host)?,
        run: run_number(),
        whole_every: arguments.whole_every,
        status_every: Duration::from_secs(arguments.status_every),
    };
    let endpoints = Endpoints { connect: &connect, listen: &listen, file: zenoh_config.as_deref() };
    let session = session::open(&endpoints)?;
    let steering = (!arguments.read_only).then(|| Arc::new(Steering::new(socket)));
    let mut threads = Vec::new();
    for name in &views {
        let view = View::declare(&session, name, &settings, steering.as_ref())
            .map_err(|error| Failure::Zenoh(error.to_string()))?;
        let stop = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_string());
        threads.push(thread.spawn(move || view.run(&stop))?);
    }
    tracing::info!("publishing as foveate/{}/STREAM/VIEW", settings.host);
    let count = threads.len();
    let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    if let Err(error) = session.close().wait() {
        tracing::debug!("Zenoh was not closed: {error}");
    }
    if stop.load(Ordering::Relaxed) && failed == 0 {
        return Ok(());
    }
    Err(Failure::Zenoh(format!("{failed} of {count} views met a bug, see above")))
}

fn checked_host(host: Option<String>) -> Result<String, Failure> {
    let host = match host {
        Some(host) => host,
        None => std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned(),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if host.is_empty() || !host.chars().all(is_allowed) {
        return Err(Failure::Host(host));
    }
    Ok(host)
}

/// A number that differs between runs: the nanosecond of the start.
fn run_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
