"""People found, of those who are there: by policy, layout and budget, against the full picture and a shrunk one."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np
from common import Extracted, Scene, cached, extract, matched, people_in, reference_people, scene, shrunk
from live import steered

from foveate.picture import replicated, smoothed


def score(source: Scene, pictures: Iterable[Any]) -> tuple[float, float]:
    """Recall, and the share of what is found that is a person, over the measured frames."""
    found = [people_in(picture) for picture in pictures]
    return scored(source, found)


def scored(source: Scene, found: list[Any]) -> tuple[float, float]:
    reference = reference_people(source)
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

    def attend(index: int) -> Any:
        boxes = before.get(index)
        return None if boxes is None or len(boxes) == 0 else box_map(boxes, source.size)

    frames = steered(source, {"view": {"gaze": gaze, **keys}}, attend, "boxes of the frame before")["view"]
    return frames.__getitem__


def baselines(source: Scene, budget: int = 273) -> dict[str, tuple[float, float]]:
    """The full picture and the shrunk one."""

    def make() -> dict[str, Any]:
        full = [source.picture(index) for index in source.measured]
        return {"full": score(source, full), "shrunk": score(source, (shrunk(picture, budget) for picture in full))}

    return {name: tuple(value) for name, value in cached("people", [source.name, budget], make).items()}
