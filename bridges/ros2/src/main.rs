//! `foveate-ros2`: arguments, logging, exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use clap::Parser;
use foveate::messages::ViewName;
use foveate::socket_path;
use foveate_core::error::{chain, exit};
use foveate_log::redact::{printable, redacted};
use foveate_ros2::graph::Node;
use foveate_ros2::view::View;
use foveate_zenoh::session::{self, Endpoints, SessionError};
use signal_hook::consts::{SIGINT, SIGTERM};
use zenoh::Wait;

/// Publish views of `foveated` as topics of ROS 2, as /foveate/STREAM/VIEW/compressed, camera_info and tokens, and look where
/// /foveate/STREAM/VIEW/look says. ROS must use rmw_zenoh.
#[derive(Debug, Parser)]
#[command(
    name = "foveate-ros2",
    version,
    after_help = "docs/guide/ros.md is the guide.\n\
                  Exit codes: 0 stopped by a signal, 1 failure, 2 wrong usage, 69 Zenoh is unavailable, 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket, ROS_DOMAIN_ID the domain."
)]
struct Arguments {
    /// The views, as `foveate ls` names them; they may appear later
    #[arg(value_name = "STREAM/VIEW", required = true)]
    views: Vec<ViewName>,
    /// The daemon's socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY,
    /// $XDG_RUNTIME_DIR/foveate and /run/foveate]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The router of rmw_zenoh
    #[arg(long, value_name = "ENDPOINT", default_value = "tcp/localhost:7447")]
    connect: Vec<String>,
    /// A configuration of Zenoh in JSON5
    #[arg(long, value_name = "FILE")]
    zenoh_config: Option<PathBuf>,
    /// The domain
    #[arg(long, value_name = "NUMBER", env = "ROS_DOMAIN_ID", default_value_t = 0)]
    domain: usize,
    /// Name of the node
    #[arg(long, value_name = "NAME", default_value = "foveate")]
    node: String,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("Zenoh refuses: {0}")]
    Zenoh(String),
    #[error("cannot watch for signals, or start a thread")]
    System(#[from] io::Error),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log = foveate_log::to_journal_or_stderr("info,zenoh=warn");
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.flush();
            // Fails if standard error is closed.
            let text = printable(&redacted(&chain(&failure)));
            let _ = writeln!(io::stderr(), "foveate-ros2: {text}");
            ExitCode::from(match failure {
                Failure::Session(SessionError::Config(_)) => exit::CONFIG,
                Failure::Session(SessionError::Open(_)) => exit::UNAVAILABLE,
                Failure::Zenoh(_) | Failure::System(_) => exit::FAILURE,
            })
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { views, socket, connect, zenoh_config, domain, node } = arguments;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let socket = socket_path(socket.as_deref());
    let endpoints = Endpoints { connect, listen: &[], file: zenoh_config.as_deref() };
    let session = session::open(&endpoints)?;
    let refused = |error: zenoh::Error| Failure::Zenoh(error.to_string());
    let node = Node::join(&session, *domain, node).map_err(refused)?;
    let mut threads = Vec::new();
    for name in views {
        let view = View::declare(&node, name, &socket).map_err(refused)?;
        let stop = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_string());
        threads.push(thread.spawn(move || view.run(&stop))?);
    }
    tracing::info!("publishing as /foveate/STREAM/VIEW");
    let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    if let Err(error) = session.close().wait() {
        tracing::debug!("Zenoh was not closed: {error}");
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::Zenoh(format!("{failed} views met a bug, see above")))
    }
}
