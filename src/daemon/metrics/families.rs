//! The metrics that are more than a counter: those with labels of their own, durations, and what may be unknown. The counters
//! stand in the tables of `foveate_stats`.

use std::collections::BTreeMap;

use foveate_control::{DaemonStats, Stats, StreamState, StreamStats, ViewStats};
use foveate_stats::metric::{Families, Metric, MetricKind, OwnerLabels, Samples};
use foveate_stats::{ServerCounts, StreamCounts, ViewCounts};

use self::MetricKind::{Counter, Gauge, Histogram};

/// All metrics, with what `stats` has as samples. docs/metrics.md says the same in words.
pub fn families(stats: &Stats) -> Families {
    let mut families = Families::default();
    let (daemon, streams) = (stats.daemon.iter(), stats.streams.iter());
    families.add(DAEMON, daemon.clone(), |_| [], |daemon| daemon);
    families.add(ServerCounts::METRICS, daemon, |_| [], |daemon| &daemon.server.counts);
    families.add(STREAM, streams.clone(), stream_labels, |stream| stream);
    families.add(StreamCounts::METRICS, streams.clone(), stream_labels, |stream| &stream.counts);
    let views = streams.flat_map(|stream| &stream.views);
    families.add(VIEW, views.clone(), view_labels, |view| view);
    families.add(ViewCounts::METRICS, views, view_labels, |view| &view.counts);
    families
}

fn stream_labels(stream: &StreamStats) -> OwnerLabels<'_, 1> {
    [("stream", &stream.name)]
}

fn view_labels(view: &ViewStats) -> OwnerLabels<'_, 2> {
    [("stream", view.name.stream()), ("view", view.name.view())]
}

const DAEMON: &[Metric<DaemonStats>] = &[
    row(
        "foveate_build_info",
        Gauge,
        &["version"],
        "1; the version is a label",
        |daemon, samples| {
            samples.add(&[&daemon.version], 1.0);
        },
    ),
    row(
        "process_resident_memory_bytes",
        Gauge,
        &[],
        "Memory of the daemon in RAM, shared memory included",
        |daemon, samples| samples.add(&[], daemon.process.resident_bytes as f64),
    ),
    row(
        "process_open_fds",
        Gauge,
        &[],
        "Descriptors that the daemon has open",
        |daemon, samples| samples.add(&[], daemon.process.open_descriptors as f64),
    ),
    row("process_threads", Gauge, &[], "Threads of the daemon", |daemon, samples| {
        samples.add(&[], daemon.process.threads as f64);
    }),
    row(
        "process_cpu_seconds_total",
        Counter,
        &[],
        "Processor time that the daemon has taken",
        |daemon, samples| samples.add(&[], daemon.process.cpu_seconds),
    ),
    row(
        "foveate_gpu_memory_bytes",
        Gauge,
        &["device"],
        "Memory that the daemon has of a GPU",
        |daemon, samples| {
            for (device, bytes) in &daemon.gpu_memory_bytes {
                samples.add(&[device], *bytes as f64);
            }
        },
    ),
    row(
        "foveate_control_refused_total",
        Counter,
        &["reason"],
        "Requests and connections that were refused",
        |daemon, samples| add_by_reason(&daemon.server.refused, samples),
    ),
];

const STREAM: &[Metric<StreamStats>] = &[
    row(
        "foveate_stream_state",
        Gauge,
        &["state"],
        "1 for what the stream is doing, 0 for what it is not",
        |stream, samples| {
            use StreamState::{Ended, Live, Stalled, Starting};
            for state in [Starting, Live, Stalled, Ended] {
                samples.add(&[&state.to_string()], f64::from(u8::from(stream.state == state)));
            }
        },
    ),
    row(
        "foveate_backend_info",
        Gauge,
        &["backend", "device", "change_on"],
        "1; what computes the pyramid, and where changes are found, are labels",
        |stream, samples| {
            if let Some(backend) = &stream.backend {
                let (kind, change_on) = (backend.kind.to_string(), backend.change_on.to_string());
                samples.add(&[&kind, &backend.device, &change_on], 1.0);
            }
        },
    ),
    row(
        "foveate_restarts_total",
        Counter,
        &["reason"],
        "Pipelines that were begun after one was lost",
        |stream, samples| add_by_reason(&stream.restarts, samples),
    ),
    row(
        "foveate_stuck_seconds",
        Gauge,
        &[],
        "How long a stage of the stream has made no progress; 0 where all do",
        |stream, samples| samples.add(&[], stream.stuck.map_or(0.0, |stuck| stuck.seconds as f64)),
    ),
    row(
        "foveate_sample_bound",
        Gauge,
        &[],
        "The most by which a camera sample of the pyramid differs from the newest frame, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.detail.sample_bound.map(|bound| bound as f64)),
    ),
    row(
        "foveate_rgb_bound",
        Gauge,
        &[],
        "The most by which an RGB value of the pyramid differs from the newest frame, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.detail.rgb_bound.map(|bound| bound as f64)),
    ),
    row(
        "foveate_noise",
        Gauge,
        &[],
        "Standard deviation of the noise of a sample, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.change.and_then(|change| change.noise)),
    ),
    row(
        "foveate_frame_dirty_tiles",
        Gauge,
        &[],
        "Tiles that were ingested for the newest frame",
        |stream, samples| samples.add(&[], stream.change.map(|change| change.tiles_dirty as f64)),
    ),
    row("foveate_frame_tiles", Gauge, &[], "Tiles of a frame", |stream, samples| {
        samples.add(&[], stream.change.map(|change| change.tile_count as f64));
    }),
    row(
        "foveate_newest_frame_age_seconds",
        Gauge,
        &[],
        "How long ago the newest frame was taken that was published or that no view wanted",
        |stream, samples| samples.add(&[], stream.detail.newest_age_ns.map(|ns| ns as f64 / 1e9)),
    ),
    row(
        "foveate_frame_age_seconds",
        Histogram,
        &[],
        "From the capture of a frame until its tokens were published",
        |stream, samples| samples.add_histogram(&[], &stream.detail.age),
    ),
    row(
        "foveate_frame_step_seconds",
        Histogram,
        &[],
        "From a frame in memory until its tokens were published",
        |stream, samples| samples.add_histogram(&[], &stream.detail.step),
    ),
    row(
        "foveate_stage_seconds",
        Histogram,
        &["stage"],
        "How long a stage of a frame took, where it ran",
        |stream, samples| {
            for (stage, spent) in &stream.detail.stages {
                samples.add_histogram(&[stage], spent);
            }
        },
    ),
];

const VIEW: &[Metric<ViewStats>] = &[
    row(
        "foveate_feedback_accepted_total",
        Counter,
        &[],
        "Messages of feedback that were accepted",
        |view, samples| samples.add(&[], view.feedback_accepted as f64),
    ),
    row(
        "foveate_feedback_refused_total",
        Counter,
        &["reason"],
        "Messages of feedback that were refused",
        |view, samples| add_by_reason(&view.feedback_refused, samples),
    ),
    row(
        "foveate_notices_sent_total",
        Counter,
        &[],
        "Notices of a frame that a subscriber's socket took",
        |view, samples| samples.add(&[], view.notices_sent as f64),
    ),
    row(
        "foveate_notices_skipped_total",
        Counter,
        &[],
        "Notices of a frame that a subscriber's socket had no room for",
        |view, samples| samples.add(&[], view.notices_skipped as f64),
    ),
];

const fn row<T>(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&T, &mut Samples<'_>),
) -> Metric<T> {
    Metric { name, kind, labels, help, read }
}

fn add_by_reason<Reason: ToString>(counts: &BTreeMap<Reason, u64>, samples: &mut Samples<'_>) {
    for (reason, count) in counts {
        samples.add(&[&reason.to_string()], *count as f64);
    }
}
