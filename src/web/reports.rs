//! What streams and views there are and what they cost, for all pages: asked twice a second while there is one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::follower::Followers;
use foveate::ControlError;
use foveate::client::Client;
use foveate_control::{
    ClientExt as _, Listing, Stats, StreamInput, StreamListing, StreamPace, StreamRates, per_second,
};
use foveate_core::frame::PixelFormat;
use foveate_stats::durations::HistogramCounts;

/// How often the daemon is asked.
const INTERVAL: Duration = Duration::from_millis(500);

/// The newest report, as JSON.
#[derive(Debug)]
pub(super) struct Reports {
    newest: watch::Sender<Arc<str>>,
    /// A page has come.
    joined: Arc<Notify>,
}

impl Reports {
    /// Asks the daemon at `socket` as long as somebody wants to know.
    pub(super) fn begin(socket: PathBuf, followers: Arc<Followers>) -> Self {
        let (newest, joined) = (watch::Sender::new(Arc::from("")), Arc::<Notify>::default());
        let post = Post { socket, followers, client: None, before: None };
        tokio::spawn(beat(post, newest.clone(), Arc::clone(&joined)));
        Self { newest, joined }
    }

    /// All reports from now on, the first one at once.
    pub(super) fn join(&self) -> watch::Receiver<Arc<str>> {
        let mut receiver = self.newest.subscribe();
        receiver.mark_unchanged();
        self.joined.notify_one();
        receiver
    }
}

async fn beat(mut post: Post, newest: watch::Sender<Arc<str>>, joined: Arc<Notify>) {
    loop {
        if newest.receiver_count() == 0 {
            // Nobody asks, so no connection is held.
            post.client = None;
            post.before = None;
            joined.notified().await;
        }
        let asked = tokio::task::spawn_blocking(move || {
            let report = post.report();
            (post, report)
        });
        let Ok((back, report)) = asked.await else {
            tracing::error!("the thread that asks the daemon has panicked");
            return;
        };
        post = back;
        let json = serde_json::to_string(&report).expect("reports have string keys");
        newest.send_replace(json.into());
        // A page that comes meanwhile gets its first report at once.
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = joined.notified() => {}
        }
    }
}

/// Asks the daemon, and remembers what it said.
#[derive(Debug)]
struct Post {
    socket: PathBuf,
    followers: Arc<Followers>,
    /// `None` while there is no daemon, or nobody wants to know.
    client: Option<Client>,
    /// What was counted when it was asked before.
    before: Option<(Instant, Stats)>,
}

impl Post {
    fn report(&mut self) -> Report {
        match self.ask() {
            Ok((listing, stats)) => self.compared(listing, stats),
            Err(error) => {
                self.client = None;
                self.before = None;
                Report::without_daemon(&self.socket, &error)
            }
        }
    }

    /// Asks over the connection there is; where the daemon has closed that, once more over another.
    fn ask(&mut self) -> Result<(Listing, Stats), ControlError> {
        if self.client.is_some() {
            match self.ask_once() {
                Err(ControlError::Disconnected) => self.client = None,
                answer => return answer,
            }
        }
        self.ask_once()
    }

    fn ask_once(&mut self) -> Result<(Listing, Stats), ControlError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(&self.socket)?),
        };
        Ok((client.listing()?, client.stats()?))
    }

    /// What the daemon says, with what has changed since it was asked before.
    fn compared(&mut self, listing: Listing, stats: Stats) -> Report {
        let now = Instant::now();
        let before = self.before.as_ref();
        let streams = listing.streams.into_iter().map(|mut stream| {
            stream.views.retain(|view| !self.followers.have_opened(&view.name));
            let rates = rates(&stream, &stats, before, now);
            StreamReport { stream, rates }
        });
        let streams = streams.collect();
        let daemon =
            stats.daemon.as_ref().map(|daemon| DaemonReport { version: daemon.version.clone() });
        self.before = Some((now, stats));
        Report { kind: "report", daemon, error: None, streams }
    }
}

/// What pages are told.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Absent where there is no daemon.
    daemon: Option<DaemonReport>,
    /// Why the daemon does not say.
    error: Option<String>,
    streams: Vec<StreamReport>,
}

impl Report {
    fn without_daemon(socket: &Path, error: &ControlError) -> Self {
        let error = match error {
            ControlError::NoDaemon { .. } => {
                format!(
                    "No daemon listens on {}. Start foveated, and this page goes on.",
                    socket.display()
                )
            }
            error => foveate_core::error::chain(error),
        };
        Self { kind: "report", daemon: None, error: Some(error), streams: Vec::new() }
    }
}

#[derive(Debug, Serialize)]
struct DaemonReport {
    version: String,
}

/// A stream, its views, and what they cost.
#[derive(Debug, Serialize)]
struct StreamReport {
    #[serde(flatten)]
    stream: StreamListing,
    /// Absent in the first report, and where the daemon began anew.
    rates: Option<Rates>,
}

/// What a stream has done since the report before.
#[derive(Debug, Serialize)]
struct Rates {
    #[serde(flatten)]
    stream: StreamRates,
    /// From a frame in memory until its tokens were published.
    step_p50_ms: Option<f64>,
    step_p99_ms: Option<f64>,
    /// The mean of each stage of that, by name.
    stages_ms: BTreeMap<String, f64>,
    /// Bytes of samples that crossed to a device.
    uploaded_bytes_per_s: f64,
    /// What whole frames would have been.
    full_bytes_per_s: Option<f64>,
}

/// What `stream` has done since `before`, where it is the same stream of the same daemon.
fn rates(
    stream: &StreamListing,
    stats: &Stats,
    before: Option<&(Instant, Stats)>,
    now: Instant,
) -> Option<Rates> {
    let (at, before) = before?;
    let present = stats.streams.iter().find(|other| other.name == stream.name)?;
    let earlier = before.earlier(present)?;
    let seconds = now.duration_since(*at).as_secs_f64();
    let (uploaded, before) = (present.counts.bytes_uploaded, earlier.counts.bytes_uploaded);
    let step = present.detail.step.since(&earlier.detail.step);
    let rates = present.rates_since(earlier, seconds);
    Some(Rates {
        stream: rates,
        step_p50_ms: step.quantile_ms(0.5),
        step_p99_ms: step.quantile_ms(0.99),
        stages_ms: stages_ms(&present.detail, &earlier.detail),
        uploaded_bytes_per_s: per_second(before, uploaded, seconds),
        full_bytes_per_s: frame_bytes(&stream.detail)
            .zip(rates.fps)
            .map(|(bytes, fps)| bytes as f64 * fps),
    })
}

/// The mean of each stage, of the frames since `earlier`.
fn stages_ms(present: &StreamPace, earlier: &StreamPace) -> BTreeMap<String, f64> {
    let mean = |(name, counts): (&String, &HistogramCounts)| {
        let since = counts.since(earlier.stages.get(name)?);
        let count = since.count();
        (0 < count).then(|| (name.clone(), since.sum_ns as f64 / count as f64 / 1e6))
    };
    present.stages.iter().filter_map(mean).collect()
}

/// Bytes of the samples of one frame of the stream.
fn frame_bytes(input: &StreamInput) -> Option<u64> {
    let format = PixelFormat::from_name(input.format.as_deref()?)?;
    let [width, height] = input.extent?;
    let extent = foveate_core::geometry::extent::Extent::new(width, height);
    let planes = (0..format.plane_count()).map(|index| format.plane_shape(index, extent));
    Some(planes.map(|plane| u64::from(plane.row_bytes) * u64::from(plane.rows)).sum())
}
