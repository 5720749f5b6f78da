//! One frame through the stages: this file and `source`, which finds what changed and updates the pyramid, alone know
//! their order.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use self::recovery::Recovery;
use self::source::Source;
pub use self::view::REPLACED;
use self::view::View;
use self::workshop::RefitRing;
pub use self::workshop::{NewView, OldView, Refit, Workshop};
use crate::link::ViewLink;
pub use crate::retina::backend::{Backends, StreamBackend};
pub use crate::retina::{Refusal, RetinaError, UpdateTimes};
use crate::retina::{ViewSample, ViewSpec};
use foveate_config::{
    ChangeConfig, GazeChoice, GazeParameters, LayoutChoice, PublishChoice, ViewConfig,
};
use foveate_core::backend::Backend;
use foveate_core::camera::Camera;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameStamp, FrameView};
use foveate_core::gaze::controller::Policy;
use foveate_core::gaze::log::GazeLog;
pub use foveate_core::gaze::log::GazeLogError;
use foveate_core::gaze::moment::Moment;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::tile::TileSet;
use foveate_core::layout::Layout;
use foveate_core::token::TokenFormat;
use foveate_ring::{RingError, State, Writer, check_memory};
use foveate_stats::durations::{FrameStage, StreamDurations};
use foveate_stats::{ChangeGauges, StreamCounters};

mod recovery;
mod source;
mod view;
mod workshop;

/// What one view wants from the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewPlan {
    /// Name of the view.
    pub name: String,
    /// How the budget is spent.
    pub layout: Layout,
    /// Most tokens of a frame, at least 1.
    pub budget: usize,
    /// What a token looks like in memory.
    pub format: TokenFormat,
    /// Who chooses where the view looks.
    pub policy: Policy,
    /// How its eye moves.
    pub parameters: GazeParameters,
    /// Slots of its ring.
    pub slot_count: usize,
    /// Which frames it publishes.
    pub pace: ViewPace,
}

impl TryFrom<&ViewConfig> for ViewPlan {
    type Error = GazeLogError;

    /// Reads the gaze log, where there is one to replay.
    fn try_from(config: &ViewConfig) -> Result<Self, GazeLogError> {
        let policy = match &config.gaze.choice {
            GazeChoice::Fixed { x, y } => Policy::Fixed { x: *x, y: *y },
            GazeChoice::Feedback => Policy::Feedback,
            GazeChoice::Saliency => Policy::Saliency,
            GazeChoice::Replay { log } => Policy::Replay(Arc::new(GazeLog::load(log)?)),
        };
        Ok(Self {
            name: config.name.clone(),
            layout: layout_of(config),
            budget: config.budget as usize,
            format: config.format,
            policy,
            parameters: config.gaze.parameters,
            slot_count: config.slots as usize,
            pace: ViewPace::from(config),
        })
    }
}

/// The layout that a view is configured to have.
fn layout_of(config: &ViewConfig) -> Layout {
    match config.layout {
        LayoutChoice::Foveal => Layout::Foveal { e0_px: config.e0 },
        LayoutChoice::Uniform => Layout::Uniform,
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
    #[error("the retina failed")]
    Retina(#[from] RetinaError),
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

/// When the stages of one frame ran, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Where the views look, and what they therefore sample; for the first frame of a kind, also building everything.
    pub plan: Span,
    /// Finding the dirty tiles and taking them over into the resident copy; where the GPU does, while it does.
    pub change: Span,
    /// The parts of the retina's update.
    pub update: UpdateTimes,
    /// Token records, and storing them and the tokens in the rings of all views.
    pub publish: Span,
}

impl StageTimes {
    /// From the frame in memory to the token frames published.
    pub fn total(&self) -> Span {
        Span { start_ns: self.plan.start_ns, end_ns: self.publish.end_ns }
    }

    /// Counts how long each part of a frame took that was taken at `capture_ns`. What did not run is not counted.
    fn count_in(&self, durations: &StreamDurations, capture_ns: u64) {
        for (stage, histogram) in FrameStage::ALL.into_iter().zip(&durations.stages) {
            let span = self.of(stage);
            if span != Span::NONE {
                histogram.observe(span.ns());
            }
        }
        durations.step.observe(self.total().ns());
        durations.age.observe(self.publish.end_ns.saturating_sub(capture_ns));
    }

    /// When a stage ran.
    fn of(&self, stage: FrameStage) -> Span {
        match stage {
            FrameStage::Plan => self.plan,
            FrameStage::Change => self.change,
            FrameStage::Upload => self.update.upload,
            FrameStage::Ingest => self.update.ingest,
            FrameStage::Reduce => self.update.reduce,
            FrameStage::Sample => self.update.sample,
            FrameStage::Collect => self.update.collect,
            FrameStage::Publish => self.publish,
        }
    }
}

/// One stream: its resident pyramid and the views of it.
#[derive(Debug)]
pub struct Stream {
    name: String,
    backend: StreamBackend,
    change: ChangeConfig,
    counters: Arc<StreamCounters>,
    views: Vec<View>,
    /// What each view samples, in the order of `views`; beside them because the retina takes them as one slice.
    samples: Vec<ViewSample>,
    /// What was built for one kind of frame; `None` until the first.
    source: Option<Source>,
    /// What is known of the camera, to be published.
    camera: Option<Arc<Camera>>,
    workshop: Workshop,
    recovery: Recovery,
    times: StageTimes,
}

impl Stream {
    /// A stream that has seen no frame. `change` says which differences between frames count; each view comes with the
    /// link to its clients.
    pub fn new(
        name: &str,
        backend: StreamBackend,
        change: ChangeConfig,
        views: impl IntoIterator<Item = (ViewPlan, ViewLink)>,
        counters: Arc<StreamCounters>,
    ) -> Self {
        let view = |(plan, link)| View::new(plan, link);
        let views: Vec<View> = views.into_iter().map(view).collect();
        let samples =
            views.iter().map(|view| ViewSample::new(view.plan.format, view.plan.budget)).collect();
        let recovery = Recovery::new(name, &counters, monotonic_ns());
        Self {
            name: name.to_owned(),
            backend,
            change,
            counters,
            views,
            samples,
            source: None,
            camera: None,
            workshop: Workshop::new(name, None),
            recovery,
            times: StageTimes::default(),
        }
    }

    /// Publishes what is known of the camera; before the first frame.
    #[must_use]
    pub fn with_camera(mut self, camera: Option<Camera>) -> Self {
        self.camera = camera.map(Arc::new);
        self.workshop = Workshop::new(&self.name, self.camera.clone());
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
        let rebuilt = self.source.as_ref().is_none_or(|source| source.kind() != frame.kind());
        if rebuilt {
            self.rebuild(frame, stamp)?;
        }
        let is_wanted = self.is_wanted(Moment::of(stamp));
        // A lost GPU is left also where no view wants the frame: new views could not be made.
        if !is_wanted && !self.backend.is_lost() {
            self.counters.frames_rested.add(1);
            self.counters.newest_capture_ns.set(Some(stamp.capture_ns));
            return Ok(Stepped::Rested);
        }
        let Self {
            backend, views, samples, source: Some(source), counters, recovery, times, ..
        } = self
        else {
            unreachable!("built for the first frame");
        };

        let mut has_arrived = false;
        for view in views.iter_mut() {
            has_arrived |= view.arrive(Moment::of(stamp));
        }
        let shape = source.shape();
        for (view, sample) in awake(views, samples) {
            view.look(Moment::of(stamp), source.seen(), shape, sample);
        }
        let specs = || view_specs(views);
        if recovery.turn(backend, source, samples, &specs, stamp.arrival_ns) {
            self.workshop.set(source.blueprint(backend.describe()));
        }
        let plan = Span::since(start_ns);
        let (change, updated) = source.update(frame, stamp.frame_seq, samples);
        let update = match updated {
            Ok(times) => times,
            Err(error) => {
                backend.fall_back(&error);
                let (rebuilt, remains) =
                    source.rebuild_on_cpu(frame, stamp.frame_seq, &view_specs(views), samples);
                recovery.begin(backend, Some(remains), stamp.arrival_ns);
                self.workshop.set(source.blueprint(backend.describe()));
                rebuilt?
            }
        };
        let updated_ns = monotonic_ns();
        let dirty_count = source.books().ingested().count();
        counters.stages.publish.during(|| {
            for (view, sample) in awake(views, samples) {
                view.publish(source, count_u32(dirty_count), stamp, sample);
            }
        });
        let publish = Span::since(updated_ns);
        // For the next frame, so only now.
        source.look(stamp.frame_seq, views.iter().any(View::wants_coarse));
        *times = StageTimes { plan, change, update, publish };
        count_frame(counters, source, times, stamp, is_wanted);
        if !is_wanted {
            return Ok(Stepped::Rested);
        }
        Ok(match (rebuilt, has_arrived) {
            (true, _) => Stepped::PublishedInNewSegments,
            (false, true) => Stepped::PublishedNewViews,
            (false, false) => Stepped::Published,
        })
    }

    /// Has every view decide whether it takes the frame of `at`; says whether one does.
    fn is_wanted(&mut self, at: Moment) -> bool {
        let mut is_wanted = false;
        for (view, sample) in self.views.iter_mut().zip(&mut self.samples) {
            let takes = view.takes(at);
            sample.set_resting(!takes);
            is_wanted |= takes;
        }
        is_wanted
    }

    /// What makes views for this stream, on any thread.
    pub fn workshop(&self) -> &Workshop {
        &self.workshop
    }

    /// Takes in a view, behind the others: it publishes with the next frame.
    ///
    /// # Errors
    ///
    /// If it was made for frames of another kind or for another backend than the stream has by now, or the stream has as many
    /// views as it may have. The view comes back with the reason.
    pub fn add_view(&mut self, view: NewView) -> Result<(), Box<(NewView, Refusal)>> {
        let NewView { view, sample, pass } = view;
        match (&mut self.source, pass) {
            (None, None) => {}
            (Some(source), Some((kind, pass))) if kind == source.kind() => {
                if let Err(refused) = source.add_view(pass) {
                    let refusal = refused.refusal();
                    let pass = Some((kind, refused.into_pass()));
                    return Err(Box::new((NewView { view, sample, pass }, refusal)));
                }
            }
            (_, pass) => {
                return Err(Box::new((NewView { view, sample, pass }, Refusal::OtherRetina)));
            }
        }
        self.views.push(view);
        self.samples.push(sample);
        Ok(())
    }

    /// Lets view `index` go, for another thread to drop; those behind it move up. Its readers are told why.
    pub fn remove_view(&mut self, index: usize, reason: &str) -> OldView {
        let mut view = self.views.remove(index);
        view.hold_up(State::Ended, reason);
        let sample = self.samples.remove(index);
        let pass = self.source.as_mut().map(|source| source.remove_view(index));
        OldView::new(Some(view), sample, pass)
    }

    /// Makes view `index` another one from the next frame on, in a new segment under the same name. It moves behind the others;
    /// what it was comes back, for another thread to drop.
    ///
    /// # Errors
    ///
    /// If `refit` was made for frames of another kind or for another backend than the stream has by now. Its plan comes back,
    /// to be made again, and the view, which moved behind the others too, is what it was.
    pub fn refit_view(&mut self, index: usize, refit: Refit) -> Result<OldView, Box<ViewPlan>> {
        self.views[index..].rotate_left(1);
        self.samples[index..].rotate_left(1);
        let (Some(view), Some(sample)) = (self.views.last_mut(), self.samples.last_mut()) else {
            unreachable!("there is view {index}");
        };
        let Refit { plan, sample: new_sample, made } = refit;
        let (ring, old_pass) = match (&mut self.source, made) {
            (None, None) => (None, None),
            (None, Some(_)) => return Err(Box::new(plan)),
            (Some(source), made) => {
                let old_pass = source.remove_view(index);
                let Some(writer) = fit(source, made) else {
                    let kept = source.add_view(old_pass);
                    kept.unwrap_or_else(|refused| unreachable!("it was there: {refused}"));
                    return Err(Box::new(plan));
                };
                (Some((source.kind().extent, writer)), Some(old_pass))
            }
        };
        view.refit(plan, ring);
        Ok(OldView::new(None, std::mem::replace(sample, new_sample), old_pass))
    }

    /// Has view `index` publish other frames from the next one on.
    pub fn set_pace(&mut self, index: usize, pace: ViewPace) {
        self.views[index].set_pace(pace);
    }

    /// Where view `index` looks; `None` before the first frame.
    pub fn gaze(&self, index: usize) -> Option<&Gaze> {
        self.views[index].gaze()
    }

    /// Identity of the segment that view `index` publishes in; `None` before the first frame.
    pub fn epoch(&self, index: usize) -> Option<u64> {
        self.views[index].epoch()
    }

    /// The segment that view `index` publishes in, and its epoch; `None` before the first frame.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn segment(&self, index: usize) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        self.views[index].segment()
    }

    /// When the stages of the newest frame ran.
    pub fn times(&self) -> StageTimes {
        self.times
    }

    /// What the newest frame changed or refreshed; `None` before the first frame.
    pub fn ingested(&self) -> Option<&TileSet> {
        self.source.as_ref().map(|source| source.books().ingested())
    }

    /// Tokens of the newest frame, of all views.
    pub fn token_count(&self) -> usize {
        self.samples.iter().map(|sample| sample.plan().tokens.len()).sum()
    }

    /// Tokens that were sampled for the newest frame; the others were as they had been.
    pub fn sampled_count(&self) -> usize {
        self.samples.iter().map(|sample| sample.stale().len()).sum()
    }

    /// What the stream runs on, and why.
    pub fn backend(&self) -> &Backend {
        self.backend.describe()
    }

    /// A number that grows whenever [`backend`](Self::backend) says something else.
    pub fn backend_changes(&self) -> u64 {
        self.recovery.changes()
    }

    /// Tells the readers of every view that no frame will come any more, and why.
    pub fn end(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.hold_up(State::Ended, reason));
    }

    /// Tells the readers of every view that no frame has come for a while.
    pub fn stall(&mut self, reason: &str) {
        self.views.iter_mut().for_each(|view| view.hold_up(State::Stalled, reason));
    }

    /// Tells the readers of every view that frames come again.
    pub fn resume(&mut self) {
        self.views.iter_mut().for_each(View::resume);
    }

    /// Builds what one kind of frame needs, and a new segment for every view.
    fn rebuild(&mut self, frame: &FrameView<'_>, stamp: &FrameStamp) -> Result<(), StreamError> {
        // The old pyramid goes first: both at once might not fit.
        self.source = None;
        // A ring takes the place of one as large, so only first ones are more than there is already.
        let first = self.views.iter().filter(|view| !view.is_live());
        let first = first.map(|view| {
            view.segment_spec(
                &self.name,
                frame.kind(),
                self.backend.describe(),
                self.camera.as_deref(),
            )
        });
        check_memory(&first.collect::<Vec<_>>()).map_err(StreamError::Rings)?;
        let specs = view_specs(&self.views);
        let before = self.backend.describe().kind;
        let source = Source::build(&mut self.backend, frame, self.change, &specs)?;
        if self.backend.describe().kind != before {
            self.recovery.begin(&mut self.backend, None, stamp.arrival_ns);
        }
        for view in &mut self.views {
            let spec = view.segment_spec(
                &self.name,
                frame.kind(),
                self.backend.describe(),
                self.camera.as_deref(),
            );
            view.open_segment(&spec, Moment::of(stamp))?;
        }
        self.workshop.set(source.blueprint(self.backend.describe()));
        self.source = Some(source);
        Ok(())
    }
}

/// Has `source` sample what was `made` for a view, and returns its ring; `None` if it was made for another source.
fn fit(source: &mut Source, made: Option<RefitRing>) -> Option<Writer> {
    let RefitRing { pass, writer, .. } = made.filter(|made| made.kind == source.kind())?;
    source.add_view(pass).is_ok().then_some(writer)
}

/// The views that take the frame, each with what it samples.
fn awake<'a>(
    views: &'a mut [View],
    samples: &'a mut [ViewSample],
) -> impl Iterator<Item = (&'a mut View, &'a mut ViewSample)> {
    views.iter_mut().zip(samples).filter(|(_, sample)| !sample.is_resting())
}

/// What the retina must know of all views.
fn view_specs(views: &[View]) -> Vec<ViewSpec> {
    views.iter().map(View::spec).collect()
}

/// Counts a frame that went through the stages, also one that no view took.
fn count_frame(
    counters: &StreamCounters,
    source: &Source,
    times: &StageTimes,
    stamp: &FrameStamp,
    is_wanted: bool,
) {
    counters.tiles_dirty.add(source.books().ingested().count() as u64);
    counters.bytes_uploaded.add(times.update.uploaded_bytes);
    gauge_change(source, &counters.change);
    times.count_in(&counters.durations, stamp.capture_ns);
    counters.newest_capture_ns.set(Some(stamp.capture_ns));
    let taken = if is_wanted { &counters.frames_published } else { &counters.frames_rested };
    taken.add(1);
}

/// Tells what counts as a change now.
fn gauge_change(source: &Source, gauges: &ChangeGauges) {
    let books = source.books();
    let (threshold, ingested) = (books.threshold(), books.ingested());
    let rgb_bound = source.kind().color.rgb_bound(books.sample_bound());
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

/// A number of tiles.
#[expect(clippy::cast_possible_truncation, reason = "a source has at most 512 x 512 tiles")]
fn count_u32(count: usize) -> u32 {
    count as u32
}
