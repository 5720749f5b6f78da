//! The operations on numbers of 32 bits that kernels are written in.

/// Numbers in a vector.
pub const LANES: usize = 8;

/// Operations on eight numbers at a time. A value of an implementing type is proof that the processor has its
/// instructions.
pub trait Lanes: Copy {
    /// Eight numbers.
    type Vector: Copy;

    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Vector;

    /// Loads from memory.
    fn load(self, values: &[f32; LANES]) -> Self::Vector;

    /// Stores to memory.
    fn store(self, vector: Self::Vector) -> [f32; LANES];

    /// `a + b`.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a * b`.
    fn multiply(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `a * b + c`, rounded once or twice.
    fn multiply_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// The larger of each two; `b` where one is not a number.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The nearest whole numbers.
    fn round(self, vector: Self::Vector) -> Self::Vector;

    /// 2 to the power of whole numbers from -126 to 127.
    fn power_of_two(self, exponents: Self::Vector) -> Self::Vector;

    /// Bit i: whether lane i of `a` exceeds that of `b`.
    fn exceeding(self, a: Self::Vector, b: Self::Vector) -> u8;

    /// `kept` where `a` exceeds `b`, else zero.
    fn where_exceeding(self, a: Self::Vector, b: Self::Vector, kept: Self::Vector) -> Self::Vector;

    /// Zero where `a` exceeds `b`, else `kept`.
    fn unless_exceeding(self, a: Self::Vector, b: Self::Vector, kept: Self::Vector)
    -> Self::Vector;

    /// The sum of the lanes of each.
    fn lane_sums(self, vectors: [Self::Vector; 4]) -> [f32; 4];

    /// e to the power of numbers up to 0, to 2 units in the last place; 0 below -87; not a number of what is
    /// not one.
    #[inline(always)]
    fn exp(self, x: Self::Vector) -> Self::Vector {
        // Polynomial and split of ln 2 of Cephes' `expf` (S. L. Moshier, 1992).
        const POLYNOMIAL: [f32; 6] =
            [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
        let least = self.splat(-87.0);
        // The second argument is what comes of something that is not a number.
        let clamped = self.max(least, x);
        let exponents = self.round(self.multiply(clamped, self.splat(std::f32::consts::LOG2_E)));
        let rest = self.multiply_add(exponents, self.splat(-LN_2[0]), clamped);
        let rest = self.multiply_add(exponents, self.splat(-LN_2[1]), rest);
        let mut sum = self.splat(POLYNOMIAL[0]);
        for factor in &POLYNOMIAL[1..] {
            sum = self.multiply_add(sum, rest, self.splat(*factor));
        }
        let sum = self.multiply_add(self.multiply(rest, rest), sum, rest);
        let power = self.power_of_two(exponents);
        self.unless_exceeding(least, x, self.multiply_add(sum, power, power))
    }
}
