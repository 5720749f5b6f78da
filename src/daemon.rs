//! The life of `foveated`: sockets, one thread for each stream, signals, and an end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::unistd::Group;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::camera::{CalibrationError, Camera};
use crate::capture::CaptureError;
use crate::config::{Config, DaemonConfig, StreamConfig};
use crate::control::ControlError;
use crate::control::directory::{Directory, StreamSpec};
use crate::control::server::{Access, Limits, Server};
use crate::error::exit;
use crate::stream::{Backends, GazeLogError, RetinaError, StreamError, ViewPlan};

use self::frame_loop::FrameLoop;

mod frame_loop;
mod views;

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
            Self::Stream { source: StreamFailure::Panicked, .. } | Self::System { .. } => {
                exit::FAILURE
            }
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

    let stop = Arc::new(AtomicBool::new(false));
    let backends = Backends::default();
    let mut loops = Vec::new();
    for (stream, port) in config.streams.iter().zip(ports) {
        let chosen = backends.choose(stream.backend, stream.device.as_deref());
        let chosen = chosen.and_then(|backend| backend.finding_changes_on(stream.change_on));
        match chosen
            .map_err(StreamFailure::from)
            .and_then(|backend| Ok((backend, plans(stream)?, camera(stream)?)))
        {
            Ok((backend, plans, camera)) => {
                let frame_loop =
                    FrameLoop::new(stream, backend, port, plans, camera, Arc::clone(&stop));
                let frame_loop = frame_loop.map_err(system("cannot start a thread"))?;
                let spawned = spawn(&stream.name, frame_loop, &sender);
                loops.push(spawned.map_err(system("cannot start a thread"))?);
            }
            Err(error) => {
                port.ended(&crate::error::chain(&error));
                // The channel lives as long as this function.
                let _ = sender.send(Event::StreamEnded(stream.name.clone(), Err(error)));
            }
        }
    }

    let outcome = await_end(&events, config.streams.len());
    stop.store(true, Ordering::Relaxed);
    for frame_loop in loops {
        if frame_loop.join().is_err() {
            tracing::error!("a frame loop panicked");
        }
    }
    server.stop();
    tracing::info!("stopped");
    outcome
}

/// Waits for a signal, or for the last of `running` streams. The first failure is the outcome then.
fn await_end(events: &Receiver<Event>, mut running: usize) -> Result<(), DaemonError> {
    let mut outcome = Ok(());
    while let Ok(event) = events.recv() {
        let Event::StreamEnded(stream, result) = event else { return Ok(()) };
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
    if group.bytes().all(|byte| byte.is_ascii_digit()) {
        // The greatest number means none to the system.
        let number = group.parse().ok().filter(|number| *number != u32::MAX);
        return number.ok_or_else(|| DaemonError::NoGroup { group: group.to_owned() });
    }
    match Group::from_name(group) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(DaemonError::NoGroup { group: group.to_owned() }),
        Err(errno) => {
            Err(DaemonError::System { what: "cannot look for the group", source: errno.into() })
        }
    }
}

/// The views of a stream, with the gaze logs that they replay.
fn plans(stream: &StreamConfig) -> Result<Vec<ViewPlan>, StreamFailure> {
    Ok(stream.views.iter().map(ViewPlan::try_from).collect::<Result<_, _>>()?)
}

/// The camera of a stream, with its calibration.
fn camera(stream: &StreamConfig) -> Result<Option<Camera>, StreamFailure> {
    Ok(stream.camera.as_ref().map(|camera| camera.load(&stream.name)).transpose()?)
}

fn spawn(
    stream: &str,
    frame_loop: FrameLoop,
    events: &Sender<Event>,
) -> io::Result<JoinHandle<()>> {
    let (name, events) = (stream.to_owned(), events.clone());
    thread::Builder::new().name(format!("frames-{name}")).spawn(move || {
        let result = frame_loop.run();
        // Nobody listens once a signal came.
        let _ = events.send(Event::StreamEnded(name, result));
    })
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
