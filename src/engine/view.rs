//! One view of a stream: its gaze, the token plan that follows from it, and the sink of its tokens.

use foveate_core::frame::{FrameKind, FrameStamp, FrameTime};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::controller::Controller;
use foveate_gaze::detail::Detail;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::relevance::seen::{FrameParts, Seen};
use foveate_gaze::view::{Needs, ViewSpec};

use crate::backend::{BackendError, SamplerMaker};
use crate::channels::ChannelPlane;
use crate::depth::DepthPlanes;
use crate::planes::{Planes, Sampler, SamplerSpec};
use crate::sink::{FrameChanges, SampledFrame, Sink};

/// A view of the stream of one [`Engine`](crate::Engine), whose tokens go to a sink.
#[derive(Debug)]
pub struct View<S> {
    spec: ViewSpec,
    extent: Extent,
    /// Generation of the engine that the view was built for; see [`Engine::generation`](crate::Engine::generation).
    pub(crate) generation: u64,
    pub(crate) planes: Planes,
    channels: ChannelPlane,
    depth: DepthPlanes,
    /// `None` before the first frame.
    controller: Option<Controller>,
    /// Whether plans and fixations follow the detail of the pictures, and what they know of it.
    needs: Needs,
    /// The gaze of the newest frame until the frame's detail is known; only if the plan follows the detail.
    gaze_to_plan: Option<Gaze>,
    /// The input of the token plan; `None` before the first plan, and after the plan was forgotten.
    planned: Option<PlanInput>,
    /// For each tile, the newest frame that changed it or the masks; empty if the view does not publish tiles.
    tiles: Vec<u64>,
    /// The first frame with the present masks.
    masked_since: u64,
    /// When the newest feedback arrived, on CLOCK_MONOTONIC; 0 before any.
    feedback_ns: u64,
    /// When the feedback that led to the newest of the clients' fixations arrived; 0 if there is none.
    asked_ns: u64,
    /// Receives the token frames.
    pub sink: S,
}

/// Input of a token plan.
#[derive(Debug)]
struct PlanInput {
    gaze: Gaze,
    /// The first frame sampled by this plan.
    since_frame: u64,
    /// Whether the plan was made without the plan before, of which it could have kept a part.
    is_afresh: bool,
}

/// Builds views for one engine, on any thread, while the engine takes frames.
#[derive(Clone)]
pub struct ViewBuilder {
    pub(crate) generation: u64,
    pub(crate) kind: FrameKind,
    /// Value of [`SamplerSpec::keeps_unchanged`] for new views.
    pub(crate) keeps_unchanged: bool,
    pub(crate) make_sampler: SamplerMaker,
}

impl ViewBuilder {
    /// Format, colour and extent that all frames of the engine share.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// Builds a view.
    ///
    /// # Errors
    ///
    /// If the backend refuses it.
    pub fn build<S>(&self, spec: ViewSpec, sink: S) -> Result<View<S>, BackendError> {
        let sampler =
            SamplerSpec { keeps_unchanged: self.keeps_unchanged, ..SamplerSpec::of(&spec) };
        let planes = Planes::new(sampler, (self.make_sampler)(sampler)?);
        Ok(View::new((self.generation, self.kind.extent), spec, planes, sink))
    }

    /// Builds a view again for this engine. It keeps looking at the same part of the picture.
    ///
    /// # Errors
    ///
    /// If the backend refuses it. The view is then unchanged.
    pub fn rebuild<S>(&self, view: &mut View<S>, at: FrameTime) -> Result<(), BackendError> {
        let spec = SamplerSpec { keeps_unchanged: self.keeps_unchanged, ..view.planes.spec() };
        view.planes = view.planes.renewed(spec, (self.make_sampler)(spec)?);
        (view.generation, view.extent) = (self.generation, self.kind.extent);
        view.channels = view.channels.renewed(&view.spec, view.extent);
        view.depth = DepthPlanes::new(&view.spec);
        view.needs = view.spec.needs(PyramidShape::new(view.extent));
        view.forget_plan();
        if let Some(controller) = &mut view.controller {
            controller.resize(view.extent, at);
        }
        Ok(())
    }
}

impl<S> View<S> {
    /// A view for an engine that does not exist yet; [`ViewBuilder::rebuild`] builds it for that engine. Until then its generation is 0,
    /// which no engine has.
    pub fn unbuilt(spec: ViewSpec, sink: S) -> Self {
        let planes = Planes::new(SamplerSpec::of(&spec), Sampler::new(()));
        Self::new((0, Extent::new(1, 1)), spec, planes, sink)
    }

    fn new((generation, extent): (u64, Extent), spec: ViewSpec, planes: Planes, sink: S) -> Self {
        Self {
            channels: ChannelPlane::new(&spec, extent),
            depth: DepthPlanes::new(&spec),
            needs: spec.needs(PyramidShape::new(extent)),
            gaze_to_plan: None,
            spec,
            extent,
            generation,
            planes,
            controller: None,
            planned: None,
            tiles: Vec::new(),
            masked_since: 0,
            feedback_ns: 0,
            asked_ns: 0,
            sink,
        }
    }

    /// Layout, policy, budget and format.
    pub fn spec(&self) -> &ViewSpec {
        &self.spec
    }

    /// The tokens of the newest frame.
    pub fn planes(&self) -> &Planes {
        &self.planes
    }

    /// The [generation](crate::Engine::generation) of the engine that the view was built for.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The gaze of the newest frame; `None` before the first, and after the plan was forgotten.
    pub fn gaze(&self) -> Option<&Gaze> {
        self.planned.as_ref().map(|planned| &planned.gaze)
    }

    /// A resting view neither samples nor publishes frames.
    pub fn set_resting(&mut self, is_resting: bool) {
        self.planes.set_resting(is_resting);
    }

    /// Applies the newest feedback from before the frame of `at`, which arrived at `feedback_ns` on CLOCK_MONOTONIC.
    pub fn take_feedback(&mut self, feedback: &Feedback, at: FrameTime, feedback_ns: u64) {
        self.feedback_ns = feedback_ns;
        self.step_controller(at, |controller| controller.accept_feedback(feedback, at));
    }

    /// Makes the next plan as if it were the first, for a consumer who has nothing yet.
    pub fn forget_plan(&mut self) {
        self.planned = None;
        self.needs.reset();
    }

    /// Masks cover `texels` of the coarse level from the next frame, number `frame_seq`, on.
    pub(crate) fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        self.channels.apply_mask();
        // Tokens that stayed within the threshold may have shown what the masks cover now.
        self.masked_since = frame_seq;
        // Published texels may show pixels that are covered now.
        self.planes.forget_samples();
        if let Some(controller) = &mut self.controller {
            controller.apply_mask(texels, frame_seq);
        }
        // A past fixation may give away what is covered now.
        if let Needs::Fixations(sight) = &mut self.needs {
            sight.apply_mask(texels);
        }
        // A plan that follows a map depends on the plan before, and a plan that follows detail on what was delivered.
        if self.follows_detail()
            || self.planned.as_ref().is_some_and(|planned| planned.gaze.leading_reason().is_some())
        {
            self.forget_plan();
        }
    }

    /// The view with its sink converted.
    pub fn with_sink<T>(self, convert: impl FnOnce(S) -> T) -> View<T> {
        View {
            spec: self.spec,
            extent: self.extent,
            generation: self.generation,
            planes: self.planes,
            channels: self.channels,
            depth: self.depth,
            controller: self.controller,
            needs: self.needs,
            gaze_to_plan: self.gaze_to_plan,
            planned: self.planned,
            tiles: self.tiles,
            masked_since: self.masked_since,
            feedback_ns: self.feedback_ns,
            asked_ns: self.asked_ns,
            sink: convert(self.sink),
        }
    }

    /// The view without its sink, and the sink.
    pub fn split(self) -> (View<()>, S) {
        let mut kept = None;
        let view = self.with_sink(|sink| kept = Some(sink));
        (view, kept.expect("the sink was handed over"))
    }

    /// Switches to `sampler`, which belongs to the engine of `generation`, and returns the old sampler.
    pub(crate) fn set_sampler(&mut self, sampler: Sampler, generation: u64) -> Sampler {
        self.generation = generation;
        self.planes.set_sampler(sampler)
    }

    /// Applies `step` to the controller, which begins with the first frame, and returns the gaze. Notes when the feedback arrived that led
    /// to a new fixation of a client.
    fn step_controller(&mut self, at: FrameTime, step: impl FnOnce(&mut Controller)) -> Gaze {
        let Self { spec, extent, .. } = self;
        let begin = || {
            let publishes_channels = !spec.channels.is_empty();
            let foveae = spec.policy.foveae(spec.layout.foveae());
            Controller::new(
                spec.policy.clone(),
                spec.parameters,
                publishes_channels,
                *extent,
                foveae,
                at,
            )
        };
        let controller = self.controller.get_or_insert_with(begin);
        let before = controller.gaze().newest_asked();
        step(controller);
        let gaze = controller.gaze().clone();
        match gaze.newest_asked() {
            None => self.asked_ns = 0,
            Some(newest) if before.is_none_or(|before| newest.id != before.id) => {
                self.asked_ns = self.feedback_ns;
            }
            Some(_) => {}
        }
        gaze
    }

    /// Takes the gaze of the frame of `at`, and plans the tokens for it, unless the plan follows the detail: then
    /// [`plan_by_detail`](Self::plan_by_detail) does. `seen` is the frame before.
    pub(crate) fn plan_frame(
        &mut self,
        at: FrameTime,
        seen: Option<Seen<'_>>,
        shape: PyramidShape,
    ) {
        let gaze = self.step_controller(at, |controller| controller.arrive(at, seen));
        if self.controller.as_ref().is_some_and(Controller::plans_afresh) {
            self.forget_plan();
        }
        if self.follows_detail() {
            self.gaze_to_plan = Some(gaze);
        } else if self.planned.as_ref().is_none_or(|planned| planned.gaze != gaze) {
            let plan = self.plan(&gaze, shape);
            self.planes.set_plan(plan, shape.extent());
            let is_afresh = self.planned.is_none() && gaze.leading_reason().is_some();
            self.planned = Some(PlanInput { gaze, since_frame: at.frame_seq, is_afresh });
        }
    }

    /// Decides where the next frame is looked at, by what was `seen` of the newest frame, the frame of `at`, and by its `detail`, if the view
    /// needs it.
    pub(crate) fn decide(
        &mut self,
        seen: Option<Seen<'_>>,
        detail: Option<&Detail>,
        changed_frame: &[u64],
        at: FrameTime,
    ) {
        let Some(controller) = &mut self.controller else { return };
        let plan = self.planes.plan();
        let need = match &mut self.needs {
            Needs::Nothing => return,
            Needs::Plan(demand) => demand.need(),
            Needs::Fixations(sight) => {
                let detail = detail.expect("the detail that the view follows");
                sight.note(detail, changed_frame, at, plan);
                sight.need()
            }
        };
        controller.decide(seen.map(|seen| Seen { plan: Some(plan), ..seen }), need, changed_frame);
    }

    /// The parts of a frame that the next decisions read.
    pub(crate) fn reads(&self) -> FrameParts {
        let most = self.spec.reads();
        self.controller.as_ref().map_or(most, |controller| controller.reads(most))
    }

    /// Whether the plan of a frame follows the detail of the same frame.
    pub(crate) fn follows_detail(&self) -> bool {
        matches!(self.needs, Needs::Plan(_))
    }

    /// Levels of detail that the view follows; `None` if it does not follow the detail, or rests.
    pub(crate) fn detail_levels(&self) -> Option<u32> {
        self.needs.levels().filter(|_| !self.planes.is_resting())
    }

    /// Plans the tokens of the frame of `at` by its `detail`, for the gaze that the newest [`plan_frame`](Self::plan_frame) kept.
    pub(crate) fn plan_by_detail(
        &mut self,
        detail: &Detail,
        changed_frame: &[u64],
        at: FrameTime,
        shape: PyramidShape,
    ) {
        let (Some(gaze), Needs::Plan(demand)) = (self.gaze_to_plan.take(), &mut self.needs) else {
            return;
        };
        let has_changed = demand.note(detail, changed_frame, at, gaze.relevance.as_ref());
        if let Some(planned) = &mut self.planned
            && !has_changed
            && planned.gaze.foci() == gaze.foci()
        {
            planned.gaze = gaze;
            return;
        }
        let before = self.planned.as_ref().map(|_| self.planes.plan());
        let plan = self.spec.plan_by(&gaze, shape, before, Some(demand));
        match &mut self.planned {
            Some(planned)
                if plan == *self.planes.plan() && planned.gaze.relevance == gaze.relevance =>
            {
                planned.gaze = gaze;
            }
            planned => {
                self.planes.set_plan(plan, shape.extent());
                let (since_frame, is_afresh) = (at.frame_seq, planned.is_none());
                *planned = Some(PlanInput { gaze, since_frame, is_afresh });
            }
        }
    }

    fn plan(&self, gaze: &Gaze, shape: PyramidShape) -> TokenPlan {
        // While the same map leads, the plan keeps what it can of the plan before, against noise.
        let has_same_leader = |planned: &&PlanInput| {
            let reason = |gaze: &Gaze| gaze.leading_reason();
            reason(gaze).is_some() && reason(&planned.gaze) == reason(gaze)
        };
        let before = self.planned.as_ref().filter(has_same_leader).map(|_| self.planes.plan());
        self.spec.plan(gaze, shape, before)
    }
}

impl<S: Sink> View<S> {
    /// Publishes the tokens of the newest frame.
    pub(crate) fn publish(&mut self, stamp: &FrameStamp, changes: &FrameChanges<'_>) {
        let (Some(controller), Some(planned)) = (&self.controller, &self.planned) else { return };
        if let Needs::Plan(demand) = &mut self.needs {
            demand.deliver(self.planes.plan());
        }
        let relevance = planned.gaze.relevance.as_ref().map(|relevance| &relevance.map);
        self.planes.record(changes.shape.extent(), changes.tracker, relevance);
        if let Some(scene) = controller.scene() {
            self.channels.update(scene);
        }
        let extent = changes.shape.extent();
        self.depth.measure(changes.depth, self.planes.records(), extent, planned.since_frame);
        self.tiles.clear();
        if self.spec.publishes_tiles() {
            let changed = changes.tracker.changed_frames().iter();
            self.tiles.extend(changed.map(|frame| self.masked_since.max(*frame)));
        }
        self.sink.publish(&SampledFrame {
            stamp: *stamp,
            gaze: &planned.gaze,
            is_settled: controller.is_settled(),
            asked_ns: self.asked_ns,
            plan_since: planned.since_frame,
            is_planned_afresh: planned.is_afresh && planned.since_frame == stamp.frame_seq,
            changes,
            planes: &self.planes,
            channels: &self.channels,
            depth: &self.depth,
            tiles: &self.tiles,
        });
    }
}

impl std::fmt::Debug for ViewBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewBuilder").field("kind", &self.kind).finish_non_exhaustive()
    }
}
