//! How often a client may ask.

use std::time::Instant;

/// A token bucket: requests that a client may send at once, refilled over time.
#[derive(Debug)]
pub(super) struct Allowance {
    requests: f64,
    refilled_at: Instant,
}

impl Allowance {
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
