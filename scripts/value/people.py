"""People found, of those who are there: in crowds, by one camera, in low light, by a camera that pans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from common import LENGTH, ROOT, Scene, Table, cached, four_cameras, made_scene, one_camera
from models import matched, overlap, people_in
from product import cropped, extract, rebuilt, shrunk, steered

#: Scenes: the first is the one that rules were tuned on, and `camera` is one of its stretches; the others were kept apart.
SCENES = ("walkers", "apart", "camera", "dark", "panning")
BUDGETS = (96, 160, 273, 512, 1024)
PEOPLE = str(ROOT / "configs" / "scorers" / "people.safetensors")
#: Keys of the views, 273 tokens.
VIEWS: dict[str, dict[str, Any]] = {
    "default settings": {},
    "default layout, policy `relevance`, people's scorer": {"gaze": {"policy": "relevance", "scorer": PEOPLE}},
    "`foveal`, policy `saliency`": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "`foveal`": {"layout": "foveal"},
    "`relevance`": {"layout": "relevance"},
}
#: Of the measured frames of a scene every second one counts.
EVERY = 2
#: `dark` is `apart` with so much of its light, and Gaussian noise of this deviation in levels.
LIGHT, NOISE = 0.25, 6.0
#: `panning` shows so much of `apart`, and moves right and down by these pixels a frame.
PANNED, PAN = (1152, 864), (4, 3)
#: Where a person lies on the grid of texels matters: these scenes are measured again, moved left and up by these pixels.
ON_GRIDS, GRIDS = ("apart", "camera"), ((3, 1), (5, 6), (2, 4), (6, 3), (1, 7))
#: Keys of the views that are measured there.
GRID_VIEWS: dict[str, dict[str, Any]] = {
    "default settings": {},
    "default settings, policy `saliency`": {"gaze": {"policy": "saliency"}},
    "`relevance`": {"layout": "relevance"},
    "`inset`": {"layout": "inset"},
    "`uniform`": {"layout": "uniform", "gaze": {"policy": "fixed"}},
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
    """One of `SCENES`."""
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


class Found:
    """Of each measured frame: how many are found of those who are there."""

    def __init__(self, pictures: Iterable[Any], there: list[Any]) -> None:
        self.hits = np.array([matched(people_in(picture), truth) for picture, truth in zip(pictures, there, strict=True)])
        self.there = np.array([len(truth) for truth in there])

    @property
    def recall(self) -> float:
        """Over all frames."""
        return float(self.hits.sum() / self.there.sum())

    def error_of_difference(self, other: Found) -> float:
        """Standard error of the difference of the recalls, frame by frame."""
        difference = (self.hits - other.hits) / self.there.mean()
        return float(difference.std(ddof=1) / len(difference) ** 0.5)


def rolled(source: Scene, index: int, budget: int, patch: int = 16) -> Any:
    """The picture where each frame has brought the next `budget` patches of full resolution, row by row."""
    width, height = source.size
    columns, rows = -(-width // patch), -(-height // patch)
    picture = np.zeros((height, width, 3), np.uint8)
    number = np.arange(columns * rows)
    #: Of each patch the last frame that had it.
    last = np.full(columns * rows, -1)
    for frame in range(index + 1):
        last[(number - frame * budget) % (columns * rows) < budget] = frame
    every = last.reshape(rows, columns).repeat(patch, 0).repeat(patch, 1)[:height, :width]
    for frame in range(max(0, index - columns * rows // budget - 1), index + 1):
        picture[every == frame] = source.picture(frame)[every == frame]
    return picture


def box_map(boxes: Any, size: tuple[int, int], longer: int = 128) -> Any:
    """A map of boxes: 1 in cells that one touches, 0 elsewhere."""
    scale = longer / max(size)
    weights = np.zeros((round(size[1] * scale), round(size[0] * scale)), np.float32)
    for x0, y0, x1, y1 in boxes * scale:
        weights[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = 1
    return weights


def drawn(source: Scene, tokens_of: Any) -> Iterable[Any]:
    """The pictures of the measured frames."""
    return (rebuilt(*tokens_of(index), source.size) for index in source.measured)


def by_view(name: str) -> dict[str, Found]:
    """Who is found with each way to see, 273 tokens."""
    source, there = people_scene(name), people_there(name)
    full = [source.picture(index) for index in source.measured]
    middle = source.size[0] / 2, source.size[1] / 2
    pictures: dict[str, Iterable[Any]] = {
        "the full picture": full,
        "shrunk to 273 patches": (shrunk(picture, 273) for picture in full),
        "a crop of 273 patches, at the centre": (cropped(picture, middle, 273) for picture in full),
        "rolling tiles, 273 a frame": (rolled(source, index, 273) for index in source.measured),
        **{label: drawn(source, view.frame) for label, view in extract(source, VIEWS).items()},
    }
    return {label: Found(shown, there) for label, shown in pictures.items()}


def on_grids(name: str) -> dict[str, Found]:
    """The same on all `GRIDS` together."""
    source, there = people_scene(name), people_there(name)
    shown: dict[str, list[Iterable[Any]]] = {}
    boxes = []
    for dx, dy in GRIDS:

        def moved(dx: int = dx, dy: int = dy) -> Iterator[Any]:
            for index in range(len(source.frames)):
                yield np.pad(source.picture(index)[dy:, dx:], ((0, dy), (0, dx), (0, 0)), mode="edge")

        grid = made_scene(f"{name} {dx} {dy}", moved, source.size, source.measured)
        boxes += [box - (dx, dy, dx, dy) for box in there]
        full = [grid.picture(index) for index in grid.measured]
        views = {label: drawn(grid, view.frame) for label, view in extract(grid, GRID_VIEWS).items()}
        for label, pictures in {
            "the full picture": full,
            "shrunk to 273 patches": (shrunk(picture, 273) for picture in full),
            **views,
        }.items():
            shown.setdefault(label, []).append(pictures)
    return {label: Found(chain.from_iterable(parts), boxes) for label, parts in shown.items()}


def consumer(source: Scene, budget: int) -> Any:
    """What a consumer sees that sends the boxes of the frame before."""
    before = {index - 1: people_in(source.picture(index - 1)) for index in source.measured}
    keys = {"layout": "foveal", "budget": budget, "gaze": {"policy": "feedback", "saccade_hz": 50.0, "dwell_min_ms": 0}}

    def steer(index: int) -> Any:
        return box_map(before[index], source.size) if len(before.get(index, ())) else None

    return drawn(source, steered(source, keys, steer, "boxes of the frame before").__getitem__)


def by_budget() -> Table:
    """The figure of recall against tokens."""
    source = four_cameras(SCENES[0])
    source = source._replace(measured=source.measured[::3])
    there = reference_people(source)

    def view(budget: int, **keys: Any) -> Iterable[Any]:
        return drawn(source, extract(source, {"view": {**keys, "budget": budget}})["view"].frame)

    rows: dict[str, Any] = {
        "default settings": view,
        "foveal, saliency": lambda budget: view(budget, layout="foveal", gaze={"policy": "saliency"}),
        "foveal, a consumer's map": lambda budget: consumer(source, budget),
        "shrunk": lambda budget: (shrunk(source.picture(index), budget) for index in source.measured),
    }
    table = Table(["recall by tokens", *map(str, BUDGETS)])
    for label, pictures in rows.items():
        table.row(label, [Found(pictures(budget), there).recall for budget in BUDGETS])
    table.plot("value-people.svg", "recall")
    return table


def recalls(names: Iterable[str], found_in: Callable[[str], dict[str, Found]]) -> Table:
    """Recall in each scene."""
    heads, columns = [], []
    for name in names:
        views = found_in(name)
        shrunk_people = views["shrunk to 273 patches"]
        heads.append(f"`{name}`, {shrunk_people.there.sum()} people")
        columns.append(
            {label: f"{found.recall:.3f} ({found.error_of_difference(shrunk_people):.3f})" for label, found in views.items()}
        )
    return Table(["recall (standard error of the difference from shrunk)", *heads]).columns(columns)


def main() -> None:
    print(recalls(SCENES, by_view), recalls(ON_GRIDS, on_grids), by_budget(), sep="\n\n")


if __name__ == "__main__":
    main()
