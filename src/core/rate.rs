//! Fewer frames than there are, where fewer are asked for: of a source, or for a view.

use std::time::Duration;

/// Chooses frames so that they are an interval apart on average.
///
/// A frame is taken when it is due, and the next one is due an interval after this one was, not after it came. So a source that
/// gives just as many frames as are asked for, and not quite regularly, loses one and no more.
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval_ns: u64,
    /// When the next frame is due, in the time of the stream; `None` before the first.
    due_ns: Option<u64>,
}

impl RateLimit {
    /// A limit of one frame in `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX), due_ns: None }
    }

    /// Whether the frame of `time_ns` is taken. Where time jumps, either way, it begins anew.
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
