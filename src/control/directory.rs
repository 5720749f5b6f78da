//! What the daemon serves, shared between its frame loops and the server.
//!
//! ```text
//!  frame loop                          directory                        server's thread
//!  StreamPort.update, .ended   ------>  StreamEntry.status     ------>  list, ended events
//!  ViewPort.set_segment        ------>  ViewEntry.segment      ------>  segment events
//!  ViewPort.set_fixation       ------>  ViewEntry.fixation     ------>  list
//!  ViewPort.newest_feedback    <------  lock-free ring         <------  look
//!  Waker                       <------  channel                <------  subscribe with notify
//! ```
//!
//! Every lock here is held for a copy and never across I/O, so a frame loop cannot be made to wait by a client.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use ringbuf::HeapRb;
use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{HeapCons, HeapProd};
use rustix::event::EventfdFlags;

use super::messages::{
    ChangeListing, Epoch, Refusal, RefusalReason, StreamListing, StreamState, ViewListing,
    ViewName, clipped, is_name,
};
use crate::backend::Backend;
use crate::frame::PixelFormat;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::{Fixation, snapped};
use crate::stats::{ChangeGauges, StreamCounters};
use crate::token::DType;

/// Feedback that a frame loop may leave untaken before more are refused.
const FEEDBACK_PENDING_MAX: usize = 64;

/// Subscribers that a frame loop may leave untaken before more are refused.
const SUBSCRIBERS_PENDING_MAX: usize = 64;

/// Longest text of a listing, in bytes; longer ones are cut, so that a stream always fits a page.
const LISTED_TEXT_BYTES_MAX: usize = 2048;

/// Everything that is served. The daemon fills it; the server reads it.
#[derive(Debug)]
pub struct Directory {
    streams: Mutex<BTreeMap<String, Arc<StreamEntry>>>,
    bell: Arc<Bell>,
}

/// A stream to be served.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Its name: 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Where its frames come from, without secrets: whoever may connect can read it.
    pub source: String,
    /// Its views, at least one.
    pub views: Vec<ViewFacts>,
}

/// What does not change about a view.
#[derive(Clone, Debug)]
pub struct ViewFacts {
    /// Its name in the stream: 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Name of its layout.
    pub layout: String,
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// Most tokens of a frame.
    pub budget: u32,
}

/// What changes about a stream, rarely.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Where its frames come from, without secrets.
    pub source: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// Pixel format of its frames; `None` before the first.
    pub format: Option<PixelFormat>,
    /// Extent of its frames; `None` before the first.
    pub extent: Option<Extent>,
    /// What computes its pyramid; `None` before the first frame.
    pub backend: Option<Backend>,
}

impl Directory {
    /// An empty directory.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub fn new() -> std::io::Result<Arc<Self>> {
        let bell = Arc::new(Bell::new()?);
        Ok(Arc::new(Self { streams: Mutex::default(), bell }))
    }

    /// Adds a stream that is starting, and returns the end of it that its frame loop keeps.
    ///
    /// # Panics
    ///
    /// If a name is not a name or not unique, or there is no view: the configuration was checked before.
    pub fn add_stream(&self, spec: StreamSpec) -> StreamPort {
        let StreamSpec { name, source, views } = spec;
        assert!(is_name(&name), "{name:?} is not the name of a stream");
        assert!(!views.is_empty(), "stream {name} has no views");
        let (entries, views) = views
            .into_iter()
            .map(|facts| view_ends(&name, facts, &self.bell))
            .collect::<(Vec<_>, Vec<_>)>();
        let entry = Arc::new(StreamEntry::new(name, source, entries));
        match self.streams.lock().entry(entry.name.clone()) {
            Entry::Vacant(vacant) => drop(vacant.insert(Arc::clone(&entry))),
            Entry::Occupied(occupied) => panic!("two streams are called {}", occupied.key()),
        }
        StreamPort { entry, bell: Arc::clone(&self.bell), views }
    }

    /// The stream and the view of that name.
    pub(super) fn find(&self, name: &ViewName) -> Option<(Arc<StreamEntry>, Arc<ViewEntry>)> {
        let stream = self.streams.lock().get(name.stream()).cloned()?;
        let view = stream.views.iter().find(|view| view.name == *name).cloned()?;
        Some((stream, view))
    }

    /// The names of all views, in order.
    pub(super) fn view_names(&self) -> Vec<ViewName> {
        let streams = self.streams.lock();
        streams.values().flat_map(|stream| &stream.views).map(|view| view.name.clone()).collect()
    }

    /// The streams from that of `after` on, in the order of their names.
    pub(super) fn streams_from(&self, after: Option<&ViewName>) -> Vec<Arc<StreamEntry>> {
        let first = after.map_or(Bound::Unbounded, |name| Bound::Included(name.stream()));
        let streams = self.streams.lock();
        streams.range::<str, _>((first, Bound::Unbounded)).map(|(_, entry)| entry.clone()).collect()
    }

    /// What the server polls: readable after something changed that subscribers want to know.
    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

/// One stream, as the server sees it.
#[derive(Debug)]
pub struct StreamEntry {
    name: String,
    status: Mutex<StreamStatus>,
    counters: Arc<StreamCounters>,
    views: Vec<Arc<ViewEntry>>,
}

impl StreamEntry {
    fn new(name: String, source: String, views: Vec<Arc<ViewEntry>>) -> Self {
        let status = StreamStatus {
            source,
            state: StreamState::Starting,
            reason: String::new(),
            format: None,
            extent: None,
            backend: None,
        };
        Self { name, status: Mutex::new(status), counters: Arc::default(), views }
    }

    /// Why it ended, if it has.
    pub(super) fn end_reason(&self) -> Option<String> {
        let status = self.status.lock();
        let ended = status.state == StreamState::Ended;
        ended.then(|| clipped(&status.reason, LISTED_TEXT_BYTES_MAX))
    }

    /// Its views behind `after`; all of them where that is a view of another stream.
    pub(super) fn views_after(&self, after: Option<&ViewName>) -> &[Arc<ViewEntry>] {
        let position = self.views.iter().position(|view| Some(&view.name) == after);
        &self.views[position.map_or(0, |index| index + 1)..]
    }

    /// Everything about it but its views.
    pub(super) fn listing(&self) -> StreamListing {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let StreamStatus { source, state, reason, format, extent, backend } =
            self.status.lock().clone();
        let counters = &self.counters;
        StreamListing {
            name: self.name.clone(),
            state,
            reason: text(&reason),
            source: text(&source),
            format: format.map(|format| format.name().to_owned()),
            extent: extent.map(|extent| [extent.width, extent.height]),
            backend: backend.map(|backend| Backend {
                device: text(&backend.device),
                reason: text(&backend.reason),
                ..backend
            }),
            frames_captured: counters.frames_captured.get(),
            frames_dropped: counters.frames_dropped.get(),
            frames_published: counters.frames_published.get(),
            frames_refused: counters.frames_refused.get(),
            tiles_dirty: counters.tiles_dirty.get(),
            backend_fallbacks: counters.backend_fallbacks.get(),
            change: change_listing(&counters.change),
            views: Vec::new(),
        }
    }

    /// Hands the point nearest to (`x`, `y`) in the image to the frame loop of `view`, and returns it.
    pub(super) fn look(&self, view: &ViewEntry, x: f64, y: f64) -> Result<(f64, f64), Refusal> {
        let refused = |reason, text: &str| {
            Err(Refusal::new(reason, format!("stream `{}` {text}", self.name)))
        };
        let (state, extent) = {
            let status = self.status.lock();
            (status.state, status.extent)
        };
        let Some(extent) = extent else {
            return refused(RefusalReason::NotStarted, "has not delivered a frame yet");
        };
        if state == StreamState::Ended {
            return refused(RefusalReason::Ended, "has ended");
        }
        let (x, y) = snapped(extent, x, y);
        match view.feedback.lock().try_push(Feedback::Look { x, y, hold_ns: None }) {
            Ok(()) => Ok((x, y)),
            Err(_) => refused(
                RefusalReason::Busy,
                &format!("delivers no frames and has {FEEDBACK_PENDING_MAX} looks to take"),
            ),
        }
    }
}

/// A read-only descriptor of the segment that a view publishes in.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) descriptor: Arc<OwnedFd>,
    pub(super) epoch: Epoch,
}

/// One view, as the server sees it.
pub struct ViewEntry {
    name: ViewName,
    facts: ViewFacts,
    segment: Mutex<Option<Segment>>,
    fixation: Mutex<Option<Fixation>>,
    /// The producer's end of a lock-free ring: only the server's thread takes this lock.
    feedback: Mutex<HeapProd<Feedback>>,
    subscribers: Sender<OwnedFd>,
}

impl ViewEntry {
    /// Its address.
    pub(super) fn name(&self) -> &ViewName {
        &self.name
    }

    /// Its present segment.
    pub(super) fn segment(&self) -> Option<Segment> {
        self.segment.lock().clone()
    }

    /// Everything about it.
    pub(super) fn listing(&self) -> ViewListing {
        ViewListing {
            name: self.name.clone(),
            layout: clipped(&self.facts.layout, LISTED_TEXT_BYTES_MAX),
            patch_side: self.facts.patch_side,
            dtype: self.facts.dtype,
            budget: self.facts.budget,
            epoch: self.segment.lock().as_ref().map(|segment| segment.epoch),
            fixation: self.fixation.lock().map(Into::into),
        }
    }

    /// Whether [`ViewEntry::notify`] has room for another connection. Only the server's thread fills it, so what this
    /// says stays true until it does.
    pub(super) fn check_room_for_subscriber(&self) -> Result<(), Refusal> {
        if !self.subscribers.is_full() {
            return Ok(());
        }
        let error = format!(
            "view `{}` publishes no frames and has {SUBSCRIBERS_PENDING_MAX} subscribers to take",
            self.name
        );
        Err(Refusal::new(RefusalReason::Busy, error))
    }

    /// Hands `connection` to the frame loop's waker, for notices. Of a view that has ended there are none.
    pub(super) fn notify(&self, connection: OwnedFd) {
        if let Err(TrySendError::Full(_)) = self.subscribers.try_send(connection) {
            tracing::error!(view = %self.name, "a subscriber that was granted notices gets none");
        }
    }
}

impl std::fmt::Debug for ViewEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewEntry")
            .field("name", &self.name)
            .field("segment", &self.segment)
            .finish_non_exhaustive()
    }
}

/// A stream, as its frame loop sees it.
#[derive(Debug)]
pub struct StreamPort {
    entry: Arc<StreamEntry>,
    bell: Arc<Bell>,
    /// Its views, in the order of the [`StreamSpec`]; the frame loop takes them.
    pub views: Vec<ViewPort>,
}

impl StreamPort {
    /// The counters that listings show.
    pub fn counters(&self) -> &Arc<StreamCounters> {
        &self.entry.counters
    }

    /// Changes what listings show. Subscribers learn when that ends the stream.
    pub fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        let (before, after) = {
            let mut status = self.entry.status.lock();
            let before = status.state;
            change(&mut status);
            (before, status.state)
        };
        if before != after {
            self.bell.ring();
        }
    }

    /// The stream publishes no more: subscribers are told why.
    pub fn ended(&self, reason: &str) {
        self.update(|status| {
            status.state = StreamState::Ended;
            reason.clone_into(&mut status.reason);
        });
    }
}

/// A view, as its frame loop sees it.
pub struct ViewPort {
    entry: Arc<ViewEntry>,
    bell: Arc<Bell>,
    feedback: HeapCons<Feedback>,
    subscribers: Receiver<OwnedFd>,
}

impl ViewPort {
    /// Its address.
    pub fn name(&self) -> &ViewName {
        &self.entry.name
    }

    /// The view publishes in another segment from now on: all subscribers get `descriptor`, which must be
    /// read-only, and readers that come later, too.
    pub fn set_segment(&self, descriptor: OwnedFd, epoch: u64) {
        let segment = Segment { descriptor: Arc::new(descriptor), epoch: Epoch(epoch) };
        *self.entry.segment.lock() = Some(segment);
        self.bell.ring();
    }

    /// Where the view looks now, for listings. Never waits: false where one is being made right now, and then the
    /// fixation must be set again later.
    pub fn set_fixation(&self, fixation: Fixation) -> bool {
        let Some(mut listed) = self.entry.fixation.try_lock() else { return false };
        *listed = Some(fixation);
        true
    }

    /// The newest feedback since the last call; older ones are forgotten. Never waits.
    pub fn newest_feedback(&mut self) -> Option<Feedback> {
        self.feedback.pop_iter().last()
    }

    /// Connections of subscribers that want a notice with every token frame, for the waker.
    pub fn subscribers(&self) -> Receiver<OwnedFd> {
        self.subscribers.clone()
    }
}

impl std::fmt::Debug for ViewPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewPort").field("entry", &self.entry).finish_non_exhaustive()
    }
}

/// Wakes the server's thread from its poll.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    fn new() -> std::io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable. Never waits.
    pub(super) fn ring(&self) {
        // It fails only when the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next ring.
    pub(super) fn silence(&self) {
        // It fails only when nobody rang, which is as well.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `None` before the first frame.
fn change_listing(gauges: &ChangeGauges) -> Option<ChangeListing> {
    Some(ChangeListing {
        threshold: gauges.threshold.get()?,
        threshold_limit: gauges.threshold_limit.get(),
        noise: gauges.noise_thousandths.get().map(|noise| noise as f64 / 1000.0),
        tiles_dirty: gauges.tiles_dirty.get()?,
        tile_count: gauges.tile_count.get()?,
    })
}

/// The two ends of one view.
fn view_ends(stream: &str, facts: ViewFacts, bell: &Arc<Bell>) -> (Arc<ViewEntry>, ViewPort) {
    let name = ViewName::new(stream, &facts.name);
    let name = name.unwrap_or_else(|error| panic!("{error}"));
    let (feedback, feedback_taken) = HeapRb::new(FEEDBACK_PENDING_MAX).split();
    let (subscribers, subscribers_taken) = crossbeam_channel::bounded(SUBSCRIBERS_PENDING_MAX);
    let entry = Arc::new(ViewEntry {
        name,
        facts,
        segment: Mutex::default(),
        fixation: Mutex::default(),
        feedback: Mutex::new(feedback),
        subscribers,
    });
    let port = ViewPort {
        entry: Arc::clone(&entry),
        bell: Arc::clone(bell),
        feedback: feedback_taken,
        subscribers: subscribers_taken,
    };
    (entry, port)
}
