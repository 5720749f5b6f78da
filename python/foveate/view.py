"""A view: its frames, and where it looks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from . import feedback
from .control import ANSWER_TIMEOUT_S, GONE, Connection, HungUp, Path, deadline_in, socket_path
from .errors import Ended, FoveateError, Refused, TimedOut, Unavailable
from .events import Event
from .frame import Frame
from .ring import Ring
from .segment import SegmentInfo
from .steered import Steered
from .steering import Steering
from .subscription import Connecting, Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import ViewKeys

#: Forks between the process that imported this module and this one.
_fork_count = 0


def _count_fork() -> None:
    global _fork_count
    _fork_count += 1


os.register_at_fork(after_in_child=_count_fork)


def open(
    view: str,
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
    events: bool = False,
) -> View:
    """Opens a view, to read its frames and to steer it.

    :param view: its address, such as ``"front/robot"``; ``foveate ls`` lists them.
    :param socket: the daemon's socket; by default that of :func:`foveate.socket_path`.
    :param reconnect: whether to look for the daemon while it is gone, and to continue when it is back, instead of
        raising :class:`Ended`. A daemon that is not there within ``timeout`` raises nothing either: reads look for it.
        Calls that steer do not wait for it, and raise :class:`Unavailable`.
    :param timeout: how long to wait for the daemon's answer, in seconds; None waits for as long as it takes.
    :param events: whether to be told what happens in the picture, if the stream has ``events = true``:
        :meth:`View.take_events`.
    :raises NoDaemon: if no daemon listens there.
    :raises TimedOut: if it does not answer in time.
    :raises Refused: if there is no such view, or the daemon refuses for another reason.
    :raises Ended: if the daemon goes away meanwhile.
    """
    return View(socket_path(socket), view, None, reconnect, timeout, events)


def open_view(
    stream: str,
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
    **keys: Unpack[ViewKeys],
) -> View:
    """Opens a view of your own on a stream. It lives until it is closed or the process ends.

    ``foveate.open_view("front", budget=128, gaze={"policy": "feedback"})``

    :param stream: the stream to look at.
    :param socket: as for :func:`open`.
    :param reconnect: as for :func:`open`; the view is opened again, and a stream that has not delivered a frame yet is
        waited for like a daemon that is not there.
    :param timeout: as for :func:`open`.
    :param keys: the keys of a ``[[stream.view]]`` of the daemon's configuration, all optional: ``name``, ``layout``,
        ``budget``, ``patch``, ``dtype``, ``normalisation``, ``slots``, ``gaze`` and more.
    :raises NoDaemon: if no daemon listens there.
    :raises TimedOut: if it does not answer in time.
    :raises Refused: if there is no such stream, a key is wrong, or there are too many views.
    """
    return View(socket_path(socket), stream, keys, reconnect, timeout)


class Sought(NamedTuple):
    """A frame that is waited for: what it is, for people, and how to look whether it is there."""

    what: str
    look: Callable[[], Frame | None]


class ViewCore:
    """What views are for threads and for tasks: a subscription and a connection to steer by. Waits nowhere."""

    _kind = "foveate.View"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} has a connection to the daemon, and cannot be pickled: "
            "open it in each process, or pickle its frames"
        )

    def __init__(
        self,
        path: str,
        address: str,
        own: Mapping[str, Any] | None,
        reconnect: bool,
        has_descriptor: bool,
        events: bool = False,
    ) -> None:
        """Of the daemon that listens on ``path``. With ``own``, ``address`` is the stream that a view is made on."""
        self._wants = {"events": True} if events else {}
        self._path = path
        self._address = address
        self._own = own
        self._fork_count = _fork_count
        self._is_closed = False
        self._steering = Steering(path, address)
        self._subscription = Subscription(address, self._connect, reconnect, has_descriptor)

    def __repr__(self) -> str:
        return f"<{self._kind} {self.name}{' (closed)' if self._is_closed else ''}>"

    @property
    def name(self) -> str:
        """The view's address, such as ``"front/robot"``."""
        return self._subscription.view

    @property
    def info(self) -> SegmentInfo | None:
        """The description of the segment in use; None before the first. :attr:`Frame.info` is that of a frame."""
        ring = self._subscription.ring
        return None if ring is None else ring.info

    @property
    def state(self) -> tuple[str, str]:
        """The state of the view, ``"starting"``, ``"live"``, ``"stalled"`` or ``"ended"``, and the reason."""
        return self._subscription.state

    @property
    def subscription(self) -> Subscription:
        """The subscription of the view, for readers of several views.

        :raises FoveateError: if the view was closed, or belongs to another process.
        """
        self._check_usable()
        return self._subscription

    def take_events(self) -> list[Event]:
        """What happened in the picture since the last call, if the view was opened with ``events``. It is received while
        frames are read, from the next frame on: first the states that hold already."""
        return self.subscription.take_events()

    def close(self) -> None:
        """Ends the subscription, the lease, and an opened view."""
        raise NotImplementedError

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Leaves nothing open if the block fails."""
        try:
            yield
        except BaseException as error:
            self._is_closed = True
            self._subscription.close()
            self._steering.hang_up()
            if isinstance(error, HungUp):
                raise Ended(self._address, GONE, hung_up=True) from None
            raise

    def _reading(self, newest: bool, max_age: float | None, at: int | None) -> Sought:
        if at is None:
            return self._unread(max_age, Ring.read_newest if newest else Ring.read_next)
        if max_age is not None:
            raise ValueError("`at` and `max_age` exclude each other: look at the frame's `capture_ns`")
        return self._nearest(at)

    def _unread(self, max_age: float | None, read: Callable[[Ring], Frame | None]) -> Sought:
        """What ``read`` returns; frames come before an end, and before a new segment."""
        if max_age is not None and not 0 <= max_age:
            raise ValueError(f"invalid `max_age`: {max_age:g} (expected seconds, at least 0)")
        subscription = self.subscription
        what = "that was not read before" + ("" if max_age is None else f" and is at most {max_age:g} s old")
        return Sought(what, lambda: subscription.poll(lambda ring: _fresh(read, ring, max_age)))

    def _nearest(self, capture_ns: int) -> Sought:
        """A copy of the frame nearest to ``capture_ns``, once there is one."""
        subscription = self.subscription

        def nearest() -> Frame | None:
            newest_ns = subscription.poll_newest(Ring.newest_capture_ns)
            if newest_ns is None or newest_ns < capture_ns:
                # The requested frame will not come.
                subscription.check_end()
            return subscription.poll_newest(lambda ring: ring.read_nearest(capture_ns))

        return Sought("at all", nearest)

    def _missing(self, sought: Sought, timeout: float | None) -> TimedOut:
        """The error of a frame that does not come within ``timeout``."""
        state, reason = self.state
        because = f"{state}, {reason}" if reason else f"the stream is {state}"
        return TimedOut(f"no frame of {self.name} {sought.what} within {timeout:g} s: {because}")

    def _connect(self) -> Connecting:
        """Connects and subscribes, to a newly opened view if there are keys."""
        if self._own is not None:
            yield from self._steering.make_view(self._address, self._own)
        view = self._steering.view
        events = Connection(self._path)
        try:
            yield from events.asking("subscribe", None, view=view, notify=True, **self._wants)
        except BaseException:
            events.close()
            raise
        return view, events

    @contextmanager
    def _steers(self) -> Iterator[None]:
        """Whatever a restart of the daemon does to a call that steers is :class:`Unavailable` with ``reconnect``, and
        :class:`Ended` without."""
        try:
            yield
        except Ended as gone:
            if not self._subscription.reconnects:
                raise
            raise Unavailable(f"{self.name} cannot be steered now: {gone.reason}") from gone
        except Refused as refused:
            if self._subscription.reconnects and refused.is_transient:
                raise Unavailable(f"{self.name} cannot be steered now: {refused}") from refused
            if refused.reason == "unavailable":
                raise Ended(self.name, refused.error) from refused
            raise

    def _check_usable(self) -> None:
        if self._is_closed:
            raise FoveateError(f"{self.name} was closed: open it again")
        if self._fork_count != _fork_count:
            raise FoveateError(f"{self.name} was opened by another process: open it in the one that reads it")


class View(Steered, ViewCore):
    """A subscribed view: an open connection, and the ring received over it.

    One thread at a time reads (:meth:`read`, :meth:`borrow`, iteration, :meth:`close`); any thread may steer
    (:meth:`look`, :meth:`attend`, :meth:`inject`, :meth:`release` and the like) meanwhile. Frames that were read may be
    used anywhere. A view belongs to the process that opened it: open it in each worker, not before a fork.
    """

    def __init__(
        self,
        path: str,
        address: str,
        own: Mapping[str, Any] | None,
        reconnect: bool,
        timeout: float | None,
        events: bool = False,
    ) -> None:
        """For :func:`open` and :func:`open_view`. With ``own``, ``address`` is the stream that a view is made on."""
        super().__init__(path, address, own, reconnect, has_descriptor=False, events=events)
        with self._opening():
            self._subscription.open(timeout)

    def __enter__(self) -> View:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription, the lease, and an opened view. Frames that were read stay valid. Borrowed arrays still
        in use stay readable, with whatever the writer puts there."""
        self._is_closed = True
        self._subscription.close()
        self._steering.close()

    def fileno(self) -> int:
        """A descriptor for select, poll and asyncio: readable when there are events.

        Then call ``read(timeout=0)`` until it raises :class:`TimedOut`. It may be readable without a frame to read.
        With ``reconnect`` it stays the same until :meth:`close`, and is also readable when a read should look for the
        daemon.

        :raises Ended: without ``reconnect``, once the daemon is gone.
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
        """Waits for an unread frame, and returns a checked copy of it.

        :param timeout: how long to wait, in seconds; 0 does not wait, None waits until there is a frame or the end.
        :param newest: whether to skip all but the newest frame; otherwise the oldest still in the ring is read.
        :param max_age: skip frames captured longer ago than this, in seconds.
        :param at: the frame whose ``capture_ns`` is nearest to this instead (CLOCK_MONOTONIC, in ns), of those that are
            in the ring, read before or not. It waits only while the ring is empty.
        :raises TimedOut: if there is none in time.
        :raises Ended: if the view has ended or the daemon is gone, and every frame was read.
        :raises Lapped: if the writer replaced each frame during its copy: this process gets too little CPU time.
        """
        return self._awaited(self._reading(newest, max_age, at), timeout)

    @contextmanager
    def borrow(self, timeout: float | None = 1.0, max_age: float | None = None) -> Iterator[Frame]:
        """Waits for the newest frame, and borrows it with its planes in place, for a ``with`` block.

        Results are valid only if the block ends without :class:`Lapped`: the writer does not know of the borrow, and
        overwrites the frame after ``slots`` - 1 further ones. ``frame.pixels`` is read-only, and ends with the block;
        do not keep arrays of it.

        :param timeout: as :meth:`read`.
        :param max_age: as :meth:`read`.
        :raises Lapped: at the end of the block, if the writer replaced the frame; also in place of an exception of the
            block, which may come from that.
        :raises TimedOut: as :meth:`read`, as is :class:`Ended`.
        """
        with lent(self._awaited(self._unread(max_age, Ring.borrow_newest), timeout)) as frame:
            yield frame

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

    def _awaited(self, sought: Sought, timeout: float | None) -> Frame:
        deadline = deadline_in(timeout)
        while True:
            frame = sought.look()
            if frame is not None:
                return frame
            if not self._subscription.wait(deadline):
                raise self._missing(sought, timeout)

    def _ask(self, message: feedback.Feedback, timeout: float | None) -> dict[str, Any]:
        self._check_usable()
        with self._steers():
            return self._steering.ask(message.op, message.payload, timeout, message.fields)


@contextmanager
def lent(frame: Frame) -> Iterator[Frame]:
    """Takes a borrowed frame back at the end of the block.

    :raises Lapped: if the writer replaced it, also in place of an exception of the block, which may come from that.
    """
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


def _fresh(read: Callable[[Ring], Frame | None], ring: Ring, max_age: float | None) -> Frame | None:
    """The next frame that is new enough."""
    while True:
        frame = read(ring)
        if frame is None or max_age is None or frame.age_ns <= max_age * 1e9:
            return frame
        ring.pass_over(frame)
