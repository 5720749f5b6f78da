//! Which metrics there are. docs/metrics.md says the same in words.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use foveate_control::{DaemonStats, Stats, StreamState, StreamStats, ViewStats};
use foveate_stats::durations::HistogramCounts;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Everything in `stats`, in the order of the names. A family without samples is left out.
pub(super) fn families(stats: &Stats) -> Vec<MetricFamily> {
    let mut page = Page::default();
    if let Some(daemon) = &stats.daemon {
        page.add_daemon(daemon);
        page.add_server(daemon);
    }
    for stream in &stats.streams {
        page.add_frames(stream);
        page.add_losses(stream);
        page.add_change(stream);
        page.add_state(stream);
        page.add_durations(stream);
        for view in &stream.views {
            page.add_view(view);
        }
    }
    page.families.sort_by(|one, other| one.name().cmp(other.name()));
    page.families
}

/// Families that are being filled.
#[derive(Default)]
struct Page {
    families: Vec<MetricFamily>,
}

/// Labels of a sample: names and values.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    fn add_daemon(&mut self, daemon: &DaemonStats) {
        let DaemonStats { version, process, gpu_memory_bytes, .. } = daemon;
        self.gauge("foveate_build_info", "1; the version is a label", &[("version", version)], 1.0);
        self.gauge(
            "process_resident_memory_bytes",
            "Memory of the daemon in RAM, shared memory included",
            &[],
            process.resident_bytes as f64,
        );
        self.gauge(
            "process_open_fds",
            "Descriptors that the daemon has open",
            &[],
            process.open_descriptors as f64,
        );
        self.gauge("process_threads", "Threads of the daemon", &[], process.threads as f64);
        self.counter(
            "process_cpu_seconds_total",
            "Processor time that the daemon has taken",
            &[],
            process.cpu_seconds,
        );
        for (device, bytes) in gpu_memory_bytes {
            self.gauge(
                "foveate_gpu_memory_bytes",
                "Memory that the daemon has of a GPU",
                &[("device", device)],
                *bytes as f64,
            );
        }
    }

    fn add_server(&mut self, daemon: &DaemonStats) {
        let server = &daemon.server;
        self.gauge(
            "foveate_control_clients",
            "Connections to the control socket",
            &[],
            server.clients as f64,
        );
        for (name, help, value) in [
            (
                "foveate_control_clients_accepted_total",
                "Connections to the control socket that were accepted",
                server.clients_accepted,
            ),
            (
                "foveate_control_clients_dropped_total",
                "Connections that were dropped because they did not read what they were sent",
                server.clients_dropped,
            ),
            (
                "foveate_control_requests_total",
                "Requests that were answered, refusals included",
                server.requests,
            ),
        ] {
            self.counter(name, help, &[], value as f64);
        }
        for (reason, count) in &server.refused {
            self.counter(
                "foveate_control_refused_total",
                "Requests and connections that were refused",
                &[("reason", &reason.to_string())],
                *count as f64,
            );
        }
    }

    /// What became of the frames of a stream.
    fn add_frames(&mut self, stream: &StreamStats) {
        for (name, help, value) in [
            (
                "foveate_frames_captured_total",
                "Frames that the pipeline delivered",
                stream.frames_captured,
            ),
            (
                "foveate_frames_dropped_total",
                "Frames that a newer one replaced before they were taken",
                stream.frames_dropped,
            ),
            (
                "foveate_frames_published_total",
                "Frames whose tokens were published",
                stream.frames_published,
            ),
            (
                "foveate_frames_refused_total",
                "Frames that could not be read",
                stream.frames_refused,
            ),
            (
                "foveate_frames_skipped_total",
                "Frames that max_fps left out; they are not counted as captured",
                stream.frames_skipped,
            ),
            (
                "foveate_frames_rested_total",
                "Frames that no view wanted, because nobody read it or it had enough",
                stream.frames_rested,
            ),
            (
                "foveate_stamps_clamped_total",
                "Frames whose capture time lay in the future, and became that of their arrival",
                stream.stamps_clamped,
            ),
            (
                "foveate_dirty_tiles_total",
                "Tiles that were ingested: changed ones, and those to be refreshed",
                stream.tiles_dirty,
            ),
            (
                "foveate_uploaded_bytes_total",
                "Bytes of samples that crossed to a device",
                stream.bytes_uploaded,
            ),
            (
                "foveate_backend_fallbacks_total",
                "Times the stream went on on the CPU because its GPU was lost or refused",
                stream.backend_fallbacks,
            ),
            (
                "foveate_backend_attempts_total",
                "Times the stream tried to get back to its GPU",
                stream.backend_attempts,
            ),
            (
                "foveate_backend_returns_total",
                "Times the stream went on on its GPU again",
                stream.backend_returns,
            ),
        ] {
            self.counter(name, help, &[("stream", &stream.name)], value as f64);
        }
    }

    /// How often a stream lost its source, and what it is stuck in.
    fn add_losses(&mut self, stream: &StreamStats) {
        for (reason, count) in &stream.restarts {
            self.counter(
                "foveate_restarts_total",
                "Pipelines that were begun after one was lost",
                &[("stream", &stream.name), ("reason", &reason.to_string())],
                *count as f64,
            );
        }
        self.gauge(
            "foveate_pipelines_stopping",
            "Pipelines that were given up and have not stopped yet",
            &[("stream", &stream.name)],
            stream.pipelines_stopping as f64,
        );
        self.gauge(
            "foveate_stuck_seconds",
            "How long a stage of the stream has made no progress; 0 where all do",
            &[("stream", &stream.name)],
            stream.stuck.map_or(0.0, |stuck| stuck.seconds as f64),
        );
    }

    /// What counts as a change, and how far from the newest frame a pyramid may be.
    fn add_change(&mut self, stream: &StreamStats) {
        let change = stream.change;
        for (name, help, value) in [
            (
                "foveate_sample_bound",
                "The most by which a camera sample of the pyramid differs from the newest frame, in steps of 8 bits",
                stream.sample_bound.map(|bound| bound as f64),
            ),
            (
                "foveate_rgb_bound",
                "The most by which an RGB value of the pyramid differs from the newest frame, in steps of 8 bits",
                stream.rgb_bound.map(|bound| bound as f64),
            ),
            (
                "foveate_noise",
                "Standard deviation of the noise of a sample, in steps of 8 bits",
                change.and_then(|change| change.noise),
            ),
            (
                "foveate_frame_dirty_tiles",
                "Tiles that were ingested for the newest frame",
                change.map(|change| change.tiles_dirty as f64),
            ),
            (
                "foveate_frame_tiles",
                "Tiles of a frame",
                change.map(|change| change.tile_count as f64),
            ),
            (
                "foveate_newest_frame_age_seconds",
                "How long ago the newest frame was taken that was published or that no view wanted",
                stream.newest_age_ns.map(|age_ns| age_ns as f64 / SECOND_NS),
            ),
        ] {
            if let Some(value) = value {
                self.gauge(name, help, &[("stream", &stream.name)], value);
            }
        }
    }

    fn add_state(&mut self, stream: &StreamStats) {
        let states =
            [StreamState::Starting, StreamState::Live, StreamState::Stalled, StreamState::Ended];
        for state in states {
            self.gauge(
                "foveate_stream_state",
                "1 for what the stream is doing, 0 for what it is not",
                &[("stream", &stream.name), ("state", &state.to_string())],
                f64::from(u8::from(stream.state == state)),
            );
        }
        if let Some(backend) = &stream.backend {
            self.gauge(
                "foveate_backend_info",
                "1; what computes the pyramid, and where changes are found, are labels",
                &[
                    ("stream", &stream.name),
                    ("backend", &backend.kind.to_string()),
                    ("device", &backend.device),
                    ("change_on", &backend.change_on.to_string()),
                ],
                1.0,
            );
        }
    }

    fn add_durations(&mut self, stream: &StreamStats) {
        let name = [("stream", stream.name.as_str())];
        self.histogram(
            "foveate_frame_age_seconds",
            "From the capture of a frame until its tokens were published",
            &name,
            &stream.age,
        );
        self.histogram(
            "foveate_frame_step_seconds",
            "From a frame in memory until its tokens were published",
            &name,
            &stream.step,
        );
        for (stage, spent) in &stream.stages {
            self.histogram(
                "foveate_stage_seconds",
                "How long a stage of a frame took, where it ran",
                &[name[0], ("stage", stage)],
                spent,
            );
        }
    }

    fn add_view(&mut self, view: &ViewStats) {
        let labels = [("stream", view.name.stream()), ("view", view.name.view())];
        self.gauge(
            "foveate_subscribers",
            "Connections that follow the view",
            &labels,
            view.subscribers as f64,
        );
        for (name, help, value) in [
            (
                "foveate_view_frames_published_total",
                "Frames that the view published",
                view.frames_published,
            ),
            (
                "foveate_view_frames_skipped_total",
                "Frames that the view left out because of its max_fps",
                view.frames_skipped,
            ),
            (
                "foveate_view_frames_unread_total",
                "Frames that the view left out because nobody read it",
                view.frames_unread,
            ),
            ("foveate_saccades_total", "Moves of the view to a new fixation", view.saccades),
            (
                "foveate_feedback_accepted_total",
                "Messages of feedback that were accepted",
                view.feedback_accepted,
            ),
            (
                "foveate_notices_sent_total",
                "Notices of a frame that a subscriber's socket took",
                view.notices_sent,
            ),
            (
                "foveate_notices_skipped_total",
                "Notices of a frame that a subscriber's socket had no room for",
                view.notices_skipped,
            ),
        ] {
            self.counter(name, help, &labels, value as f64);
        }
        for (reason, count) in &view.feedback_refused {
            self.counter(
                "foveate_feedback_refused_total",
                "Messages of feedback that were refused",
                &[labels[0], labels[1], ("reason", &reason.to_string())],
                *count as f64,
            );
        }
    }

    fn counter(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_counter(counter);
        self.push(name, help, MetricType::COUNTER, metric);
    }

    fn gauge(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_gauge(gauge);
        self.push(name, help, MetricType::GAUGE, metric);
    }

    fn histogram(&mut self, name: &str, help: &str, labels: Labels<'_>, counts: &HistogramCounts) {
        let mut histogram = Histogram::default();
        histogram.set_sample_count(counts.count());
        histogram.set_sample_sum(counts.sum_ns as f64 / SECOND_NS);
        histogram.set_bucket(counts.cumulative().map(bucket).collect());
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_histogram(histogram);
        self.push(name, help, MetricType::HISTOGRAM, metric);
    }

    /// Adds a sample to the family of that name.
    fn push(&mut self, name: &str, help: &str, kind: MetricType, metric: Metric) {
        let families = &mut self.families;
        let index = families.iter().position(|family| family.name() == name);
        let index = index.unwrap_or_else(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(kind);
            families.push(family);
            families.len() - 1
        });
        families[index].mut_metric().push(metric);
    }
}

fn pairs(labels: Labels<'_>) -> Vec<LabelPair> {
    let pair = |&(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    labels.iter().map(pair).collect()
}

fn bucket((bound_ns, count): (u64, u64)) -> Bucket {
    let mut bucket = Bucket::default();
    bucket.set_upper_bound(bound_ns as f64 / SECOND_NS);
    bucket.set_cumulative_count(count);
    bucket
}
