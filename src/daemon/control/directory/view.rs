//! One view, as the server and as its frame loop see it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::channel::{Bell, ClientChannel, ViewChannel, view_channel};
use crate::control::lease::{Client, Steering};
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

/// One view, as the server sees it.
#[derive(Debug)]
pub(in crate::control) struct ViewEntry {
    name: ViewName,
    /// Changed by an operator only.
    config: Mutex<Arc<ViewConfig>>,
    owner: Option<Client>,
    segment: Mutex<Option<Segment>>,
    end_reason: Mutex<Option<String>>,
    channel: ClientChannel,
    /// The server's thread takes this lock, and whoever reads the metrics; no frame loop.
    steering: Mutex<Steering>,
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

    /// Who opened it; `None` for those of the configuration.
    pub(in crate::control) fn owner(&self) -> Option<&Client> {
        self.owner.as_ref()
    }

    /// Its present segment.
    pub(in crate::control) fn segment(&self) -> Option<Segment> {
        self.segment.lock().clone()
    }

    /// The channel to its frame loop.
    pub(in crate::control) fn channel(&self) -> &ClientChannel {
        &self.channel
    }

    /// Who steers it.
    pub(in crate::control) fn steering(&self) -> &Mutex<Steering> {
        &self.steering
    }

    /// It publishes no more, for this reason. Who follows it keeps its segment, and the daemon does not.
    pub(super) fn end(&self, reason: &str) {
        *self.end_reason.lock() = Some(redacted(reason));
        *self.segment.lock() = None;
    }

    /// Why it publishes no more while its stream goes on, if so.
    pub(in crate::control) fn end_reason(&self) -> Option<String> {
        self.end_reason.lock().clone()
    }

    /// Everything about it.
    pub(in crate::control) fn listing(&self) -> ViewListing {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let scanpath = self.channel.scanpath();
        let (config, counts) = (self.config(), self.channel.counters().snapshot());
        let ViewConfig { layout, format, budget, max_fps, publish, gaze, .. } = &*config;
        ViewListing {
            name: self.name.clone(),
            layout: layout.name().to_owned(),
            patch_side: format.patch_side,
            dtype: format.dtype,
            budget: *budget,
            policy: gaze.policy.name().to_owned(),
            max_fps: *max_fps,
            publish: publish.name().to_owned(),
            opened_by: self.owner.as_ref().map(|owner| text(&owner.name)),
            epoch: self.segment.lock().as_ref().map(|segment| segment.epoch),
            fixation: scanpath.last().copied(),
            scanpath,
            steering: self.steering.lock().listing(counts.feedback_accepted),
            notices: self.channel.notices(),
        }
    }
}

impl ViewEntry {
    /// What it has done.
    pub(in crate::control) fn stats(&self) -> ViewStats {
        ViewStats {
            name: self.name.clone(),
            counts: self.channel.counters().snapshot(),
            feedback_refused: self.steering.lock().refused(),
        }
    }
}

/// A view, as its frame loop sees it.
#[derive(Debug)]
pub struct ViewPort {
    entry: Arc<ViewEntry>,
    bell: Arc<Bell>,
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

    /// It is another view from now on, under the same address.
    pub fn set_config(&self, config: ViewConfig) {
        *self.entry.config.lock() = Arc::new(config);
    }

    /// The channel to its clients, for its frame loop. There is one.
    ///
    /// # Panics
    ///
    /// If it was taken before.
    pub fn take_channel(&mut self) -> ViewChannel {
        self.channel.take().expect("a view has one frame loop")
    }

    /// Whether a client opened it.
    pub fn is_opened(&self) -> bool {
        self.entry.owner.is_some()
    }

    /// Identity of the segment that subscribers have; `None` before the first.
    pub fn epoch(&self) -> Option<u64> {
        self.entry.segment.lock().as_ref().map(|segment| segment.epoch.0)
    }

    /// The view publishes in another segment from now on: all subscribers get `descriptor`, which must be
    /// read-only, and readers that come later, too.
    pub fn set_segment(&self, descriptor: OwnedFd, epoch: u64) {
        let segment = Segment { descriptor: Arc::new(descriptor), epoch: Epoch(epoch) };
        let mut present = self.entry.segment.lock();
        // It may have been closed meanwhile.
        if !self.is_over() {
            *present = Some(segment);
        }
        drop(present);
        self.bell.ring();
    }

    /// Whether it is to publish no more: its client is gone.
    pub fn is_over(&self) -> bool {
        self.entry.end_reason().is_some()
    }

    /// The view cannot publish, while its stream goes on: subscribers are told why.
    pub fn fail(&self, reason: &str) {
        self.entry.end(reason);
        self.bell.ring();
    }
}

/// The two ends of one view.
pub(super) fn ends(
    stream: &str,
    config: ViewConfig,
    owner: Option<Client>,
    bell: &Arc<Bell>,
) -> (Arc<ViewEntry>, ViewPort) {
    let name = ViewName::new(stream, &config.name);
    let name = name.unwrap_or_else(|error| panic!("{error}"));
    let (channel, client_channel) = view_channel(bell, config.gaze.policy.is_feedback());
    let config = Mutex::new(Arc::new(config));
    let entry = Arc::new(ViewEntry {
        name,
        config,
        owner,
        segment: Mutex::default(),
        end_reason: Mutex::default(),
        channel: client_channel,
        steering: Mutex::default(),
    });
    let port =
        ViewPort { entry: Arc::clone(&entry), bell: Arc::clone(bell), channel: Some(channel) };
    (entry, port)
}
