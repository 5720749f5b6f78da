//! `open_view`: views that clients open.

use std::ops::Bound;

use serde_json::{Map, Value};

use super::ServerThread;
use super::connection::Connection;
use super::limits::left_for;
use crate::directory::{StreamEntry, ViewEntry};
use foveate::messages::{Granted, Refusal, RefusalReason, ViewName};
use foveate_config::ViewConfig;
use foveate_control::{StreamState, accepted};
use foveate_core::value::shown;
use foveate_gaze::view::VIEWS_MAX;

impl ServerThread {
    /// Opens a view on `stream` as `table` describes it, which lasts as long as the connection.
    pub(super) fn open_view(
        &self,
        connection: &mut Connection,
        stream: &str,
        mut table: Map<String, Value>,
    ) -> Result<Vec<u8>, Refusal> {
        let Some(entry) = self.directory.stream(stream) else {
            let streams = self.directory.streams_from(Bound::Unbounded);
            let names: Vec<_> =
                streams.iter().map(|stream| format!("`{}`", stream.name())).collect();
            let (stream, names) = (shown(stream), names.join(", "));
            let error = format!("unknown stream `{stream}` (expected one of: {names})");
            return Err(Refusal::new(RefusalReason::UnknownStream, error));
        };
        entry.check_not_a_recording()?;
        // Before the first frame the cost of a view is unknown, and one that cannot be built must not end the stream.
        let refused =
            |reason, text: &str| Err(Refusal::new(reason, format!("stream `{stream}` {text}")));
        match entry.state().0 {
            StreamState::Starting => {
                return refused(RefusalReason::NotStarted, "has not delivered a frame yet");
            }
            StreamState::Ended => return refused(RefusalReason::Ended, "has ended"),
            StreamState::Live | StreamState::Stalled => {}
        }
        let number = connection.client.number;
        table.entry("name").or_insert_with(|| free_name(&entry, number).into());
        let config = crate::described::view_from_table(&table)?;
        if has_view(&entry, &config.name) {
            let error = format!(
                "stream `{stream}` has a view `{}` already: choose another name",
                config.name
            );
            return Err(Refusal::new(RefusalReason::NameTaken, error));
        }
        if VIEWS_MAX <= entry.views().len() {
            return refused(
                RefusalReason::TooManyViews,
                &format!("has {VIEWS_MAX} views already: close one first"),
            );
        }
        self.check_room(connection, &config)?;
        let view = ViewName::new(stream, &config.name)
            .map_err(|error| Refusal::new(RefusalReason::BadRequest, error.to_string()))?;
        connection.opened += 1;
        tracing::info!(%view, client = connection.client.name, "opening a view");
        entry.open_view(config, connection.client.clone());
        Ok(accepted(&Granted { view }))
    }

    /// Checks the limits on opened views.
    fn check_room(&self, connection: &Connection, config: &ViewConfig) -> Result<(), Refusal> {
        self.directory.forget_memory();
        let limits = self.limits;
        let user = connection.client.user;
        let opened = self.directory.views_of_clients();
        let left = |whole, amount: fn(&ViewEntry) -> usize| {
            let held = opened.iter().filter_map(|view| Some((view.owner()?.user, amount(view))));
            left_for(user, whole, held)
        };
        let refused = |error| Err(Refusal::new(RefusalReason::TooManyViews, error));
        if limits.views_per_client <= connection.opened {
            let most = limits.views_per_client;
            return refused(format!(
                "too many views of this client (limit {most}): close this connection first"
            ));
        }
        if left(limits.views_opened, |_| 1) == 0 {
            return refused(format!(
                "too many opened views: {1} exist, including closed ones that are still mapped (limit {0}, and half of it for \
                 one user)",
                limits.views_opened,
                opened.len()
            ));
        }
        let wanted = config.capacity();
        let tokens = left(limits.opened_tokens, |view| sampled(view, ViewConfig::capacity));
        if tokens < wanted {
            return refused(format!(
                "budget too large: {wanted} tokens a frame (this user has {tokens} left): ask for a smaller `budget`"
            ));
        }
        let wanted = config.frame_cost();
        let bytes = left(limits.opened_frame_cost, |view| sampled(view, ViewConfig::frame_cost));
        if bytes < wanted {
            return refused(format!(
                "frames too large: {wanted} bytes, with the time for depth and boxes (this user has {bytes} left): ask for a smaller \
                 `budget`, `patch` or `dtype`, or less `depth`"
            ));
        }
        let wanted = config.ring_bytes();
        let bytes = left(limits.opened_bytes, |view| view.channel().bytes());
        if bytes < wanted {
            return refused(format!(
                "ring too large: {wanted} bytes (this user has {bytes} left; rings of closed views count while they are \
                 mapped): ask for fewer `slots` or a smaller `budget`"
            ));
        }
        Ok(())
    }
}

/// Cost of a frame of the view; 0 once the frame loop has dropped the view.
fn sampled(view: &ViewEntry, cost: fn(&ViewConfig) -> usize) -> usize {
    if view.channel().is_closed() { 0 } else { cost(&view.config()) }
}

/// A free name for a view of client `number`.
fn free_name(stream: &StreamEntry, number: u64) -> String {
    let mut index = 1;
    loop {
        let name = format!("open-{number}-{index}");
        if !has_view(stream, &name) {
            return name;
        }
        index += 1;
    }
}

fn has_view(stream: &StreamEntry, name: &str) -> bool {
    stream.views().iter().any(|view| view.config().name == name)
}
