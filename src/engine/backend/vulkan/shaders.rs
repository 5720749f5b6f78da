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
pub(super) const COMPARE: Shader = shader!("compare");
/// `glsl/detect.comp`.
pub(super) const DETECT: Shader = shader!("detect");
/// `glsl/features.comp`.
pub(super) const FEATURES: Shader = shader!("features");
/// `glsl/ingest.comp`.
pub(super) const INGEST: Shader = shader!("ingest");
/// `glsl/reduce.comp`. Public for a test of what the pass leaves alone, which no backend shows.
pub const REDUCE: Shader = shader!("reduce");
/// `glsl/sample.comp`.
pub(super) const SAMPLE: Shader = shader!("sample");
/// `glsl/settle.comp`.
pub(super) const SETTLE: Shader = shader!("settle");
/// `glsl/stale.comp`.
pub(super) const STALE: Shader = shader!("stale");
