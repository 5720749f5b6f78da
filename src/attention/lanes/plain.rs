//! The definition of each vector operation in plain Rust, and the fallback on processors without AVX2 or NEON.

use super::{LANES, Lanes};

/// Every processor has plain Rust.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

type Vector = [f32; LANES];

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

impl Lanes for Plain {
    type Vector = Vector;

    #[inline(always)]
    fn splat(self, value: f32) -> Vector {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, values: &Vector) -> Vector {
        *values
    }

    #[inline(always)]
    fn store(self, vector: Vector) -> Vector {
        vector
    }

    #[inline(always)]
    fn add(self, a: Vector, b: Vector) -> Vector {
        each!(i => a[i] + b[i])
    }

    #[inline(always)]
    fn multiply(self, a: Vector, b: Vector) -> Vector {
        each!(i => a[i] * b[i])
    }

    /// Not `f32::mul_add`, which without the instruction is a call.
    #[inline(always)]
    fn multiply_add(self, a: Vector, b: Vector, c: Vector) -> Vector {
        each!(i => a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn max(self, a: Vector, b: Vector) -> Vector {
        each!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }

    /// Adding 1.5 * 2^23 leaves no bits for a fraction.
    #[inline(always)]
    fn round(self, vector: Vector) -> Vector {
        const SHIFT: f32 = 12_582_912.0;
        each!(i => (vector[i] + SHIFT) - SHIFT)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "whole, and small")]
    fn power_of_two(self, exponents: Vector) -> Vector {
        each!(i => f32::from_bits(((exponents[i] as i32 + 127) << 23).cast_unsigned()))
    }

    #[inline(always)]
    fn exceeding(self, a: Vector, b: Vector) -> u8 {
        let mut mask = 0;
        for i in 0..LANES {
            mask |= u8::from(a[i] > b[i]) << i;
        }
        mask
    }

    #[inline(always)]
    fn where_exceeding(self, a: Vector, b: Vector, kept: Vector) -> Vector {
        each!(i => if a[i] > b[i] { kept[i] } else { 0.0 })
    }

    #[inline(always)]
    fn unless_exceeding(self, a: Vector, b: Vector, kept: Vector) -> Vector {
        each!(i => if a[i] > b[i] { 0.0 } else { kept[i] })
    }

    /// In the order of the instructions that add neighbours.
    #[inline(always)]
    fn sums(self, vectors: [Vector; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        for (sum, v) in sums.iter_mut().zip(&vectors) {
            *sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        }
        sums
    }
}
