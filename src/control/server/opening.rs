//! Views that clients open.

use serde_json::{Map, Value};

use super::connection::Connection;
use super::{Service, json_len};
use crate::config::{GazeChoice, ViewConfig};
use crate::control::directory::StreamEntry;
use crate::control::messages::{Opened, Refusal, RefusalReason, StreamState, ViewName, accepted};

/// Bytes of JSON that a view may be described in; all keys that there are take a fifth of them.
const VIEW_BYTES_MAX: usize = 4096;

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
        table.entry("name").or_insert_with(|| free_name(&entry, number).into());
        let config = checked_view(&table)?;
        if has_view(&entry, &config.name) {
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
        let opened = self.directory.views_of_clients();
        let present: usize = opened.iter().map(|view| view.config().ring_bytes()).sum();
        let refused = |error| Err(Refusal::new(RefusalReason::TooManyViews, error));
        if limits.views_per_client <= connection.opened {
            let most = limits.views_per_client;
            return refused(format!("a client may open {most} views: close this connection first"));
        }
        if limits.views_opened <= opened.len() {
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
    let bytes = json_len(table);
    if VIEW_BYTES_MAX < bytes {
        let error =
            format!("a view of {bytes} bytes, where at most {VIEW_BYTES_MAX} bytes will do");
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    let text = toml_text(table).map_err(|error| bad_request(&error))?;
    let config = ViewConfig::parse(&text).map_err(|error| bad_request(&error))?;
    if let GazeChoice::Replay { .. } = config.gaze.choice {
        let error = "a view that a client opens takes the policies \"fixed\", \"feedback\" and \"saliency\"";
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    Ok(config)
}

/// One line for each key. Tables are written inline: under headers, each of which repeats the names of the tables around it, a
/// deep one would grow with the square of its depth.
fn toml_text(table: &Map<String, Value>) -> Result<String, toml::ser::Error> {
    let mut text = String::new();
    for (key, value) in table {
        // The quotes and escapes of JSON are those of TOML.
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push_str(" = ");
        text.push_str(&toml::Value::try_from(value)?.to_string());
        text.push('\n');
    }
    Ok(text)
}

/// A name for a view of client `number` that none has.
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

fn bad_request(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, error.to_string())
}
