"""Steers a view, from any thread, over a connection of its own, so that answers do not mix with events."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from .control import GONE, Connection, HungUp
from .errors import Ended, Refused


class Steering:
    """The connection that steers one view, and that keeps an opened view alive. Connects on demand. Thread-safe."""

    def __init__(self, path: str, view: str) -> None:
        """For ``view`` of the daemon that listens on ``path``."""
        #: The view's address.
        self.view = view
        self._path = path
        self._is_own = False
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def make_view(self, stream: str, keys: Mapping[str, Any]) -> None:
        """Opens a view on ``stream``, in place of the one before.

        :raises Refused: if the daemon refuses; other errors are those of :class:`Connection`.
        """
        with self._lock:
            self._hang_up()
            self._is_own = True
            self._connection = Connection(self._path)
            self.view = str(self._connection.request("open_view", stream=stream, view=keys)["view"])

    def ask(self, op: str, payload: bytes | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Sends feedback and waits for the answer.

        :raises Refused: if the daemon refuses.
        :raises Ended: if it is gone.
        """
        with self._lock:
            # The daemon may have dropped an idle connection; an opened view is gone with it.
            may_retry = self._connection is not None and not self._is_own
            try:
                try:
                    return self._request(op, payload, fields)
                except HungUp:
                    if not may_retry:
                        raise
                return self._request(op, payload, fields)
            except HungUp:
                raise Ended(self.view, GONE, hung_up=True) from None

    def close(self) -> None:
        """Hangs up, which ends the lease and the opened view."""
        with self._lock:
            self._hang_up()

    def _request(self, op: str, payload: bytes | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            if self._is_own:
                raise HungUp
            self._connection = Connection(self._path)
        try:
            return self._connection.request(op, payload, view=self.view, **fields)
        except Refused:
            raise
        except BaseException:
            # A late answer must not be taken for that to the next request.
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
