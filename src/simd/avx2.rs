//! AVX2, FMA and F16C: 64 bytes are two registers, eight lanes are one.

use std::arch::x86_64::*;

use super::Detected;
use super::lanes::{LANES, Lanes};
use super::lookup::Lookup;
use super::plain::Plain;
use super::vectors::Vectors;

/// Proof of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(pub(super) Detected);

/// Calls an intrinsic in a method of [`Avx2`], whose value proves AVX2, FMA and F16C.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: `self` is proof that the processor has AVX2, FMA and F16C.
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

type Pair = [__m256i; 2];

impl Vectors for Avx2 {
    type Bytes = Pair;
    type Words = Pair;
    type Sums = Pair;
    type Lanes = Self;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    #[inline(always)]
    fn loaded_bytes(self, bytes: &[u8; 64]) -> Pair {
        bytemuck::cast(*bytes)
    }

    #[inline(always)]
    fn widened(self, bytes: &[u8; 32]) -> Pair {
        let halves: [__m128i; 2] = bytemuck::cast(*bytes);
        call_both!(_mm256_cvtepu8_epi16(halves))
    }

    #[inline(always)]
    fn unzipped(self, bytes: &[u8; 64]) -> [Pair; 2] {
        const BYTE: i32 = 8;
        let both: Pair = bytemuck::cast(*bytes);
        let even_bytes = self.words([0xFF; 2]);
        let odd = call_both!(_mm256_srli_epi16::<BYTE>(both));
        [call_both!(_mm256_and_si256(both, even_bytes)), odd]
    }

    #[inline(always)]
    fn words(self, [even, odd]: [i16; 2]) -> Pair {
        self.sums(i32::from(odd) << 16 | i32::from(even.cast_unsigned()))
    }

    #[inline(always)]
    fn sums(self, sum: i32) -> Pair {
        [call!(_mm256_set1_epi32(sum)); 2]
    }

    #[inline(always)]
    fn loaded(self, words: &[u16; 32]) -> Pair {
        bytemuck::cast(*words)
    }

    #[inline(always)]
    fn stored(self, words: Pair) -> [u16; 32] {
        bytemuck::cast(words)
    }

    #[inline(always)]
    fn stored_sums(self, sums: Pair) -> [u32; 16] {
        bytemuck::cast(sums)
    }

    #[inline(always)]
    fn shifted_left<const BITS: u32>(self, words: Pair) -> Pair {
        let count = self.count(BITS);
        call_both!(_mm256_sll_epi16(words, count))
    }

    #[inline(always)]
    fn rounded_down<const BITS: u32>(self, words: Pair) -> Pair {
        let raised = self.added(words, self.words([1 << (BITS - 1); 2]));
        let count = self.count(BITS);
        call_both!(_mm256_srl_epi16(raised, count))
    }

    #[inline(always)]
    fn rounded_sums_down<const BITS: u32>(self, sums: Pair) -> Pair {
        let half = self.sums(1 << (BITS - 1));
        let raised = call_both!(_mm256_add_epi32(sums, half));
        let count = self.count(BITS);
        call_both!(_mm256_srl_epi32(raised, count))
    }

    #[inline(always)]
    fn added(self, a: Pair, b: Pair) -> Pair {
        call_both!(_mm256_add_epi16(a, b))
    }

    #[inline(always)]
    fn subtracted(self, a: Pair, b: Pair) -> Pair {
        call_both!(_mm256_sub_epi16(a, b))
    }

    #[inline(always)]
    fn counted(self, counts: Pair, bytes: Pair, value: u8) -> Pair {
        let values = [call!(_mm256_set1_epi8(value.cast_signed())); 2];
        // All bits are set where they are equal: -1.
        let equal = call_both!(_mm256_cmpeq_epi8(bytes, values));
        call_both!(_mm256_sub_epi8(counts, equal))
    }

    #[inline(always)]
    fn added_distances(self, sums: Pair, a: Pair, b: Pair) -> Pair {
        let distances = call_both!(_mm256_sad_epu8(a, b));
        call_both!(_mm256_add_epi32(sums, distances))
    }

    #[inline(always)]
    fn exceeding<const LEAST: u8>(self, a: Pair, b: Pair) -> u64 {
        // Only signed bytes can be compared.
        let sign = [call!(_mm256_set1_epi8(i8::MIN)); 2];
        let below = [call!(_mm256_set1_epi8((LEAST - 1).cast_signed())); 2];
        let (a, b) = (call_both!(_mm256_xor_si256(a, sign)), call_both!(_mm256_xor_si256(b, sign)));
        let bounds = call_both!(_mm256_adds_epi8(b, below));
        let exceeding = call_both!(_mm256_cmpgt_epi8(a, bounds));
        let [low, high] = call_both!(_mm256_movemask_epi8(exceeding)).map(i32::cast_unsigned);
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline(always)]
    fn multiplied_and_added(self, sums: Pair, a: Pair, b: Pair) -> Pair {
        let products = call_both!(_mm256_madd_epi16(a, b));
        call_both!(_mm256_add_epi32(sums, products))
    }

    #[inline(always)]
    fn upper_halves(self, even: Pair, odd: Pair) -> Pair {
        const HALF: i32 = 16;
        const ODD_PLACES: i32 = 0xAA;
        let even = call_both!(_mm256_srli_epi32::<HALF>(even));
        call_both!(_mm256_blend_epi16::<ODD_PLACES>(even, odd))
    }

    #[inline(always)]
    fn narrowed(self, a: Pair, b: Pair) -> Pair {
        call_both!(_mm256_packus_epi16(a, b))
    }

    #[inline(always)]
    fn narrowed_sums(self, a: Pair, b: Pair) -> Pair {
        call_both!(_mm256_packs_epi32(a, b))
    }

    #[inline(always)]
    fn clamped(self, words: Pair) -> [u8; 32] {
        const FIRST_HALVES_FIRST: i32 = 0b11_01_10_00;
        let bytes = call!(_mm256_packus_epi16(words[0], words[1]));
        bytemuck::cast(call!(_mm256_permute4x64_epi64::<FIRST_HALVES_FIRST>(bytes)))
    }

    #[inline(always)]
    fn added_pairs(self, bytes: Pair) -> Pair {
        let ones = self.words([0x0101; 2]);
        call_both!(_mm256_maddubs_epi16(bytes, ones))
    }

    #[inline(always)]
    fn added_halves(self, a: Pair, b: Pair) -> Pair {
        let first = call_both!(_mm256_unpacklo_epi64(a, b));
        let last = call_both!(_mm256_unpackhi_epi64(a, b));
        call_both!(_mm256_add_epi32(first, last))
    }

    #[inline(always)]
    fn transposed_4(self, bytes: Pair) -> [[u8; 16]; 4] {
        let places = bytemuck::cast([0, 4, 1, 5, 2, 6, 3, 7]);
        let places = [places; 2];
        // In each: the 4 bytes of both groups at the first place, at the second, and so on.
        let [first, last] = call_both!(_mm256_permutevar8x32_epi32(bytes, places));
        let even = call!(_mm256_unpacklo_epi64(first, last));
        let odd = call!(_mm256_unpackhi_epi64(first, last));
        let ([a, c], [b, d]): ([[u8; 16]; 2], [[u8; 16]; 2]) =
            (bytemuck::cast(even), bytemuck::cast(odd));
        [a, b, c, d]
    }

    #[inline(always)]
    fn transposed_2(self, bytes: Pair) -> [[u8; 8]; 8] {
        const PLACES: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];
        let places: Pair = bytemuck::cast([PLACES; 4]);
        let quarters: Pair = bytemuck::cast(self.transposed_4(bytes));
        bytemuck::cast(call_both!(_mm256_shuffle_epi8(quarters, places)))
    }

    #[inline(always)]
    fn transposed_1(self, bytes: Pair) -> [[u8; 4]; 16] {
        const PLACES: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        let places: Pair = bytemuck::cast([PLACES; 4]);
        let quarters: Pair = bytemuck::cast(self.transposed_4(bytes));
        bytemuck::cast(call_both!(_mm256_shuffle_epi8(quarters, places)))
    }

    #[inline(always)]
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]) {
        assert_eq!(values.len(), found.len(), "a place for each value");
        // Without a line: gathering would not be faster.
        let Some(line) = table.line() else { return Plain.looked_up(table, values, found) };
        let (values, last_values) = values.as_chunks::<16>();
        let (found, last_found) = found.as_chunks_mut::<16>();
        for (found, values) in found.iter_mut().zip(values) {
            *found = self.halves_on(line, *values);
        }
        Plain.looked_up(table, last_values, last_found);
    }
}

impl Avx2 {
    /// The half floats of a line at 16 values.
    #[inline(always)]
    fn halves_on(self, (factor, offset): (f32, f32), values: [u8; 16]) -> [[u8; 2]; 16] {
        let values: __m128i = bytemuck::cast(values);
        let line = [call!(_mm256_set1_ps(factor)), call!(_mm256_set1_ps(offset))];
        let last = call!(_mm_unpackhi_epi64(values, values));
        bytemuck::cast([self.eight_on(line, values), self.eight_on(line, last)])
    }

    /// The half floats of a line at the first eight values.
    #[inline(always)]
    fn eight_on(self, [factor, offset]: [__m256; 2], values: __m128i) -> __m128i {
        let numbers = call!(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(values)));
        let numbers = call!(_mm256_add_ps(_mm256_mul_ps(numbers, factor), offset));
        call!(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(numbers))
    }

    /// The shift count for both registers. The compiler turns it into an immediate.
    #[inline(always)]
    fn count(self, bits: u32) -> [__m128i; 2] {
        [call!(_mm_cvtsi32_si128(bits.cast_signed())); 2]
    }
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
    fn lane_sums(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        let ab = call!(_mm256_hadd_ps(a, b));
        let cd = call!(_mm256_hadd_ps(c, d));
        let quarters = call!(_mm256_hadd_ps(ab, cd));
        let upper = call!(_mm256_extractf128_ps::<1>(quarters));
        let lower = call!(_mm256_castps256_ps128(quarters));
        bytemuck::cast(call!(_mm_add_ps(lower, upper)))
    }
}
