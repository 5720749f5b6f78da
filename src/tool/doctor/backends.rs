//! Checks of the Vulkan devices, and the choice of `backend = "auto"`.

use super::{Finding, Mark};
use foveate_core::backend::BackendChoice;
#[cfg(feature = "vulkan")]
use foveate_core::error::chain;
use foveate_engine::backend::choice::Backends;

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = devices();
    if let Ok(chosen) = Backends::default().choose(BackendChoice::Auto, None) {
        let backend = chosen.info();
        let chosen = format!("chooses {} on {}: {}", backend.kind, backend.device, backend.reason);
        findings.push(Finding::ok("backend \"auto\"", chosen));
    }
    findings
}

#[cfg(feature = "vulkan")]
fn devices() -> Vec<Finding> {
    match foveate_gpu::devices() {
        Ok(devices) if devices.is_empty() => vec![Finding::bad(
            Mark::Warn,
            "vulkan",
            "no device: frames are computed on the CPU",
            "install the driver of your GPU, or mesa-vulkan-drivers",
        )],
        Ok(devices) => devices.iter().map(device).collect(),
        Err(error) => vec![Finding::bad(
            Mark::Warn,
            "vulkan",
            chain(&error),
            "apt install libvulkan1 mesa-vulkan-drivers; without it frames are computed on the CPU",
        )],
    }
}

#[cfg(feature = "vulkan")]
fn device(device: &foveate_gpu::DeviceSummary) -> Finding {
    let foveate_gpu::DeviceSummary {
        name,
        kind,
        driver_name,
        driver_version,
        api_version,
        unusable,
        ..
    } = device;
    let facts = format!("{name} ({kind}, Vulkan {api_version}, {driver_name} {driver_version})");
    match unusable {
        None => Finding::ok("vulkan", facts),
        Some(reason) => {
            Finding::bad(Mark::Warn, "vulkan", format!("{facts}: {reason}"), "update its driver")
        }
    }
}

#[cfg(not(feature = "vulkan"))]
fn devices() -> Vec<Finding> {
    vec![Finding::bad(Mark::Warn, "vulkan", "not in this build", "build with the feature `vulkan`")]
}
