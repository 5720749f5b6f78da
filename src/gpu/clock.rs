//! The clock of a device, and its calibration against the CPU's.

use std::fmt;

use ash::vk;

use super::error::{GpuError, VkResultExt};
use super::instance::Instance;

/// Tick counter of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TickClock {
    /// Valid bits of a timestamp.
    mask: u64,
    /// Nanoseconds per tick.
    period_ns: f64,
}

impl TickClock {
    /// A clock with `valid_bits`; `None` for 0, by which a queue says that it has no timestamps.
    pub(super) fn new(valid_bits: u32, period_ns: f32) -> Option<Self> {
        let mask = u64::MAX.checked_shr(u64::BITS - valid_bits)?;
        Some(Self { mask, period_ns: f64::from(period_ns) })
    }

    /// Nanoseconds between two readings; the counter may have wrapped once in between.
    #[expect(clippy::cast_possible_truncation, reason = "the float is positive and saturates")]
    pub(super) fn ns_between(self, earlier_ticks: u64, later_ticks: u64) -> u64 {
        let ticks = later_ticks.wrapping_sub(earlier_ticks) & self.mask;
        (ticks as f64 * self.period_ns).round() as u64
    }
}

/// Simultaneous readings of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) ticks: u64,
    pub(super) monotonic_ns: u64,
}

/// Clock of an open device, with its calibration.
pub(super) struct DeviceClock {
    pub(super) ticks: TickClock,
    /// `None` if the device lacks the extension.
    calibrated: Option<ash::ext::calibrated_timestamps::Device>,
}

impl DeviceClock {
    /// The clock of `device`. `is_calibrated` says whether the device was opened with the extension.
    pub(super) fn new(
        instance: &Instance,
        device: &ash::Device,
        ticks: TickClock,
        is_calibrated: bool,
    ) -> Self {
        let functions = || ash::ext::calibrated_timestamps::Device::new(&instance.raw, device);
        let calibrated = is_calibrated.then(functions);
        Self { ticks, calibrated }
    }

    pub(super) fn calibrate(&self) -> Option<Anchor> {
        let functions = self.calibrated.as_ref()?;
        let domains = [vk::TimeDomainKHR::DEVICE, vk::TimeDomainKHR::CLOCK_MONOTONIC];
        let infos =
            domains.map(|domain| vk::CalibratedTimestampInfoKHR::default().time_domain(domain));
        let (mut times, mut deviation_ns) = ([0; 2], 0);
        let call = functions.fp().get_calibrated_timestamps_ext;
        // ash's own wrapper allocates.
        // SAFETY: the device has the extension and both domains, and there is room for two times and the deviation.
        let result = unsafe {
            call(functions.device(), 2, infos.as_ptr(), times.as_mut_ptr(), &raw mut deviation_ns)
        };
        let [ticks, monotonic_ns] = times;
        (result == vk::Result::SUCCESS).then_some(Anchor { ticks, monotonic_ns })
    }
}

impl fmt::Debug for DeviceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceClock").field("ticks", &self.ticks).finish_non_exhaustive()
    }
}

/// Whether a device with the extension can read its clock together with CLOCK_MONOTONIC.
pub(super) fn can_calibrate(
    instance: &Instance,
    device: vk::PhysicalDevice,
) -> Result<bool, GpuError> {
    let functions = ash::ext::calibrated_timestamps::Instance::new(instance.entry(), &instance.raw);
    // SAFETY: the device was enumerated from this instance, and has the extension.
    let domains = unsafe { functions.get_physical_device_calibrateable_time_domains(device) }
        .during("vkGetPhysicalDeviceCalibrateableTimeDomainsEXT")?;
    let wanted = [vk::TimeDomainKHR::DEVICE, vk::TimeDomainKHR::CLOCK_MONOTONIC];
    Ok(wanted.iter().all(|domain| domains.contains(domain)))
}

#[cfg(test)]
mod tests {
    use super::TickClock;

    #[test]
    fn ticks_are_counted_in_their_bits_and_their_length() {
        assert_eq!(TickClock::new(0, 1.0), None);
        let clock = TickClock::new(64, 1.0).expect("a clock");
        assert_eq!(clock.ns_between(5, 1_000_000_005), 1_000_000_000);
        assert_eq!(clock.ns_between(u64::MAX - 2, 7), 10, "a clock that wraps");
        // NVIDIA and AMD count in these steps.
        assert_eq!(TickClock::new(64, 32.0).expect("a clock").ns_between(10, 20), 320);
        assert_eq!(TickClock::new(64, 10.0).expect("a clock").ns_between(10, 110), 1000);
        let narrow = TickClock::new(36, 2.5).expect("a clock");
        assert_eq!(narrow.ns_between((1 << 36) - 4, 4), 20, "36 bits that wrap");
        assert_eq!(
            narrow.ns_between(0xABC << 36 | 100, 0xDEF << 36 | 104),
            10,
            "bits beyond the 36"
        );
    }
}
