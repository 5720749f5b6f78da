"""A consumer that steers views of a running daemon, frame by frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from common import ROOT, TOOL, Scene, cached, configuration

sys.path.insert(0, str(ROOT / "scripts" / "bench"))

from daemon import Daemon  # noqa: E402: the path comes first

#: Frames of a scene by their names: records and texels [N, 3, P, P].
Shown = dict[Any, tuple[Any, Any]]


def _cached(name: str, key: Any, names: list[Any], show: Callable[[], Shown]) -> Shown:
    """Frames that a daemon shows only once for each `key`."""

    def make() -> dict[str, Any]:
        arrays = {}
        for at, (tokens, pixels) in show().items():
            arrays[f"{at}:tokens"], arrays[f"{at}:pixels"] = tokens, pixels
        return arrays

    arrays = cached(name, [key, TOOL.with_name("foveated").stat().st_mtime_ns], make)
    return {at: (arrays[f"{at}:tokens"], arrays[f"{at}:pixels"]) for at in names}


def steered(
    source: Scene, views: dict[str, dict[str, Any]], steer: Callable[[str, int], Any], key: Any
) -> dict[str, dict[int, tuple[Any, Any]]]:
    """Plays a scene in real time; in each view `steer(name, index)` is sent once frame `index` has been read: a map, a list
    of points to look at, or None.

    The last frame before each measured one is what the consumer has seen: what it sends then steers the measured frame.

    :param key: what `steer` depends on, for the cache.
    :returns: of each view, of each measured frame: records and texels [N, 3, P, P].
    """

    def show() -> Shown:
        with Daemon(TOOL.parent, configuration(source.pipeline(is_live=True), views)) as daemon:
            return _follow(source, {name: daemon.open(f"scene/{name}") for name in views}, steer)

    names = [(name, index) for name in views for index in source.measured]
    shown = _cached("steered", [source.name, views, key], names, show)
    return {name: {index: shown[name, index] for index in source.measured} for name in views}


def _follow(source: Scene, opened: dict[str, Any], steer: Callable[[str, int], Any]) -> Shown:
    shown: Shown = {}
    index = -1
    while index < source.measured[-1]:
        frames = {name: view.read(timeout=5) for name, view in opened.items()}
        index = max(frame.frame_seq for frame in frames.values()) - 1
        # Views are opened one after another.
        for name, view in opened.items():
            while frames[name].frame_seq <= index:
                frames[name] = view.read(timeout=5)
        for name, frame in frames.items():
            wanted = steer(name, index)
            if isinstance(wanted, list):
                opened[name].look_at(wanted)
            elif wanted is not None:
                opened[name].attend(wanted, frame=frame)
            if index in source.measured:
                shown[name, index] = frame.tokens, frame.pixels
    return shown


class Look(NamedTuple):
    """What a consumer asks a view for: to look at a point, at a box around it, or at the peaks of a map."""

    point: tuple[float, float] | None = None
    box: tuple[float, float, float, float] | None = None
    weights: Any = None

    def send(self, view: Any, frame: Any) -> None:
        """Asks for it."""
        if self.weights is not None:
            view.attend(self.weights, frame=frame)
        elif self.box is not None:
            view.look(box=self.box, for_ms=60_000)
        else:
            view.look_at([self.point], for_ms=60_000)


#: Frames after a request until its tokens are taken: a map waits for the next decision.
SETTLED = 3


def looked(source: Scene, keys: dict[str, Any], looks: list[Look]) -> list[tuple[Any, Any]]:
    """Records and texels [N, 3, P, P] of a still scene once a consumer has asked for each of `looks`, one after another."""
    asked = [[look.point, look.box, None if look.weights is None else look.weights.tolist()] for look in looks]

    def show() -> Shown:
        shown: Shown = {}
        with Daemon(TOOL.parent, configuration(source.still_pipeline(), {"view": keys})) as daemon:
            view = daemon.open("scene/view")
            for number, look in enumerate(looks):
                look.send(view, view.read(timeout=20))
                for _ in range(SETTLED):
                    frame = view.read(timeout=20)
                shown[number] = frame.tokens, frame.pixels
        return shown

    return list(_cached("looked", [source.name, keys, asked], list(range(len(looks))), show).values())
