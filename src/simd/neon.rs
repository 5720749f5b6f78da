//! NEON, which every processor of this architecture has: 64 bytes are four registers, one for each group; eight lanes are two.
//!
//! The dot products that newer processors have (FEAT_DotProd) are not used: they multiply bytes, while samples are multiplied here
//! by factors of 16 bits. Only `added_distances` could use one, to add up, and would be four instructions instead of five.

use std::arch::aarch64::*;

use super::lanes::{LANES, Lanes};
use super::lookup::Lookup;
use super::plain::Plain;
use super::vectors::Vectors;

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

/// Calls an intrinsic for each of four registers.
macro_rules! call_all {
    ($intrinsic:ident $(::<$constant:ident>)? ($($argument:ident),*)) => {
        [
            call!($intrinsic $(::<$constant>)? ($($argument[0]),*)),
            call!($intrinsic $(::<$constant>)? ($($argument[1]),*)),
            call!($intrinsic $(::<$constant>)? ($($argument[2]),*)),
            call!($intrinsic $(::<$constant>)? ($($argument[3]),*)),
        ]
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

impl Vectors for Neon {
    type Bytes = [uint8x16_t; 4];
    type Words = [int16x8_t; 4];
    type Sums = [int32x4_t; 4];
    type Lanes = Self;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    #[inline(always)]
    fn loaded_bytes(self, bytes: &[u8; 64]) -> Self::Bytes {
        bytemuck::cast(*bytes)
    }

    #[inline(always)]
    fn widened(self, bytes: &[u8; 32]) -> Self::Words {
        let [a, b]: [uint8x16_t; 2] = bytemuck::cast(*bytes);
        let (first, last) = (call!(vget_low_u8(a)), call!(vget_low_u8(b)));
        bytemuck::cast([
            call!(vmovl_u8(first)),
            call!(vmovl_high_u8(a)),
            call!(vmovl_u8(last)),
            call!(vmovl_high_u8(b)),
        ])
    }

    #[inline(always)]
    fn unzipped(self, bytes: &[u8; 64]) -> [Self::Words; 2] {
        const BYTE: i32 = 8;
        let both: [uint16x8_t; 4] = bytemuck::cast(*bytes);
        let even_bytes = [call!(vdupq_n_u16(0xFF)); 4];
        let even = call_all!(vandq_u16(both, even_bytes));
        let odd = call_all!(vshrq_n_u16::<BYTE>(both));
        bytemuck::cast([even, odd])
    }

    #[inline(always)]
    fn words(self, [even, odd]: [i16; 2]) -> Self::Words {
        bytemuck::cast(self.sums(i32::from(odd) << 16 | i32::from(even.cast_unsigned())))
    }

    #[inline(always)]
    fn sums(self, sum: i32) -> Self::Sums {
        [call!(vdupq_n_s32(sum)); 4]
    }

    #[inline(always)]
    fn loaded(self, words: &[u16; 32]) -> Self::Words {
        bytemuck::cast(*words)
    }

    #[inline(always)]
    fn stored(self, words: Self::Words) -> [u16; 32] {
        bytemuck::cast(words)
    }

    #[inline(always)]
    fn stored_sums(self, sums: Self::Sums) -> [u32; 16] {
        bytemuck::cast(sums)
    }

    // The compiler turns a shift by a vector of constants into an immediate; a negative one is to the right.

    #[inline(always)]
    fn shifted_left<const BITS: u32>(self, words: Self::Words) -> Self::Words {
        let count = self.words([word(BITS); 2]);
        call_all!(vshlq_s16(words, count))
    }

    #[inline(always)]
    fn rounded_down<const BITS: u32>(self, words: Self::Words) -> Self::Words {
        // Not `vrshrq`: it does not wrap.
        let raised: [uint16x8_t; 4] =
            bytemuck::cast(self.added(words, self.words([1 << (BITS - 1); 2])));
        let count = self.words([-word(BITS); 2]);
        bytemuck::cast(call_all!(vshlq_u16(raised, count)))
    }

    #[inline(always)]
    fn rounded_sums_down<const BITS: u32>(self, sums: Self::Sums) -> Self::Sums {
        let half = self.sums(1 << (BITS - 1));
        let raised: [uint32x4_t; 4] = bytemuck::cast(call_all!(vaddq_s32(sums, half)));
        let count = self.sums(-BITS.cast_signed());
        bytemuck::cast(call_all!(vshlq_u32(raised, count)))
    }

    #[inline(always)]
    fn added(self, a: Self::Words, b: Self::Words) -> Self::Words {
        call_all!(vaddq_s16(a, b))
    }

    #[inline(always)]
    fn subtracted(self, a: Self::Words, b: Self::Words) -> Self::Words {
        call_all!(vsubq_s16(a, b))
    }

    #[inline(always)]
    fn counted(self, counts: Self::Bytes, bytes: Self::Bytes, value: u8) -> Self::Bytes {
        let values = [call!(vdupq_n_u8(value)); 4];
        // All bits are set where they are equal: -1.
        let equal = call_all!(vceqq_u8(bytes, values));
        call_all!(vsubq_u8(counts, equal))
    }

    #[inline(always)]
    fn added_distances(self, sums: Self::Sums, a: Self::Bytes, b: Self::Bytes) -> Self::Sums {
        let distances = call_all!(vabdq_u8(a, b));
        let pairs = call_all!(vpaddlq_u8(distances));
        let quarters = call_all!(vpaddlq_u16(pairs));
        let halves: Self::Sums = bytemuck::cast(call_all!(vpaddlq_u32(quarters)));
        call_all!(vaddq_s32(sums, halves))
    }

    #[inline(always)]
    fn exceeding<const LEAST: u8>(self, a: Self::Bytes, b: Self::Bytes) -> u64 {
        const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let least = [call!(vdupq_n_u8(LEAST)); 4];
        let places: Self::Bytes = bytemuck::cast([PLACES; 4]);
        let excess = call_all!(vqsubq_u8(a, b));
        let exceeding = call_all!(vcgeq_u8(excess, least));
        // Eight bytes with a bit each become one, in three steps.
        let [a, b, c, d] = call_all!(vandq_u8(exceeding, places));
        let (ab, cd) = (call!(vpaddq_u8(a, b)), call!(vpaddq_u8(c, d)));
        let all = call!(vpaddq_u8(ab, cd));
        let [bits, _]: [u64; 2] = bytemuck::cast(call!(vpaddq_u8(all, all)));
        bits
    }

    #[inline(always)]
    fn multiplied_and_added(self, sums: Self::Sums, a: Self::Words, b: Self::Words) -> Self::Sums {
        let (low_a, low_b) = (call_all!(vget_low_s16(a)), call_all!(vget_low_s16(b)));
        let low = call_all!(vmull_s16(low_a, low_b));
        let high = call_all!(vmull_high_s16(a, b));
        let products = call_all!(vpaddq_s32(low, high));
        call_all!(vaddq_s32(sums, products))
    }

    #[inline(always)]
    fn upper_halves(self, even: Self::Sums, odd: Self::Sums) -> Self::Words {
        let (even, odd): (Self::Words, Self::Words) = (bytemuck::cast(even), bytemuck::cast(odd));
        call_all!(vtrn2q_s16(even, odd))
    }

    #[inline(always)]
    fn narrowed(self, a: Self::Words, b: Self::Words) -> Self::Bytes {
        let first = call_all!(vqmovun_s16(a));
        call_all!(vqmovun_high_s16(first, b))
    }

    #[inline(always)]
    fn narrowed_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Words {
        let first = call_all!(vqmovn_s32(a));
        call_all!(vqmovn_high_s32(first, b))
    }

    #[inline(always)]
    fn clamped(self, [a, b, c, d]: Self::Words) -> [u8; 32] {
        let (first, last) = (call!(vqmovun_s16(a)), call!(vqmovun_s16(c)));
        bytemuck::cast([call!(vqmovun_high_s16(first, b)), call!(vqmovun_high_s16(last, d))])
    }

    #[inline(always)]
    fn added_pairs(self, bytes: Self::Bytes) -> Self::Words {
        bytemuck::cast(call_all!(vpaddlq_u8(bytes)))
    }

    #[inline(always)]
    fn added_halves(self, a: Self::Sums, b: Self::Sums) -> Self::Sums {
        let [a, b]: [[int64x2_t; 4]; 2] = bytemuck::cast([a, b]);
        let first: Self::Sums = bytemuck::cast(call_all!(vtrn1q_s64(a, b)));
        let last: Self::Sums = bytemuck::cast(call_all!(vtrn2q_s64(a, b)));
        call_all!(vaddq_s32(first, last))
    }

    #[inline(always)]
    fn transposed_4(self, bytes: Self::Bytes) -> [[u8; 16]; 4] {
        let [a, b, c, d]: Self::Sums = bytemuck::cast(bytes);
        let (ac, bd) = (call!(vzip1q_s32(a, c)), call!(vzip1q_s32(b, d)));
        let (ac_last, bd_last) = (call!(vzip2q_s32(a, c)), call!(vzip2q_s32(b, d)));
        bytemuck::cast([
            call!(vzip1q_s32(ac, bd)),
            call!(vzip2q_s32(ac, bd)),
            call!(vzip1q_s32(ac_last, bd_last)),
            call!(vzip2q_s32(ac_last, bd_last)),
        ])
    }

    #[inline(always)]
    fn transposed_2(self, bytes: Self::Bytes) -> [[u8; 8]; 8] {
        let [a, b, c, d]: Self::Words = bytemuck::cast(bytes);
        let (ac, bd) = (call!(vzip1q_s16(a, c)), call!(vzip1q_s16(b, d)));
        let (ac_last, bd_last) = (call!(vzip2q_s16(a, c)), call!(vzip2q_s16(b, d)));
        bytemuck::cast([
            call!(vzip1q_s16(ac, bd)),
            call!(vzip2q_s16(ac, bd)),
            call!(vzip1q_s16(ac_last, bd_last)),
            call!(vzip2q_s16(ac_last, bd_last)),
        ])
    }

    #[inline(always)]
    fn transposed_1(self, [a, b, c, d]: Self::Bytes) -> [[u8; 4]; 16] {
        let (ac, bd) = (call!(vzip1q_u8(a, c)), call!(vzip1q_u8(b, d)));
        let (ac_last, bd_last) = (call!(vzip2q_u8(a, c)), call!(vzip2q_u8(b, d)));
        bytemuck::cast([
            call!(vzip1q_u8(ac, bd)),
            call!(vzip2q_u8(ac, bd)),
            call!(vzip1q_u8(ac_last, bd_last)),
            call!(vzip2q_u8(ac_last, bd_last)),
        ])
    }

    #[inline(always)]
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]) {
        assert_eq!(values.len(), found.len(), "a place for each value");
        let Some(line) = table.line() else { return Plain.looked_up(table, values, found) };
        let (values, last_values) = values.as_chunks::<16>();
        let (found, last_found) = found.as_chunks_mut::<16>();
        for (found, values) in found.iter_mut().zip(values) {
            *found = halves_on(line, *values);
        }
        Plain.looked_up(table, last_values, last_found);
    }
}

/// The half floats of a line at 16 values.
#[inline(always)]
fn halves_on(line: (f32, f32), values: [u8; 16]) -> [[u8; 2]; 16] {
    let values: uint8x16_t = bytemuck::cast(values);
    let first = call!(vget_low_u8(values));
    let (first, last) = (call!(vmovl_u8(first)), call!(vmovl_high_u8(values)));
    bytemuck::cast([eight_on(line, first), eight_on(line, last)])
}

/// The half floats of a line at eight values.
#[inline(always)]
fn eight_on(line: (f32, f32), values: uint16x8_t) -> uint16x8_t {
    let first = call!(vget_low_u16(values));
    let (first, last) = (call!(vmovl_u16(first)), call!(vmovl_high_u16(values)));
    let (first, last) = (numbers_on(line, first), numbers_on(line, last));
    // To the nearest, of two to the even one: no program of ours sets another mode.
    let first = call!(vcvt_f16_f32(first));
    let halves = call!(vcvt_high_f16_f32(first, last));
    call!(vreinterpretq_u16_f16(halves))
}

/// The numbers of a line at four values.
#[inline(always)]
fn numbers_on((factor, offset): (f32, f32), values: uint32x4_t) -> float32x4_t {
    let (factor, offset) = (call!(vdupq_n_f32(factor)), call!(vdupq_n_f32(offset)));
    let numbers = call!(vcvtq_f32_u32(values));
    // Not `vfmaq_f32`, which rounds once.
    let products = call!(vmulq_f32(numbers, factor));
    call!(vaddq_f32(products, offset))
}

#[expect(clippy::cast_possible_truncation, reason = "at most the bits of a word")]
fn word(bits: u32) -> i16 {
    bits as i16
}

impl Lanes for Neon {
    type Vector = [float32x4_t; 2];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Vector {
        [call!(vdupq_n_f32(value)); 2]
    }

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> Self::Vector {
        bytemuck::cast(*values)
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector) -> [f32; LANES] {
        bytemuck::cast(vector)
    }

    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        call_both!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn multiply(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        call_both!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn multiply_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        call_both!(vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // Not `vmaxq_f32`, which gives what is not a number.
        let mask = call_both!(vcgtq_f32(a, b));
        call_both!(vbslq_f32(mask, a, b))
    }

    #[inline(always)]
    fn round(self, vector: Self::Vector) -> Self::Vector {
        call_both!(vrndnq_f32(vector))
    }

    #[inline(always)]
    fn power_of_two(self, exponents: Self::Vector) -> Self::Vector {
        const FRACTION_BITS: i32 = 23;
        let whole = call_both!(vcvtq_s32_f32(exponents));
        let bias = [call!(vdupq_n_s32(127)); 2];
        let biased = call_both!(vaddq_s32(whole, bias));
        bytemuck::cast(call_both!(vshlq_n_s32::<FRACTION_BITS>(biased)))
    }

    #[inline(always)]
    fn exceeding(self, a: Self::Vector, b: Self::Vector) -> u8 {
        let places: [uint32x4_t; 2] = bytemuck::cast([1, 2, 4, 8, 16, 32, 64, 128]);
        let mask = call_both!(vcgtq_f32(a, b));
        let [low, high] = call_both!(vandq_u32(mask, places));
        let bits = call!(vorrq_u32(low, high));
        let bits = call!(vaddvq_u32(bits));
        bits.to_le_bytes()[0]
    }

    #[inline(always)]
    fn where_exceeding(self, a: Self::Vector, b: Self::Vector, kept: Self::Vector) -> Self::Vector {
        let (mask, kept) = (call_both!(vcgtq_f32(a, b)), bits(kept));
        bytemuck::cast(call_both!(vandq_u32(mask, kept)))
    }

    #[inline(always)]
    fn unless_exceeding(
        self,
        a: Self::Vector,
        b: Self::Vector,
        kept: Self::Vector,
    ) -> Self::Vector {
        let (mask, kept) = (call_both!(vcgtq_f32(a, b)), bits(kept));
        bytemuck::cast(call_both!(vbicq_u32(kept, mask)))
    }

    #[inline(always)]
    fn lane_sums(self, [a, b, c, d]: [Self::Vector; 4]) -> [f32; 4] {
        let (ab, cd) = (call_both!(vpaddq_f32(a, b)), call_both!(vpaddq_f32(c, d)));
        let [lower, upper] = call_both!(vpaddq_f32(ab, cd));
        bytemuck::cast(call!(vaddq_f32(lower, upper)))
    }
}

#[inline(always)]
fn bits(vector: [float32x4_t; 2]) -> [uint32x4_t; 2] {
    bytemuck::cast(vector)
}
