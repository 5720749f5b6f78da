"""Several views together: frames that were captured at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

from .control import ANSWER_TIMEOUT_S, Path, deadline_in
from .errors import TimedOut
from .frame import Frame
from .ring import Ring
from .subscription import wait_for_any
from .view import View, ViewCore, open

V = TypeVar("V", bound=ViewCore)


@dataclass(frozen=True, eq=False)
class FrameSet:
    """One frame of each view, captured together."""

    #: In the order of the views.
    frames: tuple[Frame, ...]

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def __getitem__(self, key: int | str) -> Frame:
        """The frame of a view, by its index or its address."""
        if isinstance(key, int):
            return self.frames[key]
        for frame in self.frames:
            if frame.view == key:
                return frame
        raise KeyError(key)

    @property
    def spread_ns(self) -> int:
        """From the first capture to the last, in ns."""
        captures = [frame.capture_ns for frame in self.frames]
        return max(captures) - min(captures)


class _Candidate(NamedTuple):
    """A frame in a ring."""

    capture_ns: int
    ring_sequence: int
    epoch: int

    def copied(self, ring: Ring) -> Frame | None:
        """A copy of it, if it is still in the ring."""
        return ring.copy(self.ring_sequence) if ring.info.epoch == self.epoch else None


def open_many(
    views: Sequence[str],
    socket: Path | None = None,
    *,
    reconnect: bool = False,
    timeout: float | None = ANSWER_TIMEOUT_S,
) -> Views:
    """Opens several views of one daemon, to read frames that were captured together.

    :param views: their addresses, such as ``["left/robot", "right/robot"]``, each once.
    :param socket: as for :func:`foveate.open`.
    :param reconnect: as for :func:`foveate.open`.
    :param timeout: as for :func:`foveate.open`, for all of them together.
    :raises NoDaemon: as :func:`foveate.open`, as is :class:`Refused`.
    """
    check_names(views)
    opened: list[View] = []
    deadline = deadline_in(timeout)
    try:
        for view in views:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            opened.append(open(view, socket, reconnect=reconnect, timeout=left))
    except BaseException:
        for view_opened in opened:
            view_opened.close()
        raise
    return Views(opened)


class ViewsCore(Generic[V]):
    """What sets of views are for threads and for tasks: the newest frames in their rings that match. Waits nowhere."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} have connections to the daemon, and cannot be pickled: "
            "open them in each process, or pickle their frames"
        )

    def __init__(self, views: Sequence[V]) -> None:
        """The views are closed with it, and must not be read beside it."""
        self._views = list(views)
        #: For each view, epoch and ring sequence of the frame of the last set.
        self._given: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[V]:
        """The views, to steer them."""
        return iter(self._views)

    def __getitem__(self, key: int | str) -> V:
        """A view, by its index or its address."""
        if isinstance(key, int):
            return self._views[key]
        for view in self._views:
            if view.name == key:
                return view
        raise KeyError(key)

    def close(self) -> None:
        """Closes all views."""
        for view in self._views:
            view.close()

    def _matched(self, slop_ms: float) -> FrameSet | None:
        """The newest set in the rings, or None."""
        chosen = _newest_within(int(slop_ms * 1e6), [self._candidates(view) for view in self._views])
        frames = [
            view.subscription.poll_newest(candidate.copied) for view, candidate in zip(self._views, chosen, strict=False)
        ]
        whole = [frame for frame in frames if frame is not None]
        if len(whole) < len(self._views):
            # There is none, or a frame of it was replaced meanwhile: then the next attempt finds newer ones.
            for view in self._views:
                view.subscription.check_end()
            return None
        self._given = {frame.view: (frame.epoch, frame.ring_sequence) for frame in whole}
        return FrameSet(tuple(whole))

    def _candidates(self, view: V) -> list[_Candidate]:
        """The frames of a view that were not returned yet, oldest first."""

        def captures(ring: Ring) -> list[_Candidate]:
            epoch, last = self._given.get(view.name, (0, 0))
            last = last if epoch == ring.info.epoch else 0
            return [_Candidate(*capture, ring.info.epoch) for capture in ring.captures() if last < capture[1]]

        return view.subscription.poll_newest(captures) or []

    def _late(self, slop_ms: float, timeout: float | None) -> TimedOut:
        """The error that names the late views."""
        newest = {view.name: view.subscription.poll_newest(Ring.newest_capture_ns) for view in self._views}
        known = [capture for capture in newest.values() if capture is not None]
        latest = max(known, default=0)
        behind = {name: None if capture is None else latest - capture for name, capture in newest.items()}
        late = [name for name, ns in behind.items() if ns is None or slop_ms * 1e6 < ns]
        what = [
            f"{name} has no frame" if behind[name] is None else f"{name} is {(behind[name] or 0) / 1e6:.1f} ms behind"
            for name in late
        ]
        because = ", ".join(what) or "none is late, but no new frames were captured so close to each other"
        return TimedOut(f"no frames within {slop_ms:g} ms of each other in {timeout:g} s: {because}", late)


class Views(ViewsCore[View]):
    """Several views that are read together. The rules on threads are those of :class:`View`."""

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self, slop_ms: float = 20.0, timeout: float | None = 1.0) -> FrameSet:
        """Waits for a frame of each view such that all were captured within ``slop_ms``, and copies the newest such
        set. No frame is returned twice.

        :param slop_ms: longest time between the first capture and the last, in ms.
        :param timeout: how long to wait, in seconds; None waits for ever.
        :raises TimedOut: if there is no such set in time. Its ``late`` and its text name the views whose newest frame was
            captured too long before that of the others.
        :raises Ended: if one of the views has ended.
        """
        deadline = deadline_in(timeout)
        while True:
            matched = self._matched(slop_ms)
            if matched is not None:
                return matched
            if not wait_for_any([view.subscription for view in self._views], deadline):
                raise self._late(slop_ms, timeout)


def check_names(views: Sequence[str]) -> None:
    """
    :raises ValueError: unless there are views, each once.
    """
    if not views or len(set(views)) != len(views):
        raise ValueError(f"invalid views {list(views)} (expected at least one, each once)")


def _newest_within(slop_ns: int, candidates: Sequence[Sequence[_Candidate]]) -> list[_Candidate]:
    """One candidate of each view, all within ``slop_ns``, the last of them as late as possible, and the others as close
    to it as possible; nothing if there are none."""
    for last_ns in sorted({item.capture_ns for items in candidates for item in items}, reverse=True):
        chosen = [max((item for item in items if item.capture_ns <= last_ns), default=None) for items in candidates]
        whole = [item for item in chosen if item is not None]
        if len(whole) < len(candidates):
            return []
        if last_ns - min(item.capture_ns for item in whole) <= slop_ns:
            return whole
    return []
