//! The admin socket: `add_stream`, `remove_stream`, `set`, `reload`. Only the daemon's user may connect.
//!
//! Pipeline descriptions are accepted here and nowhere else, because pipelines can write files. One client is served at a time, and
//! a request has been carried out when its answer arrives; a changed view takes effect with the next frame.

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

use super::listener::{Listener, SocketAccess};
use crate::channel::EventFd;
use crate::{ServeError, socket};
use foveate::ControlError;
use foveate::messages::{DATAGRAM_BYTES_MAX, Refusal, RefusalReason};
use foveate_control::{AdminRequest, accepted, refused};

/// How long a client may be silent before the next one is served.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a request may take: stopping a pipeline takes up to a second for each stream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request that waits for its answer.
#[derive(Debug)]
pub struct PendingAdminRequest {
    /// The request.
    pub request: AdminRequest,
    /// Takes the answer, once.
    pub answer: Sender<Result<Value, Refusal>>,
}

/// Serves the admin socket until it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    stopping: Arc<AtomicBool>,
    wakeup: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Listens on `path` (mode 0600), and sends requests to `requests`.
    ///
    /// # Errors
    ///
    /// If a running daemon has the path, it is not a socket, or the system refuses.
    pub fn bind(path: &Path, requests: Sender<PendingAdminRequest>) -> Result<Self, ServeError> {
        let listener = Listener::bind(path, SocketAccess { mode: 0o600, group: None })?;
        let started = |source| ControlError::io("serve", path, source);
        let wakeup = Arc::new(EventFd::new().map_err(started)?);
        let stopping = Arc::new(AtomicBool::new(false));
        let service = AdminThread {
            listener,
            requests,
            wakeup: Arc::clone(&wakeup),
            stopping: Arc::clone(&stopping),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || service.run())
            .map_err(started)?;
        tracing::info!(path = %path.display(), "serving operators");
        Ok(Self { stopping, wakeup, thread: Some(thread) })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.wakeup.signal();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves the admin socket panicked");
        }
    }
}

struct AdminThread {
    listener: Listener,
    requests: Sender<PendingAdminRequest>,
    wakeup: Arc<EventFd>,
    stopping: Arc<AtomicBool>,
    buffer: Vec<u8>,
}

impl AdminThread {
    fn run(mut self) {
        while self.await_readable(None, None) {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener.socket, flags) {
                Ok(client) if socket::is_source_process(&client) => {}
                Ok(client) => self.serve(&client),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "cannot accept an operator");
                    // No descriptor is left, for example; one may be closed meanwhile.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Serves one client until it disconnects or times out.
    fn serve(&mut self, client: &OwnedFd) {
        let mut deadline = Instant::now() + CLIENT_TIMEOUT;
        while self.await_readable(Some(client), Some(deadline)) {
            let len = match socket::brings_descriptors(client) {
                Ok(false) => socket::receive_bytes(client, &mut self.buffer).unwrap_or(0),
                // A datagram with descriptors is not read: see `linger`.
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
        // Only the daemon's own user could make it wait.
        socket::drain(client);
    }

    fn carry_out(&self, len: usize) -> Result<Value, Refusal> {
        let refusal = |reason, error: String| Refusal::new(reason, error);
        let datagram = self.buffer.get(..len).ok_or_else(|| {
            let error = format!("request too large (expected at most {DATAGRAM_BYTES_MAX} bytes)");
            refusal(RefusalReason::TooLarge, error)
        })?;
        let request = serde_json::from_slice(datagram)
            .map_err(|error| refusal(RefusalReason::BadRequest, error.to_string()))?;
        let (answer, answered) = bounded(1);
        let gone = |_| refusal(RefusalReason::Ended, "the daemon is stopping".to_owned());
        self.requests.send(PendingAdminRequest { request, answer }).map_err(|_| gone(()))?;
        answered.recv_timeout(REQUEST_TIMEOUT).map_err(|_| gone(()))?
    }

    /// Waits for a client, or for data from it; false at the deadline, or if the daemon is stopping.
    fn await_readable(&self, client: Option<&OwnedFd>, deadline: Option<Instant>) -> bool {
        let socket = client.unwrap_or(&self.listener.socket);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut entries =
            [PollFd::new(socket, PollFlags::IN), PollFd::new(self.wakeup.as_ref(), PollFlags::IN)];
        let ready = retry_on_intr(|| poll(&mut entries, timeout.as_ref()));
        !self.stopping.load(Ordering::Relaxed) && ready.is_ok() && !entries[0].revents().is_empty()
    }
}
