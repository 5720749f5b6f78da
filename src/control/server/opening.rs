//! Views that clients open.

use serde_json::{Map, Value};

use super::Service;
use super::connection::Connection;
use crate::config::{GazeChoice, ViewConfig};
use crate::control::messages::{Opened, Refusal, RefusalReason, StreamState, ViewName, accepted};

impl Service {
    /// Opens a view of the client's own on `stream`, as `table` says.
    pub(super) fn open_view(
        &self,
        connection: &mut Connection,
        stream: &str,
        mut table: Map<String, Value>,
    ) -> Result<Vec<u8>, Refusal> {
        let Some(entry) = self.directory.stream(stream) else {
            let streams = self.directory.streams_from(None);
            let names: Vec<_> =
                streams.iter().map(|stream| format!("`{}`", stream.name())).collect();
            let error = format!("there is no stream `{stream}`; there are: {}", names.join(", "));
            return Err(Refusal::new(RefusalReason::UnknownStream, error));
        };
        if entry.state().0 == StreamState::Ended {
            let error = format!("stream `{stream}` has ended");
            return Err(Refusal::new(RefusalReason::Ended, error));
        }
        let number = connection.client.number;
        let unnamed = || Value::String(format!("open-{number}-{}", connection.opened + 1));
        table.entry("name").or_insert_with(unnamed);
        let config = checked_view(&table)?;
        if entry.views().iter().any(|view| view.config().name == config.name) {
            let error = format!("stream `{stream}` has a view `{}` already", config.name);
            return Err(Refusal::new(RefusalReason::NameTaken, error));
        }
        self.check_room(connection, &config)?;
        let view = ViewName::new(stream, &config.name).map_err(|error| bad_request(&error))?;
        connection.opened += 1;
        tracing::info!(%view, client = connection.client.name, "opening a view");
        entry.open_view(config, connection.client.clone(), self.directory.bell());
        Ok(accepted(&Opened { view }))
    }

    /// Refuses what is beyond the limits.
    fn check_room(&self, connection: &Connection, config: &ViewConfig) -> Result<(), Refusal> {
        let limits = self.limits;
        let views = self.directory.views();
        let opened = views.iter().filter(|view| view.owner().is_some());
        let present: usize = opened.clone().map(|view| view.config().ring_bytes()).sum();
        let refused = |error| Err(Refusal::new(RefusalReason::TooManyViews, error));
        if limits.views_per_client <= connection.opened {
            let most = limits.views_per_client;
            return refused(format!("a client may open {most} views: close this connection first"));
        }
        if limits.views_opened <= opened.count() {
            return refused(format!("clients have opened {} views already", limits.views_opened));
        }
        let left = limits.opened_bytes.saturating_sub(present);
        let wanted = config.ring_bytes();
        if left < wanted {
            return refused(format!(
                "its ring takes {wanted} bytes, and {left} are left for views that clients open: ask for fewer slots or a \
                 smaller budget"
            ));
        }
        Ok(())
    }
}

/// A view as a configuration would have it. Nothing of it may name a file of the daemon's.
fn checked_view(table: &Map<String, Value>) -> Result<ViewConfig, Refusal> {
    let config = toml::to_string(table)
        .map_err(|error| bad_request(&error))
        .and_then(|text| ViewConfig::parse(&text).map_err(|error| bad_request(&error)))?;
    if let GazeChoice::Replay { .. } = config.gaze.choice {
        let error = "a view that a client opens takes the policies \"fixed\", \"feedback\" and \"saliency\"";
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    Ok(config)
}

fn bad_request(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, error.to_string())
}
