"""Text read, of what is read in the full picture: six signs at once, against budget."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from common import ROOT, Extracted, Scene, alike, cached, extract, lines_in, read, scene, shrunk
from foveate.picture import replicated, smoothed
from live import steered
from table import Table

BUDGETS = (96, 160, 273, 512, 1024)
#: Layouts that look at each sign in turn; further ones are more rows here.
AT_A_FIXATION: dict[str, dict[str, Any]] = {"foveal": {}}
#: Sides of the photographs, which lie three in a row.
CELL = (640, 480)


def lines(source: Scene) -> list[tuple[int, Any, str]]:
    """Lines of at least three characters that are read in the full picture: number of the photograph, box, text."""

    def make() -> dict[str, Any]:
        picture = source.picture(source.measured[0])
        found = [(box, read(picture, box)) for box in lines_in(picture)]
        kept = [(box, text) for box, text in found if len(text) >= 3]
        return {"boxes": np.array([box for box, _ in kept]), "texts": np.array([text for _, text in kept])}

    kept = cached("lines", [source.name], make)
    sign = lambda box: int(box[0] // CELL[0] + 3 * (box[1] // CELL[1]))  # noqa: E731
    return [(sign(box), box, str(text)) for box, text in zip(kept["boxes"], kept["texts"])]


def share(source: Scene, picture: Any, sign: int | None = None) -> float:
    """Characters right, of those of one sign or of all."""
    rows = [(box, text) for number, box, text in lines(source) if sign in (None, number)]
    return sum(alike(read(picture, box), text) for box, text in rows) / sum(len(text) for _, text in rows)


def weighted(source: Scene, pictures: dict[int, Any]) -> float:
    """Characters right over all signs, each read in its own picture."""
    count = {sign: sum(len(text) for number, _, text in lines(source) if number == sign) for sign in pictures}
    return sum(share(source, picture, sign) * count[sign] for sign, picture in pictures.items()) / sum(count.values())


def centre(source: Scene, sign: int) -> tuple[float, float]:
    """Of the text of a sign."""
    boxes = np.array([box for number, box, _ in lines(source) if number == sign])
    left, top, right, bottom = (*boxes.min(axis=0)[:2].tolist(), *boxes.max(axis=0)[2:].tolist())
    return (left + right) / 2, (top + bottom) / 2


def drawn(source: Scene, tokens: Any, pixels: Any, smooth: bool = True) -> Any:
    return (smoothed if smooth else replicated)(tokens, np.moveaxis(pixels, 1, 3), source.size)


def at_fixations(source: Scene, keys: dict[str, Any], budget: int, smooth: bool = True) -> float:
    """A fixation at each sign in turn."""
    signs = sorted({sign for sign, _, _ in lines(source)})
    width, height = source.size
    views = {}
    for sign in signs:
        x, y = centre(source, sign)
        views[f"sign{sign}"] = {"budget": budget, "gaze": {"policy": "fixed", "x": x / width, "y": y / height}, **keys}
    folders = extract(source, views)
    pictures = {}
    for sign in signs:
        pictures[sign] = drawn(source, *Extracted(folders[f"sign{sign}"]).frame(source.measured[0]), smooth)
    return weighted(source, pictures)


def line_map(source: Scene) -> Any:
    """1 in the cells that a line touches."""
    weights = np.zeros((64, 128), np.float32)
    for _, (x0, y0, x1, y1), _ in lines(source):
        weights[int(y0 / 15) : int(np.ceil(y1 / 15)), int(x0 / 15) : int(np.ceil(x1 / 15))] = 1
    return weights


@lru_cache
def with_map(name: str, budgets: tuple[int, ...], keys: str = "") -> dict[int, Any]:
    """A consumer sends a map along all lines: pictures by budget."""
    source = scene(name)
    gaze = {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0}
    views = {f"b{budget}": {"budget": budget, "gaze": gaze} for budget in budgets}
    frames = steered(source, views, lambda _: line_map(source), "lines")
    return {budget: drawn(source, *frames[f"b{budget}"][source.measured[0]]) for budget in budgets}


def main() -> None:
    source = scene("signs")
    full = source.picture(source.measured[0])
    table = Table(["tokens", *(f"{budget}" for budget in BUDGETS)])
    for name, keys in AT_A_FIXATION.items():
        table.row(f"{name}, a fixation at each sign", [at_fixations(source, keys, budget) for budget in BUDGETS])
        table.row(
            f"{name}, the same, each texel a block", [at_fixations(source, keys, budget, False) for budget in BUDGETS]
        )
    maps = with_map(source.name, BUDGETS)
    table.row("foveal, a map along all lines at once", [share(source, maps[budget]) for budget in BUDGETS])
    uniform = [
        Extracted(extract(source, {"view": {"layout": "uniform", "budget": budget}})["view"]) for budget in BUDGETS
    ]
    table.row("uniform", [share(source, drawn(source, *view.frame(source.measured[0]))) for view in uniform])
    table.row("the picture shrunk to as many patches", [share(source, shrunk(full, budget)) for budget in BUDGETS])
    print(table)
    table.plot(ROOT / "docs" / "images" / "value-text.svg", "share of the text")


if __name__ == "__main__":
    main()
