//! What the service manager is told: that the daemon is ready, how it fares, and that it lives; and the socket that it passes.
//!
//! systemd's protocol: datagrams to `$NOTIFY_SOCKET`. Without one nobody is told anything.

use std::env;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::control::directory::Directory;
use foveate_control::StreamListing;
use foveate_log::redact::redacted;

pub use self::activation::{ActivationError, passed_socket};
pub use self::status::status_text;

mod activation;
mod status;

/// How often it is looked how the streams fare.
const PERIOD: Duration = Duration::from_secs(1);

/// The same until the daemon is ready, so that what waits for it does not wait for long.
const PERIOD_AT_START: Duration = Duration::from_millis(50);

/// By how much the time to start is extended while a required stream has no frame.
const EXTENSION: Duration = Duration::from_secs(30);

/// What the service manager knows of this daemon.
#[derive(Debug)]
pub struct ServiceNotifier {
    /// Nobody listens without a socket to tell them.
    has_socket: bool,
    /// Names of the streams that the daemon is not ready without.
    required: Vec<String>,
    is_ready: bool,
    watchdog: Option<Watchdog>,
    status: String,
    status_due: Instant,
    extension_due: Instant,
    has_failed: bool,
}

/// The sign of life that the service manager waits for.
#[derive(Debug)]
struct Watchdog {
    period: Duration,
    due: Instant,
}

impl ServiceNotifier {
    /// The service manager as the environment describes it. The daemon is not ready before each of the `required` streams has
    /// published a frame.
    pub fn new(required: Vec<String>) -> Self {
        let now = Instant::now();
        let has_socket = env::var_os("NOTIFY_SOCKET").is_some();
        // Half, so that one sign that comes late is not the last.
        let watchdog =
            sd_notify::watchdog_enabled().map(|limit| Watchdog { period: limit / 2, due: now });
        Self {
            has_socket,
            required,
            is_ready: false,
            watchdog: watchdog.filter(|_| has_socket),
            status: String::new(),
            status_due: now,
            extension_due: now,
            has_failed: false,
        }
    }

    /// How long [`ServiceNotifier::tick`] may be put off.
    pub fn pause(&self) -> Duration {
        let period = if self.is_ready { PERIOD } else { PERIOD_AT_START };
        let watchdog = self.watchdog.as_ref().map(|watchdog| watchdog.due - Instant::now());
        watchdog.map_or(period, |due| due.min(period))
    }

    /// Tells what is due. Call it when every stream was started, and then again and again: whoever calls it lives.
    ///
    /// `every_stage_moves` says that no thread of a stream is stuck in a call; a stream that waits for its camera is not. While
    /// it is false no sign of life is given, and the service manager restarts the daemon when its patience is over.
    pub fn tick(&mut self, directory: &Directory, every_stage_moves: bool) {
        let now = Instant::now();
        self.ping_watchdog(now, every_stage_moves);
        if self.is_ready && (!self.has_socket || now < self.status_due) {
            return;
        }
        let streams = directory.listings();
        let awaited: Vec<_> = self.awaited(&streams).map(str::to_owned).collect();
        if !self.is_ready && awaited.is_empty() {
            self.is_ready = true;
            self.tell(&[NotifyState::Ready]);
        }
        self.extend_start(now);
        self.tell_status(now, status_text(&streams, &awaited));
    }

    /// Whether the daemon is not ready because stream `name` has not published a frame.
    pub fn waits_for(&self, name: &str, directory: &Directory) -> bool {
        !self.is_ready && self.awaited(&directory.listings()).any(|awaited| awaited == name)
    }

    /// Says that the configuration is being read again.
    pub fn reloading(&mut self) {
        // Before it is ready nobody expects that, and without its time the message would not count.
        if self.is_ready
            && let Ok(time) = NotifyState::monotonic_usec_now()
        {
            self.tell(&[NotifyState::Reloading, time]);
        }
    }

    /// Says that what [`ServiceNotifier::reloading`] began is over.
    pub fn reloaded(&mut self) {
        if self.is_ready {
            self.tell(&[NotifyState::Ready]);
        }
    }

    /// Says that the daemon ends by itself or because it was asked to.
    pub fn stopping(&mut self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    fn ping_watchdog(&mut self, now: Instant, every_stage_moves: bool) {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.due <= now) else {
            return;
        };
        watchdog.due = now + watchdog.period;
        if every_stage_moves {
            self.tell(&[NotifyState::Watchdog]);
        }
    }

    /// Has the service manager wait on where it is waited for a camera.
    fn extend_start(&mut self, now: Instant) {
        if self.is_ready || now < self.extension_due {
            return;
        }
        // Again long before it is over.
        self.extension_due = now + EXTENSION / 3;
        let extension = u32::try_from(EXTENSION.as_micros()).unwrap_or(u32::MAX);
        self.tell(&[NotifyState::ExtendTimeoutUsec(extension)]);
    }

    fn tell_status(&mut self, now: Instant, status: String) {
        if now < self.status_due || status == self.status {
            return;
        }
        self.status_due = now + PERIOD;
        self.tell(&[NotifyState::Status(&redacted(&status))]);
        self.status = status;
    }

    /// Required streams that no frame of was ever published, in the order of their names.
    fn awaited<'a>(&self, streams: &'a [StreamListing]) -> impl Iterator<Item = &'a str> {
        let is_awaited = |stream: &&StreamListing| {
            self.required.contains(&stream.name) && stream.frames_published == 0
        };
        streams.iter().filter(is_awaited).map(|stream| stream.name.as_str())
    }

    fn tell(&mut self, states: &[NotifyState<'_>]) {
        // Without a socket it does nothing.
        let result = sd_notify::notify(states);
        if let Err(error) = &result
            && !self.has_failed
        {
            tracing::warn!(%error, "cannot reach the service manager");
        }
        self.has_failed = result.is_err();
    }
}
