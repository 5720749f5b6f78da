//! One stream of the daemon: an [`Engine`], the views that it publishes in rings, and the way back to a GPU that was lost.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::{NewView, Replacement, RingBuilder};
pub use self::publisher::REPLACED;
use self::publisher::{Publisher, Seat};
use self::recovery::Recovery;
use crate::channel::ViewChannel;
use foveate_config::{ChangeConfig, PublishChoice, ViewConfig};
use foveate_core::backend::BackendInfo;
use foveate_core::camera::Camera;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameStamp, FrameTime, FrameView};
use foveate_core::gaze::controller::Policy;
pub use foveate_core::gaze::log::GazeLogError;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::tile::TileSet;
pub use foveate_engine::StageTimes;
use foveate_engine::backend::VIEWS_MAX;
pub use foveate_engine::backend::choice::{Backends, StreamBackend};
pub use foveate_engine::backend::{BackendError, UpdateTimes};
use foveate_engine::{Engine, View, ViewSpec};
use foveate_ring::{RingError, State, check_memory};
use foveate_stats::durations::{FrameStage, StreamDurations};
use foveate_stats::{ChangeGauges, StreamCounters};

mod builder;
mod publisher;
mod recovery;

/// One view as the daemon serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedView {
    /// Name of the view.
    pub name: String,
    /// What it wants of the stream.
    pub spec: ViewSpec,
    /// Slots of its ring.
    pub slot_count: usize,
    /// Which frames it publishes.
    pub pace: ViewPace,
}

impl TryFrom<&ViewConfig> for ServedView {
    type Error = GazeLogError;

    /// Reads the gaze log, where there is one to replay.
    fn try_from(config: &ViewConfig) -> Result<Self, GazeLogError> {
        Ok(Self {
            name: config.name.clone(),
            spec: ViewSpec::try_from(config)?,
            slot_count: config.slots as usize,
            pace: ViewPace::from(config),
        })
    }
}

/// Which frames a view publishes. The first one of a segment it always does, so that whoever comes finds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewPace {
    /// How far apart they are, on average and in the time of the stream; all where it is not given.
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

/// Why a stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The backend refused.
    #[error("the backend failed")]
    Backend(#[from] BackendError),
    /// No shared memory for all the views together.
    #[error("the views have no rings")]
    Rings(#[source] RingError),
    /// No shared memory for a view.
    #[error("view {view:?} has no ring")]
    Ring {
        /// Name of the view.
        view: String,
        /// What the kernel refused.
        source: RingError,
    },
}

/// Why a stream did not take a view in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was built for other frames or another backend: the stream was rebuilt meanwhile.
    #[error("the view was built for what the stream was before: build it again")]
    Outdated,
    /// There are as many views as there may be.
    #[error("the stream has {VIEWS_MAX} views, and may have no more: close another first")]
    Full,
}

/// What a step did beside publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// No view wanted the frame: nobody read it, or it had enough. Nothing was computed.
    Rested,
    /// The frame went into the segments that readers have.
    Published,
    /// The same, and views that joined have their first segments, which readers must be given.
    PublishedNewViews,
    /// The frame is the first of its kind: every view has a new segment, which readers must be given.
    PublishedInNewSegments,
}

/// A view that has left its stream, or what it was before it was replaced, to be dropped where nobody waits for it.
pub struct OldView(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Send>);

impl fmt::Debug for OldView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OldView")
    }
}

/// One stream: its engine and the views of it.
#[derive(Debug)]
pub struct Stream {
    name: String,
    chosen: StreamBackend,
    change: ChangeConfig,
    counters: Arc<StreamCounters>,
    /// Views before the first frame.
    waiting: Vec<(ServedView, Seat)>,
    /// Views from the first frame on.
    views: Vec<View<Publisher>>,
    /// `None` until the first frame.
    engine: Option<Engine>,
    /// Engines so far, and changes of their backends.
    generation: u64,
    builder: RingBuilder,
    recovery: Recovery,
    has_new_views: bool,
}

impl Stream {
    /// A stream that has seen no frame. `change` says which differences between frames count; each view comes with the
    /// channel to its clients.
    pub fn new(
        name: &str,
        chosen: StreamBackend,
        change: ChangeConfig,
        views: impl IntoIterator<Item = (ServedView, ViewChannel)>,
        counters: Arc<StreamCounters>,
    ) -> Self {
        let waiting = views.into_iter().map(|(view, channel)| {
            let seat = Seat::new(&view, channel, &counters);
            (view, seat)
        });
        let waiting = waiting.collect();
        let recovery = Recovery::new(name, &counters, monotonic_ns());
        Self {
            name: name.to_owned(),
            chosen,
            change,
            counters,
            waiting,
            views: Vec::new(),
            engine: None,
            generation: 0,
            builder: RingBuilder::new(name, None),
            recovery,
            has_new_views: false,
        }
    }

    /// Publishes what is known of the camera; before the first frame.
    #[must_use]
    pub fn with_camera(mut self, camera: Option<Camera>) -> Self {
        self.builder = RingBuilder::new(&self.name, camera);
        self
    }

    /// Takes one frame through the stages and publishes the tokens of every view.
    ///
    /// # Errors
    ///
    /// If the backend refuses frames of this kind, or there is no memory for a ring. A lost GPU is no error: the
    /// stream goes on on the CPU, and tries the GPU again.
    pub fn step(
        &mut self,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
    ) -> Result<Stepped, StreamError> {
        let start_ns = monotonic_ns();
        let is_rebuilt = self.engine.as_ref().is_none_or(|engine| engine.kind() != frame.kind());
        if is_rebuilt {
            self.rebuild(frame, stamp)?;
        }
        let at = FrameTime::of(stamp);
        let is_wanted = self.is_wanted(at);
        // A lost GPU is left also where no view wants the frame: new views could not be built.
        if !is_wanted && !self.chosen.is_lost() {
            self.counters.frames_rested.add(1);
            self.counters.newest_capture_ns.set(Some(stamp.capture_ns));
            return Ok(Stepped::Rested);
        }
        let Self { chosen, views, engine: Some(engine), counters, recovery, builder, .. } = self
        else {
            unreachable!("built for the first frame");
        };
        let extent = frame.extent();
        views.iter_mut().for_each(|view| publisher::take_feedback(view, extent, at));
        if recovery.turn(chosen, engine, views, stamp.arrival_ns) {
            builder.set(engine.view_builder(), chosen.info());
        }
        if let Err(error) = engine.step(frame, stamp, views) {
            chosen.fall_back(&error);
            let backend = chosen.build_on_cpu(frame.kind());
            let remains = engine.recover(backend, frame, stamp, views)?;
            recovery.begin(chosen, Some(remains), stamp.arrival_ns);
            builder.set(engine.view_builder(), chosen.info());
        }
        let mut times = engine.times();
        times.plan.start_ns = start_ns;
        count_frame(counters, engine, &times, stamp, is_wanted);
        let has_new_views = std::mem::take(&mut self.has_new_views);
        Ok(match (is_wanted, is_rebuilt, has_new_views) {
            (false, ..) => Stepped::Rested,
            (true, true, _) => Stepped::PublishedInNewSegments,
            (true, false, true) => Stepped::PublishedNewViews,
            (true, false, false) => Stepped::Published,
        })
    }

    /// Has every view decide whether it takes the frame of `at`; says whether one does.
    fn is_wanted(&mut self, at: FrameTime) -> bool {
        let mut is_wanted = false;
        for view in &mut self.views {
            let takes = view.sink.takes(at);
            view.set_resting(!takes);
            is_wanted |= takes;
        }
        is_wanted
    }

    /// Builds views for this stream, on any thread.
    pub fn view_builder(&self) -> &RingBuilder {
        &self.builder
    }

    /// Takes in a view, behind the others: it publishes with the next frame.
    ///
    /// # Errors
    ///
    /// If it was built for what the stream was before, or the stream has as many views as it may have. The view comes back
    /// with the reason.
    pub fn add_view(&mut self, view: NewView) -> Result<(), Box<(NewView, Refusal)>> {
        if VIEWS_MAX <= self.waiting.len() + self.views.len() {
            return Err(Box::new((view, Refusal::Full)));
        }
        match (&self.engine, view) {
            (None, NewView { view, channel, built: None }) => {
                let seat = Seat::new(&view, channel, &self.counters);
                self.waiting.push((view, seat));
            }
            (Some(engine), NewView { view, channel, built: Some((built, waker)) })
                if built.generation() == engine.generation() =>
            {
                let seat = Seat::new(&view, channel, &self.counters);
                self.views.push(built.with_sink(|writer| Publisher::new(seat, writer, waker)));
                self.has_new_views = true;
            }
            (_, view) => return Err(Box::new((view, Refusal::Outdated))),
        }
        Ok(())
    }

    /// Lets view `index` go, for another thread to drop; those behind it move up. Its readers are told why.
    pub fn remove_view(&mut self, index: usize, reason: &str) -> OldView {
        if self.engine.is_none() {
            return OldView(Box::new(self.waiting.remove(index)));
        }
        let mut view = self.views.remove(index);
        view.sink.hold_up(State::Ended, reason);
        OldView(Box::new(view))
    }

    /// Makes view `index` another one from the next frame on, in a new segment under the same name. What it was comes back, for
    /// another thread to drop.
    ///
    /// # Errors
    ///
    /// If the replacement was built for what the stream was before. What it was to be comes back, to be built again, and the
    /// view stays what it was.
    pub fn replace_view(
        &mut self,
        index: usize,
        replacement: Replacement,
    ) -> Result<OldView, Box<ServedView>> {
        match (&self.engine, replacement) {
            (None, Replacement { view, built: None }) => {
                let (present, seat) = &mut self.waiting[index];
                seat.change(&view);
                Ok(OldView(Box::new(std::mem::replace(present, view))))
            }
            (Some(engine), Replacement { view, built: Some(built) })
                if built.generation() == engine.generation() =>
            {
                let (old, mut publisher) = self.views.remove(index).split();
                let (built, writer) = built.split();
                let old_writer = publisher.start_anew(&view, writer);
                self.views.insert(index, built.with_sink(|()| publisher));
                self.has_new_views = true;
                Ok(OldView(Box::new((old, old_writer))))
            }
            (_, Replacement { view, .. }) => Err(Box::new(view)),
        }
    }

    /// Has view `index` publish other frames from the next one on.
    pub fn set_pace(&mut self, index: usize, pace: ViewPace) {
        match self.views.get_mut(index) {
            Some(view) => view.sink.seat.set_pace(pace),
            None => {
                let (view, seat) = &mut self.waiting[index];
                view.pace = pace;
                seat.set_pace(pace);
            }
        }
    }

    /// Where view `index` looks; `None` before the first frame.
    pub fn gaze(&self, index: usize) -> Option<&Gaze> {
        self.views.get(index)?.gaze()
    }

    /// Identity of the segment that view `index` publishes in; `None` before the first frame.
    pub fn epoch(&self, index: usize) -> Option<u64> {
        Some(self.views.get(index)?.sink.epoch())
    }

    /// The segment that view `index` publishes in, and its epoch; `None` before the first frame.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn segment(&self, index: usize) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        self.views.get(index).map(|view| view.sink.segment()).transpose()
    }

    /// When the stages of the newest frame ran.
    pub fn times(&self) -> StageTimes {
        self.engine.as_ref().map(Engine::times).unwrap_or_default()
    }

    /// What the newest frame changed or refreshed; `None` before the first frame.
    pub fn ingested(&self) -> Option<&TileSet> {
        self.engine.as_ref().map(|engine| engine.tracker().ingested())
    }

    /// Tokens of the newest frame, of all views.
    pub fn token_count(&self) -> usize {
        self.views.iter().map(|view| view.planes().plan().tokens.len()).sum()
    }

    /// Tokens that were sampled for the newest frame; the others were as they had been.
    pub fn sampled_count(&self) -> usize {
        self.views.iter().map(|view| view.planes().stale().len()).sum()
    }

    /// What the stream runs on, and why.
    pub fn backend(&self) -> &BackendInfo {
        self.chosen.info()
    }

    /// A number that grows whenever [`backend`](Self::backend) says something else.
    pub fn backend_changes(&self) -> u64 {
        self.recovery.changes()
    }

    /// Tells the readers of every view that no frame will come any more, and why.
    pub fn end(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.sink.hold_up(State::Ended, reason));
    }

    /// Tells the readers of every view that no frame has come for a while.
    pub fn stall(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.sink.hold_up(State::Stalled, reason));
    }

    /// Tells the readers of every view that frames come again.
    pub fn resume(&mut self) {
        self.views.iter_mut().for_each(|view| view.sink.resume());
    }

    /// Builds what one kind of frame needs, and a new segment for every view.
    fn rebuild(&mut self, frame: &FrameView<'_>, stamp: &FrameStamp) -> Result<(), StreamError> {
        // The old pyramid goes first: both at once might not fit.
        if let Some(engine) = self.engine.take() {
            self.generation = engine.generation();
        }
        self.generation += 1;
        let before = self.chosen.info().kind;
        let backend = self.chosen.build(frame.kind())?;
        if self.chosen.info().kind != before {
            self.recovery.begin(&mut self.chosen, None, stamp.arrival_ns);
        }
        let engine = Engine::new(backend, self.change, self.generation);
        self.builder.set(engine.view_builder(), self.chosen.info());
        // A ring takes the place of one as large, so only first ones are more than there is already.
        let specs = self.waiting.iter().map(|(view, _)| self.builder.segment_spec(view));
        check_memory(&specs.flatten().collect::<Vec<_>>()).map_err(StreamError::Rings)?;
        for view in &mut self.views {
            let writer = self.builder.create_ring(&view.sink.seat.served(view.spec()))?;
            engine.view_builder().rebuild(view, FrameTime::of(stamp))?;
            view.sink.move_to(writer);
        }
        for (view, seat) in self.waiting.drain(..) {
            let built = self.builder.build(&view)?.expect("the stream has frames");
            let waker = seat.waker(&built.sink)?;
            self.views.push(built.with_sink(|writer| Publisher::new(seat, writer, waker)));
        }
        self.engine = Some(engine);
        Ok(())
    }
}

/// Counts a frame that went through the stages, also one that no view took.
fn count_frame(
    counters: &StreamCounters,
    engine: &Engine,
    times: &StageTimes,
    stamp: &FrameStamp,
    is_wanted: bool,
) {
    counters.tiles_dirty.add(engine.tracker().ingested().count() as u64);
    counters.bytes_uploaded.add(times.update.uploaded_bytes);
    gauge_change(engine, &counters.change);
    count_times(times, &counters.durations, stamp.capture_ns);
    counters.newest_capture_ns.set(Some(stamp.capture_ns));
    let taken = if is_wanted { &counters.frames_published } else { &counters.frames_rested };
    taken.add(1);
}

/// Counts how long each part of a frame took that was taken at `capture_ns`. What did not run is not counted.
fn count_times(times: &StageTimes, durations: &StreamDurations, capture_ns: u64) {
    for (stage, histogram) in FrameStage::ALL.into_iter().zip(&durations.stages) {
        let span = match stage {
            FrameStage::Plan => times.plan,
            FrameStage::Change => times.update.change,
            FrameStage::Upload => times.update.upload,
            FrameStage::Ingest => times.update.ingest,
            FrameStage::Reduce => times.update.reduce,
            FrameStage::Sample => times.update.sample,
            FrameStage::Collect => times.update.collect,
            FrameStage::Publish => times.publish,
        };
        if span != Span::NONE {
            histogram.observe(span.ns());
        }
    }
    durations.step.observe(times.total().ns());
    durations.age.observe(times.publish.end_ns.saturating_sub(capture_ns));
}

/// Tells what counts as a change now.
fn gauge_change(engine: &Engine, gauges: &ChangeGauges) {
    let tracker = engine.tracker();
    let (threshold, ingested) = (tracker.threshold(), tracker.ingested());
    let rgb_bound = engine.kind().color.rgb_bound(tracker.sample_bound());
    gauges.rgb_bound.set(Some(rgb_bound.into()));
    gauges.threshold.set(Some(threshold.current().into()));
    gauges.threshold_limit.set(threshold.limit().map(u64::from));
    gauges.noise_thousandths.set(threshold.sigma().map(thousandths));
    gauges.tiles_dirty.set(Some(ingested.count() as u64));
    gauges.tile_count.set(Some(ingested.grid().area() as u64));
}

/// A noise, at most 255, in thousandths.
#[expect(clippy::cast_possible_truncation, reason = "at most 255000")]
fn thousandths(sigma: f64) -> u64 {
    (1000.0 * sigma).round() as u64
}

/// Whether clients may score the tokens of a view.
fn keeps_plans(spec: &ViewSpec) -> bool {
    spec.policy == Policy::Feedback
}
