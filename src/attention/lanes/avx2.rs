//! AVX2 and FMA.

use std::arch::x86_64::*;

use super::{Detected, LANES, Lanes};

/// Proof of AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(Detected);

impl Avx2 {
    /// `detected` proves AVX2 and FMA.
    #[inline(always)]
    pub(super) fn new(detected: Detected) -> Self {
        Self(detected)
    }
}

/// Calls an intrinsic in a method of [`Avx2`], whose value proves the instructions.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: `self` is proof that the processor has AVX2 and FMA.
        unsafe { $call }
    };
}

impl Lanes for Avx2 {
    type Vector = __m256;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        call!(_mm256_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> __m256 {
        bytemuck::cast(*values)
    }

    #[inline(always)]
    fn store(self, vector: __m256) -> [f32; LANES] {
        bytemuck::cast(vector)
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        call!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn multiply(self, a: __m256, b: __m256) -> __m256 {
        call!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn multiply_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        call!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        call!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn round(self, vector: __m256) -> __m256 {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        call!(_mm256_round_ps::<NEAREST>(vector))
    }

    #[inline(always)]
    fn power_of_two(self, exponents: __m256) -> __m256 {
        let whole = call!(_mm256_cvtps_epi32(exponents));
        let bias = call!(_mm256_set1_epi32(127));
        let biased = call!(_mm256_add_epi32(whole, bias));
        let bits = call!(_mm256_slli_epi32::<23>(biased));
        call!(_mm256_castsi256_ps(bits))
    }

    #[inline(always)]
    fn exceeding(self, a: __m256, b: __m256) -> u8 {
        let mask = call!(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b));
        let bits = call!(_mm256_movemask_ps(mask));
        bits.to_le_bytes()[0]
    }

    #[inline(always)]
    fn where_exceeding(self, a: __m256, b: __m256, kept: __m256) -> __m256 {
        let mask = call!(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b));
        call!(_mm256_and_ps(mask, kept))
    }

    #[inline(always)]
    fn unless_exceeding(self, a: __m256, b: __m256, kept: __m256) -> __m256 {
        let mask = call!(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b));
        call!(_mm256_andnot_ps(mask, kept))
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        let ab = call!(_mm256_hadd_ps(a, b));
        let cd = call!(_mm256_hadd_ps(c, d));
        let quarters = call!(_mm256_hadd_ps(ab, cd));
        let upper = call!(_mm256_extractf128_ps::<1>(quarters));
        let lower = call!(_mm256_castps256_ps128(quarters));
        bytemuck::cast(call!(_mm_add_ps(lower, upper)))
    }
}
