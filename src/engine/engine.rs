//! One frame through the stages: the only file that knows their order.

use std::fmt;

use arrayvec::ArrayVec;
use foveate_core::change::ChangeConfig;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameStamp, FrameTime, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_core::view::{VIEWS_MAX, ViewSpec};

use crate::backend::{Backend, BackendError, UpdateTimes};
use crate::change::tracker::ChangeTracker;
use crate::planes::{Planes, Sampler};
use crate::sink::Sink;
use crate::view::{FrameChanges, View, ViewBuilder};

/// When the stages of one frame ran, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Where the views look, and what they therefore sample.
    pub plan: Span,
    /// From the frame to the tokens.
    pub update: UpdateTimes,
    /// Token records, and handing the frame to the sinks of all views.
    pub publish: Span,
}

impl StageTimes {
    /// From the frame in memory to the token frames published.
    pub fn total(&self) -> Span {
        Span { start_ns: self.plan.start_ns, end_ns: self.publish.end_ns }
    }
}

/// Change, pyramid and sampling of one stream of frames of one kind.
///
/// It has no thread and no clock of its own (but that it says when its stages ran), opens nothing and waits for nobody: frames
/// go in by [`step`](Self::step), and what its [views](View) sample goes to their sinks.
pub struct Engine {
    kind: FrameKind,
    change: ChangeConfig,
    tracker: ChangeTracker,
    backend: Box<dyn Backend>,
    generation: u64,
    coarse: CoarseLevel,
    /// The frame that `coarse` shows; `None` where nobody wants it.
    coarse_of: Option<u64>,
    keeps_coarse: bool,
    times: StageTimes,
}

/// What is left of a backend: whoever drops it may have to wait for a driver.
#[derive(Debug)]
pub struct RetiredBackend {
    _samplers: Vec<Sampler>,
    _backend: BackendHandle,
}

impl Engine {
    /// An engine for frames of the kind that `backend` was built for, of which it has seen none. `change` says which differences
    /// between frames count. `generation` tells it from the engines of the same stream before it: views are built for one.
    pub fn new(backend: Box<dyn Backend>, change: ChangeConfig, generation: u64) -> Self {
        let kind = backend.kind();
        Self {
            kind,
            change,
            tracker: ChangeTracker::new(kind, change),
            coarse: CoarseLevel::new(backend.shape()),
            coarse_of: None,
            keeps_coarse: false,
            backend,
            generation,
            times: StageTimes::default(),
        }
    }

    /// Builds views for it, on any thread.
    pub fn view_builder(&self) -> ViewBuilder {
        let (generation, kind) = (self.generation, self.kind);
        ViewBuilder { generation, kind, make_sampler: self.backend.samplers() }
    }

    /// A view of `spec`, whose tokens go to `sink`.
    ///
    /// # Errors
    ///
    /// If the backend refuses it.
    pub fn view<S>(&self, spec: ViewSpec, sink: S) -> Result<View<S>, BackendError> {
        self.view_builder().build(spec, sink)
    }

    /// Takes one frame through the stages, and publishes the tokens of every view that is not resting.
    ///
    /// # Errors
    ///
    /// If the backend fails: nothing was published, and the engine must [go on on another one](Self::recover).
    ///
    /// # Panics
    ///
    /// If the frame is of another kind, a view was built for another engine, or there are more than [`VIEWS_MAX`].
    pub fn step<S: Sink>(
        &mut self,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
        views: &mut [View<S>],
    ) -> Result<(), BackendError> {
        let start_ns = monotonic_ns();
        let (at, shape) = (FrameTime::of(stamp), self.shape());
        for view in &mut *views {
            assert_eq!(view.generation, self.generation, "a view that was built for this engine");
            if !view.planes.is_resting() {
                view.look(at, self.coarse_of.map(|frame_seq| (&self.coarse, frame_seq)), shape);
            }
        }
        let plan = Span::since(start_ns);
        let rule = self.tracker.rule(frame);
        let mut planes = planes_of(views);
        let differences = self.backend.compare(frame, &rule, &mut planes)?;
        self.tracker.note(stamp.frame_seq, &rule, differences);
        let update = self.backend.update(self.tracker.ingested(), &mut planes)?;
        drop(planes);
        self.publish(stamp, views, plan, update);
        Ok(())
    }

    /// Goes on on `backend` in the frame in which [`step`](Self::step) failed, and publishes it: the pyramid is built anew from
    /// the resident copy, which holds the frame already, or, where that went with the device, from the frame, as if it were the
    /// first. What is left of the backend before comes back.
    ///
    /// # Errors
    ///
    /// If `backend` fails, too.
    pub fn recover<S: Sink>(
        &mut self,
        backend: Box<dyn Backend>,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
        views: &mut [View<S>],
    ) -> Result<RetiredBackend, BackendError> {
        let start_ns = monotonic_ns();
        let make = backend.samplers();
        let samplers = views.iter().map(|view| make(view.planes.spec()));
        let samplers = samplers.collect::<Result<Vec<_>, _>>()?;
        let old = std::mem::replace(&mut self.backend, backend);
        let samplers = self.set_samplers(samplers, views);
        let resident = old.resident();
        if resident.is_none() {
            self.tracker = ChangeTracker::new(self.kind, self.change);
            let rule = self.tracker.rule(frame);
            self.tracker.note(
                stamp.frame_seq,
                &rule,
                &vec![0; self.tracker.ingested().grid().area()],
            );
        }
        let update =
            fill(&mut *self.backend, resident.as_ref().unwrap_or(frame), &mut planes_of(views))?;
        self.publish(stamp, views, Span { start_ns, end_ns: start_ns }, update);
        Ok(RetiredBackend { _samplers: samplers, _backend: BackendHandle(old) })
    }

    /// Goes on on `backend` between two frames, which was built for frames of the same kind and has seen none, with `samplers` of
    /// it, one for each view: fills it from the resident copy, so that nothing but the device changes, and has every token
    /// sampled with the next frame. What is left of the backend before comes back; or of `backend`, with the reason, and then
    /// everything stays as it was.
    ///
    /// # Errors
    ///
    /// If `backend` fails.
    ///
    /// # Panics
    ///
    /// If a device keeps the resident copy.
    pub fn move_to<S>(
        &mut self,
        mut backend: Box<dyn Backend>,
        samplers: Vec<Sampler>,
        views: &mut [View<S>],
    ) -> Result<RetiredBackend, (RetiredBackend, BackendError)> {
        let resident = self.backend.resident().expect("the CPU keeps the resident copy");
        if let Err(error) = fill(&mut *backend, &resident, &mut []) {
            return Err((
                RetiredBackend { _samplers: samplers, _backend: BackendHandle(backend) },
                error,
            ));
        }
        let old = std::mem::replace(&mut self.backend, backend);
        let samplers = self.set_samplers(samplers, views);
        Ok(RetiredBackend { _samplers: samplers, _backend: BackendHandle(old) })
    }

    /// Views sample with `samplers` from now on, and are of the next generation; returns those from before.
    fn set_samplers<S>(&mut self, samplers: Vec<Sampler>, views: &mut [View<S>]) -> Vec<Sampler> {
        assert_eq!(samplers.len(), views.len(), "a sampler for each view");
        self.generation += 1;
        self.keeps_coarse = false;
        let views = views.iter_mut().zip(samplers);
        views.map(|(view, sampler)| view.set_sampler(sampler, self.generation)).collect()
    }

    /// Hands the frame to the sinks, and looks at it for the next one.
    #[expect(clippy::cast_possible_truncation, reason = "a source has at most 512 x 512 tiles")]
    fn publish<S: Sink>(
        &mut self,
        stamp: &FrameStamp,
        views: &mut [View<S>],
        plan: Span,
        update: UpdateTimes,
    ) {
        let start_ns = monotonic_ns();
        let tracker = &self.tracker;
        let changes = FrameChanges {
            shape: self.shape(),
            tracker,
            sample_bound: tracker.sample_bound().into(),
            rgb_bound: self.kind.color.rgb_bound(tracker.sample_bound()),
            dirty_tiles: tracker.ingested().count() as u32,
            tile_count: tracker.ingested().grid().area() as u32,
        };
        for view in views.iter_mut().filter(|view| !view.planes.is_resting()) {
            view.publish(stamp, &changes);
        }
        self.times = StageTimes { plan, update, publish: Span::since(start_ns) };
        // For the next frame, so only now.
        self.look(stamp.frame_seq, views.iter().any(View::wants_coarse));
    }

    /// Takes the coarse level of the newest frame from the pyramid, if it is `wanted`.
    fn look(&mut self, frame_seq: u64, wanted: bool) {
        if self.keeps_coarse != wanted {
            self.keeps_coarse = wanted;
            self.backend.keep_coarse(wanted);
        }
        self.coarse_of = None;
        if wanted {
            match self.backend.read_coarse(&mut self.coarse) {
                Ok(()) => self.coarse_of = Some(frame_seq),
                // The next update fails, too.
                Err(error) => tracing::warn!(%error, "the coarse level of a frame cannot be read"),
            }
        }
    }

    /// What the frames have in common.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The shape of the pyramid.
    pub fn shape(&self) -> PyramidShape {
        PyramidShape::new(self.kind.extent)
    }

    /// A number that is another whenever views must be built anew: with another engine, or another backend.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What is known of the changes so far.
    pub fn tracker(&self) -> &ChangeTracker {
        &self.tracker
    }

    /// When the stages of the newest frame ran.
    pub fn times(&self) -> StageTimes {
        self.times
    }
}

/// What the backend must know of all views.
fn planes_of<S>(views: &mut [View<S>]) -> ArrayVec<&mut Planes, VIEWS_MAX> {
    views.iter_mut().map(|view| &mut view.planes).collect()
}

/// Builds the pyramid of a backend that has seen no frame from `source`, and samples all tokens of `views`.
fn fill(
    backend: &mut dyn Backend,
    source: &FrameView<'_>,
    views: &mut [&mut Planes],
) -> Result<UpdateTimes, BackendError> {
    let rule = IngestRule { is_first: true, threshold: 0, refreshed: 0..0 };
    backend.compare(source, &rule, views)?;
    backend.update(&TileSet::all(source.extent()), views)
}

/// A backend that is only to be dropped.
struct BackendHandle(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Backend>);

impl fmt::Debug for BackendHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("kind", &self.kind).finish_non_exhaustive()
    }
}
