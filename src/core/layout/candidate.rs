//! The order in which layouts divide the picture.

use std::cmp::Ordering;

/// A part of the picture that can be divided. The greatest comes first: the highest priority, then the greatest `part`.
pub(super) struct Candidate<T> {
    pub(super) priority: f64,
    pub(super) part: T,
}

impl<T: Ord> Ord for Candidate<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then_with(|| self.part.cmp(&other.part))
    }
}

impl<T: Ord> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Candidate<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Candidate<T> {}
