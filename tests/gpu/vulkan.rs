//! Random frames for Vulkan retinas, and what their views sample.

#![allow(unreachable_pub, reason = "a module of several programs")]

use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use testkit::naive::{self, OwnedFrame, Random};

/// Format of all tokens.
pub const FORMAT: TokenFormat = TokenFormat::new(16, DType::F16, Normalisation::UNIT);

/// A frame of NV12.
pub fn frame(extent: Extent, seed: u64) -> OwnedFrame {
    let color = naive::transforms(PixelFormat::Nv12)[0];
    OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut Random(seed))
}
