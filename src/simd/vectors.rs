//! The vector operations that kernels are written in.

use super::lanes::Lanes;
use super::lookup::Lookup;

/// Operations on 64 bytes at a time. A value of an implementing type is proof that the processor has its instructions.
///
/// The 64 bytes are four *groups* of 16; operations that move numbers do so within each group, as the instructions do.
/// Addition, subtraction and multiplication wrap.
pub trait Vectors: Copy {
    /// 64 numbers of 8 bits, unsigned.
    type Bytes: Copy;
    /// 32 numbers of 16 bits, signed where that matters.
    type Words: Copy;
    /// 16 numbers of 32 bits, signed where that matters.
    type Sums: Copy;
    /// Operations on numbers of 32 bits.
    type Lanes: Lanes;

    /// The operations on numbers of 32 bits.
    fn lanes(self) -> Self::Lanes;

    /// Loads bytes from memory.
    fn loaded_bytes(self, bytes: &[u8; 64]) -> Self::Bytes;

    /// Each byte as a word.
    fn widened(self, bytes: &[u8; 32]) -> Self::Words;

    /// The bytes at even places and those at odd places, each as a word.
    fn unzipped(self, bytes: &[u8; 64]) -> [Self::Words; 2];

    /// `pair` over and over.
    fn words(self, pair: [i16; 2]) -> Self::Words;

    /// `sum` over and over.
    fn sums(self, sum: i32) -> Self::Sums;

    /// Loads words from memory.
    fn loaded(self, words: &[u16; 32]) -> Self::Words;

    /// Stores words to memory.
    fn stored(self, words: Self::Words) -> [u16; 32];

    /// Stores sums to memory.
    fn stored_sums(self, sums: Self::Sums) -> [u32; 16];

    /// `words << BITS`.
    fn shifted_left<const BITS: u32>(self, words: Self::Words) -> Self::Words;

    /// `(words + 2^(BITS - 1)) >> BITS`, unsigned: the rounded quotients by 2^`BITS`.
    fn rounded_down<const BITS: u32>(self, words: Self::Words) -> Self::Words;

    /// `(sums + 2^(BITS - 1)) >> BITS`, unsigned: the rounded quotients by 2^`BITS`.
    fn rounded_sums_down<const BITS: u32>(self, sums: Self::Sums) -> Self::Sums;

    /// `a + b`.
    fn added(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// `a - b`.
    fn subtracted(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Adds 1 to the counts where the byte is `value`.
    fn counted(self, counts: Self::Bytes, bytes: Self::Bytes, value: u8) -> Self::Bytes;

    /// Adds the distances between `a` and `b`: of each eight bytes to a sum at an even place.
    fn added_distances(self, sums: Self::Sums, a: Self::Bytes, b: Self::Bytes) -> Self::Sums;

    /// Bit i: whether byte i of `a` exceeds that of `b` by at least `LEAST`, which is 1 to 128.
    fn exceeding<const LEAST: u8>(self, a: Self::Bytes, b: Self::Bytes) -> u64;

    /// `sums[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1]`.
    fn multiplied_and_added(self, sums: Self::Sums, a: Self::Words, b: Self::Words) -> Self::Sums;

    /// The upper halves: those of `even` at even places, those of `odd` at odd places.
    fn upper_halves(self, even: Self::Sums, odd: Self::Sums) -> Self::Words;

    /// Narrows each group: eight words of `a`, then of `b`, clamped to 0..=255.
    fn narrowed(self, a: Self::Words, b: Self::Words) -> Self::Bytes;

    /// Narrows each group: four sums of `a`, then of `b`, clamped to 16 bits.
    fn narrowed_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Words;

    /// The words in order, clamped to 0..=255.
    fn clamped(self, words: Self::Words) -> [u8; 32];

    /// `bytes[2i] + bytes[2i + 1]`.
    fn added_pairs(self, bytes: Self::Bytes) -> Self::Words;

    /// Adds halves in each group: the first two sums of `a` plus its last two, then the first two of `b` plus its last two.
    fn added_halves(self, a: Self::Sums, b: Self::Sums) -> Self::Sums;

    /// Transposes groups of four times 4 bytes: for each place in a group, the 4 bytes there of all groups.
    fn transposed_4(self, bytes: Self::Bytes) -> [[u8; 16]; 4];

    /// Transposes groups of eight times 2 bytes: for each place in a group, the 2 bytes there of all groups.
    fn transposed_2(self, bytes: Self::Bytes) -> [[u8; 8]; 8];

    /// Transposes groups of bytes: for each place in a group, the bytes there of all groups.
    fn transposed_1(self, bytes: Self::Bytes) -> [[u8; 4]; 16];

    /// Sets each of `found` to the entry of `table` for the value at its index.
    ///
    /// # Panics
    ///
    /// If `values` and `found` differ in length.
    fn looked_up(self, table: &Lookup, values: &[u8], found: &mut [[u8; 2]]);
}
