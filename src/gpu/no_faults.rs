//! Empty replacement of `faults.rs` in release builds.

pub(super) struct Faults;

impl Faults {
    pub(super) fn from_env() -> Self {
        Self
    }

    pub(super) fn loses_submission(&self) -> bool {
        false
    }

    pub(super) fn has_no_calibration(&self) -> bool {
        false
    }
}
