"""Follows a view: receives its events, and moves from ring to ring."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, TypeVar

from .control import GONE, Connection, HungUp
from .errors import Ended, FoveateError, NoDaemon, Refused, TimedOut
from .ring import Ring
from .segment import opened

#: Reasons for an end after which the view may come back: the daemon stopped, or the stream was reconfigured.
_COMING_BACK = ("restart", "the stream begins anew")
#: Temporary refusals of a reconnection: the daemon is about to stop, has not noticed yet that a connection is gone, or
#: has no frame yet for which a view can be opened.
_PASSING = ("ended", "name-taken", "not-started", "too-many-clients")
#: Interval of attempts to reconnect, in seconds.
_RECONNECT_S = 0.1
#: The longest wait for the socket, in seconds: a frame may be published before the daemon begins to send notices.
_SLICE_S = 0.1

T = TypeVar("T")


class _Ending(NamedTuple):
    """How a view has ended."""

    reason: str
    hung_up: bool


class Subscription:
    """A subscription: an open connection, and the rings received over it. For one thread at a time."""

    def __init__(self, subscribe: Callable[[], tuple[str, Connection]], reconnect: bool) -> None:
        """Subscribes.

        :param subscribe: returns a connection that is subscribed to the view, and the view's address.
        :param reconnect: whether to subscribe again when the daemon is gone.
        :raises HungUp: if the daemon goes away meanwhile; other errors are those of ``subscribe``.
        """
        self._subscribe = subscribe
        self._reconnect = reconnect
        self._ring: Ring | None = None
        #: The next ring, once every frame of `_ring` was read.
        self._next_ring: Ring | None = None
        self._ending: _Ending | None = None
        #: When to look for the daemon again, on the clock of `time.monotonic`.
        self._retry_at = 0.0
        #: The view's address.
        self.view: str
        self._events: Connection | None
        self.view, self._events = subscribe()

    @property
    def ring(self) -> Ring | None:
        """The ring in use; None before the first."""
        return self._ring

    @property
    def state(self) -> tuple[str, str]:
        """The state of the view, ``"starting"``, ``"live"``, ``"stalled"`` or ``"ended"``, and the reason."""
        if self._ending is not None:
            return "ended", self._ending.reason
        if self._ring is None:
            return "starting", "the stream has not delivered a frame yet"
        return self._ring.state()

    def fileno(self) -> int | None:
        """The descriptor of the connection, readable when there are events; None while there is no daemon."""
        return None if self._events is None else self._events.fileno()

    def close(self) -> None:
        """Hangs up, and unmaps the rings."""
        self._hang_up()
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
    def rest_s(self) -> float:
        """Longest wait before the next poll, in seconds."""
        return _SLICE_S if self._events is not None else max(0.0, self._retry_at - time.monotonic())

    def _take_news(self) -> bool:
        """Receives events up to a new segment or the notice of the newest frame: later ones can wait while there is a
        frame to read. If the daemon is gone, reconnects if enabled.

        :returns: whether everything up to a new segment was received.
        """
        if self._events is None and self._reconnect and self._retry_at <= time.monotonic():
            self._retry_at = time.monotonic() + _RECONNECT_S
            self._try_to_reconnect()
        while self._events is not None and self._next_ring is None:
            try:
                received = self._events.event()
            except HungUp:
                self._hang_up()
                # What the daemon said before it hung up is the better news.
                self._ending = self._ending or _Ending(GONE, hung_up=True)
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
            self._ending = _Ending(str(event.get("reason")), hung_up=False)
        elif event.get("ok") is False:
            raise Refused(str(event.get("reason")), str(event.get("error")), event.get("holder"))

    def _take_segment(self, descriptor: int | None) -> None:
        if descriptor is None:
            raise FoveateError("the daemon sent a segment without a descriptor: are too many files open?")
        self._next_ring, self._ending = Ring(opened(descriptor)), None

    def _enter_next_ring(self) -> None:
        if self._ring is not None and self._next_ring is not None:
            # Only now, because the one before was read up to here.
            self._next_ring.follow(self._ring)
            self._ring.close()
        self._ring, self._next_ring = self._next_ring, None

    def _is_worth_waiting(self) -> bool:
        """Whether the view may come back after its end: the daemon went away, and reconnecting is enabled."""
        ending = self._ending
        if not self._reconnect or ending is None or not (ending.hung_up or ending.reason in _COMING_BACK):
            return False
        self._hang_up()
        return True

    def _try_to_reconnect(self) -> None:
        try:
            self.view, self._events = self._subscribe()
            self._ending = None
        except (NoDaemon, HungUp, TimedOut):
            pass
        except Refused as refused:
            if refused.reason not in _PASSING:
                raise

    def _hang_up(self) -> None:
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
        descriptor = subscription.fileno()
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
    rest = min(subscription.rest_s for subscription in subscriptions)
    # At least a millisecond, the unit of poll: a rest that is rounded to nothing would be a busy loop.
    poller.poll(max(1.0, min(left, rest) * 1000))
    return True
