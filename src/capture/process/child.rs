//! A source process: starting it, what it logs, and its end.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{ProcessError, SUBCOMMAND};
use crate::error::PROCESSES_REMEDY;
use foveate_log::redact::redacted;
use foveate_source::processes::RunningProcess;

/// How long a process that was asked to stop may take. Less than dropping a source waits.
const STOP_GRACE: Duration = Duration::from_millis(400);

/// How long a process that has closed its end may take to be gone.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Environment variables that a source process must not inherit: it would answer for the daemon, or read its credentials.
const CLEARED: [&str; 8] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "JOURNAL_STREAM",
    "CREDENTIALS_DIRECTORY",
];

/// The running program, even if another one has taken its place on the disk.
const THIS_PROGRAM: &str = "/proc/self/exe";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Starts source processes from `program`, a `foveated`, instead of the running program, which may be another one. The first call
/// counts.
pub fn set_program(program: impl Into<PathBuf>) {
    let _ = PROGRAM.set(program.into());
}

/// Variables with a password of any stream. That of a proxy is for all, and a word may also be part of a path.
fn secret_variables() -> impl Iterator<Item = OsString> {
    let is_secret = |name: &OsString, value: &OsString| {
        const KEPT: [&str; 4] = ["HOME", "LOGNAME", "PATH", "USER"];
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let is_kept = KEPT.contains(&&*name)
            || name.starts_with("XDG_")
            || name.to_lowercase().ends_with("_proxy");
        !is_kept && redacted(&value) != value
    };
    env::vars_os().filter(move |(name, value)| is_secret(name, value)).map(|(name, _)| name)
}

/// A running source process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct SourceProcess {
    child: Child,
    /// `None` before Linux 5.3.
    pidfd: Option<OwnedFd>,
    pub(super) log: ProcessLog,
    /// `None` once it has ended.
    running: Option<RunningProcess>,
}

impl SourceProcess {
    /// Starts a process for `stream`, and returns it with the daemon's end of its socket.
    pub(super) fn start(stream: &str) -> Result<(Self, OwnedFd), ProcessError> {
        let failed = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::WouldBlock => PROCESSES_REMEDY,
                _ => "set `isolation = \"none\"` to do without",
            };
            ProcessError::NotStarted { reason: error.to_string(), remedy }
        };
        let (unix, whole) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let pair = socketpair(unix, whole, SocketFlags::CLOEXEC, None);
        let (own, theirs) = pair.map_err(|errno| failed(errno.into()))?;
        let program = PROGRAM.get().map_or(Path::new(THIS_PROGRAM), PathBuf::as_path);
        let mut command = Command::new(program);
        command.arg0("foveated").args([SUBCOMMAND, stream]);
        CLEARED.iter().map(OsString::from).chain(secret_variables()).for_each(|name| {
            command.env_remove(name);
        });
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let log = ProcessLog::new(stream, child.stderr.take());
        let running = Some(RunningProcess::new(child.id()));
        Ok((Self { child, pidfd, log, running }, own))
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop through its `socket`, and ends it if it does not in time.
    pub(super) fn stop(&mut self, socket: &OwnedFd) -> Option<ExitStatus> {
        // Fails if it has hung up first.
        let _ = shutdown(socket, Shutdown::Both);
        self.reap(STOP_GRACE)
    }

    /// Waits for the end of one that has closed its socket, and ends it if that does not come.
    pub(super) fn finish(&mut self) -> Option<ExitStatus> {
        self.reap(EXIT_GRACE)
    }

    /// Kills the process at once.
    pub(super) fn kill(&mut self) -> Option<ExitStatus> {
        self.reap(Duration::ZERO)
    }

    /// Waits for the process for at most `grace`, then kills it. Returns its status, unless it had to be killed.
    fn reap(&mut self, grace: Duration) -> Option<ExitStatus> {
        let _running = self.running.take()?;
        let deadline = Instant::now() + grace;
        loop {
            // Give the process time to write its last lines.
            self.log.relay();
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.log.finish();
                    return Some(status);
                }
                Ok(None) if Instant::now() < deadline => self.await_exit(),
                Ok(None) | Err(_) => break,
            }
        }
        if !grace.is_zero() {
            tracing::warn!(
                stream = self.log.stream,
                pid = self.child.id(),
                "the source process does not stop and is killed"
            );
        }
        // Fails if it has just ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log.finish();
        None
    }

    fn await_exit(&self) {
        const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut ended: Vec<_> =
            self.pidfd.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
        let _ = poll(&mut ended, Some(&STEP));
    }
}

impl Drop for SourceProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended.
pub(super) fn described(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                4 => " (SIGILL)",
                5 => " (SIGTRAP)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                31 => " (SIGSYS)",
                _ => "",
            };
            format!("was ended by signal {signal}{name}")
        }
        (None, Some(code)) => format!("ended with exit status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Bytes that are read of the log at once.
const LOG_BYTES: usize = 4096;

/// Lines that are kept for the report of a crash.
const LINES_KEPT: usize = 8;

/// Most lines of a process that are logged in a second.
const LINES_PER_SECOND_MAX: u32 = 100;

/// Most bytes of a line; longer ones are cut in parts.
const LINE_BYTES_MAX: usize = 1024;

/// Relays the standard error of a process to the daemon's log, line by line.
#[derive(Debug)]
pub(super) struct ProcessLog {
    stream: String,
    pipe: Option<ChildStderr>,
    line: Vec<u8>,
    last: VecDeque<String>,
    /// Start of the present second, and the lines of the process in that second.
    second: (Instant, u32),
}

impl ProcessLog {
    fn new(stream: &str, pipe: Option<ChildStderr>) -> Self {
        Self {
            stream: stream.to_owned(),
            pipe,
            line: Vec::new(),
            last: VecDeque::new(),
            second: (Instant::now(), 0),
        }
    }

    /// Readable when there are lines.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Logs what is there, a little at a time; false if there is nothing.
    pub(super) fn relay(&mut self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(pipe) = &mut self.pipe else { return false };
        let mut readable = [PollFd::new(pipe, PollFlags::IN)];
        if !matches!(poll(&mut readable, Some(&AT_ONCE)), Ok(1)) {
            return false;
        }
        let mut bytes = [0; LOG_BYTES];
        let count = pipe.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            self.pipe = None;
            return false;
        }
        for byte in &bytes[..count] {
            if *byte == b'\n' || self.line.len() == LINE_BYTES_MAX {
                self.log_line();
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
        true
    }

    /// Logs the rest, as the process has ended. What it started may hold the pipe open.
    fn finish(&mut self) {
        const READS_MAX: usize = 32;
        let _ = (0..READS_MAX).take_while(|_| self.relay()).count();
        self.pipe = None;
        self.log_line();
        self.log_dropped();
    }

    fn log_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        if line.is_empty() {
            return;
        }
        if self.last.len() == LINES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line.clone());
        if Duration::from_secs(1) <= self.second.0.elapsed() {
            self.log_dropped();
            self.second = (Instant::now(), 0);
        }
        self.second.1 += 1;
        if LINES_PER_SECOND_MAX < self.second.1 {
            return;
        }
        let stream = &self.stream;
        // As `foveate_log::to_parent` writes them; libraries write lines without a level.
        match line.split_once(' ') {
            Some(("ERROR", text)) => tracing::error!(stream, "source process: {text}"),
            Some(("WARN", text)) => tracing::warn!(stream, "source process: {text}"),
            Some(("INFO", text)) => tracing::info!(stream, "source process: {text}"),
            Some(("DEBUG", text)) => tracing::debug!(stream, "source process: {text}"),
            Some(("TRACE", text)) => tracing::trace!(stream, "source process: {text}"),
            _ => tracing::warn!(stream, "source process: {line}"),
        }
    }

    /// Logs how many lines of the present second were not.
    fn log_dropped(&self) {
        let dropped = self.second.1.saturating_sub(LINES_PER_SECOND_MAX);
        if 0 < dropped {
            tracing::warn!(
                stream = self.stream,
                dropped,
                "the source process writes too many lines"
            );
        }
    }

    /// The last line; empty without one.
    pub(super) fn last_line(&self) -> String {
        self.last.back().cloned().unwrap_or_default()
    }

    /// The last line that says that memory was refused.
    pub(super) fn memory_line(&self) -> Option<String> {
        self.last.iter().rev().find(|line| is_of_memory(line)).cloned()
    }
}

/// Whether `text` says that memory was refused.
pub(super) fn is_of_memory(text: &str) -> bool {
    // Of GLib, of Rust, of C++, of the system, and of GStreamer's RTSP.
    const SAID: [&str; 5] = [
        "failed to allocate",
        "memory allocation of",
        "bad_alloc",
        "Cannot allocate memory",
        "Out of memory",
    ];
    SAID.iter().any(|said| text.contains(said))
}
