//! The metrics that are not plain counters: those with labels, histograms, and values that may be unknown. Plain counters
//! are in the tables of `foveate_stats`.

use std::collections::BTreeMap;

use foveate_control::{DaemonStats, Stats, StreamState, StreamStats, ViewStats};
use foveate_core::backend::BackendInfo;
use foveate_stats::metric::{Families, Metric, MetricKind, Samples};
use foveate_stats::{ServerCounts, StreamCounts, ViewCounts};

/// All metrics, with samples from `stats`. docs/reference/metrics.md documents them.
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

fn stream_labels(stream: &StreamStats) -> [(&'static str, &str); 1] {
    [("stream", &stream.name)]
}

fn view_labels(view: &ViewStats) -> [(&'static str, &str); 2] {
    [("stream", view.name.stream()), ("view", view.name.view())]
}

/// Rows of a table: type, name, labels, description, and how samples are read.
macro_rules! metrics {
    ($($kind:ident $name:literal [$($label:literal),*] $help:literal, $read:expr;)+) => {
        &[$(Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
            read: $read,
        },)+]
    };
}

const DAEMON: &[Metric<DaemonStats>] = metrics! {
    Gauge "foveate_build_info" ["version"] "1; the version is a label",
        |daemon, samples| samples.add(&[&daemon.version], 1.0);
    Gauge "process_resident_memory_bytes" [] "Memory of the daemon in RAM, shared memory included",
        |daemon, samples| samples.add(&[], daemon.process.resident_bytes as f64);
    Gauge "process_open_fds" [] "Open descriptors of the daemon",
        |daemon, samples| samples.add(&[], daemon.process.open_descriptors as f64);
    Gauge "process_threads" [] "Threads of the daemon",
        |daemon, samples| samples.add(&[], daemon.process.threads as f64);
    Counter "process_cpu_seconds_total" [] "CPU time of the daemon",
        |daemon, samples| samples.add(&[], daemon.process.cpu_seconds);
    Counter "foveate_log_lines_dropped_total" [] "Lines dropped because the log was too slow",
        |daemon, samples| samples.add(&[], daemon.log_lines_dropped as f64);
    Gauge "foveate_clock_error_seconds" []
        "Bound of the error of CLOCK_REALTIME, as the kernel's clock discipline promises",
        |daemon, samples| samples.add(&[], daemon.clock_error_ns.map(|ns| ns as f64 / 1e9));
    Counter "foveate_clock_steps_total" [] "Times CLOCK_REALTIME was set",
        |daemon, samples| samples.add(&[], daemon.clock_steps as f64);
    Gauge "foveate_gpu_memory_bytes" ["device"] "Memory of a GPU that the daemon has allocated",
        |daemon, samples| add_each(&daemon.gpu_memory_bytes, samples);
    Counter "foveate_control_refused_total" ["reason"] "Requests and connections that were refused",
        |daemon, samples| add_each(&daemon.server.refused, samples);
};

const STREAM: &[Metric<StreamStats>] = metrics! {
    Gauge "foveate_stream_state" ["state"] "1 for the state of the stream, 0 for the others",
        |stream, samples| {
            use StreamState::{Ended, Live, Stalled, Starting};
            for state in [Starting, Live, Stalled, Ended] {
                samples.add(&[&state.to_string()], f64::from(u8::from(stream.state == state)));
            }
        };
    Gauge "foveate_backend_info" ["backend", "device", "change_on"]
        "1; the labels are the backend of the pyramid and where changes are found",
        |stream, samples| if let Some(BackendInfo { kind, device, change_on, .. }) = &stream.backend {
            samples.add(&[&kind.to_string(), device, &change_on.to_string()], 1.0);
        };
    Counter "foveate_restarts_total" ["reason"] "Pipelines started after one was lost",
        |stream, samples| add_each(&stream.restarts, samples);
    Gauge "foveate_source_pid" ["content"] "Id of the process of the source",
        |stream, samples| for (content, process) in &stream.processes {
            samples.add(&[content], f64::from(process.pid));
        };
    Gauge "foveate_source_memory_bytes" ["content"] "Heap and stacks of the process of the source in RAM",
        |stream, samples| for (content, process) in &stream.processes {
            samples.add(&[content], process.private_bytes as f64);
        };
    Counter "foveate_source_cpu_seconds_total" ["content"] "CPU time of the process of the source",
        |stream, samples| for (content, process) in &stream.processes {
            samples.add(&[content], process.cpu_seconds);
        };
    Counter "foveate_events_total" ["kind"] "Events in the picture of the stream, each counted when it is first told",
        |stream, samples| add_each(&stream.events, samples);
    Gauge "foveate_event_holds" ["kind"] "1 while the picture is in that state, else 0",
        |stream, samples| for kind in stream.events.keys().filter(|kind| kind.is_state()) {
            let holds = stream.holding.contains(kind);
            samples.add(&[&kind.to_string()], f64::from(u8::from(holds)));
        };
    Gauge "foveate_stuck_seconds" [] "Time for which a stage of the stream has made no progress; 0 if all make progress",
        |stream, samples| samples.add(&[], stream.stuck.map_or(0.0, |stuck| stuck.seconds as f64));
    Gauge "foveate_sample_bound" []
        "The most by which a camera sample of the pyramid differs from the newest frame, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.detail.sample_bound.map(|bound| bound as f64));
    Gauge "foveate_rgb_bound" []
        "The most by which a channel of a texel differs from the one made of the newest frame, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.detail.rgb_bound.map(|bound| bound as f64));
    Gauge "foveate_picture_speed_pixels_per_second" [] "How fast the middle of the picture moves, if that is known",
        |stream, samples| samples.add(&[], stream.detail.picture_speed.map(|speed| speed as f64 / 1e3));
    Gauge "foveate_noise" [] "Standard deviation of the noise of a sample, in steps of 8 bits",
        |stream, samples| samples.add(&[], stream.change.and_then(|change| change.noise));
    Gauge "foveate_frame_dirty_tiles" [] "Tiles that were ingested for the newest frame",
        |stream, samples| samples.add(&[], stream.change.map(|change| change.tiles_dirty as f64));
    Gauge "foveate_frame_tiles" [] "Tiles of a frame",
        |stream, samples| samples.add(&[], stream.change.map(|change| change.tile_count as f64));
    Gauge "foveate_newest_frame_age_seconds" []
        "Time since the capture of the newest frame that was published or that no view took",
        |stream, samples| samples.add(&[], stream.detail.newest_age_ns.map(|ns| ns as f64 / 1e9));
    Histogram "foveate_frame_age_seconds" [] "From capture until all views had published",
        |stream, samples| samples.add_histogram(&[], &stream.detail.age);
    Histogram "foveate_frame_step_seconds" [] "From a frame in memory until all views had published",
        |stream, samples| samples.add_histogram(&[], &stream.detail.step);
    Histogram "foveate_stage_seconds" ["stage"] "Duration of a stage of a frame, if it ran",
        |stream, samples| for (stage, spent) in &stream.detail.stages {
            samples.add_histogram(&[stage], spent);
        };
};

const VIEW: &[Metric<ViewStats>] = metrics! {
    Counter "foveate_feedback_refused_total" ["reason"] "Messages of feedback that were refused",
        |view, samples| add_each(&view.feedback_refused, samples);
};

/// Adds a sample for each value of the one label.
fn add_each(numbers: &BTreeMap<impl ToString, u64>, samples: &mut Samples<'_>) {
    for (label, number) in numbers {
        samples.add(&[&label.to_string()], *number as f64);
    }
}
