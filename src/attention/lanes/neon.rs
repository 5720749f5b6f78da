//! NEON, which every processor of this architecture has.

use std::arch::aarch64::*;

use super::{LANES, Lanes};

/// Needs no proof.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neon;

/// Calls an intrinsic.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: AArch64 has NEON.
        unsafe { $call }
    };
}

/// Calls an intrinsic for each of two registers.
macro_rules! call_both {
    ($intrinsic:ident $(::<$constant:ident>)? ($($argument:ident),*)) => {
        [
            call!($intrinsic $(::<$constant>)? ($($argument[0]),*)),
            call!($intrinsic $(::<$constant>)? ($($argument[1]),*)),
        ]
    };
}

type Pair = [float32x4_t; 2];

impl Lanes for Neon {
    type Vector = Pair;

    #[inline(always)]
    fn splat(self, value: f32) -> Pair {
        [call!(vdupq_n_f32(value)); 2]
    }

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> Pair {
        bytemuck::cast(*values)
    }

    #[inline(always)]
    fn store(self, vector: Pair) -> [f32; LANES] {
        bytemuck::cast(vector)
    }

    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        call_both!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn multiply(self, a: Pair, b: Pair) -> Pair {
        call_both!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn multiply_add(self, a: Pair, b: Pair, c: Pair) -> Pair {
        call_both!(vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn max(self, a: Pair, b: Pair) -> Pair {
        // Not `vmaxq_f32`, which gives what is not a number.
        let mask = call_both!(vcgtq_f32(a, b));
        call_both!(vbslq_f32(mask, a, b))
    }

    #[inline(always)]
    fn round(self, vector: Pair) -> Pair {
        call_both!(vrndnq_f32(vector))
    }

    #[inline(always)]
    fn power_of_two(self, exponents: Pair) -> Pair {
        const FRACTION_BITS: i32 = 23;
        let whole = call_both!(vcvtq_s32_f32(exponents));
        let bias = [call!(vdupq_n_s32(127)); 2];
        let biased = call_both!(vaddq_s32(whole, bias));
        bytemuck::cast(call_both!(vshlq_n_s32::<FRACTION_BITS>(biased)))
    }

    #[inline(always)]
    fn exceeding(self, a: Pair, b: Pair) -> u8 {
        let places: [uint32x4_t; 2] = bytemuck::cast([1, 2, 4, 8, 16, 32, 64, 128]);
        let mask = call_both!(vcgtq_f32(a, b));
        let [low, high] = call_both!(vandq_u32(mask, places));
        let bits = call!(vorrq_u32(low, high));
        let bits = call!(vaddvq_u32(bits));
        bits.to_le_bytes()[0]
    }

    #[inline(always)]
    fn where_exceeding(self, a: Pair, b: Pair, kept: Pair) -> Pair {
        let (mask, kept) = (call_both!(vcgtq_f32(a, b)), bits(kept));
        bytemuck::cast(call_both!(vandq_u32(mask, kept)))
    }

    #[inline(always)]
    fn unless_exceeding(self, a: Pair, b: Pair, kept: Pair) -> Pair {
        let (mask, kept) = (call_both!(vcgtq_f32(a, b)), bits(kept));
        bytemuck::cast(call_both!(vbicq_u32(kept, mask)))
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [Pair; 4]) -> [f32; 4] {
        let (ab, cd) = (call_both!(vpaddq_f32(a, b)), call_both!(vpaddq_f32(c, d)));
        let [lower, upper] = call_both!(vpaddq_f32(ab, cd));
        bytemuck::cast(call!(vaddq_f32(lower, upper)))
    }
}

#[inline(always)]
fn bits(vector: Pair) -> [uint32x4_t; 2] {
    bytemuck::cast(vector)
}
