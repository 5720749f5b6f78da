//! Limits on clients, and the token bucket that enforces their rates.

use std::time::Instant;

/// Limits on clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub clients: usize,
    /// Requests a second from one connection, and the largest burst; it is closed beyond that.
    pub requests_per_second: u32,
    /// Feedback a second from one connection, and the largest burst; more is refused.
    pub feedback_per_second: u32,
    /// Views that one connection may open.
    pub views_per_client: usize,
    /// Views that all clients together may open.
    pub views_opened: usize,
    /// Tokens a frame of all opened views together, which bounds their cost.
    pub opened_tokens: usize,
    /// Bytes of the rings of all opened views together.
    pub opened_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 64,
            requests_per_second: 200,
            feedback_per_second: 60,
            views_per_client: 4,
            views_opened: 16,
            opened_tokens: 4096,
            opened_bytes: 256 << 20,
        }
    }
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

    /// Takes one request, if one is left.
    pub(super) fn take(&mut self, now: Instant, requests_per_second: u32) -> bool {
        let limit = f64::from(requests_per_second);
        let refill = now.duration_since(self.refilled_at).as_secs_f64() * limit;
        self.requests = (self.requests + refill).min(limit);
        self.refilled_at = now;
        let allowed = 1.0 <= self.requests;
        if allowed {
            self.requests -= 1.0;
        }
        allowed
    }
}
