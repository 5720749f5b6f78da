//! Runs event detection on the frames of a stream, and sends events to the clients of its views.

use std::sync::Arc;

use super::publisher::Publisher;
use foveate_core::event::Event;
use foveate_core::frame::{FrameStamp, FrameTime};
use foveate_core::geometry::tile::TileSet;
use foveate_engine::{Engine, View};
use foveate_gaze::events::{Detectors, Events, FrameFacts};
use foveate_server::channel::TimedEvent;
use foveate_stats::StreamCounters;

/// The detectors of a stream.
#[derive(Debug)]
pub(super) struct EventWatch {
    /// `None` before the first frame.
    detectors: Option<Detectors>,
    /// Whether the source is live.
    pub(super) is_live: bool,
    /// Events detected at the newest frame.
    pub(super) events: Events,
    counters: Arc<StreamCounters>,
}

impl EventWatch {
    pub(super) fn new(counters: &Arc<StreamCounters>) -> Self {
        counters.events.watch();
        let (is_live, events, counters) = (false, Events::new(), Arc::clone(counters));
        Self { detectors: None, is_live, events, counters }
    }

    /// Masks cover `texels` of the coarse level from the next frame on: forgets what was seen there.
    pub(super) fn apply_mask(&mut self, texels: &TileSet) {
        // A picture of another extent makes other detectors.
        let detectors = self.detectors.as_mut();
        if let Some(detectors) = detectors.filter(|own| own.grid() == texels.grid()) {
            detectors.apply_mask(texels);
        }
    }

    /// Looks at the newest frame of `engine`, that of `stamp`. Without its coarse level, which a device that is being lost may not
    /// give, the frame is left out.
    pub(super) fn look(
        &mut self,
        engine: &Engine,
        stamp: &FrameStamp,
        views: &mut [View<Publisher>],
    ) {
        let extent = engine.kind().extent;
        self.events.clear();
        if let Some(detectors) = &mut self.detectors
            && detectors.extent() != extent
        {
            self.events = detectors.restart(extent);
        }
        let detectors = self.detectors.get_or_insert_with(|| Detectors::new(extent));
        if let Some(coarse) = engine.coarse() {
            let tracker = engine.tracker();
            let facts = FrameFacts {
                at: FrameTime::of(stamp),
                is_live: self.is_live,
                tiles_differing: tracker.differing(),
                tile_count: tracker.ingested().grid().area(),
            };
            self.events.extend(detectors.detect(coarse, &facts));
        }
        for event in &self.events {
            self.counters.events.add(event);
            let Event { kind, phase, frame, since_frame, value, .. } = *event;
            tracing::debug!(%kind, %phase, frame, since_frame, value, "an event");
        }
        for view in views {
            let channel = &mut view.sink.channel;
            let present = channel.has_new_event_client().then(|| detectors.present());
            // An event that begins now is in both lists.
            let is_new = |event: &Event| !self.events.contains(event);
            let present = present.into_iter().flatten().filter(is_new);
            for event in present.chain(self.events.iter().copied()) {
                channel.send_event(timed(event, stamp));
            }
        }
    }
}

/// An event of the frame of `stamp`.
pub(super) fn timed(event: Event, stamp: &FrameStamp) -> TimedEvent {
    let FrameStamp { capture_ns, capture_unix_ns, .. } = *stamp;
    TimedEvent { event, capture_ns, capture_unix_ns }
}
