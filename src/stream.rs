//! One frame through the stages: this file and `source`, which finds what changed and updates the pyramid, alone know
//! their order.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytemuck::Zeroable;
use crossbeam_channel::Receiver;

use self::source::Source;
use crate::backend::Backend;
use crate::change::books::ChangeBooks;
use crate::clock::{Span, monotonic_ns};
use crate::config::{ChangeConfig, GazeChoice, GazeParameters, LayoutChoice, ViewConfig};
use crate::frame::{FrameStamp, FrameView};
use crate::gaze::controller::{Controller, Moment, Policy};
use crate::gaze::log::GazeLog;
pub use crate::gaze::log::GazeLogError;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;
use crate::geometry::plan::TokenPlan;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::{TILE_SIDE, TileSet};
use crate::layout::Layout;
pub use crate::retina::backend::{Backends, StreamBackend};
pub use crate::retina::{RetinaError, UpdateTimes};
use crate::retina::{ViewSample, ViewSpec};
use crate::ring::{
    RingError, SegmentSpec, State, TokenFrame, TokenRecord, Waker, Writer, check_memory,
};
use crate::stats::{ChangeGauges, StreamCounters};
use crate::token::TokenFormat;

mod source;

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
        })
    }
}

/// The layout that a view is configured to have.
pub fn layout_of(config: &ViewConfig) -> Layout {
    match config.layout {
        LayoutChoice::Foveal => Layout::Foveal { e0_px: config.e0 },
        LayoutChoice::Uniform => Layout::Uniform,
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
    /// The frame went into the segments that readers have.
    Published,
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
    times: StageTimes,
}

/// One view and the ring that it is published in.
#[derive(Debug)]
struct View {
    plan: ViewPlan,
    subscribers: Receiver<OwnedFd>,
    /// What its clients want of the next frame.
    feedback: Option<Feedback>,
    /// `None` until the first frame.
    live: Option<LiveView>,
}

#[derive(Debug)]
struct LiveView {
    gaze: Controller,
    /// The gaze that the token plan was made for; `None` before the first plan.
    planned_for: Option<Gaze>,
    writer: Writer,
    waker: Waker,
    records: Vec<TokenRecord>,
}

impl Stream {
    /// A stream that has seen no frame. `change` says which differences between frames count; each view comes with the
    /// subscribers that want a notice of every frame.
    pub fn new(
        name: &str,
        backend: StreamBackend,
        change: ChangeConfig,
        views: impl IntoIterator<Item = (ViewPlan, Receiver<OwnedFd>)>,
        counters: Arc<StreamCounters>,
    ) -> Self {
        let view = |(plan, subscribers)| View { plan, subscribers, feedback: None, live: None };
        let views: Vec<View> = views.into_iter().map(view).collect();
        let samples =
            views.iter().map(|view| ViewSample::new(view.plan.format, view.plan.budget)).collect();
        Self {
            name: name.to_owned(),
            backend,
            change,
            counters,
            views,
            samples,
            source: None,
            times: StageTimes::default(),
        }
    }

    /// Takes one frame through the stages and publishes the tokens of every view.
    ///
    /// # Errors
    ///
    /// If the backend refuses frames of this kind, or there is no memory for a ring. A lost GPU is no error: the
    /// stream goes on on the CPU.
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
        let Self { backend, views, samples, source: Some(source), counters, times, .. } = self
        else {
            unreachable!("built for the first frame");
        };

        let shape = source.shape();
        for (view, sample) in views.iter_mut().zip(&mut *samples) {
            view.look_around(Moment::of(stamp), source.seen());
            view.replan(shape, sample);
        }
        let plan = Span::since(start_ns);
        let (change, updated) = source.update(frame, stamp.frame_seq, samples);
        let update = match updated {
            Ok(times) => times,
            Err(error) => {
                counters.backend_fallbacks.add(1);
                backend.fall_back(&error);
                let specs: Vec<ViewSpec> = views.iter().map(View::spec).collect();
                source.rebuild_on_cpu(frame, stamp.frame_seq, &specs, samples)?
            }
        };
        if views.iter().any(View::wants_coarse) {
            source.look(stamp.frame_seq)?;
        }
        let updated_ns = monotonic_ns();
        let dirty_count = source.books().ingested().count();
        for (view, sample) in views.iter_mut().zip(&*samples) {
            view.publish(source, dirty_count, stamp, sample);
        }
        let publish = Span::since(updated_ns);
        *times = StageTimes { plan, change, update, publish };
        counters.tiles_dirty.add(dirty_count as u64);
        gauge_change(source.books(), &counters.change);
        counters.frames_published.add(1);
        Ok(if rebuilt { Stepped::PublishedInNewSegments } else { Stepped::Published })
    }

    /// Tells view `index` what its clients want of the next frame; what they wanted before is forgotten.
    pub fn take_feedback(&mut self, index: usize, feedback: Feedback) {
        self.views[index].feedback = Some(feedback);
    }

    /// Where view `index` looks; `None` before the first frame.
    pub fn gaze(&self, index: usize) -> Option<&Gaze> {
        self.views[index].live.as_ref().map(|live| live.gaze.gaze())
    }

    /// The segment that view `index` publishes in, and its epoch; `None` before the first frame.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn segment(&self, index: usize) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        let View { plan, live, .. } = &self.views[index];
        let Some(live) = live else { return Ok(None) };
        let refused = |source| StreamError::Ring { view: plan.name.clone(), source };
        Ok(Some((live.writer.reader_fd().map_err(refused)?, live.writer.epoch())))
    }

    /// When the stages of the newest frame ran.
    pub fn times(&self) -> StageTimes {
        self.times
    }

    /// What the newest frame changed or refreshed; `None` before the first frame.
    pub fn ingested(&self) -> Option<&TileSet> {
        self.source.as_ref().map(|source| source.books().ingested())
    }

    /// What the stream runs on, and why.
    pub fn backend(&self) -> &Backend {
        self.backend.describe()
    }

    /// Tells the readers of every view that no frame will come any more, and why.
    pub fn end(&mut self, reason: &str) {
        self.set_state(State::Ended, reason);
    }

    /// Tells the readers of every view that no frame has come for a while.
    pub fn stall(&mut self, reason: &str) {
        self.set_state(State::Stalled, reason);
    }

    /// Tells the readers of every view that frames come again.
    pub fn resume(&mut self) {
        self.set_state(State::Live, "");
    }

    fn set_state(&mut self, state: State, reason: &str) {
        for live in self.views.iter_mut().filter_map(|view| view.live.as_mut()) {
            live.writer.set_state(state, reason);
            live.waker.wake();
        }
    }

    /// Builds what one kind of frame needs, and a new segment for every view.
    fn rebuild(&mut self, frame: &FrameView<'_>, stamp: &FrameStamp) -> Result<(), StreamError> {
        // The old pyramid goes first: both at once might not fit.
        self.source = None;
        // A ring takes the place of one as large, so only first ones are more than there is already.
        let first = self.views.iter().filter(|view| view.live.is_none());
        let first = first.map(|view| view.segment_spec(&self.name, frame, self.backend.describe()));
        check_memory(&first.collect::<Vec<_>>()).map_err(StreamError::Rings)?;
        let specs: Vec<ViewSpec> = self.views.iter().map(View::spec).collect();
        let before = self.backend.describe().kind;
        let source = Source::build(&mut self.backend, frame, self.change, &specs)?;
        if self.backend.describe().kind != before {
            self.counters.backend_fallbacks.add(1);
        }
        for view in &mut self.views {
            let spec = view.segment_spec(&self.name, frame, self.backend.describe());
            view.open_segment(&spec, Moment::of(stamp))?;
        }
        self.source = Some(source);
        Ok(())
    }
}

impl View {
    /// What the retina must know of it.
    fn spec(&self) -> ViewSpec {
        ViewSpec { format: self.plan.format, capacity: self.plan.budget }
    }

    fn segment_spec(&self, stream: &str, frame: &FrameView<'_>, backend: &Backend) -> SegmentSpec {
        SegmentSpec {
            stream: stream.to_owned(),
            view: self.plan.name.clone(),
            layout: self.plan.layout.name().to_owned(),
            format: self.plan.format,
            capacity: self.plan.budget,
            extent: frame.extent(),
            pixel_format: frame.format().name().to_owned(),
            backend: backend.kind,
            device: backend.device.clone(),
            slot_count: self.plan.slot_count,
        }
    }

    /// Publishes in a new segment from now on; readers of the old one are told.
    fn open_segment(&mut self, spec: &SegmentSpec, at: Moment) -> Result<(), StreamError> {
        let extent = spec.extent;
        let refused = |source| StreamError::Ring { view: spec.view.clone(), source };
        let writer = Writer::create(spec).map_err(refused)?;
        if let Some(live) = &mut self.live {
            live.writer.set_state(State::Ended, REPLACED);
            live.waker.wake();
            live.waker.replace_segment(&writer);
            live.writer = writer;
            live.gaze.resize(extent, at);
            live.planned_for = None;
        } else {
            let waker = Waker::new(&writer, self.subscribers.clone()).map_err(refused)?;
            let ViewPlan { policy, parameters, .. } = &self.plan;
            let gaze = Controller::new(policy.clone(), *parameters, extent, at);
            let records = Vec::with_capacity(self.plan.budget);
            self.live = Some(LiveView { gaze, planned_for: None, writer, waker, records });
        }
        Ok(())
    }

    /// Whether it looks at the coarse level.
    fn wants_coarse(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.gaze.wants_coarse())
    }

    /// Decides where the frame of `at` is looked at, from what was `seen` of the frame before.
    fn look_around(&mut self, at: Moment, seen: Option<(&CoarseLevel, u64)>) {
        let Some(live) = &mut self.live else { return };
        if let Some(feedback) = self.feedback.take() {
            live.gaze.take(&feedback, at);
        }
        live.gaze.step(at, seen);
    }

    /// Makes a new plan where the gaze has moved.
    fn replan(&mut self, shape: PyramidShape, sample: &mut ViewSample) {
        let Some(live) = &mut self.live else { return };
        let gaze = live.gaze.gaze();
        if live.planned_for.as_ref() == Some(gaze) {
            return;
        }
        let ViewPlan { layout, budget, format, .. } = self.plan;
        let fixation = (gaze.fixation.x, gaze.fixation.y);
        let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
        sample.set_plan(layout.plan(shape, format.patch_side, budget, fixation, relevance));
        live.planned_for = Some(gaze.clone());
    }

    fn publish(
        &mut self,
        source: &Source,
        dirty_count: usize,
        stamp: &FrameStamp,
        sample: &ViewSample,
    ) {
        let Some(live) = &mut self.live else { return };
        let (shape, books) = (source.shape(), source.books());
        let sample_bound = books.sample_bound();
        let Gaze { fixation, relevance } = live.gaze.gaze();
        let map = relevance.as_ref().map(|relevance| &relevance.map);
        let TokenPlan { patch_side, tokens } = sample.plan();
        // What is not stale is as it was, and so is its record.
        live.records.resize(tokens.len(), TokenRecord::zeroed());
        for index in sample.stale().iter().map(|&index| index as usize) {
            let region = tokens[index].pixel_box(shape, *patch_side);
            let changed_frame = books.changed_frame(region);
            let weight =
                map.map_or(EVEN_RELEVANCE, |map| map.greatest(shape.extent(), region) as f32);
            live.records[index] =
                TokenRecord::new(tokens[index], shape, *patch_side, changed_frame, weight);
        }
        live.writer.publish(&TokenFrame {
            stamp: *stamp,
            fixation: *fixation,
            relevance_frame: relevance.as_ref().map_or(0, |relevance| relevance.frame_seq),
            sample_bound: u32::from(sample_bound),
            rgb_bound: source.kind().color.rgb_bound(sample_bound),
            dirty_tiles: count_u32(dirty_count),
            tile_count: count_u32(shape.extent().in_cells(TILE_SIDE).area()),
            records: &live.records,
            pixels: sample.pixels(),
            versions: sample.versions(),
        });
        live.waker.wake();
    }
}

/// Tells what counts as a change now.
fn gauge_change(books: &ChangeBooks, gauges: &ChangeGauges) {
    let (threshold, ingested) = (books.threshold(), books.ingested());
    gauges.threshold.set(Some(threshold.current().into()));
    gauges.threshold_limit.set(threshold.limit().map(u64::from));
    gauges.noise_thousandths.set(threshold.sigma().map(thousandths));
    gauges.tiles_dirty.set(Some(ingested.count() as u64));
    gauges.tile_count.set(Some(ingested.grid().area() as u64));
}

/// What every part of the image has where all matter alike.
const EVEN_RELEVANCE: f32 = 1.0;

/// What readers of a segment are told when the stream goes on in another.
pub const REPLACED: &str = "the stream goes on in a new segment";

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
