//! Reports on streams, views and their cost for all pages: polled twice a second while a page is open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::follower::Followers;
use super::messages::ToPage;
use foveate::ControlError;
use foveate::client::Client;
use foveate_control::{
    ClientExt as _, Listing, MaskListing, Stats, StreamInput, StreamListing, StreamPace,
    StreamRates, per_second,
};
use foveate_core::frame::PixelFormat;
use foveate_stats::durations::HistogramCounts;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time within which all frames from before a change of masks arrive: the daemon answers a change once a masked frame is published, or after
/// 5 s.
const MASKS_SETTLE: Duration = Duration::from_secs(6);

/// The newest report, as JSON.
#[derive(Debug)]
pub(super) struct LiveReports {
    newest: watch::Sender<Arc<str>>,
    /// Notified when a page opens.
    page_opened: Arc<Notify>,
    /// Whether the report never changes, because it is of a recording.
    is_fixed: bool,
}

impl LiveReports {
    /// Polls the daemon at `socket` while a page is open.
    pub(super) fn begin(socket: PathBuf, followers: Arc<Followers>) -> Self {
        let (newest, page_opened) = (watch::Sender::new(Arc::from("")), Arc::<Notify>::default());
        let masks = BTreeMap::new();
        let poller = Poller { socket, followers, client: None, before: None, masks };
        tokio::spawn(poll(poller, newest.clone(), Arc::clone(&page_opened)));
        Self { newest, page_opened, is_fixed: false }
    }

    /// A report of a recording, as JSON, which never changes.
    pub(super) fn fixed(report: &str) -> Self {
        let newest = watch::Sender::new(Arc::from(report));
        Self { newest, page_opened: Arc::default(), is_fixed: true }
    }

    /// All reports from now on, the first at once.
    pub(super) fn join(&self) -> watch::Receiver<Arc<str>> {
        let mut receiver = self.newest.subscribe();
        if self.is_fixed {
            receiver.mark_changed();
        } else {
            receiver.mark_unchanged();
        }
        self.page_opened.notify_one();
        receiver
    }
}

async fn poll(mut poller: Poller, newest: watch::Sender<Arc<str>>, page_opened: Arc<Notify>) {
    loop {
        if newest.receiver_count() == 0 {
            // No page is open, so no connection is needed.
            poller.client = None;
            poller.before = None;
            page_opened.notified().await;
        }
        let asked = tokio::task::spawn_blocking(move || {
            let report = poller.report();
            (poller, report)
        });
        let Ok((back, report)) = asked.await else {
            tracing::error!("the thread that asks the daemon has panicked");
            return;
        };
        poller = back;
        newest.send_replace(report.to_json().into());
        // A page that opens meanwhile gets its first report at once.
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = page_opened.notified() => {}
        }
    }
}

/// Polls the daemon and keeps its last answer.
#[derive(Debug)]
struct Poller {
    socket: PathBuf,
    followers: Arc<Followers>,
    /// `None` without a daemon or without pages.
    client: Option<Client>,
    /// The previous statistics.
    before: Option<(Instant, Stats)>,
    /// The privacy masks of each stream, and when they changed last.
    masks: BTreeMap<String, (Vec<MaskListing>, Option<Instant>)>,
}

impl Poller {
    fn report(&mut self) -> ToPage {
        match self.ask() {
            Ok((listing, stats)) => self.compared(listing, stats),
            Err(error) => {
                self.client = None;
                self.before = None;
                without_daemon(&self.socket, &error)
            }
        }
    }

    /// Asks on the existing connection; if the daemon has closed it, once more on a new one.
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

    /// The answer, with rates since the previous one.
    fn compared(&mut self, listing: Listing, stats: Stats) -> ToPage {
        let now = Instant::now();
        let before = self.before.as_ref();
        let streams = listing.streams.into_iter().map(|mut stream| {
            self.followers.timelines.note_dropped(&stream.name, stream.counts.frames_dropped);
            let masks = &stream.detail.masks;
            let (known, changed_at) =
                self.masks.entry(stream.name.clone()).or_insert_with(|| (masks.clone(), None));
            if known != masks {
                (*known, *changed_at) = (masks.clone(), Some(now));
            }
            if changed_at.is_some_and(|changed_at| now < changed_at + MASKS_SETTLE) {
                // A new mask also covers the kept frames.
                self.followers.histories.revoke(&stream.name);
            }
            stream.views.retain(|view| !self.followers.was_opened_for_pages(&view.name));
            let rates = rates(&stream, &stats, before, now);
            StreamReport { reasons: stream.reasons(), stream, rates }
        });
        let streams = streams.collect();
        let daemon = stats.daemon.as_ref().map(|daemon| json!({ "version": daemon.version }));
        self.before = Some((now, stats));
        ToPage::Report { daemon, error: None, streams }
    }
}

fn without_daemon(socket: &Path, error: &ControlError) -> ToPage {
    let error = match error {
        ControlError::NoDaemon { .. } => {
            format!(
                "no daemon listens on {}: start foveated, and this page continues",
                socket.display()
            )
        }
        error => foveate_core::error::chain(error),
    };
    ToPage::Report { daemon: None, error: Some(error), streams: Vec::new() }
}

/// A stream with its views and cost.
#[derive(Debug, Serialize)]
pub(super) struct StreamReport {
    #[serde(flatten)]
    stream: StreamListing,
    /// The stream's problems, as `foveate ls` words them.
    reasons: Vec<String>,
    /// Absent in the first report, also after a restart of the daemon.
    rates: Option<CostRates>,
}

/// Rates of a stream since the previous report.
#[derive(Debug, Serialize)]
struct CostRates {
    #[serde(flatten)]
    stream: StreamRates,
    /// Median time from a frame in memory until all views had published.
    step_p50_ms: Option<f64>,
    step_p99_ms: Option<f64>,
    /// Mean of each of its stages, by name.
    stages_ms: BTreeMap<String, f64>,
    /// Bytes of samples that crossed to a device.
    uploaded_bytes_per_s: f64,
    /// Bytes that whole frames would have taken.
    full_bytes_per_s: Option<f64>,
}

/// Rates of `stream` since `before`, if it is the same stream of the same daemon.
fn rates(
    stream: &StreamListing,
    stats: &Stats,
    before: Option<&(Instant, Stats)>,
    now: Instant,
) -> Option<CostRates> {
    let (at, before) = before?;
    let present = stats.streams.iter().find(|other| other.name == stream.name)?;
    let earlier = before.earlier(present)?;
    let seconds = now.duration_since(*at).as_secs_f64();
    let (uploaded, before) = (present.counts.bytes_uploaded, earlier.counts.bytes_uploaded);
    let step = present.detail.step.since(&earlier.detail.step);
    let rates = present.rates_since(earlier, seconds);
    Some(CostRates {
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

/// Mean of each stage over the frames since `earlier`.
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
