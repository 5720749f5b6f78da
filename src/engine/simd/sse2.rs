//! SSE2, which every processor of this architecture has: 64 bytes are four registers, one for each group.

use std::arch::x86_64::*;

use super::lookup::Lookup;
use super::plain::Plain;
use super::vectors::Vectors;

/// Needs no proof.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sse2;

/// Calls an intrinsic.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: x86-64 has SSE2.
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

type Four = [__m128i; 4];

impl Vectors for Sse2 {
    type Bytes = Four;
    type Words = Four;
    type Sums = Four;

    #[inline(always)]
    fn loaded_bytes(self, bytes: &[u8; 64]) -> Four {
        bytemuck::cast(*bytes)
    }

    #[inline(always)]
    fn widened(self, bytes: &[u8; 32]) -> Four {
        let [a, b]: [__m128i; 2] = bytemuck::cast(*bytes);
        let [none, ..] = self.sums(0);
        [
            call!(_mm_unpacklo_epi8(a, none)),
            call!(_mm_unpackhi_epi8(a, none)),
            call!(_mm_unpacklo_epi8(b, none)),
            call!(_mm_unpackhi_epi8(b, none)),
        ]
    }

    #[inline(always)]
    fn unzipped(self, bytes: &[u8; 64]) -> [Four; 2] {
        bytes_as_words(bytemuck::cast(*bytes))
    }

    #[inline(always)]
    fn words(self, [even, odd]: [i16; 2]) -> Four {
        self.sums(i32::from(odd) << 16 | i32::from(even.cast_unsigned()))
    }

    #[inline(always)]
    fn sums(self, sum: i32) -> Four {
        [call!(_mm_set1_epi32(sum)); 4]
    }

    #[inline(always)]
    fn loaded(self, words: &[u16; 32]) -> Four {
        bytemuck::cast(*words)
    }

    #[inline(always)]
    fn stored(self, words: Four) -> [u16; 32] {
        bytemuck::cast(words)
    }

    #[inline(always)]
    fn stored_sums(self, sums: Four) -> [u32; 16] {
        bytemuck::cast(sums)
    }

    #[inline(always)]
    fn shifted_left<const BITS: u32>(self, words: Four) -> Four {
        let count = count(BITS);
        call_all!(_mm_sll_epi16(words, count))
    }

    #[inline(always)]
    fn rounded_down<const BITS: u32>(self, words: Four) -> Four {
        let raised = self.added(words, self.words([1 << (BITS - 1); 2]));
        let count = count(BITS);
        call_all!(_mm_srl_epi16(raised, count))
    }

    #[inline(always)]
    fn rounded_sums_down<const BITS: u32>(self, sums: Four) -> Four {
        let half = self.sums(1 << (BITS - 1));
        let raised = call_all!(_mm_add_epi32(sums, half));
        let count = count(BITS);
        call_all!(_mm_srl_epi32(raised, count))
    }

    #[inline(always)]
    fn added(self, a: Four, b: Four) -> Four {
        call_all!(_mm_add_epi16(a, b))
    }

    #[inline(always)]
    fn subtracted(self, a: Four, b: Four) -> Four {
        call_all!(_mm_sub_epi16(a, b))
    }

    #[inline(always)]
    fn counted(self, counts: Four, bytes: Four, value: u8) -> Four {
        let values = [call!(_mm_set1_epi8(value.cast_signed())); 4];
        // All bits are set where they are equal: -1.
        let equal = call_all!(_mm_cmpeq_epi8(bytes, values));
        call_all!(_mm_sub_epi8(counts, equal))
    }

    #[inline(always)]
    fn added_distances(self, sums: Four, a: Four, b: Four) -> Four {
        let distances = call_all!(_mm_sad_epu8(a, b));
        call_all!(_mm_add_epi32(sums, distances))
    }

    #[inline(always)]
    fn exceeding<const LEAST: u8>(self, a: Four, b: Four) -> u64 {
        // Only signed bytes can be compared.
        let sign = [call!(_mm_set1_epi8(i8::MIN)); 4];
        let below = [call!(_mm_set1_epi8((LEAST - 1).cast_signed())); 4];
        let (a, b) = (call_all!(_mm_xor_si128(a, sign)), call_all!(_mm_xor_si128(b, sign)));
        let bounds = call_all!(_mm_adds_epi8(b, below));
        let exceeding = call_all!(_mm_cmpgt_epi8(a, bounds));
        let [a, b, c, d] = call_all!(_mm_movemask_epi8(exceeding)).map(i32::cast_unsigned);
        u64::from(d << 16 | c) << 32 | u64::from(b << 16 | a)
    }

    #[inline(always)]
    fn multiplied_and_added(self, sums: Four, a: Four, b: Four) -> Four {
        let products = call_all!(_mm_madd_epi16(a, b));
        call_all!(_mm_add_epi32(sums, products))
    }

    #[inline(always)]
    fn upper_halves(self, even: Four, odd: Four) -> Four {
        const HALF: i32 = 16;
        let even = call_all!(_mm_srli_epi32::<HALF>(even));
        let odd_places = self.words([0, -1]);
        let odd = call_all!(_mm_and_si128(odd, odd_places));
        call_all!(_mm_or_si128(even, odd))
    }

    #[inline(always)]
    fn narrowed(self, a: Four, b: Four) -> Four {
        call_all!(_mm_packus_epi16(a, b))
    }

    #[inline(always)]
    fn narrowed_sums(self, a: Four, b: Four) -> Four {
        call_all!(_mm_packs_epi32(a, b))
    }

    #[inline(always)]
    fn clamped(self, [a, b, c, d]: Four) -> [u8; 32] {
        bytemuck::cast([call!(_mm_packus_epi16(a, b)), call!(_mm_packus_epi16(c, d))])
    }

    #[inline(always)]
    fn added_pairs(self, bytes: Four) -> Four {
        let [even, odd] = bytes_as_words(bytes);
        self.added(even, odd)
    }

    #[inline(always)]
    fn added_halves(self, a: Four, b: Four) -> Four {
        let first = call_all!(_mm_unpacklo_epi64(a, b));
        let last = call_all!(_mm_unpackhi_epi64(a, b));
        call_all!(_mm_add_epi32(first, last))
    }

    #[inline(always)]
    fn transposed_4(self, [a, b, c, d]: Four) -> [[u8; 16]; 4] {
        let (ab, cd) = (call!(_mm_unpacklo_epi32(a, b)), call!(_mm_unpacklo_epi32(c, d)));
        let (ab_last, cd_last) = (call!(_mm_unpackhi_epi32(a, b)), call!(_mm_unpackhi_epi32(c, d)));
        bytemuck::cast([
            call!(_mm_unpacklo_epi64(ab, cd)),
            call!(_mm_unpackhi_epi64(ab, cd)),
            call!(_mm_unpacklo_epi64(ab_last, cd_last)),
            call!(_mm_unpackhi_epi64(ab_last, cd_last)),
        ])
    }

    #[inline(always)]
    fn transposed_2(self, [a, b, c, d]: Four) -> [[u8; 8]; 8] {
        let (ab, cd) = (call!(_mm_unpacklo_epi16(a, b)), call!(_mm_unpacklo_epi16(c, d)));
        let (ab_last, cd_last) = (call!(_mm_unpackhi_epi16(a, b)), call!(_mm_unpackhi_epi16(c, d)));
        bytemuck::cast([
            call!(_mm_unpacklo_epi32(ab, cd)),
            call!(_mm_unpackhi_epi32(ab, cd)),
            call!(_mm_unpacklo_epi32(ab_last, cd_last)),
            call!(_mm_unpackhi_epi32(ab_last, cd_last)),
        ])
    }

    #[inline(always)]
    fn transposed_1(self, [a, b, c, d]: Four) -> [[u8; 4]; 16] {
        let (ab, cd) = (call!(_mm_unpacklo_epi8(a, b)), call!(_mm_unpacklo_epi8(c, d)));
        let (ab_last, cd_last) = (call!(_mm_unpackhi_epi8(a, b)), call!(_mm_unpackhi_epi8(c, d)));
        bytemuck::cast([
            call!(_mm_unpacklo_epi16(ab, cd)),
            call!(_mm_unpackhi_epi16(ab, cd)),
            call!(_mm_unpacklo_epi16(ab_last, cd_last)),
            call!(_mm_unpackhi_epi16(ab_last, cd_last)),
        ])
    }

    #[inline(always)]
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]) {
        Plain.looked_up(table, values, found);
    }
}

/// The bytes at even places and those at odd places.
#[inline(always)]
fn bytes_as_words(bytes: Four) -> [Four; 2] {
    const BYTE: i32 = 8;
    let even_bytes = Sse2.words([0xFF; 2]);
    [call_all!(_mm_and_si128(bytes, even_bytes)), call_all!(_mm_srli_epi16::<BYTE>(bytes))]
}

/// The shift count for each register. The compiler turns it into an immediate.
#[inline(always)]
fn count(bits: u32) -> Four {
    [call!(_mm_cvtsi32_si128(bits.cast_signed())); 4]
}
