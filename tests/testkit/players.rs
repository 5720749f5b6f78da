//! Processes that play a part in a test: the test itself, started again, with a line to the one that started it.
//!
//! A test that has players begins with `if players::plays(act) { return; }`: in a player, `act` is all that happens.

use std::env;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::wait::HANG;

/// The part that a process plays.
const PART: &str = "FOVEATE_TEST_PART";

/// In a player, lets `act` play its part, and returns whether this is one.
pub fn plays(act: impl FnOnce(&str, &Line)) -> bool {
    let Ok(part) = env::var(PART) else { return false };
    // Whatever becomes of the test.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let line = Line(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    act(&part, &line);
    true
}

/// A process that plays a part, killed when it is dropped.
pub struct Player {
    child: Child,
    pub line: Line,
}

impl Player {
    /// Starts the calling test in a separate process, to play `part`.
    pub fn start(part: &str) -> Self {
        let (ours, theirs) = line();
        // Tests run on threads of their name.
        let test = thread::current().name().unwrap().to_owned();
        let child = Command::new(env::current_exe().unwrap())
            .args([test.as_str(), "--exact", "--nocapture", "--include-ignored"])
            .env(PART, part)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, line: Line(ours) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns once it is stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let state = format!("/proc/{}/stat", self.id());
        while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
            thread::yield_now();
        }
    }

    /// Kills it, and returns once it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its next words.
    pub fn hear(&mut self) -> String {
        let words = self.line.hear();
        if words.is_empty() {
            let (status, complaint) = self.end();
            panic!("a player ended, {status}: {complaint}");
        }
        words
    }

    /// Waits until it ends.
    pub fn finish(mut self) {
        let (status, complaint) = self.end();
        assert!(status.success(), "{status}: {complaint}");
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (self.child.wait().unwrap(), complaint)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two ends of a socket pair.
pub fn line() -> (OwnedFd, OwnedFd) {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// A SOCK_SEQPACKET socket, for words and descriptors.
pub struct Line(pub OwnedFd);

impl Line {
    /// Says something, and hands over a descriptor with it.
    pub fn send(&self, words: &str, descriptor: Option<BorrowedFd<'_>>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            let rights = SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor));
            assert!(control.push(rights));
        }
        let parts = [IoSlice::new(words.as_bytes())];
        sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    pub fn say(&self, words: &str) {
        self.send(words, None);
    }

    /// Waits for the next words and what came with them; no words after a hang-up.
    pub fn receive(&self) -> (String, Option<OwnedFd>) {
        assert!(self.has_words(HANG), "nobody says anything");
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let bytes = recvmsg(&self.0, &mut parts, &mut control, flags).map_or(0, |got| got.bytes);
        let descriptor = control.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        (String::from_utf8(buffer[..bytes].to_vec()).unwrap(), descriptor)
    }

    /// Waits for the next words.
    pub fn hear(&self) -> String {
        self.receive().0
    }

    /// Whether there is something to hear within `timeout`.
    pub fn has_words(&self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).unwrap();
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }
}
