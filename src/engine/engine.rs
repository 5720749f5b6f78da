//! One frame through the stages: the only file that knows their order.

use std::fmt;

use arrayvec::ArrayVec;
use foveate_core::camera::rays::Rays;
use foveate_core::change::ChangeConfig;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameStamp, FrameTime, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::detail::Detail;
use foveate_gaze::motion::{Motion, Motions};
use foveate_gaze::relevance::seen::{FrameParts, Seen, SeenTiles};
use foveate_gaze::view::{VIEWS_MAX, ViewSpec};

use crate::backend::cpu::detail::note_detail;
use crate::backend::{Backend, BackendError, UpdateTimes};
use crate::batch::planned_for;
use crate::change::tracker::ChangeTracker;
use crate::depth::{DepthPicture, StreamDepth};
use crate::planes::{Planes, Sampler, SamplerSpec};
use crate::sink::{FrameChanges, Sink};
use crate::view::{View, ViewBuilder};

/// Times on CLOCK_MONOTONIC at which the stages of one frame ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Token plans of the views whose plans do not follow the detail of the frame.
    pub plan: Span,
    /// Update of the pyramid, and of the tokens of those views.
    pub update: UpdateTimes,
    /// The detail of the frame, and planning and sampling of the views that follow it.
    pub adapt: Span,
    /// Token records, and handing the frame to the sinks of all views.
    pub publish: Span,
    /// After publishing: the decision where the next frame is looked at, and its input, which is the coarse level, the motion and, on the
    /// CPU, the features of tiles.
    pub see: Span,
}

impl StageTimes {
    /// Time from the frame in memory to the published token frames.
    pub fn total(&self) -> Span {
        Span { start_ns: self.plan.start_ns, end_ns: self.publish.end_ns }
    }
}

/// Change, pyramid and sampling of one stream of frames of one kind.
///
/// It has no thread, reads the clock only to time its stages, opens nothing and never blocks on another thread: frames
/// go in through [`step`](Self::step), and the tokens of its [views](View) go to their sinks.
pub struct Engine {
    kind: FrameKind,
    change: ChangeConfig,
    tracker: ChangeTracker,
    backend: Box<dyn Backend>,
    generation: u64,
    coarse: CoarseLevel,
    /// `frame_seq` of the frame in `coarse`; `None` if no view reads it.
    coarse_frame_seq: Option<u64>,
    /// Motion of the coarse levels; `None` until a view or an observer asks for it.
    motions: Option<Box<Motions>>,
    /// The parts of each frame that somebody other than the views reads.
    watched: FrameParts,
    /// The parts of the newest frame that the backend keeps for views and others.
    kept: FrameParts,
    depth: StreamDepth,
    /// The detail of the newest frame; `None` while no view follows it.
    detail: Option<Detail>,
    /// The rule that the newest frame was ingested by.
    rule: IngestRule,
    times: StageTimes,
}

impl Engine {
    /// An engine for frames of the kind that `backend` was built for. `change` says which differences between frames
    /// count. `generation` tells it from earlier engines of the same stream: a view is built for one generation.
    pub fn new(backend: Box<dyn Backend>, change: ChangeConfig, generation: u64) -> Self {
        let kind = backend.kind();
        Self {
            kind,
            change,
            tracker: ChangeTracker::new(kind, change),
            coarse: CoarseLevel::new(backend.shape()),
            coarse_frame_seq: None,
            motions: None,
            watched: FrameParts::default(),
            kept: FrameParts::default(),
            depth: StreamDepth::default(),
            detail: None,
            rule: IngestRule { is_first: true, threshold: 0, refreshed: 0..0 },
            backend,
            generation,
            times: StageTimes::default(),
        }
    }

    /// Sets the rays of the camera, from which views make boxes in space. Without rays the boxes are unknown.
    #[must_use]
    pub fn with_rays(mut self, rays: Option<Rays>) -> Self {
        self.depth = StreamDepth::of(rays);
        self
    }

    /// Sets the depth picture of the frames from the next one on; `None` for none. Setting the same picture again costs
    /// nothing.
    pub fn set_depth(&mut self, picture: Option<&DepthPicture<'_>>) {
        self.depth.set_picture(picture);
    }

    /// Returns a builder for views of this engine, usable on any thread.
    pub fn view_builder(&self) -> ViewBuilder {
        let (generation, kind, keeps_unchanged) =
            (self.generation, self.kind, self.change.keeps_tokens());
        ViewBuilder { generation, kind, keeps_unchanged, make_sampler: self.backend.samplers() }
    }

    /// A view of `spec`, whose tokens go to `sink`.
    ///
    /// # Errors
    ///
    /// If the backend refuses it.
    pub fn view<S>(&self, spec: ViewSpec, sink: S) -> Result<View<S>, BackendError> {
        self.view_builder().build(spec, sink)
    }

    /// Masks cover `texels` of the coarse level from the next frame, number `frame_seq`, on. The resident copy, and so the pyramid and the
    /// tokens, match that frame sample for sample, whatever the threshold. What the gaze of `views` keeps of earlier frames becomes black
    /// under the masks.
    pub fn apply_mask<S>(&mut self, texels: &TileSet, frame_seq: u64, views: &mut [View<S>]) {
        self.tracker.match_next();
        let mut everything = TileSet::none_of(self.coarse.extent());
        let texels = if texels.grid() == everything.grid() {
            texels
        } else {
            // The texels are of a picture of another extent, for which another engine follows.
            everything.fill();
            &everything
        };
        self.coarse.apply_mask(texels);
        if let Some(motions) = &mut self.motions {
            motions.apply_mask(texels);
        }
        views.iter_mut().for_each(|view| view.apply_mask(texels, frame_seq));
    }

    /// Takes one frame through the stages and publishes the tokens of every view that is not resting.
    ///
    /// # Errors
    ///
    /// If the backend fails: nothing was published, and the engine must [continue on another one](Self::recover).
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
        self.begin_step(frame, stamp, views, &[])?;
        self.end_step(stamp, views);
        Ok(())
    }

    /// The first part of a [`step`](Self::step): takes the frame into the pyramid and publishes it in `views`. Each view of `later` may then
    /// [`join`](Self::join), until [`end_step`](Self::end_step).
    ///
    /// # Errors
    ///
    /// As for [`step`](Self::step).
    ///
    /// # Panics
    ///
    /// As for [`step`](Self::step).
    pub fn begin_step<S: Sink>(
        &mut self,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
        views: &mut [View<S>],
        later: &[View<S>],
    ) -> Result<(), BackendError> {
        let start_ns = monotonic_ns();
        let (at, shape) = (FrameTime::of(stamp), self.shape());
        let seen = self.seen();
        for view in &mut *views {
            assert_eq!(view.generation, self.generation, "a view that was built for this engine");
            if !view.planes.is_resting() {
                view.plan_frame(at, seen, shape);
            }
        }
        self.keep(parts_read_by(views).and(parts_read_by(later)));
        let detail_levels = detail_levels_of(views).max(detail_levels_of(later));
        if detail_levels.is_some() && self.detail.is_none() && self.backend.resident().is_none() {
            // The detail of all tiles is taken from this frame.
            self.tracker.match_next();
        }
        let plan = Span::since(start_ns);
        let rule = self.tracker.rule();
        views.iter_mut().for_each(|view| view.planes.follow(&rule));
        choose_targets(views);
        let mut planes = planes_of(views);
        let differences = self.backend.begin_update(frame, &rule, &mut planes)?;
        self.tracker.note(frame, stamp.frame_seq, &rule, differences);
        let update = self.backend.end_update(self.tracker.ingested(), &mut planes)?;
        drop(planes);
        let (adapt, collected_bytes) = self.adapt(frame, at, detail_levels, views)?;
        let update =
            UpdateTimes { collected_bytes: update.collected_bytes + collected_bytes, ..update };
        self.rule = rule;
        self.publish(stamp, views, StageTimes { plan, update, adapt, ..StageTimes::default() });
        Ok(())
    }

    /// Updates the detail up to level `levels` from the newest frame, the frame of `at`, and samples the views that follow the detail. Returns
    /// when this ran, and the bytes that were copied from the device.
    fn adapt<S>(
        &mut self,
        frame: &FrameView<'_>,
        at: FrameTime,
        levels: Option<u32>,
        views: &mut [View<S>],
    ) -> Result<(Span, u64), BackendError> {
        let start_ns = monotonic_ns();
        self.update_detail(frame, at, levels);
        let mut collected_bytes = 0;
        for view in views.iter_mut().filter(|view| view.follows_detail()) {
            collected_bytes += self.sample_by_detail(at, view)?;
        }
        let span = if levels.is_some() { Span::since(start_ns) } else { Span::NONE };
        Ok((span, collected_bytes))
    }

    /// Updates the detail up to level `levels` from the newest frame, the frame of `at`; with `None`, as no view follows it, drops it.
    fn update_detail(&mut self, frame: &FrameView<'_>, at: FrameTime, levels: Option<u32>) {
        let Some(levels) = levels else {
            self.detail = None;
            return;
        };
        let noise = self.tracker.threshold().sigma().unwrap_or(0.0);
        let pool = self.backend.pool();
        match &mut self.detail {
            Some(detail) => {
                note_detail(detail, frame, self.tracker.ingested(), pool);
                detail.update(self.tracker.ingested(), noise, at.frame_seq);
                detail.reach(levels);
            }
            None => {
                let detail = self.detail.insert(Detail::new(self.kind.extent, levels));
                let all = TileSet::all(self.kind.extent);
                let resident = self.backend.resident();
                note_detail(detail, resident.as_ref().unwrap_or(frame), &all, pool);
                detail.update(&all, noise, at.frame_seq);
            }
        }
    }

    /// Plans the tokens of a view whose layout follows the detail of the newest frame, and samples them. Returns the bytes that were copied
    /// from the device.
    fn sample_by_detail<S>(
        &mut self,
        at: FrameTime,
        view: &mut View<S>,
    ) -> Result<u64, BackendError> {
        let ingested = self.tracker.ingested();
        if view.planes.is_resting() {
            view.planes.leave_out(ingested);
            return Ok(0);
        }
        let shape = PyramidShape::new(self.kind.extent);
        let detail = self.detail.as_ref().expect("the detail that the view follows");
        view.plan_by_detail(detail, self.tracker.changed_frames(), at, shape);
        let sampled = self.backend.sample(ingested, &mut view.planes);
        sampled.inspect_err(|_| view.planes.forget_samples())
    }

    /// Publishes the frame that [`begin_step`](Self::begin_step) has taken in one more view. The tokens are those that the view would
    /// have had in `begin_step`. A resting view only notes what changed.
    ///
    /// # Errors
    ///
    /// If the backend fails: the view has published nothing. If the device is lost the next [step](Self::step) fails, too, and the engine
    /// can [continue on another one](Self::recover).
    ///
    /// # Panics
    ///
    /// If the view was built for another engine.
    pub fn join<S: Sink>(
        &mut self,
        stamp: &FrameStamp,
        view: &mut View<S>,
    ) -> Result<(), BackendError> {
        assert_eq!(view.generation, self.generation, "a view that was built for this engine");
        view.planes.follow(&self.rule);
        if view.planes.is_resting() {
            view.planes.leave_out(self.tracker.ingested());
            return Ok(());
        }
        let at = FrameTime::of(stamp);
        // The coarse level is still of the frame before, but the tiles are of this frame: leave the tiles out.
        let seen = self.seen().map(|seen| Seen { tiles: None, ..seen });
        view.plan_frame(at, seen, self.shape());
        choose_targets(std::slice::from_mut(view));
        if view.follows_detail() {
            self.sample_by_detail(at, view)?;
        } else if let Err(error) = self.backend.sample(self.tracker.ingested(), &mut view.planes) {
            view.planes.forget_samples();
            return Err(error);
        }
        view.publish(stamp, &self.changes());
        Ok(())
    }

    /// The last part of a [`step`](Self::step), once all `views` have published: each decides by this frame where it looks in the next one.
    pub fn end_step<S>(&mut self, stamp: &FrameStamp, views: &mut [View<S>]) {
        let start_ns = monotonic_ns();
        let noted = self.backend.note_features(self.tracker.ingested());
        if noted != Span::NONE {
            self.times.update.features = noted;
        }
        let at = FrameTime::of(stamp);
        self.update_coarse(at);
        let seen = self.seen();
        for view in views.iter_mut().filter(|view| !view.planes.is_resting()) {
            view.decide(seen, self.detail.as_ref(), self.tracker.changed_frames(), at);
        }
        self.times.see = Span::since(start_ns);
    }

    /// Switches to `backend` within the frame in which [`step`](Self::step) failed, and publishes that frame. The
    /// pyramid is rebuilt from the resident copy, which already holds the frame, or, if that was lost with the device,
    /// from the frame, as if it were the first. Returns the old backend; dropping it may block on the driver.
    ///
    /// # Errors
    ///
    /// If `backend` fails too.
    pub fn recover<S: Sink>(
        &mut self,
        backend: Box<dyn Backend>,
        frame: &FrameView<'_>,
        stamp: &FrameStamp,
        views: &mut [View<S>],
    ) -> Result<Box<dyn Send>, BackendError> {
        let start_ns = monotonic_ns();
        let make = backend.samplers();
        let samplers = views.iter().map(|view| make(view.planes.spec()));
        let samplers = samplers.collect::<Result<Vec<_>, _>>()?;
        let old = std::mem::replace(&mut self.backend, backend);
        let samplers = self.set_samplers(samplers, views);
        self.keep(parts_read_by(views));
        let resident = old.resident();
        if resident.is_none() {
            self.detail = None;
            self.tracker = ChangeTracker::new(self.kind, self.change);
            let rule = self.tracker.rule();
            self.tracker.note(
                frame,
                stamp.frame_seq,
                &rule,
                &vec![0; self.tracker.ingested().grid().area()],
            );
        }
        choose_targets(views);
        let update =
            fill(&mut *self.backend, resident.as_ref().unwrap_or(frame), &mut planes_of(views))?;
        let (adapt, _) = self.adapt(frame, FrameTime::of(stamp), detail_levels_of(views), views)?;
        let plan = Span { start_ns, end_ns: start_ns };
        self.publish(stamp, views, StageTimes { plan, update, adapt, ..StageTimes::default() });
        self.end_step(stamp, views);
        Ok(Box::new((samplers, old)))
    }

    /// Switches to `backend` between two frames. It was built for frames of the same kind and has seen none; `samplers`
    /// are its own, one for each view. It is filled from the resident copy, so nothing but the device changes, and
    /// every token is sampled with the next frame. Returns the old backend; on an error, `backend` with the reason, and
    /// nothing has changed. Dropping what is returned may block on the driver.
    ///
    /// # Errors
    ///
    /// If `backend` fails.
    ///
    /// # Panics
    ///
    /// If a device, not the CPU, keeps the resident copy.
    pub fn move_to<S>(
        &mut self,
        mut backend: Box<dyn Backend>,
        samplers: Vec<Sampler>,
        views: &mut [View<S>],
    ) -> Result<Box<dyn Send>, (Box<dyn Send>, BackendError)> {
        let resident = self.backend.resident().expect("the CPU keeps the resident copy");
        let kept = self.kept;
        backend.keep_coarse(kept.coarse);
        backend.keep_features(kept.tiles);
        if let Err(error) = fill(&mut *backend, &resident, &mut []) {
            return Err((Box::new((samplers, backend)), error));
        }
        let old = std::mem::replace(&mut self.backend, backend);
        let samplers = self.set_samplers(samplers, views);
        self.kept = kept;
        Ok(Box::new((samplers, old)))
    }

    /// Gives the views `samplers` and the next generation; returns the old samplers.
    fn set_samplers<S>(&mut self, samplers: Vec<Sampler>, views: &mut [View<S>]) -> Vec<Sampler> {
        assert_eq!(samplers.len(), views.len(), "a sampler for each view");
        self.generation += 1;
        self.kept = FrameParts::default();
        let views = views.iter_mut().zip(samplers);
        views.map(|(view, sampler)| view.set_sampler(sampler, self.generation)).collect()
    }

    /// Hands the frame to the sinks.
    fn publish<S: Sink>(&mut self, stamp: &FrameStamp, views: &mut [View<S>], times: StageTimes) {
        let start_ns = monotonic_ns();
        let changes = self.changes();
        for view in views.iter_mut().filter(|view| !view.planes.is_resting()) {
            view.publish(stamp, &changes);
        }
        self.times = StageTimes { publish: Span::since(start_ns), ..times };
    }

    /// The changes of the newest frame.
    fn changes(&self) -> FrameChanges<'_> {
        FrameChanges {
            shape: self.shape(),
            tracker: &self.tracker,
            rgb_bound: self.rgb_bound(),
            depth: &self.depth,
            // The motion of the frame before: this frame's needs the coarse level, which is read after publishing.
            motion: self.motions().and_then(Motions::newest).and_then(Motion::published),
        }
    }

    /// Largest possible difference between a published texel and one made from the newest frame: the effect of the change
    /// threshold on the pyramid, plus the threshold itself if tokens are kept.
    pub fn rgb_bound(&self) -> u32 {
        let threshold = self.tracker.sample_bound();
        let of_tokens = if self.change.keeps_tokens() { threshold } else { 0 };
        (self.kind.color.rgb_bound(threshold) + u32::from(of_tokens)).min(u8::MAX.into())
    }

    /// Has the backend keep the parts of the next frame that the views and others read.
    fn keep(&mut self, read_by_views: FrameParts) {
        let before = std::mem::replace(&mut self.kept, read_by_views.and(self.watched));
        if before.coarse != self.kept.coarse {
            self.backend.keep_coarse(self.kept.coarse);
        }
        if before.tiles != self.kept.tiles {
            self.backend.keep_features(self.kept.tiles);
        }
    }

    /// A sampler for [`sample`](Self::sample); [`Planes::into_parts`] returns it.
    ///
    /// # Errors
    ///
    /// If the backend refuses it.
    pub fn sampler(&self, spec: &ViewSpec) -> Result<Sampler, BackendError> {
        (self.backend.samplers())(SamplerSpec::of(spec))
    }

    /// Samples one plan from the newest frame, besides the views. `sampler` is of this engine, for the same format and
    /// capacity.
    ///
    /// # Errors
    ///
    /// If the backend fails: it must not be used any more.
    ///
    /// # Panics
    ///
    /// If there was no frame yet, or a device, not the CPU, keeps the resident copy.
    pub fn sample(
        &mut self,
        spec: &ViewSpec,
        gaze: &Gaze,
        sampler: Sampler,
    ) -> Result<Planes, BackendError> {
        let resident = self.backend.resident().expect("the CPU keeps the resident copy");
        let (plan, _) = planned_for(spec, gaze, &resident);
        let shape = self.shape();
        let mut planes = Planes::new(SamplerSpec::of(spec), sampler);
        planes.set_plan(plan, shape.extent());
        self.backend.sample(&TileSet::none(shape.extent()), &mut planes)?;
        let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
        planes.record(shape.extent(), &self.tracker, relevance);
        Ok(planes)
    }

    /// Copies a level of the newest frame's pyramid out: R, G, B interleaved, row by row.
    ///
    /// # Errors
    ///
    /// As for [`sample`](Self::sample).
    pub fn read_level(&mut self, level: u32) -> Result<Vec<u8>, BackendError> {
        self.backend.read_level(level)
    }

    /// Reads the newest frame, number `frame_seq`, without a view: its coarse level and its tiles. From then on the features
    /// of tiles are kept.
    ///
    /// # Errors
    ///
    /// As for [`sample`](Self::sample).
    ///
    /// # Panics
    ///
    /// As for [`sample`](Self::sample).
    pub fn see(&mut self, frame_seq: u64) -> Result<Seen<'_>, BackendError> {
        self.watched.tiles = true;
        if !self.kept.tiles {
            self.kept.tiles = true;
            self.backend.keep_features(true);
            self.backend.end_update(&TileSet::none(self.kind.extent), &mut [])?;
            self.backend.note_features(&TileSet::none(self.kind.extent));
        }
        self.backend.read_coarse(&mut self.coarse)?;
        // No gaze asks for the time of this frame.
        self.note_coarse(FrameTime { frame_seq, time_ns: 0 });
        Ok(self.seen().expect("just read"))
    }

    /// Sets the parts of each frame that somebody other than the views reads, from the next frame on.
    pub fn watch(&mut self, watched: FrameParts) {
        self.watched = watched;
    }

    /// The coarse level of the newest frame, if it was read.
    pub fn coarse(&self) -> Option<&CoarseLevel> {
        self.coarse_frame_seq.map(|_| &self.coarse)
    }

    /// Columns and rows of the coarse level.
    pub fn coarse_extent(&self) -> Extent {
        self.coarse.extent()
    }

    /// The input of gaze decisions from the newest frame, if a view reads it.
    fn seen(&self) -> Option<Seen<'_>> {
        let tiles = self.backend.features().map(|features| SeenTiles {
            features,
            changed_frame: self.tracker.changed_frames(),
            black: self.black(),
        });
        let frame_seq = self.coarse_frame_seq?;
        let motion = self.motions();
        Some(Seen { coarse: &self.coarse, frame_seq, motion, tiles, plan: None })
    }

    /// Luma of black.
    fn black(&self) -> u8 {
        u8::try_from(self.kind.color.y_offset).unwrap_or(0)
    }

    /// Copies the coarse level of the newest frame out of the pyramid if somebody reads it.
    fn update_coarse(&mut self, at: FrameTime) {
        self.coarse_frame_seq = None;
        if self.kept.coarse {
            match self.backend.read_coarse(&mut self.coarse) {
                Ok(()) => self.note_coarse(at),
                // The next update fails too, and reports it.
                Err(error) => {
                    tracing::warn!(%error, "cannot read the coarse level of a frame; gaze policies skip it")
                }
            }
        }
    }

    /// Motion up to the newest frame; `None` unless somebody reads the coarse level.
    pub fn motions(&self) -> Option<&Motions> {
        self.motions.as_deref().filter(|_| self.coarse_frame_seq.is_some())
    }

    /// Notes that the coarse level is now that of the frame of `at`, and measures its motion.
    fn note_coarse(&mut self, at: FrameTime) {
        self.coarse_frame_seq = Some(at.frame_seq);
        let shape = self.shape();
        let motions = self.motions.get_or_insert_with(|| Box::new(Motions::new(shape)));
        match self.backend.pool() {
            None => motions.follow(&self.coarse, at),
            Some(pool) => {
                motions.follow_shared(&self.coarse, at, &|parts, work| pool.for_each(parts, work))
            }
        }
    }

    /// Format, colour and extent that all frames share.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The shape of the pyramid.
    pub fn shape(&self) -> PyramidShape {
        PyramidShape::new(self.kind.extent)
    }

    /// Changes whenever views must be rebuilt: with another engine or another backend.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The tiles that changed, each with its newest changed frame.
    pub fn tracker(&self) -> &ChangeTracker {
        &self.tracker
    }

    /// The detail of the newest frame, if a view's layout follows it.
    pub fn detail(&self) -> Option<&Detail> {
        self.detail.as_ref()
    }

    /// When the stages of the newest frame ran.
    pub fn times(&self) -> StageTimes {
        self.times
    }
}

/// The parts of a frame that the decisions of any of `views` read.
fn parts_read_by<S>(views: &[View<S>]) -> FrameParts {
    views.iter().map(View::reads).fold(FrameParts::default(), FrameParts::and)
}

/// Asks the sinks of the views that do not rest where the texels of this frame go.
fn choose_targets<S: Sink>(views: &mut [View<S>]) {
    for view in views.iter_mut().filter(|view| !view.planes.is_resting()) {
        view.planes.sample_to(view.sink.begin());
    }
}

/// The planes that an update samples: of the views whose plans do not follow the detail, which is known only after the update.
fn planes_of<S>(views: &mut [View<S>]) -> ArrayVec<&mut Planes, VIEWS_MAX> {
    let views = views.iter_mut().filter(|view| !view.follows_detail());
    views.map(|view| &mut view.planes).collect()
}

/// Levels of detail that the views follow, 0 where a picture fits their budgets; `None` if none does.
fn detail_levels_of<S>(views: &[View<S>]) -> Option<u32> {
    views.iter().filter_map(View::detail_levels).max()
}

/// Builds the pyramid of a new backend from `source` and samples all tokens of `views`.
fn fill(
    backend: &mut dyn Backend,
    source: &FrameView<'_>,
    views: &mut [&mut Planes],
) -> Result<UpdateTimes, BackendError> {
    let rule = IngestRule { is_first: true, threshold: 0, refreshed: 0..0 };
    let all = TileSet::all(source.extent());
    backend.begin_update(source, &rule, views)?;
    let times = backend.end_update(&all, views)?;
    backend.note_features(&all);
    Ok(times)
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("kind", &self.kind).finish_non_exhaustive()
    }
}
