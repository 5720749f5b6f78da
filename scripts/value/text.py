"""Text read, of what is read in the full picture: six signs at once, against budget."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
from common import Table, six_signs
from models import read_lines, share_read
from product import DEFAULT, cropped, extract, looked, rebuilt, shrunk

BUDGETS = (96, 160, 273, 512, 1024)
#: Where boxes of unlike sides might pay.
FEW = (96, 128, 160, 273)
#: A view that obeys at once.
STEERED: dict[str, Any] = {"layout": "foveal", "gaze": {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0}}
#: Sides of the photographs, which lie three in a row.
CELL = (640, 480)


class Signs:
    """Six photographs of signs in one picture, and their lines of at least three characters.

    :ivar of_line: number of the photograph of each line.
    """

    def __init__(self) -> None:
        self.source = six_signs()
        self.index = self.source.measured[0]
        self.full = self.source.picture(self.index)
        self.lines = read_lines("signs", self.full, 3)
        self.of_line = [int(box[0] // CELL[0] + 3 * (box[1] // CELL[1])) for box, _ in self.lines]
        boxes = np.array([box for box, _ in self.lines])
        #: Of the text of each sign, by number.
        self.centres = {}
        for sign in sorted(set(self.of_line)):
            own = boxes[np.array(self.of_line) == sign]
            self.centres[sign] = tuple(((own.min(axis=0)[:2] + own.max(axis=0)[2:]) / 2).tolist())

    def share(self, picture_of: Any) -> float:
        """Characters right, each sign read in the picture of its number."""
        return share_read(self.lines, lambda line: picture_of(self.of_line[line]))

    def at_fixations(self, keys: dict[str, Any], budget: int) -> float:
        """A fixation at each sign in turn."""
        width, height = self.source.size
        views = {}
        for sign, (x, y) in self.centres.items():
            views[sign] = {"budget": budget, "gaze": {"policy": "fixed", "x": x / width, "y": y / height}, **keys}
        extracted = extract(self.source, views)
        return self.share(lambda sign: rebuilt(*extracted[sign].frame(self.index), self.source.size))

    def crops(self, budget: int) -> float:
        """A crop of full resolution around the text of each sign in turn."""
        return self.share(lambda sign: cropped(self.full, self.centres[sign], budget))

    def mapped(self, targets: list[tuple[int, ...]], budget: int, **keys: Any) -> float:
        """A map along the lines of each of the targets in turn, which are numbers of lines that are read in the same
        picture.
        """

        def attend(numbers: Iterable[int]) -> Any:
            weights = line_map([self.lines[number][0] for number in numbers])
            return lambda view, frame: view.attend(weights, frame=frame)

        frames = looked(
            self.source, {**STEERED, "budget": budget, **keys}, [attend(numbers) for numbers in targets], targets
        )
        lines, pictures = [], []
        for numbers, frame in zip(targets, frames, strict=True):
            lines += [self.lines[number] for number in numbers]
            pictures += [rebuilt(*frame, self.source.size)] * len(numbers)
        return share_read(lines, pictures.__getitem__)

    def one_line(self, budget: int, **keys: Any) -> float:
        """A map along each line in turn."""
        return self.mapped([(number,) for number in range(len(self.lines))], budget, **keys)

    def all_lines(self, budget: int, **keys: Any) -> float:
        """A map along all lines at once."""
        return self.mapped([tuple(range(len(self.lines)))], budget, **keys)

    def three_signs(self, budget: int) -> float:
        """Each three of the six signs at once, with three foveae that are chosen from a map along their lines."""
        threes = combinations(self.centres, 3)
        targets = [tuple(line for line, sign in enumerate(self.of_line) if sign in three) for three in threes]
        return self.mapped(targets, budget, foveae=3)


def line_map(boxes: Any) -> Any:
    """1 in the cells that a line touches."""
    weights = np.zeros((64, 128), np.float32)
    for x0, y0, x1, y1 in boxes:
        weights[int(y0 / 15) : int(np.ceil(y1 / 15)), int(x0 / 15) : int(np.ceil(x1 / 15))] = 1
    return weights


def main() -> None:
    signs = Signs()
    ways: dict[str, Any] = {
        "default settings, a map along one line": lambda budget: signs.one_line(budget, **DEFAULT),
        "default settings, a map along all lines at once": lambda budget: signs.all_lines(budget, **DEFAULT),
        "foveal, a fixation at each sign": lambda budget: signs.at_fixations({"layout": "foveal"}, budget),
        "a crop at each sign": signs.crops,
        "foveal, a map along one line": signs.one_line,
        "three foveae, a map along their lines": signs.three_signs,
        "foveal, a map along all lines at once": signs.all_lines,
        "the picture shrunk to as many patches": lambda budget: signs.share(lambda _: shrunk(signs.full, budget)),
    }
    table = Table(["tokens", *map(str, BUDGETS)])
    for label, way in ways.items():
        table.row(label, [way(budget) for budget in BUDGETS])
    print(table, end="\n\n")
    table.plot("value-text.svg", "share of the text")
    table = Table(["tokens", *map(str, FEW)])
    for name, way in (("one line", signs.one_line), ("all lines at once", signs.all_lines)):
        for layout in ("foveal", "directional"):
            table.row(f"{layout}, a map along {name}", [way(budget, layout=layout) for budget in FEW])
    print(table)


if __name__ == "__main__":
    main()
