//! One stream of the daemon: an [`Engine`], the rings that its views publish in, and recovery from a lost GPU.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::{NewView, Replacement, RingBuilder};
use self::publisher::{MotionPath, Publisher, SHED_IN_ROW_MAX};
use self::recovery::Recovery;
use self::watch::EventWatch;
use foveate_config::{PublishChoice, ViewConfig};
use foveate_core::backend::{BackendInfo, BackendKind};
use foveate_core::camera::Camera;
use foveate_core::change::ChangeConfig;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::error::chain;
use foveate_core::event::Event;
use foveate_core::frame::{FrameStamp, FrameTime, FrameTimes, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::tile::TileSet;
use foveate_core::pixel::PixelFacts;
use foveate_engine::backend::Backend;
pub use foveate_engine::backend::BackendError;
pub use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::depth::DepthPicture;
use foveate_engine::{Engine, StageTimes, View};
pub use foveate_gaze::controller::PolicyFileError;
use foveate_gaze::relevance::seen::FrameParts;
use foveate_gaze::view::{VIEWS_MAX, ViewSpec};
use foveate_ring::{RingError, State, check_memory};
pub use foveate_server::channel::REPLACED;
use foveate_server::channel::ViewChannel;
use foveate_stats::durations::{FrameStage, StreamDurations};
use foveate_stats::{ChangeGauges, StreamCounters};

mod builder;
mod publisher;
mod recovery;
mod watch;

/// One view as the daemon serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedView {
    /// Name of the view.
    pub name: String,
    /// The planes that it samples.
    pub spec: ViewSpec,
    /// Slots of its ring.
    pub slot_count: usize,
    /// Frames that the view publishes.
    pub pace: ViewPace,
}

impl TryFrom<&ViewConfig> for ServedView {
    type Error = PolicyFileError;

    /// Reads the gaze log, if it replays one.
    fn try_from(config: &ViewConfig) -> Result<Self, PolicyFileError> {
        Ok(Self {
            name: config.name.clone(),
            spec: ViewSpec::try_from(config)?,
            slot_count: config.slot_count(),
            pace: ViewPace::from(config),
        })
    }
}

/// Which frames a view publishes. The first frame of a segment is always published, so that new readers find one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewPace {
    /// Average interval in the time of the stream; all frames if `None`.
    pub interval: Option<Duration>,
    /// Whether only while somebody is subscribed.
    pub when_read: bool,
}

impl From<&ViewConfig> for ViewPace {
    fn from(config: &ViewConfig) -> Self {
        Self {
            interval: config.max_fps.map(|rate| Duration::from_secs_f64(rate.recip())),
            when_read: config.publish == PublishChoice::WhenRead,
        }
    }
}

/// Why a stream failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The backend refused.
    #[error("the backend failed")]
    Backend(#[from] BackendError),
    /// A view publishes depth, but the stream has no depth source.
    #[error("`depth` and `boxes` need [stream.depth], which the stream lacks")]
    NoDepth,
    /// A view wants boxes in space, and the camera's rays are not known.
    #[error(
        "`boxes` needs the camera's rays: add [stream.camera] with a calibration whose distortion is \"plumb_bob\", \
         \"rational_polynomial\" or \"equidistant\""
    )]
    NoRays,
    /// Too little shared memory for all views together.
    #[error("cannot allocate the rings of all views")]
    Rings(#[source] RingError),
    /// No shared memory for a view.
    #[error("cannot make the ring of view {view:?}")]
    Ring {
        /// Name of the view.
        view: String,
        /// Error of the segment.
        source: RingError,
    },
}

/// Why a view could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddViewError {
    /// The view was built for other frames or another backend: the stream was rebuilt meanwhile.
    #[error("the view is outdated, because the stream has changed: build it again")]
    Outdated,
    /// The stream has as many views as it can have.
    #[error("too many views (limit {VIEWS_MAX}): close one first")]
    Full,
}

/// Result of a step with one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// No view published the frame: none has readers, or each limits its rate. The engine still processes it if events are
    /// detected or the GPU is lost.
    Unpublished,
    /// The frame was published in the segments that readers have.
    Published,
    /// The frame was published, and new views have their first segments, which readers must be given.
    PublishedNewViews,
    /// The frame is the first of its kind: every view has a new segment, which readers must be given.
    PublishedInNewSegments,
}

impl StepOutcome {
    fn of(is_wanted: bool, is_rebuilt: bool, has_new_views: bool) -> Self {
        match (is_wanted, is_rebuilt, has_new_views) {
            (false, ..) => Self::Unpublished,
            (true, true, _) => Self::PublishedInNewSegments,
            (true, false, true) => Self::PublishedNewViews,
            (true, false, false) => Self::Published,
        }
    }
}

/// A stream: its engine and its views.
#[derive(Debug)]
pub struct Stream {
    name: String,
    chosen: StreamBackend,
    change: ChangeConfig,
    /// Whether the source's samples are exact, for a threshold that depends on it.
    is_exact: bool,
    counters: Arc<StreamCounters>,
    /// Views of the configuration, then those that clients opened. Before the first frame they are [unbuilt](View::unbuilt).
    views: Vec<View<Publisher>>,
    /// Which of the opened views has the first turn at the next frame.
    first_turn: usize,
    /// `None` until the first frame.
    engine: Option<Engine>,
    /// Number of engines so far, plus the changes of their backends.
    generation: u64,
    builder: RingBuilder,
    /// Pixel aspect ratio and colour that segments give.
    picture: PixelFacts,
    /// Whether the current segments give another aspect ratio or colour.
    has_other_picture: bool,
    recovery: Recovery,
    has_new_views: bool,
    wants_motion: bool,
    /// Capture times of the frames that feedback may refer to.
    times: FrameTimes,
    /// Arrival times of the same frames.
    arrivals: FrameTimes,
    /// Event detectors; `None` if no client asked for events.
    watch: Option<EventWatch>,
}

impl Stream {
    /// A stream before its first frame. `change` says which differences between frames count; each view comes with the channel to
    /// its clients.
    pub fn new(
        name: &str,
        chosen: StreamBackend,
        change: ChangeConfig,
        views: impl IntoIterator<Item = (ServedView, ViewChannel)>,
        counters: Arc<StreamCounters>,
    ) -> Self {
        let views = views.into_iter().map(|(view, channel)| {
            let publisher = Publisher::new(&view, channel, &counters);
            View::unbuilt(view.spec, publisher)
        });
        let views = views.collect();
        let recovery = Recovery::new(name, &counters, monotonic_ns());
        let builder = RingBuilder::new(name, &counters, None, false);
        Self {
            name: name.to_owned(),
            chosen,
            change,
            is_exact: false,
            counters,
            views,
            first_turn: 0,
            engine: None,
            generation: 0,
            builder,
            picture: PixelFacts::default(),
            has_other_picture: false,
            recovery,
            has_new_views: false,
            wants_motion: false,
            times: FrameTimes::default(),
            arrivals: FrameTimes::default(),
            watch: None,
        }
    }

    /// Sets whether events are looked for in every frame, even while no view takes it; to be called before the first frame.
    #[must_use]
    pub fn with_events(mut self, events: bool) -> Self {
        self.watch = events.then(|| EventWatch::new(&self.counters));
        self
    }

    /// Sets whether the source is live: a repeated frame then counts as a frozen camera.
    pub fn set_live(&mut self, is_live: bool) {
        if let Some(watch) = &mut self.watch {
            watch.is_live = is_live;
        }
    }

    /// Says whether the source's samples are exact: pictures, and what no lossy codec made. A threshold that depends on it takes that
    /// from the next engine on.
    pub(crate) fn set_exact(&mut self, is_exact: bool) {
        self.is_exact = is_exact;
    }

    /// Events of the newest frame that go to every view; per-view events are not included.
    pub fn events(&self) -> &[Event] {
        self.watch.as_ref().map_or(&[], |watch| &watch.events)
    }

    /// Sets the camera whose calibration is published, and whether there is depth; to be called before the first frame.
    #[must_use]
    pub fn with_camera(mut self, camera: Option<Arc<Camera>>, has_depth: bool) -> Self {
        self.builder = RingBuilder::new(&self.name, &self.counters, camera, has_depth);
        self
    }

    /// Sets whether the motion of the picture is computed even if no view asks for it; to be called before the first frame.
    #[must_use]
    pub fn with_motion(mut self, is_wanted: bool) -> Self {
        self.wants_motion = is_wanted;
        self
    }

    /// Sets pixel aspect ratio and colour, which segments give. After a change the next frame begins new segments.
    pub(crate) fn set_picture(&mut self, picture: PixelFacts) {
        if self.picture != picture {
            self.picture = picture;
            self.has_other_picture = true;
        }
    }

    /// Takes one frame through the stages and publishes the tokens of every view.
    ///
    /// # Errors
    ///
    /// If the backend refuses frames of this kind, or there is no memory for a ring. After a lost GPU the stream continues on
    /// the CPU, and retries the GPU.
    pub fn step(
        &mut self,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
    ) -> Result<StepOutcome, StreamError> {
        self.step_with(frame, stamp, None, &|| false)
    }

    /// Does what [`step`](Self::step) does, with the depth picture of the frame, if it has one. Views that clients opened publish after the
    /// others, and skip the frame once `is_late` returns true.
    ///
    /// # Errors
    ///
    /// As for [`step`](Self::step).
    pub fn step_with(
        &mut self,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
        depth: Option<&DepthPicture<'_>>,
        is_late: &dyn Fn() -> bool,
    ) -> Result<StepOutcome, StreamError> {
        let start_ns = monotonic_ns();
        let is_of_kind = self.engine.as_ref().is_some_and(|engine| engine.kind() == frame.kind());
        let has_other_picture = std::mem::take(&mut self.has_other_picture);
        let is_rebuilt = !is_of_kind || has_other_picture;
        if is_rebuilt {
            self.rebuild(frame, stamp)?;
        }
        let at = FrameTime::of(stamp);
        self.times.push(at);
        self.arrivals.push(FrameTime { time_ns: stamp.arrival_ns, ..at });
        let is_wanted = self.is_wanted(at);
        let configured = self.configured();
        // A lost GPU is left even if no view wants the frame: new views could not be built on it.
        if !is_wanted && !self.chosen.is_lost() && self.watch.is_none() {
            self.counters.frames_rested.add(1);
            note_newest(&self.counters, stamp);
            return Ok(StepOutcome::Unpublished);
        }
        let Self {
            chosen,
            views,
            engine: Some(engine),
            counters,
            recovery,
            builder,
            times,
            arrivals,
            watch,
            first_turn,
            picture,
            ..
        } = self
        else {
            unreachable!("built for the first frame");
        };
        let extent = frame.extent();
        let path = MotionPath { times, arrivals, motions: engine.motions() };
        views[..configured]
            .iter_mut()
            .for_each(|view| publisher::take_feedback(view, extent, at, path));
        if recovery.poll(chosen, engine, views, stamp.arrival_ns) {
            builder.set_target(engine.view_builder(), chosen.info(), *picture);
        }
        let (configured, later) = views.split_at_mut(configured);
        if configured.iter().any(takes_depth) {
            engine.set_depth(depth);
        }
        let begin_result = engine.begin_step(frame, stamp, configured, later);
        let opened = if let Err(error) = begin_result {
            chosen.fall_back(&error);
            let backend = chosen.build_on_cpu(frame.kind());
            let retired = engine.recover(backend, frame, stamp, views)?;
            recovery.begin(chosen, Some(retired), stamp.arrival_ns);
            builder.set_target(engine.view_builder(), chosen.info(), *picture);
            Span::NONE
        } else {
            let mut turns = Turns { engine, stamp, depth, extent, times, arrivals };
            let opened = turns.run(later, first_turn, is_late);
            engine.end_step(stamp, views);
            opened
        };
        counters.picture_speed.set(speed_of_picture(engine));
        if let Some(watch) = watch {
            watch.look(engine, stamp, views);
        }
        let mut times = engine.times();
        times.plan.start_ns = start_ns;
        count_frame(counters, engine, (&times, opened), stamp, is_wanted);
        let has_new_views = std::mem::take(&mut self.has_new_views);
        Ok(StepOutcome::of(is_wanted, is_rebuilt, has_new_views))
    }

    /// Applies new masks from the next frame, `frame_seq`, on; `texels` of the coarse level are what they cover, `None` for no
    /// mask. Every view publishes until its ring holds no older frame, and state from older frames is erased under the masks.
    pub fn masks_changed(&mut self, texels: Option<&TileSet>, frame_seq: u64) {
        if let Some(engine) = &mut self.engine {
            let nothing = TileSet::none_of(engine.coarse_extent());
            engine.apply_mask(texels.unwrap_or(&nothing), frame_seq, &mut self.views);
        }
        if let (Some(watch), Some(texels)) = (&mut self.watch, texels) {
            watch.apply_mask(texels);
        }
        self.views.iter_mut().for_each(|view| view.sink.renew());
    }

    /// Lets every view decide whether it takes the frame of `at`; true if one does.
    fn is_wanted(&mut self, at: FrameTime) -> bool {
        let mut is_wanted = false;
        for view in &mut self.views {
            let takes = view.sink.takes(at);
            view.set_resting(!takes);
            is_wanted |= takes;
        }
        is_wanted
    }

    /// Returns a builder for views of this stream, usable on any thread.
    pub fn view_builder(&self) -> &RingBuilder {
        &self.builder
    }

    /// Adds a view, which publishes from the next frame on: one of the configuration behind the others of it, one that a client opened
    /// behind all others. Returns its index.
    ///
    /// # Errors
    ///
    /// If it is outdated, or the stream has as many views as it can have. The view is returned with the reason.
    pub fn add_view(&mut self, view: NewView) -> Result<usize, Box<(NewView, AddViewError)>> {
        if VIEWS_MAX <= self.views.len() {
            return Err(Box::new((view, AddViewError::Full)));
        }
        if view.0.generation() != self.present_generation() {
            return Err(Box::new((view, AddViewError::Outdated)));
        }
        let index = if view.0.sink.is_opened() { self.views.len() } else { self.configured() };
        self.views.insert(index, view.0);
        self.has_new_views = true;
        Ok(index)
    }

    /// Removes the view called `name`, for another thread to drop. Its readers are informed of the reason. `None` if there is no such view.
    pub fn remove_view(&mut self, name: &str) -> Option<Box<dyn Send>> {
        let mut view = self.views.remove(self.index_of(name)?);
        let reason = view.sink.channel.end_reason().unwrap_or_default();
        view.sink.interrupt(State::Ended, &reason);
        Some(Box::new(view))
    }

    /// Replaces the view of the replacement's name from the next frame on, in a new segment. The old one is returned, for another thread to drop;
    /// `None` if there is no such view.
    ///
    /// # Errors
    ///
    /// If the replacement is outdated. It is returned, to be built again, and the view stays as it is.
    pub fn replace_view(
        &mut self,
        replacement: Replacement,
    ) -> Result<Option<Box<dyn Send>>, Box<ServedView>> {
        let Replacement { view, built } = replacement;
        let Some(index) = self.index_of(&view.name) else { return Ok(None) };
        if built.generation() != self.present_generation() {
            return Err(Box::new(view));
        }
        let (old, mut publisher) = self.views.remove(index).split();
        let (built, writer) = built.split();
        publisher.change(&view);
        let old_writer = writer.map(|writer| publisher.move_to(writer));
        self.views.insert(index, built.with_sink(|()| publisher));
        self.has_new_views = true;
        Ok(Some(Box::new((old, old_writer))))
    }

    /// Changes which frames the view called `name` publishes, from the next one on.
    pub fn set_pace(&mut self, name: &str, pace: ViewPace) {
        if let Some(index) = self.index_of(name) {
            self.views[index].sink.set_pace(pace);
        }
    }

    /// The channel of the view called `name` to its clients, if there is such a view.
    pub fn channel(&self, name: &str) -> Option<&ViewChannel> {
        let index = self.index_of(name)?;
        Some(&self.views[index].sink.channel)
    }

    /// Hands subscribers the segments that they do not have yet.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub(crate) fn hand_out_segments(&self) -> Result<(), StreamError> {
        self.views.iter().try_for_each(|view| view.sink.hand_out_segment())
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.views.iter().position(|view| view.sink.name() == name)
    }

    /// Number of the views of the configuration, which come before those that clients opened.
    fn configured(&self) -> usize {
        self.views.partition_point(|view| !view.sink.is_opened())
    }

    /// The generation that views must be built for; that of [unbuilt](View::unbuilt) ones before the first frame.
    fn present_generation(&self) -> u64 {
        self.engine.as_ref().map_or(0, Engine::generation)
    }

    /// Gaze of view `index`; `None` before the first frame.
    pub fn gaze(&self, index: usize) -> Option<&Gaze> {
        self.views.get(index)?.gaze()
    }

    /// Epoch of the segment that view `index` publishes in; `None` before the first frame.
    pub fn epoch(&self, index: usize) -> Option<u64> {
        self.views.get(index)?.sink.epoch()
    }

    /// The segment that view `index` publishes in, and its epoch; `None` before the first frame.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn segment(&self, index: usize) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        self.views.get(index).map_or(Ok(None), |view| view.sink.segment())
    }

    /// Tiles that the newest frame changed or refreshed; `None` before the first frame.
    pub fn ingested(&self) -> Option<&TileSet> {
        self.engine.as_ref().map(|engine| engine.tracker().ingested())
    }

    /// The backend in use, and why.
    pub fn backend(&self) -> &BackendInfo {
        self.chosen.info()
    }

    /// Grows whenever [`backend`](Self::backend) changes.
    pub fn backend_changes(&self) -> u64 {
        self.recovery.changes()
    }

    /// Informs the readers of every view that the stream has ended, and why.
    pub fn end(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.sink.interrupt(State::Ended, reason));
    }

    /// Informs the readers of every view that the stream has stalled, and why.
    pub fn stall(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.sink.interrupt(State::Stalled, reason));
    }

    /// Informs the readers of every view that frames are arriving again.
    pub fn resume(&mut self) {
        self.views.iter_mut().for_each(|view| view.sink.resume());
    }

    /// Builds an engine for frames of this kind, and a new segment for every view.
    fn rebuild(&mut self, frame: &FrameView<'_>, stamp: &FrameStamp) -> Result<(), StreamError> {
        // Dropped first: the old and the new pyramid together might not fit.
        if let Some(engine) = self.engine.take() {
            self.generation = engine.generation();
        }
        let before = self.chosen.info().kind;
        let backend = self.chosen.build(frame.kind())?;
        match self.build_views(backend, before, stamp) {
            Err(StreamError::Backend(error)) => {
                self.chosen.fall_back(&error);
                let backend = self.chosen.build_on_cpu(frame.kind());
                self.build_views(backend, before, stamp)
            }
            result => result,
        }
    }

    /// Builds the engine with this backend, and all views again. `before` is the kind of the backend before. After an error it may
    /// be called again.
    fn build_views(
        &mut self,
        backend: Box<dyn Backend>,
        before: BackendKind,
        stamp: &FrameStamp,
    ) -> Result<(), StreamError> {
        self.generation += 1;
        if self.chosen.info().kind != before {
            self.recovery.begin(&mut self.chosen, None, stamp.arrival_ns);
        }
        let rays = self.builder.rays(backend.kind().extent);
        let change = self.change.for_source(self.is_exact);
        let mut engine = Engine::new(backend, change, self.generation).with_rays(rays);
        let reads_coarse = self.watch.is_some() || self.wants_motion;
        engine.watch(FrameParts { coarse: reads_coarse, tiles: false });
        self.builder.set_target(engine.view_builder(), self.chosen.info(), self.picture);
        // Existing rings are replaced by ones of about the same size, so only first ones need more memory.
        let first = self.views.iter().filter(|view| view.sink.epoch().is_none());
        let specs = first.map(|view| self.builder.segment_spec(&view.sink.served(view.spec())));
        check_memory(&specs.flatten().collect::<Vec<_>>()).map_err(StreamError::Rings)?;
        for view in &mut self.views {
            self.builder.build_in_place(view, FrameTime::of(stamp))?;
        }
        self.engine = Some(engine);
        Ok(())
    }
}

fn takes_depth(view: &View<Publisher>) -> bool {
    view.spec().wants_depth() && !view.planes().is_resting()
}

/// The turns of views that clients opened, for one frame: each samples it after the configured views have published it.
struct Turns<'a> {
    engine: &'a mut Engine,
    stamp: &'a FrameStamp,
    depth: Option<&'a DepthPicture<'a>>,
    extent: Extent,
    times: &'a FrameTimes,
    arrivals: &'a FrameTimes,
}

impl Turns<'_> {
    /// Gives each of `views` a turn, beginning with number `first`, until `is_late`. The first view without a turn is
    /// first at the next frame. Even if it is late, one view has a turn whose number of skipped frames in a row comes near
    /// [`SHED_IN_ROW_MAX`], so that no view skips more, although at most one such turn is given at a frame. Returns how long the turns took.
    fn run(
        &mut self,
        views: &mut [View<Publisher>],
        first: &mut usize,
        is_late: &dyn Fn() -> bool,
    ) -> Span {
        let start_ns = monotonic_ns();
        let is_any = views.iter().any(|view| !view.planes().is_resting());
        let count = views.len();
        let patience =
            (SHED_IN_ROW_MAX + 1).saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        let mut left_out = None;
        let (mut has_failed, mut has_insisted) = (false, false);
        for index in (*first..*first + count).map(|turn| turn % count) {
            let view = &mut views[index];
            if !view.planes().is_resting() {
                let insists = !has_insisted && !has_failed && patience <= view.sink.shed_in_row();
                has_insisted |= insists;
                if view.sink.sheds(|| has_failed || !insists && is_late()) {
                    view.set_resting(true);
                    left_out = left_out.or(Some(index));
                }
            }
            if let Err(error) = self.join(view) {
                // If the device is lost, the next frame finds out, and moves the stream.
                has_failed = true;
                tracing::warn!(reason = chain(&error), "cannot publish a frame in an opened view");
            }
        }
        *first = left_out.unwrap_or(*first);
        if is_any { Span::since(start_ns) } else { Span::NONE }
    }

    fn join(&mut self, view: &mut View<Publisher>) -> Result<(), BackendError> {
        let Self { engine, stamp, extent, times, arrivals, .. } = self;
        let path = MotionPath { times, arrivals, motions: engine.motions() };
        publisher::take_feedback(view, *extent, FrameTime::of(stamp), path);
        if takes_depth(view) {
            engine.set_depth(self.depth);
        }
        engine.join(stamp, view)
    }
}

fn note_newest(counters: &StreamCounters, stamp: &FrameStamp) {
    counters.newest_capture_ns.set(Some(stamp.capture_ns));
    counters.newest_delay_ns.set(Some(stamp.arrival_ns.saturating_sub(stamp.capture_ns)));
}

/// Counts a frame that went through the stages, whether or not a view took it.
fn count_frame(
    counters: &StreamCounters,
    engine: &Engine,
    (times, opened): (&StageTimes, Span),
    stamp: &FrameStamp,
    is_wanted: bool,
) {
    counters.tiles_dirty.add(engine.tracker().ingested().count() as u64);
    counters.bytes_uploaded.add(times.update.uploaded_bytes);
    counters.bytes_collected.add(times.update.collected_bytes);
    gauge_change(engine, &counters.change);
    count_times(times, opened, &counters.durations, stamp.capture_ns);
    note_newest(counters, stamp);
    let taken = if is_wanted { &counters.frames_published } else { &counters.frames_rested };
    taken.add(1);
}

/// Thousandths of pixels a second that the middle of the picture moves by; `None` if that is not known.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most a picture a nanosecond"
)]
fn speed_of_picture(engine: &Engine) -> Option<u64> {
    let newest = engine.motions()?.newest()?;
    let extent = engine.kind().extent;
    let middle = (0.5 * f64::from(extent.width), 0.5 * f64::from(extent.height));
    let (x, y) = newest.global()?.at(middle);
    let speed = (x - middle.0).hypot(y - middle.1) * 1e12 / newest.elapsed_ns() as f64;
    speed.is_finite().then_some(speed as u64)
}

/// Records how long each stage of a frame captured at `capture_ns` took, `opened` for the views that clients opened. A stage that did
/// not run is not counted.
fn count_times(times: &StageTimes, opened: Span, durations: &StreamDurations, capture_ns: u64) {
    for (stage, histogram) in FrameStage::ALL.into_iter().zip(&durations.stages) {
        let span = match stage {
            FrameStage::Plan => times.plan,
            FrameStage::Change => times.update.change,
            FrameStage::Upload => times.update.upload,
            FrameStage::Ingest => times.update.ingest,
            FrameStage::Features => times.update.features,
            FrameStage::Reduce => times.update.reduce,
            FrameStage::Sample => times.update.sample,
            FrameStage::Collect => times.update.collect,
            FrameStage::Adapt => times.adapt,
            FrameStage::Publish => times.publish,
            FrameStage::Opened => opened,
            FrameStage::See => times.see,
        };
        if span != Span::NONE {
            histogram.observe(span.ns());
        }
    }
    durations.step.observe(times.total().ns());
    durations.age.observe(times.publish.end_ns.saturating_sub(capture_ns));
}

/// Sets the gauges of change detection.
fn gauge_change(engine: &Engine, gauges: &ChangeGauges) {
    let tracker = engine.tracker();
    let (threshold, ingested) = (tracker.threshold(), tracker.ingested());
    gauges.rgb_bound.set(Some(engine.rgb_bound().into()));
    gauges.threshold.set(Some(threshold.current().into()));
    gauges.threshold_limit.set(threshold.limit().map(u64::from));
    gauges.noise_thousandths.set(threshold.sigma().map(thousandths));
    gauges.tiles_dirty.set(Some(ingested.count() as u64));
    gauges.tile_count.set(Some(ingested.grid().area() as u64));
}

/// `sigma`, at most 255, in thousandths.
#[expect(clippy::cast_possible_truncation, reason = "at most 255000")]
fn thousandths(sigma: f64) -> u64 {
    (1000.0 * sigma).round() as u64
}

/// Whether clients may score the tokens of a view, which needs its plans.
fn keeps_plans(spec: &ViewSpec) -> bool {
    spec.policy.is_feedback()
}
