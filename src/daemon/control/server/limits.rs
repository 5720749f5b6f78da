//! How much clients may ask for, and how often.

use std::time::Instant;

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub clients: usize,
    /// Requests that one connection may send in a second, and at once; beyond them it is closed.
    pub requests_per_second: u32,
    /// Feedback that one connection may send in a second, and at once; beyond it is refused.
    pub feedback_per_second: u32,
    /// Views that one connection may open.
    pub views_per_client: usize,
    /// Views that all of them may open.
    pub views_opened: usize,
    /// Tokens a frame of the views that all of them may open: what they cost every frame.
    pub opened_tokens: usize,
    /// Bytes of the rings of views that all of them may open.
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

/// A token bucket: requests that a client may send at once, refilled over time.
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
