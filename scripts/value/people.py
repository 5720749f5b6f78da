"""People found, of those who are there: by policy, layout and budget, against the full picture and a shrunk one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from common import ROOT, Extracted, Scene, cached, extract, matched, people_in, reference_people, scene, shrunk
from foveate.picture import replicated, smoothed
from live import steered
from table import Table

#: Scenes: the first is the one that rules were tuned on, the others were kept apart.
SCENES = ("walkers", "apart")
BUDGETS = (96, 160, 273, 512, 1024)
#: Layouts under saliency; further ones are more rows here.
LAYOUTS: dict[str, dict[str, Any]] = {"foveal": {}, "foveal, e0 = 48": {"e0": 48.0}, "uniform": {"layout": "uniform"}}


def score(source: Scene, pictures: Iterable[Any], every: int = 1) -> tuple[float, float]:
    """Recall, and the share of what is found that is a person, over every so-many-th measured frame."""
    found = [people_in(picture) for picture in pictures]
    reference = reference_people(source)[::every]
    hits = sum(matched(boxes, truth) for boxes, truth in zip(found, reference))
    return hits / sum(map(len, reference)), hits / max(1, sum(map(len, found)))


def seen_before(source: Scene) -> dict[int, Any]:
    """What the consumer finds on the full picture of the frame before each measured one."""

    def make() -> dict[str, Any]:
        return {str(index - 1): people_in(source.picture(index - 1)) for index in source.measured}

    return {int(index): boxes for index, boxes in cached("before", [source.name, source.measured], make).items()}


def box_map(boxes: Any, size: tuple[int, int], longer: int = 128) -> Any:
    """A map of boxes: 1 in cells that one touches, 0 elsewhere."""
    scale = longer / max(size)
    weights = np.zeros((round(size[1] * scale), round(size[0] * scale)), np.float32)
    for x0, y0, x1, y1 in boxes * scale:
        weights[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = 1
    return weights


def drawn(source: Scene, tokens_of: Any, smooth: bool = True) -> Iterable[Any]:
    """The pictures of the measured frames."""
    for index in source.measured:
        tokens, pixels = tokens_of(index)
        yield (smoothed if smooth else replicated)(tokens, np.moveaxis(pixels, 1, 3), source.size)


def saliency(source: Scene, **keys: Any) -> Any:
    """Nobody points."""
    gaze = {"policy": "saliency", **keys.pop("gaze", {})}
    folder = extract(source, {"view": {"gaze": gaze, **keys}})["view"]
    return Extracted(folder).frame


def consumer(source: Scene, **keys: Any) -> Any:
    """A consumer sends the boxes of the frame before."""
    gaze = {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0, **keys.pop("gaze", {})}
    before = seen_before(source)

    def attend(_name: str, index: int) -> Any:
        boxes = before.get(index)
        return None if boxes is None or len(boxes) == 0 else box_map(boxes, source.size)

    frames = steered(source, {"view": {"gaze": gaze, **keys}}, attend, "boxes of the frame before")["view"]
    return frames.__getitem__


def main() -> None:
    for name in SCENES:
        source = scene(name)
        full = [source.picture(index) for index in source.measured]
        table = Table([f"`{name}`, 273 tokens", "recall", "precision"])
        table.row("the full picture", score(source, full))
        table.row("shrunk to 273 patches", score(source, (shrunk(picture, 273) for picture in full)))
        for layout, keys in LAYOUTS.items():
            tokens = saliency(source, **keys)
            table.row(f"{layout}, saliency", score(source, drawn(source, tokens)))
        table.row("foveal, saliency, each texel a block", score(source, drawn(source, saliency(source), False)))
        table.row("foveal, a consumer's map", score(source, drawn(source, consumer(source))))
        print(table, end="\n\n")
    source = scene(SCENES[0])
    half = source._replace(measured=source.measured[::3])
    table = Table(["recall by tokens", *map(str, BUDGETS)])
    rows: dict[str, Any] = {
        "foveal, saliency": lambda budget: drawn(half, saliency(source, budget=budget)),
        "foveal, a consumer's map": lambda budget: drawn(half, consumer(source, budget=budget)),
        "shrunk": lambda budget: (shrunk(source.picture(index), budget) for index in half.measured),
    }
    for label, pictures in rows.items():
        table.row(label, [score(source, pictures(budget), 3)[0] for budget in BUDGETS])
    print(table)
    table.plot(ROOT / "docs" / "images" / "value-people.svg", "recall")


if __name__ == "__main__":
    main()
