//! The life of `foveated`: sockets, one thread for each stream, signals, and an end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use nix::unistd::Group;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::camera::CalibrationError;
use crate::capture::CaptureError;
use crate::config::{Config, DaemonConfig, StreamConfig};
use crate::control::ControlError;
use crate::control::directory::{Directory, StreamSpec};
use crate::control::server::{Access, Limits, Server};
use crate::error::exit;
use crate::stream::{Backends, GazeLogError, RetinaError, StreamError};

use self::health::HealthLog;
use self::running::{RunningStream, camera, plans};

mod frame_loop;
mod health;
mod running;
mod views;

/// How often it is looked whether a stream is stuck.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// Why the daemon ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The socket cannot be served.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The group of the socket is not there.
    #[error(
        "socket_group: there is no group {group} on this system: add it, or configure another one"
    )]
    NoGroup {
        /// Its name.
        group: String,
    },
    /// The system refused something that the daemon cannot do without.
    #[error("{what}")]
    System {
        /// What it was for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Every stream has ended, and this one was the first that failed.
    #[error("stream {stream}")]
    Stream {
        /// Name of the stream.
        stream: String,
        /// Why it failed.
        source: StreamFailure,
    },
}

/// Why a stream failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFailure {
    /// Its source gives no frames.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Its backend is not there.
    #[error("no backend for the stream")]
    Backend(#[from] RetinaError),
    /// What one of its views was to look at cannot be read.
    #[error(transparent)]
    GazeLog(#[from] GazeLogError),
    /// The calibration of its camera cannot be used.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// Its frames cannot be published.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The system gives it no thread.
    #[error("the system gives it no thread")]
    NoThread(#[source] io::Error),
    /// Its frame loop hit a bug; the log has the place.
    #[error("its frame loop panicked: this is a bug, please report the log")]
    Panicked,
}

impl DaemonError {
    /// The exit code that says so: 69 where something is not there, 78 where the configuration is wrong, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Stream { source: StreamFailure::Capture(error), .. } => error.exit_code(),
            Self::Stream {
                source: StreamFailure::GazeLog(_) | StreamFailure::Calibration(_),
                ..
            } => exit::CONFIG,
            Self::NoGroup { .. } => exit::CONFIG,
            Self::Stream {
                source: StreamFailure::Panicked | StreamFailure::NoThread(_), ..
            }
            | Self::System { .. } => exit::FAILURE,
            Self::Stream { .. } | Self::Control(_) => exit::UNAVAILABLE,
        }
    }
}

/// What wakes the daemon.
enum Event {
    /// Somebody wants it to end.
    Signal,
    /// The stream of this name is over.
    StreamEnded(String, Result<(), StreamFailure>),
}

/// Runs every stream of `config` and serves `socket`, until a signal comes or every stream has ended.
///
/// # Errors
///
/// If the socket cannot be served, or a stream failed and no other is left.
pub fn run(config: &Config, socket: &Path) -> Result<(), DaemonError> {
    let (sender, events) = unbounded();
    let system = |what| move |source| DaemonError::System { what, source };
    forward_signals(sender.clone()).map_err(system("cannot wait for signals"))?;
    let directory = Directory::new().map_err(system("cannot make an event descriptor"))?;
    // Before the first client can ask for them.
    let ports: Vec<_> =
        config.streams.iter().map(|stream| directory.add_stream(stream_spec(stream))).collect();
    // Before any camera is opened, so that a second daemon does not disturb the first.
    let access = access(&config.daemon)?;
    let server = Server::bind(socket, Arc::clone(&directory), access, Limits::default())?;

    let backends = Backends::default();
    let mut streams = Vec::new();
    for (stream, port) in config.streams.iter().zip(ports) {
        let (name, ended) = (stream.name.clone(), sender.clone());
        let started = RunningStream::start(stream, port, &backends, move |result| {
            // Nobody listens once a signal came.
            let _ = ended.send(Event::StreamEnded(name, result));
        });
        match started {
            Ok(running) => streams.push(running),
            // The channel lives as long as this function.
            Err(error) => drop(sender.send(Event::StreamEnded(stream.name.clone(), Err(error)))),
        }
    }

    let outcome = await_end(&events, config.streams.len(), &directory);
    for stream in &streams {
        stream.stop("the daemon stops");
    }
    streams.into_iter().for_each(RunningStream::join);
    server.stop();
    tracing::info!("stopped");
    outcome
}

/// Waits for a signal, or for the last of `running` streams. The first failure is the outcome then. Says meanwhile where a
/// stream is stuck.
fn await_end(
    events: &Receiver<Event>,
    mut running: usize,
    directory: &Directory,
) -> Result<(), DaemonError> {
    let (mut outcome, mut health) = (Ok(()), HealthLog::default());
    loop {
        let (stream, result) = match events.recv_timeout(HEALTH_PERIOD) {
            Ok(Event::StreamEnded(stream, result)) => (stream, result),
            Ok(Event::Signal) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                health.look(directory);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        running -= 1;
        if let Err(source) = result {
            if 0 < running {
                tracing::warn!(
                    stream,
                    reason = crate::error::chain(&source),
                    "the stream failed; others go on"
                );
            }
            outcome = outcome.and(Err(DaemonError::Stream { stream, source }));
        }
        if running == 0 {
            break;
        }
    }
    outcome
}

/// Reads what the streams of `config` need besides: the gaze logs that their views replay, and calibrations.
///
/// # Errors
///
/// If one cannot be read, or is none.
pub fn check(config: &Config) -> Result<(), DaemonError> {
    for stream in &config.streams {
        let failed = |source| DaemonError::Stream { stream: stream.name.clone(), source };
        plans(stream).and_then(|_| camera(stream)).map_err(failed)?;
    }
    Ok(())
}

/// Who may connect to the socket.
fn access(config: &DaemonConfig) -> Result<Access, DaemonError> {
    let group = config.socket_group.as_deref().map(group_number).transpose()?;
    Ok(Access { mode: config.socket_mode, group })
}

/// The number of a group that is given by its name or its number.
fn group_number(group: &str) -> Result<u32, DaemonError> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    match Group::from_name(group) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(DaemonError::NoGroup { group: group.to_owned() }),
        Err(errno) => {
            Err(DaemonError::System { what: "cannot look for the group", source: errno.into() })
        }
    }
}

/// A thread that turns the signals that end a daemon into events.
fn forward_signals(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            tracing::info!(signal, "stopping");
            if events.send(Event::Signal).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}

/// What listings show of a stream before it delivers.
fn stream_spec(config: &StreamConfig) -> StreamSpec {
    StreamSpec {
        name: config.name.clone(),
        source: crate::redact::redacted(&config.source.text()),
        views: config.views.clone(),
    }
}
