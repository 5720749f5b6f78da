//! How exact CLOCK_REALTIME is, as the kernel's clock discipline promises, and how often it was set.
//!
//! chrony, ntpd, systemd-timesyncd and phc2sys (for PTP) tell the kernel how far off the clock may be: `maxerror` of `adjtimex(2)`,
//! which the kernel lets grow by 500 ppm until the next word. Slewing changes CLOCK_REALTIME and CLOCK_MONOTONIC equally, so their
//! difference stays; it changes when CLOCK_REALTIME is set, by a leap second, and by a sleep of the machine.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use foveate_core::clock;

/// Interval of reading the clock.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Smaller changes of the difference of both clocks cannot be told from the time between reading one and the other.
const STEP_MIN_NS: u64 = 2_000_000;

/// Readings that were interrupted for longer are tried again.
const READING_MAX_NS: u64 = 50_000;
const READINGS_MAX: u32 = 5;

/// CLOCK_MONOTONIC and CLOCK_REALTIME, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub unix_ns: u64,
}

impl ClockSample {
    /// Now.
    pub fn now() -> Self {
        Self { monotonic_ns: clock::monotonic_ns(), unix_ns: clock::unix_ns() }
    }

    /// This sample moved by `to_ns` - `from_ns`; `None` outside the range of either clock.
    pub fn shifted(self, from_ns: u64, to_ns: u64) -> Option<Self> {
        let shift = |ns: u64| match to_ns.checked_sub(from_ns) {
            Some(later) => ns.checked_add(later),
            None => ns.checked_sub(from_ns - to_ns),
        };
        Some(Self { monotonic_ns: shift(self.monotonic_ns)?, unix_ns: shift(self.unix_ns)? })
    }
}

/// Both clocks and the error bound of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clocks.
    pub clocks: ClockSample,
    /// Nanoseconds between reading CLOCK_MONOTONIC first and last.
    pub took_ns: u64,
    /// Bound of the error of CLOCK_REALTIME in nanoseconds; `None` if the clock is not synchronised, or the bound is unknown.
    pub error_ns: Option<u64>,
}

impl Reading {
    /// Reads the clocks of this machine.
    pub fn now() -> Self {
        let mut best = None::<(ClockSample, u64)>;
        for _ in 0..READINGS_MAX {
            let clocks = ClockSample::now();
            let took_ns = clock::monotonic_ns() - clocks.monotonic_ns;
            if best.is_none_or(|(_, least_ns)| took_ns < least_ns) {
                best = Some((clocks, took_ns));
            }
            if took_ns <= READING_MAX_NS {
                break;
            }
        }
        let (clocks, took_ns) = best.expect("read at least once");
        Self { clocks, took_ns, error_ns: kernel_error_ns() }
    }
}

/// Watches CLOCK_REALTIME. Any thread may read it, and no reader waits.
#[derive(Debug, Default)]
pub struct WallClock {
    /// Next reading, on CLOCK_MONOTONIC in nanoseconds.
    next_ns: AtomicU64,
    /// Bound of the error of the clock in nanoseconds; 0 if it is unknown.
    error_ns: AtomicU64,
    steps: AtomicU64,
    /// The newest reading; never contended, because a thread that finds it locked goes on without it.
    newest: Mutex<Option<Reading>>,
}

/// The state of CLOCK_REALTIME: error bound and steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockQuality {
    /// Bound of the clock's error in nanoseconds; 0 if it is unknown.
    pub error_ns: u64,
    /// How often the clock was set since the process started.
    pub steps: u64,
}

impl WallClock {
    /// The clock of this process.
    pub fn of_process() -> &'static Self {
        static CLOCK: WallClock = WallClock {
            next_ns: AtomicU64::new(0),
            error_ns: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            newest: Mutex::new(None),
        };
        &CLOCK
    }

    /// The state at `monotonic_ns`; reads the clock again once a second.
    pub fn quality(&self, monotonic_ns: u64, read: impl FnOnce() -> Reading) -> ClockQuality {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        let is_due = next_ns <= monotonic_ns;
        let after_ns = monotonic_ns.saturating_add(INTERVAL_NS);
        // One of the threads that come here at a time reads the clock.
        if is_due
            && self
                .next_ns
                .compare_exchange(next_ns, after_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.note(read());
        }
        self.known()
    }

    /// The state at the last reading of the clock.
    pub fn known(&self) -> ClockQuality {
        ClockQuality {
            error_ns: self.error_ns.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }

    fn note(&self, reading: Reading) {
        let Some(mut newest) = self.newest.try_lock() else { return };
        self.error_ns.store(reading.error_ns.unwrap_or(0), Ordering::Relaxed);
        let Some(before) = newest.replace(reading) else { return };
        let step_ns = difference_ns(reading.clocks) - difference_ns(before.clocks);
        let doubt_ns = STEP_MIN_NS + reading.took_ns + before.took_ns;
        if doubt_ns < u64::try_from(step_ns.unsigned_abs()).unwrap_or(u64::MAX) {
            self.steps.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                by_s = step_ns as f64 / 1e9,
                "CLOCK_REALTIME was set: only times since 1970 jump"
            );
        }
    }
}

fn difference_ns(clocks: ClockSample) -> i128 {
    i128::from(clocks.unix_ns) - i128::from(clocks.monotonic_ns)
}

/// Bound of the error of CLOCK_REALTIME by the kernel's word, in nanoseconds; `None` if it is not synchronised, or asking is
/// forbidden, as it is in some containers.
#[expect(unsafe_code, reason = "neither rustix nor nix has adjtimex")]
fn kernel_error_ns() -> Option<u64> {
    let mut asked = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: the pointer is valid for writes, and with `modes` 0 the kernel changes nothing but what it points to.
    let state = unsafe { libc::adjtimex(asked.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which zeros are valid, and the kernel only writes integers.
    let timex = unsafe { asked.assume_init() };
    if state < 0 || state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0 {
        return None;
    }
    // 0 means unknown, so raise it: phc2sys reports 0 right after it has set the clock.
    let microseconds = u64::try_from(timex.maxerror).ok()?.max(1);
    Some(microseconds * 1000)
}

#[cfg(test)]
mod tests;
