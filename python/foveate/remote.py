"""Reads views of other machines, and steers them, over Zenoh: what ``foveate-zenoh`` publishes there.

    from foveate import remote

    with remote.open("robot-7", "front/robot", connect=["tls/router.example:7447"]) as view:
        for frame in view:
            print(frame.frame_seq, frame.pixels.shape)
            view.look(320, 240)

``pip install foveate[zenoh]``. ``docs/guide/fleet.md`` is the guide; ``docs/reference/zenoh.md``
specifies keys and messages.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import abi, feedback, picture
from .control import deadline_in
from .errors import BrokenSegment, Ended, FoveateError, NoDaemon, Refused, TimedOut, Unavailable
from .frame import Frame
from .ring import frame_of, head_of
from .segment import Placement, PlanePlacement, SegmentInfo, described
from .steered import Steered

#: Magic, flags, run, sequence, base, epoch, counts of tokens, records and texels, planes.
_HEAD = struct.Struct("<4sIQQQQIIII8x")
_MAGIC = b"FVZ1"
_FLAG_WHOLE = 1
_NEW_RECORD = 1 << 31
_NEW_TEXELS = _NEW_RECORD - 1
#: Messages that are kept until the frame that they differ from has come.
_PENDING_MAX = 32
#: An answer may overtake so many messages. A number further back is not late: the numbers start over there.
_LATE_MAX = 64
#: No gap is longer than so many messages, years of a camera: a number further ahead is wrong.
_GAP_MAX = 1 << 32
#: Most bytes of a frame, of the picture that it is rebuilt to, and of the messages that wait, unless the caller says
# otherwise.
MAX_FRAME_BYTES = 256 << 20
#: Most bytes of a status, or of an answer to feedback.
_TEXT_BYTES_MAX = 1 << 16
#: How often to ask for a whole frame, at most, in seconds.
_ASK_INTERVAL_S = 0.25
#: How long an answer of another machine may take, in seconds.
_TIMEOUT_S = 5.0
#: As of :mod:`foveate.control`, from the daemon of another machine.
_STATES_OVER = ("ended",)


@dataclass(frozen=True)
class _Held:
    """The frame of a message. Nothing in it changes."""

    run: int
    sequence: int
    info: SegmentInfo
    placement: Placement
    head: Any
    tokens: NDArray[np.void]
    #: Bytes of each plane; the texels come first.
    planes: tuple[memoryview, ...]

    def frame(self) -> Frame:
        arrays = {}
        for plane, items in zip(self.placement.planes, self.planes, strict=True):
            count = len(self.tokens) if plane.count is None else plane.count
            # A copy, so that callers may change it.
            arrays[plane.name] = np.ndarray((count, *plane.shape), plane.dtype, items, 0, plane.strides).copy()
        return frame_of(self.info, self.head, self.tokens.copy(), arrays)


class Decoder:
    """Rebuilds frames from messages. Needs no Zenoh: give it the payloads in the order in which they come.

    Messages come from a network, so each is checked, and what one can make the decoder allocate is bounded: see
    :func:`open`. Whatever a message says, the next whole frame of the bridge is taken.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """:param max_frame_bytes: as of :func:`open`."""
        self._max_frame_bytes = max_frame_bytes
        self._held: _Held | None = None
        #: Of one run, by the number of the message that they differ from, in the order in which they came.
        self._pending: dict[int, bytes] = {}
        self._pending_run = 0
        #: Messages that never came, as far as is known.
        self.lost = 0

    @property
    def sequence(self) -> tuple[int, int]:
        """Run and number of the message that the newest frame is from; zeros before the first."""
        return (0, 0) if self._held is None else (self._held.run, self._held.sequence)

    def newest(self) -> Frame | None:
        """The newest frame; None before the first."""
        return None if self._held is None else self._held.frame()

    def take(self, payload: bytes) -> bool:
        """Takes a message. Returns whether all is well: otherwise a whole frame is needed, since one was lost.

        :raises BrokenSegment: if it is not a message, or one of another version, or inconsistent, or exceeds a limit. The
            newest frame stays.
        """
        if self._max_frame_bytes < len(payload):
            raise _too_large("a message", len(payload), self._max_frame_bytes)
        head = self._head(payload)
        _, flags, run, sequence, base, *_ = head
        before = self._held
        if before is not None and run == before.run and 0 <= before.sequence - sequence <= _LATE_MAX:
            # As an answer may be that others overtook.
            return True
        if flags & _FLAG_WHOLE:
            self._held = _whole(payload, head, self._max_frame_bytes)
            if before is not None and run == before.run and 0 < sequence - before.sequence < _GAP_MAX:
                self.lost += sequence - before.sequence - 1 - self._came(before.sequence, sequence)
        elif before is not None and (run, base) == self.sequence:
            self._held = _changed(payload, head, before)
        else:
            self._keep(run, base, payload)
            return False
        return self._catch_up()

    def _came(self, after: int, before: int) -> int:
        """Messages between two numbers that wait."""
        return sum(after <= base < before - 1 for base in self._pending) if self._pending_run == self.sequence[0] else 0

    def _keep(self, run: int, base: int, payload: bytes) -> None:
        """Keeps a message until what it differs from has come; the oldest ones make room."""
        if run != self._pending_run:
            self._pending.clear()
            self._pending_run = run
        self._pending[base] = payload
        while len(self._pending) > _PENDING_MAX or sum(map(len, self._pending.values())) > self._max_frame_bytes:
            del self._pending[next(iter(self._pending))]

    def _catch_up(self) -> bool:
        """Takes the messages that came before what they differ from. Returns whether none is left."""
        run, _ = self.sequence
        if run != self._pending_run:
            self._pending.clear()
        while (held := self._held) is not None and (payload := self._pending.pop(held.sequence, None)) is not None:
            self._held = _changed(payload, self._head(payload), held)
        # Those further ahead would need another whole frame.
        number = self.sequence[1]
        self._pending = {
            base: payload for base, payload in self._pending.items() if number < base <= number + _PENDING_MAX
        }
        return not self._pending

    def _head(self, payload: bytes) -> tuple[Any, ...]:
        if len(payload) < _HEAD.size or payload[:3] != _MAGIC[:3]:
            raise BrokenSegment(f"not a message of foveate-zenoh: it begins with {payload[:4]!r}")
        if payload[:4] != _MAGIC:
            raise BrokenSegment(
                f"the message has version {payload[3:4]!r}, but this reader knows {_MAGIC[3:]!r}: install the foveate "
                "package of the bridge's version"
            )
        return _HEAD.unpack_from(payload)


class _Cursor:
    """Takes a message apart, from its head on."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._offset = _HEAD.size

    def take(self, size: int) -> memoryview:
        start, self._offset = self._offset, self._offset + size
        if len(self._payload) < self._offset:
            raise BrokenSegment(f"the message ends after {len(self._payload)} bytes, in the middle")
        return memoryview(self._payload)[start : self._offset]

    def array(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        return np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)

    def finish(self) -> None:
        if self._offset != len(self._payload):
            raise BrokenSegment(f"the message has {len(self._payload) - self._offset} bytes too many")


def _whole(payload: bytes, head: tuple[Any, ...], max_bytes: int) -> _Held:
    _, _, run, sequence, _, epoch, count, record_count, texel_count, planes = head
    cursor = _Cursor(payload)
    info, placement = described(bytes(cursor.take(abi.HEADER_BYTES)))
    slot = head_of(bytes(cursor.take(abi.SLOT_HEADER.itemsize)))
    width, height = info.extent
    # Nothing that is made of a frame is larger: its arrays, padded ones, and its picture.
    for what, size in (("the frame", placement.frame_bytes), ("the picture", 3 * width * height)):
        if max_bytes < size:
            raise _too_large(f"{what} of {info.name}", size, max_bytes)
    every = (1 << len(placement.planes)) - 1
    _ensure(epoch == info.epoch, "epoch", epoch)
    _check_counts(count, slot, placement)
    _ensure((record_count, texel_count, planes) == (count, count, every), "counts", (record_count, texel_count, planes))
    tokens = cursor.array(abi.TOKEN, count)
    _check_tokens(tokens, slot, info)
    items = tuple(cursor.take(_size(plane, count)) for plane in placement.planes)
    cursor.finish()
    return _Held(run, sequence, info, placement, slot, tokens, items)


def _changed(payload: bytes, head: tuple[Any, ...], before: _Held) -> _Held:
    _, _, run, sequence, _, epoch, count, record_count, texel_count, planes = head
    placement = before.placement
    cursor = _Cursor(payload)
    slot = head_of(bytes(cursor.take(abi.SLOT_HEADER.itemsize)))
    _ensure(epoch == before.info.epoch, "epoch", epoch)
    _check_counts(count, slot, placement)
    origins = cursor.array("<u4", count)
    index = origins & np.uint32(_NEW_TEXELS)
    new_record, new_texels = origins >= _NEW_RECORD, index == _NEW_TEXELS
    old_record, old_texels = ~new_record, ~new_texels
    _ensure(np.count_nonzero(new_record) == record_count, "record_count", record_count)
    _ensure(np.count_nonzero(new_texels) == texel_count, "texel_count", texel_count)
    _ensure(bool(np.all(index[old_texels] < len(before.tokens))), "origins", int(index[old_texels].max(initial=0)))
    _ensure(not np.any(old_record & new_texels), "origins", "a record without a token")

    tokens = np.empty(count, abi.TOKEN)
    tokens[old_record] = before.tokens[index[old_record]]
    tokens[new_record] = cursor.array(abi.TOKEN, record_count)
    _check_tokens(tokens, slot, before.info)
    size = placement.planes[0].strides[0]
    texels = np.empty((count, size), "u1")
    texels[old_texels] = np.frombuffer(before.planes[0], "u1").reshape(-1, size)[index[old_texels]]
    texels[new_texels] = cursor.array("u1", texel_count * size).reshape(texel_count, size)
    items: list[Any] = [texels.data.cast("B", (count * size,)) if count else b""]
    for number, plane in enumerate(placement.planes[1:], 1):
        bytes_wanted = _size(plane, count)
        held = before.planes[number]
        items.append(cursor.take(bytes_wanted) if planes >> number & 1 else held)
        _ensure(len(items[-1]) == bytes_wanted, f"planes[{number}]", len(items[-1]))
    cursor.finish()
    return _Held(run, sequence, before.info, placement, slot, tokens, tuple(items))


def _size(plane: PlanePlacement, token_count: int) -> int:
    size: int = (token_count if plane.count is None else plane.count) * plane.strides[0]
    return size


def _check_counts(count: int, slot: Any, placement: Placement) -> None:
    _ensure(count == slot.token_count and count <= placement.capacity, "token_count", count)


def _check_tokens(tokens: NDArray[np.void], slot: Any, info: SegmentInfo) -> None:
    """Checks the records: what reads a frame sizes arrays by them, and indexes with them."""
    fixation_count = min(max(slot.fixation_count, 1), abi.FOVEAE_MAX)
    is_named = tokens["fovea"] < fixation_count
    for field, expected, values, is_within in (
        *picture.limits(tokens, info.patch, info.extent),
        ("fovea", f"below {fixation_count}", tokens["fovea"], is_named),
    ):
        if not is_within.all():
            index = int(is_within.argmin())
            raise BrokenSegment(
                f"the message is broken: `{field}` of token {index} is {values[index]} (expected {expected})"
            )


def _ensure(holds: bool, field: str, value: object) -> None:
    if not holds:
        raise BrokenSegment(f"the message is broken: {field} is {value}")


def _too_large(what: str, size: int, most: int) -> BrokenSegment:
    return BrokenSegment(
        f"{what} has {size} bytes (expected at most {most}): if the view is that large, open it with `max_frame_bytes`"
    )


def _object(payload: Any) -> dict[str, Any]:
    """The JSON object in a payload.

    :raises BrokenSegment: if there is none.
    """
    text = payload.to_bytes()
    try:
        if _TEXT_BYTES_MAX < len(text):
            raise ValueError(f"{len(text)} bytes (expected at most {_TEXT_BYTES_MAX})")
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenSegment(f"the message cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise BrokenSegment(f"the message is {type(found).__name__} (expected a JSON object)")
    return found


@dataclass(frozen=True)
class RemoteName:
    """Where a view is.

    :ivar host: The name of its machine, as ``foveate-zenoh`` has it.
    :ivar view: Its address there, such as ``"front/robot"``.
    """

    host: str
    view: str


def open(
    host: str,
    view: str,
    session: Any = None,
    *,
    connect: Sequence[str] = (),
    client: str | None = None,
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> RemoteView:
    """Opens a view of another machine. It need not be there yet.

    :param host: the name of its machine, as ``foveate-zenoh`` has it.
    :param view: its address there, such as ``"front/robot"``.
    :param session: a ``zenoh.Session``, which stays the caller's; None for one that only connects to ``connect``.
    :param connect: endpoints of routers or bridges, such as ``"tcp/192.0.2.7:7447"``, in place of a session.
    :param client: the name that the daemon tells remote clients apart by, which steer one at a time; None for one of its
        own.
    :param max_frame_bytes: most bytes of a frame with as many tokens as the view may have, of the picture that it is rebuilt
        to, and of the messages that wait for one that was lost. Messages that exceed it raise :class:`BrokenSegment` when
        the view is read.
    :raises NoDaemon: if there is nobody at these endpoints.
    :raises FoveateError: if the package ``zenoh`` is missing.
    """
    own = None if session is not None else _session(connect)
    try:
        return RemoteView(host, view, session if own is None else own, own is not None, client, max_frame_bytes)
    except BaseException:
        if own is not None:
            own.close()
        raise


def list_views(session: Any, timeout: float = _TIMEOUT_S) -> list[RemoteName]:
    """The views that are alive, of all machines.

    :param session: a ``zenoh.Session``.
    :param timeout: how long to wait for answers, in seconds.
    """
    names = []
    for reply in session.liveliness().get("foveate/*/*/*", timeout=timeout):
        if reply.ok is not None:
            _, host, stream, view = str(reply.ok.key_expr).split("/")
            names.append(RemoteName(host, f"{stream}/{view}"))
    return sorted(names, key=lambda name: (name.host, name.view))


def _session(connect: Sequence[str]) -> Any:
    if not connect:
        raise ValueError("missing `session` or `connect` (expected one of them)")
    zenoh = _zenoh()
    config = zenoh.Config()
    for key, value in (
        ("mode", "client"),
        ("scouting/multicast/enabled", False),
        ("connect/endpoints", list(connect)),
    ):
        config.insert_json5(key, json.dumps(value))
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        raise NoDaemon(f"nobody answers at {', '.join(connect)}: {error}") from error


def _zenoh() -> Any:
    try:
        import zenoh
    except ImportError as error:
        raise FoveateError("the package zenoh is missing: pip install foveate[zenoh]") from error
    return zenoh


class RemoteView(Steered):
    """A view of another machine. The newest frame wins; any thread may read and steer.

    Times of its frames are of that machine's clocks: of these only ``capture_unix_ns`` can be compared with another
    machine's, if both are synchronised. ``frame.age_ns`` and ``max_age`` mean nothing here.
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a RemoteView has a connection, and cannot be pickled: open it in each process, or pickle its frames"
        )

    def __init__(
        self,
        host: str,
        view: str,
        session: Any,
        owns_session: bool,
        client: str | None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        """For :func:`open`."""
        #: Where it is.
        self.name = RemoteName(host, view)
        self._key = f"foveate/{host}/{view}"
        self._session = session
        self._owns_session = owns_session
        self._client = str(session.zid()) if client is None else client
        self._news = threading.Condition()
        self._decoder = Decoder(max_frame_bytes)
        self._error: FoveateError | None = None
        self._status: dict[str, Any] = {}
        self._asked_at = -_ASK_INTERVAL_S
        self._asked = 0
        self._is_alive = self._is_closed = False
        #: What was read last: its run and number, and its epoch and ring sequence.
        self._last, self._last_ring = (0, 0), (0, 0)
        self._declared = [
            session.declare_subscriber(self._key, lambda sample: self._take(sample.payload)),
            session.declare_subscriber(f"{self._key}/status", lambda sample: self._take_status(sample.payload)),
            session.liveliness().declare_subscriber(self._key, self._take_liveliness, history=True),
        ]
        self._ask_for_whole()
        session.get(f"{self._key}/status", lambda reply: self._take_status(reply.ok.payload) if reply.ok else None)

    def __enter__(self) -> RemoteView:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<foveate.remote.RemoteView {self._key}{' (closed)' if self._is_closed else ''}>"

    def close(self) -> None:
        """Ends the subscription. Frames that were read stay valid."""
        with self._news:
            if self._is_closed:
                return
            self._is_closed = True
            self._news.notify_all()
        for declared in self._declared:
            declared.undeclare()
        if self._owns_session:
            self._session.close()

    @property
    def is_alive(self) -> bool:
        """Whether the view publishes, and its bridge can be reached."""
        return self._is_alive

    @property
    def state(self) -> tuple[str, str]:
        """The state of the view as its bridge said last, ``"starting"``, ``"live"``, ``"stalled"``, ``"ended"`` or
        ``"lost"``, if there is no daemon; and the reason."""
        status = self.status
        return str(status.get("state", "starting")), str(status.get("reason", ""))

    @property
    def status(self) -> dict[str, Any]:
        """The counts and the state of the view as its bridge said last; empty before that. ``docs/reference/zenoh.md`` has
        its fields."""
        with self._news:
            return dict(self._status)

    @property
    def lost(self) -> int:
        """Messages that did not arrive; a whole frame was asked for in place of them."""
        with self._news:
            return self._decoder.lost

    @property
    def asked(self) -> int:
        """Whole frames that were asked for, the first one included."""
        return self._asked

    def read(self, timeout: float | None = 1.0) -> Frame:
        """Waits for an unread frame, and returns the newest.

        :param timeout: how long to wait, in seconds; 0 does not wait, None waits until there is a frame or the end.
        :raises TimedOut: if there is none in time.
        :raises Ended: if the view has ended, and its last frame was read.
        :raises BrokenSegment: if a message is not a frame, or is of another version.
        """
        deadline = deadline_in(timeout)
        with self._news:
            while True:
                if self._is_closed:
                    raise FoveateError(f"{self._key} was closed: open it again")
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                if self._decoder.sequence != self._last:
                    return self._took()
                state, reason = self._status.get("state", "starting"), self._status.get("reason", "")
                if state in _STATES_OVER:
                    raise Ended(self._key, reason)
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    alive = "" if self._is_alive else ", and its bridge is not to be reached"
                    because = f"it is {state}{alive}" + (f": {reason}" if reason else "")
                    raise TimedOut(f"no frame of {self._key} within {timeout:g} s: {because}")
                self._news.wait(rest)

    def __iter__(self) -> Iterator[Frame]:
        """The newest frames, one after the other, until the view ends."""
        while True:
            try:
                frame = self.read(timeout=None)
            except Ended:
                return
            yield frame

    def _took(self) -> Frame:
        frame = self._decoder.newest()
        assert frame is not None
        epoch, ring_sequence = self._last_ring
        frame.missed = max(0, frame.ring_sequence - ring_sequence - 1) if epoch == frame.epoch else 0
        self._last, self._last_ring = self._decoder.sequence, (frame.epoch, frame.ring_sequence)
        return frame

    def _take(self, payload: Any) -> None:
        with self._news:
            try:
                is_well = self._decoder.take(payload.to_bytes())
            except FoveateError as error:
                self._error, is_well = error, True
            except Exception as error:  # It runs on a thread of Zenoh's, which must go on.
                self._error, is_well = BrokenSegment(f"the message cannot be read: {error}"), True
            self._news.notify_all()
            if is_well or time.monotonic() - self._asked_at < _ASK_INTERVAL_S:
                return
        self._ask_for_whole()

    def _ask_for_whole(self) -> None:
        self._asked_at = time.monotonic()
        self._asked += 1
        self._session.get(self._key, lambda reply: self._take(reply.ok.payload) if reply.ok else None)

    def _take_status(self, payload: Any) -> None:
        try:
            status = _object(payload)
        except BrokenSegment:
            return
        with self._news:
            self._status = status
            self._news.notify_all()

    def _take_liveliness(self, sample: Any) -> None:
        with self._news:
            self._is_alive = sample.kind == _zenoh().SampleKind.PUT
            self._news.notify_all()

    def _ask(self, message: feedback.Feedback, timeout: float | None) -> dict[str, Any]:
        request = json.dumps({"op": message.op, **message.fields}).encode()
        if message.payload is not None:
            request += b"\n" + message.payload
        replies = self._session.get(
            f"{self._key}/feedback?client={self._client}",
            payload=request,
            timeout=3600.0 if timeout is None else timeout,
        )
        for reply in replies:
            if reply.ok is None:
                raise TimedOut(f"{self._key} did not answer: {reply.err.payload.to_string()}")
            answer = _object(reply.ok.payload)
            if answer.get("ok") is True:
                return answer
            refused = Refused(str(answer.get("reason")), str(answer.get("error")), answer.get("holder"))
            if refused.is_transient:
                raise Unavailable(f"{self._key} cannot be steered now: {refused}") from refused
            raise refused
        raise TimedOut(f"no answer for {self._key}: it is not published, or cannot be steered from here")
