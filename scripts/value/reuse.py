"""Tokens whose bytes are those of the frame before, by threshold of change: what a consumer need not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import CACHE, WARM_UP, Extracted, Scene, Table, clip_frames, extract, made_scene, scene

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


def clip_scene(name: str) -> Scene:
    """The beginning of a clip, at ten frames a second."""
    folder, size = CLIPS[name]
    return made_scene(name, lambda: clip_frames(folder / name)[:FRAMES], size, [])


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


def by_clip(name: str) -> dict[str, str]:
    """Tokens that may be reused, and those that stay where they are, at one threshold."""
    cells = {}
    for label, view in views_of(clip_scene(name), THRESHOLD).items():
        reusable, stayed = shared(view, [*PLACE, "changed_frame"])[0], shared(view, PLACE)[0]
        cells[label] = f"{reusable.mean():.2f} ({stayed.mean():.2f})"
    return cells


def by_threshold(threshold: Any) -> dict[str, float]:
    """The same of `vtest.avi` with a threshold, and at saccades."""
    cells = {}
    for label, view in views_of(scene("square"), threshold).items():
        reusable, moved = shared(view, [*PLACE, "changed_frame"])
        cells[label] = float(reusable.mean())
        if moved.any() and not moved.all():
            cells[f"{label}, at a saccade"] = float(reusable[moved].mean())
    return cells


def main() -> None:
    head = f"tokens of a frame that may be reused, threshold {THRESHOLD} (at the same place)"
    print(Table([head, *CLIPS]).columns([by_clip(name) for name in CLIPS]), end="\n\n")
    head = ["`vtest.avi`", *(f"threshold {threshold}" for threshold in THRESHOLDS)]
    print(Table(head).columns([by_threshold(threshold) for threshold in THRESHOLDS]))


if __name__ == "__main__":
    main()
