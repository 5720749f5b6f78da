//! The same code for each set of vector instructions, chosen once at run time.

#![allow(
    unsafe_code,
    reason = "calling code compiled for instructions that the processor was asked about"
)]

/// Vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// What every processor of this architecture has.
    Baseline,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
    /// AVX-512 with bytes, words and vectors of any length.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected),
}

/// Proof that the processor has the instructions: only [`Instructions`] makes one, after asking.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected(());

/// Plain Rust that gains from wide vectors: loops without branches over arrays. It is compiled once for each set of
/// instructions, so its result is the same with all of them.
pub trait Kernel {
    /// What it returns.
    type Output;

    /// Runs it. Must be `#[inline(always)]`, as must be all that it calls in its inner loops: only then is it compiled
    /// for the instructions of its caller.
    fn run(self) -> Self::Output;
}

impl Instructions {
    /// Every set that this processor has, the plainest first.
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                available.push(Self::Avx2(Detected(())));
            }
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                available.push(Self::Avx512(Detected(())));
            }
        }
        available
    }

    /// The widest set that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Baseline)
    }

    /// Runs a kernel with these instructions.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Baseline => kernel.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX2.
            Self::Avx2(Detected(())) => unsafe { run_avx2(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Detected` is made only after the processor said that it has AVX-512 BW and VL.
            Self::Avx512(Detected(())) => unsafe { run_avx512(kernel) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vl")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
