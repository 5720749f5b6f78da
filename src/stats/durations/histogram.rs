//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Most bounds of a histogram.
const BOUNDS_MAX: usize = 15;

/// Counts durations by size. Counting one takes two atomic additions.
#[derive(Debug)]
pub struct Histogram {
    bounds_ns: &'static [u64],
    /// One count for each bound and one for durations above the last; the rest stay 0.
    counts: [AtomicU64; BOUNDS_MAX + 1],
    sum_ns: AtomicU64,
}

/// A [`Histogram`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramCounts {
    /// Upper bounds in nanoseconds, ascending; a duration that equals one is below it.
    pub bounds_ns: Vec<u64>,
    /// Durations in each bucket: one for each bound, and one for durations above the last bound.
    pub counts: Vec<u64>,
    /// Sum of all durations in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, ascending, in nanoseconds.
    pub(super) const fn new(bounds_ns: &'static [u64]) -> Self {
        assert!(bounds_ns.len() <= BOUNDS_MAX);
        let counts = [const { AtomicU64::new(0) }; BOUNDS_MAX + 1];
        Self { bounds_ns, counts, sum_ns: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub fn observe(&self, duration_ns: u64) {
        let place = self.bounds_ns.partition_point(|bound| *bound < duration_ns);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(duration_ns, Ordering::Relaxed);
    }

    /// A snapshot. Durations counted concurrently may be in the counts but not yet in the sum.
    pub fn get(&self) -> HistogramCounts {
        let counts = self.counts.iter().take(self.bounds_ns.len() + 1);
        // The sum first, so that an average errs on the low side only.
        let sum_ns = self.sum_ns.load(Ordering::Relaxed);
        HistogramCounts {
            bounds_ns: self.bounds_ns.to_vec(),
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_ns,
        }
    }
}

impl HistogramCounts {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// For each bound in nanoseconds, the number of durations up to it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds_ns.iter().copied().zip(sums)
    }

    /// The durations counted since `earlier`, an earlier snapshot of the same histogram. Of another histogram, as after a
    /// restart, all count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let is_earlier = self.bounds_ns == earlier.bounds_ns
            && earlier.counts.iter().zip(&self.counts).all(|(before, now)| before <= now);
        if !is_earlier {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, before)| now - before);
        Self {
            bounds_ns: self.bounds_ns.clone(),
            counts: counts.collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }

    /// Quantile `share` (0 to 1) in milliseconds, interpolated linearly within its bucket and at most the last bound; `None`
    /// without durations.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        let mut below = 0;
        let mut lower = 0;
        for (&count, &bound) in self.counts.iter().zip(&self.bounds_ns) {
            // In floating point 0.07 of 100 is a little more than 7, and must not be taken from the next bucket.
            if 0 < count && wanted <= (below + count) as f64 * (1.0 + 2.0 * f64::EPSILON) {
                let within = ((wanted - below as f64) / count as f64).min(1.0);
                return Some((lower as f64 + within * (bound - lower) as f64) / 1e6);
            }
            (below, lower) = (below + count, bound);
        }
        let is_above_all = self.counts.last().is_some_and(|count| 0 < *count);
        is_above_all.then_some(lower as f64 / 1e6)
    }
}
