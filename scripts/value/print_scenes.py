"""Sheets of small print: lines of text of one height, in groups, before a photograph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from common import Scene, covering, font_file, made_scene, photograph
from PIL import Image, ImageDraw, ImageFont

SIZE = (1920, 1080)
FRAMES = 40
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


#: Those of the first tuple are for choosing settings, those of the second for the figures.
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
#: Groups of lines: columns and rows of cells, and how many of these have one.
COLUMNS, ROWS, GROUPS, LINES = 4, 4, 7, 3


class Line(NamedTuple):
    """A line of text and its box (x0, y0, x1, y1)."""

    text: str
    box: tuple[int, int, int, int]


def drawn_sheet(sheet: Sheet) -> tuple[Any, list[Line]]:
    """The picture [height, width, 3] and its lines."""
    chance = np.random.default_rng(sheet.seed)
    picture = Image.fromarray(covering(photograph(sheet.behind), SIZE))
    font, lines = ImageFont.truetype(font_file(sheet.font), round(sheet.height * 0.86)), []
    for cell in sorted(chance.permutation(COLUMNS * ROWS)[:GROUPS].tolist()):
        lines += _group(picture, chance, font, sheet, cell)
    return np.array(picture), lines


def _group(picture: Any, chance: Any, font: Any, sheet: Sheet, cell: int) -> list[Line]:
    texts = [_line(chance, sheet.letters) for _ in range(LINES)]
    pitch, margin = round(sheet.height * 1.25), sheet.height // 2
    width = round(max(font.getlength(text) for text in texts)) + 2 * margin
    height = pitch * LINES + margin
    column, row = cell % COLUMNS, cell // COLUMNS
    left = column * SIZE[0] // COLUMNS + int(chance.integers(0, max(1, SIZE[0] // COLUMNS - width)))
    top = row * SIZE[1] // ROWS + int(chance.integers(0, max(1, SIZE[1] // ROWS - height)))
    is_light = chance.random() < 0.7
    paper, ink = ((235, 232, 225), (30, 32, 40)) if is_light else ((40, 52, 70), (230, 230, 224))
    draw, lines = ImageDraw.Draw(picture), []
    draw.rectangle((left, top, left + width, top + height), fill=paper)
    for number, text in enumerate(texts):
        x, y = left + margin, top + margin // 2 + number * pitch
        draw.text((x, y), text, font=font, fill=ink)
        x0, y0, x1, y1 = draw.textbbox((x, y), text, font=font)
        lines.append(Line(text, (int(x0) - 3, int(y0) - 3, int(x1) + 4, int(y1) + 4)))
    return lines


def _line(chance: Any, letters: tuple[int, int]) -> str:
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
    sheet = {**CHOSEN_ON, **MEASURED_ON}[name]
    return made_scene(name, lambda: [drawn_sheet(sheet)[0]] * FRAMES, SIZE, [3, 9, 19, 29, 39])
