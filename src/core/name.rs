//! The names of streams and views, the order of names of files, and long text.

use std::cmp::Ordering;

/// The longest name of a stream or view, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// Whether `name` may name a stream or a view: 1 to 63 of a-z, 0-9, `_` and `-`.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// `text` truncated to `bytes_max` bytes at a character boundary, with an ellipsis.
pub fn clipped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max)])
}

/// Orders numbers inside of names by value: `2.png` before `10.png`.
pub fn natural_order(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(String, String)> {
        let is_digit = |c: &char| c.is_ascii_digit();
        let mut rest = text.chars().peekable();
        let mut parts = Vec::new();
        while rest.peek().is_some() {
            let words = std::iter::from_fn(|| rest.next_if(|c| !is_digit(c))).collect();
            let digits: String = std::iter::from_fn(|| rest.next_if(is_digit)).collect();
            parts.push((words, digits.trim_start_matches('0').to_owned()));
        }
        parts
    };
    let by_value = parts(one).into_iter().map(|(words, digits)| (words, digits.len(), digits));
    by_value
        .cmp(parts(other).into_iter().map(|(words, digits)| (words, digits.len(), digits)))
        .then_with(|| one.cmp(other))
}
