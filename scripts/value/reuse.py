"""Tokens whose bytes are those of the frame before, which a consumer need not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import CACHE, WARM_UP, Scene, Table, clip_frames, made_scene
from product import BEFORE, CANVAS, DEFAULT, Extracted, extract

THRESHOLD = 8
VIEWS: dict[str, dict[str, Any]] = {"default settings": DEFAULT, "a view with a canvas": CANVAS}
PLACE = ["x", "y", "sx", "sy", "extra_width", "extra_height"]
#: Clips: the file, and width and height.
CLIPS = {
    "vtest.avi": (CACHE.parent / "vtest.avi", (768, 576)),
    "box.mp4": (CACHE.parent / "box.mp4", (640, 480)),
    "bikes.mp4": (CACHE / "clips" / "bikes.mp4", (640, 272)),
}
FRAMES = 240


def clip_scene(name: str) -> Scene:
    """The beginning of a clip, at ten frames a second."""
    path, size = CLIPS[name]
    return made_scene(name, lambda: clip_frames(path)[:FRAMES], size)


def shared(view: Extracted, fields: list[str]) -> float:
    """Of the tokens of a frame after the warm-up, the mean share that the frame before had with the same `fields`."""
    shares = []
    for index in range(WARM_UP, len(view.frames)):
        before, now = ({tuple(row) for row in view.frame(at)[0][fields].tolist()} for at in (index - 1, index))
        shares.append(len(before & now) / len(now))
    return float(np.mean(shares))


def by_clip(name: str) -> dict[str, str]:
    """Kept tokens, and those in place, at one threshold."""
    views = extract(clip_scene(name), VIEWS, THRESHOLD)
    if BEFORE is not None:
        views |= extract(clip_scene(name), {"the default before": {}}, THRESHOLD, BEFORE)
    return {
        label: f"{shared(view, [*PLACE, 'changed_frame']):.2f} ({shared(view, PLACE):.2f})"
        for label, view in views.items()
    }


def main() -> None:
    head = f"kept tokens of a frame, threshold {THRESHOLD} (in place)"
    print(Table([head, *CLIPS]).columns([by_clip(name) for name in CLIPS]))


if __name__ == "__main__":
    main()
