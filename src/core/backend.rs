//! Kinds of backends, as named in rings, listings and logs.

/// Kind of backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Vulkan compute shaders.
    Vulkan,
    /// Threads of the process.
    Cpu,
}

crate::names!(BackendKind { Vulkan = "vulkan", Cpu = "cpu" });
crate::codes!(BackendKind { Cpu = 1, Vulkan = 2 });

/// Configured backend of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// A real GPU if there is one, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A Vulkan device, or no start.
    Vulkan,
}

crate::names!(BackendChoice { Auto = "auto", Cpu = "cpu", Vulkan = "vulkan" });

/// Where frames are to be compared with the resident copy. The changes that are found do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeOn {
    /// The GPU, if it is integrated and the backend runs on it, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU compares frames.
    Cpu,
    /// The device that keeps the pyramid, which must share the CPU's memory.
    Gpu,
}

crate::names!(ChangeOn { Auto = "auto", Cpu = "cpu", Gpu = "gpu" });

/// Where frames are compared with the resident copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSite {
    /// The CPU compares frames.
    Cpu,
    /// A compute shader of the device compares frames.
    Gpu,
}

crate::names!(ChangeSite { Cpu = "cpu", Gpu = "gpu" });

/// The backend in use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Kind of the backend.
    pub kind: BackendKind,
    /// Name of the device, as its driver gives it.
    pub device: String,
    /// Why this one was chosen, in words.
    pub reason: String,
    /// Processor that compares frames.
    pub change_on: ChangeSite,
}

crate::object!(BackendInfo {
    "kind": kind, "device": device, "reason": reason, "change_on": change_on,
});
