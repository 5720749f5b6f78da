"""The control socket: subscribes to views, receives their rings and steers them. ``docs/reference/control.md`` specifies
it.
"""

from __future__ import annotations

import array
import json
import math
import os
import select
import socket
import time
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar, Union

from . import abi
from .errors import Ended, FoveateError, NoDaemon, Refused, TimedOut
from .frame import Fixation

#: The longest datagram, in bytes.
DATAGRAM_BYTES_MAX = 128 * 1024
#: Room for the descriptor that comes with a datagram, in bytes. The flags are plain numbers: those of `socket` are
#: enums, which take longer to combine than the call takes.
_CMSG_BYTES = socket.CMSG_SPACE(array.array("i").itemsize)
_MSG_CMSG_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
_MSG_TRUNC = int(socket.MSG_TRUNC)
#: Default timeout for an answer of the daemon, in seconds.
ANSWER_TIMEOUT_S = 2.0
#: Message about a hang-up.
GONE = "the daemon is gone: it has stopped, or it dropped this connection"

Path = Union[str, "os.PathLike[str]"]

T = TypeVar("T")

#: Something that has to wait for the daemon: yields the connection, and what it waits for there, ``select.POLLIN`` or
#: ``select.POLLOUT``; returns the result. Whoever drives it knows how to wait: a thread by ``poll``, a task by its loop.
Steps = Generator["tuple[Connection, int]", None, T]


class Looking(NamedTuple):
    """The answer to feedback: where the view was asked to look.

    :ivar x: Pixels right of the source's left edge, inside the image: of the point, the first of several, or of the
        greatest peak of the map.
    :ivar y: Pixels below the source's top edge, inside the image.
    :ivar fixation: The first of the resulting fixations, with ``wait``; otherwise, or if no frame came within a
        second, None.
    :ivar points: All points, x and y of each.
    :ivar fixations: All of the resulting fixations, with ``wait``.
    :ivar taken_for: The newest frame, if the feedback was taken for that because the frame that it names is too old;
        otherwise None.
    """

    x: float
    y: float
    fixation: Fixation | None
    points: tuple[tuple[float, float], ...] = ()
    fixations: tuple[Fixation, ...] = ()
    taken_for: int | None = None


class ListedView(NamedTuple):
    """One view of a daemon, as :func:`list_views` returns it.

    :ivar name: Its address, such as ``"front/robot"``: what :func:`foveate.open` takes.
    :ivar state: State of its stream: ``"starting"``, ``"live"``, ``"stalled"`` or ``"ended"``.
    :ivar reason: The reason for the state; may be empty.
    :ivar layout: Name of its layout, such as ``"adaptive"``.
    :ivar budget: Most tokens of a frame.
    :ivar patch: P: side of a token in texels.
    :ivar dtype: Number format of a texel: ``"u8"``, ``"f16"``, ``"bf16"`` or ``"f32"``.
    :ivar policy: Gaze policy: ``"auto"``, ``"fixed"``, ``"feedback"``, ``"saliency"``, ``"relevance"`` or ``"replay"``.
    """

    name: str
    state: str
    reason: str
    layout: str
    budget: int
    patch: int
    dtype: str
    policy: str


class HungUp(Exception):
    """The daemon is gone, or closed this connection."""


def socket_path(explicit: Path | None = None) -> str:
    """The path of the socket: ``explicit``, else ``$FOVEATE_SOCKET``, else the first ``foveate.sock`` that there is in
    ``$RUNTIME_DIRECTORY`` (its first entry), in ``$XDG_RUNTIME_DIR/foveate``, and in ``/run/foveate``; if there is none, in
    the first of these that is set. A relative ``$XDG_RUNTIME_DIR`` counts as unset."""
    if explicit is not None:
        return os.fspath(explicit)
    named = os.environ.get("FOVEATE_SOCKET")
    if named:
        return named
    # systemd separates several directories by colons.
    runtime = next(filter(None, os.environ.get("RUNTIME_DIRECTORY", "").split(":")), None)
    user = os.environ.get("XDG_RUNTIME_DIR", "")
    # Its specification demands that a relative path is ignored.
    users = os.path.join(user, "foveate") if os.path.isabs(user) else None
    directories = [runtime, users, "/run/foveate"]
    places = [os.path.join(directory, "foveate.sock") for directory in directories if directory]
    return next(filter(os.path.exists, places), places[0])


class Connection:
    """A connection to the daemon: requests that get answers, and after a subscription events. Waits nowhere. For one
    thread at a time."""

    def __init__(self, path: str) -> None:
        """Connects to the daemon that listens on ``path``. It may be one that has yet to accept the connection.

        :raises NoDaemon: if there is none.
        :raises TimedOut: if its queue of connections is full.
        :raises FoveateError: if the user may not talk to it.
        """
        self._path = path
        self._buffer = bytearray(DATAGRAM_BYTES_MAX)
        self._buffers = [self._buffer]
        #: Answers to come to requests that were given up.
        self._owed = 0
        kind = socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_UNIX, kind)
        try:
            self._socket.connect(path)
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise _unconnected(path, error) from error
            raise

    def fileno(self) -> int:
        """The descriptor of the socket; -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hangs up. Leases and views opened over this connection end with it."""
        self._socket.close()

    def asking(self, op: str, payload: bytes | None, **fields: Any) -> Steps[dict[str, Any]]:
        """Sends a request, and returns its answer. Closed before it has come, the answer is dropped when it does.

        :raises Refused: if the daemon refuses.
        :raises HungUp: if it is gone.
        """
        while not self.post(op, payload, **fields):
            yield self, select.POLLOUT
        try:
            while (answer := self.answer()) is None:
                yield self, select.POLLIN
        except GeneratorExit:
            self._owed += 1
            raise
        return answer

    def post(self, op: str, payload: bytes | None = None, **fields: Any) -> bool:
        """Sends a request without waiting: False if the daemon has too many unread ones."""
        datagram = json.dumps({"op": op, **fields}, separators=(",", ":"), allow_nan=False).encode()
        if payload is not None:
            datagram += b"\n" + payload
        if DATAGRAM_BYTES_MAX < len(datagram):
            raise Refused("too-large", f"message too large: {len(datagram)} bytes (expected at most {DATAGRAM_BYTES_MAX})")
        try:
            self._socket.send(datagram, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            # A daemon that rejects a client sends the reason before it hangs up.
            pass
        except OSError as error:
            raise self._failed("send to", error) from error
        return True

    def answer(self) -> dict[str, Any] | None:
        """The answer to a request, or None if it has not arrived yet.

        :raises Refused: if the daemon refuses.
        :raises HungUp: if it is gone.
        """
        while True:
            try:
                size, descriptor = self._receive()
            except BlockingIOError:
                return None
            _close(descriptor)
            if self._owed == 0:
                break
            self._owed -= 1
        answer = self._understood(size)
        if answer.get("ok") is True:
            return answer
        raise Refused(str(answer.get("reason")), str(answer.get("error")), answer.get("holder"))

    def event(self) -> tuple[Mapping[str, Any] | int, int | None] | None:
        """The next event of a subscription, and the descriptor that came with it, which the caller then owns. A notice
        is returned as the ring sequence of the newest frame. None if there is nothing to receive.

        :raises HungUp: if the daemon is gone.
        """
        try:
            size, descriptor = self._receive()
        except BlockingIOError:
            return None
        if size == abi.NOTICE_BYTES:
            _close(descriptor)
            return int.from_bytes(self._buffer[:8], "little"), None
        try:
            return self._understood(size), descriptor
        except BaseException:
            _close(descriptor)
            raise

    def _receive(self) -> tuple[int, int | None]:
        """Receives a datagram into the buffer: its size, and the descriptor that came with it."""
        try:
            size, ancillary, flags, _ = self._socket.recvmsg_into(self._buffers, _CMSG_BYTES, _MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except ConnectionResetError:
            raise HungUp from None
        except OSError as error:
            raise self._failed("receive from", error) from error
        descriptor = _only(ancillary)
        if size == 0:
            _close(descriptor)
            raise HungUp
        if flags & _MSG_TRUNC:
            _close(descriptor)
            raise FoveateError(
                f"the daemon sent a message of more than {DATAGRAM_BYTES_MAX} bytes: update this package"
            )
        return size, descriptor

    def _understood(self, size: int) -> dict[str, Any]:
        try:
            message = json.loads(bytes(memoryview(self._buffer)[:size]))
        except ValueError as error:
            raise _not_understood(error) from error
        if not isinstance(message, dict):
            raise _not_understood("it is not an object")
        return message

    def _failed(self, action: str, error: OSError) -> FoveateError:
        return FoveateError(f"cannot {action} {self._path}: {error.strerror}")


def driven(steps: Steps[T], timeout: float | None, deadline: float | None) -> T:
    """Waits for the result of ``steps``, and closes them.

    :param timeout: how long it was meant to take, in seconds, for the error.
    :param deadline: until when to wait, on the clock of ``time.monotonic``; None for as long as it takes.
    :raises TimedOut: if it takes longer.
    """
    try:
        while True:
            connection, events = next(steps)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise silent(timeout)
            poller = select.poll()
            poller.register(connection, events)
            poller.poll(None if left is None else left * 1000)
    except StopIteration as through:
        return through.value
    finally:
        steps.close()


def deadline_in(timeout: float | None) -> float | None:
    """In so many seconds, on the clock of ``time.monotonic``; None for never."""
    if timeout is not None and math.isnan(timeout):
        raise ValueError("invalid timeout: NaN (expected seconds, or None to wait without limit)")
    if timeout is not None and timeout < 0:
        raise ValueError(f"invalid timeout: {timeout:g} (expected seconds, at least 0, or None to wait without limit)")
    return None if timeout is None else time.monotonic() + timeout


def list_views(socket: Path | None = None, *, timeout: float | None = ANSWER_TIMEOUT_S) -> list[ListedView]:
    """The views of a daemon, in the order of ``foveate ls``.

    :param socket: the daemon's socket, as for :func:`foveate.open`.
    :param timeout: how long to wait for the daemon, in seconds; None waits for as long as it takes.
    :raises NoDaemon: if no daemon listens there.
    :raises TimedOut: if it does not answer in time.
    :raises Ended: if it goes away meanwhile.
    """
    return driven(listing(socket_path(socket)), timeout, deadline_in(timeout))


def listing(path: str) -> Steps[list[ListedView]]:
    """The views of the daemon that listens on ``path``; errors are those of :func:`list_views`."""
    connection = Connection(path)
    views: list[ListedView] = []
    after: dict[str, Any] = {}
    try:
        while True:
            page = yield from connection.asking("list", None, **after)
            views += [_listed(stream, view) for stream in page["streams"] for view in stream["views"]]
            if page.get("next") is None:
                return views
            after = {"after": page["next"]}
    except HungUp:
        raise Ended("the list of views", GONE, hung_up=True) from None
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error
    finally:
        connection.close()


def _listed(stream: Mapping[str, Any], view: Mapping[str, Any]) -> ListedView:
    return ListedView(
        name=str(view["name"]),
        state=str(stream["state"]),
        reason=str(stream["reason"]),
        layout=str(view["layout"]),
        budget=int(view["budget"]),
        patch=int(view["patch_side"]),
        dtype=str(view["dtype"]),
        policy=str(view["policy"]),
    )


def looking(answer: Mapping[str, Any]) -> Looking:
    """The answer to feedback."""
    try:
        points = tuple((float(x), float(y)) for x, y in answer["points"])
        fixations = tuple(_fixation(listed) for listed in answer.get("fixations", ()))
        fixation = fixations[0] if fixations else None
        return Looking(*points[0], fixation, points, fixations, _taken_for(answer))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error


def injected(answer: Mapping[str, Any]) -> int | None:
    """The answer to a map: the newest frame, if it counts for that."""
    try:
        return _taken_for(answer)
    except (TypeError, ValueError) as error:
        raise _not_understood(error) from error


def _taken_for(answer: Mapping[str, Any]) -> int | None:
    newest = answer.get("taken_for")
    return None if newest is None else int(newest)


def _fixation(listed: Mapping[str, Any]) -> Fixation:
    return Fixation(
        x=float(listed["x"]),
        y=float(listed["y"]),
        id=int(listed["id"]),
        since_frame=int(listed["since_frame"]),
        reason=str(listed["reason"]),
        weight=float(listed["weight"]),
    )


def _only(ancillary: Any) -> int | None:
    """The first descriptor of a datagram; others are closed."""
    if not ancillary:
        return None
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    for spare in descriptors[1:]:
        os.close(spare)
    return descriptors[0] if descriptors else None


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _unconnected(path: str, error: OSError) -> FoveateError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)):
        return NoDaemon(
            f"no daemon listens on {path}: start `foveated`, or give its path with socket= or FOVEATE_SOCKET"
        )
    if isinstance(error, PermissionError):
        return FoveateError(
            f"no permission for {path}: run as the daemon's user or as a member of its group, or choose another path "
            "with socket= or FOVEATE_SOCKET"
        )
    if isinstance(error, BlockingIOError):
        return TimedOut(f"the daemon at {path} does not accept clients: it may be overloaded or stopped")
    return FoveateError(f"cannot connect to {path}: {error.strerror or error}")


def silent(timeout: float | None) -> TimedOut:
    """The error of a daemon that does not answer within ``timeout``."""
    return TimedOut(f"the daemon did not answer within {timeout or 0:g} s: it may be overloaded or stopped")


def _not_understood(detail: object) -> FoveateError:
    return FoveateError(
        f"cannot understand the daemon's message ({detail}): daemon and package may be of different versions"
    )
