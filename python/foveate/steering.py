"""Steers a view, from any thread, over a connection of its own, so that answers do not mix with events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .control import GONE, Connection, HungUp, silent
from .errors import Ended, Refused, TimedOut


class Steering:
    """The connection that steers one view, and that keeps an opened view alive. Connects on demand. Thread-safe."""

    def __init__(self, path: str, view: str) -> None:
        """For ``view`` of the daemon that listens on ``path``."""
        #: The view's address.
        self.view = view
        self._path = path
        self._is_own = False
        #: Whether the daemon has yet to open the view.
        self._is_making = False
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def make_view(self, stream: str, keys: Mapping[str, Any]) -> Iterator[Connection]:
        """Opens a view on ``stream``, in place of the one before, without waiting: yields the connection whenever it has
        to become readable first.

        :raises Refused: if the daemon refuses; other errors are those of :class:`Connection`.
        """
        if not self._lock.acquire(blocking=False):
            raise TimedOut("another thread still waits for an answer of the daemon before")
        try:
            self._hang_up()
            self._is_own = self._is_making = True
            making = self._connection = Connection(self._path)
            making.post("open_view", stream=stream, view=keys)
        finally:
            self._lock.release()
        while (answer := self._answer(making)) is None:
            yield making
        with self._lock:
            self.view = str(answer["view"])
            self._is_making = False

    def ask(self, op: str, payload: bytes | None, timeout: float | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Sends feedback and waits for the answer.

        :param timeout: how long, in seconds, for other threads that steer included; None for as long as it takes.
        :raises Refused: if the daemon refuses.
        :raises TimedOut: if it does not answer in time.
        :raises Ended: if it is gone.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise silent(timeout)
        try:
            # The daemon may have dropped an idle connection; an opened view is gone with it.
            may_retry = self._connection is not None and not self._is_own
            try:
                try:
                    return self._request(op, payload, timeout, deadline, fields)
                except HungUp:
                    if not may_retry:
                        raise
                return self._request(op, payload, timeout, deadline, fields)
            except HungUp:
                raise Ended(self.view, GONE, hung_up=True) from None
        finally:
            self._lock.release()

    def close(self) -> None:
        """Hangs up, which ends the lease and the opened view."""
        with self._lock:
            self._hang_up()

    def _answer(self, making: Connection) -> dict[str, Any] | None:
        with self._lock:
            if self._connection is not making:
                raise HungUp
            return making.answer()

    def _request(
        self, op: str, payload: bytes | None, timeout: float | None, deadline: float | None, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        if self._is_own and (self._connection is None or self._is_making):
            raise HungUp
        if self._connection is None:
            self._connection = Connection(self._path)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._connection.request(op, payload, left, view=self.view, **fields)
        except Refused:
            raise
        except TimedOut:
            self._hang_up()
            raise silent(timeout) from None
        except BaseException:
            # A late answer must not be taken for that to the next request.
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
