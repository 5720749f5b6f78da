"""People found, of those who are there: in crowds, by one camera, in low light, by a camera that pans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from common import LENGTH, Scene, Table, cached, four_cameras, made_scene, one_camera
from models import matched, overlap, people_in
from product import DEFAULT, compared, extract, rebuilt, seen, shrunk, steered

#: The scenes that settings were chosen on, and those of the figures. `camera` is one of the stretches of `walkers`.
CHOSEN_ON, MEASURED_ON = ("walkers",), ("apart", "camera", "dark", "panning")
BUDGETS = (96, 160, 273, 512, 1024)
#: Of the measured frames of a scene every second one counts.
EVERY = 2
#: `dark` is `apart` with so much of its light, and Gaussian noise of this deviation in levels.
LIGHT, NOISE = 0.25, 6.0
#: `panning` shows so much of `apart`, and moves right and down by these pixels a frame.
PANNED, PAN = (1152, 864), (4, 3)
#: Where a person lies on the grid of texels matters: scenes are moved left and up by these pixels.
GRIDS = {
    "walkers": ((0, 0), (4, 5)),
    "apart": ((3, 1), (5, 6), (2, 4), (6, 3), (1, 7)),
    "camera": ((3, 1), (5, 6), (2, 4), (6, 3), (1, 7)),
    "dark": ((0, 0),),
    "panning": ((0, 0),),
}


def dark() -> Iterator[Any]:
    """The pictures of `dark`."""
    source, chance = four_cameras("apart"), np.random.default_rng(3)
    for index in range(LENGTH):
        picture = source.picture(index).astype(np.float32) * LIGHT
        noise = chance.standard_normal(picture.shape, np.float32) * NOISE
        yield np.clip(np.round(picture + noise), 0, 255).astype(np.uint8)


def panning() -> Iterator[Any]:
    """The pictures of `panning`."""
    source = four_cameras("apart")
    for index in range(LENGTH):
        x, y = PAN[0] * index, PAN[1] * index
        yield source.picture(index)[y : y + PANNED[1], x : x + PANNED[0]]


def people_scene(name: str) -> Scene:
    """One of the scenes."""
    clean = one_camera() if name == "camera" else four_cameras(name if name == "walkers" else "apart")
    measured = clean.measured[::EVERY]
    if name == "dark":
        return made_scene(name, dark, clean.size, measured)
    if name == "panning":
        return made_scene(name, panning, PANNED, measured)
    return clean._replace(measured=measured)


def people_there(name: str) -> list[Any]:
    """Boxes of the people in each measured frame; of `dark` and `panning` those that are found in the clean, still
    picture.
    """
    boxes = reference_people(people_scene("apart" if name in ("dark", "panning") else name))
    if name != "panning":
        return boxes
    shifted = []
    for index, there in zip(people_scene(name).measured, boxes, strict=True):
        moved = there - np.tile(np.multiply(PAN, index), 2)
        is_inside = (moved[:, :2] >= 0).all(axis=1) & (moved[:, 2:] <= PANNED).all(axis=1)
        shifted.append(moved[is_inside])
    return shifted


def reference_people(source: Scene) -> list[Any]:
    """Who is there, independent of the detection that is measured: twice as large, in two of three frames, and moving.

    SSD on tiles of half the side (so each person is twice as large as in the measurement), in the frame, the one before
    and the one after; a box counts if another of these frames has it, too, and a quarter of it differs from the median
    of the clip by more than 25 levels (which leaves out a tripod that SSD takes for a person).
    """
    every = np.stack([source.picture(index) for index in range(0, len(source.frames), 4)])
    median = np.median(every, axis=0).astype(np.int16)

    def make(index: int) -> dict[str, Any]:
        differs = np.abs(source.picture(index).astype(np.int16) - median).max(axis=2) > 25
        before, now, after = (people_in(source.picture(index + step), 192, where=differs) for step in (-1, 0, 1))
        boxes = []
        for box in now:
            x0, y0, x1, y1 = box.astype(int)
            is_near = any(overlap(box, other) > 0.4 for other in (*before, *after))
            if is_near and differs[y0:y1, x0:x1].mean() > 0.25:
                boxes.append(box)
        return {"boxes": np.array(boxes).reshape(-1, 4)}

    found = []
    for index in source.measured:
        found.append(cached("reference", [source.name, index, len(source.frames)], lambda index=index: make(index))["boxes"])
    return found


class Found(NamedTuple):
    """Of each measured frame: how many are found of those who are there."""

    hits: Any
    there: Any

    @classmethod
    def of(cls, pictures: Sequence[Any], there: list[Any]) -> Found:
        """Looks for people in pictures."""
        hits = [matched(people_in(picture), truth) for picture, truth in zip(pictures, there, strict=True)]
        return cls(np.array(hits), np.array([len(truth) for truth in there]))

    def and_of(self, other: Found) -> Found:
        """The frames of both."""
        return Found(np.concatenate([self.hits, other.hits]), np.concatenate([self.there, other.there]))

    @property
    def recall(self) -> float:
        """Over all frames."""
        return float(self.hits.sum() / self.there.sum())

    def error_of_difference(self, other: Found) -> float:
        """Standard error of the difference of the recalls, frame by frame."""
        difference = (self.hits - other.hits) / self.there.mean()
        return float(difference.std(ddof=1) / len(difference) ** 0.5)


def on_grids(name: str) -> dict[str, Found]:
    """Who is found with each way to see, 273 tokens, on all grids together."""
    source, there = people_scene(name), people_there(name)
    if len(GRIDS[name]) > 2:
        # On many grids half of the pictures.
        source, there = source._replace(measured=source.measured[::2]), there[::2]
    found: dict[str, Found] = {}
    for dx, dy in GRIDS[name]:

        def moved(dx: int = dx, dy: int = dy) -> Iterator[Any]:
            for index in range(len(source.frames)):
                yield np.pad(source.picture(index)[dy:, dx:], ((0, dy), (0, dx), (0, 0)), mode="edge")

        grid = source if dx == dy == 0 else made_scene(f"{name} {dx} {dy}", moved, source.size, source.measured)
        boxes = [box - (dx, dy, dx, dy) for box in there]
        for label, pictures in seen(grid, grid.measured).items():
            more = Found.of(pictures, boxes)
            found[label] = found[label].and_of(more) if label in found else more
    return found


def recalls(names: Sequence[str]) -> str:
    """Recall in each scene, and the standard error of its difference from the shrunk picture."""
    measures = {}
    for name in names:
        found = on_grids(name)
        small = found["shrunk"]
        grids = "" if len(GRIDS[name]) == 1 else f", {len(GRIDS[name])} grids"
        values = {way: (one.recall, one.error_of_difference(small)) for way, one in found.items()}
        measures[f"`{name}`, {small.there.sum()} people{grids}"] = values
    return compared("273 tokens, recall", measures)


def box_map(boxes: Any, size: tuple[int, int], longer: int = 128) -> Any:
    """A map of boxes: 1 in cells that one touches, 0 elsewhere."""
    scale = longer / max(size)
    weights = np.zeros((round(size[1] * scale), round(size[0] * scale)), np.float32)
    for x0, y0, x1, y1 in boxes * scale:
        weights[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = 1
    return weights


def consumer(source: Scene, budget: int) -> list[Any]:
    """What a consumer sees that sends the boxes of the frame before."""
    before = {index - 1: people_in(source.picture(index - 1)) for index in source.measured}
    keys = {**DEFAULT, "budget": budget}

    def steer(index: int) -> Any:
        return box_map(before[index], source.size) if len(before.get(index, ())) else None

    frames = steered(source, keys, steer, "boxes of the frame before")
    return [rebuilt(*frames[index], source.size) for index in source.measured]


def by_budget() -> Table:
    """Recall against tokens."""
    source = people_scene("apart")
    there = reference_people(source)

    def view(budget: int) -> list[Any]:
        view = extract(source, {"view": {**DEFAULT, "budget": budget}})["view"]
        return [view.drawn(source, index) for index in source.measured]

    rows: dict[str, Any] = {
        "default settings": view,
        "default settings, a consumer's map": lambda budget: consumer(source, budget),
        "shrunk": lambda budget: [shrunk(source.picture(index), budget) for index in source.measured],
    }
    table = Table(["`apart`: recall by tokens", *map(str, BUDGETS)])
    for label, pictures in rows.items():
        table.row(label, [Found.of(pictures(budget), there).recall for budget in BUDGETS])
    return table


def main() -> None:
    for names in (MEASURED_ON, CHOSEN_ON):
        print(recalls(names), end="\n\n", flush=True)
    print(by_budget())


if __name__ == "__main__":
    main()
