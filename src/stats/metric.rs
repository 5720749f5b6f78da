//! Tables of metrics, and Prometheus' text format.

use std::fmt::Write as _;

use crate::durations::HistogramCounts;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// One metric of a snapshot `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// Name of the metric, with its unit.
    pub name: &'static str,
    /// Type of the metric in Prometheus.
    pub kind: MetricKind,
    /// Names of its labels, besides those that identify the owner.
    pub labels: &'static [&'static str],
    /// Description for the help text.
    pub help: &'static str,
    /// Adds its samples.
    pub read: fn(&T, &mut Samples<'_>),
}

/// Type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A histogram of durations.
    Histogram,
}

// As in Prometheus' text format.
foveate_core::names!(MetricKind { Counter = "counter", Gauge = "gauge", Histogram = "histogram" });

/// A metric with its samples.
#[derive(Debug)]
pub struct Family {
    /// Name of the metric, with its unit.
    pub name: &'static str,
    /// Type of the metric in Prometheus.
    pub kind: MetricKind,
    /// Names of the labels, besides those that identify the owner.
    pub labels: &'static [&'static str],
    help: &'static str,
    /// Lines of the samples.
    text: String,
}

/// All metrics, in the order of insertion.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// Adds all metrics of `table`, with a sample for the `part` of each owner, whom names and values of some labels identify.
    pub fn add<'a, Owner: 'a, T, const COUNT: usize>(
        &mut self,
        table: &[Metric<T>],
        owners: impl Iterator<Item = &'a Owner> + Clone,
        owner_labels: fn(&Owner) -> [(&'static str, &str); COUNT],
        part: fn(&Owner) -> &T,
    ) {
        for &Metric { name, kind, labels, help, read } in table {
            let mut family = Family { name, kind, labels, help, text: String::new() };
            for owner in owners.clone() {
                read(
                    part(owner),
                    &mut Samples { owner: &owner_labels(owner), family: &mut family },
                );
            }
            self.0.push(family);
        }
    }

    /// All families, including those without samples.
    pub fn iter(&self) -> impl Iterator<Item = &Family> {
        self.0.iter()
    }

    /// Their text, sorted by name, without those that have no samples.
    pub fn text(mut self) -> String {
        self.0.sort_by_key(|family| family.name);
        let mut text = String::new();
        for Family { name, kind, help, text: samples, .. } in &self.0 {
            if !samples.is_empty() {
                let help = help.replace('\\', r"\\").replace('\n', r"\n");
                let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
            }
        }
        text
    }
}

/// Collects the samples of one metric of one owner.
#[derive(Debug)]
pub struct Samples<'a> {
    owner: &'a [(&'static str, &'a str)],
    family: &'a mut Family,
}

impl Samples<'_> {
    /// Adds a value, if known, with the values of its labels.
    pub fn add(&mut self, labels: &[&str], value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.write("", labels, None, value);
        }
    }

    /// Adds a histogram, with the values of its labels.
    pub fn add_histogram(&mut self, labels: &[&str], durations: &HistogramCounts) {
        for (bound_ns, count) in durations.cumulative() {
            let bound = (bound_ns as f64 / SECOND_NS).to_string();
            self.write("_bucket", labels, Some(&bound), count as f64);
        }
        let count = durations.count() as f64;
        self.write("_bucket", labels, Some("+Inf"), count);
        self.write("_sum", labels, None, durations.sum_ns as f64 / SECOND_NS);
        self.write("_count", labels, None, count);
    }

    fn write(&mut self, suffix: &str, labels: &[&str], bound: Option<&str>, value: f64) {
        let Family { name, labels: names, text, .. } = &mut *self.family;
        debug_assert_eq!(names.len(), labels.len(), "{name}");
        let own = names.iter().copied().zip(labels.iter().copied());
        let pairs = self.owner.iter().copied().chain(own).chain(bound.map(|bound| ("le", bound)));
        let pairs = pairs.map(|(name, value)| {
            let value = value.replace('\\', r"\\").replace('\n', r"\n").replace('"', "\\\"");
            format!("{name}=\"{value}\"")
        });
        let pairs = pairs.collect::<Vec<_>>().join(",");
        let braced = if pairs.is_empty() { pairs } else { format!("{{{pairs}}}") };
        let _ = writeln!(text, "{name}{suffix}{braced} {value}");
    }
}

/// Defines counters, their snapshot and their metrics from one table, with a line for each counter: its type in Prometheus is
/// `Counter` if it only grows, else `Gauge`.
macro_rules! counters {
    (
        $(#[$doc:meta])*
        $Counters:ident => $Counts:ident {
            $($field:ident: $Kind:ident, $name:literal, $help:literal;)+
        }
        $({ $($(#[$other_doc:meta])* $other:ident: $Other:ty,)+ })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $Counters {
            $(#[doc = $help] pub $field: Counter,)+
            $($($(#[$other_doc])* pub $other: $Other,)+)?
        }

        #[doc = concat!("[`", stringify!($Counters), "`] at one moment.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $Counts {
            $(#[doc = $help] pub $field: u64,)+
        }

        impl $Counters {
            /// The numbers now.
            pub fn snapshot(&self) -> $Counts {
                $Counts { $($field: self.$field.get(),)+ }
            }
        }

        impl $Counts {
            /// Metrics of the counts.
            pub const METRICS: &[Metric<Self>] = &[$(Metric {
                name: $name,
                kind: MetricKind::$Kind,
                labels: &[],
                help: $help,
                read: |counts, samples| samples.add(&[], counts.$field as f64),
            },)+];
        }
    };
}
pub(crate) use counters;
