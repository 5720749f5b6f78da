//! Kernels compiled for several sets of vector instructions, chosen at run time.
//!
//! A [`Kernel`] is written once, over [`Lanes`]: eight numbers at a time. Sums are made in the same order by all sets, but
//! AVX2 and NEON round a product and its sum once and plain Rust twice, so results agree to rounding only.

#![allow(
    unsafe_code,
    reason = "calls code compiled for instructions that were detected at run time"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;

/// Numbers in a vector.
pub(crate) const LANES: usize = 8;

/// Vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Plain Rust.
    Plain,
    /// NEON, which every processor of this architecture has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
}

/// Proof that the processor has the instructions: only [`Instructions`] makes one, after detection.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected(());

/// Work that gains from vectors. It is compiled once for each set of instructions.
pub(crate) trait Kernel {
    /// Runs the kernel. Must be `#[inline(always)]`, as must everything it calls in its inner loops: only then is it
    /// compiled for the instructions of its caller. Closures cannot be, so they are kept out of such loops.
    fn run<L: Lanes>(self, lanes: L);
}

impl Instructions {
    /// Every set that this processor has, the plainest first.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(
            not(any(target_arch = "aarch64", target_arch = "x86_64")),
            expect(unused_mut, reason = "there are no others")
        )]
        let mut available = vec![Self::Plain];
        #[cfg(target_arch = "aarch64")]
        available.push(Self::Neon);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            available.push(Self::Avx2(Detected(())));
        }
        available
    }

    /// The widest set that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Plain)
    }

    /// Runs a kernel with these instructions.
    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        match self {
            Self::Plain => kernel.run(plain::Plain),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => kernel.run(neon::Neon),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX2 and FMA.
            Self::Avx2(detected) => unsafe { run_avx2(kernel, detected) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Kernel>(kernel: K, detected: Detected) {
    kernel.run(avx2::Avx2::new(detected));
}

/// Operations on eight numbers at a time. A value of an implementing type is proof that the processor has its
/// instructions.
pub(crate) trait Lanes: Copy {
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
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4];

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
