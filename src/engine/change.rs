//! Which tiles changed since the pyramid was built from them, and which are read again anyway.

pub mod detect;
pub mod difference;
pub mod noise;
pub mod refresh;
pub mod resident;
pub mod threshold;
pub mod tracker;
