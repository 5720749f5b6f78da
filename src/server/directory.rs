//! The directory of streams and views, shared between frame loops and server.
//!
//! ```text
//!  frame loop                          directory                        server's thread
//!  StreamPort.update, .ended   ------>  StreamEntry.status     ------>  list, ended events
//!  ViewChannel                 <----->  ViewEntry.channel      <----->  look, attend, release, segment and gaze events, notices
//!  StreamPort.commands         <------  channel                <------  open_view, the end of a connection
//! ```
//!
//! Every lock here is held only while copying, never across I/O, so no client can make a frame loop wait.

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
use super::lease::ClientIdentity;
use crate::channel::{EventFd, ViewChannel};
use crate::memory::MemoryWatch;
use foveate::messages::{Refusal, RefusalReason, ViewName, clipped, is_name};
use foveate_config::ViewConfig;
use foveate_control::{
    ChangeListing, DepthListing, MaskListing, StreamInput, StreamListing, StreamPace,
    StreamSnapshot, StreamState, StreamStats, StuckListing,
};
use foveate_core::backend::BackendInfo;
use foveate_core::camera::Camera;
use foveate_core::clock::monotonic_ns;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::GrayRange;
use foveate_core::mask::Mask;
use foveate_core::pixel::{PixelAspect, PixelFacts};
use foveate_gaze::view::VIEWS_MAX;
use foveate_log::redact::redacted;
use foveate_source::Masks;
use foveate_stats::durations::FrameStage;
use foveate_stats::process::SourceProcessUse;
use foveate_stats::stages::{STUCK_AFTER, Stage};
use foveate_stats::{ChangeGauges, StreamCounters};

mod view;

/// All streams and views. The daemon fills it; the server reads it.
#[derive(Debug)]
pub struct Directory {
    streams: Mutex<BTreeMap<String, Arc<StreamEntry>>>,
    closed_views: Arc<ClosedViews>,
    wakeup: Arc<EventFd>,
    devices: OnceLock<DeviceMemory>,
}

/// Closed views that clients had opened, until their frame loop has released them and their memory is freed.
#[derive(Debug)]
struct ClosedViews {
    views: Mutex<Vec<Arc<ViewEntry>>>,
    memory: Arc<MemoryWatch>,
}

/// Returns the bytes that the process has allocated on each device, by device name.
struct DeviceMemory(Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>);

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceMemory")
    }
}

/// A stream to be served.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Name of the stream: 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Source of its frames, without secrets: any client can read it.
    pub source: String,
    /// Views of the stream, at least one.
    pub views: Vec<ViewConfig>,
    /// Whether the stream replays a recording: clients can neither steer its views nor open others.
    pub is_recording: bool,
    /// Parts of the picture that are filled before anything reads them.
    pub masks: Arc<Masks>,
}

/// The state of a stream that changes rarely.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Source of its frames, without secrets.
    pub source: String,
    /// State of the stream.
    pub state: StreamState,
    /// The reason for the state; may be empty.
    pub reason: String,
    /// Pixel format of the frames; `None` before the first.
    pub format: Option<PixelFormat>,
    /// Extent of the frames; `None` before the first.
    pub extent: Option<Extent>,
    /// Pixel aspect ratio and colour of its frames; `None` before the first.
    pub picture: Option<PixelFacts>,
    /// Backend of the pyramid; `None` before the first frame.
    pub backend: Option<BackendInfo>,
    /// Depth of the stream, if configured.
    pub depth: Option<DepthListing>,
    /// The calibration of its camera, if it has any.
    pub camera: Option<Arc<Camera>>,
}

impl Directory {
    /// An empty directory.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> std::io::Result<Arc<Self>> {
        let wakeup = Arc::new(EventFd::new()?);
        let memory = Arc::new(MemoryWatch::new()?);
        let closed_views = Arc::new(ClosedViews { views: Mutex::default(), memory });
        let streams = Mutex::default();
        Ok(Arc::new(Self { streams, closed_views, wakeup, devices: OnceLock::new() }))
    }

    /// Sets the function that returns the bytes allocated on each device, by device name. Only the first call takes
    /// effect.
    pub fn set_device_memory(
        &self,
        memory: impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static,
    ) {
        self.devices.get_or_init(|| DeviceMemory(Box::new(memory)));
    }

    /// The bytes that the process has allocated on each device, by device name.
    pub(super) fn device_memory(&self) -> BTreeMap<String, u64> {
        self.devices.get().map(|memory| (memory.0)()).unwrap_or_default()
    }

    /// Adds a starting stream, and returns the frame loop's end of it.
    ///
    /// # Panics
    ///
    /// If a name is invalid or not unique, or there is no view: the configuration was checked before.
    pub fn add_stream(&self, spec: StreamSpec) -> StreamPort {
        assert!(is_name(&spec.name), "invalid stream name {:?}", spec.name);
        assert!(!spec.views.is_empty(), "stream {} has no views", spec.name);
        let (sender, commands) = unbounded();
        let (entry, views) = StreamEntry::new(spec, sender, self);
        let entry = Arc::new(entry);
        match self.streams.lock().entry(entry.name.clone()) {
            Entry::Vacant(vacant) => drop(vacant.insert(Arc::clone(&entry))),
            Entry::Occupied(occupied) => panic!("two streams are called {}", occupied.key()),
        }
        StreamPort { entry, views, commands }
    }

    /// Removes a stream from listings and subscription and frees its name. Call [`StreamPort::ended`] first: it gives
    /// subscribers the reason.
    pub fn remove_stream(&self, name: &str) {
        let removed = self.streams.lock().remove(name);
        // The server informs its subscribers.
        if let Some(stream) = removed {
            let reason = stream.end_reason();
            stream.close_views(
                |view| view.owner().is_some(),
                reason.as_deref().unwrap_or("its stream was removed"),
            );
        }
        self.wakeup.signal();
    }

    /// Asks the frame loop of a stream to [replace](ViewCommand::Set) a view of its configuration; without such a stream nothing
    /// happens. A stream that has ended never answers.
    pub fn set_view(
        &self,
        stream: &str,
        config: ViewConfig,
        keeps_segment: bool,
        answer: Sender<Result<(), Refusal>>,
    ) {
        if let Some(stream) = self.stream(stream) {
            let config = Box::new(config);
            // Fails only if the stream has ended, like the command for an opened view.
            let _ = stream.commands.send(ViewCommand::Set { config, keeps_segment, answer });
        }
    }

    /// Adds a view of the configuration to a running stream; views that clients opened make way. `answer` receives the result, once:
    /// success, or why there is none.
    pub fn add_view(&self, stream: &str, config: ViewConfig, answer: Sender<Result<(), Refusal>>) {
        if let Some(stream) = self.stream(stream) {
            stream.add_view(config, answer);
            // Clients may have lost views to it.
            self.wakeup.signal();
        }
    }

    /// Removes a view from its stream, which continues. Its subscribers get `reason`.
    pub fn remove_view(&self, view: &ViewName, reason: &str) {
        if let Some(stream) = self.stream(view.stream()) {
            stream.close_views(|present| present.name() == view, reason);
            self.wakeup.signal();
        }
    }

    /// Sorts the configured views in the order of `names`; listings follow it.
    pub fn arrange_views(&self, stream: &str, names: &[&str]) {
        if let Some(stream) = self.stream(stream) {
            let place =
                |view: &ViewEntry| names.iter().position(|name| *name == view.name().view());
            stream.views.lock().sort_by_key(|view| (view.owner().is_some(), place(view)));
        }
    }

    /// The streams with a stage that has been busy with one piece of work for at least `limit`: the name, the stage, and how long
    /// it has made no progress. Waiting for a frame or a camera does not count.
    pub fn stuck(&self, limit: Duration) -> Vec<(String, Stage, Duration)> {
        let stuck = |entry: &Arc<StreamEntry>| {
            let (stage, stalled_for) = entry.counters.stages.stuck(limit)?;
            Some((entry.name.clone(), stage, stalled_for))
        };
        self.streams.lock().values().filter_map(stuck).collect()
    }

    /// Whether all streams make progress, for a watchdog that may end the daemon: none has been stuck for [`STUCK_AFTER`].
    pub fn is_healthy(&self) -> bool {
        self.stuck(STUCK_AFTER).is_empty()
    }

    /// The state of stream `stream`, if it exists.
    pub fn state(&self, stream: &str) -> Option<StreamState> {
        self.stream(stream).map(|stream| stream.state().0)
    }

    /// Listings of all streams, by name.
    pub fn listings(&self) -> Vec<StreamListing> {
        self.streams_from(Bound::Unbounded).iter().map(|stream| stream.listing()).collect()
    }

    /// The stream called `name`.
    pub(super) fn stream(&self, name: &str) -> Option<Arc<StreamEntry>> {
        self.streams.lock().get(name).cloned()
    }

    /// The view called `name`, and its stream.
    pub(super) fn find(&self, name: &ViewName) -> Option<(Arc<StreamEntry>, Arc<ViewEntry>)> {
        let stream = self.stream(name.stream())?;
        let view = stream.views().into_iter().find(|view| view.name() == name)?;
        Some((stream, view))
    }

    /// All views, by stream name.
    pub(super) fn views(&self) -> Vec<Arc<ViewEntry>> {
        self.streams.lock().values().flat_map(|stream| stream.views()).collect()
    }

    /// The views that clients opened, including closed ones that still exist.
    pub(super) fn views_of_clients(&self) -> Vec<Arc<ViewEntry>> {
        let open = self.views().into_iter().filter(|view| view.owner().is_some());
        open.chain(self.closed_views.views.lock().iter().cloned()).collect()
    }

    /// Forgets memory that nobody has any more, and closed views without any. Returns whether some is to be forgotten later.
    pub(super) fn forget_memory(&self) -> bool {
        let gone = self.closed_views.memory.gone();
        let kept =
            self.views_of_clients().iter().filter(|view| view.channel().forget(&gone)).count();
        let mut closed = self.closed_views.views.lock();
        closed.retain(|view| 0 < view.channel().bytes());
        0 < kept || !closed.is_empty()
    }

    /// The streams from that name on, in the order of their names.
    pub(super) fn streams_from(&self, first: Bound<&str>) -> Vec<Arc<StreamEntry>> {
        let streams = self.streams.lock();
        streams.range::<str, _>((first, Bound::Unbounded)).map(|(_, entry)| entry.clone()).collect()
    }

    /// The descriptor that the server polls: readable after a change that concerns subscribers.
    pub(super) fn wakeup(&self) -> &Arc<EventFd> {
        &self.wakeup
    }
}

/// The server's end of a stream.
#[derive(Debug)]
pub struct StreamEntry {
    name: String,
    is_recording: bool,
    masks: Arc<Masks>,
    status: Mutex<StreamStatus>,
    counters: Arc<StreamCounters>,
    /// Views of the configuration in its order, then those that clients opened, by name.
    views: Mutex<Vec<Arc<ViewEntry>>>,
    closed_views: Arc<ClosedViews>,
    commands: Sender<ViewCommand>,
    /// Wakes the server.
    wakeup: Arc<EventFd>,
}

/// A change to the views of a running stream.
#[derive(Debug)]
pub enum ViewCommand {
    /// A client opened one.
    Open(Box<ViewChannel>),
    /// The configuration has one more. The sender receives the result, once: success, or why it cannot be built.
    Add(Box<ViewChannel>, Sender<Result<(), Refusal>>),
    /// The client that opened this one is gone, or the configuration no longer has it.
    Close(ViewName),
    /// An operator replaces one.
    Set {
        /// The new configuration.
        config: Box<ViewConfig>,
        /// Whether only the pace changes, so that the segment stays.
        keeps_segment: bool,
        /// Receives the result, once: success, or why the view stays as it is.
        answer: Sender<Result<(), Refusal>>,
    },
}

impl StreamEntry {
    /// The entry of a starting stream, and the frame loop's ends of its views.
    fn new(
        spec: StreamSpec,
        commands: Sender<ViewCommand>,
        directory: &Directory,
    ) -> (Self, Vec<ViewChannel>) {
        let StreamSpec { name, source, views, is_recording, masks } = spec;
        let ends = |config| view::view_entry(&name, config, None, &directory.wakeup);
        let (views, channels) = views.into_iter().map(ends).collect::<(Vec<_>, Vec<_>)>();
        let status = StreamStatus {
            source,
            state: StreamState::Starting,
            reason: String::new(),
            format: None,
            extent: None,
            picture: None,
            backend: None,
            depth: None,
            camera: None,
        };
        let entry = Self {
            name,
            is_recording,
            masks,
            status: Mutex::new(status),
            counters: Arc::default(),
            views: Mutex::new(views),
            closed_views: Arc::clone(&directory.closed_views),
            commands,
            wakeup: Arc::clone(&directory.wakeup),
        };
        (entry, channels)
    }

    /// Name of the stream.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// # Errors
    ///
    /// If it is a recording.
    pub(super) fn check_not_a_recording(&self) -> Result<(), Refusal> {
        if !self.is_recording {
            return Ok(());
        }
        let error = format!(
            "stream `{}` is a recording, published by `foveate replay`: nobody can steer its views or open others (expected a \
             stream of `foveated`)",
            self.name
        );
        Err(Refusal::new(RefusalReason::Recording, error))
    }

    /// The state of the stream, and the extent of its frames once there was a frame.
    pub(super) fn state(&self) -> (StreamState, Option<Extent>) {
        let status = self.status.lock();
        (status.state, status.extent)
    }

    /// The stream's camera, if it is calibrated.
    pub(super) fn camera(&self) -> Option<Arc<Camera>> {
        self.status.lock().camera.clone()
    }

    /// The stream's views: first those of the configuration, then those that clients opened.
    pub(super) fn views(&self) -> Vec<Arc<ViewEntry>> {
        self.views.lock().clone()
    }

    /// Adds a view of `owner`. Its name must be unique.
    pub(super) fn open_view(&self, config: ViewConfig, owner: ClientIdentity) {
        let opener = Some((owner, &self.closed_views.memory));
        let (entry, channel) = view::view_entry(&self.name, config, opener, &self.wakeup);
        let mut views = self.views.lock();
        let opened =
            views.partition_point(|view| view.owner().is_none() || view.name() < entry.name());
        views.insert(opened, entry);
        // A frame loop that has ended takes no more commands.
        let _ = self.commands.send(ViewCommand::Open(Box::new(channel)));
    }

    /// Adds a view of the configuration.
    fn add_view(&self, config: ViewConfig, answer: Sender<Result<(), Refusal>>) {
        let (entry, channel) = view::view_entry(&self.name, config, None, &self.wakeup);
        let mut views = self.views.lock();
        self.make_way(&mut views, entry.name());
        if VIEWS_MAX <= views.len() || views.iter().any(|view| view.name() == entry.name()) {
            let error = "the configuration has a view of that name, or the maximum number of views";
            return drop(answer.send(Err(Refusal::new(RefusalReason::TooManyViews, error))));
        }
        let opened = views.partition_point(|view| view.owner().is_none());
        views.insert(opened, entry);
        let _ = self.commands.send(ViewCommand::Add(Box::new(channel), answer));
    }

    /// Removes the views of client `number`, which is gone.
    pub(super) fn close_views_of(&self, number: u64) {
        let is_owned = |view: &ViewEntry| view.owner().is_some_and(|owner| owner.number == number);
        self.close_views(is_owned, "the client that opened the view is gone");
    }

    /// Closes the view that a client has opened under the name of a new view of the configuration, and if there is still no room, another
    /// opened one.
    fn make_way(&self, views: &mut Vec<Arc<ViewEntry>>, name: &ViewName) {
        let is_opened = |view: &ViewEntry| view.owner().is_some();
        let reason = "the configuration has a view of that name now";
        self.close(views, |view| is_opened(view) && view.name() == name, reason);
        if VIEWS_MAX <= views.len()
            && let Some(last) = views.last().map(|view| view.name().clone())
        {
            let reason = "a view of the operator's configuration needs its place";
            self.close(views, |view| is_opened(view) && *view.name() == last, reason);
        }
    }

    fn close_views(&self, is_meant: impl Fn(&ViewEntry) -> bool, reason: &str) {
        self.close(&mut self.views.lock(), is_meant, reason);
    }

    fn close(
        &self,
        views: &mut Vec<Arc<ViewEntry>>,
        is_meant: impl Fn(&ViewEntry) -> bool,
        reason: &str,
    ) {
        views.retain(|view| {
            let is_meant = is_meant(view);
            if is_meant {
                view.channel().mark_ended(reason);
                let _ = self.commands.send(ViewCommand::Close(view.name().clone()));
                self.closed_views
                    .views
                    .lock()
                    .extend(view.owner().is_some().then(|| Arc::clone(view)));
            }
            !is_meant
        });
    }

    fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        let (before, after) = {
            let mut status = self.status.lock();
            let before = status.state;
            change(&mut status);
            (before, status.state)
        };
        if before != after {
            self.wakeup.signal();
        }
    }

    /// Ends the stream and informs subscribers of the reason.
    pub fn ended(&self, reason: &str) {
        self.update(|status| {
            status.state = StreamState::Ended;
            status.reason = redacted(reason);
        });
    }

    /// Why the stream ended, if it has.
    pub(super) fn end_reason(&self) -> Option<String> {
        let status = self.status.lock();
        let ended = status.state == StreamState::Ended;
        ended.then(|| clipped(&status.reason, LISTED_TEXT_BYTES_MAX))
    }

    /// The stream's views after `after`; all of them if `after` is a view of another stream.
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

    /// Listing of the stream, without views.
    pub(super) fn listing(&self) -> StreamListing {
        let input = |status: &StreamStatus| StreamInput {
            source: clipped(&status.source, LISTED_TEXT_BYTES_MAX),
            format: status.format.map(|format| format.name().to_owned()),
            extent: status.extent.map(|extent| [extent.width, extent.height]),
            pixel_aspect: status.picture.map(|picture| {
                let PixelAspect { width, height } = picture.pixel_aspect;
                [width, height]
            }),
            color: status.picture.and_then(|picture| picture.color),
            gray_range: status
                .picture
                .and_then(|picture| picture.gray_range)
                .map(GrayRange::bounds),
            depth: status.depth.as_ref().map(|depth| DepthListing {
                source: clipped(&depth.source, LISTED_TEXT_BYTES_MAX),
                state: depth.state,
                reason: clipped(&depth.reason, LISTED_TEXT_BYTES_MAX),
            }),
            masks: mask_listings(&self.masks),
        };
        let mut listing = self.snapshot(input, Vec::new());
        listing.restarts.retain(|_, count| *count != 0);
        listing.events.retain(|_, count| *count != 0);
        listing
    }

    /// Statistics of the stream, with views.
    pub(super) fn stats(&self) -> StreamStats {
        let StreamCounters {
            durations,
            change,
            picture_speed,
            newest_capture_ns,
            newest_delay_ns,
            ..
        } = &*self.counters;
        let stages = FrameStage::ALL.iter().zip(&durations.stages);
        let pace = StreamPace {
            sample_bound: change.threshold.get(),
            rgb_bound: change.rgb_bound.get(),
            picture_speed: picture_speed.get(),
            newest_age_ns: newest_capture_ns.get().map(|at| monotonic_ns().saturating_sub(at)),
            newest_delay_ns: newest_delay_ns.get(),
            age: durations.age.get(),
            step: durations.step.get(),
            stages: stages.map(|(stage, spent)| (stage.name().to_owned(), spent.get())).collect(),
        };
        self.snapshot(|_| pace, self.views().iter().map(|view| view.stats()).collect())
    }

    fn snapshot<Detail, View>(
        &self,
        detail: impl FnOnce(&StreamStatus) -> Detail,
        views: Vec<View>,
    ) -> StreamSnapshot<Detail, View> {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let status = self.status.lock().clone();
        let stuck = self.counters.stages.stuck(STUCK_AFTER);
        StreamSnapshot {
            name: self.name.clone(),
            state: status.state,
            reason: text(&status.reason),
            detail: detail(&status),
            backend: status.backend.map(|backend| BackendInfo {
                device: text(&backend.device),
                reason: text(&backend.reason),
                ..backend
            }),
            counts: self.counters.snapshot(),
            restarts: self.counters.restarts.by_reason().collect(),
            processes: source_processes(&self.counters),
            events: self.counters.events.by_kind().collect(),
            holding: self.counters.events.holding().collect(),
            stuck: stuck.map(|(stage, since)| StuckListing { stage, seconds: since.as_secs() }),
            change: change_listing(&self.counters.change),
            views,
        }
    }
}

/// The frame loop's end of a stream.
#[derive(Debug)]
pub struct StreamPort {
    entry: Arc<StreamEntry>,
    /// The channels of its views, in the order of the [`StreamSpec`]; the frame loop takes them.
    pub views: Vec<ViewChannel>,
    /// Changes to views while it runs.
    pub commands: Receiver<ViewCommand>,
}

impl StreamPort {
    /// The counters that listings show.
    pub fn counters(&self) -> &Arc<StreamCounters> {
        &self.entry.counters
    }

    /// Parts of the picture that are filled before anything reads them.
    pub fn masks(&self) -> &Arc<Masks> {
        &self.entry.masks
    }

    /// The server's end of the stream.
    pub fn entry(&self) -> &Arc<StreamEntry> {
        &self.entry
    }

    /// Changes the status. Subscribers are informed if the stream ends.
    pub fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        self.entry.update(change);
    }

    /// Ends the stream and informs subscribers of the reason.
    pub fn ended(&self, reason: &str) {
        self.entry.ended(reason);
    }
}

/// Resources that the processes of a source use now, by the content of their frames.
fn source_processes(counters: &StreamCounters) -> BTreeMap<String, SourceProcessUse> {
    let processes = [("pictures", &counters.source_process), ("depth", &counters.depth_process)];
    let used = processes.into_iter().filter_map(|(content, process)| {
        let pid = u32::try_from(process.get()?).ok()?;
        Some((content.to_owned(), SourceProcessUse::of(pid)?))
    });
    used.collect()
}

/// The masks of the configuration, then the others. Five digits are finer than a pixel.
fn mask_listings(masks: &Masks) -> Vec<MaskListing> {
    let listed = |mask: Mask, is_configured| {
        let rounded = |share: f64| (share * 1e5).round() / 1e5;
        let points = mask.points.into_iter().map(|point| point.map(rounded)).collect();
        MaskListing { name: mask.name, points, is_configured }
    };
    let (configured, added) = masks.present();
    let configured = configured.into_iter().map(|mask| listed(mask, true));
    configured.chain(added.into_iter().map(|mask| listed(mask, false))).collect()
}

/// Listing of the change detection; `None` before the first frame.
fn change_listing(gauges: &ChangeGauges) -> Option<ChangeListing> {
    Some(ChangeListing {
        threshold: gauges.threshold.get()?,
        threshold_limit: gauges.threshold_limit.get(),
        noise: gauges.noise_thousandths.get().map(|noise| noise as f64 / 1000.0),
        tiles_dirty: gauges.tiles_dirty.get()?,
        tile_count: gauges.tile_count.get()?,
    })
}
