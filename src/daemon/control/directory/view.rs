//! The server's end and the frame loop's end of one view.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::channel::{ClientChannel, EventFd, ViewChannel, view_channel};
use crate::control::channels::Channels;
use crate::control::lease::{Client, Steering};
use crate::control::memory::{Gone, Memory, MemoryWatch};
use foveate::messages::{Epoch, ViewName, clipped};
use foveate_config::ViewConfig;
use foveate_control::{ViewListing, ViewStats};
use foveate_log::redact::redacted;

/// Longest text of a listing, in bytes; longer ones are cut, so that a stream always fits a page.
pub(super) const LISTED_TEXT_BYTES_MAX: usize = 2048;

/// A read-only descriptor of the segment that a view publishes in.
#[derive(Clone, Debug)]
pub(in crate::control) struct Segment {
    pub(in crate::control) descriptor: Arc<OwnedFd>,
    pub(in crate::control) epoch: Epoch,
}

/// The server's end of a view.
#[derive(Debug)]
pub(in crate::control) struct ViewEntry {
    name: ViewName,
    /// Changed only by operators.
    config: Mutex<Arc<ViewConfig>>,
    owner: Option<Client>,
    segment: Mutex<Option<Segment>>,
    /// If a client opened it: the memory of its segments, old ones included, until nobody has it any more.
    memory: Mutex<Vec<Memory>>,
    end_reason: Mutex<Option<String>>,
    channel: ClientChannel,
    /// Locked by the server's thread and by readers of the metrics; never by a frame loop.
    steering: Mutex<Steering>,
    /// Locked as `steering` is.
    channels: Mutex<Channels>,
}

impl ViewEntry {
    /// Its address.
    pub(in crate::control) fn name(&self) -> &ViewName {
        &self.name
    }

    /// What it is configured to be.
    pub(in crate::control) fn config(&self) -> Arc<ViewConfig> {
        Arc::clone(&self.config.lock())
    }

    /// The client that opened it; `None` for a view of the configuration.
    pub(in crate::control) fn owner(&self) -> Option<&Client> {
        self.owner.as_ref()
    }

    /// The current segment.
    pub(in crate::control) fn segment(&self) -> Option<Segment> {
        self.segment.lock().clone()
    }

    /// Bytes of the segments of a view that a client opened, old ones included as long as somebody has them mapped or open, and its
    /// share of memory while the frame loop has not released it.
    pub(in crate::control) fn bytes(&self) -> usize {
        let bytes = self.memory.lock().iter().map(|memory| memory.bytes).sum::<usize>();
        if self.channel.is_closed() { bytes } else { bytes.max(self.config().ring_bytes()) }
    }

    /// Forgets memory that is gone. Returns whether it has some beside that of its segment.
    pub(super) fn forget(&self, gone: &Gone) -> bool {
        let mut memory = self.memory.lock();
        memory.retain(|memory| !gone.has(memory));
        usize::from(self.segment.lock().is_some()) < memory.len()
    }

    /// The channel to its frame loop.
    pub(in crate::control) fn channel(&self) -> &ClientChannel {
        &self.channel
    }

    /// Its steering lease.
    pub(in crate::control) fn steering(&self) -> &Mutex<Steering> {
        &self.steering
    }

    /// What clients have said of its channels.
    pub(in crate::control) fn channels(&self) -> MutexGuard<'_, Channels> {
        let mut channels = self.channels.lock();
        // An operator's change of the view begins a new policy.
        channels.forget_unless_of(&self.config());
        channels
    }

    /// Ends the view for `reason`. The daemon drops the segment; readers keep theirs.
    pub(super) fn end(&self, reason: &str) {
        *self.end_reason.lock() = Some(redacted(reason));
        *self.segment.lock() = None;
    }

    /// Why it ended, if it did; its stream may continue.
    pub(in crate::control) fn end_reason(&self) -> Option<String> {
        self.end_reason.lock().clone()
    }

    /// Its entry in a listing.
    pub(in crate::control) fn listing(&self) -> ViewListing {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let (fixations, scanpath) = self.channel.fixations();
        let (config, counts) = (self.config(), self.channel.counters().snapshot());
        let ViewConfig { layout, format, budget, max_fps, publish, gaze, .. } = &*config;
        ViewListing {
            name: self.name.clone(),
            layout: layout.name().to_owned(),
            patch_side: format.patch_side,
            dtype: format.dtype,
            budget: *budget,
            policy: gaze.policy.to_string(),
            max_fps: *max_fps,
            publish: publish.name().to_owned(),
            opened_by: self.owner.as_ref().map(|owner| text(&owner.name)),
            epoch: self.segment.lock().as_ref().map(|segment| segment.epoch),
            fixations,
            scanpath,
            steering: self.steering.lock().listing(counts.feedback_accepted),
            channels: self.channels().listing(Instant::now()),
            notices: self.channel.notices(),
            frames_shed: counts.frames_shed,
            tokens_published: counts.tokens_published,
            tokens_reusable: counts.tokens_reusable,
        }
    }
}

impl ViewEntry {
    /// Its counters.
    pub(in crate::control) fn stats(&self) -> ViewStats {
        ViewStats {
            name: self.name.clone(),
            counts: self.channel.counters().snapshot(),
            feedback_refused: self.steering.lock().refused(),
        }
    }
}

/// The frame loop's end of a view.
#[derive(Debug)]
pub struct ViewPort {
    entry: Arc<ViewEntry>,
    wakeup: Arc<EventFd>,
    /// If a client opened it.
    memory_watch: Option<Arc<MemoryWatch>>,
    channel: Option<ViewChannel>,
}

impl ViewPort {
    /// Its address.
    pub fn name(&self) -> &ViewName {
        &self.entry.name
    }

    /// What it is configured to be.
    pub fn config(&self) -> Arc<ViewConfig> {
        self.entry.config()
    }

    /// Replaces its configuration; the address stays.
    pub fn set_config(&self, config: ViewConfig) {
        *self.entry.config.lock() = Arc::new(config);
    }

    /// Takes the channel to its clients, for its frame loop.
    ///
    /// # Panics
    ///
    /// On the second call.
    pub fn take_channel(&mut self) -> ViewChannel {
        self.channel.take().expect("a view has one frame loop")
    }

    /// Whether a client opened it.
    pub fn is_opened(&self) -> bool {
        self.entry.owner.is_some()
    }

    /// Epoch of the segment that subscribers have; `None` before the first.
    pub fn epoch(&self) -> Option<u64> {
        self.entry.segment.lock().as_ref().map(|segment| segment.epoch.0)
    }

    /// Switches to another segment: present and later subscribers get `descriptor`, which must be read-only.
    pub fn set_segment(&self, descriptor: OwnedFd, epoch: u64) {
        if let Some(watch) = &self.memory_watch {
            match watch.watch(&descriptor) {
                Ok(memory) => self.entry.memory.lock().push(memory),
                // Readers could keep it unseen.
                Err(error) => return self.fail(&format!("its memory cannot be watched: {error}")),
            }
        }
        let segment = Segment { descriptor: Arc::new(descriptor), epoch: Epoch(epoch) };
        let mut present = self.entry.segment.lock();
        // It may have been closed meanwhile.
        if !self.is_over() {
            *present = Some(segment);
        }
        drop(present);
        self.wakeup.signal();
    }

    /// Why it must end or has ended, if so.
    pub fn end_reason(&self) -> Option<String> {
        self.entry.end_reason()
    }

    /// Whether it must end, because its client or its configuration is gone.
    pub fn is_over(&self) -> bool {
        self.end_reason().is_some()
    }

    /// Ends the view while its stream continues; subscribers get the reason.
    pub fn fail(&self, reason: &str) {
        self.entry.end(reason);
        self.wakeup.signal();
    }
}

/// The two ends of one view.
pub(super) fn ends(
    stream: &str,
    config: ViewConfig,
    opener: Option<(Client, &Arc<MemoryWatch>)>,
    wakeup: &Arc<EventFd>,
) -> (Arc<ViewEntry>, ViewPort) {
    let name = ViewName::new(stream, &config.name);
    let name = name.unwrap_or_else(|error| panic!("{error}"));
    let (channel, client_channel) = view_channel(wakeup, config.gaze.policy.is_feedback());
    let config = Mutex::new(Arc::new(config));
    let (owner, memory_watch) = opener.map(|(owner, watch)| (owner, Arc::clone(watch))).unzip();
    let entry = Arc::new(ViewEntry {
        name,
        config,
        owner,
        segment: Mutex::default(),
        memory: Mutex::default(),
        end_reason: Mutex::default(),
        channel: client_channel,
        steering: Mutex::default(),
        channels: Mutex::default(),
    });
    let port = ViewPort {
        entry: Arc::clone(&entry),
        wakeup: Arc::clone(wakeup),
        memory_watch,
        channel: Some(channel),
    };
    (entry, port)
}
