//! The shaders that the build script compiled from `glsl/*.comp`.

#![allow(unsafe_code, reason = "only the build script knows that these bytes are shaders")]

use foveate_gpu::Shader;

macro_rules! shader {
    ($name:literal) => {
        // SAFETY: glslc compiled it for the Vulkan version that devices must support. Only the passes of this name use
        // it, and the validation layer compares their interfaces in tests.
        unsafe { Shader::new(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))) }
    };
}

/// `blend.comp`.
pub const BLEND: Shader = shader!("blend");
/// `means.comp`.
pub const MEANS: Shader = shader!("means");
/// `open.comp`.
pub const OPEN: Shader = shader!("open");
/// `score.comp`.
pub const SCORE: Shader = shader!("score");
