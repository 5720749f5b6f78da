//! Reads views, each on a thread of its own for as long as some page shows it, however many do.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::decoder::{DecodedFrame, Decoder};
use super::messages::FeedState;
use super::server::PAGES_MAX;
use foveate::ControlError;
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::{DAEMON_STOPS, RefusalReason, STREAM_RESTARTS, ViewName};
use foveate_core::clock::monotonic_ns;
use foveate_core::error::chain;
use foveate_ring::{State, TokenFrameBuf};

/// How long a follower does not look whether its pages are gone, or whether frames stay away.
const SLICE: Duration = Duration::from_millis(100);

/// How long a view that cannot be read is left alone.
const RETRY: Duration = Duration::from_millis(500);

/// Views that are read at a time: two for each page, and those that pages have just left.
const FOLLOWERS_MAX: usize = 4 * PAGES_MAX;

/// Views that were opened for pages and are not listed to them, the newest: of those that are closed some may still be there.
const OPENED_REMEMBERED: usize = 4 * PAGES_MAX;

/// What a page can show.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A view of the daemon's.
    View(ViewName),
    /// A view that is opened for the page: the whole picture at one level.
    Uniform {
        /// Which stream.
        stream: String,
        /// Most tokens of a frame.
        budget: usize,
        /// P: side of a token in texels.
        patch_side: u32,
    },
}

/// What is to be seen of a subject now.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    pub(super) state: FeedState,
    /// Why, in words.
    pub(super) reason: String,
    /// The newest frame; also when no others come.
    pub(super) frame: Option<Arc<DecodedFrame>>,
}

impl Feed {
    /// How long ago its frame was captured.
    pub(super) fn age(&self) -> Option<Duration> {
        let captured_ns = self.frame.as_ref()?.head.stamp.capture_ns;
        Some(Duration::from_nanos(monotonic_ns().saturating_sub(captured_ns)))
    }
}

/// The followers at work.
#[derive(Debug)]
pub(super) struct Followers {
    socket: PathBuf,
    /// A follower ends, and leaves, under this lock: nobody joins one that is about to.
    at_work: Mutex<HashMap<Subject, Arc<watch::Sender<Feed>>>>,
    /// Views that were opened for pages.
    opened: Mutex<VecDeque<ViewName>>,
    /// How many that were so far.
    opened_count: AtomicU64,
}

impl Followers {
    /// Nobody reads anything yet.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            at_work: Mutex::default(),
            opened: Mutex::default(),
            opened_count: AtomicU64::new(0),
        }
    }

    /// What is to be seen of `subject`, from now on until all that this returned for it are dropped.
    pub(super) fn watch(self: &Arc<Self>, subject: &Subject) -> watch::Receiver<Feed> {
        let mut at_work = self.at_work.lock();
        if let Some(sender) = at_work.get(subject) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(Feed::default());
        let sender = Arc::new(sender);
        if FOLLOWERS_MAX <= at_work.len() {
            sender.send_modify(|feed| {
                feed.state = FeedState::Lost;
                feed.reason = format!("{FOLLOWERS_MAX} views are shown already");
            });
            return receiver;
        }
        let follower = Follower {
            followers: Arc::clone(self),
            subject: subject.clone(),
            feed: Arc::clone(&sender),
            frame: TokenFrameBuf::default(),
        };
        match thread::Builder::new().name("follower".to_owned()).spawn(|| follower.run()) {
            Ok(_) => drop(at_work.insert(subject.clone(), sender)),
            Err(error) => sender.send_modify(|feed| {
                feed.state = FeedState::Lost;
                feed.reason = format!("no thread can be started to read it: {error}");
            }),
        }
        receiver
    }

    /// A name that no view has that was opened for pages, by this process or another.
    fn next_name(&self) -> String {
        let count = self.opened_count.fetch_add(1, Ordering::Relaxed);
        format!("web-{}-{count}", std::process::id())
    }

    /// From now on `view` is one that was opened for pages.
    fn remember(&self, view: ViewName) {
        let mut opened = self.opened.lock();
        if opened.len() == OPENED_REMEMBERED {
            opened.pop_front();
        }
        opened.push_back(view);
    }

    /// Whether `view` was opened for pages.
    pub(super) fn have_opened(&self, view: &ViewName) -> bool {
        self.opened.lock().contains(view)
    }
}

/// Reads one subject.
struct Follower {
    followers: Arc<Followers>,
    subject: Subject,
    feed: Arc<watch::Sender<Feed>>,
    frame: TokenFrameBuf,
}

impl Follower {
    fn run(mut self) {
        while !self.leave() {
            let (state, reason) = match self.follow() {
                Ok(reason) if [DAEMON_STOPS, STREAM_RESTARTS].contains(&reason.as_str()) => {
                    (FeedState::Lost, reason)
                }
                // It did not end: nobody watches.
                Ok(_) if !self.is_watched() => continue,
                Ok(reason) => (FeedState::Ended, reason),
                Err(error) => feed_of(&error),
            };
            self.tell(state, &reason);
            let started = Instant::now();
            while self.is_watched() && started.elapsed() < RETRY {
                thread::sleep(SLICE);
            }
        }
    }

    /// Whether nobody watches any more; nobody will.
    fn leave(&self) -> bool {
        let mut at_work = self.followers.at_work.lock();
        if self.is_watched() {
            return false;
        }
        at_work.remove(&self.subject);
        true
    }

    fn is_watched(&self) -> bool {
        0 < self.feed.receiver_count()
    }

    /// Reads until the view ends, and returns why, or until nobody watches.
    fn follow(&mut self) -> Result<String, SubscriptionError> {
        let subject = self.subject.clone();
        match &subject {
            Subject::View(view) => self.read(view),
            Subject::Uniform { stream, budget, patch_side } => {
                let followers = Arc::clone(&self.followers);
                let opened = Opened::open(&followers, stream, *budget, *patch_side)?;
                self.read(&opened.view)
            }
        }
    }

    fn read(&mut self, view: &ViewName) -> Result<String, SubscriptionError> {
        let mut subscription = Client::connect(&self.followers.socket)?.subscribe(view, false)?;
        let mut decoder = None;
        while self.is_watched() {
            match subscription.next_frame(&mut self.frame, SLICE)? {
                Next::Frame { .. } => self.show(decoder.as_ref()),
                Next::NewSegment => {
                    let reader = subscription.reader();
                    decoder = reader.map(|reader| Decoder::new(reader.header()));
                }
                Next::TimedOut => self.tell_state(&subscription),
                Next::Ended(reason) => return Ok(reason),
            }
        }
        Ok(String::new())
    }

    /// Shows the frame that was read.
    fn show(&self, decoder: Option<&Decoder>) {
        let Some(decoder) = decoder else { return };
        let frame = Some(Arc::new(decoder.decode(&self.frame)));
        self.feed.send_modify(|feed| {
            *feed = Feed { state: FeedState::Live, reason: String::new(), frame };
        });
    }

    /// Says why no frame comes, where the ring knows.
    fn tell_state(&self, subscription: &Subscription) {
        match subscription.reader().map(|reader| reader.state()) {
            Some((State::Stalled, reason)) => self.tell(FeedState::Stalled, &reason),
            Some((State::Ended, reason)) => self.tell(FeedState::Ended, &reason),
            Some((State::Live, _)) => {}
            None => self.tell(FeedState::Starting, "no frame has come yet"),
        }
    }

    /// Says what is the case. That there is no daemon any more is no news of a view that had ended.
    fn tell(&self, state: FeedState, reason: &str) {
        self.feed.send_if_modified(|feed| {
            let is_known = feed.state == state && feed.reason == reason;
            if is_known || (feed.state == FeedState::Ended && state == FeedState::Lost) {
                return false;
            }
            feed.state = state;
            reason.clone_into(&mut feed.reason);
            true
        });
    }
}

/// What a page is told of a view that cannot be read.
fn feed_of(error: &SubscriptionError) -> (FeedState, String) {
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

/// A view that was opened, and lives as long as this.
struct Opened {
    view: ViewName,
    _connection: Client,
}

impl Opened {
    fn open(
        followers: &Followers,
        stream: &str,
        budget: usize,
        patch_side: u32,
    ) -> Result<Self, ControlError> {
        let mut connection = Client::connect(&followers.socket)?;
        let name = followers.next_name();
        if let Ok(view) = ViewName::new(stream, &name) {
            followers.remember(view);
        }
        let table = json!({
            "name": name,
            "layout": "uniform", "budget": budget, "dtype": "u8", "patch": patch_side,
            "gaze": { "policy": "fixed" }
        });
        let table = table.as_object().cloned().unwrap_or_default();
        let view = connection.open_view(stream, table)?;
        Ok(Self { view, _connection: connection })
    }
}
