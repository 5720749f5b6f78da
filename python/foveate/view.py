"""A view: its frames, and where it looks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from .control import GONE, Connection, HungUp, Looking, Path, looking, socket_path
from .errors import Ended, FoveateError, TimedOut
from .frame import Frame
from .ring import Ring
from .segment import SegmentInfo
from .steering import Steering
from .subscription import Subscription

#: Forks between the process that imported this module and this one.
_fork_count = 0


def _count_fork() -> None:
    global _fork_count
    _fork_count += 1


os.register_at_fork(after_in_child=_count_fork)


def open(view: str, socket: Path | None = None, *, reconnect: bool = False) -> View:
    """Opens a view, to read its frames and to say where it looks.

    :param view: its address, such as ``"front/policy"``; ``foveate ls`` lists them.
    :param socket: the daemon's socket; by default ``$FOVEATE_SOCKET``, else ``foveate.sock`` in the first directory of
        ``$RUNTIME_DIRECTORY``, else in ``$XDG_RUNTIME_DIR/foveate``, else in ``/run/foveate``.
    :param reconnect: whether to look for the daemon when it is gone, and to go on when it is back, rather than to raise
        :class:`Ended`.
    :raises NoDaemon: if no daemon listens there.
    :raises Refused: if there is no such view, or the daemon says no for another reason.
    :raises Ended: if the daemon goes away meanwhile.
    """
    return View(socket_path(socket), view, None, reconnect)


def open_view(stream: str, socket: Path | None = None, *, reconnect: bool = False, **keys: Any) -> View:
    """Makes a view of one's own on a stream, and opens it. It lives until it is closed, or the process ends.

    ``foveate.open_view("front", budget=128, gaze={"policy": "feedback"})``

    :param stream: the stream to look at.
    :param socket: as for :func:`open`.
    :param reconnect: as for :func:`open`; the view is made anew.
    :param keys: the keys of a ``[[stream.view]]`` of the daemon's configuration, all optional: ``name``, ``layout``,
        ``budget``, ``patch``, ``dtype``, ``normalisation``, ``slots``, ``gaze`` and more.
    :raises NoDaemon: if no daemon listens there.
    :raises Refused: if there is no such stream, a key is wrong, or there are too many views.
    """
    return View(socket_path(socket), stream, keys, reconnect)


class View:
    """A view that is followed: an open connection, and the ring that the daemon sent over it.

    One thread at a time reads (:meth:`read`, :meth:`borrow`, iteration, :meth:`close`); any thread may steer
    (:meth:`look`, :meth:`attend`, :meth:`attend_tokens`, :meth:`release`) meanwhile. Frames that were read may go
    anywhere. A view belongs to the process that opened it: open it in each worker, not before a fork.
    """

    def __init__(self, path: str, address: str, own: Mapping[str, Any] | None, reconnect: bool) -> None:
        """For :func:`open` and :func:`open_view`. With ``own``, ``address`` is the stream that a view is made on."""
        self._path = path
        self._address = address
        self._own = own
        self._fork_count = _fork_count
        self._is_closed = False
        self._steering = Steering(path, address)
        try:
            self._subscription = Subscription(self._subscribe, reconnect)
        except BaseException as error:
            self._steering.close()
            if isinstance(error, HungUp):
                raise Ended(address, GONE, hung_up=True) from None
            raise

    def __repr__(self) -> str:
        return f"<foveate.View {self.name}{' (closed)' if self._is_closed else ''}>"

    def __enter__(self) -> View:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription, the lease, and a view of one's own. Frames that were read stay. Borrowed arrays that are
        still in use stay readable, with whatever the writer puts there."""
        self._is_closed = True
        self._subscription.close()
        self._steering.close()

    @property
    def name(self) -> str:
        """The view's address, such as ``"front/policy"``."""
        return self._subscription.view

    @property
    def info(self) -> SegmentInfo | None:
        """What the segment in use says of itself; None before the first. :attr:`Frame.info` is that of a frame."""
        ring = self._subscription.ring
        return None if ring is None else ring.info

    @property
    def state(self) -> tuple[str, str]:
        """What the view is doing, ``"starting"``, ``"live"``, ``"stalled"`` or ``"ended"``, and why, in words."""
        return self._subscription.state

    @property
    def subscription(self) -> Subscription:
        """What the view reads from, for readers of several views.

        :raises FoveateError: if the view was closed, or belongs to another process.
        """
        self._check_usable()
        return self._subscription

    def fileno(self) -> int:
        """A descriptor for select, poll and asyncio: readable when there is news.

        Then call ``read(timeout=0)`` until it raises :class:`TimedOut`. It may be readable without a frame to read.
        With ``reconnect`` it is another one after each reconnection.

        :raises Ended: while there is no daemon.
        """
        descriptor = self.subscription.fileno()
        if descriptor is None:
            raise Ended(self.name, GONE, hung_up=True)
        return descriptor

    def read(
        self,
        timeout: float | None = 1.0,
        newest: bool = True,
        max_age: float | None = None,
        at: int | None = None,
    ) -> Frame:
        """Waits for a frame that was not read before, and returns a copy of it that was checked to be whole.

        :param timeout: how long to wait, in seconds; 0 does not wait, None waits until there is a frame or the end.
        :param newest: whether to pass over all but the newest frame; otherwise the oldest that is still in the ring.
        :param max_age: pass over frames that were taken longer ago, in seconds.
        :param at: the frame whose ``capture_ns`` is nearest to this instead (CLOCK_MONOTONIC, in ns), of those that are
            in the ring, read before or not. It waits only while there is none at all.
        :raises TimedOut: if there is none in time.
        :raises Ended: if the view publishes no more, or the daemon is gone, and every frame was read.
        :raises Lapped: if the writer replaced each frame while it was copied: this process gets too little time.
        """
        if at is not None:
            if max_age is not None:
                raise ValueError("`at` and `max_age` exclude each other: look at the frame's `capture_ns`")
            return self._nearest(at, timeout)
        read = Ring.read_newest if newest else Ring.read_next
        return self._next(timeout, max_age, read)

    @contextmanager
    def borrow(self, timeout: float | None = 1.0, max_age: float | None = None) -> Iterator[Frame]:
        """Waits for the newest frame, and lends it with its texels in place, for a ``with`` block.

        What was made from it counts only once the block has ended without :class:`Lapped`: the writer does not know of
        it, and comes round to it after ``slots`` - 1 further frames. ``frame.pixels`` is read-only, and ends with the
        block; do not keep arrays of it.

        :param timeout: as :meth:`read`.
        :param max_age: as :meth:`read`.
        :raises Lapped: at the end of the block, if the writer replaced the frame; also in place of an exception of the
            block, which may come from that.
        :raises TimedOut: as :meth:`read`, as is :class:`Ended`.
        """
        frame = self._next(timeout, max_age, Ring.borrow_newest)
        try:
            yield frame
        except Exception:
            frame._give_back()
            raise
        except BaseException:
            # An interrupt must not turn into something else.
            frame._end()
            raise
        frame._give_back()

    def __iter__(self) -> Iterator[Frame]:
        """The newest frames, one after the other, for as long as the stream lasts.

        :raises Ended: if the daemon is gone; the end of the stream just ends it.
        """
        while True:
            try:
                frame = self.read(timeout=None)
            except Ended as ended:
                if ended.hung_up:
                    raise
                return
            yield frame

    def look(
        self,
        x: float,
        y: float,
        *,
        normalised: bool = False,
        for_ms: int | None = None,
        frame: Frame | int | None = None,
        wait: bool = False,
    ) -> Looking:
        """Makes the view look at a point, from the very next frame on.

        :param x: pixels right of the source's left edge; with ``normalised`` a share of its width, 0 to 1.
        :param y: pixels below the source's top edge; with ``normalised`` a share of its height.
        :param for_ms: how long, in ms of the stream's time; None until something else is said.
        :param frame: the frame that was looked at, or its ``frame_seq``; None for the newest.
        :param wait: whether to wait until a frame was looked at so: then the answer has the fixation.
        :raises Refused: if another client steers the view (``held``), or for another reason.
        :raises Ended: if the daemon is gone.
        """
        fields = _given(
            normalised=normalised,
            for_ms=None if for_ms is None else int(for_ms),
            frame=_frame_seq(frame),
            wait=wait,
        )
        return looking(self._steer("look", x=float(x), y=float(y), **fields))

    def attend(
        self,
        weights: Any,
        *,
        box: Sequence[float] | None = None,
        frame: Frame | int | None = None,
        wait: bool = False,
    ) -> Looking:
        """Makes the view look where an attention map has its peak, from the next decision on.

        :param weights: [rows, columns], each 1 to 128, of an array or a tensor; not negative, of any scale. float32,
            float16 and uint8 are sent as they are, others as float32.
        :param box: what the map lies over, (x0, y0, x1, y1) in source pixels, also beyond the image where the model's
            input was letterboxed; None for the image.
        :param frame: the frame that it was computed on, or its ``frame_seq``; None for the newest.
        :param wait: whether to wait until it was decided upon: then the answer has the fixation.
        :raises Refused: as :meth:`look`; also ``policy``, if the view's policy is not ``"feedback"``.
        :raises Ended: if the daemon is gone.
        """
        numbers, dtype = _numbers(weights, "an attention map", 2)
        region = None if box is None else [float(edge) for edge in box]
        fields = _given(box=region, frame=_frame_seq(frame), wait=wait)
        shape = list(numbers.shape)
        return looking(self._steer("attend", numbers.tobytes(), shape=shape, dtype=dtype, **fields))

    def attend_tokens(self, frame: Frame | int, scores: Any, *, wait: bool = False) -> Looking:
        """Makes the view look where the tokens of a frame have the highest score, from the next decision on.

        :param frame: the frame whose tokens were scored, or its ``frame_seq``; one of the last 64.
        :param scores: one for each token, in the order of the frame, [N] or more: what comes behind them is padding.
        :param wait: as :meth:`attend`.
        :raises Refused: as :meth:`attend`.
        :raises Ended: if the daemon is gone.
        """
        numbers, dtype = _numbers(scores, "the scores of tokens", 1)
        fields = _given(frame=_frame_seq(frame), dtype=dtype, wait=wait)
        return looking(self._steer("attend_tokens", numbers.tobytes(), **fields))

    def release(self) -> None:
        """Lets the view look where its policy says, and other clients steer it.

        :raises Refused: if the daemon says no.
        :raises Ended: if the daemon is gone.
        """
        self._steer("release")

    def _next(self, timeout: float | None, max_age: float | None, read: Callable[[Ring], Frame | None]) -> Frame:
        """Waits until ``read`` makes a frame of a ring; frames come before an end, and before a new segment."""
        subscription = self.subscription
        what = "that was not read before" + ("" if max_age is None else f" and is at most {max_age:g} s old")
        return self._awaited(timeout, what, lambda: subscription.poll(lambda ring: _fresh(read, ring, max_age)))

    def _nearest(self, capture_ns: int, timeout: float | None) -> Frame:
        """Waits until there is a frame, and copies the one nearest to ``capture_ns``."""
        subscription = self.subscription

        def nearest() -> Frame | None:
            newest_ns = subscription.poll_newest(Ring.newest_capture_ns)
            if newest_ns is None or newest_ns < capture_ns:
                # What is asked for will not come.
                subscription.check_end()
            return subscription.poll_newest(lambda ring: ring.read_nearest(capture_ns))

        return self._awaited(timeout, "at all", nearest)

    def _awaited(self, timeout: float | None, what: str, look: Callable[[], Frame | None]) -> Frame:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            frame = look()
            if frame is not None:
                return frame
            if not self._subscription.wait(deadline):
                state, reason = self.state
                because = f"{state}, {reason}" if reason else f"the stream is {state}"
                raise TimedOut(f"no frame of {self.name} {what} within {timeout:g} s: {because}")

    def _subscribe(self) -> tuple[str, Connection]:
        """Connects and subscribes, to a new view if it is to be one's own."""
        if self._own is not None:
            self._steering.make_view(self._address, self._own)
        view = self._steering.view
        events = Connection(self._path)
        try:
            events.subscribe(view)
        except BaseException:
            events.close()
            raise
        return view, events

    def _steer(self, op: str, payload: bytes | None = None, **fields: Any) -> dict[str, Any]:
        self._check_usable()
        return self._steering.ask(op, payload, fields)

    def _check_usable(self) -> None:
        if self._is_closed:
            raise FoveateError(f"{self.name} was closed: open it again")
        if self._fork_count != _fork_count:
            raise FoveateError(f"{self.name} was opened by another process: open it in the one that reads it")


def _fresh(read: Callable[[Ring], Frame | None], ring: Ring, max_age: float | None) -> Frame | None:
    """The next frame that is young enough."""
    while True:
        frame = read(ring)
        if frame is None or max_age is None or frame.age_ns <= max_age * 1e9:
            return frame
        ring.pass_over(frame)


def _numbers(array: Any, what: str, ndim: int) -> tuple[NDArray[Any], str]:
    """The numbers as they are sent, and the name of their format."""
    if hasattr(array, "detach"):
        # A tensor of PyTorch, whose bfloat16 NumPy does not know.
        array = array.detach().cpu()
        array = array.float() if "bfloat16" in str(array.dtype) else array
    numbers = np.asarray(array)
    if numbers.ndim != ndim:
        raise ValueError(f"{what} has {ndim} axes, not {numbers.ndim}: its shape is {numbers.shape}")
    names = {"float32": "f32", "float16": "f16", "uint8": "u8"}
    name = names.get(numbers.dtype.name)
    if name is None:
        numbers, name = numbers.astype(np.float32), "f32"
    return np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")), name


def _frame_seq(frame: Frame | int | None) -> int | None:
    if frame is None:
        return None
    return frame.frame_seq if isinstance(frame, Frame) else int(frame)


def _given(wait: bool, normalised: bool = False, **fields: Any) -> dict[str, Any]:
    """The fields that are not left to the daemon: those that are not None, and flags that are set."""
    flags = {"wait": wait, "normalised": normalised}
    given = {name: value for name, value in fields.items() if value is not None}
    return {**given, **{name: True for name, is_set in flags.items() if is_set}}
