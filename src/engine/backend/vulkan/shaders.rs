//! What the build script made of `glsl/*.comp`.

#![allow(unsafe_code, reason = "that bytes are a shader is seen by whoever compiled them")]

use foveate_gpu::Shader;

macro_rules! shader {
    ($name:literal) => {
        // SAFETY: glslc compiled it, for the version of Vulkan that devices are required to have; the pass of this name
        // alone uses it, and the validation layer of the tests compares what the two declare.
        unsafe { Shader::new(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))) }
    };
}

/// `glsl/detect.comp`.
pub const DETECT: Shader = shader!("detect");
/// `glsl/ingest.comp`.
pub const INGEST: Shader = shader!("ingest");
/// `glsl/reduce.comp`.
pub const REDUCE: Shader = shader!("reduce");
/// `glsl/sample.comp`.
pub const SAMPLE: Shader = shader!("sample");
/// `glsl/stale.comp`.
pub const STALE: Shader = shader!("stale");
