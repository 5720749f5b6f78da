//! Exponential back-off: growing pauses between retries.

use std::time::Duration;

/// Exponential backoff with jitter: pauses double with every failure up to a limit, each varied at random by up to a quarter, so
/// that simultaneous failures are not retried simultaneously.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Pauses of about `first`, doubling up to about `longest`; `seed` determines the jitter.
    pub fn new(first: Duration, longest: Duration, seed: u64) -> Self {
        Self { first, longest, failures: 0, random: seed }
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a failure and returns the pause before the next try.
    pub fn after_failure(&mut self) -> Duration {
        let doublings = self.failures.min(u32::BITS - 1);
        self.failures = self.failures.saturating_add(1);
        let pause = self.first.saturating_mul(1 << doublings).min(self.longest);
        pause.mul_f64(0.75 + 0.5 * self.next_fraction())
    }

    /// Resets the pause after a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Uniform in [0, 1), by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    fn next_fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let mixed = mixed ^ (mixed >> 31);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The next retry, in words: the `attempt`th since the last success, from 1, after `pause`.
pub fn next_try(pause: Duration, attempt: u32) -> String {
    let suffix = match (attempt % 10, attempt % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("trying again in {:.1} s ({attempt}{suffix} time)", pause.as_secs_f64())
}
