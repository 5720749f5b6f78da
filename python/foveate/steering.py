"""Steers a view over a connection of its own, so that answers do not mix with events."""

from __future__ import annotations

import select
import threading
from collections.abc import Mapping
from typing import Any

from .control import GONE, Connection, HungUp, Steps, deadline_in, driven, silent
from .errors import Ended, Refused, TimedOut


class Steering:
    """The connection that steers one view, and that keeps an opened view alive. Connects on demand."""

    def __init__(self, path: str, view: str) -> None:
        """For ``view`` of the daemon that listens on ``path``."""
        #: The view's address.
        self.view = view
        self._path = path
        self._is_own = False
        #: Whether the daemon has yet to open the view.
        self._is_making = False
        #: Held for a request, until it has its answer.
        self.lock = threading.Lock()
        self._connection: Connection | None = None

    def make_view(self, stream: str, keys: Mapping[str, Any]) -> Steps[None]:
        """Opens a view on ``stream``, in place of the one before.

        :raises Refused: if the daemon refuses; other errors are those of :class:`Connection`.
        """
        if not self.lock.acquire(blocking=False):
            raise TimedOut("a request still waits for an answer of the daemon before")
        try:
            self.hang_up()
            self._is_own = self._is_making = True
            making = self._connection = Connection(self._path)
            making.post("open_view", stream=stream, view=keys)
        finally:
            self.lock.release()
        while (answer := self._answer(making)) is None:
            yield making, select.POLLIN
        with self.lock:
            self.view = str(answer["view"])
            self._is_making = False

    def ask(self, op: str, payload: bytes | None, timeout: float | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Sends feedback and waits for the answer. For any thread.

        :param timeout: how long, in seconds, for other threads that steer included; None for as long as it takes.
        :raises TimedOut: if the daemon does not answer in time; other errors are those of :meth:`asking`.
        """
        deadline = deadline_in(timeout)
        if not self.lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise silent(timeout)
        try:
            return driven(self.asking(op, payload, fields), timeout, deadline)
        except (Refused, Ended):
            raise
        except BaseException:
            # A late answer must not be taken for that to the next request.
            self.hang_up()
            raise
        finally:
            self.lock.release()

    def asking(self, op: str, payload: bytes | None, fields: Mapping[str, Any]) -> Steps[dict[str, Any]]:
        """Sends feedback, and returns the answer; for the holder of :attr:`lock`.

        :raises Refused: if the daemon refuses.
        :raises Ended: if it is gone; other errors are those of :class:`Connection`.
        """
        # The daemon may have dropped an idle connection; an opened view is gone with it.
        may_retry = self._connection is not None and not self._is_own
        while True:
            try:
                return (yield from self._attempt(op, payload, fields))
            except HungUp:
                if not may_retry:
                    raise Ended(self.view, GONE, hung_up=True) from None
                may_retry = False

    def close(self) -> None:
        """Hangs up, which ends the lease and the opened view."""
        with self.lock:
            self.hang_up()

    def hang_up(self) -> None:
        """Hangs up, which ends the lease and the opened view; for the holder of :attr:`lock`."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answer(self, making: Connection) -> dict[str, Any] | None:
        with self.lock:
            if self._connection is not making:
                raise HungUp
            return making.answer()

    def _attempt(self, op: str, payload: bytes | None, fields: Mapping[str, Any]) -> Steps[dict[str, Any]]:
        if self._is_own and (self._connection is None or self._is_making):
            raise HungUp
        if self._connection is None:
            self._connection = Connection(self._path)
        try:
            return (yield from self._connection.asking(op, payload, view=self.view, **fields))
        except (Refused, GeneratorExit):
            raise
        except BaseException:
            self.hang_up()
            raise
