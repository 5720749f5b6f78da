//! The names of streams and views.

/// The longest name of a stream or view, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// Whether `name` may name a stream or a view: 1 to 63 of a-z, 0-9, `_` and `-`.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}
