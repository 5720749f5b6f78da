//! One descriptor to poll while connections come and go.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Readable when the socket that it watches is, or after a time.
#[derive(Debug)]
pub(crate) struct Beacon {
    epoll: OwnedFd,
    timer: OwnedFd,
}

impl Beacon {
    /// Watches nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let beacon = Self { epoll, timer };
        beacon.add(beacon.timer.as_fd())?;
        Ok(beacon)
    }

    /// Watches `socket`, and no time.
    pub(crate) fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        self.set_timer(Duration::ZERO)?;
        self.add(socket.as_fd())
    }

    /// Watches `socket` no longer; a process that was forked may have it too, so dropping it is not enough.
    pub(crate) fn unwatch(&self, socket: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, socket)
    }

    /// Becomes readable after `pause`.
    pub(crate) fn ring_after(&self, pause: Duration) -> io::Result<()> {
        self.set_timer(pause.max(Duration::from_nanos(1)))
    }

    fn add(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
    }

    /// Zero is never.
    fn set_timer(&self, pause: Duration) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Itimerspec { it_interval: never, it_value: Timespec::try_from(pause).unwrap_or(never) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value).map(drop)
    }
}

impl AsFd for Beacon {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
