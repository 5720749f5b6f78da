//! One view of a stream: where it looks, and the ring that it is published in.

use std::os::fd::OwnedFd;

use bytemuck::Zeroable;

use super::source::Source;
use super::{StreamError, ViewPace, ViewPlan};
use crate::link::{Outlook, ViewLink};
use crate::retina::{ViewSample, ViewSpec};
use foveate_core::backend::Backend;
use foveate_core::camera::Camera;
use foveate_core::frame::{FrameKind, FrameStamp};
use foveate_core::gaze::controller::{Controller, Policy};
use foveate_core::gaze::moment::Moment;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Gaze};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::rate::RateLimit;
use foveate_ring::{SegmentSpec, State, TokenFrame, TokenRecord, Waker, Writer};
use foveate_stats::NoticeCounts;

/// What readers of a segment are told when the stream goes on in another.
pub const REPLACED: &str = "the stream goes on in a new segment";

/// What readers of a view are told that publishes only when it is read, and is not.
const UNREAD: &str = "nobody reads the view: it publishes when somebody does";

/// What every part of the image has where all matter alike.
const EVEN_RELEVANCE: f32 = 1.0;

/// One view, its clients, and the ring that it is published in.
#[derive(Debug)]
pub(super) struct View {
    pub(super) plan: ViewPlan,
    link: ViewLink,
    /// What was made for it before it joined.
    arrival: Option<Arrival>,
    /// `None` until its first frame.
    live: Option<LiveView>,
    /// `None` where all frames are published.
    limit: Option<RateLimit>,
    /// Whether it is at rest because nobody reads it.
    is_unread: bool,
    /// Whether its stream gives no frames, and says why.
    is_held_up: bool,
}

/// The ring of a view that joins a running stream.
#[derive(Debug)]
pub(super) struct Arrival {
    extent: Extent,
    writer: Writer,
    /// `None` where that of the ring before goes on.
    waker: Option<Waker>,
}

#[derive(Debug)]
struct LiveView {
    gaze: Controller,
    /// What the token plan was made for; `None` before the first plan.
    planned: Option<Planned>,
    /// When the newest feedback came, on CLOCK_MONOTONIC; 0 before any.
    heard_ns: u64,
    /// When the feedback came that led to the fixation; 0 where none did.
    asked_ns: u64,
    /// The newest fixation that was counted.
    counted_fixation: u64,
    writer: Writer,
    waker: Waker,
    records: Vec<TokenRecord>,
}

/// What a token plan was made for.
#[derive(Debug)]
struct Planned {
    gaze: Gaze,
    /// The first frame that is sampled so.
    since_frame: u64,
}

impl View {
    /// A view that has published nothing.
    pub(super) fn new(plan: ViewPlan, link: ViewLink) -> Self {
        let limit = plan.pace.interval.map(RateLimit::new);
        Self { plan, link, arrival: None, live: None, limit, is_unread: false, is_held_up: false }
    }

    /// Whether it has published.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// What the retina must know of it.
    pub(super) fn spec(&self) -> ViewSpec {
        spec(&self.plan)
    }

    /// The segment that it needs for frames of `kind`.
    pub(super) fn segment_spec(
        &self,
        stream: &str,
        kind: FrameKind,
        backend: &Backend,
        camera: Option<&Camera>,
    ) -> SegmentSpec {
        segment_spec(&self.plan, stream, kind, backend, camera)
    }

    /// Publishes in a new segment from the frame of `at` on; readers of the old one are told.
    pub(super) fn open_segment(
        &mut self,
        spec: &SegmentSpec,
        at: Moment,
    ) -> Result<(), StreamError> {
        let extent = spec.extent;
        let writer = create_ring(spec)?;
        // Made for frames of another kind; but a view that has become another one looks anew.
        let is_refitted = self.arrival.take().is_some_and(|arrival| arrival.waker.is_none());
        match &mut self.live {
            Some(live) if !is_refitted => {
                live.move_to(writer);
                live.gaze.resize(extent, at);
                live.planned = None;
            }
            Some(_) => self.settle(Arrival { extent, writer, waker: None }, at),
            None => {
                let waker = Some(self.create_waker(&writer)?);
                self.settle(Arrival { extent, writer, waker }, at);
            }
        }
        Ok(())
    }

    /// What was made for it before it joined.
    pub(super) fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = Some(arrival);
    }

    /// Begins to publish with the frame of `at`, if it has joined since the frame before. Says whether it did.
    pub(super) fn arrive(&mut self, at: Moment) -> bool {
        let Some(arrival) = self.arrival.take() else { return false };
        self.settle(arrival, at);
        true
    }

    /// Publishes in the ring of `arrival` from now on, and looks anew.
    fn settle(&mut self, arrival: Arrival, at: Moment) {
        let Arrival { extent, writer, waker } = arrival;
        let live = match (self.live.take(), waker) {
            (Some(mut live), _) => {
                live.move_to(writer);
                LiveView::new(&self.plan, extent, at, live.writer, live.waker)
            }
            (None, Some(waker)) => LiveView::new(&self.plan, extent, at, writer, waker),
            (None, None) => unreachable!("a view that was never live comes with a waker"),
        };
        self.live = Some(live);
    }

    /// Follows another plan from the next frame on, in the ring of `made`, if it was made for frames of its kind.
    pub(super) fn refit(&mut self, plan: ViewPlan, made: Option<(Extent, Writer)>) {
        self.set_pace(plan.pace);
        self.link.set_keeps_plans(plan.policy == Policy::Feedback);
        self.plan = plan;
        if let Some((extent, writer)) = made {
            // One that has not arrived yet keeps the waker that came with it.
            let mut waker = self.arrival.take().and_then(|arrival| arrival.waker);
            if let Some(waker) = &mut waker {
                waker.replace_segment(&writer);
            }
            self.arrival = Some(Arrival { extent, writer, waker });
        }
    }

    /// Publishes other frames from the next one on.
    pub(super) fn set_pace(&mut self, pace: ViewPace) {
        self.plan.pace = pace;
        self.limit = pace.interval.map(RateLimit::new);
    }

    fn create_waker(&self, writer: &Writer) -> Result<Waker, StreamError> {
        let view = &self.plan.name;
        Waker::new(writer, self.link.subscribers())
            .map_err(|source| StreamError::Ring { view: view.clone(), source })
    }

    /// Identity of the segment that it publishes in; `None` before the first frame.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.live.as_ref().map(|live| live.writer.epoch())
    }

    /// The segment that it publishes in, and its epoch; `None` before the first frame.
    pub(super) fn segment(&self) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        let Some(live) = &self.live else { return Ok(None) };
        let refused = |source| StreamError::Ring { view: self.plan.name.clone(), source };
        Ok(Some((live.writer.reader_fd().map_err(refused)?, live.writer.epoch())))
    }

    /// Whether it publishes the frame of `at`. The first one of a segment it does.
    pub(super) fn takes(&mut self, at: Moment) -> bool {
        let is_first = self.arrival.is_some() || self.live.as_ref().is_none_or(LiveView::is_fresh);
        let is_read = !self.plan.pace.when_read || 0 < self.link.counters().subscribers.get();
        self.set_unread(!is_read && !is_first);
        if self.is_unread {
            self.link.counters().frames_unread.add(1);
            return false;
        }
        let is_due = self.limit.as_mut().is_none_or(|limit| limit.takes(at.time_ns));
        if !is_due && !is_first {
            self.link.counters().frames_skipped.add(1);
        }
        is_due || is_first
    }

    /// Tells its readers, who come later, that it is at rest, or that it is no more.
    fn set_unread(&mut self, is_unread: bool) {
        let was_unread = std::mem::replace(&mut self.is_unread, is_unread);
        if was_unread != is_unread && !self.is_held_up {
            self.resume();
        }
    }

    /// Its stream gives frames: tells its readers what becomes of it.
    pub(super) fn resume(&mut self) {
        self.is_held_up = false;
        let (state, reason) =
            if self.is_unread { (State::Stalled, UNREAD) } else { (State::Live, "") };
        self.tell(state, reason);
    }

    /// Its stream gives no frames: tells its readers why.
    pub(super) fn hold_up(&mut self, state: State, reason: &str) {
        self.is_held_up = true;
        self.tell(state, reason);
    }

    fn tell(&mut self, state: State, reason: &str) {
        if let Some(live) = &mut self.live {
            live.writer.set_state(state, reason);
            live.waker.wake();
        }
    }

    /// Whether it looks at the coarse level.
    pub(super) fn wants_coarse(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.gaze.wants_coarse())
    }

    /// Where it looks; `None` before the first frame.
    pub(super) fn gaze(&self) -> Option<&Gaze> {
        self.live.as_ref().map(|live| live.gaze.gaze())
    }

    /// Decides where the frame of `at` is looked at, from what its clients said and what was `seen` of the frame before, and
    /// plans what to sample of it.
    pub(super) fn look(
        &mut self,
        at: Moment,
        seen: Option<(&CoarseLevel, u64)>,
        shape: PyramidShape,
        sample: &mut ViewSample,
    ) {
        let Some(live) = &mut self.live else { return };
        let id_before = live.gaze.gaze().fixation.id;
        // What was said of a picture of another extent means nothing in this one.
        if let Some(post) = self.link.newest_post().filter(|post| post.image == shape.extent()) {
            live.gaze.take(&post.feedback, at);
            live.heard_ns = post.at_ns;
        }
        live.gaze.step(at, seen);
        let fixation = live.gaze.gaze().fixation;
        // Another picture may have moved it, too.
        let saccades = fixation.id.saturating_sub(live.counted_fixation);
        self.link.counters().saccades.add(saccades);
        live.counted_fixation = fixation.id;
        if fixation.id != id_before {
            let is_asked = matches!(fixation.reason, FixationReason::Look | FixationReason::Attend);
            live.asked_ns = if is_asked { live.heard_ns } else { 0 };
        }
        let plan_since = live.replan(&self.plan, shape, at, sample);
        self.link.show(&Outlook {
            frame_seq: at.frame_seq,
            shape,
            gaze: live.gaze.gaze(),
            plan: sample.plan(),
            plan_since,
            is_settled: live.gaze.is_settled(),
        });
    }

    /// Publishes what was sampled of the frame of `stamp`.
    pub(super) fn publish(
        &mut self,
        source: &Source,
        dirty_tiles: u32,
        stamp: &FrameStamp,
        sample: &ViewSample,
    ) {
        let Some(live) = &mut self.live else { return };
        live.update_records(source, sample);
        let shape = source.shape();
        let sample_bound = source.books().sample_bound();
        let Gaze { fixation, relevance } = live.gaze.gaze();
        live.writer.publish(&TokenFrame {
            stamp: *stamp,
            fixation: *fixation,
            relevance_frame: relevance.as_ref().map_or(0, |relevance| relevance.frame_seq),
            asked_ns: live.asked_ns,
            sample_bound: u32::from(sample_bound),
            rgb_bound: source.kind().color.rgb_bound(sample_bound),
            dirty_tiles,
            tile_count: super::count_u32(shape.extent().in_cells(TILE_SIDE).area()),
            records: &live.records,
            pixels: sample.pixels(),
            versions: sample.versions(),
        });
        self.link.counters().frames_published.add(1);
        live.waker.wake();
        self.link.show_notices(live.notices());
    }
}

impl Arrival {
    /// The ring of `view`.
    pub(super) fn prepare(view: &View, spec: &SegmentSpec) -> Result<Self, StreamError> {
        let writer = create_ring(spec)?;
        let waker = view.create_waker(&writer)?;
        Ok(Self { extent: spec.extent, writer, waker: Some(waker) })
    }
}

/// What the retina must know of a view.
pub(super) fn spec(plan: &ViewPlan) -> ViewSpec {
    ViewSpec { format: plan.format, capacity: plan.budget }
}

/// The segment that a view needs for frames of `kind`.
pub(super) fn segment_spec(
    plan: &ViewPlan,
    stream: &str,
    kind: FrameKind,
    backend: &Backend,
    camera: Option<&Camera>,
) -> SegmentSpec {
    SegmentSpec {
        stream: stream.to_owned(),
        view: plan.name.clone(),
        layout: plan.layout.name().to_owned(),
        format: plan.format,
        capacity: plan.budget,
        extent: kind.extent,
        pixel_format: kind.format.name().to_owned(),
        backend: backend.kind,
        device: backend.device.clone(),
        slot_count: plan.slot_count,
        camera: camera.map(|camera| camera.facts(kind.extent)),
    }
}

pub(super) fn create_ring(spec: &SegmentSpec) -> Result<Writer, StreamError> {
    Writer::create(spec).map_err(|source| StreamError::Ring { view: spec.view.clone(), source })
}

impl LiveView {
    fn new(plan: &ViewPlan, extent: Extent, at: Moment, writer: Writer, waker: Waker) -> Self {
        let gaze = Controller::new(plan.policy.clone(), plan.parameters, extent, at);
        Self {
            counted_fixation: gaze.gaze().fixation.id,
            gaze,
            planned: None,
            heard_ns: 0,
            asked_ns: 0,
            writer,
            waker,
            records: Vec::with_capacity(plan.budget),
        }
    }

    /// Publishes in another ring from now on; readers of the one before are told.
    fn move_to(&mut self, writer: Writer) {
        self.writer.set_state(State::Ended, REPLACED);
        self.waker.wake();
        self.waker.replace_segment(&writer);
        self.writer = writer;
    }

    /// Whether nothing was published in its segment.
    fn is_fresh(&self) -> bool {
        self.writer.published() == 0
    }

    /// What became of notices; where a thread sends them, up to a frame before.
    fn notices(&self) -> NoticeCounts {
        let counters = self.waker.counters();
        NoticeCounts {
            sent: counters.notices_sent.get(),
            skipped: counters.notices_skipped.get(),
            subscribers_gone: counters.subscribers_dropped.get(),
        }
    }

    /// Makes a new plan where the gaze has moved, and returns since which frame it is the plan.
    fn replan(
        &mut self,
        plan: &ViewPlan,
        shape: PyramidShape,
        at: Moment,
        sample: &mut ViewSample,
    ) -> u64 {
        let gaze = self.gaze.gaze();
        if let Some(planned) = &self.planned
            && planned.gaze == *gaze
        {
            return planned.since_frame;
        }
        let ViewPlan { layout, budget, format, .. } = plan;
        let fixation = (gaze.fixation.x, gaze.fixation.y);
        let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
        sample.set_plan(layout.plan(shape, format.patch_side, *budget, fixation, relevance));
        self.planned = Some(Planned { gaze: gaze.clone(), since_frame: at.frame_seq });
        at.frame_seq
    }

    /// Writes the records of the tokens that were sampled. What is not stale is as it was, and so is its record.
    #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
    fn update_records(&mut self, source: &Source, sample: &ViewSample) {
        let (shape, books) = (source.shape(), source.books());
        let relevance = self.gaze.gaze().relevance.as_ref().map(|relevance| &relevance.map);
        let TokenPlan { patch_side, tokens } = sample.plan();
        self.records.resize(tokens.len(), TokenRecord::zeroed());
        for index in sample.stale().iter().map(|&index| index as usize) {
            let region = tokens[index].pixel_box(shape, *patch_side);
            let weight = relevance.map_or(EVEN_RELEVANCE, |relevance| {
                relevance.greatest(shape.extent(), region) as f32
            });
            let changed_frame = books.changed_frame(region);
            self.records[index] =
                TokenRecord::new(tokens[index], shape, *patch_side, changed_frame, weight);
        }
    }
}
