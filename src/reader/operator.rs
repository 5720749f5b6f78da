//! The other end of the admin socket, for tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::messages::{DATAGRAM_BYTES_MAX, FromDaemon, ViewName};
use super::{ControlError, SOCKET_NAME, socket};

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
    let path = admin_path(socket);
    let address = socket::address(&path)?;
    let failed = |action| {
        let path = path.clone();
        move |errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED => {
                ControlError::NoDaemon { path: path.clone() }
            }
            Errno::AGAIN => ControlError::TimedOut { seconds: PATIENCE.as_secs() },
            errno => ControlError::io(action, &path, errno),
        }
    };
    let connection = socket::unconnected(SocketFlags::empty()).map_err(failed("connect to"))?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&connection, direction, Some(PATIENCE)).map_err(failed("connect to"))?;
    }
    retry_on_intr(|| rustix::net::connect(&connection, &address)).map_err(failed("connect to"))?;
    let datagram = serde_json::to_vec(request).expect("texts become JSON");
    socket::send(&connection, &datagram, None, SendFlags::empty()).map_err(failed("send to"))?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let received = socket::receive(&connection, &mut buffer, RecvFlags::empty());
    let len = received.map_err(failed("receive from"))?.len;
    let not_understood = |detail: String| ControlError::NotUnderstood { detail };
    let answer = buffer.get(..len).filter(|answer| !answer.is_empty());
    let answer = answer.ok_or(ControlError::Disconnected)?;
    match FromDaemon::from_datagram(answer).map_err(|error| not_understood(error.to_string()))? {
        FromDaemon::Accepted(value) => Ok(value),
        FromDaemon::Refused(refusal) => Err(ControlError::Refused(refusal)),
        FromDaemon::Event(_) | FromDaemon::Notice => Err(not_understood("an event".to_owned())),
    }
}
