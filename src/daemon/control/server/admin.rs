//! The socket of those who run the daemon: `add_stream`, `remove_stream`, `set`, `reload`. Only its user may connect.
//!
//! Descriptions of pipelines come in here and nowhere else, because pipelines can write files. One client is served at a time,
//! and each request has been carried out when its answer comes; a view that was set takes its place with the next frame.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, SocketFlags};
use serde_json::Value;

use super::listener::{Access, Listener};
use crate::channel::Bell;
use crate::control::{ServeError, socket};
use foveate::ControlError;
use foveate::messages::{DATAGRAM_BYTES_MAX, Refusal, RefusalReason};
use foveate_control::{AdminRequest, accepted, refused};

/// How long a client may be silent while others wait for their turn.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an order may take to be carried out: stopping a pipeline takes up to a second for each stream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct PendingAdminRequest {
    /// What is wanted.
    pub request: AdminRequest,
    /// Takes what came of it, once.
    pub answer: Sender<Result<Value, Refusal>>,
}

/// Serves the admin socket until it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    stopping: Arc<AtomicBool>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Listens on `path` (mode 0600), and hands what comes to `requests`.
    ///
    /// # Errors
    ///
    /// If a living daemon or a file that is not a socket has the path, or the system refuses.
    pub fn bind(path: &Path, requests: Sender<PendingAdminRequest>) -> Result<Self, ServeError> {
        let listener = Listener::bind(path, Access { mode: 0o600, group: None })?;
        let started = |source| ControlError::io("serve", path, source);
        let bell = Arc::new(Bell::new().map_err(started)?);
        let stopping = Arc::new(AtomicBool::new(false));
        let service = AdminThread {
            listener,
            requests,
            bell: Arc::clone(&bell),
            stopping: Arc::clone(&stopping),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || service.run())
            .map_err(started)?;
        tracing::info!(path = %path.display(), "operators may connect");
        Ok(Self { stopping, bell, thread: Some(thread) })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves the admin socket panicked");
        }
    }
}

/// What the thread owns.
struct AdminThread {
    listener: Listener,
    requests: Sender<PendingAdminRequest>,
    bell: Arc<Bell>,
    stopping: Arc<AtomicBool>,
    buffer: Vec<u8>,
}

impl AdminThread {
    fn run(mut self) {
        while self.await_readable(None, None) {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener.socket, flags) {
                Ok(client) => self.serve(&client),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "cannot accept an operator");
                    // Such as without a descriptor left: one that is closed meanwhile may help.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Serves one client until it leaves, or is silent for too long.
    fn serve(&mut self, client: &OwnedFd) {
        let mut deadline = Instant::now() + CLIENT_TIMEOUT;
        while self.await_readable(Some(client), Some(deadline)) {
            let len = match socket::brings_descriptors(client) {
                Ok(false) => socket::receive_bytes(client, &mut self.buffer).unwrap_or(0),
                // What comes with descriptors is not read: see the other socket.
                Ok(true) | Err(_) => 0,
            };
            if len == 0 {
                break;
            }
            let answer = match self.carry_out(len) {
                Ok(value) => accepted(&value),
                Err(refusal) => refused(&refusal),
            };
            if socket::send(client, &answer, None, SendFlags::DONTWAIT).is_err() {
                break;
            }
            deadline = Instant::now() + CLIENT_TIMEOUT;
        }
        socket::shut_down(client);
        socket::drain(client, true);
    }

    fn carry_out(&self, len: usize) -> Result<Value, Refusal> {
        let refusal = |reason, error: String| Refusal::new(reason, error);
        let datagram = self.buffer.get(..len).ok_or_else(|| {
            let error = format!("a request may have {DATAGRAM_BYTES_MAX} bytes");
            refusal(RefusalReason::TooLarge, error)
        })?;
        let request = serde_json::from_slice(datagram)
            .map_err(|error| refusal(RefusalReason::BadRequest, error.to_string()))?;
        let (answer, answered) = bounded(1);
        let gone = |_| refusal(RefusalReason::Ended, "the daemon stops".to_owned());
        self.requests.send(PendingAdminRequest { request, answer }).map_err(|_| gone(()))?;
        answered.recv_timeout(REQUEST_TIMEOUT).map_err(|_| gone(()))?
    }

    /// Waits for a client, or for what it sends; false where it took too long, or the daemon stops.
    fn await_readable(&self, client: Option<&OwnedFd>, deadline: Option<Instant>) -> bool {
        let socket = client.unwrap_or(&self.listener.socket);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut entries =
            [PollFd::new(socket, PollFlags::IN), PollFd::new(self.bell.as_ref(), PollFlags::IN)];
        let ready = retry_on_intr(|| poll(&mut entries, timeout.as_ref()));
        !self.stopping.load(Ordering::Relaxed) && ready.is_ok() && !entries[0].revents().is_empty()
    }
}
