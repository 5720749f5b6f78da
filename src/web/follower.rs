//! Followers: each reads one view on its own thread, for all pages that show the view, as long as there are any.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::PAGES_MAX;
use super::decoder::{DecodedFrame, Decoder};
use super::history::Histories;
use super::history::stored::FrameSegment;
use super::history::timeline::{TimelineFact, Timelines};
use super::messages::FeedState;
use foveate::ControlError;
use foveate::client::{Client, Next, SubscribeOptions, Subscription, SubscriptionError};
use foveate::messages::{RefusalReason, ViewName, end_text, is_coming_back};
use foveate_core::clock::monotonic_ns;
use foveate_core::error::chain;
use foveate_core::plane::TILES;
use foveate_ring::{State, TokenFrameBuf};

/// How often a follower checks for pages that have left and for stalled frames.
const SLICE: Duration = Duration::from_millis(100);

/// Pause before a view that cannot be read is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Most followers: two for each page, and as many that are stopping.
const FOLLOWERS_MAX: usize = 4 * PAGES_MAX;

/// Most views opened for pages that are remembered, so that pages do not list them. Closed views may linger in the daemon, so the newest
/// are remembered.
const OPENED_REMEMBERED: usize = 4 * PAGES_MAX;

/// The source of a follower's frames.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A view of the daemon.
    View(ViewName),
    /// A view opened for pages: the whole picture at one level.
    Uniform {
        stream: String,
        /// Most tokens of a frame.
        budget: usize,
        /// P: side of a token in texels.
        patch_side: u32,
    },
}

impl Subject {
    pub(super) fn stream(&self) -> &str {
        match self {
            Self::View(view) => view.stream(),
            Self::Uniform { stream, .. } => stream,
        }
    }
}

/// State that a follower shares with its pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    pub(super) state: FeedState,
    /// The reason, in words; may be empty.
    pub(super) reason: String,
    /// The newest frame, kept when the feed stalls or ends.
    pub(super) frame: Option<Arc<DecodedFrame>>,
}

impl Feed {
    /// Time since its frame was captured.
    pub(super) fn age(&self) -> Option<Duration> {
        let captured_ns = self.frame.as_ref()?.head.stamp.capture_ns;
        Some(Duration::from_nanos(monotonic_ns().saturating_sub(captured_ns)))
    }
}

/// All followers.
#[derive(Debug)]
pub(super) struct Followers {
    socket: PathBuf,
    /// Frames of the last minute.
    pub(super) histories: Histories,
    /// Events and states of the daemon's views.
    pub(super) timelines: Timelines,
    /// A follower decides to end under this lock, so that no page subscribes to one that is ending.
    running: Mutex<HashMap<Subject, Arc<watch::Sender<Feed>>>>,
    /// Views opened for pages, the newest last.
    opened: Mutex<VecDeque<ViewName>>,
    /// Number of views opened so far.
    opened_count: AtomicU64,
}

impl Followers {
    pub(super) fn new(socket: PathBuf, histories: Histories) -> Self {
        Self {
            socket,
            histories,
            timelines: Timelines::default(),
            running: Mutex::default(),
            opened: Mutex::default(),
            opened_count: AtomicU64::new(0),
        }
    }

    /// Subscribes to the feed of `subject`, and starts its follower, which ends with its last subscription. If there are too many
    /// followers, or no thread can be started, the feed stays `Lost` with a reason.
    pub(super) fn watch(self: &Arc<Self>, subject: &Subject) -> watch::Receiver<Feed> {
        let mut running = self.running.lock();
        if let Some(sender) = running.get(subject) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(Feed::default());
        let sender = Arc::new(sender);
        if FOLLOWERS_MAX <= running.len() {
            sender.send_modify(|feed| {
                feed.state = FeedState::Lost;
                feed.reason =
                    format!("too many views are shown (limit {FOLLOWERS_MAX}): close other pages");
            });
            return receiver;
        }
        let follower = Follower {
            followers: Arc::clone(self),
            subject: subject.clone(),
            feed: Arc::clone(&sender),
            frame: TokenFrameBuf::default(),
            segment: None,
            fixation: 0,
            is_known: false,
        };
        match thread::Builder::new().name("follower".to_owned()).spawn(|| follower.run()) {
            Ok(_) => drop(running.insert(subject.clone(), sender)),
            Err(error) => sender.send_modify(|feed| {
                feed.state = FeedState::Lost;
                feed.reason = format!("cannot start the thread that reads the view: {error}");
            }),
        }
        receiver
    }

    /// Opens a uniform view for pages, and returns it with its connection.
    fn open_view(
        &self,
        stream: &str,
        budget: usize,
        patch_side: u32,
    ) -> Result<(ViewName, Client), ControlError> {
        let mut connection = Client::connect(&self.socket)?;
        let name = self.next_name();
        if let Ok(view) = ViewName::new(stream, &name) {
            self.remember_opened(view);
        }
        let table = json!({
            "name": name,
            "layout": "uniform", "budget": budget, "dtype": "u8", "patch": patch_side,
            "gaze": { "policy": "fixed" }
        });
        let table = table.as_object().cloned().unwrap_or_default();
        let view = connection.open_view(stream, table)?;
        Ok((view, connection))
    }

    /// A view name unique among this and other processes.
    fn next_name(&self) -> String {
        let count = self.opened_count.fetch_add(1, Ordering::Relaxed);
        format!("web-{}-{count}", std::process::id())
    }

    fn remember_opened(&self, view: ViewName) {
        let mut opened = self.opened.lock();
        if opened.len() == OPENED_REMEMBERED {
            opened.pop_front();
        }
        opened.push_back(view);
    }

    /// Whether `view` was opened for pages, as far as remembered.
    pub(super) fn was_opened_for_pages(&self, view: &ViewName) -> bool {
        self.opened.lock().contains(view)
    }
}

/// Reads one subject.
struct Follower {
    followers: Arc<Followers>,
    subject: Subject,
    feed: Arc<watch::Sender<Feed>>,
    frame: TokenFrameBuf,
    /// The segment of `frame`.
    segment: Option<Arc<FrameSegment>>,
    /// Id of the newest fixation.
    fixation: u64,
    /// Whether the daemon has said that the view exists. A page may name any: only these get a timeline.
    is_known: bool,
}

impl Follower {
    fn run(mut self) {
        while !self.end_if_unwatched() {
            let (state, reason) = match self.follow() {
                // The view has not ended; the last page has left.
                Ok(_) if !self.is_watched() => continue,
                Ok(reason) => (ended_state(&reason), reason),
                Err(error) => {
                    self.is_known |= tells_of_view(&error);
                    failed_state(&error)
                }
            };
            self.publish_state(state, &reason);
            let started = Instant::now();
            while self.is_watched() && started.elapsed() < RETRY {
                thread::sleep(SLICE);
            }
        }
    }

    /// Ends the follower if no page is left. Returns whether it has ended.
    fn end_if_unwatched(&self) -> bool {
        let mut running = self.followers.running.lock();
        if self.is_watched() {
            return false;
        }
        running.remove(&self.subject);
        self.note_state("unwatched", "");
        true
    }

    fn is_watched(&self) -> bool {
        0 < self.feed.receiver_count()
    }

    /// Reads until the view ends, and returns the reason, or until no page is left.
    fn follow(&mut self) -> Result<String, SubscriptionError> {
        let subject = self.subject.clone();
        match &subject {
            Subject::View(view) => self.read(view),
            Subject::Uniform { stream, budget, patch_side } => {
                // The view lives as long as its connection.
                let (view, _connection) = self.followers.open_view(stream, *budget, *patch_side)?;
                self.read(&view)
            }
        }
    }

    fn read(&mut self, view: &ViewName) -> Result<String, SubscriptionError> {
        let events = matches!(self.subject, Subject::View(_));
        let options = SubscribeOptions { events, ..SubscribeOptions::default() };
        let client = Client::connect(&self.followers.socket)?;
        let mut subscription = client.subscribe_to(view, options)?;
        self.is_known = true;
        let mut decoder = None;
        while self.is_watched() {
            match subscription.next_frame(&mut self.frame, SLICE)? {
                Next::Frame { missed } => self.show(decoder.as_mut(), missed),
                Next::NewSegment => {
                    let reader = subscription.reader();
                    decoder = reader.map(|reader| Decoder::new(reader.header()));
                    if reader.is_some_and(|reader| reader.header().plane_index(TILES).is_some()) {
                        self.refresh(view);
                    }
                    self.segment = reader.map(|reader| {
                        let (page, info) =
                            (Box::new(reader.header_page()), reader.header().clone());
                        Arc::new(FrameSegment { page, info })
                    });
                }
                Next::TimedOut => self.publish_ring_state(&subscription),
                Next::Ended(reason) => return Ok(reason),
            }
            self.note_events(&mut subscription);
        }
        Ok(String::new())
    }

    /// Asks the daemon to deliver again what it counts as delivered, so that pages soon have a complete picture. If it refuses, the picture
    /// is complete within ten seconds all the same.
    fn refresh(&self, view: &ViewName) {
        let client = Client::connect(&self.followers.socket);
        let _ = client.and_then(|mut client| client.refresh(view));
    }

    /// Adds events in the picture to the timeline, after the frame at which they were reported.
    fn note_events(&self, subscription: &mut Subscription) {
        let Subject::View(view) = &self.subject else { return };
        for event in subscription.take_events() {
            let what = TimelineFact::of_event(&event.scene);
            self.followers.timelines.with(view, |timeline, now_ms| timeline.add(now_ms, what));
        }
    }

    fn note_state(&self, state: &str, reason: &str) {
        if let Subject::View(view) = &self.subject
            && self.is_known
        {
            self.followers.timelines.note_state(view, state, reason);
        }
    }

    /// Adds new fixations to the timeline, and that the view is live.
    fn note_frame(&mut self) {
        if self.feed.borrow().state != FeedState::Live {
            self.note_state("live", "");
        }
        let fixations = &self.frame.head.fixations;
        let newest = fixations.iter().map(|fixation| fixation.id).max().unwrap_or_default();
        if let Subject::View(view) = &self.subject
            && newest != self.fixation
        {
            self.fixation = newest;
            self.followers
                .timelines
                .with(view, |timeline, now_ms| timeline.add_fixations(now_ms, fixations));
        }
    }

    /// Publishes the frame that was read, before which `missed` frames were not, and keeps it.
    fn show(&mut self, decoder: Option<&mut Decoder>, missed: u64) {
        let (Some(decoder), Some(segment)) = (decoder, &self.segment) else { return };
        let decoded = decoder.decode(&self.frame);
        self.followers.histories.push(&self.subject, segment, (&self.frame, &decoded), missed);
        let frame = Some(Arc::new(decoded));
        self.note_frame();
        self.feed.send_modify(|feed| {
            *feed = Feed { state: FeedState::Live, reason: String::new(), frame };
        });
    }

    /// Publishes the state of the ring, after a timeout.
    fn publish_ring_state(&self, subscription: &Subscription) {
        match subscription.reader().map(|reader| reader.state()) {
            Some((State::Stalled, reason)) => self.publish_state(FeedState::Stalled, &reason),
            Some((State::Ended, reason)) => self.publish_state(ended_state(&reason), &reason),
            Some((State::Live, _)) => {}
            None => self.publish_state(FeedState::Starting, "no frame has arrived yet"),
        }
    }

    /// Publishes a state. A view that has ended stays so when the daemon goes away.
    fn publish_state(&self, state: FeedState, reason: &str) {
        let reason = end_text(reason);
        let is_news = self.feed.send_if_modified(|feed| {
            let is_known = feed.state == state && feed.reason == reason;
            if is_known || (feed.state == FeedState::Ended && state == FeedState::Lost) {
                return false;
            }
            feed.state = state;
            reason.clone_into(&mut feed.reason);
            true
        });
        if is_news {
            self.note_state(state.name(), reason);
        }
    }
}

/// The state of a view that has ended for `reason`: `Lost` if it comes back.
fn ended_state(reason: &str) -> FeedState {
    if is_coming_back(reason) { FeedState::Lost } else { FeedState::Ended }
}

/// Whether the daemon has refused a view that it has.
fn tells_of_view(error: &SubscriptionError) -> bool {
    matches!(error, SubscriptionError::Control(ControlError::Refused(refusal))
        if refusal.reason != RefusalReason::UnknownView)
}

/// State and reason of a view that cannot be read.
fn failed_state(error: &SubscriptionError) -> (FeedState, String) {
    let state = match error {
        SubscriptionError::Control(ControlError::Refused(refusal)) => match refusal.reason {
            RefusalReason::Ended => FeedState::Ended,
            RefusalReason::NotStarted => FeedState::Starting,
            _ => FeedState::Lost,
        },
        _ => FeedState::Lost,
    };
    (state, chain(error))
}
