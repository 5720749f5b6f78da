//! One client of the server, and the log of those that connect.

use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::ServerLimits;
use super::limits::TokenBucket;
use crate::channel::ClientChannel;
use crate::directory::{StreamEntry, ViewEntry};
use crate::lease::ClientIdentity;
use crate::socket;
use foveate::client::SubscribeOptions;
use foveate::messages::{Epoch, Looking};
use foveate_control::accepted;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) client: ClientIdentity,
    pub(super) since: Instant,
    /// Whether the client has sent a request.
    pub(super) has_asked: bool,
    pub(super) request_bucket: TokenBucket,
    pub(super) feedback_bucket: TokenBucket,
    pub(super) subscription: Option<ViewSubscription>,
    /// The answer that must be sent before the next request is read.
    pub(super) pending_answer: Option<PendingAnswer>,
    /// Number of views that the client has opened.
    pub(super) opened: usize,
}

/// The view that a client follows, and what it has been sent.
#[derive(Debug)]
pub(super) struct ViewSubscription {
    pub(super) stream: Arc<StreamEntry>,
    pub(super) view: Arc<ViewEntry>,
    pub(super) sent_epoch: Option<Epoch>,
    pub(super) sent_end: bool,
    /// Whether notices start after the answer, which they must not overtake.
    wants_notices: bool,
    /// Gaze changes that were lost before it subscribed to them; `None` if it does not want them.
    pub(super) gazes_lost_before: Option<u64>,
    /// Events that were lost before the client subscribed to them; `None` without a subscription.
    pub(super) events_lost_before: Option<u64>,
}

/// An answer to feedback that waits for the gaze to account for it.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    pub(super) view: Arc<ViewEntry>,
    pub(super) ticket: u64,
    pub(super) looking: Looking,
    pub(super) until: Instant,
}

impl Connection {
    /// The `number`th connection, on `socket`.
    pub(super) fn new(socket: OwnedFd, number: u64, limits: ServerLimits) -> Self {
        let peer = socket::peer(&socket);
        let user = peer.map_or(u32::MAX, |peer| peer.user);
        let name = peer_name(peer.and_then(|peer| peer.process));
        Self {
            socket,
            client: ClientIdentity { number, user, name },
            since: Instant::now(),
            has_asked: false,
            request_bucket: TokenBucket::full(limits.requests_per_second),
            feedback_bucket: TokenBucket::full(limits.feedback_per_second),
            subscription: None,
            pending_answer: None,
            opened: 0,
        }
    }

    /// Starts notices if they were requested. To be called between the answer and the segment. Breaks if the connection has to be
    /// closed.
    pub(super) fn start_notices(&mut self) -> ControlFlow<()> {
        let Self { socket, subscription: Some(subscription), .. } = self else {
            return Continue(());
        };
        if !std::mem::take(&mut subscription.wants_notices) {
            return Continue(());
        }
        match socket.try_clone() {
            Ok(copy) => {
                if !subscription.view.channel().add_subscriber(copy) {
                    let view = subscription.view.name();
                    tracing::error!(%view, "a subscriber gets no notices although it was granted them");
                }
                Continue(())
            }
            Err(error) => {
                tracing::warn!(%error, "dropping a subscriber: too many open files for its notices");
                Break(())
            }
        }
    }
}

impl ViewSubscription {
    /// The subscription of a client that has been sent nothing yet.
    pub(super) fn new(
        stream: Arc<StreamEntry>,
        view: Arc<ViewEntry>,
        wants: SubscribeOptions,
    ) -> Self {
        let ClientChannel { gazes, events, .. } = view.channel();
        let gazes_lost_before = wants.gaze.then(|| gazes.lost());
        let events_lost_before = wants.events.then(|| events.lost());
        Self {
            stream,
            view,
            sent_epoch: None,
            sent_end: false,
            wants_notices: wants.notify,
            gazes_lost_before,
            events_lost_before,
        }
    }

    /// Why the view has ended, if it has.
    pub(super) fn end_reason(&self) -> Option<String> {
        self.view.channel().end_reason().or_else(|| self.stream.end_reason())
    }
}

impl PendingAnswer {
    /// Whether the feedback has taken effect, or the wait has timed out.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.until <= now || self.view.channel().settled(self.ticket).is_some()
    }

    /// The answer, with the resulting fixations if there are any.
    pub(super) fn answer(&self) -> Vec<u8> {
        let fixations = self.view.channel().settled(self.ticket).unwrap_or_default().to_vec();
        accepted(&Looking { fixations, ..self.looking.clone() })
    }
}

/// Clients a second that are logged.
const LOGGED_PER_SECOND: u32 = 5;

/// Logs a line for each client that connects, up to a rate.
#[derive(Debug)]
pub(super) struct ConnectionLog {
    bucket: TokenBucket,
    /// Clients since the last line that were not logged.
    unlogged: u64,
}

impl ConnectionLog {
    pub(super) fn new() -> Self {
        Self { bucket: TokenBucket::full(LOGGED_PER_SECOND), unlogged: 0 }
    }

    pub(super) fn note(&mut self, connection: &Connection) {
        if !self.bucket.try_spend(Instant::now(), LOGGED_PER_SECOND, 1) {
            self.unlogged += 1;
            return;
        }
        let peer = socket::peer(&connection.socket);
        let (user, group) = (peer.map(|peer| peer.user), peer.map(|peer| peer.group));
        let client = &connection.client.name;
        let unlogged_before = std::mem::take(&mut self.unlogged);
        tracing::info!(client, user, group, unlogged_before, "a client has connected");
    }
}

/// The peer's process, such as `process 4711 (python3)`.
fn peer_name(process: Option<i32>) -> String {
    let Some(pid) = process else { return "a process of another namespace".to_owned() };
    let name = std::fs::read(format!("/proc/{pid}/comm"));
    let name = name.map(|name| format!(" ({})", printable(&name))).unwrap_or_default();
    format!("process {pid}{name}")
}

/// A process's name without control characters, which could act on a terminal.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
