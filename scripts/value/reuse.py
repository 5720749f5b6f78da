"""Tokens whose bytes are those of the frame before, by threshold of change: what a consumer need not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import WARM_UP, Extracted, extract, scene
from table import Table

THRESHOLDS: tuple[Any, ...] = (0, 4, 8, 16, "auto")
GAZES: dict[str, dict[str, Any]] = {"fixed": {"policy": "fixed"}, "saliency": {"policy": "saliency"}}
ADDRESS = ["x", "y", "sx", "sy", "changed_frame"]


def reusable(view: Extracted) -> float:
    """Mean share of the tokens of a frame that the frame before had at the same place, with the same `changed_frame`."""
    shares = []
    for index in range(WARM_UP, len(view.frames)):
        before, now = ({tuple(row) for row in view.frame(at)[0][ADDRESS].tolist()} for at in (index - 1, index))
        shares.append(len(before & now) / len(now))
    return float(np.mean(shares))


def main() -> None:
    table = Table(["`camera`, tokens reusable", *(f"threshold {threshold}" for threshold in THRESHOLDS)])
    source = scene("camera")
    views = {name: {"gaze": gaze} for name, gaze in GAZES.items()}
    folders = {threshold: extract(source, views, threshold) for threshold in THRESHOLDS}
    for name in GAZES:
        table.row(f"gaze: {name}", [reusable(Extracted(folders[threshold][name])) for threshold in THRESHOLDS])
    print(table)


if __name__ == "__main__":
    main()
