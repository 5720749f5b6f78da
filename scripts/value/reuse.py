"""Tokens whose bytes are those of the frame before, by threshold of change: what a consumer need not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import WARM_UP, Extracted, extract, scene
from table import Table

THRESHOLDS: tuple[Any, ...] = (4, 8, 16, "auto")
GAZES: dict[str, dict[str, Any]] = {"fixed": {"policy": "fixed"}, "saliency": {"policy": "saliency"}}
PLACE = ["x", "y", "sx", "sy", "extra_width", "extra_height"]


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


def main() -> None:
    source = scene("square")
    views = {name: {"gaze": gaze} for name, gaze in GAZES.items()}
    table = Table(["tokens of a frame that may be reused", *(f"threshold {threshold}" for threshold in THRESHOLDS)])
    rows: dict[str, list[float]] = {}
    for threshold in THRESHOLDS:
        folders = extract(source, views, threshold)
        for name in GAZES:
            view = Extracted(folders[name])
            (reusable, moved), (stayed, _) = shared(view, [*PLACE, "changed_frame"]), shared(view, PLACE)
            figures = {"": reusable}
            if moved.any():
                figures.update(
                    {
                        f", between saccades ({(~moved).mean():.0%} of the frames)": reusable[~moved],
                        ", at a saccade": reusable[moved],
                        ", between saccades: at the same place, changed or not": stayed[~moved],
                        ", at a saccade: at the same place, changed or not": stayed[moved],
                    }
                )
            for what, values in figures.items():
                rows.setdefault(f"gaze: {name}{what}", []).append(float(values.mean()))
    for label, cells in rows.items():
        table.row(label, cells)
    print(table)


if __name__ == "__main__":
    main()
