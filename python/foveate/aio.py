"""Views for asyncio: what :mod:`foveate` does by waiting in a thread, as coroutines.

    import foveate.aio

    async def follow():
        async with foveate.aio.open("front/robot", reconnect=True) as view:
            async for frame in view:
                print(frame.frame_seq, frame.pixels.shape)
                await view.look(320, 240)

There are no threads behind it: the loop watches the sockets of a view while a task waits for them (``add_reader``).
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import feedback
from .control import (
    ANSWER_TIMEOUT_S,
    ListedView,
    Looking,
    Path,
    Steps,
    deadline_in,
    injected,
    listing,
    looking,
    silent,
    socket_path,
)
from .errors import Ended, TimedOut
from .frame import Frame
from .many import FrameSet, ViewsCore, check_names
from .ring import Ring
from .view import Sought, ViewCore, lent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from .keys import EgoOptions, FrameOptions, LookOptions, ViewKeys

__all__ = ["Opening", "View", "ViewOpening", "Views", "list_views", "open", "open_many", "open_view"]

T = TypeVar("T")

#: What a task waits for: a descriptor, and ``select.POLLIN`` or ``select.POLLOUT``; None for its turn.
_Place = tuple[int, int] | None


def open(
    view: str,
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
    events: bool = False,
) -> ViewOpening:
    """Opens a view: ``async with foveate.aio.open("front/robot") as view``, ``view = await foveate.aio.open(...)``, or
    ``async for frame in foveate.aio.open(...)``. Parameters and errors are those of :func:`foveate.open`."""
    return ViewOpening(lambda: View(socket_path(socket), view, None, reconnect, events=events)._open(timeout))


def open_view(
    stream: str,
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
    **keys: Unpack[ViewKeys],
) -> ViewOpening:
    """Opens a view of your own on a stream, as :func:`open` opens another. It lives until it is closed or the process
    ends. Parameters and errors are those of :func:`foveate.open_view`."""
    return ViewOpening(lambda: View(socket_path(socket), stream, keys, reconnect)._open(timeout))


async def list_views(socket: Path | None = None, *, timeout: float | None = ANSWER_TIMEOUT_S) -> list[ListedView]:
    """See :func:`foveate.list_views`."""
    deadline, waits = deadline_in(timeout), _Waits()
    return await _driven(listing(socket_path(socket)), lambda place: waits.until(place, timeout, deadline))


def open_many(
    views: Sequence[str],
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
) -> Opening[Views]:
    """Opens several views of one daemon, to read frames that were captured together: ``async with
    foveate.aio.open_many([...]) as views``. Parameters and errors are those of :func:`foveate.open_many`."""
    check_names(views)

    async def opened() -> Views:
        waits, deadline = _Waits(), deadline_in(timeout)
        some: list[View] = []
        try:
            for name in views:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                some.append(await View(socket_path(socket), name, None, reconnect, waits)._open(left))
        except BaseException:
            for view in some:
                view.close()
            raise
        return Views(some, waits)

    return Opening(opened)


Opened = TypeVar("Opened", bound="View | Views")


class Opening(Generic[Opened]):
    """What is about to be opened: to be awaited or entered. Nothing happens before."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        """For :func:`open` and the like."""
        self._opened = opened

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._opened().__await__()

    async def __aenter__(self) -> Opened:
        self._entered = await self._opened()
        return self._entered

    async def __aexit__(self, *exception: object) -> None:
        self._entered.close()


class ViewOpening(Opening["View"]):
    """A view that is about to be opened: to be awaited, entered or iterated."""

    async def __aiter__(self) -> AsyncIterator[Frame]:
        """The frames of the view, which is closed after the last. Where the loop is left before, it is closed by the
        event loop, as any asynchronous generator: use ``async with`` where it must be at once."""
        async with self as view:
            async for frame in view:
                yield frame


class View(ViewCore):
    """A subscribed view for the tasks of one event loop, all of which may use it.

    Frames go to whichever task asks first, each to one; requests are sent one after the other, and each task gets the
    answer to its own. Whatever waits may be cancelled: a read that is cancelled has taken no frame, and the daemon may
    still obey a request whose answer nobody waits for any more. The rules on processes are those of
    :class:`foveate.View`, and so is what is not said here.
    """

    _kind = "foveate.aio.View"

    def __init__(
        self,
        path: str,
        address: str,
        own: Mapping[str, Any] | None,
        reconnect: bool,
        waits: _Waits | None = None,
        events: bool = False,
    ) -> None:
        """For :func:`open` and the like. Views that are waited for together have the same ``waits``."""
        super().__init__(path, address, own, reconnect, has_descriptor=True, events=events)
        self._waits = _Waits() if waits is None else waits
        #: Tasks that steer, in the order in which they came; the first has its request under way.
        self._turns: list[object] = []

    async def _open(self, timeout: float | None) -> View:
        with self._opening():
            deadline = deadline_in(timeout)
            while not self._subscription.advance():
                if not await self._wait(deadline):
                    self._subscription.leave_to_later(timeout)
                    break
        return self

    async def __aenter__(self) -> View:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription, the lease, and an opened view, as :meth:`foveate.View.close`. A task that waits for a
        frame or an answer gets the :class:`FoveateError` of a closed view."""
        self._is_closed = True
        # Before their sockets are gone.
        self._waits.wake_all()
        self._subscription.close()
        self._steering.hang_up()

    async def read(
        self,
        timeout: float | None = 1.0,
        newest: bool = True,
        max_age: float | None = None,
        at: int | None = None,
    ) -> Frame:
        """Waits for an unread frame, and returns a checked copy of it. Parameters and errors are those of
        :meth:`foveate.View.read`. Other tasks get a turn even if there is a frame already."""
        return await self._awaited(self._reading(newest, max_age, at), timeout)

    @asynccontextmanager
    async def borrow(self, timeout: float | None = 1.0, max_age: float | None = None) -> AsyncIterator[Frame]:
        """Waits for the newest frame, and borrows it with its planes in place, for an ``async with`` block. Parameters,
        errors and rules are those of :meth:`foveate.View.borrow`; a block that waits for anything gives the writer the
        time to replace the frame."""
        with lent(await self._awaited(self._unread(max_age, Ring.borrow_newest), timeout)) as frame:
            yield frame

    def __aiter__(self) -> View:
        """The newest frames, one after the other, for as long as the stream lasts.

        :raises Ended: if the daemon is gone; the end of the stream just ends it.
        """
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self.read(timeout=None)
        except Ended as ended:
            if ended.hung_up:
                raise
        raise StopAsyncIteration

    async def look(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        box: Sequence[float] | None = None,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[LookOptions],
    ) -> Looking:
        """See :meth:`foveate.View.look`."""
        return looking(await self._ask(feedback.look(x, y, box, **options), timeout))

    async def look_at(
        self,
        points: Sequence[Sequence[float]],
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[LookOptions],
    ) -> Looking:
        """See :meth:`foveate.View.look_at`."""
        return looking(await self._ask(feedback.look_at(points, **options), timeout))

    async def attend(
        self,
        weights: ArrayLike,
        *,
        box: Sequence[float] | None = None,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[FrameOptions],
    ) -> Looking:
        """See :meth:`foveate.View.attend`."""
        return looking(await self._ask(feedback.attend(weights, box, **options), timeout))

    async def attend_tokens(
        self,
        frame: Frame | int,
        scores: ArrayLike,
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[EgoOptions],
    ) -> Looking:
        """See :meth:`foveate.View.attend_tokens`."""
        return looking(await self._ask(feedback.attend_tokens(frame, scores, **options), timeout))

    async def inject(
        self,
        name: str,
        values: ArrayLike,
        frame: Frame | int | None = None,
        box: Sequence[float] | None = None,
        ttl: float = 1.0,
        *,
        strict: bool = False,
        timeout: float | None = ANSWER_TIMEOUT_S,
    ) -> int | None:
        """See :meth:`foveate.View.inject`."""
        return injected(await self._ask(feedback.inject(name, values, frame, box, ttl, strict), timeout))

    async def weigh(
        self,
        weights: Mapping[str, float] | None = None,
        /,
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **named: float,
    ) -> None:
        """See :meth:`foveate.View.weigh`."""
        await self._ask(feedback.weigh({**(weights or {}), **named}), timeout)

    async def release(self, *, timeout: float | None = ANSWER_TIMEOUT_S) -> None:
        """See :meth:`foveate.View.release`."""
        await self._ask(feedback.RELEASE, timeout)

    async def refresh(self, *, timeout: float | None = ANSWER_TIMEOUT_S) -> None:
        """See :meth:`foveate.View.refresh`."""
        await self._ask(feedback.REFRESH, timeout)

    async def _awaited(self, sought: Sought, timeout: float | None) -> Frame:
        deadline = deadline_in(timeout)
        # A reader that always finds a frame must not keep the loop to itself. Nothing is waited for after a frame was
        # taken, so none is lost to a cancellation.
        await asyncio.sleep(0)
        self._check_usable()
        while True:
            frame = sought.look()
            if frame is not None:
                return frame
            if not await self._wait(deadline):
                raise self._missing(sought, timeout)

    async def _wait(self, deadline: float | None) -> bool:
        return await _wait_for_any([self], self._waits, deadline)

    async def _ask(self, message: feedback.Feedback, timeout: float | None) -> dict[str, Any]:
        self._check_usable()
        deadline = deadline_in(timeout)

        async def until(place: _Place) -> None:
            await self._waits.until(place, timeout, deadline)
            self._check_usable()

        ticket = object()
        self._turns.append(ticket)
        try:
            while self._turns[0] is not ticket:
                await until(None)
            # Free now: in this thread nobody holds it while others have a turn, but for the first in the queue.
            with self._steering.lock, self._steers():
                return await _driven(self._steering.asking(message.op, message.payload, message.fields), until)
        except TimedOut:
            if self._turns[0] is ticket:
                # As in threads: a daemon that answers late is connected to again.
                self._steering.hang_up()
            raise
        finally:
            self._turns.remove(ticket)
            self._waits.wake(None)


class Views(ViewsCore[View]):
    """Several views that are read together. The rules on tasks are those of :class:`View`."""

    def __init__(self, views: Sequence[View], waits: _Waits) -> None:
        """For :func:`open_many`. The views are closed with it, and must not be read beside it."""
        super().__init__(views)
        self._waits = waits

    async def __aenter__(self) -> Views:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    async def read(self, slop_ms: float = 20.0, timeout: float | None = 1.0) -> FrameSet:
        """Waits for a frame of each view such that all were captured within ``slop_ms``, and copies the newest such
        set. Parameters and errors are those of :meth:`foveate.Views.read`."""
        deadline = deadline_in(timeout)
        await asyncio.sleep(0)
        while True:
            matched = self._matched(slop_ms)
            if matched is not None:
                return matched
            if not await _wait_for_any(self._views, self._waits, deadline):
                raise self._late(slop_ms, timeout)


async def _wait_for_any(views: Sequence[View], waits: _Waits, deadline: float | None) -> bool:
    """Waits a moment for events of any view: whether there was time left."""
    left = float("inf") if deadline is None else deadline - time.monotonic()
    if left <= 0:
        return False
    subscriptions = [view.subscription for view in views]
    descriptors = [subscription.fileno() for subscription in subscriptions]
    places = [(descriptor, select.POLLIN) for descriptor in descriptors if descriptor is not None]
    rest = min(subscription.rest_s for subscription in subscriptions)
    # At least a millisecond, the unit of some loops: a rest that is rounded to nothing would be a busy loop.
    await waits.rest(places, max(0.001, min(left, rest)))
    for view in views:
        view._check_usable()
    return True


async def _driven(steps: Steps[T], until: Callable[[_Place], Awaitable[None]]) -> T:
    """The result of ``steps``, which are closed in any case; ``until`` waits for one."""
    try:
        while True:
            connection, events = next(steps)
            await until((connection.fileno(), events))
    except StopIteration as through:
        return through.value
    finally:
        steps.close()


class _Waits:
    """What tasks wait for. Those that wait for the same are woken together, and look for themselves."""

    def __init__(self) -> None:
        self._sleepers: dict[_Place, list[asyncio.Future[None]]] = {}

    async def until(self, place: _Place, timeout: float | None, deadline: float | None) -> None:
        """Waits for ``place``.

        :param timeout: how long it was meant to take, in seconds, for the error.
        :raises TimedOut: if it takes until ``deadline``, or that is over.
        """
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise silent(timeout)
        await self.rest([place], left)

    async def rest(self, places: Sequence[_Place], seconds: float | None) -> None:
        """Waits for any of ``places``, but no longer than this."""
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        alarm = None if seconds is None else loop.call_later(seconds, _wake, sleeper)
        try:
            for place in places:
                self._watch(place, loop).append(sleeper)
            await sleeper
        finally:
            if alarm is not None:
                alarm.cancel()
            for place in places:
                # Others may wait for it by now.
                sleepers = self._sleepers.get(place, [])
                if sleeper in sleepers:
                    sleepers.remove(sleeper)
                    if not sleepers:
                        self._forget(place, loop)

    def wake(self, place: _Place) -> None:
        """Ends what waits for ``place``."""
        sleepers = self._sleepers.get(place)
        if sleepers:
            self._forget(place, sleepers[0].get_loop())
            for sleeper in sleepers:
                _wake(sleeper)

    def wake_all(self) -> None:
        """Ends all that waits."""
        for place in list(self._sleepers):
            self.wake(place)

    def _watch(self, place: _Place, loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[None]]:
        """Those that wait for ``place``."""
        if place not in self._sleepers:
            if place is not None:
                descriptor, events = place
                add = loop.add_reader if events == select.POLLIN else loop.add_writer
                add(descriptor, self.wake, place)
            self._sleepers[place] = []
        return self._sleepers[place]

    def _forget(self, place: _Place, loop: asyncio.AbstractEventLoop) -> None:
        """The loop watches a descriptor only while it is waited for."""
        del self._sleepers[place]
        if place is not None:
            descriptor, events = place
            remove = loop.remove_reader if events == select.POLLIN else loop.remove_writer
            remove(descriptor)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
