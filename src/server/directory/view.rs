//! The server's entry of one view.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::channel::{ClientChannel, EventFd, ViewChannel, view_channel};
use crate::channels::InjectedChannels;
use crate::lease::{ClientIdentity, SteeringLease};
use crate::memory::MemoryWatch;
use foveate::messages::{ViewName, clipped};
use foveate_config::ViewConfig;
use foveate_control::{ViewListing, ViewStats};

/// Longest text of a listing, in bytes; longer ones are cut, so that a stream always fits a page.
pub(super) const LISTED_TEXT_BYTES_MAX: usize = 2048;

/// The server's end of a view.
#[derive(Debug)]
pub(crate) struct ViewEntry {
    owner: Option<ClientIdentity>,
    channel: ClientChannel,
    /// Locked by the server's thread and by readers of the metrics; never by a frame loop.
    steering: Mutex<SteeringLease>,
    /// Locked as `steering` is.
    channels: Mutex<InjectedChannels>,
}

impl ViewEntry {
    /// Address of the view.
    pub(crate) fn name(&self) -> &ViewName {
        self.channel.name()
    }

    /// Configuration of the view.
    pub(crate) fn config(&self) -> Arc<ViewConfig> {
        self.channel.config()
    }

    /// The client that opened it; `None` for a view of the configuration.
    pub(crate) fn owner(&self) -> Option<&ClientIdentity> {
        self.owner.as_ref()
    }

    /// The channel to its frame loop.
    pub(crate) fn channel(&self) -> &ClientChannel {
        &self.channel
    }

    /// Steering lease of the view.
    pub(crate) fn steering(&self) -> &Mutex<SteeringLease> {
        &self.steering
    }

    /// The channels and weights that clients injected.
    pub(crate) fn channels(&self) -> MutexGuard<'_, InjectedChannels> {
        let mut channels = self.channels.lock();
        // An operator's change of the view begins a new policy.
        channels.forget_unless_of(&self.config());
        channels
    }

    /// The view's entry in a listing.
    pub(crate) fn listing(&self) -> ViewListing {
        let text = |text: &str| clipped(text, LISTED_TEXT_BYTES_MAX);
        let (fixations, scanpath) = self.channel.fixations();
        let (config, counts) = (self.config(), self.channel.counters().snapshot());
        let ViewConfig { layout, format, budget, max_fps, publish, gaze, .. } = &*config;
        ViewListing {
            name: self.name().clone(),
            layout: layout.name().to_owned(),
            patch_side: format.patch_side,
            dtype: format.dtype,
            budget: *budget,
            policy: gaze.policy.to_string(),
            max_fps: *max_fps,
            publish: publish.name().to_owned(),
            opened_by: self.owner.as_ref().map(|owner| text(&owner.name)),
            epoch: self.channel.segment().map(|segment| segment.epoch),
            fixations,
            scanpath,
            steering: self.steering.lock().listing(counts.feedback_accepted),
            channels: self.channels().listing(Instant::now()),
            notices: self.channel.notices(),
            frames_shed: counts.frames_shed,
            tokens_published: counts.tokens_published,
            tokens_kept: counts.tokens_kept,
        }
    }

    /// Statistics of the view.
    pub(crate) fn stats(&self) -> ViewStats {
        ViewStats {
            name: self.name().clone(),
            counts: self.channel.counters().snapshot(),
            feedback_refused: self.steering.lock().refused(),
        }
    }
}

/// The two ends of one view: what the server knows, and the channel of its frame loop.
pub(super) fn view_entry(
    stream: &str,
    config: ViewConfig,
    opener: Option<(ClientIdentity, &Arc<MemoryWatch>)>,
    wakeup: &Arc<EventFd>,
) -> (Arc<ViewEntry>, ViewChannel) {
    let (owner, memory_watch) = opener.map(|(owner, watch)| (owner, Arc::clone(watch))).unzip();
    let (view_channel, channel) = view_channel(wakeup, stream, config, memory_watch);
    let (steering, channels) = (Mutex::default(), Mutex::default());
    (Arc::new(ViewEntry { owner, channel, steering, channels }), view_channel)
}
