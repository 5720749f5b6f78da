"""Small print: a line that somebody looks at, and whole sheets that nobody points at."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import (
    LOOKING_AROUND,
    ROOT,
    Extracted,
    Table,
    cached,
    cropped,
    extract,
    font_file,
    raster,
    read,
    rebuilt,
    seen_over_time,
    share_read,
    sharpest,
    shrunk,
)
from live import Look, looked
from PIL import Image, ImageDraw, ImageFont
from print_scenes import CHOSEN_ON, MEASURED_ON, Line, drawn_sheet, sheet_scene

BUDGETS = (273, 160, 96)
#: Of a sheet's 21 lines every second is looked at.
EVERY = 2
#: The frames after each second of the sheets, ten a second.
SECONDS = {1: 9, 2: 19, 3: 29, 4: 39}
#: A consumer's view as before the default layout.
FOVEAL: dict[str, Any] = {"layout": "foveal", "gaze": {"policy": "feedback"}}
#: Columns over rows of a crop that is cut along a line, as far as the line asks for it.
LONG = 4.0
SHEETS = {**CHOSEN_ON, **MEASURED_ON}
#: Of the picture of a sheet: its width, the height of a title, and the part of the sheet that is shown twice as large.
PAGE, TITLE, PART = 960, 22, (480, 85)


def centre(line: Line) -> tuple[float, float]:
    """Of its box."""
    x0, y0, x1, y1 = line.box
    return (x0 + x1) / 2, (y0 + y1) / 2


def full_lines(name: str, every: int) -> list[tuple[Any, str]]:
    """Boxes of every so many lines of a sheet, and what is read there in the full picture."""
    picture, lines = drawn_sheet(SHEETS[name])
    boxes = [line.box for line in lines[::every]]
    texts = cached("print", [name, boxes], lambda: {"texts": np.array([read(picture, box) for box in boxes])})["texts"]
    return list(zip(boxes, map(str, texts)))


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
    lines, source, known = every_line[::EVERY], sheet_scene(name), full_lines(name, EVERY)
    crops = {"a crop around its centre": 1.0, "a crop twice as wide as high": 2.0, "a crop along the line": LONG}
    small = shrunk(picture, budget)
    rows = {"shrunk to as many patches": share_read(known, lambda _: small)}
    for label, aspect in crops.items():
        pictures = [cropped(picture, centre(line), budget, aspect) for line in lines]
        rows[label] = share_read(known, pictures.__getitem__)
    views: dict[str, tuple[dict[str, Any], list[Look]]] = {
        "default settings, `look` at its centre": ({}, [Look(point=centre(line)) for line in lines]),
        "default settings, `look` with its box": ({}, [Look(point=centre(line), box=line.box) for line in lines]),
        "`foveal`, `look` at its centre": (FOVEAL, [Look(point=centre(line)) for line in lines]),
        "`foveal`, a map along the line": (FOVEAL, [Look(weights=line_map(line, source.size)) for line in lines]),
    }
    for label, (keys, sent) in views.items():
        pictures = [rebuilt(*frame, source.size) for frame in looked(source, {**keys, "budget": budget}, sent)]
        rows[label] = share_read(known, pictures.__getitem__)
    return rows


def over_time(name: str) -> dict[str, list[float]]:
    """What is read of a sheet that nobody points at, after each second."""
    source, known = sheet_scene(name), full_lines(name, 1)
    views = {**LOOKING_AROUND, "`foveal`, a raster scan, 16 fixations": raster(source, 4, 4)}
    seen = seen_over_time(source, views, list(SECONDS.values()))
    return {
        label: [share_read(known, lambda _, shown=shown: shown) for shown in pictures] for label, pictures in seen.items()
    }


def draw(name: str) -> None:
    """Draws where default settings look in the first second, and a group of lines, shrunk and as seen by then."""
    source, first = sheet_scene(name), drawn_sheet(SHEETS[name])[1][0]
    x0, y0 = (max(0, int(at) - 16) for at in first.box[:2])
    view = Extracted(extract(source, {"view": {}})["view"])

    def part(picture: Any) -> Any:
        cut = picture[y0 : y0 + PART[1], x0 : x0 + PART[0]]
        return Image.fromarray(np.ascontiguousarray(cut)).resize((2 * PART[0], 2 * PART[1]), Image.Resampling.NEAREST)

    scale = PAGE / source.size[0]
    sheet = Image.fromarray(source.picture(0)).resize((PAGE, round(source.size[1] * scale)), Image.Resampling.LANCZOS)
    path = [(x * scale, y * scale) for index in range(10) for x, y in view.fixations(index)]
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype(font_file("DejaVuSans"), 13)
    draw.line(path, (255, 60, 40), 2)
    for number, (x, y) in enumerate(path, 1):
        draw.ellipse((x - 10, y - 10, x + 10, y + 10), (255, 60, 40))
        draw.text((x, y), str(number), "white", font, anchor="mm")
    panels = {
        "The gaze in the first ten frames": sheet,
        "A part of the sheet, shrunk to 273 patches": part(shrunk(source.picture(0), 273)),
        "The same part after ten frames of 273 patches each": part(sharpest(view, source.size, [9])[0]),
    }
    page = Image.new("RGB", (PAGE, sum(TITLE + panel.height for panel in panels.values())), "white")
    draw, y = ImageDraw.Draw(page), 0
    for title, panel in panels.items():
        draw.text((2, y + 3), title, "black", font)
        page.paste(panel, (0, y + TITLE))
        y += TITLE + panel.height
    page.quantize(192).save(ROOT / "docs" / "images" / "value-sheet.png", optimize=True)


def main() -> None:
    draw(next(iter(MEASURED_ON)))
    for scenes in (list(CHOSEN_ON), list(MEASURED_ON)):
        table = Table(["a line that is looked at", *(f"{name}, {budget}" for budget in BUDGETS for name in scenes)])
        print(table.columns([looks(name, budget) for budget in BUDGETS for name in scenes]), end="\n\n")
        head = [*(f"{second} s" for second in SECONDS), *(f"{name}, 4 s" for name in scenes)]
        table = Table(["a sheet, 273 tokens; nobody points", *head])
        sheets = [over_time(name) for name in scenes]
        for label in sheets[0]:
            means = np.mean([sheet[label] for sheet in sheets], axis=0)
            table.row(label, [*means.tolist(), *(sheet[label][-1] for sheet in sheets)])
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
