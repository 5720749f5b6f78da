//! News for subscribers: changes of a view's gaze, and events of its stream.

use std::sync::Arc;

use super::connection::{Connection, ViewSubscription};
use crate::channel::outbox::Inbox;
use crate::channel::{ClientChannel, GazeChange, TimedEvent};
use crate::directory::ViewEntry;
use foveate::messages::{GazeEvent, SceneEvent, SubscriptionEvent, ViewName};
use foveate_core::geometry::gaze_entry::GazeEntry;

/// A kind of notice to subscribers.
pub(super) struct News<T> {
    /// Queue of a view.
    pub(super) inbox: fn(&ClientChannel) -> &Inbox<T>,
    /// Items that were lost before the subscription; `None` without one.
    lost_before: fn(&ViewSubscription) -> Option<u64>,
    /// Message about an item of a view, with the number of lost items before it.
    pub(super) event: fn(&ViewName, &T, u64) -> SubscriptionEvent,
}

/// Changes of the gaze.
pub(super) const GAZES: News<GazeChange> = News {
    inbox: |channel| &channel.gazes,
    lost_before: |subscription| subscription.gazes_lost_before,
    event: |view, change, lost| {
        let GazeChange { frame_seq, gaze, is_planned_afresh } = change;
        let entry =
            GazeEntry { is_planned_afresh: *is_planned_afresh, ..GazeEntry::new(gaze, *frame_seq) };
        SubscriptionEvent::Gaze(GazeEvent { view: view.clone(), entry, lost })
    },
};

/// Events of the stream.
pub(super) const EVENTS: News<TimedEvent> = News {
    inbox: |channel| &channel.events,
    lost_before: |subscription| subscription.events_lost_before,
    event: |view, timed, lost| {
        let TimedEvent { event: scene, capture_ns, capture_unix_ns } = *timed;
        SubscriptionEvent::Scene(SceneEvent {
            view: view.clone(),
            scene,
            capture_ns,
            capture_unix_ns,
            lost,
        })
    },
};

impl<T> News<T> {
    /// The view that `connection` wants news of, and how many were lost before it did.
    pub(super) fn subscribed<'a>(
        &self,
        connection: &'a Connection,
    ) -> Option<(&'a Arc<ViewEntry>, u64)> {
        let subscription = connection.subscription.as_ref()?;
        Some((&subscription.view, (self.lost_before)(subscription)?))
    }

    /// The news of all views that `connections` want some of.
    pub(super) fn drain(&self, connections: &[Connection]) -> Vec<(Arc<ViewEntry>, Vec<T>)> {
        let mut taken: Vec<(Arc<ViewEntry>, Vec<T>)> = Vec::new();
        for (view, _) in connections.iter().filter_map(|connection| self.subscribed(connection)) {
            if taken.iter().all(|(other, _)| !Arc::ptr_eq(other, view)) {
                taken.push((Arc::clone(view), (self.inbox)(view.channel()).drain()));
            }
        }
        taken
    }

    /// Ends the news of the view of `connection`, which is gone, unless one of `others` wants them.
    pub(super) fn leave(&self, connection: &Connection, others: &[Connection]) {
        let Some((view, _)) = self.subscribed(connection) else { return };
        let mut views = others.iter().filter_map(|other| self.subscribed(other));
        if views.all(|(other, _)| !Arc::ptr_eq(other, view)) {
            (self.inbox)(view.channel()).set_wanted(false);
        }
    }
}
