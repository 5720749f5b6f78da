"""Tokens whose bytes are those of the frame before, by threshold of change: what a consumer need not compute again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import CACHE, WARM_UP, Extracted, Scene, clip_frames, extract, made_scene, scene
from table import Table

THRESHOLDS: tuple[Any, ...] = (0, 4, 8, 16, "auto")
#: Where the figures of several clips are compared.
THRESHOLD = 8
VIEWS: dict[str, dict[str, Any]] = {
    "default settings": {},
    "default layout, `saliency`": {"gaze": {"policy": "saliency"}},
    "default layout, `fixed` at the centre": {"gaze": {"policy": "fixed"}},
    "`foveal`, `saliency`": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "`foveal`, `fixed` at the centre": {"layout": "foveal", "gaze": {"policy": "fixed"}},
    "`uniform`": {"layout": "uniform", "gaze": {"policy": "fixed"}},
}
PLACE = ["x", "y", "sx", "sy", "extra_width", "extra_height"]
#: Clips: the folder of the cache, the file, and width and height.
CLIPS = {
    "vtest.avi": (CACHE.parent, (768, 576)),
    "box.mp4": (CACHE.parent, (640, 480)),
    "bikes.mp4": (CACHE / "clips", (640, 272)),
}
FRAMES = 240


def _frames(name: str) -> Iterator[Any]:
    yield from clip_frames(CLIPS[name][0] / name)[:FRAMES]


def clip_scene(name: str) -> Scene:
    """The beginning of a clip, at ten frames a second."""
    return made_scene(name, partial(_frames, name), CLIPS[name][1], [])


def shared(view: Extracted, fields: list[str]) -> tuple[Any, Any]:
    """Of each frame after the warm-up: the share of its tokens that the frame before had with the same `fields`; and whether
    the gaze has moved since then."""
    shares, moved = [], []
    for index in range(WARM_UP, len(view.frames)):
        before, now = ({tuple(row) for row in view.frame(at)[0][fields].tolist()} for at in (index - 1, index))
        shares.append(len(before & now) / len(now))
        moved.append(fixation(view, index) != fixation(view, index - 1))
    return np.array(shares), np.array(moved)


def fixation(view: Extracted, index: int) -> int:
    """The id of the first one."""
    return int(view.frames["fixations"][index][0]["id"])


def views_of(source: Scene, threshold: Any) -> dict[str, Extracted]:
    """The views of a scene by their labels."""
    folders = extract(source, {f"v{number}": keys for number, keys in enumerate(VIEWS.values())}, threshold)
    return {label: Extracted(folder) for label, folder in zip(VIEWS, folders.values())}


def by_clip() -> Table:
    """Tokens that may be reused, and those that stay where they are, at one threshold."""
    table = Table([f"tokens of a frame that may be reused, threshold {THRESHOLD} (at the same place)", *CLIPS])
    rows: dict[str, list[str]] = {label: [] for label in VIEWS}
    for name in CLIPS:
        for label, view in views_of(clip_scene(name), THRESHOLD).items():
            reusable, stayed = shared(view, [*PLACE, "changed_frame"])[0], shared(view, PLACE)[0]
            rows[label].append(f"{reusable.mean():.2f} ({stayed.mean():.2f})")
    for label, cells in rows.items():
        table.row(label, cells)
    return table


def by_threshold() -> Table:
    """The same of `vtest.avi` by threshold, and at saccades."""
    table = Table(["`vtest.avi`", *(f"threshold {threshold}" for threshold in THRESHOLDS)])
    rows: dict[str, list[float]] = {}
    for threshold in THRESHOLDS:
        for label, view in views_of(scene("square"), threshold).items():
            reusable, moved = shared(view, [*PLACE, "changed_frame"])
            rows.setdefault(label, []).append(float(reusable.mean()))
            if moved.any() and not moved.all():
                rows.setdefault(f"{label}, at a saccade", []).append(float(reusable[moved].mean()))
    for label, cells in rows.items():
        table.row(label, cells)
    return table


def main() -> None:
    print(by_clip(), end="\n\n")
    print(by_threshold())


if __name__ == "__main__":
    main()
