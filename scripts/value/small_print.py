"""Small print: a line that somebody looks at, and whole sheets that nobody points at."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from common import ROOT, Scene, Table, cached, covering, font_file, made_scene, photograph
from models import read, share_read
from PIL import Image, ImageDraw, ImageFont
from product import LOOKING_AROUND, cropped, extract, looked, raster, rebuilt, seen_over_time, sharpest, shrunk

SIZE, FRAMES = (1920, 1080), 40
WORDS = (
    "platform departs arrives ticket counter closed opening hours monday tuesday friday weekend entrance exit stairs "
    "lift floor room office reception please notice keep clear private parking visitors only push pull water bread "
    "butter coffee apples pears rice flour price weight store below degrees fragile handle with care batch made in "
    "serial number model voltage warning danger high pressure valve pump filter motor left right north south line bus "
    "tram street market bridge station harbour library museum school garden north wing ground second third level"
).split()


class Sheet(NamedTuple):
    """How a sheet is made.

    :ivar height: of the letters, ascender to descender, in pixels.
    :ivar letters: least and most letters of a line.
    """

    seed: int
    height: int
    letters: tuple[int, int]
    behind: str
    font: str


#: Those of the first table are for choosing settings, those of the second for the figures.
CHOSEN_ON = {
    "print 13": Sheet(11, 13, (22, 34), "building.jpg", "DejaVuSans"),
    "print 18": Sheet(12, 18, (16, 26), "fruits.jpg", "DejaVuSerif"),
    "print 30": Sheet(13, 30, (9, 15), "aero1.jpg", "DejaVuSans-Bold"),
}
MEASURED_ON = {
    "print 15": Sheet(21, 15, (22, 34), "home.jpg", "STIXGeneral"),
    "print 20": Sheet(22, 20, (14, 22), "stuff.jpg", "DejaVuSansMono"),
    "print 31": Sheet(23, 31, (9, 15), "leuvenA.jpg", "DejaVuSerif-Bold"),
}
SHEETS = {**CHOSEN_ON, **MEASURED_ON}
#: Groups of lines: columns and rows of cells, and how many of these have one.
COLUMNS, ROWS, GROUPS, LINES = 4, 4, 7, 3

BUDGETS = (273, 160, 96)
#: Of a sheet's 21 lines every second is looked at.
EVERY = 2
#: The frames after each second of the sheets, ten a second.
SECONDS = {1: 9, 2: 19, 3: 29, 4: 39}
#: A consumer's view as before the default layout.
FOVEAL: dict[str, Any] = {"layout": "foveal", "gaze": {"policy": "feedback"}}
#: Of the picture of a sheet: its width, the height of a title, and the part of the sheet that is shown twice as large.
PAGE, TITLE, PART = 960, 22, (480, 85)


@cache
def drawn_sheet(name: str) -> tuple[Any, list[tuple[int, int, int, int]]]:
    """The picture [height, width, 3] and the boxes (x0, y0, x1, y1) of its lines."""
    sheet = SHEETS[name]
    chance = np.random.default_rng(sheet.seed)
    picture = Image.fromarray(covering(photograph(sheet.behind), SIZE))
    font, boxes = ImageFont.truetype(font_file(sheet.font), round(sheet.height * 0.86)), []
    for cell in sorted(chance.permutation(COLUMNS * ROWS)[:GROUPS].tolist()):
        boxes += group(picture, chance, font, sheet, cell)
    return np.array(picture), boxes


def group(picture: Any, chance: Any, font: Any, sheet: Sheet, cell: int) -> list[tuple[int, int, int, int]]:
    """Draws a group of lines, and returns their boxes."""
    texts = [line(chance, sheet.letters) for _ in range(LINES)]
    pitch, margin = round(sheet.height * 1.25), sheet.height // 2
    width = round(max(font.getlength(text) for text in texts)) + 2 * margin
    height = pitch * LINES + margin
    column, row = cell % COLUMNS, cell // COLUMNS
    left = column * SIZE[0] // COLUMNS + int(chance.integers(0, max(1, SIZE[0] // COLUMNS - width)))
    top = row * SIZE[1] // ROWS + int(chance.integers(0, max(1, SIZE[1] // ROWS - height)))
    is_light = chance.random() < 0.7
    paper, ink = ((235, 232, 225), (30, 32, 40)) if is_light else ((40, 52, 70), (230, 230, 224))
    draw, boxes = ImageDraw.Draw(picture), []
    draw.rectangle((left, top, left + width, top + height), fill=paper)
    for number, text in enumerate(texts):
        x, y = left + margin, top + margin // 2 + number * pitch
        draw.text((x, y), text, font=font, fill=ink)
        x0, y0, x1, y1 = draw.textbbox((x, y), text, font=font)
        boxes.append((int(x0) - 3, int(y0) - 3, int(x1) + 4, int(y1) + 4))
    return boxes


def line(chance: Any, letters: tuple[int, int]) -> str:
    """Words of so many letters together."""
    least, most = letters
    while True:
        words = [str(word) for word in chance.choice(WORDS, 6)]
        if chance.random() < 0.5:
            words.insert(int(chance.integers(0, 3)), str(chance.integers(10, 9999)))
        for count in range(1, len(words) + 1):
            text = " ".join(words[:count])
            if least <= len(text) <= most:
                return text


def sheet_scene(name: str) -> Scene:
    """The sheet as a still scene of 4 s."""
    return made_scene(name, lambda: [drawn_sheet(name)[0]] * FRAMES, SIZE)


def full_lines(name: str, every: int) -> list[tuple[Any, str]]:
    """Boxes of every so many lines of a sheet, and what is read there in the full picture."""
    picture, boxes = drawn_sheet(name)
    boxes = boxes[::every]
    texts = cached("print", [name, boxes], lambda: {"texts": np.array([read(picture, box) for box in boxes])})["texts"]
    return list(zip(boxes, map(str, texts), strict=True))


def line_map(box: Any, size: tuple[int, int]) -> Any:
    """1 in the cells that a line touches, 0 elsewhere; 120 cells along the longer side."""
    cell = max(size) / 120
    weights = np.zeros((round(size[1] / cell), round(size[0] / cell)), np.float32)
    x0, y0, x1, y1 = (np.array(box) / cell).tolist()
    weights[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = 1
    return weights


def looks(name: str, budget: int) -> dict[str, float]:
    """What is read of lines that a consumer looks at one by one."""
    source, known = sheet_scene(name), full_lines(name, EVERY)
    boxes = [box for box, _ in known]
    centres = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in boxes]
    picture = source.picture(0)
    small = shrunk(picture, budget)
    pictures = {"shrunk to as many patches": [small] * len(boxes)}
    for label, aspect in {
        "a crop around its centre": 1.0,
        "a crop twice as wide as high": 2.0,
        "a crop along the line": 4.0,
    }.items():
        pictures[label] = [cropped(picture, centre, budget, aspect) for centre in centres]

    def at_centre(number: int) -> Any:
        return lambda view, _: view.look_at([centres[number]], for_ms=60_000)

    def at_box(number: int) -> Any:
        return lambda view, _: view.look(box=boxes[number], for_ms=60_000)

    def at_map(number: int) -> Any:
        return lambda view, frame: view.attend(line_map(boxes[number], source.size), frame=frame)

    views: dict[str, tuple[dict[str, Any], Any]] = {
        "default settings, `look` at its centre": ({}, at_centre),
        "default settings, `look` with its box": ({}, at_box),
        "`foveal`, `look` at its centre": (FOVEAL, at_centre),
        "`foveal`, a map along the line": (FOVEAL, at_map),
    }
    for label, (keys, ask) in views.items():
        asked = [ask(number) for number in range(len(boxes))]
        frames = looked(source, {**keys, "budget": budget}, asked, [ask.__name__, boxes])
        pictures[label] = [rebuilt(*frame, source.size) for frame in frames]
    return {label: share_read(known, shown.__getitem__) for label, shown in pictures.items()}


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
    source = sheet_scene(name)
    x0, y0 = (max(0, int(at) - 16) for at in drawn_sheet(name)[1][0][:2])
    view = extract(source, {"view": {}})["view"]

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
    for scenes in (CHOSEN_ON, MEASURED_ON):
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
