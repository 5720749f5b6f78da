"""Text read, of what is read in the full picture: six signs at once, against budget."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from common import ROOT, Extracted, Scene, alike, cached, cropped, extract, lines_in, read, scene, shrunk
from foveate.picture import replicated, smoothed
from live import steered
from table import Table

BUDGETS = (96, 160, 273, 512, 1024)
#: Where boxes of unlike sides might pay.
FEW = (96, 128, 160, 273)
#: Layouts that look at each sign in turn; further ones are more rows here.
AT_A_FIXATION: dict[str, dict[str, Any]] = {"default layout": {}, "foveal": {"layout": "foveal"}}
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
    signs = (kept["boxes"][:, 0] // CELL[0] + 3 * (kept["boxes"][:, 1] // CELL[1])).astype(int).tolist()
    return [(sign, box, str(text)) for sign, box, text in zip(signs, kept["boxes"], kept["texts"])]


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
    x, y = (boxes.min(axis=0)[:2] + boxes.max(axis=0)[2:]).tolist()
    return x / 2, y / 2


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


def crops(source: Scene, budget: int) -> float:
    """A crop of full resolution around the text of each sign in turn."""
    full = source.picture(source.measured[0])
    signs = sorted({sign for sign, _, _ in lines(source)})
    return weighted(source, {sign: cropped(full, centre(source, sign), budget) for sign in signs})


def line_map(boxes: Any) -> Any:
    """1 in the cells that a line touches."""
    weights = np.zeros((64, 128), np.float32)
    for x0, y0, x1, y1 in boxes:
        weights[int(y0 / 15) : int(np.ceil(y1 / 15)), int(x0 / 15) : int(np.ceil(x1 / 15))] = 1
    return weights


def steered_share(source: Scene, targets: list[tuple[Any, list[int]]], budget: int, key: str, **keys: Any) -> float:
    """Characters right where a consumer steers a view for each target, and reads the target's lines in it.

    :param targets: a map or points, and the numbers of the lines that are read.
    :param key: what the targets are, for the cache.
    """
    rows = lines(source)
    gaze = {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0}
    views = {f"v{number}": {"layout": "foveal", "budget": budget, "gaze": gaze, **keys} for number in range(len(targets))}
    frames = steered(source, views, lambda name, _: targets[int(name[1:])][0], key)
    right = of = 0
    for (_, numbers), view in zip(targets, frames.values()):
        picture = drawn(source, *view[source.measured[0]])
        right += sum(alike(read(picture, rows[number][1]), rows[number][2]) for number in numbers)
        of += sum(len(rows[number][2]) for number in numbers)
    return right / of


def one_line(source: Scene, budget: int, **keys: Any) -> float:
    """A map along each line in turn."""
    targets = [(line_map([box]), [number]) for number, (_, box, _) in enumerate(lines(source))]
    return steered_share(source, targets, budget, "each line", **keys)


def all_lines(source: Scene, budget: int, **keys: Any) -> float:
    """A map along all lines at once."""
    boxes = [box for _, box, _ in lines(source)]
    return steered_share(source, [(line_map(boxes), list(range(len(boxes))))], budget, "all lines", **keys)


def three_signs(source: Scene, budget: int, has_map: bool = False) -> float:
    """Each three of the six signs at once, with a fovea at each: at its centre, or chosen from a map along the lines."""
    rows = lines(source)
    targets: list[tuple[Any, list[int]]] = []
    for signs in combinations(sorted({sign for sign, _, _ in rows}), 3):
        numbers = [number for number, (sign, _, _) in enumerate(rows) if sign in signs]
        places = [centre(source, sign) for sign in signs]
        targets.append((line_map([rows[number][1] for number in numbers]) if has_map else places, numbers))
    return steered_share(source, targets, budget, f"three signs {has_map}", foveae=3)


def main() -> None:
    source = scene("signs")
    full = source.picture(source.measured[0])
    table = Table(["tokens", *(f"{budget}" for budget in BUDGETS)])
    for name, keys in AT_A_FIXATION.items():
        table.row(f"{name}, a fixation at each sign", [at_fixations(source, keys, budget) for budget in BUDGETS])
        table.row(
            f"{name}, the same, each texel a block", [at_fixations(source, keys, budget, False) for budget in BUDGETS]
        )
    table.row("a crop at each sign", [crops(source, budget) for budget in BUDGETS])
    table.row("foveal, a map along one line", [one_line(source, budget) for budget in BUDGETS])
    table.row("three foveae at three signs", [three_signs(source, budget) for budget in BUDGETS])
    table.row("three foveae, a map along their lines", [three_signs(source, budget, True) for budget in BUDGETS])
    table.row("foveal, a map along all lines at once", [all_lines(source, budget) for budget in BUDGETS])
    uniform = [
        Extracted(extract(source, {"view": {"layout": "uniform", "budget": budget, "gaze": {"policy": "fixed"}}})["view"]) for budget in BUDGETS
    ]
    table.row("uniform", [share(source, drawn(source, *view.frame(source.measured[0]))) for view in uniform])
    table.row("the picture shrunk to as many patches", [share(source, shrunk(full, budget)) for budget in BUDGETS])
    print(table, end="\n\n")
    table.plot(ROOT / "docs" / "images" / "value-text.svg", "share of the text")
    table = Table(["tokens", *(f"{budget}" for budget in FEW)])
    for name, measure in (("one line", one_line), ("all lines at once", all_lines)):
        for layout in ("foveal", "directional"):
            table.row(f"{layout}, a map along {name}", [measure(source, budget, layout=layout) for budget in FEW])
    print(table)


if __name__ == "__main__":
    main()
