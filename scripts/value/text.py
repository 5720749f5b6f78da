"""Text read, of what is read in the full picture: six signs at once, against budget."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from common import ROOT, Extracted, Scene, Table, cropped, extract, read_lines, scene, share_read, shrunk
from foveate.picture import replicated, smoothed
from live import steered

BUDGETS = (96, 160, 273, 512, 1024)
#: Where boxes of unlike sides might pay.
FEW = (96, 128, 160, 273)
#: Layouts that look at each sign in turn; further ones are more rows here.
AT_A_FIXATION: dict[str, dict[str, Any]] = {"default layout": {}, "foveal": {"layout": "foveal"}}
#: Sides of the photographs, which lie three in a row.
CELL = (640, 480)


class Signs:
    """Six photographs of signs in one picture, and their lines of at least three characters.

    :ivar of_line: number of the photograph of each line.
    """

    def __init__(self) -> None:
        self.source = scene("signs")
        self.index = self.source.measured[0]
        self.full = self.source.picture(self.index)
        self.lines = read_lines("signs", self.full, 3)
        self.of_line = [int(box[0] // CELL[0] + 3 * (box[1] // CELL[1])) for box, _ in self.lines]
        self.numbers = sorted(set(self.of_line))

    def centre(self, sign: int) -> tuple[float, float]:
        """Of the text of a sign."""
        boxes = np.array([box for (box, _), number in zip(self.lines, self.of_line) if number == sign])
        x, y = (boxes.min(axis=0)[:2] + boxes.max(axis=0)[2:]).tolist()
        return x / 2, y / 2

    def share(self, pictures: dict[int, Any]) -> float:
        """Characters right, each sign read in its own picture."""
        return share_read(self.lines, lambda number: pictures[self.of_line[number]])

    def share_in_one(self, picture: Any) -> float:
        """Characters right in one picture."""
        return share_read(self.lines, lambda _: picture)


def drawn(source: Scene, tokens: Any, pixels: Any, smooth: bool = True) -> Any:
    return (smoothed if smooth else replicated)(tokens, np.moveaxis(pixels, 1, 3), source.size)


def at_fixations(signs: Signs, keys: dict[str, Any], budget: int, smooth: bool = True) -> float:
    """A fixation at each sign in turn."""
    width, height = signs.source.size
    views = {}
    for sign in signs.numbers:
        x, y = signs.centre(sign)
        views[f"sign{sign}"] = {"budget": budget, "gaze": {"policy": "fixed", "x": x / width, "y": y / height}, **keys}
    folders = extract(signs.source, views)
    frames = {sign: Extracted(folders[f"sign{sign}"]).frame(signs.index) for sign in signs.numbers}
    return signs.share({sign: drawn(signs.source, *frame, smooth) for sign, frame in frames.items()})


def crops(signs: Signs, budget: int) -> float:
    """A crop of full resolution around the text of each sign in turn."""
    return signs.share({sign: cropped(signs.full, signs.centre(sign), budget) for sign in signs.numbers})


def line_map(boxes: Any) -> Any:
    """1 in the cells that a line touches."""
    weights = np.zeros((64, 128), np.float32)
    for x0, y0, x1, y1 in boxes:
        weights[int(y0 / 15) : int(np.ceil(y1 / 15)), int(x0 / 15) : int(np.ceil(x1 / 15))] = 1
    return weights


def steered_share(signs: Signs, targets: list[tuple[Any, list[int]]], budget: int, key: str, **keys: Any) -> float:
    """Characters right where a consumer steers a view for each target, and reads the target's lines in it.

    :param targets: a map or points, and the numbers of the lines that are read.
    :param key: what the targets are, for the cache.
    """
    gaze = {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0}
    views = {f"v{number}": {"layout": "foveal", "budget": budget, "gaze": gaze, **keys} for number in range(len(targets))}
    frames = steered(signs.source, views, lambda name, _: targets[int(name[1:])][0], key)
    lines, pictures = [], []
    for (_, numbers), view in zip(targets, frames.values()):
        picture = drawn(signs.source, *view[signs.index])
        lines += [signs.lines[number] for number in numbers]
        pictures += [picture] * len(numbers)
    return share_read(lines, pictures.__getitem__)


def one_line(signs: Signs, budget: int, **keys: Any) -> float:
    """A map along each line in turn."""
    targets = [(line_map([box]), [number]) for number, (box, _) in enumerate(signs.lines)]
    return steered_share(signs, targets, budget, "each line", **keys)


def all_lines(signs: Signs, budget: int, **keys: Any) -> float:
    """A map along all lines at once."""
    boxes = [box for box, _ in signs.lines]
    return steered_share(signs, [(line_map(boxes), list(range(len(boxes))))], budget, "all lines", **keys)


def three_signs(signs: Signs, budget: int, has_map: bool = False) -> float:
    """Each three of the six signs at once, with a fovea at each: at its centre, or chosen from a map along the lines."""
    targets: list[tuple[Any, list[int]]] = []
    for three in combinations(signs.numbers, 3):
        numbers = [number for number, sign in enumerate(signs.of_line) if sign in three]
        weights = line_map([signs.lines[number][0] for number in numbers])
        targets.append((weights if has_map else [signs.centre(sign) for sign in three], numbers))
    return steered_share(signs, targets, budget, f"three signs {has_map}", foveae=3)


def uniform(signs: Signs, budget: int) -> float:
    """Without a fovea."""
    view = extract(signs.source, {"view": {"layout": "uniform", "budget": budget, "gaze": {"policy": "fixed"}}})["view"]
    return signs.share_in_one(drawn(signs.source, *Extracted(view).frame(signs.index)))


def main() -> None:
    signs = Signs()
    table = Table(["tokens", *map(str, BUDGETS)])
    for name, keys in AT_A_FIXATION.items():
        table.row(f"{name}, a fixation at each sign", [at_fixations(signs, keys, budget) for budget in BUDGETS])
        table.row(f"{name}, the same, each texel a block", [at_fixations(signs, keys, budget, False) for budget in BUDGETS])
    table.row("a crop at each sign", [crops(signs, budget) for budget in BUDGETS])
    table.row("foveal, a map along one line", [one_line(signs, budget) for budget in BUDGETS])
    table.row("three foveae at three signs", [three_signs(signs, budget) for budget in BUDGETS])
    table.row("three foveae, a map along their lines", [three_signs(signs, budget, True) for budget in BUDGETS])
    table.row("foveal, a map along all lines at once", [all_lines(signs, budget) for budget in BUDGETS])
    table.row("uniform", [uniform(signs, budget) for budget in BUDGETS])
    table.row("the picture shrunk to as many patches", [signs.share_in_one(shrunk(signs.full, budget)) for budget in BUDGETS])
    print(table, end="\n\n")
    table.plot(ROOT / "docs" / "images" / "value-text.svg", "share of the text")
    table = Table(["tokens", *map(str, FEW)])
    for name, measure in (("one line", one_line), ("all lines at once", all_lines)):
        for layout in ("foveal", "directional"):
            table.row(f"{layout}, a map along {name}", [measure(signs, budget, layout=layout) for budget in FEW])
    print(table)


if __name__ == "__main__":
    main()
