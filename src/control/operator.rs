//! Messages of the admin socket, and a client for tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use foveate::client::Client;
use foveate::messages::ViewName;
use foveate::{ControlError, SOCKET_NAME};
use foveate_core::mask::Mask;

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Start a stream.
    AddStream {
        /// A `[[stream]]` table of a configuration.
        config: String,
        /// Absolute path of its file, which errors name; relative paths in `config` start at its directory.
        file: PathBuf,
    },
    /// Stop a stream.
    RemoveStream {
        /// Name of the stream.
        stream: String,
    },
    /// Change a configured view.
    Set {
        /// The view.
        view: ViewName,
        /// Keys of `[[stream.view]]` such as `budget` or `gaze.policy`, each with its value as TOML, or a bare word for a string;
        /// `default` resets a key.
        keys: BTreeMap<String, String>,
        /// Absolute path of the directory at which relative paths start.
        directory: PathBuf,
    },
    /// Change the masks of a stream that are set at run time, all at once.
    Mask {
        /// The stream.
        stream: String,
        /// Whether all masks that were set at run time are cleared first.
        #[serde(default)]
        clear_all: bool,
        /// Names of the masks to clear.
        #[serde(default)]
        clear: Vec<String>,
        /// Masks to set; each replaces the mask of the same name.
        #[serde(default)]
        set: Vec<Mask>,
    },
    /// Reload the configuration.
    Reload,
}

/// Path of the admin socket of the daemon on `socket`: `admin.sock` beside `foveate.sock`, else the same name and `.admin`.
pub fn admin_path(socket: &Path) -> PathBuf {
    if socket.file_name().is_some_and(|name| name == SOCKET_NAME) {
        return socket.with_file_name("admin.sock");
    }
    let mut path = socket.as_os_str().to_owned();
    path.push(".admin");
    path.into()
}

/// Time limit for an answer, which comes when all is done; stopping a stream takes at most a second.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request to the admin socket of the daemon on `socket`, and returns the answer.
///
/// # Errors
///
/// If there is no daemon, the user lacks permission, or the daemon refuses.
pub fn order(socket: &Path, request: &AdminRequest) -> Result<Value, ControlError> {
    Client::connect_for(&admin_path(socket), TIMEOUT)?.request(request, &[])
}
