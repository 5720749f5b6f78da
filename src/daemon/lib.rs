//! `foveated`: its sockets, a thread for each stream, signals, and shutdown.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select, tick, unbounded};
use nix::unistd::Group;
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::stream::{BackendError, Backends, PolicyFileError, ServedView, StreamError};
use foveate_capture::{CaptureError, Source, SourceSpec};
use foveate_config::CalibrationError;
use foveate_config::{Config, ConfigError, DaemonConfig, StreamConfig};
use foveate_control::admin_path;
use foveate_core::error::{chain, exit};
use foveate_engine::pool::Pool;
use foveate_log::redact::{SecretMask, redacted};
use foveate_server::ServeError;
use foveate_server::directory::{Directory, StreamSpec};
use foveate_server::server::{
    AdminServer, PendingAdminRequest, Server, ServerLimits, SocketAccess,
};
use foveate_source::Masks;

use self::health::log_stuck;
use self::service::{ActivationError, ServiceNotifier};
use self::supervisor::Supervisor;

mod admin_requests;
mod depth;
mod frame_loop;
mod health;
pub mod metrics;
mod running;
mod service;
pub mod stream;
mod supervisor;
mod views;

/// Interval between checks for stuck streams.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// Why the daemon failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The socket cannot be served.
    #[error(transparent)]
    Control(#[from] ServeError),
    /// The socket that the service manager passed cannot be used.
    #[error(transparent)]
    Activation(#[from] ActivationError),
    /// The group of the socket does not exist.
    #[error("socket_group: unknown group {group}: add it, or configure another one")]
    NoGroup {
        /// Name of the group.
        group: String,
    },
    /// The address of the metrics cannot be listened on.
    #[error(
        "daemon.metrics: cannot listen on {address}: choose an address of this machine and a free port"
    )]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed that the daemon cannot do without.
    #[error("{what}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Every stream has ended; this one was the first to fail.
    #[error("stream {stream}")]
    Stream {
        /// Name of the stream.
        stream: String,
        /// Why the stream failed.
        source: StreamFailure,
    },
}

/// Why a stream failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFailure {
    /// The source delivers no frames.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The depth source cannot be used.
    #[error("its depth")]
    Depth(#[source] CaptureError),
    /// The configured backend is not available.
    #[error("no backend for the stream")]
    Backend(#[from] BackendError),
    /// The gaze log that a view replays cannot be read.
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    /// The calibration of the camera cannot be used.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// The frames cannot be published.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The thread of the stream could not be started.
    #[error("cannot start a thread: raise the limit of threads (ulimit -u, TasksMax=)")]
    NoThread(#[source] io::Error),
    /// The stream's frame loop hit a bug; the log has the location.
    #[error("its frame loop panicked: this is a bug; please report the log")]
    Panicked,
}

impl DaemonError {
    /// The exit code: 69 if something is unavailable, 78 if the configuration is wrong, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Stream {
                source: StreamFailure::Capture(error) | StreamFailure::Depth(error),
                ..
            } => error.exit_code(),
            Self::Stream {
                source: StreamFailure::Policy(_) | StreamFailure::Calibration(_),
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

enum DaemonEvent {
    /// SIGTERM or SIGINT.
    Signal,
    /// SIGHUP.
    Reload,
    StreamEnded {
        name: String,
        /// Number of the stream in the supervisor.
        number: u64,
        result: Result<(), StreamFailure>,
    },
}

/// Runs every stream of `config` and serves `socket` and the [admin socket](admin_path) beside it, until a signal arrives or
/// every stream has ended. On SIGHUP, or an operator's request, it applies the configuration that `reread` returns.
///
/// `masked` is [what is secret](masked) in `config`; once the streams have started, each masks its own until it is removed.
///
/// # Errors
///
/// If a socket cannot be served, or every stream has ended and one failed.
pub fn run(
    config: &Config,
    masked: &mut Vec<SecretMask>,
    socket: &Path,
    reread: &dyn Fn() -> Result<Config, ConfigError>,
) -> Result<(), DaemonError> {
    let threads = config.daemon.threads.map(|threads| threads as usize);
    let backends = Backends::new(Arc::new(Pool::of_threads(threads)));
    let (sender, events) = unbounded();
    let system = |what| move |source| DaemonError::System { what, source };
    forward_signals(sender.clone()).map_err(system("cannot wait for signals"))?;
    let directory = Directory::new().map_err(system("cannot make an event descriptor"))?;
    let mut supervisor = Supervisor::new(Arc::clone(&directory), backends, sender);
    // Register the streams before the first client can ask for them.
    let ports: Vec<_> =
        config.streams.iter().map(|stream| supervisor.register(stream, None)).collect();
    // Before any camera is opened, so that a second daemon does not disturb the first.
    let server = serve(config, socket, Arc::clone(&directory))?;
    let (request_sender, requests) = unbounded();
    let admin = AdminServer::bind(&admin_path(server.path()), request_sender)?;

    let serve_metrics =
        |address| metrics::serve(address, &config.daemon.metrics_hosts, Arc::clone(server.stats()));
    let _metrics = config.daemon.metrics.map(serve_metrics).transpose()?;

    for (stream, port) in config.streams.iter().zip(ports) {
        supervisor.start(stream.clone(), port);
    }
    masked.truncate(1);
    let (daemon_config, service) = (config.daemon.clone(), ServiceNotifier::new(required(config)));
    let mut daemon = Daemon { supervisor, config: daemon_config, reread, service, outcome: Ok(()) };
    daemon.run(&events, &requests, &directory);
    let Daemon { supervisor, mut service, outcome, .. } = daemon;
    service.stopping();
    supervisor.stop();
    drop(admin);
    server.stop();
    tracing::info!("stopped");
    outcome
}

/// Serves the socket that the service manager passed, or else creates one.
fn serve(config: &Config, socket: &Path, directory: Arc<Directory>) -> Result<Server, DaemonError> {
    let limits = ServerLimits::default();
    Ok(match service::passed_socket()? {
        Some(passed) => Server::adopt(passed, directory, limits)?,
        None => Server::bind(socket, directory, access(&config.daemon)?, limits)?,
    })
}

/// Names of the streams that must have published a frame before the daemon is ready.
fn required(config: &Config) -> Vec<String> {
    let required = config.streams.iter().filter(|stream| stream.required);
    required.map(|stream| stream.name.clone()).collect()
}

/// The daemon while it runs.
struct Daemon<'a> {
    supervisor: Supervisor,
    /// `[daemon]` as it was at the start.
    config: DaemonConfig,
    /// Reads the configuration again.
    reread: &'a dyn Fn() -> Result<Config, ConfigError>,
    service: ServiceNotifier,
    /// The first failure of a stream.
    outcome: Result<(), DaemonError>,
}

impl Daemon<'_> {
    /// Handles events and admin requests until a signal arrives, no stream is left, or a required one ends before its first frame.
    /// Meanwhile logs stuck streams and notifies the service manager.
    fn run(
        &mut self,
        events: &Receiver<DaemonEvent>,
        requests: &Receiver<PendingAdminRequest>,
        directory: &Directory,
    ) {
        let mut logged = BTreeMap::new();
        let health_checks = tick(HEALTH_PERIOD);
        loop {
            self.service.tick(directory, directory.is_healthy());
            select! {
                recv(events) -> event => match event {
                    Ok(DaemonEvent::StreamEnded { name, number, result }) => {
                        let is_required = self.service.waits_for(&name, directory);
                        let is_managed = self.note_end(name, number, result);
                        // After an operator has removed the last stream another may be added.
                        let is_last = self.supervisor.running() == 0 && events.is_empty();
                        if is_managed && (is_required || is_last) {
                            return;
                        }
                    }
                    Ok(DaemonEvent::Reload) => self.reload_and_log(),
                    Ok(DaemonEvent::Signal) | Err(_) => {
                        self.outcome = Ok(());
                        return;
                    }
                },
                recv(requests) -> pending => if let Ok(pending) = pending {
                    let answer = self.carry_out(&pending.request);
                    // The operator may have disconnected.
                    let _ = pending.answer.send(answer);
                },
                recv(health_checks) -> _ => log_stuck(&mut logged, directory),
                default(self.service.pause()) => {}
            }
        }
    }

    /// Notes the end of a stream; false if it had been removed or restarted.
    fn note_end(&mut self, name: String, number: u64, result: Result<(), StreamFailure>) -> bool {
        if !self.supervisor.note_end(&name, number) {
            return false;
        }
        if let Err(source) = result {
            if 0 < self.supervisor.running() {
                tracing::warn!(
                    stream = name,
                    reason = chain(&source),
                    "the stream failed; others continue"
                );
            }
            if self.outcome.is_ok() {
                // The error is shown when the daemon ends, perhaps long after a reload has dropped the stream.
                self.supervisor.redact_permanently(&name);
                self.outcome = Err(DaemonError::Stream { stream: name, source });
            }
        }
        true
    }
}

/// Checks what the streams need: their pipelines, calibrations, and the gaze logs that their views replay. A camera or server may
/// be unavailable. A source gets its own timeout, and no longer than until `deadline`. Returns all that is wrong: a pipeline that cannot
/// work, a file that cannot be read or is invalid, [`CaptureError::CapsTimeout`] if a source does not answer.
pub fn check<'a>(
    streams: impl IntoIterator<Item = &'a StreamConfig>,
    deadline: Option<Instant>,
) -> Vec<DaemonError> {
    let streams: Vec<_> = streams.into_iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(stream) = streams.get(index) else { break };
            let failed = |source| DaemonError::Stream { stream: stream.name.clone(), source };
            let failures: Vec<_> = failures_of(stream, deadline).into_iter().map(failed).collect();
            found.lock().insert(index, failures);
        }
    };
    // A source process takes a tenth of a second to start.
    let workers = thread::available_parallelism().map_or(1, usize::from).min(streams.len());
    thread::scope(|scope| {
        for _ in 1..workers {
            // If a thread cannot be started, the others do its work.
            let _ = thread::Builder::new().name("check".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().into_values().flatten().collect()
}

/// The reasons why `stream` would fail.
fn failures_of(stream: &StreamConfig, deadline: Option<Instant>) -> Vec<StreamFailure> {
    let check = |spec: &SourceSpec| {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Source::check(spec, spec.caps_timeout.min(left.unwrap_or(Duration::MAX))).err()
    };
    let views = stream.views.iter().filter_map(|view| ServedView::try_from(view).err());
    let mut found: Vec<_> = views.map(StreamFailure::from).collect();
    found.extend(running::camera(stream).err());
    found.extend(check(&stream.source()).map(StreamFailure::from));
    let depth = stream.depth_source();
    found.extend(depth.and_then(|spec| check(&spec)).map(StreamFailure::Depth));
    found
}

/// Users that may connect to the socket.
fn access(config: &DaemonConfig) -> Result<SocketAccess, DaemonError> {
    let group = config.socket_group.as_deref().map(group_number).transpose()?;
    Ok(SocketAccess { mode: config.socket_mode, group })
}

/// The ID of a group that is given by its name or ID.
fn group_number(group: &str) -> Result<u32, DaemonError> {
    if group.bytes().all(|byte| byte.is_ascii_digit()) {
        // The greatest number means "no group" to the system.
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

/// Starts a thread that turns signals into events.
fn forward_signals(events: Sender<DaemonEvent>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            let event = if signal == SIGHUP { DaemonEvent::Reload } else { DaemonEvent::Signal };
            let means = if signal == SIGHUP { "reloading" } else { "stopping" };
            tracing::info!(signal, means, "received a signal");
            if events.send(event).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}

/// Masks what is secret in a configuration: first in all but its streams, then in each stream.
pub fn masked(config: &Config) -> Vec<SecretMask> {
    let streams = config.streams.iter().map(masked_of);
    [SecretMask::new(config.secrets())].into_iter().chain(streams).collect()
}

/// Masks what is secret in the configuration of a stream.
fn masked_of(stream: &StreamConfig) -> SecretMask {
    let depth = stream.depth.as_ref();
    let texts =
        [stream.capture.source.text()].into_iter().chain(depth.map(|depth| depth.source.text()));
    let texts: Vec<_> = texts.collect();
    let parameters = depth.into_iter().flat_map(|depth| depth.parameters.values());
    let texts = texts.iter().chain(stream.capture.parameters.values()).chain(parameters);
    texts.fold(SecretMask::new(&stream.secrets), |masked, text| masked.and_credentials_in(text))
}

fn stream_spec(config: &StreamConfig, masks: Arc<Masks>) -> StreamSpec {
    StreamSpec {
        masks,
        name: config.name.clone(),
        source: redacted(&config.capture.source.text()),
        views: config.views.clone(),
        is_recording: false,
    }
}
