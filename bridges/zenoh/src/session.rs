//! The Zenoh session of a bridge.

use std::path::Path;

use zenoh::{Config, Session, Wait};

/// Addresses at which a bridge meets other Zenoh peers.
#[derive(Clone, Debug, Default)]
pub struct Endpoints<'a> {
    /// Addresses to connect to, such as `tcp/192.0.2.7:7447`.
    pub connect: &'a [String],
    /// Addresses to listen on.
    pub listen: &'a [String],
    /// A configuration of Zenoh, to which the others are added.
    pub file: Option<&'a Path>,
}

/// Reason why the session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The configuration is wrong.
    #[error("the configuration of Zenoh is wrong: {0}")]
    Config(String),

    /// Zenoh does not start.
    #[error("Zenoh does not start: {0}; check --connect, --listen and --zenoh-config")]
    Open(String),
}

/// How long a message waits for its turn on a connection before it is dropped, in microseconds: at first, and in all if it is sent in
/// parts. What takes longer to send never arrives: this is a whole frame of 420 kB at 0.7 Mbit/s.
const WAITS_US: [(&str, &str); 2] =
    [("wait_before_drop", "1000000"), ("max_wait_before_drop_fragments", "5000000")];

/// Opens a session with `endpoints` only: without multicast scouting and without a listening socket of its own,
/// unless the file says so. Endpoints to connect to need not be there yet.
///
/// # Errors
///
/// If the configuration is wrong, or nothing can listen there.
pub fn open(endpoints: &Endpoints<'_>) -> Result<Session, SessionError> {
    let config = config(endpoints).map_err(|error| SessionError::Config(error.to_string()))?;
    zenoh::open(config).wait().map_err(|error| SessionError::Open(error.to_string()))
}

fn config(endpoints: &Endpoints<'_>) -> zenoh::Result<Config> {
    let Endpoints { connect, listen, file } = endpoints;
    let mut config = match file {
        Some(file) => Config::from_file(file)?,
        None => alone()?,
    };
    for (key, list) in [("connect/endpoints", connect), ("listen/endpoints", listen)] {
        if !list.is_empty() {
            config.insert_json5(key, &serde_json::to_string(list)?)?;
        }
    }
    Ok(config)
}

/// Without the defaults by which Zenoh finds others. A peer connects in the background, where a client would wait to begin.
fn alone() -> zenoh::Result<Config> {
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"peer\""),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        ("listen/endpoints", "[]"),
        ("connect/timeout_ms", "-1"),
        ("connect/exit_on_failure", "false"),
    ] {
        config.insert_json5(key, value)?;
    }
    for (key, value) in WAITS_US {
        let key = format!("transport/link/tx/queue/congestion_control/drop/{key}");
        config.insert_json5(&key, value)?;
    }
    Ok(config)
}
