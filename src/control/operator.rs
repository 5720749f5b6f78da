//! The other end of the admin socket, for tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use foveate::client::Client;
use foveate::messages::ViewName;
use foveate::{ControlError, SOCKET_NAME};

/// What an operator wants of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Start a stream.
    AddStream {
        /// One `[[stream]]`, as a configuration has it.
        config: String,
        /// The file that it is in, an absolute path: errors name it, and relative paths in it start at its directory.
        file: PathBuf,
    },
    /// Stop a stream.
    RemoveStream {
        /// Its name.
        stream: String,
    },
    /// Make a view of the configuration another one.
    Set {
        /// Which.
        view: ViewName,
        /// The keys of `[[stream.view]]` that change, such as `budget` or `gaze.policy`, each with its value as TOML, or a bare word
        /// for a string; `default` for what it is without.
        keys: BTreeMap<String, String>,
        /// Where relative paths start, an absolute path.
        directory: PathBuf,
    },
    /// Read the configuration again.
    Reload,
}

/// Where the admin socket of the daemon on `socket` is: `admin.sock` beside `foveate.sock`, else the same name and `.admin`.
pub fn admin_path(socket: &Path) -> PathBuf {
    if socket.file_name().is_some_and(|name| name == SOCKET_NAME) {
        return socket.with_file_name("admin.sock");
    }
    let mut path = socket.as_os_str().to_owned();
    path.push(".admin");
    path.into()
}

/// How long the daemon may take: it answers when all is done, and stopping a stream takes a second at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has the daemon on `socket` do something, and returns what came of it.
///
/// # Errors
///
/// If there is no daemon, the user may not, or the daemon refuses.
pub fn order(socket: &Path, request: &AdminRequest) -> Result<Value, ControlError> {
    Client::connect_for(&admin_path(socket), PATIENCE)?.request(request, &[])
}
