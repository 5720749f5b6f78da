//! Memory that begins with a cache line.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest vector.
pub const LINE: usize = 64;

/// Bytes from the start of a cache line on: of wide loads and stores that begin elsewhere, all touch two lines.
///
/// A clone may begin elsewhere; it is only slower.
#[derive(Clone, Debug)]
pub struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// `len` bytes, all 0.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + LINE - 1];
        let start = memory.as_ptr().align_offset(LINE).min(LINE - 1);
        Self { memory, start, len }
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut aligned = Self::new(bytes.len());
        aligned.copy_from_slice(bytes);
        aligned
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}
