//! Frame rate limits.

use std::time::Duration;

/// Selects frames so that they are an interval apart on average.
///
/// The due time advances by an interval from the last due time, not from the frame's: a source at just the requested rate, with
/// some jitter, loses at most one frame.
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval_ns: u64,
    /// When the next frame is due, in stream time; `None` before the first.
    due_ns: Option<u64>,
}

impl RateLimit {
    /// A limit of one frame per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX), due_ns: None }
    }

    /// Whether to take the frame at `time_ns`. Starts over where stream time jumps, either way.
    pub fn takes(&mut self, time_ns: u64) -> bool {
        let after = |due_ns: u64| due_ns.saturating_add(self.interval_ns);
        let next_ns = match self.due_ns {
            Some(due_ns) if time_ns < due_ns && due_ns <= after(time_ns) => return false,
            Some(due_ns) if due_ns <= time_ns && time_ns < after(after(due_ns)) => {
                after(due_ns).max(time_ns)
            }
            _ => after(time_ns),
        };
        self.due_ns = Some(next_ns);
        true
    }
}
