//! The channel between a view and its clients: all that crosses between a frame loop and the server's thread.
//!
//! ```text
//!  frame loop                                                         server's thread
//!  ViewChannel.newest_feedback    <------  lock-free ring, newest wins  <------  ClientChannel.send_feedback
//!  ViewChannel.subscribers    <------  channel                      <------  ClientChannel.add_subscriber
//!  ViewChannel.update           ------>  newest frame, update        ------>  ClientChannel.newest_planned_frame, .plan_of, ...
//!                          ------>  lock-free ring               ------>  ClientChannel.take_gazes
//! ```
//!
//! The frame loop never waits on it: where a copy of the update is being made right now, it tells its news a frame later.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::feedback::Feedback;
use foveate_core::geometry::fixation::{Fixation, Gaze};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_stats::{NoticeCounts, ViewCounters};

/// Frames back from the newest whose token plans are kept.
pub const FRAMES_KEPT: u64 = 64;

/// Feedback that a frame loop may leave untaken before more is refused.
pub const FEEDBACK_PENDING_MAX: usize = 64;

/// Subscribers that a frame loop may leave untaken before more are refused.
pub const SUBSCRIBERS_PENDING_MAX: usize = 64;

/// Fixations of a scanpath.
pub const SCANPATH_MAX: usize = 16;

/// Gazes that the server may leave untaken before more are lost.
const GAZES_PENDING_MAX: usize = 256;

/// Feedback on its way to the frame loop.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingFeedback {
    /// Counts what was posted to the view, from 1.
    pub ticket: u64,
    /// What a client wants.
    pub feedback: Feedback,
    /// The extent of the image that it is about, in pixels.
    pub image: Extent,
    /// When it came, on CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
}

/// A token plan that is in use from a frame on.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInUse {
    /// `frame_seq` of the first frame that was sampled so.
    pub since_frame: u64,
    /// The pyramid that it was made for.
    pub shape: PyramidShape,
    /// The tokens.
    pub plan: Arc<TokenPlan>,
}

/// Where a view looks from a frame on.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeChange {
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// Where it looks.
    pub gaze: Gaze,
}

/// What a view is about to publish.
#[derive(Clone, Copy, Debug)]
pub struct ViewUpdate<'a> {
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// The pyramid that is sampled.
    pub shape: PyramidShape,
    /// Where the view looks.
    pub gaze: &'a Gaze,
    /// What it therefore samples.
    pub plan: &'a TokenPlan,
    /// `frame_seq` of the first frame that was sampled so.
    pub plan_since: u64,
    /// Whether the newest feedback has been decided on.
    pub is_settled: bool,
}

/// A view and its clients: the frame loop's end, and the server's. `keeps_plans` says whether clients may score tokens.
pub fn view_channel(bell: &Arc<Bell>, keeps_plans: bool) -> (ViewChannel, ClientChannel) {
    ends(Some(Arc::clone(bell)), keeps_plans)
}

fn ends(bell: Option<Arc<Bell>>, keeps_plans: bool) -> (ViewChannel, ClientChannel) {
    let shared = Arc::new(Shared::default());
    let (posts, posted) = HeapRb::new(FEEDBACK_PENDING_MAX).split();
    let (gazes, gazed) = HeapRb::new(GAZES_PENDING_MAX).split();
    let (subscribers, subscribed) = crossbeam_channel::bounded(SUBSCRIBERS_PENDING_MAX);
    let view = ViewChannel {
        shared: Arc::clone(&shared),
        bell,
        posts: posted,
        gazes,
        subscribers: subscribed,
        keeps_plans,
        taken: 0,
        told: Told::default(),
        news: Told::default(),
        plans: VecDeque::new(),
        shape: None,
        noted_plan: None,
        noted_gaze: None,
    };
    let posts = Mutex::new(Posts { ring: posts, last_ticket: 0 });
    let (gazes, waiting) = (Mutex::new(gazed), view.subscribers.clone());
    let client = ClientChannel { shared, posts, gazes, subscribers, waiting };
    (view, client)
}

/// What both ends share.
#[derive(Debug, Default)]
struct Shared {
    /// `frame_seq` of the newest frame whose plan is told; 0 before the first.
    newest_planned_frame: AtomicU64,
    /// `frame_seq` of the first frame of the present extent; 0 before the first.
    first_frame: AtomicU64,
    /// `frame_seq` of the newest frame, whether its plan is told or not; 0 before the first.
    newest_frame: AtomicU64,
    board: Mutex<Board>,
    /// Whether a client waits for the board to change.
    is_awaited: AtomicBool,
    /// Whether a client wants every gaze.
    is_recorded: AtomicBool,
    /// Whether a client wants the present gaze, as it has seen none.
    is_new_record: AtomicBool,
    gazes_lost: AtomicU64,
    notices: Notices,
    counters: ViewCounters,
}

/// A [`NoticeCounts`] that one thread writes while others read: each number by itself.
#[derive(Debug, Default)]
struct Notices {
    sent: AtomicU64,
    skipped: AtomicU64,
    subscribers_gone: AtomicU64,
}

/// What the frame loop tells.
#[derive(Debug, Default)]
struct Board {
    /// The newest last, at most [`SCANPATH_MAX`].
    scanpath: VecDeque<Fixation>,
    settled: u64,
    /// Ascending by frame.
    plans: VecDeque<PlanInUse>,
}

/// What of it is not a list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Told {
    fixation: Option<Fixation>,
    /// Ticket of the newest feedback that was decided on.
    settled: u64,
}

/// The frame loop's end.
pub struct ViewChannel {
    shared: Arc<Shared>,
    bell: Option<Arc<Bell>>,
    posts: HeapCons<PendingFeedback>,
    gazes: HeapProd<GazeChange>,
    subscribers: Receiver<OwnedFd>,
    keeps_plans: bool,
    /// Ticket of the newest feedback that was taken.
    taken: u64,
    told: Told,
    news: Told,
    /// Not told yet.
    plans: VecDeque<PlanInUse>,
    /// That of the newest frame.
    shape: Option<PyramidShape>,
    /// `since_frame` of the newest plan that was noted.
    noted_plan: Option<u64>,
    /// What those who record were last sent.
    noted_gaze: Option<Gaze>,
}

impl ViewChannel {
    /// The channel of a view that nobody talks to.
    pub fn unconnected() -> Self {
        ends(None, false).0
    }

    /// The newest feedback since the last call; older one is forgotten. Never waits.
    pub fn newest_feedback(&mut self) -> Option<PendingFeedback> {
        let newest = self.posts.pop_iter().last()?;
        self.taken = newest.ticket;
        Some(newest)
    }

    /// Says whether clients may score tokens from now on.
    pub fn set_keeps_plans(&mut self, keeps_plans: bool) {
        self.keeps_plans = keeps_plans;
    }

    /// Connections of subscribers that want a notice with every token frame, for the waker.
    pub fn subscribers(&self) -> Receiver<OwnedFd> {
        self.subscribers.clone()
    }

    /// What the view has done.
    pub fn counters(&self) -> &ViewCounters {
        &self.shared.counters
    }

    /// Tells what is about to be published. Never waits.
    pub fn update(&mut self, update: &ViewUpdate<'_>) {
        if self.shape.replace(update.shape) != Some(update.shape) {
            // Told before the frame: until that is told too, it is among those that have not been published.
            self.shared.first_frame.store(update.frame_seq, Ordering::Relaxed);
        }
        self.shared.newest_frame.store(update.frame_seq, Ordering::Relaxed);
        self.note_plan(update);
        self.note_gaze(update);
        self.news.fixation = Some(update.gaze.fixation);
        if update.is_settled {
            self.news.settled = self.taken;
        }
        let is_news = self.news != self.told || !self.plans.is_empty();
        if !is_news || self.tell(update.frame_seq) {
            // SYNC(plan-of-frame): pairs with the load in `newest_planned_frame`. Who sees this frame finds its plan on the board.
            self.shared.newest_planned_frame.store(update.frame_seq, Ordering::Release);
        }
    }

    /// Tells what became of notices. Never waits.
    pub fn set_notices(&self, counts: NoticeCounts) {
        let NoticeCounts { sent, skipped, subscribers_gone } = counts;
        let notices = &self.shared.notices;
        notices.sent.store(sent, Ordering::Relaxed);
        notices.skipped.store(skipped, Ordering::Relaxed);
        notices.subscribers_gone.store(subscribers_gone, Ordering::Relaxed);
    }

    /// Keeps a plan until it is told.
    fn note_plan(&mut self, update: &ViewUpdate<'_>) {
        let ViewUpdate { shape, plan, plan_since, .. } = *update;
        if self.keeps_plans && self.noted_plan.replace(plan_since) != Some(plan_since) {
            let plan = Arc::new(plan.clone());
            self.plans.push_back(PlanInUse { since_frame: plan_since, shape, plan });
        }
    }

    /// Sends the gaze to those who record it, if it is another one.
    fn note_gaze(&mut self, update: &ViewUpdate<'_>) {
        let ViewUpdate { frame_seq, gaze, .. } = *update;
        if !self.shared.is_recorded.load(Ordering::Relaxed) {
            self.noted_gaze = None;
            return;
        }
        let is_new = self.shared.is_new_record.swap(false, Ordering::Relaxed);
        if !is_new && self.noted_gaze.as_ref() == Some(gaze) {
            return;
        }
        self.noted_gaze = Some(gaze.clone());
        if self.gazes.try_push(GazeChange { frame_seq, gaze: gaze.clone() }).is_err() {
            self.shared.gazes_lost.fetch_add(1, Ordering::Relaxed);
        }
        self.ring();
    }

    /// Puts the news on the board, unless somebody reads it right now.
    fn tell(&mut self, frame_seq: u64) -> bool {
        let Some(mut board) = self.shared.board.try_lock() else { return false };
        if self.news.fixation != self.told.fixation
            && let Some(fixation) = self.news.fixation
        {
            if board.scanpath.len() == SCANPATH_MAX {
                board.scanpath.pop_front();
            }
            board.scanpath.push_back(fixation);
        }
        board.settled = self.news.settled;
        board.plans.append(&mut self.plans);
        board.forget_plans_before(frame_seq.saturating_sub(FRAMES_KEPT - 1));
        drop(board);
        self.told = self.news;
        if self.shared.is_awaited.load(Ordering::Relaxed) {
            self.ring();
        }
        true
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Board {
    /// Drops plans that no frame from `first` on was sampled by.
    fn forget_plans_before(&mut self, first: u64) {
        while self.plans.get(1).is_some_and(|next| next.since_frame <= first) {
            self.plans.pop_front();
        }
    }
}

impl std::fmt::Debug for ViewChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewChannel").field("told", &self.told).finish_non_exhaustive()
    }
}

/// The server's end. Only its thread takes the locks of the rings' ends.
pub struct ClientChannel {
    shared: Arc<Shared>,
    posts: Mutex<Posts>,
    gazes: Mutex<HeapCons<GazeChange>>,
    subscribers: Sender<OwnedFd>,
    /// Those that the frame loop has not taken.
    waiting: Receiver<OwnedFd>,
}

struct Posts {
    ring: HeapProd<PendingFeedback>,
    last_ticket: u64,
}

impl ClientChannel {
    /// Hands feedback about an image of `image` pixels that came at `at_ns` to the frame loop, and returns its ticket; `None` if
    /// the frame loop has left too much untaken.
    pub fn send_feedback(&self, feedback: Feedback, image: Extent, at_ns: u64) -> Option<u64> {
        let mut posts = self.posts.lock();
        let ticket = posts.last_ticket + 1;
        posts.ring.try_push(PendingFeedback { ticket, feedback, image, at_ns }).ok()?;
        posts.last_ticket = ticket;
        Some(ticket)
    }

    /// What the view has done.
    pub fn counters(&self) -> &ViewCounters {
        &self.shared.counters
    }

    /// `frame_seq` of the newest frame; 0 before the first.
    pub fn newest_frame(&self) -> u64 {
        self.shared.newest_frame.load(Ordering::Relaxed)
    }

    /// `frame_seq` of the newest frame whose plan is known: that, or one before; 0 before the first.
    pub fn newest_planned_frame(&self) -> u64 {
        // SYNC(plan-of-frame): pairs with the store in `ViewChannel::update`.
        self.shared.newest_planned_frame.load(Ordering::Acquire)
    }

    /// `frame_seq` of the oldest frame of the present extent, if it is asked for after the newest; 0 before the first.
    pub fn first_frame(&self) -> u64 {
        self.shared.first_frame.load(Ordering::Relaxed)
    }

    /// The plan that frame `frame_seq` was sampled by, if it is still known.
    pub fn plan_of(&self, frame_seq: u64) -> Option<PlanInUse> {
        let board = self.shared.board.lock();
        board.plans.iter().rev().find(|plan| plan.since_frame <= frame_seq).cloned()
    }

    /// The newest fixations, the present one last.
    pub fn scanpath(&self) -> Vec<Fixation> {
        self.shared.board.lock().scanpath.iter().copied().collect()
    }

    /// The present fixation, once the feedback of `ticket` has been decided on.
    pub fn settled(&self, ticket: u64) -> Option<Fixation> {
        let board = self.shared.board.lock();
        board.scanpath.back().copied().filter(|_| ticket <= board.settled)
    }

    /// Whether to ring the bell whenever a fixation or a decision is told.
    pub fn set_awaited(&self, is_awaited: bool) {
        self.shared.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Whether somebody records the gaze. Whoever begins to is sent the present one first, and where nobody did before nothing
    /// from before.
    pub fn set_recorded(&self, is_recorded: bool) {
        if is_recorded && !self.shared.is_recorded.load(Ordering::Relaxed) {
            // What is left of an earlier record has a gap behind it.
            self.gazes.lock().clear();
        }
        self.shared.is_new_record.store(is_recorded, Ordering::Relaxed);
        self.shared.is_recorded.store(is_recorded, Ordering::Relaxed);
    }

    /// Gazes that were lost so far because too many came at once.
    pub fn gazes_lost(&self) -> u64 {
        self.shared.gazes_lost.load(Ordering::Relaxed)
    }

    /// What became of notices, up to the newest frame or a frame before.
    pub fn notices(&self) -> NoticeCounts {
        let notices = &self.shared.notices;
        NoticeCounts {
            sent: notices.sent.load(Ordering::Relaxed),
            skipped: notices.skipped.load(Ordering::Relaxed),
            subscribers_gone: notices.subscribers_gone.load(Ordering::Relaxed),
        }
    }

    /// Where the view looked since the last call.
    pub fn take_gazes(&self) -> Vec<GazeChange> {
        self.gazes.lock().pop_iter().collect()
    }

    /// Whether [`add_subscriber`](Self::add_subscriber) has no room for another connection. Only the server's thread fills it, so what this
    /// says stays true until it does.
    pub fn subscriber_queue_is_full(&self) -> bool {
        self.subscribers.is_full() && !self.is_closed()
    }

    /// Hands `connection` to the frame loop's waker, for notices; false if there is no room. Of a view that has ended there
    /// are none.
    pub fn add_subscriber(&self, connection: OwnedFd) -> bool {
        let sent = self.subscribers.try_send(connection);
        !matches!(sent, Err(TrySendError::Full(_))) || self.is_closed()
    }

    /// Drops connections that were shut down before the frame loop took them.
    pub fn drop_closed_subscribers(&self) {
        for _ in 0..self.waiting.len() {
            let Ok(connection) = self.waiting.try_recv() else { break };
            if !is_shut_down(&connection) {
                // There is room where it came from.
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
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable. Never waits.
    pub fn ring(&self) {
        // It fails only when the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next ring.
    pub fn silence(&self) {
        // It fails only when nobody rang, which is as well.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
