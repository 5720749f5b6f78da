//! What a stream's retina runs on: the words for it in rings, listings and logs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which implementation of the retina.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Compute shaders.
    Vulkan,
    /// Threads of this process.
    Cpu,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vulkan => "vulkan",
            Self::Cpu => "cpu",
        })
    }
}

/// Where frames are compared with the resident copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeSite {
    /// In threads of this process.
    Cpu,
    /// In a compute shader.
    Gpu,
}

impl fmt::Display for ChangeSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        })
    }
}

/// The backend in use, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl BackendKind {
    /// The number that stands for it in a ring.
    pub const fn code(self) -> u32 {
        match self {
            Self::Cpu => 1,
            Self::Vulkan => 2,
        }
    }

    /// The kind that a number in a ring stands for.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Cpu),
            2 => Some(Self::Vulkan),
            _ => None,
        }
    }
}
