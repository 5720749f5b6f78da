//! The shaders that the build script compiled from `glsl/*.comp`.

#![allow(unsafe_code, reason = "only the build script knows that these bytes are shaders")]

use foveate_gpu::Shader;

macro_rules! shader {
    ($name:literal) => {
        // SAFETY: glslc compiled it for the Vulkan version that devices must support. Only the pass of this name uses
        // it, and the validation layer compares their interfaces in tests.
        unsafe { Shader::new(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))) }
    };
}

/// `glsl/compare.comp`.
pub const COMPARE: Shader = shader!("compare");
/// `glsl/detect.comp`.
pub const DETECT: Shader = shader!("detect");
/// `glsl/features.comp`.
pub const FEATURES: Shader = shader!("features");

/// `glsl/ingest.comp`.
pub const INGEST: Shader = shader!("ingest");
/// `glsl/reduce.comp`.
pub const REDUCE: Shader = shader!("reduce");
/// `glsl/sample.comp`.
pub const SAMPLE: Shader = shader!("sample");
/// `glsl/settle.comp`.
pub const SETTLE: Shader = shader!("settle");
/// `glsl/stale.comp`.
pub const STALE: Shader = shader!("stale");
