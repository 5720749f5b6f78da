//! The daemon_run of `foveated`: sockets, one thread for each stream, signals, and an end.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, tick, unbounded};
use nix::unistd::Group;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::control::ServeError;
use crate::control::directory::{Directory, StreamSpec};
use crate::control::server::{Access, AdminServer, Limits, PendingAdminRequest, Server};
use crate::stream::{BackendError, Backends, GazeLogError, StreamError};
use foveate_capture::{CaptureError, Source, SourceSpec};
use foveate_config::CalibrationError;
use foveate_config::{Config, ConfigError, DaemonConfig, StreamConfig};
use foveate_control::admin_path;
use foveate_core::error::exit;
use foveate_engine::pool::Pool;

use self::health::HealthLog;
use self::metrics::Metrics;
use self::service::{ActivationError, ServiceNotifier};
use self::supervisor::Supervisor;

mod admin_requests;
pub mod channel;
pub mod control;
mod frame_loop;
mod health;
mod metrics;
mod running;
pub mod service;
pub mod stream;
mod supervisor;
mod views;

/// How often it is looked whether a stream is stuck.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// Why the daemon ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The socket cannot be served.
    #[error(transparent)]
    Control(#[from] ServeError),
    /// The socket that the service manager passed cannot be used.
    #[error(transparent)]
    Activation(#[from] ActivationError),
    /// The group of the socket is not there.
    #[error(
        "socket_group: there is no group {group} on this system: add it, or configure another one"
    )]
    NoGroup {
        /// Its name.
        group: String,
    },
    /// Metrics cannot be served.
    #[error(
        "daemon.metrics: cannot listen at {address}: choose a free port of an address of this machine"
    )]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
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
    Backend(#[from] BackendError),
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
            Self::Stream { .. } | Self::Control(_) | Self::Activation(_) | Self::Metrics { .. } => {
                exit::UNAVAILABLE
            }
        }
    }
}

/// What wakes the daemon.
enum Event {
    /// Somebody wants it to end.
    Signal,
    /// Somebody wants it to read its configuration again.
    Reload,
    /// A stream is over.
    StreamEnded {
        /// Its name.
        name: String,
        /// By which the supervisor knows it.
        number: u64,
        /// What came of it.
        result: Result<(), StreamFailure>,
    },
}

/// Reads the configuration anew.
pub type Reread<'a> = dyn Fn() -> Result<Config, ConfigError> + 'a;

/// Runs every stream of `config` and serves `socket` and the [admin socket](admin_path) beside it, until a signal comes or
/// every stream has ended. SIGHUP, or an operator, has it `reread` the configuration, and brings the streams to what that says.
///
/// # Errors
///
/// If a socket cannot be served, or a stream failed and no other is left.
pub fn run(config: &Config, socket: &Path, reread: &Reread<'_>) -> Result<(), DaemonError> {
    let threads = config.daemon.threads.map(|threads| threads as usize);
    let backends = Backends::new(Arc::new(Pool::of_threads(threads)));
    let (sender, events) = unbounded();
    let system = |what| move |source| DaemonError::System { what, source };
    forward_signals(sender.clone()).map_err(system("cannot wait for signals"))?;
    let directory = Directory::new().map_err(system("cannot make an event descriptor"))?;
    let mut supervisor = Supervisor::new(Arc::clone(&directory), backends, sender);
    // Before the first client can ask for them.
    let listed: Vec<_> = config.streams.iter().map(|stream| supervisor.list(stream)).collect();
    // Before any camera is opened, so that a second daemon does not disturb the first.
    let server = serve(config, socket, Arc::clone(&directory))?;
    let (requests, requested) = unbounded();
    let admin = AdminServer::bind(&admin_path(server.path()), requests)?;

    let serve_metrics = |address| Metrics::serve(address, server.tally());
    let _metrics = config.daemon.metrics.map(serve_metrics).transpose()?;

    for (stream, port) in config.streams.iter().zip(listed) {
        supervisor.start(stream.clone(), port);
    }
    let (daemon, service) = (config.daemon.clone(), ServiceNotifier::new(required(config)));
    let mut daemon_run = Daemon { supervisor, daemon, reread, service, outcome: Ok(()) };
    daemon_run.run(&events, &requested, &directory);
    let Daemon { supervisor, mut service, outcome, .. } = daemon_run;
    service.stopping();
    supervisor.stop();
    drop(admin);
    server.stop();
    tracing::info!("stopped");
    outcome
}

/// Serves the socket that the service manager passed, or else makes one.
fn serve(config: &Config, socket: &Path, directory: Arc<Directory>) -> Result<Server, DaemonError> {
    let limits = Limits::default();
    Ok(match service::passed_socket()? {
        Some(passed) => Server::adopt(passed, directory, limits)?,
        None => Server::bind(socket, directory, access(&config.daemon)?, limits)?,
    })
}

/// Names of the streams that the daemon is not ready without.
fn required(config: &Config) -> Vec<String> {
    let required = config.streams.iter().filter(|stream| stream.required);
    required.map(|stream| stream.name.clone()).collect()
}

/// The daemon while it runs.
struct Daemon<'a> {
    supervisor: Supervisor,
    /// What concerns it as a whole, as it was at its start.
    daemon: DaemonConfig,
    reread: &'a Reread<'a>,
    service: ServiceNotifier,
    /// The first failure of a stream.
    outcome: Result<(), DaemonError>,
}

impl Daemon<'_> {
    /// Does what comes, until a signal comes, no stream is left, or one that is required ends before its first frame. Says
    /// meanwhile where one is stuck, and tells the service manager.
    fn run(
        &mut self,
        events: &Receiver<Event>,
        requests: &Receiver<PendingAdminRequest>,
        directory: &Directory,
    ) {
        let mut health = HealthLog::default();
        let looks = tick(HEALTH_PERIOD);
        loop {
            self.service.tick(directory, directory.health().is_ok());
            select! {
                recv(events) -> event => match event {
                    Ok(Event::StreamEnded { name, number, result }) => {
                        let is_missed = self.service.waits_for(&name, directory);
                        let is_meant = self.note_end(name, number, result);
                        // Not where an operator removed the last one: another may be added.
                        let is_last = self.supervisor.running() == 0 && events.is_empty();
                        if is_meant && (is_missed || is_last) {
                            return;
                        }
                    }
                    Ok(Event::Reload) => self.reload_and_log(),
                    Ok(Event::Signal) | Err(_) => {
                        self.outcome = Ok(());
                        return;
                    }
                },
                recv(requests) -> pending => if let Ok(pending) = pending {
                    let answer = self.carry_out(&pending.request);
                    // An operator may have left.
                    let _ = pending.answer.send(answer);
                },
                recv(looks) -> _ => health.look(directory),
                default(self.service.pause()) => {}
            }
        }
    }

    /// Notes that a stream is over. Says whether it was one that is still meant.
    fn note_end(&mut self, name: String, number: u64, result: Result<(), StreamFailure>) -> bool {
        if !self.supervisor.note_end(&name, number) {
            return false;
        }
        if let Err(source) = result {
            if 0 < self.supervisor.running() {
                supervisor::log_failure(&name, &source);
            }
            if self.outcome.is_ok() {
                self.outcome = Err(DaemonError::Stream { stream: name, source });
            }
        }
        true
    }
}

/// Makes sure that the streams can be: their pipelines, the gaze logs that their views replay, and calibrations. A camera or
/// server may be away.
///
/// # Errors
///
/// If a pipeline cannot work, or a file cannot be read or is none.
pub fn check<'a>(streams: impl IntoIterator<Item = &'a StreamConfig>) -> Result<(), DaemonError> {
    for stream in streams {
        let failed = |source| DaemonError::Stream { stream: stream.name.clone(), source };
        running::plans(stream).and_then(|_| running::camera(stream)).map_err(failed)?;
        Source::check(&SourceSpec::from(stream)).map_err(|error| failed(error.into()))?;
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

/// A thread that turns signals into events.
fn forward_signals(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Signal };
            let means = if signal == SIGHUP { "reloading" } else { "stopping" };
            tracing::info!(signal, means, "a signal came");
            if events.send(event).is_err() {
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
        source: foveate_log::redact::redacted(&config.source.text()),
        views: config.views.clone(),
    }
}
