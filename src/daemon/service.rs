//! Notifications to the service manager (readiness, status, watchdog), and the socket that it passes.
//!
//! systemd's protocol: datagrams to `$NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::env;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use foveate_control::StreamListing;
use foveate_log::redact::redacted;
use foveate_server::directory::Directory;

pub(super) use self::activation::{ActivationError, passed_socket};
use self::status::status_text;

mod activation;
mod status;

/// Interval of status notifications.
const PERIOD: Duration = Duration::from_secs(1);

/// Interval of checks until the daemon is ready, short for the sake of units that wait for it.
const PERIOD_AT_START: Duration = Duration::from_millis(50);

/// Extension of the start timeout while a required stream has no frame.
const EXTENSION: Duration = Duration::from_secs(30);

/// Notifies the service manager.
#[derive(Debug)]
pub(super) struct ServiceNotifier {
    /// Whether `$NOTIFY_SOCKET` is set.
    has_socket: bool,
    /// Names of the streams that must have published a frame before the daemon is ready.
    required: Vec<String>,
    is_ready: bool,
    watchdog: Option<Watchdog>,
    status: String,
    status_due: Instant,
    extension_due: Instant,
    has_failed: bool,
}

/// The watchdog of the service manager, to be notified once a period.
#[derive(Debug)]
struct Watchdog {
    period: Duration,
    due: Instant,
}

impl ServiceNotifier {
    /// The service manager that the environment describes. The daemon is ready once each of the `required` streams has published a
    /// frame.
    pub(super) fn new(required: Vec<String>) -> Self {
        let now = Instant::now();
        let has_socket = env::var_os("NOTIFY_SOCKET").is_some();
        // Half the timeout, so that one late notification does no harm.
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

    /// Time until the next [`tick`](Self::tick) is due.
    pub(super) fn pause(&self) -> Duration {
        let period = if self.is_ready { PERIOD } else { PERIOD_AT_START };
        let watchdog = self.watchdog.as_ref().map(|watchdog| watchdog.due - Instant::now());
        watchdog.map_or(period, |due| due.min(period))
    }

    /// Sends the notifications that are due. To be called from the main loop once every stream has been started.
    ///
    /// `is_healthy` means that no thread of a stream is stuck in a call; waiting for a camera does not count. While it is false the
    /// watchdog is not notified, and the service manager restarts the daemon when its timeout expires.
    pub(super) fn tick(&mut self, directory: &Directory, is_healthy: bool) {
        let now = Instant::now();
        self.ping_watchdog(now, is_healthy);
        if self.is_ready && (!self.has_socket || now < self.status_due) {
            return;
        }
        let streams = directory.listings();
        let awaited: Vec<_> = self.awaited(&streams).map(str::to_owned).collect();
        if !self.is_ready && awaited.is_empty() {
            self.is_ready = true;
            self.send(&[NotifyState::Ready]);
        }
        self.extend_start(now);
        self.send_status(now, status_text(&streams, &awaited));
    }

    /// Whether the daemon is not ready and stream `name` is one of the reasons.
    pub(super) fn waits_for(&self, name: &str, directory: &Directory) -> bool {
        !self.is_ready && self.awaited(&directory.listings()).any(|awaited| awaited == name)
    }

    /// Notifies that the configuration is being reloaded.
    pub(super) fn reloading(&mut self) {
        // Not before it is ready; and systemd ignores the message without the time.
        if self.is_ready
            && let Ok(time) = NotifyState::monotonic_usec_now()
        {
            self.send(&[NotifyState::Reloading, time]);
        }
    }

    /// Notifies that the reload is complete.
    pub(super) fn reloaded(&mut self) {
        if self.is_ready {
            self.send(&[NotifyState::Ready]);
        }
    }

    /// Notifies that the daemon is shutting down.
    pub(super) fn stopping(&mut self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    fn ping_watchdog(&mut self, now: Instant, is_healthy: bool) {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.due <= now) else {
            return;
        };
        watchdog.due = now + watchdog.period;
        if is_healthy {
            self.send(&[NotifyState::Watchdog]);
        }
    }

    /// Extends the start timeout while a required stream waits for its camera.
    fn extend_start(&mut self, now: Instant) {
        if self.is_ready || now < self.extension_due {
            return;
        }
        // Renewed well before it expires.
        self.extension_due = now + EXTENSION / 3;
        let extension = u32::try_from(EXTENSION.as_micros()).unwrap_or(u32::MAX);
        self.send(&[NotifyState::ExtendTimeoutUsec(extension)]);
    }

    fn send_status(&mut self, now: Instant, status: String) {
        if now < self.status_due || status == self.status {
            return;
        }
        self.status_due = now + PERIOD;
        self.send(&[NotifyState::Status(&redacted(&status))]);
        self.status = status;
    }

    /// Names of the required streams that have not published a frame, sorted.
    fn awaited<'a>(&self, streams: &'a [StreamListing]) -> impl Iterator<Item = &'a str> {
        let is_awaited = |stream: &&StreamListing| {
            self.required.contains(&stream.name) && stream.counts.frames_published == 0
        };
        streams.iter().filter(is_awaited).map(|stream| stream.name.as_str())
    }

    fn send(&mut self, states: &[NotifyState<'_>]) {
        // Without the service manager's socket this does nothing.
        let result = sd_notify::notify(states);
        if let Err(error) = &result
            && !self.has_failed
        {
            tracing::warn!(%error, "cannot notify the service manager");
        }
        self.has_failed = result.is_err();
    }
}
