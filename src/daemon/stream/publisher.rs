//! Where a view of the daemon publishes: its ring, those who wait for it, and its clients.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{ServedView, StreamError, ViewPace, keeps_plans};
use crate::channel::{ViewChannel, ViewUpdate};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::rate::RateLimit;
use foveate_engine::{SampledFrame, Sink, View, ViewSpec};
use foveate_ring::{State, Waker, Writer};
use foveate_stats::{NoticeCounts, StreamCounters};

/// What readers of a segment are told when the stream goes on in another.
pub const REPLACED: &str = "the stream goes on in a new segment";

/// What readers of a view are told that publishes only when it is read, and is not.
const UNREAD: &str = "nobody reads the view: it publishes when somebody does";

/// What a view keeps whatever becomes of its ring and of its stream.
#[derive(Debug)]
pub(super) struct Seat {
    name: String,
    slot_count: usize,
    channel: ViewChannel,
    pace: ViewPace,
    /// `None` where all frames are published.
    limit: Option<RateLimit>,
    counters: Arc<StreamCounters>,
}

/// Publishes the token frames of one view.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) seat: Seat,
    writer: Writer,
    waker: Waker,
    /// The newest fixation that was counted; 0 before the first.
    counted_fixation: u64,
    /// Whether it is at rest because nobody reads it.
    is_unread: bool,
    /// Whether its stream gives no frames, and says why.
    is_held_up: bool,
}

impl Seat {
    pub(super) fn new(
        view: &ServedView,
        channel: ViewChannel,
        counters: &Arc<StreamCounters>,
    ) -> Self {
        let (pace, counters) = (ViewPace::default(), Arc::clone(counters));
        let mut seat =
            Self { name: String::new(), slot_count: 0, channel, pace, limit: None, counters };
        seat.change(view);
        seat
    }

    /// Is that of `view` from now on.
    pub(super) fn change(&mut self, view: &ServedView) {
        self.name.clone_from(&view.name);
        self.slot_count = view.slot_count;
        self.channel.set_keeps_plans(keeps_plans(&view.spec));
        self.set_pace(view.pace);
    }

    /// Publishes other frames from the next one on.
    pub(super) fn set_pace(&mut self, pace: ViewPace) {
        self.pace = pace;
        self.limit = pace.interval.map(RateLimit::new);
    }

    /// The view that sits here, which wants `spec`.
    pub(super) fn served(&self, spec: &ViewSpec) -> ServedView {
        let Self { name, slot_count, pace, .. } = self;
        ServedView { name: name.clone(), spec: spec.clone(), slot_count: *slot_count, pace: *pace }
    }

    /// Wakes the readers of `writer`'s segment.
    pub(super) fn waker(&self, writer: &Writer) -> Result<Waker, StreamError> {
        waker(&self.name, &self.channel, writer)
    }
}

/// Wakes the readers of `writer`'s segment, and those who subscribe to the view.
pub(super) fn waker(
    view: &str,
    channel: &ViewChannel,
    writer: &Writer,
) -> Result<Waker, StreamError> {
    Waker::new(writer, channel.subscribers())
        .map_err(|source| StreamError::Ring { view: view.to_owned(), source })
}

/// Takes the newest feedback of the clients of `view`. What was said of a picture of another extent means nothing in this one.
pub(super) fn take_feedback(view: &mut View<Publisher>, extent: Extent, at: FrameTime) {
    if view.planes().is_resting() {
        return;
    }
    if let Some(post) = view.sink.seat.channel.newest_feedback().filter(|post| post.image == extent)
    {
        view.hear(&post.feedback, at, post.at_ns);
    }
}

impl Publisher {
    pub(super) fn new(seat: Seat, writer: Writer, waker: Waker) -> Self {
        let (counted_fixation, is_unread, is_held_up) = (0, false, false);
        Self { seat, writer, waker, counted_fixation, is_unread, is_held_up }
    }

    /// Publishes what `view` is from now on, in another ring; that of before comes back.
    pub(super) fn start_anew(&mut self, view: &ServedView, writer: Writer) -> Writer {
        self.seat.change(view);
        self.counted_fixation = 0;
        self.move_to(writer)
    }

    /// Publishes in another ring from now on; readers of the one before, which comes back, are told.
    pub(super) fn move_to(&mut self, writer: Writer) -> Writer {
        self.writer.set_state(State::Ended, REPLACED);
        self.waker.wake();
        self.waker.replace_segment(&writer);
        std::mem::replace(&mut self.writer, writer)
    }

    /// Identity of its segment.
    pub(super) fn epoch(&self) -> u64 {
        self.writer.epoch()
    }

    /// A descriptor of its segment, and the epoch.
    pub(super) fn segment(&self) -> Result<(OwnedFd, u64), StreamError> {
        let refused = |source| StreamError::Ring { view: self.seat.name.clone(), source };
        Ok((self.writer.reader_fd().map_err(refused)?, self.writer.epoch()))
    }

    /// Whether it publishes the frame of `at`. The first one of a segment it does.
    pub(super) fn takes(&mut self, at: FrameTime) -> bool {
        let is_first = self.writer.published() == 0;
        let counters = self.seat.channel.counters();
        let is_read = !self.seat.pace.when_read || 0 < counters.subscribers.get();
        if !is_read && !is_first {
            counters.frames_unread.add(1);
            self.set_unread(true);
            return false;
        }
        let is_due = self.seat.limit.as_mut().is_none_or(|limit| limit.takes(at.time_ns));
        if !is_due && !is_first {
            counters.frames_skipped.add(1);
        }
        self.set_unread(false);
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
        self.writer.set_state(state, reason);
        self.waker.wake();
    }
}

/// What became of notices; where a thread sends them, up to a frame before.
fn notices(waker: &Waker) -> NoticeCounts {
    let counters = waker.counters();
    NoticeCounts {
        sent: counters.notices_sent.get(),
        skipped: counters.notices_skipped.get(),
        subscribers_gone: counters.subscribers_dropped.get(),
    }
}

impl Sink for Publisher {
    fn publish(&mut self, frame: &SampledFrame<'_>) {
        let Self { seat: Seat { channel, counters, .. }, writer, waker, counted_fixation, .. } =
            self;
        let fixation = frame.gaze.fixation.id;
        // The first one is no saccade. Another picture may have moved it, too.
        let before = std::mem::replace(counted_fixation, fixation);
        channel.counters().saccades.add(fixation.saturating_sub(before.max(1)));
        channel.update(&ViewUpdate {
            frame_seq: frame.stamp.frame_seq,
            shape: frame.shape,
            gaze: frame.gaze,
            plan: frame.plan(),
            plan_since: frame.plan_since,
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
