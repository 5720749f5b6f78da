"""A consumer that steers views of a running daemon, frame by frame."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

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
    folder = Path(tempfile.mkdtemp(prefix="foveate-value-"))
    socket = folder / "foveate.sock"
    text = configuration(source.pipeline(is_live=True), views)
    (folder / "live.toml").write_text(f'[daemon]\nsocket = "{socket}"\n' + text)
    daemon = subprocess.Popen(
        [str(TOOL.with_name("foveated")), "--config", str(folder / "live.toml")], stderr=subprocess.DEVNULL
    )
    try:
        return _follow(source, list(views), steer, str(socket))
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
