//! What the build script made of `glsl/*.comp`.

#![allow(unsafe_code, reason = "that bytes are a shader is seen by whoever compiled them")]

use crate::gpu::Shader;

macro_rules! shader {
    ($name:literal) => {
        // SAFETY: glslc compiled it, for the version of Vulkan that devices are required to have; the pass of this name
        // alone uses it, and the validation layer of the tests compares what the two declare.
        unsafe { Shader::new(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))) }
    };
}

pub(super) const DETECT: Shader = shader!("detect");
pub(super) const INGEST: Shader = shader!("ingest");
pub(super) const REDUCE: Shader = shader!("reduce");
pub(super) const SAMPLE: Shader = shader!("sample");
pub(super) const STALE: Shader = shader!("stale");
