"""Follows a view: receives its events, and moves from ring to ring."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from .control import GONE, Connection, HungUp, Steps, deadline_in, silent
from .errors import Ended, FoveateError, NoDaemon, Refused, TimedOut
from .events import Event, event_of
from .ring import Ring
from .segment import opened

#: Codes of ends after which the view may come back.
_COMING_BACK = ("daemon_stopped", "stream_restarted")
#: Temporary refusals of a reconnection: the daemon is about to stop, has not noticed yet that a connection is gone,
#: has no frame yet for which a view can be opened, or has too many subscribers that wait for one.
_PASSING = ("busy", "ended", "name-taken", "not-started", "too-many-clients")
#: Interval of attempts to reconnect, in seconds.
_RECONNECT_S = 0.1
#: The longest wait for the socket, in seconds: the daemon skips a notice for which the socket has no room.
_SLICE_S = 0.1

T = TypeVar("T")

#: Connects and subscribes: the view's address, and the connection with its events.
Connecting = Steps["tuple[str, Connection]"]


class _Ending(NamedTuple):
    """How a view has ended."""

    reason: str
    hung_up: bool
    text: str = ""


class _Beacon:
    """A descriptor that is readable when a connection is, or once it is time to reconnect. It stays the same while
    connections come and go."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._set_timer = libc.timerfd_settime
        self._epoll = select.epoll()
        # The standard library has timers since Python 3.13.
        self._timer = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._timer < 0:
            self._epoll.close()
            raise FoveateError(f"cannot make a timer: {os.strerror(ctypes.get_errno())}")
        self._epoll.register(self._timer, select.EPOLLIN)
        self._connection: Connection | None = None

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, connection: Connection | None) -> None:
        """Watches this connection from now on, in place of the one before, which is still open."""
        if connection is self._connection:
            return
        if self._connection is not None:
            # A fork may have the socket too: then closing it would leave it here.
            self._epoll.unregister(self._connection)
        if connection is not None:
            self._epoll.register(connection, select.EPOLLIN)
        self._connection = connection

    def ring_in(self, seconds: float | None) -> None:
        """Becomes readable in so many seconds; with None not by time."""
        ns = 0 if seconds is None else max(1, int(seconds * 1e9))
        self._set_timer(self._timer, 0, struct.pack("@4l", 0, 0, ns // 10**9, ns % 10**9), None)

    def close(self) -> None:
        self._epoll.close()
        os.close(self._timer)


class Subscription:
    """A subscription: an open connection, and the rings received over it. For one thread at a time.

    It waits nowhere but in :meth:`open` and :meth:`wait`, which are for threads; others call :meth:`advance` and
    :meth:`poll` when :meth:`fileno` is readable, and every :attr:`rest_s` at least.
    """

    def __init__(
        self, view: str, connect: Callable[[], Connecting], reconnect: bool, has_descriptor: bool = False
    ) -> None:
        """To be opened by :meth:`open` or :meth:`advance`, and closed if that fails.

        :param view: the view's address, as far as it is known.
        :param connect: begins to connect and to subscribe.
        :param reconnect: whether to look for the daemon while it is gone, or not there yet.
        :param has_descriptor: whether :meth:`fileno` is always the same without ``reconnect`` too.
        """
        #: The view's address.
        self.view = view
        self._connect = connect
        self._ring: Ring | None = None
        #: The next ring, once every frame of `_ring` was read.
        self._next_ring: Ring | None = None
        #: Whether no ring has come over this connection yet: `_ring` is that of a daemon before.
        self._awaits_ring = True
        self._ending: _Ending | None = None
        #: Why there is no connection yet.
        self._absence = "the daemon has not answered yet"
        #: When to look for the daemon again, on the clock of `time.monotonic`.
        self._retry_at = 0.0
        self._events: Connection | None = None
        self._connecting: Connecting | None = None
        #: The connection whose answer `_connecting` needs.
        self._asked: Connection | None = None
        #: What happened in the picture and was not taken yet.
        self._told: list[Event] = []
        #: Whether it looks for the daemon while that is gone.
        self.reconnects = reconnect
        self._beacon = _Beacon() if reconnect or has_descriptor else None

    def open(self, timeout: float | None) -> None:
        """Connects and subscribes. With ``reconnect`` a daemon that is not there in time is left to later.

        :param timeout: how long to wait for the daemon, in seconds; None for as long as it takes.
        :raises TimedOut: if it does not answer in time; other errors are those of :meth:`advance`.
        """
        deadline = deadline_in(timeout)
        while not self.advance():
            if not self.wait(deadline):
                self.leave_to_later(timeout)
                return

    def advance(self) -> bool:
        """Does what can be done without waiting to connect and to subscribe: whether that is done.

        :raises HungUp: without ``reconnect``, if the daemon goes away meanwhile; other errors are those of ``connect``.
        """
        self._go_on_connecting()
        return self._events is not None

    def leave_to_later(self, timeout: float | None) -> None:
        """Ends a wait of ``timeout`` s for the first connection.

        :raises TimedOut: without ``reconnect``; with it, reads look for the daemon.
        """
        if not self.reconnects:
            raise silent(timeout)

    @property
    def ring(self) -> Ring | None:
        """The ring in use; None before the first."""
        return self._ring

    @property
    def state(self) -> tuple[str, str]:
        """The state of the view, ``"starting"``, ``"live"``, ``"stalled"`` or ``"ended"``, and the reason."""
        if self._ending is not None:
            return "ended", self._ending.reason
        if self._events is None:
            return "starting", self._absence
        if self._ring is None or self._awaits_ring:
            return "starting", "the stream has not delivered a frame yet"
        return self._ring.state()

    def fileno(self) -> int | None:
        """A descriptor that is readable when there are events. With ``reconnect`` also when it is time to reconnect, and
        always the same; without that and without a daemon None, unless it was asked for."""
        if self._beacon is not None:
            return self._beacon.fileno()
        return None if self._events is None else self._events.fileno()

    def close(self) -> None:
        """Hangs up, and unmaps the rings."""
        self._hang_up()
        if self._beacon is not None:
            self._beacon.close()
            self._beacon = None
        for ring in (self._ring, self._next_ring):
            if ring is not None:
                ring.close()
        self._ring = self._next_ring = None

    def poll(self, read: Callable[[Ring], T | None]) -> T | None:
        """The result of ``read`` on the ring in use, or on the next one if that has no more; None if there is nothing
        yet.

        :raises Ended: if no more frames will come.
        """
        while True:
            # Before the frames: a segment that was replaced gets no more.
            is_all = self._take_news()
            result = None if self._ring is None else read(self._ring)
            if result is not None:
                return result
            if not is_all:
                continue
            if self._next_ring is None:
                self.check_end()
                return None
            self._enter_next_ring()

    def poll_newest(self, read: Callable[[Ring], T | None]) -> T | None:
        """The result of ``read`` on the newest ring, even if older ones have unread frames; None without a ring. Never
        raises `Ended`."""
        while not self._take_news() or self._next_ring is not None:
            if self._next_ring is not None:
                self._enter_next_ring()
        return None if self._ring is None else read(self._ring)

    def take_events(self) -> list[Event]:
        """What happened in the picture since the last call, as far as it was received: while frames are read."""
        told, self._told = self._told, []
        return told

    def check_end(self) -> None:
        """
        :raises Ended: if no further frame will come.
        """
        if self._ending is not None and not self._is_worth_waiting():
            raise Ended(self.view, *self._ending)

    def wait(self, deadline: float | None) -> bool:
        """Waits a moment for events on the socket, or without a daemon until the next attempt to reconnect.

        :param deadline: on the clock of ``time.monotonic``; None for none.
        :returns: whether there was time left.
        """
        return wait_for_any([self], deadline)

    @property
    def awaited(self) -> Connection | None:
        """The connection with the next event or answer, if there is one."""
        return self._asked if self._events is None else self._events

    @property
    def rest_s(self) -> float:
        """Longest wait before the next poll, in seconds."""
        if self._events is not None or self._asked is not None:
            return _SLICE_S
        return max(0.0, self._retry_at - time.monotonic())

    def _take_news(self) -> bool:
        """Receives events up to a new segment or the notice of the newest frame: later ones can wait while there is a
        frame to read. If the daemon is gone, reconnects if enabled.

        :returns: whether everything up to a new segment was received.
        """
        if self._events is None and self.reconnects and self._may_come_back():
            self._go_on_connecting()
        while self._events is not None and self._next_ring is None:
            try:
                received = self._events.event()
            except HungUp:
                # What the daemon said before it hung up is the better news.
                self._ending = self._ending or _Ending(GONE, hung_up=True)
                self._hang_up()
                return True
            if received is None:
                return True
            event, descriptor = received
            if not isinstance(event, int):
                self._take_event(event, descriptor)
            elif self._ring is not None and event == self._ring.newest():
                return False
        return True

    def _take_event(self, event: Mapping[str, Any], descriptor: int | None) -> None:
        kind = event.get("event")
        if kind == "segment":
            self._take_segment(descriptor)
            return
        if descriptor is not None:
            os.close(descriptor)
        if kind == "ended":
            self._ending = _Ending(str(event.get("reason")), hung_up=False, text=str(event.get("text", "")))
        elif kind == "scene":
            self._told.append(event_of(event))
        elif event.get("ok") is False:
            raise Refused(str(event.get("reason")), str(event.get("error")), event.get("holder"))

    def _take_segment(self, descriptor: int | None) -> None:
        if descriptor is None:
            raise FoveateError("a segment came without a descriptor: close some files, or raise ulimit -n")
        self._next_ring, self._ending, self._awaits_ring = Ring(opened(descriptor)), None, False

    def _enter_next_ring(self) -> None:
        if self._ring is not None and self._next_ring is not None:
            # Only now, because the one before was read up to here.
            self._next_ring.follow(self._ring)
            self._ring.close()
        self._ring, self._next_ring = self._next_ring, None

    def _is_worth_waiting(self) -> bool:
        """Whether the view may come back after its end: the daemon went away, and reconnecting is enabled."""
        if not self.reconnects or not self._may_come_back():
            return False
        if self._events is not None:
            # A daemon that stops is gone already.
            self._hang_up()
        return True

    def _may_come_back(self) -> bool:
        """Whether the view has not ended, or for a reason after which it may come back."""
        ending = self._ending
        return ending is None or ending.hung_up or ending.reason in _COMING_BACK

    def _go_on_connecting(self) -> None:
        """Does what can be done without waiting to connect and to subscribe."""
        if self._connecting is None:
            if time.monotonic() < self._retry_at:
                return
            self._retry_at = time.monotonic() + _RECONNECT_S
            self._connecting = self._connect()
        # It may close the connection that it asked.
        self._heed(None)
        self._asked = None
        try:
            self._asked, _ = next(self._connecting)
        except StopIteration as connected:
            self.view, self._events = connected.value
            self._ending, self._awaits_ring = None, True
        except (NoDaemon, HungUp, TimedOut) as error:
            if not self.reconnects:
                raise
            self._absence = str(error) or GONE
        except Refused as refused:
            if not self.reconnects or refused.reason not in _PASSING:
                raise
            self._absence = str(refused)
        finally:
            if self._asked is None:
                self._connecting = None
            self._heed(self.awaited)

    def _heed(self, connection: Connection | None) -> None:
        """Makes the descriptor readable with this connection, or without one when it is time to reconnect."""
        if self._beacon is not None:
            self._beacon.watch(connection)
            is_looking = self.reconnects and connection is None and self._may_come_back()
            self._beacon.ring_in(self._retry_at - time.monotonic() if is_looking else None)

    def _hang_up(self) -> None:
        self._heed(None)
        if self._connecting is not None:
            self._connecting.close()
            self._connecting = self._asked = None
        if self._events is not None:
            self._events.close()
            self._events = None


def wait_for_any(subscriptions: list[Subscription], deadline: float | None) -> bool:
    """Waits a moment for events of any subscription; see :meth:`Subscription.wait`."""
    left = float("inf") if deadline is None else deadline - time.monotonic()
    if left <= 0:
        return False
    poller = select.poll()
    for subscription in subscriptions:
        connection = subscription.awaited
        if connection is not None:
            poller.register(connection, select.POLLIN)
    rest = min(subscription.rest_s for subscription in subscriptions)
    # At least a millisecond, the unit of poll: a rest that is rounded to nothing would be a busy loop.
    poller.poll(max(1.0, min(left, rest) * 1000))
    return True
