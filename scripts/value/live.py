"""A consumer that steers views of a running daemon, frame by frame."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import foveate
import numpy as np
from common import CACHE, TOOL, Scene, configuration


def steered(
    source: Scene, views: dict[str, dict[str, Any]], steer: Callable[[str, int], Any], key: Any
) -> dict[str, dict[int, tuple[Any, Any]]]:
    """Plays a scene in real time; in each view `steer(name, index)` is sent once frame `index` has been read: a map, a list
    of points to look at, or None.

    The last frame before each measured one is what the consumer has seen: what it sends then steers the measured frame.

    :param key: what `steer` depends on, for the cache.
    :returns: of each view, of each measured frame: records and texels [N, 3, P, P].
    """
    text = json.dumps([source.name, views, key, TOOL.with_name("foveated").stat().st_mtime_ns], sort_keys=True)
    path = CACHE / "steered" / (hashlib.sha256(text.encode()).hexdigest()[:16] + ".npz")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = _play(source, views, steer)
        np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").rename(path)
    with np.load(path) as arrays:
        return {
            name: {at: (arrays[f"{name}:{at}:tokens"], arrays[f"{name}:{at}:pixels"]) for at in source.measured}
            for name in views
        }


def _play(source: Scene, views: dict[str, dict[str, Any]], steer: Callable[[str, int], Any]) -> dict[str, Any]:
    with running(source.pipeline(is_live=True), views) as socket:
        return _follow(source, list(views), steer, socket)


@contextmanager
def running(pipeline: str, views: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The control socket of a daemon with these views of a stream `scene`."""
    folder = Path(tempfile.mkdtemp(prefix="foveate-value-"))
    socket = folder / "foveate.sock"
    text = configuration(pipeline, views)
    (folder / "live.toml").write_text(f'[daemon]\nsocket = "{socket}"\n' + text)
    daemon = subprocess.Popen(
        [str(TOOL.with_name("foveated")), "--config", str(folder / "live.toml")], stderr=subprocess.DEVNULL
    )
    try:
        yield str(socket)
    finally:
        daemon.terminate()
        daemon.wait(10)
        shutil.rmtree(folder)


def _follow(source: Scene, names: list[str], steer: Callable[[str, int], Any], socket: str) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    opened = {name: _opened(f"scene/{name}", socket) for name in names}
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
                arrays[f"{name}:{index}:tokens"], arrays[f"{name}:{index}:pixels"] = frame.tokens, frame.pixels
    return arrays


def _opened(view: str, socket: str) -> Any:
    """Waits for the daemon."""
    until = time.monotonic() + 10
    while True:
        try:
            return foveate.open(view, socket=socket)
        except (foveate.NoDaemon, foveate.Refused):
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


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
    text = json.dumps([source.name, keys, asked, TOOL.with_name("foveated").stat().st_mtime_ns], sort_keys=True)
    path = CACHE / "looked" / (hashlib.sha256(text.encode()).hexdigest()[:16] + ".npz")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with running(source.still_pipeline(), {"view": keys}) as socket:
            view, arrays = _opened("scene/view", socket), {}
            for number, look in enumerate(looks):
                look.send(view, view.read(timeout=20))
                for _ in range(SETTLED):
                    frame = view.read(timeout=20)
                arrays[f"{number}:tokens"], arrays[f"{number}:pixels"] = frame.tokens, frame.pixels
        np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").rename(path)
    with np.load(path) as kept:
        return [(kept[f"{number}:tokens"], kept[f"{number}:pixels"]) for number in range(len(looks))]
