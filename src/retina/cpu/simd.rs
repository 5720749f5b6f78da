//! The same code for each set of vector instructions, chosen once at run time.

#![allow(
    unsafe_code,
    reason = "calling code compiled for instructions that the processor was asked about"
)]

use super::Level;
use super::ingest::{TilePixels, ingest};
use crate::frame::FrameView;
use crate::geometry::pyramid::PyramidShape;

/// Vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// What every processor of this architecture has.
    Baseline,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
    /// AVX-512 with bytes, words and vectors of any length.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected),
}

/// Proof that the processor has the instructions: only [`Instructions`] makes one, after asking.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected(());

impl Instructions {
    /// Every set that this processor has, the plainest first.
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                available.push(Self::Avx2(Detected(())));
            }
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                available.push(Self::Avx512(Detected(())));
            }
        }
        available
    }

    /// The widest set that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Baseline)
    }

    /// [`ingest`] with these instructions.
    pub(super) fn ingest(
        self,
        frame: &FrameView<'_>,
        tile: (u32, u32),
        shape: PyramidShape,
        pixels: &mut TilePixels,
        levels: &mut [Level],
    ) -> [u32; 3] {
        match self {
            Self::Baseline => ingest(frame, tile, shape, pixels, levels),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX2.
            Self::Avx2(Detected(())) => unsafe { ingest_avx2(frame, tile, shape, pixels, levels) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX-512 BW and VL.
            Self::Avx512(Detected(())) => unsafe {
                ingest_avx512(frame, tile, shape, pixels, levels)
            },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn ingest_avx2(
    frame: &FrameView<'_>,
    tile: (u32, u32),
    shape: PyramidShape,
    pixels: &mut TilePixels,
    levels: &mut [Level],
) -> [u32; 3] {
    ingest(frame, tile, shape, pixels, levels)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vl")]
fn ingest_avx512(
    frame: &FrameView<'_>,
    tile: (u32, u32),
    shape: PyramidShape,
    pixels: &mut TilePixels,
    levels: &mut [Level],
) -> [u32; 3] {
    ingest(frame, tile, shape, pixels, levels)
}
