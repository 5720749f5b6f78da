//! The channel between a view in its frame loop and the server: everything that crosses between their threads.
//!
//! ```text
//!  frame loop                                              server's thread
//!  ViewChannel.next_feedback     <--  lock-free ring  <--  ClientChannel.send_feedback
//!  ViewChannel.subscribers       <--  bounded queue   <--  ClientChannel.add_subscriber
//!  ViewChannel.update            -->  history         -->  ClientChannel.plan_of, .fixations, .settled
//!                                -->  lock-free ring  -->  ClientChannel.gazes
//!  ViewChannel.send_event        -->  lock-free ring  -->  ClientChannel.events
//!  ViewChannel.set_segment, fail -->  short locks     -->  ClientChannel.segment, .end_reason
//! ```
//!
//! The frame loop never waits for a reader of the history: if the server holds that lock, the update is published a frame later. The
//! locks of segment, end and configuration are taken at rare events and are never held across I/O.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use ringbuf::traits::{Consumer, Observer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};

use self::outbox::{Inbox, Outbox, outbox};
use crate::memory::{MemoryWatch, WatchedMemory};
use foveate::messages::{Epoch, ViewName};
use foveate_config::ViewConfig;
use foveate_core::event::Event;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, Fixations, Gaze};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::adaptive::demand::REFRESH_PAUSE_NS;
use foveate_gaze::relevance::injection::INJECTED_MAX;
use foveate_log::redact::redacted;
use foveate_stats::{NoticeCounts, ViewCounters};

pub mod outbox;

/// Reason given to the readers of a segment when the stream continues in another.
pub const REPLACED: &str = "the stream continues in a new segment";

/// Frames back from the newest whose token plans are kept in any case.
pub const FRAMES_KEPT: u64 = 64;

/// Tokens of older plans that are kept for as long as feedback may name their frames: 6 MB a view.
const OLDER_TOKENS_MAX: usize = 1 << 18;

/// Messages of clients in the feedback queue of a view; more are refused.
pub const FEEDBACK_PENDING_MAX: usize = 64;

/// Withdrawals in that queue besides: each is of at least one map, which is in the queue or with the view.
const WITHDRAWALS_PENDING_MAX: usize = FEEDBACK_PENDING_MAX + INJECTED_MAX;

/// Connections in the subscriber queue of a view; more are refused.
pub const SUBSCRIBERS_PENDING_MAX: usize = 64;

/// Fixations kept in a scanpath.
const SCANPATH_MAX: usize = 16;

/// Gaze changes in the queue to the server; more are dropped and counted.
const GAZES_PENDING_MAX: usize = 256;

/// Events in the queue to the server; more are dropped and counted.
const EVENTS_PENDING_MAX: usize = 256;

/// Feedback on its way to the frame loop.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingFeedback {
    /// Number of this message among those sent to the view, from 1.
    pub ticket: u64,
    /// The message.
    pub feedback: Feedback,
    /// Extent of the image to which the feedback refers, in pixels.
    pub image: Extent,
    /// Arrival on CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Whether the client's ego motion has moved it to the frame that came after its arrival.
    pub is_moved: bool,
}

/// A token plan, and the frame from which it has been in use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanInUse {
    /// `frame_seq` of the first frame sampled by the plan.
    pub(crate) since_frame: u64,
    /// The pyramid that it was made for.
    pub(crate) shape: PyramidShape,
    /// The tokens.
    pub(crate) plan: Arc<TokenPlan>,
}

/// An event, and the capture time of the frame at which it is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedEvent {
    /// The event.
    pub event: Event,
    /// Capture time of the frame on CLOCK_MONOTONIC, in nanoseconds.
    pub capture_ns: u64,
    /// Capture time of the frame on CLOCK_REALTIME, in nanoseconds since 1970.
    pub capture_unix_ns: u64,
}

/// A gaze, and the frame from which it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeChange {
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// The gaze.
    pub gaze: Gaze,
    /// Whether the frame was planned without regard to the plan before.
    pub is_planned_afresh: bool,
}

/// State of a view in the frame that it publishes next.
#[derive(Clone, Copy, Debug)]
pub struct ViewUpdate<'a> {
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// The pyramid that is sampled.
    pub shape: PyramidShape,
    /// The gaze of the view.
    pub gaze: &'a Gaze,
    /// The token plan made for the gaze.
    pub plan: &'a TokenPlan,
    /// `frame_seq` of the first frame sampled by that plan.
    pub plan_since: u64,
    /// Whether the plan begins with this frame, and was made without regard to the plan before.
    pub is_planned_afresh: bool,
    /// Whether the gaze already accounts for the newest feedback.
    pub is_settled: bool,
}

/// A read-only descriptor of the segment that a view publishes in.
#[derive(Clone, Debug)]
pub struct PublishedSegment {
    /// The descriptor.
    pub descriptor: Arc<OwnedFd>,
    /// Random identity of the segment.
    pub epoch: Epoch,
}

/// The two ends of the channel of a view of `stream`: the frame loop's and the server's. If a client opened the view, `opened` watches
/// the memory of its segments.
///
/// # Panics
///
/// If a name is invalid: the configuration was checked before.
pub fn view_channel(
    wakeup: &Arc<EventFd>,
    stream: &str,
    config: ViewConfig,
    opened: Option<Arc<MemoryWatch>>,
) -> (ViewChannel, ClientChannel) {
    channel_pair(Some(Arc::clone(wakeup)), stream, config, opened)
}

fn channel_pair(
    wakeup: Option<Arc<EventFd>>,
    stream: &str,
    config: ViewConfig,
    opened: Option<Arc<MemoryWatch>>,
) -> (ViewChannel, ClientChannel) {
    let keeps_plans = config.gaze.policy.is_feedback();
    let shared = Arc::new(ChannelState::new(stream, config, opened));
    let (feedback_in, feedback_out) =
        HeapRb::new(FEEDBACK_PENDING_MAX + WITHDRAWALS_PENDING_MAX).split();
    let (gazes_in, gazes_out) = outbox(GAZES_PENDING_MAX);
    let (events_in, events_out) = outbox(EVENTS_PENDING_MAX);
    let (subscribers, waiting) = crossbeam_channel::bounded(SUBSCRIBERS_PENDING_MAX);
    let view = ViewChannel {
        shared: Arc::clone(&shared),
        wakeup,
        feedback: feedback_out,
        gazes: gazes_in,
        events: events_in,
        subscribers: waiting.clone(),
        keeps_plans,
        taken: 0,
        published: Latest::default(),
        pending: Latest::default(),
        plans: VecDeque::new(),
        shape: None,
        newest_plan: None,
        recorded_gaze: None,
        begins_record: false,
        refreshed_ns: None,
    };
    let client = ClientChannel {
        shared,
        feedback: Mutex::new((feedback_in, 0)),
        gazes: gazes_out,
        events: events_out,
        subscribers,
        waiting,
    };
    (view, client)
}

/// Shared by both ends.
#[derive(Debug)]
struct ChannelState {
    name: ViewName,
    /// Replaced when an operator's change takes effect.
    config: Mutex<Arc<ViewConfig>>,
    /// `None` before the first frame, and once the view has ended.
    segment: Mutex<Option<PublishedSegment>>,
    /// Why the view must end or has ended.
    end_reason: Mutex<Option<String>>,
    /// Memory of a client that opened the view; `None` for a view of the configuration.
    opened: Option<Arc<MemoryWatch>>,
    /// Memory of the segments of a view that a client opened, including old segments that are still mapped somewhere.
    memory: Mutex<Vec<WatchedMemory>>,
    /// `frame_seq` of the newest frame whose plan is published; 0 before the first.
    newest_planned_frame: AtomicU64,
    /// `frame_seq` of the first frame of the current extent; 0 before the first.
    first_frame: AtomicU64,
    /// `frame_seq` of the newest frame, whether or not its plan is published; 0 before the first.
    newest_frame: AtomicU64,
    /// `frame_seq` of the oldest frame whose motion is known.
    oldest_frame: AtomicU64,
    history: Mutex<ViewHistory>,
    /// Whether a client waits for the history to change.
    is_awaited: AtomicBool,
    /// Whether a reader lacks what the view takes for delivered.
    wants_refresh: AtomicBool,
    counters: ViewCounters,
}

impl ChannelState {
    fn new(stream: &str, config: ViewConfig, opened: Option<Arc<MemoryWatch>>) -> Self {
        let name = ViewName::new(stream, &config.name);
        Self {
            name: name.unwrap_or_else(|error| panic!("{error}")),
            config: Mutex::new(Arc::new(config)),
            segment: Mutex::default(),
            end_reason: Mutex::default(),
            opened,
            memory: Mutex::default(),
            newest_planned_frame: AtomicU64::default(),
            first_frame: AtomicU64::default(),
            newest_frame: AtomicU64::default(),
            oldest_frame: AtomicU64::default(),
            history: Mutex::default(),
            is_awaited: AtomicBool::default(),
            wants_refresh: AtomicBool::default(),
            counters: ViewCounters::default(),
        }
    }

    fn config(&self) -> Arc<ViewConfig> {
        Arc::clone(&self.config.lock())
    }

    /// Ends the view. The daemon drops the segment; readers keep theirs.
    fn mark_ended(&self, reason: &str) {
        *self.end_reason.lock() = Some(redacted(reason));
        *self.segment.lock() = None;
    }
}

/// Published by the frame loop.
#[derive(Debug, Default)]
struct ViewHistory {
    /// The current fixations; empty before the first frame.
    fixations: Fixations,
    /// The newest last, at most [`SCANPATH_MAX`].
    scanpath: VecDeque<Fixation>,
    /// Ticket of the newest feedback that the gaze accounts for.
    settled: u64,
    /// Ascending by frame.
    plans: VecDeque<PlanInUse>,
}

impl ViewHistory {
    /// Drops the plans that only frames before frame `oldest` were sampled by, and older ones than those of the newest frames if they are
    /// many.
    fn forget_plans(&mut self, newest: u64, oldest: u64) {
        let of_newest = newest.saturating_sub(FRAMES_KEPT - 1);
        let mut tokens: usize = self.plans.iter().map(|used| used.plan.tokens.len()).sum();
        while let Some(next) = self.plans.get(1)
            && next.since_frame <= of_newest
            && (next.since_frame <= oldest || OLDER_TOKENS_MAX < tokens)
        {
            tokens -= self.plans.pop_front().map_or(0, |used| used.plan.tokens.len());
        }
    }
}

/// The newest entries of a [`ViewHistory`].
#[derive(Clone, Debug, Default, PartialEq)]
struct Latest {
    fixations: Fixations,
    settled: u64,
}

/// The frame loop's end.
pub struct ViewChannel {
    shared: Arc<ChannelState>,
    wakeup: Option<Arc<EventFd>>,
    feedback: HeapCons<PendingFeedback>,
    gazes: Outbox<GazeChange>,
    events: Outbox<TimedEvent>,
    subscribers: Receiver<OwnedFd>,
    keeps_plans: bool,
    /// Ticket of the newest feedback that was taken.
    taken: u64,
    published: Latest,
    pending: Latest,
    /// Plans yet to be published.
    plans: VecDeque<PlanInUse>,
    /// Pyramid of the newest frame.
    shape: Option<PyramidShape>,
    /// `since_frame` of the newest plan in `plans` or published.
    newest_plan: Option<u64>,
    /// The newest gaze sent to recorders.
    recorded_gaze: Option<Gaze>,
    /// Whether the next gaze is the first that a recorder gets.
    begins_record: bool,
    /// Stream time of the newest refresh.
    refreshed_ns: Option<u64>,
}

impl ViewChannel {
    /// The channel of a view without clients.
    pub fn unconnected() -> Self {
        channel_pair(None, "unconnected", ViewConfig::default(), None).0
    }

    /// Address of the view.
    pub fn name(&self) -> &ViewName {
        &self.shared.name
    }

    /// The view's configuration.
    pub fn config(&self) -> Arc<ViewConfig> {
        self.shared.config()
    }

    /// The view now is what `config` says; its address stays.
    pub fn set_config(&self, config: ViewConfig) {
        *self.shared.config.lock() = Arc::new(config);
    }

    /// Whether a client opened the view.
    pub fn is_opened(&self) -> bool {
        self.shared.opened.is_some()
    }

    /// Epoch of the segment that subscribers have; `None` before the first.
    pub fn epoch(&self) -> Option<u64> {
        self.shared.segment.lock().as_ref().map(|segment| segment.epoch.0)
    }

    /// Switches to another segment: present and later subscribers get `descriptor`, which must be read-only.
    pub fn set_segment(&self, descriptor: OwnedFd, epoch: u64) {
        if let Some(watch) = &self.shared.opened {
            match watch.watch(&descriptor) {
                Ok(memory) => self.shared.memory.lock().push(memory),
                // Readers could keep it unseen.
                Err(error) => return self.fail(&format!("cannot watch its memory: {error}")),
            }
        }
        let segment = PublishedSegment { descriptor: Arc::new(descriptor), epoch: Epoch(epoch) };
        let mut present = self.shared.segment.lock();
        // It may have been closed meanwhile.
        if self.end_reason().is_none() {
            *present = Some(segment);
        }
        drop(present);
        self.wake_server();
    }

    /// Why the view must end or has ended, if so: its client or its configuration is gone, or it failed.
    pub fn end_reason(&self) -> Option<String> {
        self.shared.end_reason.lock().clone()
    }

    /// Ends the view while its stream continues; subscribers get the reason.
    pub fn fail(&self, reason: &str) {
        self.shared.mark_ended(reason);
        self.wake_server();
    }

    /// The next message of feedback, without those that a newer one makes void: of [superseded](Feedback::is_superseded) ones only the
    /// newest counts. A release counts in any case, because a `look` after it leaves the weights of channels as they are. Never
    /// waits.
    pub fn next_feedback(&mut self) -> Option<PendingFeedback> {
        loop {
            let next = self.feedback.try_pop()?;
            self.taken = next.ticket;
            let is_superseded = next.feedback.is_superseded() && next.feedback != Feedback::Release;
            let mut newer = self.feedback.iter();
            if !is_superseded || !newer.any(|newer| newer.feedback.is_superseded()) {
                return Some(next);
            }
        }
    }

    /// The stream knows the motion since frame `frame_seq`, and of no older one.
    pub fn set_oldest_frame(&self, frame_seq: u64) {
        self.shared.oldest_frame.store(frame_seq, Ordering::Relaxed);
    }

    /// Sets whether plans are kept, for clients to score tokens.
    pub fn set_keeps_plans(&mut self, keeps_plans: bool) {
        self.keeps_plans = keeps_plans;
    }

    /// Queue of connections to be notified of every token frame, for the waker.
    pub fn subscribers(&self) -> Receiver<OwnedFd> {
        self.subscribers.clone()
    }

    /// Whether a recorder has come, so that the plan of this frame must not depend on frames that its log does not have.
    pub fn begins_record(&mut self) -> bool {
        let begins = self.gazes.has_new_client();
        self.begins_record |= begins;
        begins
    }

    /// Whether what was delivered is to be forgotten before the frame of `time_ns`, because a reader lacks some of it. A request within a
    /// second of the one before waits; those that wait are one.
    pub fn takes_refresh(&mut self, time_ns: u64) -> bool {
        let is_due =
            self.refreshed_ns.is_none_or(|newest| REFRESH_PAUSE_NS <= time_ns.abs_diff(newest));
        let takes = is_due && self.shared.wants_refresh.swap(false, Ordering::Relaxed);
        if takes {
            self.refreshed_ns = Some(time_ns);
        }
        takes
    }

    /// Whether a client has subscribed to events, and does not know which states hold.
    pub fn has_new_event_client(&mut self) -> bool {
        self.events.has_new_client()
    }

    /// Sends an event to the clients that want them. Never waits.
    pub fn send_event(&mut self, event: TimedEvent) {
        if self.events.is_wanted() {
            let is_sent = self.events.send(event);
            self.counters().events_lost.add((!is_sent).into());
            self.wake_server();
        }
    }

    /// Counters of the view.
    pub fn counters(&self) -> &ViewCounters {
        &self.shared.counters
    }

    /// Publishes the view's state, before the frame itself. Never waits.
    pub fn update(&mut self, update: &ViewUpdate<'_>) {
        if self.shape.replace(update.shape) != Some(update.shape) {
            // Before the frame: until `newest_frame` is stored too, the frame counts as not yet published.
            self.shared.first_frame.store(update.frame_seq, Ordering::Relaxed);
        }
        self.shared.newest_frame.store(update.frame_seq, Ordering::Relaxed);
        self.queue_plan(update);
        self.send_gaze(update);
        self.pending.fixations.clone_from(&update.gaze.fixations);
        if update.is_settled {
            self.pending.settled = self.taken;
        }
        let is_pending = self.pending != self.published || !self.plans.is_empty();
        if !is_pending || self.publish(update.frame_seq) {
            // SYNC(plan-of-frame): pairs with the load in `newest_planned_frame`. A reader of this number finds the frame's plan.
            self.shared.newest_planned_frame.store(update.frame_seq, Ordering::Release);
        }
    }

    /// Publishes how many frame notices were sent and skipped, and how many subscribers are gone. Never waits.
    pub fn set_notices(&self, counts: NoticeCounts) {
        let NoticeCounts { sent, skipped, subscribers_gone } = counts;
        let counters = self.counters();
        counters.notices_sent.set(sent);
        counters.notices_skipped.set(skipped);
        counters.subscribers_gone.set(subscribers_gone);
    }

    fn queue_plan(&mut self, update: &ViewUpdate<'_>) {
        let ViewUpdate { shape, plan, plan_since, .. } = *update;
        if self.keeps_plans && self.newest_plan.replace(plan_since) != Some(plan_since) {
            let plan = Arc::new(plan.clone());
            self.plans.push_back(PlanInUse { since_frame: plan_since, shape, plan });
        }
    }

    /// Sends the gaze to recorders if it changed, or does not say how the plan follows from the one before.
    fn send_gaze(&mut self, update: &ViewUpdate<'_>) {
        let ViewUpdate { frame_seq, gaze, is_planned_afresh, .. } = *update;
        if !self.gazes.is_wanted() {
            self.recorded_gaze = None;
            return;
        }
        let is_new = std::mem::take(&mut self.begins_record);
        if !is_new && !is_planned_afresh && self.recorded_gaze.as_ref() == Some(gaze) {
            return;
        }
        self.recorded_gaze = Some(gaze.clone());
        self.gazes.send(GazeChange { frame_seq, gaze: gaze.clone(), is_planned_afresh });
        self.wake_server();
    }

    /// Publishes what is pending; false if the server holds the lock.
    fn publish(&mut self, frame_seq: u64) -> bool {
        let Some(mut history) = self.shared.history.try_lock() else { return false };
        history.fixations.clone_from(&self.pending.fixations);
        // Pursuit moves a fixation without starting a new one.
        let is_known =
            |fixation: &Fixation| self.published.fixations.iter().any(|old| old.id == fixation.id);
        let mut new = self.pending.fixations.clone();
        new.retain(|fixation| !is_known(fixation));
        new.sort_unstable_by_key(|fixation| fixation.id);
        for fixation in new {
            if history.scanpath.len() == SCANPATH_MAX {
                history.scanpath.pop_front();
            }
            history.scanpath.push_back(fixation);
        }
        history.settled = self.pending.settled;
        history.plans.append(&mut self.plans);
        history.forget_plans(frame_seq, self.shared.oldest_frame.load(Ordering::Relaxed));
        drop(history);
        self.published.clone_from(&self.pending);
        if self.shared.is_awaited.load(Ordering::Relaxed) {
            self.wake_server();
        }
        true
    }

    fn wake_server(&self) {
        if let Some(wakeup) = &self.wakeup {
            wakeup.signal();
        }
    }
}

impl std::fmt::Debug for ViewChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewChannel").field("published", &self.published).finish_non_exhaustive()
    }
}

/// The server's end. Only the server's thread takes the locks of the queues.
pub struct ClientChannel {
    shared: Arc<ChannelState>,
    /// The queue, and the ticket of the newest message that was sent.
    feedback: Mutex<(HeapProd<PendingFeedback>, u64)>,
    /// Changes of the gaze, for the clients that record it. A new recorder is first sent the current gaze.
    pub gazes: Inbox<GazeChange>,
    /// Events of the stream, for the clients that subscribed to them. A new client first gets the states that hold.
    pub events: Inbox<TimedEvent>,
    subscribers: Sender<OwnedFd>,
    /// The other end of `subscribers`, to drop those that have hung up.
    waiting: Receiver<OwnedFd>,
}

impl ClientChannel {
    /// Address of the view.
    pub fn name(&self) -> &ViewName {
        &self.shared.name
    }

    /// Queues feedback about an image of `image` pixels that arrived at `at_ns`, and returns its ticket; `None` if the queue is
    /// full, where a withdrawal still has a place. `is_moved` says that its client's ego motion has moved it to the frame that was to come when it arrived.
    pub fn send_feedback(
        &self,
        feedback: Feedback,
        image: Extent,
        at_ns: u64,
        is_moved: bool,
    ) -> Option<u64> {
        let mut locked = self.feedback.lock();
        let (queue, newest) = &mut *locked;
        let is_withdrawal = matches!(feedback, Feedback::Withdraw(_));
        if FEEDBACK_PENDING_MAX <= queue.occupied_len() && !is_withdrawal {
            return None;
        }
        let ticket = *newest + 1;
        queue.try_push(PendingFeedback { ticket, feedback, image, at_ns, is_moved }).ok()?;
        *newest = ticket;
        Some(ticket)
    }

    /// Has the view forget what it takes for delivered.
    pub(crate) fn request_refresh(&self) {
        self.shared.wants_refresh.store(true, Ordering::Relaxed);
    }

    /// The view's configuration.
    pub fn config(&self) -> Arc<ViewConfig> {
        self.shared.config()
    }

    /// The current segment.
    pub fn segment(&self) -> Option<PublishedSegment> {
        self.shared.segment.lock().clone()
    }

    /// Bytes of the segments of a view that a client opened, old ones included as long as somebody has them mapped or open, and its
    /// share of memory while the frame loop has not released it.
    pub fn bytes(&self) -> usize {
        let bytes = self.shared.memory.lock().iter().map(|memory| memory.bytes).sum::<usize>();
        if self.is_closed() { bytes } else { bytes.max(self.config().ring_bytes()) }
    }

    /// Forgets memory that is gone, by the numbers of its watches. Returns whether the view has some beside that of its segment.
    pub(crate) fn forget(&self, gone: &BTreeSet<i32>) -> bool {
        let mut memory = self.shared.memory.lock();
        memory.retain(|memory| !gone.contains(&memory.number));
        usize::from(self.shared.segment.lock().is_some()) < memory.len()
    }

    /// Why the view must end or has ended, if so; its stream may continue.
    pub fn end_reason(&self) -> Option<String> {
        self.shared.end_reason.lock().clone()
    }

    /// Marks the view as ended and drops its segment. The caller must also send
    /// [`ViewCommand::Close`](crate::directory::ViewCommand::Close) to the frame loop.
    pub(crate) fn mark_ended(&self, reason: &str) {
        self.shared.mark_ended(reason);
    }

    /// Counters of the view.
    pub fn counters(&self) -> &ViewCounters {
        &self.shared.counters
    }

    /// `frame_seq` of the newest frame; 0 before the first.
    pub(crate) fn newest_frame(&self) -> u64 {
        self.shared.newest_frame.load(Ordering::Relaxed)
    }

    /// `frame_seq` of the newest frame whose plan is known: the newest frame or an earlier one; 0 before the first.
    pub(crate) fn newest_planned_frame(&self) -> u64 {
        // SYNC(plan-of-frame): pairs with the store in `ViewChannel::update`.
        self.shared.newest_planned_frame.load(Ordering::Acquire)
    }

    /// `frame_seq` of the oldest frame whose motion is known; 0 before that is known.
    pub(crate) fn oldest_frame(&self) -> u64 {
        self.shared.oldest_frame.load(Ordering::Relaxed)
    }

    /// `frame_seq` of the first frame of the current extent; 0 before the first. Read it after the newest frame.
    pub(crate) fn first_frame(&self) -> u64 {
        self.shared.first_frame.load(Ordering::Relaxed)
    }

    /// The plan that frame `frame_seq` was sampled by, if it is still kept.
    pub(crate) fn plan_of(&self, frame_seq: u64) -> Option<PlanInUse> {
        let history = self.shared.history.lock();
        history.plans.iter().rev().find(|plan| plan.since_frame <= frame_seq).cloned()
    }

    /// The current fixations, and the newest ones in the order in which they were chosen.
    pub fn fixations(&self) -> (Vec<Fixation>, Vec<Fixation>) {
        let history = self.shared.history.lock();
        (history.fixations.to_vec(), history.scanpath.iter().copied().collect())
    }

    /// The current fixations, once the gaze accounts for the feedback of `ticket`.
    pub fn settled(&self, ticket: u64) -> Option<Fixations> {
        let history = self.shared.history.lock();
        (ticket <= history.settled && !history.fixations.is_empty())
            .then(|| history.fixations.clone())
    }

    /// Sets whether the server is woken whenever its fixations or its newest settled ticket change.
    pub(crate) fn set_awaited(&self, is_awaited: bool) {
        self.shared.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Counts of notices, up to the newest frame or the one before.
    pub fn notices(&self) -> NoticeCounts {
        let counters = self.counters();
        NoticeCounts {
            sent: counters.notices_sent.get(),
            skipped: counters.notices_skipped.get(),
            subscribers_gone: counters.subscribers_gone.get(),
        }
    }

    /// Whether [`add_subscriber`](Self::add_subscriber) would fail. Only the server's thread fills the queue, so a `false` holds
    /// until that thread adds one.
    pub(crate) fn subscriber_queue_is_full(&self) -> bool {
        self.subscribers.is_full() && !self.is_closed()
    }

    /// Queues `connection` for notices by the frame loop's waker; false if the queue is full. A view that has ended sends none.
    pub fn add_subscriber(&self, connection: OwnedFd) -> bool {
        let sent = self.subscribers.try_send(connection);
        !matches!(sent, Err(TrySendError::Full(_))) || self.is_closed()
    }

    /// Drops queued connections that have been shut down.
    pub(crate) fn drop_closed_subscribers(&self) {
        for _ in 0..self.waiting.len() {
            let Ok(connection) = self.waiting.try_recv() else { break };
            if !is_shut_down(&connection) {
                // The queue has room: the item was just taken out of it.
                let _ = self.subscribers.try_send(connection);
            }
        }
    }

    /// Whether the frame loop's end is gone.
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}

impl std::fmt::Debug for ClientChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientChannel").field("shared", &self.shared).finish_non_exhaustive()
    }
}

fn is_shut_down(connection: &OwnedFd) -> bool {
    let mut entries = [PollFd::new(connection, PollFlags::empty())];
    let polled = poll(&mut entries, Some(&Timespec::default()));
    polled.is_ok() && entries[0].revents().contains(PollFlags::HUP)
}

/// Wakes the server's thread from its poll.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A descriptor that is not readable.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable. Never blocks.
    pub fn signal(&self) {
        // Fails only if the counter is full; the descriptor is readable then.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next signal.
    pub fn clear(&self) {
        // Fails only if the descriptor is not readable.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
