//! Kernels compiled for several sets of vector instructions, chosen at run time.
//!
//! A [`Kernel`] is written once, over [`Vectors`]: 64 bytes at a time, or eight numbers of 32 bits ([`Lanes`]). `plain` defines each
//! operation in a few lines of Rust, and runs on other processors; the others are a few instructions each. On bytes, all give the same
//! results. Sums of lanes are made in the same order by all, but AVX2 and NEON round a product and its sum once and plain Rust twice, so
//! their results agree to rounding only.

#![allow(
    unsafe_code,
    reason = "calls code compiled for instructions that were detected at run time"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
mod lookup;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
mod vectors;

pub use lanes::{LANES, Lanes};
pub use lookup::Lookup;
pub use vectors::Vectors;

/// Vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Plain Rust, which is compiled to SSE2 on x86-64.
    Plain,
    /// NEON, which every processor of this architecture has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
    /// AVX2, FMA, F16C, and AVX-512 BW, VL and VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected),
}

/// Proof that the processor has the instructions: only [`Instructions`] makes one, after detection.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected(());

/// Work that gains from wide vectors. It is compiled once for each set of instructions.
pub trait Kernel {
    /// Runs the kernel. Must be `#[inline(always)]`, as must everything it calls in its inner loops: only then is it
    /// compiled for the instructions of its caller. Closures cannot be, so they are kept out of such loops; the
    /// operations of `plain` need not be.
    fn run<V: Vectors>(self, vectors: V);
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
        {
            let has_avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let has_avx512 = is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            if has_avx2 {
                available.push(Self::Avx2(Detected(())));
            }
            if has_avx2 && has_avx512 {
                available.push(Self::Avx512(Detected(())));
            }
        }
        available
    }

    /// The name of the set, as options take it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
        }
    }

    /// The widest set that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Plain)
    }

    /// Runs a kernel with these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) {
        match self {
            Self::Plain => kernel.run(plain::Plain),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => kernel.run(neon::Neon),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX2, FMA and F16C.
            Self::Avx2(detected) => unsafe { run_avx2(kernel, detected) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has these and AVX-512 BW, VL and VNNI.
            Self::Avx512(detected) => unsafe { run_avx512(kernel, detected) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K, detected: Detected) {
    kernel.run(avx2::Avx2(detected));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512bw,avx512vl,avx512vnni")]
fn run_avx512<K: Kernel>(kernel: K, detected: Detected) {
    kernel.run(avx512::Avx512(detected));
}
