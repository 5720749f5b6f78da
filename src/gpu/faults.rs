//! Faults that tests cause: in debug builds, and in release builds with the feature `fault-injection`. Others have none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(any(debug_assertions, feature = "fault-injection"))]
use super::device::Gpu;

/// Every device is lost after this many submissions.
const INJECT_DEVICE_LOSS: &str = "FOVEATE_INJECT_DEVICE_LOSS";

/// The faults of a device.
pub(super) struct Faults {
    /// Submissions until the device is lost, or `u64::MAX`.
    submits_left: AtomicU64,
    has_no_calibration: AtomicBool,
}

impl Faults {
    /// The faults that the environment asks for, if this build injects faults.
    pub(super) fn from_env() -> Self {
        let injects = cfg!(any(debug_assertions, feature = "fault-injection"));
        let submits_left = if injects { submits_until_injected_loss() } else { u64::MAX };
        Self {
            submits_left: AtomicU64::new(submits_left),
            has_no_calibration: AtomicBool::new(false),
        }
    }

    /// Counts a submission. Whether it fails as after a device loss.
    pub(super) fn loses_submission(&self) -> bool {
        let left = self.submits_left.update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.saturating_sub(u64::from(left != u64::MAX))
        });
        left == 0
    }

    /// Whether timestamps are converted as on a device without calibrated timestamps.
    pub(super) fn has_no_calibration(&self) -> bool {
        self.has_no_calibration.load(Ordering::Relaxed)
    }
}

#[cfg(any(debug_assertions, feature = "fault-injection"))]
impl Gpu {
    /// Makes every submission fail from now on as after a device loss.
    ///
    /// `FOVEATE_INJECT_DEVICE_LOSS=N` in the environment does so for every device after N submissions, including those that warm up
    /// passes.
    pub fn inject_device_loss(&self) {
        self.inject_device_loss_after(0);
    }

    /// Makes every submission fail as after a device loss, from `submissions` submissions on.
    pub fn inject_device_loss_after(&self, submissions: u64) {
        self.faults.submits_left.store(submissions, Ordering::Relaxed);
    }

    /// Converts timestamps from now on as on a device without calibrated timestamps.
    pub fn forget_calibration(&self) {
        self.faults.has_no_calibration.store(true, Ordering::Relaxed);
    }
}

/// The value of [`INJECT_DEVICE_LOSS`], or never.
fn submits_until_injected_loss() -> u64 {
    let Ok(value) = std::env::var(INJECT_DEVICE_LOSS) else { return u64::MAX };
    value.parse().unwrap_or_else(|_| {
        tracing::warn!(
            "ignoring {INJECT_DEVICE_LOSS}={value:?} (expected a number of submissions)"
        );
        u64::MAX
    })
}
