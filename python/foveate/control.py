"""The control socket: subscribes to views, receives their rings and steers them. ``docs/control.md`` specifies it."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from . import abi
from .errors import FoveateError, NoDaemon, Refused, TimedOut
from .frame import Fixation

#: The longest datagram, in bytes.
DATAGRAM_BYTES_MAX = 128 * 1024
#: Room for the descriptor that comes with a datagram, in bytes. The flags are plain numbers: those of `socket` are
#: enums, which take longer to combine than the call takes.
_CMSG_BYTES = socket.CMSG_SPACE(array.array("i").itemsize)
_MSG_CMSG_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
_MSG_TRUNC = int(socket.MSG_TRUNC)
#: Timeout for an answer of the daemon, in seconds.
ANSWER_TIMEOUT_S = 2.0
#: Message about a hang-up.
GONE = "the daemon is gone: it has stopped, or it dropped this connection"

Path = Union[str, "os.PathLike[str]"]


class Looking(NamedTuple):
    """The answer to feedback: where the view was asked to look."""

    #: Pixels right of the source's left edge, inside the image: of the point, or of the peak of the map.
    x: float
    #: Pixels below the source's top edge, inside the image.
    y: float
    #: The resulting fixation, with ``wait``; otherwise, or if no frame came within a second, None.
    fixation: Fixation | None


class HungUp(Exception):
    """The daemon is gone, or closed this connection."""


def socket_path(explicit: Path | None = None) -> str:
    """The path of the socket: ``explicit``, else ``$FOVEATE_SOCKET``, else ``foveate.sock`` in ``$RUNTIME_DIRECTORY``
    (its first entry), in ``$XDG_RUNTIME_DIR/foveate``, or in ``/run/foveate``."""
    if explicit is not None:
        return os.fspath(explicit)
    named = os.environ.get("FOVEATE_SOCKET")
    if named:
        return named
    # systemd separates several directories by colons.
    runtime = next(filter(None, os.environ.get("RUNTIME_DIRECTORY", "").split(":")), None)
    user = os.environ.get("XDG_RUNTIME_DIR")
    directory = runtime or (os.path.join(user, "foveate") if user else "/run/foveate")
    return os.path.join(directory, "foveate.sock")


class Connection:
    """A connection to the daemon: requests that get answers, and after a subscription events. For one thread at a time."""

    def __init__(self, path: str) -> None:
        """Connects to the daemon that listens on ``path``.

        :raises NoDaemon: if there is none.
        :raises FoveateError: if the user may not talk to it.
        """
        self._path = path
        self._buffer = bytearray(DATAGRAM_BYTES_MAX)
        self._buffers = [self._buffer]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(ANSWER_TIMEOUT_S)
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

    def request(self, op: str, payload: bytes | None = None, **fields: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer.

        :raises Refused: if the daemon refuses.
        :raises TimedOut: if it does not answer.
        :raises HungUp: if it is gone.
        """
        datagram = json.dumps({"op": op, **fields}, separators=(",", ":"), allow_nan=False).encode()
        if payload is not None:
            datagram += b"\n" + payload
        if DATAGRAM_BYTES_MAX < len(datagram):
            raise Refused("too-large", f"{len(datagram)} bytes do not fit in a message of at most {DATAGRAM_BYTES_MAX}")
        try:
            self._socket.send(datagram, socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            # A daemon that rejects a client sends the reason before it hangs up.
            pass
        except OSError as error:
            raise self._failed("send to", error) from error
        return self._answer()

    def subscribe(self, view: str) -> None:
        """Subscribes to the events of ``view``, with notices; :meth:`event` takes them from then on, without waiting.

        :raises Refused: as :meth:`request`, which also names the other errors.
        """
        self.request("subscribe", view=view, notify=True)
        self._socket.setblocking(False)

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

    def _answer(self) -> dict[str, Any]:
        try:
            size, descriptor = self._receive()
        except (BlockingIOError, socket.timeout) as error:
            raise _silent() from error
        _close(descriptor)
        answer = self._understood(size)
        if answer.get("ok") is True:
            return answer
        raise Refused(str(answer.get("reason")), str(answer.get("error")), answer.get("holder"))

    def _receive(self) -> tuple[int, int | None]:
        """Receives a datagram into the buffer: its size, and the descriptor that came with it."""
        try:
            size, ancillary, flags, _ = self._socket.recvmsg_into(self._buffers, _CMSG_BYTES, _MSG_CMSG_CLOEXEC)
        except (BlockingIOError, socket.timeout):
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
        if isinstance(error, socket.timeout):
            return _silent()
        return FoveateError(f"cannot {action} {self._path}: {error.strerror}")


def looking(answer: Mapping[str, Any]) -> Looking:
    """The answer to feedback."""
    fixation = answer.get("fixation")
    try:
        return Looking(float(answer["x"]), float(answer["y"]), None if fixation is None else _fixation(fixation))
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error


def _fixation(listed: Mapping[str, Any]) -> Fixation:
    return Fixation(
        x=float(listed["x"]),
        y=float(listed["y"]),
        id=int(listed["id"]),
        since_frame=int(listed["since_frame"]),
        reason=str(listed["reason"]),
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
    if isinstance(error, (BlockingIOError, socket.timeout)):
        return _silent()
    return FoveateError(f"cannot connect to {path}: {error.strerror or error}")


def _silent() -> TimedOut:
    return TimedOut(f"the daemon did not answer within {ANSWER_TIMEOUT_S:g} s: it may be overloaded or stopped")


def _not_understood(detail: object) -> FoveateError:
    return FoveateError(
        f"the daemon's message is not understood ({detail}): daemon and package may be of different versions"
    )
