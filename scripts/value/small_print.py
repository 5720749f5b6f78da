"""Small print: a line that somebody looks at, and whole sheets that nobody points at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    CACHE,
    LOOKING_AROUND,
    Extracted,
    Scene,
    SharpestView,
    alike,
    cached,
    cropped,
    extract,
    read,
    rebuilt,
    shrunk,
    tiled,
)
from live import Look, looked
from print_scenes import CHOSEN_ON, FRAMES, MEASURED_ON, Line, drawn_sheet, sheet_scene
from table import Table

BUDGETS = (273, 160, 96)
#: Of a sheet's 21 lines every second is looked at.
EVERY = 2
#: The frames after each second of the sheets, ten a second.
SECONDS = {1: 9, 2: 19, 3: 29, 4: 39}
#: A consumer's view as before the default layout.
FOVEAL: dict[str, Any] = {"layout": "foveal", "gaze": {"policy": "feedback"}}
#: Columns over rows of a crop that is cut along a line, as far as the line asks for it.
LONG = 4.0



def centre(line: Line) -> tuple[float, float]:
    """Of its box."""
    x0, y0, x1, y1 = line.box
    return (x0 + x1) / 2, (y0 + y1) / 2


def of_all(name: str, lines: list[Line], picture_of: Callable[[int], Any]) -> float:
    """Share of the characters of the full picture that are read, each line in its own picture."""
    full = drawn_sheet(SHEETS[name])[0]

    def make() -> dict[str, Any]:
        return {"texts": np.array([read(full, line.box) for line in lines])}

    texts = [str(text) for text in cached("print", [name, [line.box for line in lines]], make)["texts"]]
    right = sum(alike(read(picture_of(number), line.box), texts[number]) for number, line in enumerate(lines))
    return right / sum(map(len, texts))


SHEETS = {**CHOSEN_ON, **MEASURED_ON}


def line_map(line: Line, size: tuple[int, int]) -> Any:
    """1 in the cells that a line touches, 0 elsewhere; 120 cells along the longer side."""
    cell = max(size) / 120
    weights = np.zeros((round(size[1] / cell), round(size[0] / cell)), np.float32)
    x0, y0, x1, y1 = (np.array(line.box) / cell).tolist()
    weights[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = 1
    return weights


def looks(name: str, budget: int) -> dict[str, float]:
    """What is read of lines that a consumer looks at one by one."""
    picture, every_line = drawn_sheet(SHEETS[name])
    lines, source = every_line[::EVERY], sheet_scene(name)
    small = shrunk(picture, budget)
    rows = {
        "shrunk to as many patches": of_all(name, lines, lambda _: small),
        "a crop around its centre": of_all(name, lines, lambda at: cropped(picture, centre(lines[at]), budget)),
        "a crop twice as wide as high": of_all(name, lines, lambda at: cropped(picture, centre(lines[at]), budget, 2)),
        "a crop along the line": of_all(name, lines, lambda at: cropped(picture, centre(lines[at]), budget, LONG)),
    }
    keys = {"budget": budget}
    steered: dict[str, tuple[dict[str, Any], list[Look]]] = {
        "default settings, `look` at its centre": (keys, [Look(point=centre(line)) for line in lines]),
        "default settings, `look` with its box": (keys, [Look(point=centre(line), box=line.box) for line in lines]),
        "`foveal`, `look` at its centre": ({**FOVEAL, **keys}, [Look(point=centre(line)) for line in lines]),
        "`foveal`, a map along the line": (
            {**FOVEAL, **keys},
            [Look(weights=line_map(line, source.size)) for line in lines],
        ),
    }
    for label, (view, sent) in steered.items():
        frames = looked(source, view, sent)
        pictures = [rebuilt(*frame, source.size) for frame in frames]
        rows[label] = of_all(name, lines, pictures.__getitem__)
    return rows


def sharpest(view: Extracted, size: tuple[int, int], at: Iterable[int]) -> dict[int, Any]:
    """The picture of the finest tokens of each place, after each of these frames."""
    seen, before, pictures = SharpestView(size), b"", {}
    for index in range(max(at) + 1):
        tokens, pixels = view.frame(index)
        places = tokens[["x", "y", "sx", "sy", "extra_width", "extra_height"]].tobytes()
        if places != before:
            seen.add(tokens, pixels)
            before = places
        if index in at:
            pictures[index] = seen.picture.copy()
    return pictures


def raster(source: Scene, columns: int = 4, rows: int = 4) -> Path:
    """A gaze log that looks along rows, four times a second."""
    (width, height), path = source.size, CACHE / f"raster-{columns}x{rows}-{source.size[0]}.log"
    lines: list[dict[str, Any]] = [{"foveate_gaze_log": 2, "view": "scene/raster", "extent": [width, height]}]
    for index in range(columns * rows):
        x, y = (index % columns + 0.5) * width / columns, (index // columns + 0.5) * height / rows
        frame = 1 + round(index * FRAMES / (columns * rows))
        fixation = {"id": index + 1, "x": x, "y": y, "since_frame": frame, "reason": "policy", "weight": 1.0}
        lines.append({"frame": frame, "fixations": [fixation], "relevance": None})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def over_time(name: str) -> dict[str, list[float]]:
    """What is read of a sheet that nobody points at, after each second."""
    picture, lines = drawn_sheet(SHEETS[name])
    source = sheet_scene(name)
    views = {f"v{number}": keys for number, keys in enumerate(LOOKING_AROUND.values())}
    views["raster"] = {"layout": "foveal", "gaze": {"policy": "replay", "log": str(raster(source))}}
    folders = extract(source, views)
    small, middle = shrunk(picture, 273), (source.size[0] / 2, source.size[1] / 2)

    def still(shown: Any) -> list[float]:
        return [of_all(name, lines, lambda _: shown)] * len(SECONDS)

    rows = {
        "shrunk to 273 patches": still(small),
        "a crop of 273 patches, at the centre": still(cropped(picture, middle, 273)),
        "rolling tiles, 273 a frame": [
            of_all(name, lines, lambda _, shown=tiled(picture, 273, frame + 1): shown) for frame in SECONDS.values()
        ],
    }
    for label, view in zip([*LOOKING_AROUND, "`foveal`, a raster scan, 16 fixations"], folders.values()):
        pictures = sharpest(Extracted(view), source.size, list(SECONDS.values()))
        rows[label] = [of_all(name, lines, lambda _, shown=shown: shown) for shown in pictures.values()]
    return rows


def main() -> None:
    for scenes in (list(CHOSEN_ON), list(MEASURED_ON)):
        table = Table(["a line that is looked at", *(f"{name}, {budget}" for budget in BUDGETS for name in scenes)])
        columns = [looks(name, budget) for budget in BUDGETS for name in scenes]
        for label in columns[0]:
            table.row(label, [column[label] for column in columns])
        print(table, end="\n\n")
        head = [*(f"{second} s" for second in SECONDS), *(f"{name}, 4 s" for name in scenes)]
        table = Table(["a sheet, 273 tokens; nobody points", *head])
        sheets = [over_time(name) for name in scenes]
        for label in sheets[0]:
            means = np.mean([sheet[label] for sheet in sheets], axis=0)
            table.row(label, [*means.tolist(), *(sheet[label][-1] for sheet in sheets)])
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
