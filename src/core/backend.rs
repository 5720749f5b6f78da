//! What a stream's retina runs on: the words for it in rings, listings and logs.

/// Which implementation of the retina.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Compute shaders.
    Vulkan,
    /// Threads of this process.
    Cpu,
}

crate::names!(BackendKind { Vulkan = "vulkan", Cpu = "cpu" });
crate::codes!(BackendKind { Cpu = 1, Vulkan = 2 });

/// Where frames are compared with the resident copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSite {
    /// In threads of this process.
    Cpu,
    /// In a compute shader.
    Gpu,
}

crate::names!(ChangeSite { Cpu = "cpu", Gpu = "gpu" });

/// The backend in use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Which implementation.
    pub kind: BackendKind,
    /// Name of the device, as its driver gives it.
    pub device: String,
    /// Why this one, in words.
    pub reason: String,
    /// Where changes are found.
    pub change_on: ChangeSite,
}

crate::object!(BackendInfo {
    "kind": kind, "device": device, "reason": reason, "change_on": change_on,
});
