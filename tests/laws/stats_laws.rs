//! A histogram counts every duration once, in the place that its bounds say; and metrics are written as Prometheus reads them.

use foveate_stats::durations::{HistogramCounts, StreamDurations};
use foveate_stats::metric::{Families, Metric, MetricKind};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_histogram_holds_every_duration_once(durations in prop::collection::vec(duration(), 0..200)) {
        let counts = counted(&durations);
        prop_assert_eq!(counts.count(), durations.len() as u64);
        prop_assert_eq!(counts.sum_ns, durations.iter().sum::<u64>());
        prop_assert_eq!(counts.counts.len(), counts.bounds_ns.len() + 1);
        for (index, bound) in counts.bounds_ns.iter().enumerate() {
            let below = durations.iter().filter(|duration| *duration <= bound).count();
            let count: u64 = counts.counts[..=index].iter().sum();
            prop_assert_eq!(count, below as u64, "up to {}", bound);
        }
    }

    #[test]
    fn what_was_counted_since_is_what_came_since(
        first in prop::collection::vec(duration(), 0..50),
        later in prop::collection::vec(duration(), 0..50),
    ) {
        let all = first.iter().chain(&later).copied().collect::<Vec<_>>();
        let since = counted(&all).since(&counted(&first));
        prop_assert_eq!(since, counted(&later));
        // Another daemon, which has counted less of something: all that it has counted is new.
        if !first.is_empty() {
            prop_assert_eq!(counted(&[]).since(&counted(&first)), counted(&[]));
        }
    }

    #[test]
    fn a_quantile_lies_between_the_bounds_around_it(
        durations in prop::collection::vec(0..9_000_000_000_u64, 1..200),
        percent in 1..=100_u32,
    ) {
        check_quantile(durations, percent)?;
    }
}

/// 0.07 of 100 is more than 7 in floating point.
#[test]
fn a_quantile_at_the_edge_of_a_bucket_lies_in_it() {
    for percent in 1..=100 {
        let edge = percent as usize;
        let durations = [vec![1_200_000; edge], vec![7_000_000; 100 - edge]].concat();
        check_quantile(durations, percent).unwrap();
    }
}

fn check_quantile(mut durations: Vec<u64>, percent: u32) -> Result<(), TestCaseError> {
    let counts = counted(&durations);
    let quantile = counts.quantile_ms(f64::from(percent) / 100.0).unwrap_or(f64::NAN);
    durations.sort_unstable();
    let exact = durations[(durations.len() * percent as usize).div_ceil(100).max(1) - 1];
    let upper = counts.bounds_ns.iter().copied().find(|bound| exact <= *bound);
    let lower = counts.bounds_ns.iter().copied().rfind(|bound| *bound < exact).unwrap_or(0);
    let upper = upper.unwrap_or(u64::MAX);
    prop_assert!(
        lower as f64 / 1e6 <= quantile && quantile <= upper as f64 / 1e6,
        "{lower} {quantile} {upper}"
    );
    Ok(())
}

#[test]
fn names_in_labels_are_written_so_that_prometheus_reads_them() {
    const TABLE: &[Metric<String>] = &[Metric {
        name: "x_total",
        kind: MetricKind::Counter,
        labels: &["of"],
        help: "Lines\nand \\",
        read: |name, samples| {
            samples.add(&[name], 2.5);
            samples.add(&["unknown"], None);
        },
    }];
    let names = ["a \"b\"\n\\".to_owned(), "é".to_owned()];
    let mut families = Families::default();
    families.add(TABLE, names.iter(), |_| [("at", "c")], |name| name);
    let expected = "# HELP x_total Lines\\nand \\\\\n# TYPE x_total counter\n\
                    x_total{at=\"c\",of=\"a \\\"b\\\"\\n\\\\\"} 2.5\nx_total{at=\"c\",of=\"é\"} 2.5\n";
    assert_eq!(families.text(), expected);
}

#[test]
fn of_nothing_there_is_no_quantile() {
    assert_eq!(counted(&[]).quantile_ms(0.5), None);
}

/// Anything up to beyond the last bound, and often a bound itself.
fn duration() -> impl Strategy<Value = u64> {
    let bounds = counted(&[]).bounds_ns;
    prop_oneof![0..20_000_000_000_u64, prop::sample::select(bounds)]
}

fn counted(durations: &[u64]) -> HistogramCounts {
    let histogram = StreamDurations::default().age;
    for duration in durations {
        histogram.observe(*duration);
    }
    histogram.get()
}
