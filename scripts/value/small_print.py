"""Small print: a line that somebody looks at, and whole sheets that nobody points at."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from common import Scene, Table, cached, covering, font_file, made_scene, photograph
from models import read, share_read
from PIL import Image, ImageDraw, ImageFont
from product import DEFAULT, compared, cropped, looked, rebuilt, seen, shrunk

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


#: Those for choosing settings, and those of the figures.
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
#: After one frame, and some seconds of ten frames.
AT = {"1 frame": 0, "1 s": 9, "2 s": 19, "4 s": 39}


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

    for label, ask in {
        "default settings, `look` at its centre": at_centre,
        "default settings, `look` with its box": at_box,
        "default settings, a map along the line": at_map,
    }.items():
        asked = [ask(number) for number in range(len(boxes))]
        frames = looked(source, {**DEFAULT, "budget": budget}, asked, [ask.__name__, boxes])
        pictures[label] = [rebuilt(*frame, source.size) for frame in frames]
    return {label: share_read(known, shown.__getitem__) for label, shown in pictures.items()}


def over_time(name: str) -> dict[str, dict[str, float]]:
    """What is read of a sheet that nobody points at, over time."""
    source, known = sheet_scene(name), full_lines(name, 1)
    shown = seen(source, list(AT.values()), is_still=True)

    def share(picture: Any) -> float:
        return share_read(known, lambda _: picture)

    return {
        f"`{name}`, {when}": {way: share(pictures[number]) for way, pictures in shown.items()}
        for number, when in enumerate(AT)
    }


def main() -> None:
    for scenes in (MEASURED_ON, CHOSEN_ON):
        measures = {label: values for name in scenes for label, values in over_time(name).items()}
        print(compared("273 tokens, characters read", measures), end="\n\n", flush=True)
    for scenes in (MEASURED_ON, CHOSEN_ON):
        table = Table(["a line that is looked at", *(f"{name}, {budget}" for budget in BUDGETS for name in scenes)])
        print(table.columns([looks(name, budget) for budget in BUDGETS for name in scenes]), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
