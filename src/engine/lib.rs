//! From frames to foveated tokens: what changed, the pyramid that is kept from it, and its sampling.

pub mod change;
pub mod crew;
pub mod link;
pub mod retina;
pub mod simd;
pub mod stream;
