//! The other end of the admin socket, for tools.

use std::path::Path;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use serde_json::Value;

use super::messages::{DATAGRAM_BYTES_MAX, FromDaemon};
use super::server::{AdminRequest, admin_path};
use super::{ControlError, socket};

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
