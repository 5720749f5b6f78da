//! Which tiles changed since the pyramid was built from them.

pub mod detect;
pub mod resident;
