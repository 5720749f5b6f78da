//! One client of the server.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::limits::TokenBucket;
use super::{Fate, Limits};
use crate::control::directory::{StreamEntry, ViewEntry};
use crate::control::socket;
use crate::control::steering::Client;
use foveate::messages::{Epoch, Looking};
use foveate_control::accepted;

/// One client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) client: Client,
    pub(super) allowance: TokenBucket,
    pub(super) feedback_allowance: TokenBucket,
    pub(super) subscription: Option<Subscription>,
    /// What it waits for before it is heard again.
    pub(super) awaiting: Option<PendingAnswer>,
    /// Views that it has opened.
    pub(super) opened: usize,
}

/// What a client follows, and what it has been told of it.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) stream: Arc<StreamEntry>,
    pub(super) view: Arc<ViewEntry>,
    pub(super) epoch_told: Option<Epoch>,
    pub(super) end_told: bool,
    /// Asked for and not yet handed to the waker: the first notice must not overtake the answer.
    wants_notices: bool,
    wants_gazes: bool,
    /// Gazes of the view that were lost before.
    lost_before: u64,
}

/// A decision that a client waits for.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    pub(super) view: Arc<ViewEntry>,
    pub(super) ticket: u64,
    pub(super) looking: Looking,
    pub(super) until: Instant,
}

impl Connection {
    /// The `number`th connection, on `socket`.
    pub(super) fn new(socket: OwnedFd, number: u64, limits: Limits) -> Self {
        let name = peer_name(&socket);
        Self {
            socket,
            client: Client { number, name },
            allowance: TokenBucket::full(limits.requests_per_second),
            feedback_allowance: TokenBucket::full(limits.feedback_per_second),
            subscription: None,
            awaiting: None,
            opened: 0,
        }
    }

    /// The view whose gaze it records.
    pub(super) fn recorded(&self) -> Option<&Arc<ViewEntry>> {
        let subscription = self.subscription.as_ref()?;
        subscription.wants_gazes.then_some(&subscription.view)
    }

    /// Gazes that it should have been told and that were lost.
    pub(super) fn gazes_lost(&self) -> u64 {
        let lost = |subscription: &Subscription| {
            subscription.view.channel().gazes_lost() - subscription.lost_before
        };
        self.subscription.as_ref().map_or(0, lost)
    }

    /// Hands it to the waker if it wants notices, once it has its answer and its segment.
    pub(super) fn start_notices(&mut self) -> Fate {
        let Self { socket, subscription: Some(subscription), .. } = self else {
            return Fate::Keep;
        };
        if !std::mem::take(&mut subscription.wants_notices) {
            return Fate::Keep;
        }
        match socket.try_clone() {
            Ok(copy) => {
                if !subscription.view.channel().add_subscriber(copy) {
                    let view = subscription.view.name();
                    tracing::error!(%view, "a subscriber that was granted notices gets none");
                }
                Fate::Keep
            }
            Err(error) => {
                tracing::warn!(%error, "dropping a subscriber: no descriptor is left for its notices");
                Fate::Close
            }
        }
    }
}

impl Subscription {
    /// A client that has been told nothing.
    pub(super) fn new(
        stream: Arc<StreamEntry>,
        view: Arc<ViewEntry>,
        wants_notices: bool,
        wants_gazes: bool,
    ) -> Self {
        let lost_before = view.channel().gazes_lost();
        Self {
            stream,
            view,
            epoch_told: None,
            end_told: false,
            wants_notices,
            wants_gazes,
            lost_before,
        }
    }

    /// Why the view publishes no more, if so.
    pub(super) fn end_reason(&self) -> Option<String> {
        self.view.end_reason().or_else(|| self.stream.end_reason())
    }
}

impl PendingAnswer {
    /// Whether it has been decided, or has lasted too long.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now || self.view.channel().settled(self.ticket).is_some()
    }

    /// The answer: what it led to, if that is known.
    pub(super) fn answer(&self) -> Vec<u8> {
        let fixation = self.view.channel().settled(self.ticket);
        accepted(&Looking { fixation, ..self.looking.clone() })
    }
}

/// Who is at the other end, such as `process 4711 (python3)`.
fn peer_name(socket: &OwnedFd) -> String {
    let Some(pid) = socket::peer(socket).and_then(|peer| peer.process) else {
        return "a process of another namespace".to_owned();
    };
    let name = std::fs::read(format!("/proc/{pid}/comm"));
    let name = name.map(|name| format!(" ({})", printable(&name))).unwrap_or_default();
    format!("process {pid}{name}")
}

/// A name that its process chose, such that it does nothing to a terminal.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
