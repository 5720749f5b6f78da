"""The errors of this package. Each message says what happened, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

#: Reasons of refusals that pass: a view that starts, restarts or stands still, too many clients, or a frame that the
#: daemon does not know, such as one of the daemon before.
_TRANSIENT = ("busy", "not-started", "too-many-clients", "unavailable", "unknown-frame")


class FoveateError(Exception):
    """The base of all errors of this package."""


class Unavailable(FoveateError):
    """Not now: the daemon is away, starts or stops, or something did not come in time. Try again later, or leave it out.

    With ``reconnect=True`` a call that steers raises nothing else while the daemon restarts.
    """


class NoDaemon(Unavailable, ConnectionError):
    """No daemon listens on the socket."""


class BrokenSegment(FoveateError):
    """The segment is invalid, inconsistent, or follows another version of the ABI."""


class Ended(FoveateError):
    """The view has ended, and all remaining frames were read.

    :ivar reason: why: ``"daemon_stopped"`` or ``"stream_restarted"`` if the view may come back, else in words.
    :ivar text: the reason in words.
    :ivar hung_up: whether the daemon is gone or has dropped this connection, and the stream itself may continue.
    """

    def __init__(self, view: str, reason: str, hung_up: bool = False, text: str = "") -> None:
        super().__init__(view, reason, hung_up, text)
        self.view = view
        self.reason = reason
        self.hung_up = hung_up
        self.text = text or reason

    def __str__(self) -> str:
        return f"{self.view} has ended: {self.text}"


class Lapped(FoveateError):
    """The writer replaced a frame while it was read: discard any results. Read the newest one.

    :ivar ring_sequence: the frame that is gone.
    """

    def __init__(self, ring_sequence: int) -> None:
        super().__init__(ring_sequence)
        self.ring_sequence = ring_sequence

    def __str__(self) -> str:
        return (
            f"the writer replaced frame {self.ring_sequence} of the ring while it was read: "
            "be quicker, read a copy, or give the view more `slots`"
        )


class Refused(FoveateError):
    """A request was refused: by the daemon, or before it was sent, because it is invalid.

    :ivar reason: why, for programs, such as ``"held"``; ``docs/reference/control.md`` lists them.
    :ivar holder: with ``"held"``, who steers the view; otherwise None.
    """

    def __init__(self, reason: str, error: str, holder: str | None = None) -> None:
        super().__init__(reason, error, holder)
        self.reason = reason
        self.error = error
        self.holder = holder

    def __str__(self) -> str:
        return f"refused ({self.reason}): {self.error}"

    @property
    def is_transient(self) -> bool:
        """Whether the same request may be granted later: the view starts, restarts or stands still, there are too many
        clients, or the daemon does not know the frame."""
        return self.reason in _TRANSIENT


class TimedOut(Unavailable, TimeoutError):
    """No frame or answer arrived in time.

    :ivar late: with :meth:`Views.read`, the views that are late; otherwise empty.
    """

    def __init__(self, message: str, late: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.late = tuple(late)
