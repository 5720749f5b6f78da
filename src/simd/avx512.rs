//! AVX-512: 64 bytes are one register. The lanes of numbers are those of AVX2.

use std::arch::x86_64::*;

use super::Detected;
use super::avx2::Avx2;
use super::lookup::Lookup;
use super::vectors::Vectors;

/// Proof of AVX-512 BW, VL and VNNI, and of what [`Avx2`] needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(pub(super) Detected);

/// Calls an intrinsic in a method of [`Avx512`], whose value proves AVX-512.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: `self` is proof that the processor has AVX-512 BW, VL and VNNI; pointers come from references to as
        // many bytes as are moved.
        unsafe { $call }
    };
}

impl Vectors for Avx512 {
    type Bytes = __m512i;
    type Words = __m512i;
    type Sums = __m512i;
    type Lanes = Avx2;

    #[inline(always)]
    fn lanes(self) -> Avx2 {
        Avx2(self.0)
    }

    #[inline(always)]
    fn loaded_bytes(self, bytes: &[u8; 64]) -> __m512i {
        bytemuck::cast(*bytes)
    }

    #[inline(always)]
    fn widened(self, bytes: &[u8; 32]) -> __m512i {
        let bytes: __m256i = bytemuck::cast(*bytes);
        call!(_mm512_cvtepu8_epi16(bytes))
    }

    #[inline(always)]
    fn unzipped(self, bytes: &[u8; 64]) -> [__m512i; 2] {
        let both: __m512i = bytemuck::cast(*bytes);
        let even_bytes = self.words([0xFF; 2]);
        [call!(_mm512_and_si512(both, even_bytes)), call!(_mm512_srli_epi16::<8>(both))]
    }

    #[inline(always)]
    fn words(self, [even, odd]: [i16; 2]) -> __m512i {
        call!(_mm512_set1_epi32(i32::from(odd) << 16 | i32::from(even.cast_unsigned())))
    }

    #[inline(always)]
    fn sums(self, sum: i32) -> __m512i {
        call!(_mm512_set1_epi32(sum))
    }

    #[inline(always)]
    fn loaded(self, words: &[u16; 32]) -> __m512i {
        bytemuck::cast(*words)
    }

    #[inline(always)]
    fn stored(self, words: __m512i) -> [u16; 32] {
        bytemuck::cast(words)
    }

    #[inline(always)]
    fn stored_sums(self, sums: __m512i) -> [u32; 16] {
        bytemuck::cast(sums)
    }

    #[inline(always)]
    fn shifted_left<const BITS: u32>(self, words: __m512i) -> __m512i {
        call!(_mm512_slli_epi16::<BITS>(words))
    }

    #[inline(always)]
    fn rounded_down<const BITS: u32>(self, words: __m512i) -> __m512i {
        let raised = self.added(words, self.words([1 << (BITS - 1); 2]));
        call!(_mm512_srli_epi16::<BITS>(raised))
    }

    #[inline(always)]
    fn rounded_sums_down<const BITS: u32>(self, sums: __m512i) -> __m512i {
        let half = self.sums(1 << (BITS - 1));
        let raised = call!(_mm512_add_epi32(sums, half));
        call!(_mm512_srli_epi32::<BITS>(raised))
    }

    #[inline(always)]
    fn added(self, a: __m512i, b: __m512i) -> __m512i {
        call!(_mm512_add_epi16(a, b))
    }

    #[inline(always)]
    fn subtracted(self, a: __m512i, b: __m512i) -> __m512i {
        call!(_mm512_sub_epi16(a, b))
    }

    #[inline(always)]
    fn counted(self, counts: __m512i, bytes: __m512i, value: u8) -> __m512i {
        let values = call!(_mm512_set1_epi8(value.cast_signed()));
        let equal = call!(_mm512_cmpeq_epi8_mask(bytes, values));
        let ones = call!(_mm512_set1_epi8(1));
        call!(_mm512_mask_add_epi8(counts, equal, counts, ones))
    }

    #[inline(always)]
    fn added_distances(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        let distances = call!(_mm512_sad_epu8(a, b));
        call!(_mm512_add_epi32(sums, distances))
    }

    #[inline(always)]
    fn exceeding<const LEAST: u8>(self, a: __m512i, b: __m512i) -> u64 {
        let least = call!(_mm512_set1_epi8(LEAST.cast_signed()));
        let excess = call!(_mm512_subs_epu8(a, b));
        call!(_mm512_cmpge_epu8_mask(excess, least))
    }

    #[inline(always)]
    fn multiplied_and_added(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        call!(_mm512_dpwssd_epi32(sums, a, b))
    }

    #[inline(always)]
    fn upper_halves(self, even: __m512i, odd: __m512i) -> __m512i {
        const PLACES: [u16; 32] = {
            let mut places = [0; 32];
            let mut place = 0;
            while place < 32 {
                // The upper half of a sum is its second word; from 32 on they are those of `odd`.
                places[place as usize] = (place | 1) + place % 2 * 32;
                place += 1;
            }
            places
        };
        call!(_mm512_permutex2var_epi16(even, bytemuck::cast(PLACES), odd))
    }

    #[inline(always)]
    fn narrowed(self, a: __m512i, b: __m512i) -> __m512i {
        call!(_mm512_packus_epi16(a, b))
    }

    #[inline(always)]
    fn narrowed_sums(self, a: __m512i, b: __m512i) -> __m512i {
        call!(_mm512_packs_epi32(a, b))
    }

    #[inline(always)]
    fn clamped(self, words: __m512i) -> [u8; 32] {
        let positive = call!(_mm512_max_epi16(words, self.sums(0)));
        bytemuck::cast(call!(_mm512_cvtusepi16_epi8(positive)))
    }

    #[inline(always)]
    fn added_pairs(self, bytes: __m512i) -> __m512i {
        let ones = self.words([0x0101; 2]);
        call!(_mm512_maddubs_epi16(bytes, ones))
    }

    #[inline(always)]
    fn added_halves(self, a: __m512i, b: __m512i) -> __m512i {
        let first = call!(_mm512_unpacklo_epi64(a, b));
        let last = call!(_mm512_unpackhi_epi64(a, b));
        call!(_mm512_add_epi32(first, last))
    }

    #[inline(always)]
    fn transposed_4(self, bytes: __m512i) -> [[u8; 16]; 4] {
        const PLACES: [u32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        let places = bytemuck::cast(PLACES);
        bytemuck::cast(call!(_mm512_permutexvar_epi32(places, bytes)))
    }

    #[inline(always)]
    fn transposed_2(self, bytes: __m512i) -> [[u8; 8]; 8] {
        const PLACES: [u16; 32] = [
            0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27, //
            4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31,
        ];
        let places = bytemuck::cast(PLACES);
        bytemuck::cast(call!(_mm512_permutexvar_epi16(places, bytes)))
    }

    #[inline(always)]
    fn transposed_1(self, bytes: __m512i) -> [[u8; 4]; 16] {
        const PLACES: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        let quarters: __m512i = bytemuck::cast(self.transposed_4(bytes));
        let places: __m512i = bytemuck::cast([PLACES; 4]);
        bytemuck::cast(call!(_mm512_shuffle_epi8(quarters, places)))
    }

    #[inline(always)]
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]) {
        assert_eq!(values.len(), found.len(), "a place for each value");
        let table: &[[[u8; 2]; 32]] = table.words().as_chunks().0;
        let mut parts = [self.sums(0); 8];
        for (part, entries) in parts.iter_mut().zip(table) {
            *part = bytemuck::cast(*entries);
        }
        let (values, last_values) = values.as_chunks::<32>();
        let (found, last_found) = found.as_chunks_mut::<32>();
        for (found, values) in found.iter_mut().zip(values) {
            *found = bytemuck::cast(self.looked_up_in(&parts, values));
        }
        if !last_values.is_empty() {
            let mut values = [0; 32];
            values[..last_values.len()].copy_from_slice(last_values);
            let found: [[u8; 2]; 32] = bytemuck::cast(self.looked_up_in(&parts, &values));
            last_found.copy_from_slice(&found[..last_values.len()]);
        }
    }
}

impl Avx512 {
    /// Looks up 32 values in a table of eight registers.
    #[inline(always)]
    fn looked_up_in(self, table: &[__m512i; 8], values: &[u8; 32]) -> __m512i {
        let values = self.widened(values);
        // One instruction selects among 64 words by the lower six bits of a value.
        let a = call!(_mm512_permutex2var_epi16(table[0], values, table[1]));
        let b = call!(_mm512_permutex2var_epi16(table[2], values, table[3]));
        let c = call!(_mm512_permutex2var_epi16(table[4], values, table[5]));
        let d = call!(_mm512_permutex2var_epi16(table[6], values, table[7]));
        let bit_6 = self.words([1 << 6; 2]);
        let odd = call!(_mm512_test_epi16_mask(values, bit_6));
        let bit_7 = self.words([1 << 7; 2]);
        let upper = call!(_mm512_test_epi16_mask(values, bit_7));
        let ab = call!(_mm512_mask_blend_epi16(odd, a, b));
        let cd = call!(_mm512_mask_blend_epi16(odd, c, d));
        call!(_mm512_mask_blend_epi16(upper, ab, cd))
    }
}
