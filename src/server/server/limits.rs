//! Limits on clients, how users share them, and the token bucket that enforces rates.

use std::time::Instant;

use rustix::process::geteuid;

/// Limits on clients. What all clients share is shared among users: of connections, opened views, their tokens and their bytes, and of
/// a view's injected channels and weights, one user may have half, and all together seven eighths. The rest is kept for the daemon's own user and root, who may have all.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at a time.
    pub clients: usize,
    /// Requests a second from one connection, and the largest burst; it is closed beyond that. One with more than a KiB of JSON
    /// counts once for each KiB begun.
    pub requests_per_second: u32,
    /// Feedback a second from one connection, and the largest burst; more is refused.
    pub feedback_per_second: u32,
    /// Views that one connection may open.
    pub views_per_client: usize,
    /// Views that all clients together may open.
    pub views_opened: usize,
    /// Tokens a frame of all opened views together. With the cost it bounds the time that they cost.
    pub opened_tokens: usize,
    /// [Cost of a frame](foveate_config::ViewConfig::frame_cost) of all opened views together, in bytes.
    pub opened_frame_cost: usize,
    /// Bytes of the rings of all opened views together.
    pub opened_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            clients: 64,
            requests_per_second: 200,
            feedback_per_second: 60,
            views_per_client: 4,
            views_opened: 16,
            opened_tokens: 4096,
            opened_frame_cost: 12 << 20,
            opened_bytes: 256 << 20,
        }
    }
}

/// The part of `whole` that is left for `user` where users share it. `held` says which users hold how much.
pub(crate) fn left_for(
    user: u32,
    whole: usize,
    held: impl IntoIterator<Item = (u32, usize)>,
) -> usize {
    let (mut all, mut strangers, mut own) = (0, 0, 0);
    for (holder, amount) in held {
        all += amount;
        strangers += if is_trusted(holder) { 0 } else { amount };
        own += if holder == user { amount } else { 0 };
    }
    let left = whole.saturating_sub(all);
    if is_trusted(user) {
        return left;
    }
    let left_for_strangers = (whole - whole / 8).saturating_sub(strangers);
    left.min(left_for_strangers).min((whole / 2).saturating_sub(own))
}

/// Whether a user may have all: the daemon's own user and root.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// A token bucket whose burst is the rate of one second.
#[derive(Debug)]
pub(super) struct TokenBucket {
    requests: f64,
    refilled_at: Instant,
}

impl TokenBucket {
    pub(super) fn full(requests_per_second: u32) -> Self {
        Self { requests: f64::from(requests_per_second), refilled_at: Instant::now() }
    }

    /// Takes a request that counts as `cost`, if so much is left; a full bucket is enough for any.
    pub(super) fn try_spend(
        &mut self,
        now: Instant,
        requests_per_second: u32,
        cost: usize,
    ) -> bool {
        let limit = f64::from(requests_per_second);
        let refill = now.duration_since(self.refilled_at).as_secs_f64() * limit;
        self.requests = (self.requests + refill).min(limit);
        self.refilled_at = now;
        let cost = (cost as f64).min(limit);
        let allowed = cost <= self.requests;
        if allowed {
            self.requests -= cost;
        }
        allowed
    }
}
