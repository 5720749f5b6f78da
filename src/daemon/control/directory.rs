//! What the daemon serves, shared between its frame loops and the server.
//!
//! ```text
//!  frame loop                          directory                        server's thread
//!  StreamPort.update, .ended   ------>  StreamEntry.status     ------>  list, ended events
//!  ViewPort.set_segment        ------>  ViewEntry.segment      ------>  segment events
//!  ViewPort.channel               <----->  ViewEntry.channel         <----->  look, attend, release, gaze events, notices
//!  StreamPort.commands         <------  channel                <------  open_view, the end of a connection
//! ```
//!
//! Every lock here is held for a copy and never across I/O, so a frame loop cannot be made to wait by a client.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use self::view::LISTED_TEXT_BYTES_MAX;
pub(super) use self::view::ViewEntry;
pub use self::view::ViewPort;
use super::lease::Client;
use crate::channel::Bell;
use foveate::messages::{ViewName, clipped, is_name};
use foveate_config::ViewConfig;
use foveate_control::{ChangeListing, StreamListing, StreamState, StreamStats, StuckListing};
use foveate_core::backend::BackendInfo;
use foveate_core::clock::monotonic_ns;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_log::redact::redacted;
use foveate_stats::durations::FrameStage;
use foveate_stats::stages::{STUCK_AFTER, Stage};
use foveate_stats::{ChangeGauges, StreamCounters};

mod view;

/// Everything that is served. The daemon fills it; the server reads it.
#[derive(Debug)]
pub struct Directory {
    streams: Mutex<BTreeMap<String, Arc<StreamEntry>>>,
    bell: Arc<Bell>,
    devices: OnceLock<DeviceMemory>,
}

/// Tells how many bytes of each device, by its name, the process has.
struct DeviceMemory(Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>);

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceMemory")
    }
}

/// A stream to be served.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Its name: 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Where its frames come from, without secrets: whoever may connect can read it.
    pub source: String,
    /// Its views, at least one.
    pub views: Vec<ViewConfig>,
}

/// What changes about a stream, rarely.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Where its frames come from, without secrets.
    pub source: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// Pixel format of its frames; `None` before the first.
    pub format: Option<PixelFormat>,
    /// Extent of its frames; `None` before the first.
    pub extent: Option<Extent>,
    /// What computes its pyramid; `None` before the first frame.
    pub backend: Option<BackendInfo>,
}

impl Directory {
    /// An empty directory.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> std::io::Result<Arc<Self>> {
        let bell = Arc::new(Bell::new()?);
        Ok(Arc::new(Self { streams: Mutex::default(), bell, devices: OnceLock::new() }))
    }

    /// `memory` tells from now on how many bytes of each device, by its name, the process has. The first to say so counts.
    pub fn set_device_memory(
        &self,
        memory: impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static,
    ) {
        self.devices.get_or_init(|| DeviceMemory(Box::new(memory)));
    }

    /// How many bytes of each device, by its name, the process has.
    pub(super) fn device_memory(&self) -> BTreeMap<String, u64> {
        self.devices.get().map(|memory| (memory.0)()).unwrap_or_default()
    }

    /// Adds a stream that is starting, and returns the end of it that its frame loop keeps.
    ///
    /// # Panics
    ///
    /// If a name is not a name or not unique, or there is no view: the configuration was checked before.
    pub fn add_stream(&self, spec: StreamSpec) -> StreamPort {
        let StreamSpec { name, source, views } = spec;
        assert!(is_name(&name), "{name:?} is not the name of a stream");
        assert!(!views.is_empty(), "stream {name} has no views");
        let ends = |config| view::ends(&name, config, None, &self.bell);
        let (entries, views) = views.into_iter().map(ends).collect::<(Vec<_>, Vec<_>)>();
        let (sender, commands) = unbounded();
        let entry = Arc::new(StreamEntry::new(name, source, entries, sender));
        match self.streams.lock().entry(entry.name.clone()) {
            Entry::Vacant(vacant) => drop(vacant.insert(Arc::clone(&entry))),
            Entry::Occupied(occupied) => panic!("two streams are called {}", occupied.key()),
        }
        StreamPort { entry, bell: Arc::clone(&self.bell), views, commands }
    }

    /// Lists a stream no more, and lets nobody subscribe to it; who follows it has been told of its end. There may be another of
    /// its name then.
    pub fn remove_stream(&self, name: &str) {
        let removed = self.streams.lock().remove(name);
        // Its subscribers, and the views that clients opened, are the server's to see to.
        drop(removed);
        self.bell.ring();
    }

    /// Has the frame loop of a stream make a view of its configuration another one; nothing where there is no such stream. Of a
    /// stream that has ended the answer never comes.
    pub fn set_view(&self, setting: ViewSetting) {
        if let Some(stream) = self.stream(setting.view.stream()) {
            // As for views that clients open.
            let _ = stream.commands.send(ViewCommand::Set(Box::new(setting)));
        }
    }

    /// The streams of which a stage has been at one thing for at least `limit`, in the order of their names. Waiting for a frame,
    /// or for a camera to come back, is no such thing.
    pub fn stuck(&self, limit: Duration) -> Vec<Stuck> {
        let stuck = |entry: &Arc<StreamEntry>| {
            let (stage, since) = entry.counters.stages.stuck(limit)?;
            Some(Stuck { stream: entry.name.clone(), stage, since })
        };
        self.streams.lock().values().filter_map(stuck).collect()
    }

    /// Whether all streams make progress, for a watchdog that may end the daemon.
    ///
    /// # Errors
    ///
    /// The first that has been stuck for [`STUCK_AFTER`].
    pub fn health(&self) -> Result<(), Stuck> {
        self.stuck(STUCK_AFTER).into_iter().next().map_or(Ok(()), Err)
    }

    /// What listings say of every stream, in the order of their names.
    pub fn listings(&self) -> Vec<StreamListing> {
        self.streams_from(None).iter().map(|stream| stream.listing()).collect()
    }

    /// The stream of that name.
    pub(super) fn stream(&self, name: &str) -> Option<Arc<StreamEntry>> {
        self.streams.lock().get(name).cloned()
    }

    /// The stream and the view of that name.
    pub(super) fn find(&self, name: &ViewName) -> Option<(Arc<StreamEntry>, Arc<ViewEntry>)> {
        let stream = self.stream(name.stream())?;
        let view = stream.views().into_iter().find(|view| view.name() == name)?;
        Some((stream, view))
    }

    /// All views, in the order of the names of their streams.
    pub(super) fn views(&self) -> Vec<Arc<ViewEntry>> {
        self.streams.lock().values().flat_map(|stream| stream.views()).collect()
    }

    /// The views that clients opened, and those of them that are closed and not gone yet.
    pub(super) fn views_of_clients(&self) -> Vec<Arc<ViewEntry>> {
        self.streams.lock().values().flat_map(|stream| stream.views_of_clients()).collect()
    }

    /// The streams from that of `after` on, in the order of their names.
    pub(super) fn streams_from(&self, after: Option<&ViewName>) -> Vec<Arc<StreamEntry>> {
        let first = after.map_or(Bound::Unbounded, |name| Bound::Included(name.stream()));
        let streams = self.streams.lock();
        streams.range::<str, _>((first, Bound::Unbounded)).map(|(_, entry)| entry.clone()).collect()
    }

    /// The streams behind that called `after`, in the order of their names.
    pub(super) fn streams_after(&self, after: Option<&str>) -> Vec<Arc<StreamEntry>> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let streams = self.streams.lock();
        streams.range::<str, _>((first, Bound::Unbounded)).map(|(_, entry)| entry.clone()).collect()
    }

    /// What the server polls: readable after something changed that subscribers want to know.
    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

/// A stage that makes no progress.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream {stream}: {stage} has made no progress for {} s", since.as_secs())]
pub struct Stuck {
    /// Name of the stream.
    pub stream: String,
    /// What it is at.
    pub stage: Stage,
    /// For how long.
    pub since: Duration,
}

/// One stream, as the server sees it.
#[derive(Debug)]
pub struct StreamEntry {
    name: String,
    status: Mutex<StreamStatus>,
    counters: Arc<StreamCounters>,
    /// Those of the configuration in its order, then those that clients opened in the order of their names.
    views: Mutex<Vec<Arc<ViewEntry>>>,
    /// Those that clients closed and that the frame loop has not let go: their rings still take memory.
    closed: Mutex<Vec<Arc<ViewEntry>>>,
    commands: Sender<ViewCommand>,
}

/// What becomes of the views of a stream while it runs.
#[derive(Debug)]
pub enum ViewCommand {
    /// A client opened one.
    Open(Box<ViewPort>),
    /// A client that opened one is gone.
    Close(ViewName),
    /// An operator wants one to be another.
    Set(Box<ViewSetting>),
}

/// What a view is to be from now on.
#[derive(Debug)]
pub struct ViewSetting {
    /// Which.
    pub view: ViewName,
    /// What it is to be.
    pub config: ViewConfig,
    /// Whether only the pace changes, so that it goes on in the same segment.
    pub keeps_segment: bool,
    /// Takes what came of it, once: that everything is made for it, or why it stays as it is.
    pub answer: Sender<Result<(), String>>,
}

impl StreamEntry {
    fn new(
        name: String,
        source: String,
        views: Vec<Arc<ViewEntry>>,
        commands: Sender<ViewCommand>,
    ) -> Self {
        let status = StreamStatus {
            source,
            state: StreamState::Starting,
            reason: String::new(),
            format: None,
            extent: None,
            backend: None,
        };
        let (status, views) = (Mutex::new(status), Mutex::new(views));
        let (counters, closed) = (Arc::default(), Mutex::default());
        Self { name, status, counters, views, closed, commands }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it is doing, and the extent of its frames once there was one.
    pub(super) fn state(&self) -> (StreamState, Option<Extent>) {
        let status = self.status.lock();
        (status.state, status.extent)
    }

    /// Its views: those of the configuration, then those that clients opened.
    pub(super) fn views(&self) -> Vec<Arc<ViewEntry>> {
        self.views.lock().clone()
    }

    /// Those that clients opened, and those of them that are closed and not gone yet.
    fn views_of_clients(&self) -> Vec<Arc<ViewEntry>> {
        let open = self.views().into_iter().filter(|view| view.owner().is_some());
        let mut closed = self.closed.lock();
        closed.retain(|view| !view.channel().is_closed());
        open.chain(closed.iter().cloned()).collect()
    }

    /// Adds a view that belongs to `owner`. Its name must be its own.
    pub(super) fn open_view(&self, config: ViewConfig, owner: Client, bell: &Arc<Bell>) {
        let (entry, port) = view::ends(&self.name, config, Some(owner), bell);
        let mut views = self.views.lock();
        let opened =
            views.partition_point(|view| view.owner().is_none() || view.name() < entry.name());
        views.insert(opened, entry);
        // A frame loop that has ended takes no more commands, and shows no more views.
        let _ = self.commands.send(ViewCommand::Open(Box::new(port)));
    }

    /// Removes the views that belong to client `number`, who is gone.
    pub(super) fn close_views_of(&self, number: u64) {
        self.views.lock().retain(|view| {
            let is_owned = view.owner().is_some_and(|owner| owner.number == number);
            if is_owned {
                view.end("the client that opened the view is gone");
                let _ = self.commands.send(ViewCommand::Close(view.name().clone()));
                self.closed.lock().push(Arc::clone(view));
            }
            !is_owned
        });
    }

    /// Why it ended, if it has.
    pub(super) fn end_reason(&self) -> Option<String> {
        let status = self.status.lock();
        let ended = status.state == StreamState::Ended;
        ended.then(|| clipped(&status.reason, LISTED_TEXT_BYTES_MAX))
    }

    /// Its views behind `after`; all of them where that is a view of another stream.
    pub(super) fn views_after(&self, after: Option<&ViewName>) -> Vec<Arc<ViewEntry>> {
        let views = self.views.lock();
        let Some(after) = after.filter(|after| after.stream() == self.name) else {
            return views.clone();
        };
        let configured =
            views.iter().position(|view| view.owner().is_none() && view.name() == after);
        let is_behind = |(index, view): &(usize, &Arc<ViewEntry>)| match configured {
            Some(position) => position < *index,
            // Opened, and perhaps closed since.
            None => view.owner().is_some() && after < view.name(),
        };
        views.iter().enumerate().filter(is_behind).map(|(_, view)| Arc::clone(view)).collect()
    }

    /// Everything about it but its views.
    pub(super) fn listing(&self) -> StreamListing {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let StreamStatus { source, state, reason, format, extent, backend } =
            self.status.lock().clone();
        let counters = &self.counters;
        StreamListing {
            name: self.name.clone(),
            state,
            reason: text(&reason),
            source: text(&source),
            format: format.map(|format| format.name().to_owned()),
            extent: extent.map(|extent| [extent.width, extent.height]),
            backend: backend.map(|backend| BackendInfo {
                device: text(&backend.device),
                reason: text(&backend.reason),
                ..backend
            }),
            frames_captured: counters.frames_captured.get(),
            frames_dropped: counters.frames_dropped.get(),
            frames_published: counters.frames_published.get(),
            frames_refused: counters.frames_refused.get(),
            frames_skipped: counters.frames_skipped.get(),
            frames_rested: counters.frames_rested.get(),
            stamps_clamped: counters.stamps_clamped.get(),
            tiles_dirty: counters.tiles_dirty.get(),
            backend_fallbacks: counters.backend_fallbacks.get(),
            backend_attempts: counters.backend_attempts.get(),
            backend_returns: counters.backend_returns.get(),
            restarts: counters.restarts.by_reason().filter(|(_, count)| *count != 0).collect(),
            pipelines_stopping: counters.pipelines_stopping.get().unwrap_or(0),
            stuck: counters
                .stages
                .stuck(STUCK_AFTER)
                .map(|(stage, since)| StuckListing { stage, seconds: since.as_secs() }),
            change: change_listing(&counters.change),
            views: Vec::new(),
        }
    }

    /// What it and its views have done.
    pub(super) fn stats(&self) -> StreamStats {
        let StreamListing {
            name, state, reason, backend, change, pipelines_stopping, stuck, ..
        } = self.listing();
        let StreamCounters { durations, change: gauges, newest_capture_ns, .. } = &*self.counters;
        let stages = FrameStage::ALL.iter().zip(&durations.stages);
        StreamStats {
            name,
            state,
            reason,
            backend,
            frames_captured: self.counters.frames_captured.get(),
            frames_dropped: self.counters.frames_dropped.get(),
            frames_published: self.counters.frames_published.get(),
            frames_refused: self.counters.frames_refused.get(),
            stamps_clamped: self.counters.stamps_clamped.get(),
            tiles_dirty: self.counters.tiles_dirty.get(),
            frames_skipped: self.counters.frames_skipped.get(),
            frames_rested: self.counters.frames_rested.get(),
            restarts: self.counters.restarts.by_reason().collect(),
            pipelines_stopping,
            stuck,
            bytes_uploaded: self.counters.bytes_uploaded.get(),
            backend_fallbacks: self.counters.backend_fallbacks.get(),
            backend_attempts: self.counters.backend_attempts.get(),
            backend_returns: self.counters.backend_returns.get(),
            change,
            sample_bound: gauges.threshold.get(),
            rgb_bound: gauges.rgb_bound.get(),
            newest_age_ns: newest_capture_ns.get().map(|at| monotonic_ns().saturating_sub(at)),
            age: durations.age.get(),
            step: durations.step.get(),
            stages: stages.map(|(stage, spent)| (stage.name().to_owned(), spent.get())).collect(),
            views: self.views().iter().map(|view| view.stats()).collect(),
        }
    }
}

/// A stream, as its frame loop sees it.
#[derive(Debug)]
pub struct StreamPort {
    entry: Arc<StreamEntry>,
    bell: Arc<Bell>,
    /// Its views, in the order of the [`StreamSpec`]; the frame loop takes them.
    pub views: Vec<ViewPort>,
    /// What becomes of views while it runs.
    pub commands: Receiver<ViewCommand>,
}

impl StreamPort {
    /// The counters that listings show.
    pub fn counters(&self) -> &Arc<StreamCounters> {
        &self.entry.counters
    }

    /// Changes what listings show. Subscribers learn when that ends the stream.
    pub fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        self.notices().update(change);
    }

    /// The part of this end through which it is told what becomes of the stream.
    pub fn notices(&self) -> StreamNotices {
        StreamNotices { entry: Arc::clone(&self.entry), bell: Arc::clone(&self.bell) }
    }

    /// The stream publishes no more: subscribers are told why.
    pub fn ended(&self, reason: &str) {
        self.notices().ended(reason);
    }
}

/// A stream, as whoever starts it sees it.
#[derive(Debug)]
pub struct StreamNotices {
    entry: Arc<StreamEntry>,
    bell: Arc<Bell>,
}

impl StreamNotices {
    /// Changes what listings show. Subscribers learn when that ends the stream.
    pub fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        let (before, after) = {
            let mut status = self.entry.status.lock();
            let before = status.state;
            change(&mut status);
            (before, status.state)
        };
        if before != after {
            self.bell.ring();
        }
    }

    /// The stream publishes no more: subscribers are told why.
    pub fn ended(&self, reason: &str) {
        self.update(|status| {
            status.state = StreamState::Ended;
            status.reason = redacted(reason);
        });
    }
}

/// `None` before the first frame.
fn change_listing(gauges: &ChangeGauges) -> Option<ChangeListing> {
    Some(ChangeListing {
        threshold: gauges.threshold.get()?,
        threshold_limit: gauges.threshold_limit.get(),
        noise: gauges.noise_thousandths.get().map(|noise| noise as f64 / 1000.0),
        tiles_dirty: gauges.tiles_dirty.get()?,
        tile_count: gauges.tile_count.get()?,
    })
}
