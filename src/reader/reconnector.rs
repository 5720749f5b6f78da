//! When to reconnect, and one descriptor to poll while connections come and go.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Interval of attempts to reconnect.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Schedules attempts to reconnect. Its descriptor is readable when the socket that it watches is, or when an attempt is due.
#[derive(Debug)]
pub(crate) struct Reconnector {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Time of the next attempt.
    retry_at: Instant,
}

impl Reconnector {
    /// A reconnector without a watch, whose first attempt is due at once.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let reconnector = Self { epoll, timer, retry_at: Instant::now() };
        reconnector.add(reconnector.timer.as_fd())?;
        Ok(reconnector)
    }

    /// Watches `socket`, and stops the timer.
    pub(crate) fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        self.set_timer(Duration::ZERO)?;
        self.add(socket.as_fd())
    }

    /// Stops watching `socket`. Dropping the socket is not enough, because a forked process may have it too.
    pub(crate) fn unwatch(&self, socket: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, socket)
    }

    /// Sets the timer to the next attempt, when the descriptor becomes readable.
    pub(crate) fn wake_when_due(&self) -> io::Result<()> {
        let pause = self.retry_at.saturating_duration_since(Instant::now());
        self.set_timer(pause.max(Duration::from_nanos(1)))
    }

    /// Whether an attempt is due. If so, schedules the next one an interval later.
    pub(crate) fn begin_attempt(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.retry_at <= now;
        if is_due {
            self.retry_at = now + RECONNECT_INTERVAL;
        }
        is_due
    }

    fn add(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
    }

    /// Starts the timer; zero stops it.
    fn set_timer(&self, pause: Duration) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Itimerspec { it_interval: never, it_value: Timespec::try_from(pause).unwrap_or(never) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value).map(drop)
    }
}

impl AsFd for Reconnector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
