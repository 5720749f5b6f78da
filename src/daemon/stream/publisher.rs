//! Publishing of one view: its ring, its waker, and the channel to its clients.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::watch::timed;
use super::{ServedView, StreamError, ViewPace, keeps_plans};
use foveate_core::error::chain;
use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::{FrameStamp, FrameTime, FrameTimes};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze};
use foveate_core::geometry::region::Region;
use foveate_core::rate::RateLimit;
use foveate_engine::{SampledFrame, Sink, View};
use foveate_gaze::compensation::compensated;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::motion::Motions;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{Items, State, Waker, Writer};
use foveate_server::channel::{FEEDBACK_PENDING_MAX, REPLACED, ViewChannel, ViewUpdate};
use foveate_stats::{NoticeCounts, StreamCounters};

/// Most frames in a row that an opened view leaves out while the frame loop is late: a stream that always is late serves it, too.
pub(super) const SHED_IN_ROW_MAX: u32 = 29;

/// Reason given while a view that publishes only when read has no readers.
const UNREAD: &str = "waiting for a subscriber";

/// Publishes the token frames of one view, in one ring after the other.
#[derive(Debug)]
pub(super) struct Publisher {
    name: String,
    slot_count: usize,
    pub(super) channel: ViewChannel,
    pace: ViewPace,
    /// Most frames a second; `None` publishes every frame.
    limit: Option<RateLimit>,
    counters: Arc<StreamCounters>,
    /// `None` before the first frame of the stream.
    ring: Option<PublishedRing>,
    /// Number of the newest fixation counted; 0 before the first.
    counted_fixation: u64,
    /// Whether publishing pauses because the view has no reader.
    is_unread: bool,
    /// Whether the stream has stalled or ended.
    is_interrupted: bool,
    /// Frames that are published whatever the pace, because older ones must not stay in the ring.
    renewals: usize,
    /// Whether the newest frame is published whatever the pace and the load.
    is_needed: bool,
    /// Frames left out in a row because the frame loop was late.
    shed_in_row: u32,
}

#[derive(Debug)]
struct PublishedRing {
    writer: Writer,
    waker: Waker,
}

impl PublishedRing {
    fn set_state(&mut self, state: State, reason: &str) {
        self.writer.set_state(state, reason);
        self.waker.wake();
    }
}

/// Applies the feedback of the clients of `view`, except what refers to a picture of another extent and maps whose time is over.
/// `path` is of the frames that it may refer to. A new recorder, whose log begins, and a reader that asks for it get a plan that depends
/// on nothing before.
pub(super) fn take_feedback(
    view: &mut View<Publisher>,
    extent: Extent,
    at: FrameTime,
    path: MotionPath<'_>,
) {
    if view.planes().is_resting() {
        return;
    }
    let begins_record = view.sink.channel.begins_record();
    if view.sink.channel.takes_refresh(at.time_ns) || begins_record {
        view.forget_plan();
    }
    if let Some(oldest) = path.times.oldest() {
        view.sink.channel.set_oldest_frame(oldest);
    }
    // Messages that arrive meanwhile wait for the next frame.
    for _ in 0..FEEDBACK_PENDING_MAX {
        let Some(next) = view.sink.channel.next_feedback() else { return };
        if next.image != extent {
            continue;
        }
        if is_late(&next.feedback, at, path.times) {
            view.sink.channel.counters().injections_late.add(1);
        } else {
            let arrived_before = || path.arrivals.first_since(next.at_ns).unwrap_or(at.frame_seq);
            let moved_to = next.is_moved.then(arrived_before);
            let (parameters, to_come) = (&view.spec().parameters, (extent, at.frame_seq));
            let feedback = compensated(next.feedback, moved_to, parameters, to_come, path.motions);
            view.take_feedback(&feedback, at, next.at_ns);
        }
    }
}

/// What a stream knows of the times and the motion of earlier frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct MotionPath<'a> {
    pub(super) times: &'a FrameTimes,
    /// Arrival times of the same frames.
    pub(super) arrivals: &'a FrameTimes,
    /// Motions of the picture; `None` if no reader asks for them.
    pub(super) motions: Option<&'a Motions>,
}

/// Whether the feedback is an injected map that has expired at `at`; so has every map of a frame that is no longer known.
fn is_late(feedback: &Feedback, at: FrameTime, times: &FrameTimes) -> bool {
    let Feedback::Inject(injection) = feedback else { return false };
    times
        .time_ns(injection.frame_seq())
        .is_none_or(|made_ns| injection.is_over(made_ns, at.time_ns))
}

impl Publisher {
    /// The publisher of `view` before it has a ring.
    pub(super) fn new(
        view: &ServedView,
        channel: ViewChannel,
        counters: &Arc<StreamCounters>,
    ) -> Self {
        let mut publisher = Self {
            name: String::new(),
            slot_count: 0,
            channel,
            pace: ViewPace::default(),
            limit: None,
            counters: Arc::clone(counters),
            ring: None,
            counted_fixation: 0,
            is_unread: false,
            is_interrupted: false,
            renewals: 0,
            is_needed: false,
            shed_in_row: 0,
        };
        publisher.change(view);
        publisher
    }

    /// Changes to the settings of `view`.
    pub(super) fn change(&mut self, view: &ServedView) {
        self.name.clone_from(&view.name);
        self.slot_count = view.slot_count;
        self.channel.set_keeps_plans(keeps_plans(&view.spec));
        self.set_pace(view.pace);
        self.counted_fixation = 0;
    }

    /// Changes which frames are published, from the next one on.
    pub(super) fn set_pace(&mut self, pace: ViewPace) {
        self.pace = pace;
        self.limit = pace.interval.map(RateLimit::new);
    }

    /// The view that it publishes, which samples by `spec`.
    pub(super) fn served(&self, spec: &ViewSpec) -> ServedView {
        let Self { name, slot_count, pace, .. } = self;
        ServedView { name: name.clone(), spec: spec.clone(), slot_count: *slot_count, pace: *pace }
    }

    /// Continues in the ring of `writer`. The readers of the ring before are informed, and its writer is returned.
    pub(super) fn move_to(&mut self, writer: Writer) -> Result<Option<Writer>, StreamError> {
        let Some(ring) = &mut self.ring else {
            let refused = |source| StreamError::Ring { view: self.name.clone(), source };
            let waker = Waker::new(&writer, self.channel.subscribers()).map_err(refused)?;
            self.ring = Some(PublishedRing { writer, waker });
            return Ok(None);
        };
        ring.set_state(State::Ended, REPLACED);
        ring.waker.replace_segment(&writer);
        Ok(Some(std::mem::replace(&mut ring.writer, writer)))
    }

    /// Name of its view.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a client opened its view.
    pub(super) fn is_opened(&self) -> bool {
        self.channel.is_opened()
    }

    /// Gives subscribers the segment that they do not have yet. If no descriptor is left, a view that a client opened fails, not the
    /// stream.
    pub(super) fn hand_out_segment(&self) -> Result<(), StreamError> {
        if self.epoch() == self.channel.epoch() {
            return Ok(());
        }
        match self.segment() {
            Ok(Some((descriptor, epoch))) => self.channel.set_segment(descriptor, epoch),
            Ok(None) => {}
            Err(error) if self.is_opened() => self.channel.fail(&chain(&error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tells that the view looks where clients asked it to look, from the frame of `stamp` on.
    fn emit_reached(&mut self, gaze: &Gaze, stamp: &FrameStamp) {
        let Self { channel, counters, .. } = self;
        if !counters.events.is_watched() {
            return;
        }
        for fixation in &gaze.fixations {
            let Fixation { id, x, y, since_frame, reason, .. } = *fixation;
            let is_asked = matches!(reason, FixationReason::Look | FixationReason::Attend);
            if !is_asked || since_frame != stamp.frame_seq {
                continue;
            }
            let event = Event {
                kind: EventKind::Reached,
                phase: Phase::Once,
                frame: stamp.frame_seq,
                since_frame,
                region: Some(Region { x0: x, y0: y, x1: x, y1: y }),
                value: id as f64,
            };
            counters.events.add(&event);
            channel.send_event(timed(event, stamp));
        }
    }

    /// Publishes every frame from now on until the ring holds no earlier one, with or without readers.
    pub(super) fn renew(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.writer.erase_earlier();
            self.renewals = self.slot_count;
        }
    }

    /// Epoch of the current segment; `None` before the first.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.ring.as_ref().map(|ring| ring.writer.epoch())
    }

    /// A descriptor of its segment, and the epoch; `None` before the first.
    pub(super) fn segment(&self) -> Result<Option<(OwnedFd, u64)>, StreamError> {
        let Some(PublishedRing { writer, .. }) = &self.ring else { return Ok(None) };
        let refused = |source| StreamError::Ring { view: self.name.clone(), source };
        Ok(Some((writer.reader_fd().map_err(refused)?, writer.epoch())))
    }

    /// Whether the view publishes the frame of `at`; always true for the first frame of a segment.
    pub(super) fn takes(&mut self, at: FrameTime) -> bool {
        self.is_needed = 0 < self.renewals;
        if self.is_needed {
            self.renewals -= 1;
            return true;
        }
        let is_first = self.ring.as_ref().is_none_or(|ring| ring.writer.published() == 0);
        self.is_needed = is_first;
        let counters = self.channel.counters();
        let is_read = !self.pace.when_read || 0 < counters.subscribers.get();
        if !is_read && !is_first {
            counters.frames_unread.add(1);
            self.set_unread(true);
            return false;
        }
        // After frames were shed, the next one is due whatever the limit.
        let limit = self.limit.as_mut().filter(|_| self.shed_in_row == 0);
        let is_due = limit.is_none_or(|limit| limit.takes(at.time_ns));
        if !is_due && !is_first {
            counters.frames_skipped.add(1);
        }
        self.set_unread(false);
        is_due || is_first
    }

    /// Frames that it has left out in a row.
    pub(super) fn shed_in_row(&self) -> u32 {
        self.shed_in_row
    }

    /// Whether the view skips a frame that it would [take](Self::takes), because the frame loop `is_late`. It never skips the first frame of
    /// a segment, nor a frame that new masks need.
    pub(super) fn sheds(&mut self, is_late: impl Fn() -> bool) -> bool {
        let sheds = !self.is_needed && is_late();
        self.shed_in_row = if sheds { self.shed_in_row + 1 } else { 0 };
        self.channel.counters().frames_shed.add(sheds.into());
        sheds
    }

    /// Updates the state in the segment when the view loses its last reader or gains one.
    fn set_unread(&mut self, is_unread: bool) {
        let was_unread = std::mem::replace(&mut self.is_unread, is_unread);
        if was_unread != is_unread && !self.is_interrupted {
            self.resume();
        }
    }

    /// Ends an [`interrupt`](Self::interrupt): the stream delivers frames again.
    pub(super) fn resume(&mut self) {
        self.is_interrupted = false;
        let (state, reason) =
            if self.is_unread { (State::Stalled, UNREAD) } else { (State::Live, "") };
        self.set_state(state, reason);
    }

    /// Informs readers that the stream has stalled or ended, and why.
    pub(super) fn interrupt(&mut self, state: State, reason: &str) {
        self.is_interrupted = true;
        self.set_state(state, reason);
    }

    fn set_state(&mut self, state: State, reason: &str) {
        if let Some(ring) = &mut self.ring {
            ring.set_state(state, reason);
        }
    }
}

/// Counts of notices, up to the frame before if a thread sends them.
fn notices(waker: &Waker) -> NoticeCounts {
    let counters = waker.counters();
    NoticeCounts {
        sent: counters.notices_sent.get(),
        skipped: counters.notices_skipped.get(),
        subscribers_gone: counters.subscribers_dropped.get(),
    }
}

impl Sink for Publisher {
    fn begin(&mut self) -> Option<Items> {
        self.ring.as_mut().map(|ring| ring.writer.begin())
    }

    fn publish(&mut self, frame: &SampledFrame<'_>) {
        self.emit_reached(frame.gaze, &frame.stamp);
        let Self { channel, counters, ring: Some(ring), counted_fixation, .. } = self else {
            return;
        };
        let PublishedRing { writer, waker } = ring;
        let fixation = frame.gaze.newest().id;
        // The first fixation does not count as a saccade; a change of the picture may also have moved it.
        let before = std::mem::replace(counted_fixation, fixation);
        let counts = channel.counters();
        counts.saccades.add(fixation.saturating_sub(before.max(1)));
        counts.tokens_published.add(frame.planes.records().len() as u64);
        counts.tokens_kept.add(frame.planes.kept() as u64);
        counts.tokens_in_place.add(frame.planes.in_place() as u64);
        channel.update(&ViewUpdate {
            frame_seq: frame.stamp.frame_seq,
            shape: frame.changes.shape,
            gaze: frame.gaze,
            plan: frame.planes.plan(),
            plan_since: frame.plan_since,
            is_planned_afresh: frame.is_planned_afresh,
            is_settled: frame.is_settled,
        });
        counters.stages.publish.during(|| {
            writer.publish(&frame.token_frame());
            channel.counters().frames_published.add(1);
            waker.wake();
        });
        channel.set_notices(notices(waker));
    }
}
