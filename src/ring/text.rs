//! Texts of fixed size in a segment.

use std::fmt;

use bytemuck::{Pod, Zeroable};

/// A text of at most `BYTES` - 1 bytes, padded with NULs.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Text<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Text<BYTES> {
    /// `text`, truncated at a character boundary if it is too long.
    pub fn truncated(text: &str) -> Self {
        let cut = text.floor_char_boundary(BYTES - 1);
        let mut padded = [0; BYTES];
        padded[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        Self(padded)
    }

    /// The bytes before the first NUL. A broken writer may have stored others than UTF-8.
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(BYTES);
        &self.0[..end]
    }
}

impl<const BYTES: usize> fmt::Debug for Text<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}
