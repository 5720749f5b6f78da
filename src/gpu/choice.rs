//! Device enumeration, requirements and choice.

use std::ffi::CStr;
use std::fmt;

use ash::vk;

use super::clock::{TickClock, can_calibrate};
use super::error::{GpuError, VkResultExt};
use super::host_memory::can_import;
use super::instance::{API_VERSION, Instance};

/// Storage images bound by one pass; the ingest pass writes six levels.
const STORAGE_IMAGES: u32 = 6;

/// Most storage buffers bound by one pass.
const STORAGE_BUFFERS: u32 = 5;

/// Invocations of the largest workgroup, which the reduce pass has.
const GROUP_INVOCATIONS: u32 = 256;

/// Type of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the memory of the CPU.
    Integrated,
    /// A GPU provided by a hypervisor.
    Virtual,
    /// Software on the CPU.
    Software,
    /// Something else.
    Other,
}

impl DeviceKind {
    fn from_raw(raw: vk::PhysicalDeviceType) -> Self {
        match raw {
            vk::PhysicalDeviceType::DISCRETE_GPU => Self::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => Self::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => Self::Virtual,
            vk::PhysicalDeviceType::CPU => Self::Software,
            _ => Self::Other,
        }
    }

    /// Whether devices of this kind use the CPU's memory, so that CPU writes need no transfer.
    pub fn shares_memory(self) -> bool {
        matches!(self, Self::Integrated | Self::Software)
    }

    /// Rank of the kind when no device is named, the lowest first; `None` if such a device is only used by its name.
    fn rank(self) -> Option<u32> {
        match self {
            Self::Discrete => Some(0),
            Self::Integrated => Some(1),
            Self::Virtual => Some(2),
            Self::Software | Self::Other => None,
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Software => "software",
            Self::Other => "other",
        })
    }
}

/// A device of this machine, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSummary {
    /// Name of the device.
    pub name: String,
    /// Type of the device.
    pub kind: DeviceKind,
    /// Name of the driver; empty where it is older than Vulkan 1.2.
    pub driver_name: String,
    /// Version and build of the driver in its own words; empty where it is older than Vulkan 1.2.
    pub driver_version: String,
    /// Vulkan version, such as `1.3.230`.
    pub api_version: String,
    /// Size of the largest heap of the device's own memory, in bytes.
    pub memory_bytes: u64,
    /// Why the device cannot be used; `None` if it can.
    pub unusable: Option<String>,
}

/// An inspected physical device.
#[derive(Debug)]
pub(super) struct DeviceCandidate {
    pub(super) raw: vk::PhysicalDevice,
    pub(super) summary: DeviceSummary,
    pub(super) limits: vk::PhysicalDeviceLimits,
    /// Tick counter of the queue, if it has timestamps.
    pub(super) ticks: Option<TickClock>,
    /// Whether the device supports calibrated timestamps.
    pub(super) calibrates: bool,
    /// Whether the device can import host memory.
    pub(super) imports_host: bool,
    /// First compute queue family; without one the device is unusable.
    queue_family: Option<u32>,
}

impl DeviceCandidate {
    pub(super) fn queue_family(&self) -> u32 {
        self.queue_family.expect("only usable devices are opened")
    }

    fn is_usable(&self) -> bool {
        self.summary.unusable.is_none()
    }
}

pub(super) fn candidates(instance: &Instance) -> Result<Vec<DeviceCandidate>, GpuError> {
    // SAFETY: the instance is alive.
    let devices = unsafe { instance.raw.enumerate_physical_devices() }
        .during("vkEnumeratePhysicalDevices")?;
    Ok(devices.into_iter().map(|device| inspect(instance, device)).collect())
}

/// Chooses the best usable device, or the first one called `name`.
pub(super) fn choose(
    candidates: Vec<DeviceCandidate>,
    name: Option<&str>,
) -> Result<DeviceCandidate, GpuError> {
    let found = candidates.iter().map(|candidate| remark(candidate, name)).collect::<Vec<_>>();
    let mut usable = candidates.into_iter().filter(DeviceCandidate::is_usable);
    let chosen = match name {
        None => usable
            .filter(|candidate| candidate.summary.kind.rank().is_some())
            .min_by_key(|candidate| candidate.summary.kind.rank()),
        Some(name) => usable.find(|candidate| is_named(&candidate.summary, name)),
    };
    chosen.ok_or_else(|| GpuError::NoDevice {
        wanted: name.map_or_else(
            || " that is a GPU".to_owned(),
            |name| format!(" whose name contains {name:?}"),
        ),
        found: if found.is_empty() { "none".to_owned() } else { found.join("; ") },
    })
}

fn is_named(summary: &DeviceSummary, name: &str) -> bool {
    summary.name.to_lowercase().contains(&name.to_lowercase())
}

/// A device and why it was rejected.
fn remark(candidate: &DeviceCandidate, wanted: Option<&str>) -> String {
    let DeviceSummary { name, kind, unusable, .. } = &candidate.summary;
    match (unusable, wanted) {
        (Some(reason), _) => format!("{name} ({reason})"),
        (None, None) => format!("{name} ({kind}: used only if named)"),
        (None, Some(_)) => format!("{name} ({kind})"),
    }
}

fn inspect(instance: &Instance, device: vk::PhysicalDevice) -> DeviceCandidate {
    // SAFETY: the device was enumerated from this instance.
    let properties = unsafe { instance.raw.get_physical_device_properties(device) };
    let (queue_family, valid_bits) = compute_family(instance, device).unzip();
    let missing = if properties.api_version < API_VERSION {
        Some("Vulkan 1.3".to_owned())
    } else if queue_family.is_none() {
        Some("a compute queue".to_owned())
    } else {
        missing_capability(instance, device, &properties.limits)
    };
    let (driver_name, driver_version) = driver(instance, device, properties.api_version);
    let version = properties.api_version;
    let calibrates = has_extension(instance, device, ash::ext::calibrated_timestamps::NAME)
        && can_calibrate(instance, device).unwrap_or(false);
    let imports_host = has_extension(instance, device, ash::ext::external_memory_host::NAME)
        && can_import(instance, device);
    DeviceCandidate {
        raw: device,
        ticks: valid_bits.and_then(|bits| TickClock::new(bits, properties.limits.timestamp_period)),
        calibrates,
        imports_host,
        limits: properties.limits,
        queue_family,
        summary: DeviceSummary {
            name: text(properties.device_name_as_c_str()),
            kind: DeviceKind::from_raw(properties.device_type),
            driver_name,
            driver_version,
            api_version: format!(
                "{}.{}.{}",
                vk::api_version_major(version),
                vk::api_version_minor(version),
                vk::api_version_patch(version)
            ),
            memory_bytes: memory_bytes(instance, device),
            unusable: missing.map(|missing| format!("lacks {missing}")),
        },
    }
}

/// The first requirement that a Vulkan 1.3 device does not meet.
fn missing_capability(
    instance: &Instance,
    device: vk::PhysicalDevice,
    limits: &vk::PhysicalDeviceLimits,
) -> Option<String> {
    let mut features_12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut features_13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut features = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut features_12)
        .push_next(&mut features_13);
    // SAFETY: the device was enumerated from this instance and is of Vulkan 1.3, as the chained structs are.
    unsafe { instance.raw.get_physical_device_features2(device, &mut features) };
    let storage_images = limits
        .max_per_stage_descriptor_storage_images
        .min(limits.max_descriptor_set_storage_images);
    let storage_buffers = limits
        .max_per_stage_descriptor_storage_buffers
        .min(limits.max_descriptor_set_storage_buffers);
    let group =
        limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]);
    [
        (features_12.timeline_semaphore == vk::TRUE, "timelineSemaphore".to_owned()),
        (features_13.synchronization2 == vk::TRUE, "synchronization2".to_owned()),
        (features_13.maintenance4 == vk::TRUE, "maintenance4".to_owned()),
        (STORAGE_IMAGES <= storage_images, format!("{STORAGE_IMAGES} storage images in a pass")),
        (
            STORAGE_BUFFERS <= storage_buffers,
            format!("{STORAGE_BUFFERS} storage buffers in a pass"),
        ),
        (GROUP_INVOCATIONS <= group, format!("workgroups of {GROUP_INVOCATIONS}")),
    ]
    .into_iter()
    .find_map(|(is_there, what)| (!is_there).then_some(what))
}

/// Size of the largest heap of the device's own memory.
fn memory_bytes(instance: &Instance, device: vk::PhysicalDevice) -> u64 {
    // SAFETY: the device was enumerated from this instance.
    let memory = unsafe { instance.raw.get_physical_device_memory_properties(device) };
    let heaps = memory.memory_heaps_as_slice().iter();
    let own = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    own.map(|heap| heap.size).max().unwrap_or(0)
}

/// First compute queue family and the valid bits of its timestamps.
fn compute_family(instance: &Instance, device: vk::PhysicalDevice) -> Option<(u32, u32)> {
    // SAFETY: the device was enumerated from this instance.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(device) };
    let computes =
        |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let (index, family) = (0..).zip(&families).find(|(_, family)| computes(family))?;
    Some((index, family.timestamp_valid_bits))
}

/// Whether the device has an extension; if the driver fails to say, no.
fn has_extension(instance: &Instance, device: vk::PhysicalDevice, name: &CStr) -> bool {
    // SAFETY: the device was enumerated from this instance.
    let extensions = unsafe { instance.raw.enumerate_device_extension_properties(device) };
    let is_named =
        |extension: &vk::ExtensionProperties| extension.extension_name_as_c_str() == Ok(name);
    extensions.is_ok_and(|extensions| extensions.iter().any(is_named))
}

/// The driver's name and version.
fn driver(instance: &Instance, device: vk::PhysicalDevice, api_version: u32) -> (String, String) {
    if api_version < vk::API_VERSION_1_2 {
        return Default::default();
    }
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the device was enumerated from this instance and is of Vulkan 1.2, as the chained struct is.
    unsafe { instance.raw.get_physical_device_properties2(device, &mut properties) };
    (text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()))
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
