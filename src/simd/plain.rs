//! The definition of every operation in plain Rust: the oracle of the others, and the fallback on other processors.

use super::lanes::{LANES, Lanes};
use super::lookup::Lookup;
use super::vectors::Vectors;

/// Arrays and loops, compiled for the baseline of the target.
///
/// Its operations on bytes are not inlined: inlining would make the compiler split the arrays, which takes longer to compile and
/// gains nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

/// Bytes of a group.
const GROUP: usize = 16;

/// Lane by lane.
macro_rules! each {
    ($lane:ident => $value:expr) => {{
        let mut found = [0.0; LANES];
        for $lane in 0..LANES {
            found[$lane] = $value;
        }
        found
    }};
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers are taken as signed or not, and modulo their width, as the operations say"
)]
impl Vectors for Plain {
    type Bytes = [u8; 64];
    type Words = [i16; 32];
    type Sums = [i32; 16];
    type Lanes = Self;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    #[inline(never)]
    fn loaded_bytes(self, bytes: &[u8; 64]) -> [u8; 64] {
        *bytes
    }

    #[inline(never)]
    fn widened(self, bytes: &[u8; 32]) -> [i16; 32] {
        let mut words = [0; 32];
        for (word, byte) in words.iter_mut().zip(bytes) {
            *word = i16::from(*byte);
        }
        words
    }

    #[inline(never)]
    fn unzipped(self, bytes: &[u8; 64]) -> [[i16; 32]; 2] {
        let [mut even, mut odd] = [[0; 32]; 2];
        for (i, [first, second]) in bytes.as_chunks().0.iter().enumerate() {
            even[i] = i16::from(*first);
            odd[i] = i16::from(*second);
        }
        [even, odd]
    }

    #[inline(never)]
    fn words(self, pair: [i16; 2]) -> [i16; 32] {
        let mut words = [pair[0]; 32];
        for i in 0..16 {
            words[2 * i + 1] = pair[1];
        }
        words
    }

    #[inline(never)]
    fn sums(self, sum: i32) -> [i32; 16] {
        [sum; 16]
    }

    #[inline(never)]
    fn loaded(self, words: &[u16; 32]) -> [i16; 32] {
        bytemuck::cast(*words)
    }

    #[inline(never)]
    fn stored(self, words: [i16; 32]) -> [u16; 32] {
        bytemuck::cast(words)
    }

    #[inline(never)]
    fn stored_sums(self, sums: [i32; 16]) -> [u32; 16] {
        bytemuck::cast(sums)
    }

    #[inline(never)]
    fn shifted_left<const BITS: u32>(self, mut words: [i16; 32]) -> [i16; 32] {
        for word in &mut words {
            *word <<= BITS;
        }
        words
    }

    #[inline(never)]
    fn rounded_down<const BITS: u32>(self, mut words: [i16; 32]) -> [i16; 32] {
        for word in &mut words {
            *word = ((*word as u16).wrapping_add(1 << (BITS - 1)) >> BITS) as i16;
        }
        words
    }

    #[inline(never)]
    fn rounded_sums_down<const BITS: u32>(self, mut sums: [i32; 16]) -> [i32; 16] {
        for sum in &mut sums {
            *sum = ((*sum as u32).wrapping_add(1 << (BITS - 1)) >> BITS) as i32;
        }
        sums
    }

    #[inline(never)]
    fn added(self, mut a: [i16; 32], b: [i16; 32]) -> [i16; 32] {
        for (a, b) in a.iter_mut().zip(&b) {
            *a = a.wrapping_add(*b);
        }
        a
    }

    #[inline(never)]
    fn subtracted(self, mut a: [i16; 32], b: [i16; 32]) -> [i16; 32] {
        for (a, b) in a.iter_mut().zip(&b) {
            *a = a.wrapping_sub(*b);
        }
        a
    }

    #[inline(never)]
    fn counted(self, mut counts: [u8; 64], bytes: [u8; 64], value: u8) -> [u8; 64] {
        for (count, byte) in counts.iter_mut().zip(&bytes) {
            *count = count.wrapping_add(u8::from(*byte == value));
        }
        counts
    }

    #[inline(never)]
    fn added_distances(self, mut sums: [i32; 16], a: [u8; 64], b: [u8; 64]) -> [i32; 16] {
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            let sum = &mut sums[i / 8 * 2];
            *sum = sum.wrapping_add(i32::from(a.abs_diff(*b)));
        }
        sums
    }

    #[inline(never)]
    fn exceeding<const LEAST: u8>(self, a: [u8; 64], b: [u8; 64]) -> u64 {
        let mut bits = 0;
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            bits |= u64::from(LEAST <= a.saturating_sub(*b)) << i;
        }
        bits
    }

    #[inline(never)]
    fn multiplied_and_added(self, mut sums: [i32; 16], a: [i16; 32], b: [i16; 32]) -> [i32; 16] {
        for (i, sum) in sums.iter_mut().enumerate() {
            let first = i32::from(a[2 * i]) * i32::from(b[2 * i]);
            let second = i32::from(a[2 * i + 1]) * i32::from(b[2 * i + 1]);
            *sum = sum.wrapping_add(first.wrapping_add(second));
        }
        sums
    }

    #[inline(never)]
    fn upper_halves(self, even: [i32; 16], odd: [i32; 16]) -> [i16; 32] {
        let mut words = [0; 32];
        for i in 0..16 {
            words[2 * i] = (even[i] >> 16) as i16;
            words[2 * i + 1] = (odd[i] >> 16) as i16;
        }
        words
    }

    #[inline(never)]
    fn narrowed(self, a: [i16; 32], b: [i16; 32]) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (i, group) in bytes.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            for j in 0..8 {
                group[j] = a[8 * i + j].clamp(0, 255) as u8;
                group[8 + j] = b[8 * i + j].clamp(0, 255) as u8;
            }
        }
        bytes
    }

    #[inline(never)]
    fn narrowed_sums(self, a: [i32; 16], b: [i32; 16]) -> [i16; 32] {
        let (least, most) = (i32::from(i16::MIN), i32::from(i16::MAX));
        let mut words = [0; 32];
        for (i, group) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            for j in 0..4 {
                group[j] = a[4 * i + j].clamp(least, most) as i16;
                group[4 + j] = b[4 * i + j].clamp(least, most) as i16;
            }
        }
        words
    }

    #[inline(never)]
    fn clamped(self, words: [i16; 32]) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (byte, word) in bytes.iter_mut().zip(&words) {
            *byte = (*word).clamp(0, 255) as u8;
        }
        bytes
    }

    #[inline(never)]
    fn added_pairs(self, bytes: [u8; 64]) -> [i16; 32] {
        let mut words = [0; 32];
        for (word, [left, right]) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i16::from(*left) + i16::from(*right);
        }
        words
    }

    #[inline(never)]
    fn added_halves(self, a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        let mut sums = [0; 16];
        for (i, group) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            for j in 0..2 {
                group[j] = a[4 * i + j].wrapping_add(a[4 * i + 2 + j]);
                group[2 + j] = b[4 * i + j].wrapping_add(b[4 * i + 2 + j]);
            }
        }
        sums
    }

    #[inline(never)]
    fn transposed_4(self, bytes: [u8; 64]) -> [[u8; 16]; 4] {
        bytemuck::cast(transposed::<[u8; 4], 16>(bytemuck::cast(bytes)))
    }

    #[inline(never)]
    fn transposed_2(self, bytes: [u8; 64]) -> [[u8; 8]; 8] {
        bytemuck::cast(transposed::<[u8; 2], 32>(bytemuck::cast(bytes)))
    }

    #[inline(never)]
    fn transposed_1(self, bytes: [u8; 64]) -> [[u8; 4]; 16] {
        bytemuck::cast(transposed::<u8, 64>(bytes))
    }

    #[inline(never)]
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]) {
        assert_eq!(values.len(), found.len(), "a place for each value");
        for (found, value) in found.iter_mut().zip(values) {
            *found = table.words()[usize::from(*value)];
        }
    }
}

/// Transposes groups.
#[inline(never)]
fn transposed<T: Copy, const N: usize>(groups: [T; N]) -> [T; N] {
    let mut places = groups;
    for group in 0..4 {
        for place in 0..N / 4 {
            places[4 * place + group] = groups[N / 4 * group + place];
        }
    }
    places
}

impl Lanes for Plain {
    type Vector = [f32; LANES];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Vector {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, values: &Self::Vector) -> Self::Vector {
        *values
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector) -> Self::Vector {
        vector
    }

    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each!(i => a[i] + b[i])
    }

    #[inline(always)]
    fn multiply(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each!(i => a[i] * b[i])
    }

    /// Not `f32::mul_add`, which without the instruction is a call.
    #[inline(always)]
    fn multiply_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        each!(i => a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }

    /// Adding 1.5 * 2^23 leaves no bits for a fraction.
    #[inline(always)]
    fn round(self, vector: Self::Vector) -> Self::Vector {
        const SHIFT: f32 = 12_582_912.0;
        each!(i => (vector[i] + SHIFT) - SHIFT)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "whole, and small")]
    fn power_of_two(self, exponents: Self::Vector) -> Self::Vector {
        each!(i => f32::from_bits(((exponents[i] as i32 + 127) << 23).cast_unsigned()))
    }

    #[inline(always)]
    fn exceeding(self, a: Self::Vector, b: Self::Vector) -> u8 {
        let mut mask = 0;
        for i in 0..LANES {
            mask |= u8::from(a[i] > b[i]) << i;
        }
        mask
    }

    #[inline(always)]
    fn where_exceeding(self, a: Self::Vector, b: Self::Vector, kept: Self::Vector) -> Self::Vector {
        each!(i => if a[i] > b[i] { kept[i] } else { 0.0 })
    }

    #[inline(always)]
    fn unless_exceeding(
        self,
        a: Self::Vector,
        b: Self::Vector,
        kept: Self::Vector,
    ) -> Self::Vector {
        each!(i => if a[i] > b[i] { 0.0 } else { kept[i] })
    }

    /// Adds in the order of the instructions that add neighbours.
    #[inline(always)]
    fn lane_sums(self, vectors: [Self::Vector; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        for (sum, v) in sums.iter_mut().zip(&vectors) {
            *sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        }
        sums
    }
}
