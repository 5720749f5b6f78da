"""Characters read of a line that somebody types into an editor full of text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from common import Scene, font_file, made_scene
from models import read, share_read
from PIL import Image, ImageDraw, ImageFont
from product import compared, seen
from small_print import WORDS

SIZE = (1920, 1080)


class Editor(NamedTuple):
    """What the editor looks like.

    :ivar height: of a line in pixels.
    """

    seed: int
    height: int
    font: str
    paper: tuple[int, int, int]
    ink: tuple[int, int, int]


CHOSEN_ON = {
    "editor 1": Editor(51, 24, "DejaVuSansMono", (250, 250, 248), (40, 42, 54)),
    "editor 2": Editor(52, 20, "DejaVuSansMono", (30, 31, 38), (215, 215, 205)),
}
MEASURED_ON = {
    "editor 3": Editor(61, 22, "DejaVuSansMono-Bold", (253, 246, 227), (88, 110, 117)),
    "editor 4": Editor(62, 26, "DejaVuSerif", (255, 255, 255), (0, 0, 0)),
    "editor 5": Editor(63, 19, "DejaVuSansMono", (40, 44, 52), (171, 178, 191)),
}
EDITORS = {**CHOSEN_ON, **MEASURED_ON}
#: Pixels right of the side bar, and frames before the first character; then two come with each frame, and one line after
#: another.
LEFT, BEFORE, SPEED, TYPED = 330, 12, 2, 4
#: Characters of a typed line, and frames that a line rests when it is complete.
LETTERS, REST = 32, 10
#: A line is read when it is complete, and a second later.
AFTER = {"when it is complete": 0, "1 s later": REST}
#: Frames for which one line is typed and rests.
PITCH = LETTERS // SPEED + REST


def text_line(chance: Any, letters: int) -> str:
    """Words of so many letters together."""
    return " ".join(str(word) for word in chance.choice(WORDS, letters))[:letters].rstrip().ljust(letters, ".")


def lines_of(name: str) -> list[tuple[int, str]]:
    """The typed lines: row and text."""
    editor = EDITORS[name]
    chance, rows = np.random.default_rng(editor.seed), SIZE[1] // editor.height - 2
    return [(int(row), text_line(chance, LETTERS)) for row in chance.permutation(rows)[:TYPED]]


def pictures_of(name: str) -> Iterator[Any]:
    """The frames."""
    editor, typed = EDITORS[name], lines_of(name)
    chance = np.random.default_rng([editor.seed, 1])
    font = ImageFont.truetype(font_file(editor.font), round(editor.height * 0.68))
    screen = Image.new("RGB", SIZE, editor.paper)
    draw = ImageDraw.Draw(screen)
    shade: Any = tuple(int(0.9 * paper + 0.1 * ink) for paper, ink in zip(editor.paper, editor.ink, strict=True))
    draw.rectangle((0, 0, LEFT - 20, SIZE[1]), fill=shade)
    for row in range(SIZE[1] // editor.height - 1):
        y = 8 + row * editor.height
        if row % 2 == 0:
            draw.text((16, y), text_line(chance, int(chance.integers(8, 20))), font=font, fill=editor.ink)
        if row not in dict(typed):
            indent = 4 * int(chance.integers(0, 5))
            draw.text((LEFT, y), " " * indent + text_line(chance, int(chance.integers(20, 90))), font=font, fill=editor.ink)
    for _ in range(BEFORE):
        yield np.array(screen)
    for row, text in typed:
        y = 8 + row * editor.height
        for count in range(SPEED, LETTERS + 1, SPEED):
            draw.rectangle((LEFT, y, SIZE[0], y + editor.height - 1), fill=editor.paper)
            draw.text((LEFT, y), text[:count], font=font, fill=editor.ink)
            yield np.array(screen)
        for _ in range(REST):
            yield np.array(screen)


def box_of(name: str, row: int, text: str) -> tuple[int, int, int, int]:
    """Of a typed line."""
    editor = EDITORS[name]
    font = ImageFont.truetype(font_file(editor.font), round(editor.height * 0.68))
    width, top = round(font.getlength(text)), 8 + row * editor.height
    return LEFT - 4, top - 3, LEFT + width + 5, top + editor.height


def editor_scene(name: str) -> Scene:
    """The frames of an editor."""
    return made_scene(name, partial(pictures_of, name), SIZE)


def by_delay(name: str) -> dict[str, dict[str, float]]:
    """What is read of each line, of what is read in the full picture."""
    source, lines = editor_scene(name), lines_of(name)
    complete = [BEFORE + number * PITCH + LETTERS // SPEED - 1 for number in range(TYPED)]
    at = [index + passed for index in complete for passed in AFTER.values()]
    shown = seen(source, at)
    measures = {}
    for number, when in enumerate(AFTER):
        boxes = [box_of(name, row, text) for row, text in lines]
        full = shown["full"][number :: len(AFTER)]
        known = [(box, read(picture, box)) for box, picture in zip(boxes, full, strict=True)]
        measures[f"`{name}`, {when}"] = {
            way: share_read(known, pictures[number :: len(AFTER)].__getitem__) for way, pictures in shown.items()
        }
    return measures


def main() -> None:
    for names in (MEASURED_ON, CHOSEN_ON):
        measures = {label: values for name in names for label, values in by_delay(name).items()}
        print(compared("273 tokens, characters read", measures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
