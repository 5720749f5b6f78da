"""Frames until a sign that appears is sharp: every pixel of it in a token of full resolution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from common import Table, covering, font_file, four_cameras, made_scene, photograph
from PIL import Image, ImageDraw, ImageFont
from product import LOOKING_AROUND, Extracted, extract, step_map

SIZE = (1280, 720)
#: Of the sign, in pixels.
SIGN = (84, 44)
#: Signs of a scene, frames between the first frames of two, and frames for which one is there: 2 s.
SIGNS, PITCH, SHOWN, BEFORE = 10, 26, 20, 12
FRAMES = BEFORE + SIGNS * PITCH
#: Of the scenes, the seed that settings were chosen with, and the one of the figures.
SEEDS = {"chosen on": 5, "measured on": 6}
SCENES = ("still", "panning", "walkers")
#: Pixels that the camera pans in a frame.
PAN = 3


def sign(number: int) -> Any:
    """A plate with a number, [height, width, 3]."""
    plate = Image.new("RGB", SIGN, ((240, 215, 40), (235, 235, 235), (180, 30, 35), (25, 70, 160))[number % 4])
    font = ImageFont.truetype(font_file("DejaVuSans-Bold"), 26)
    draw, ink = ImageDraw.Draw(plate), (20, 20, 20) if number % 4 < 2 else (245, 245, 245)
    draw.rectangle((1, 1, SIGN[0] - 2, SIGN[1] - 2), outline=ink, width=2)
    draw.text((SIGN[0] / 2, SIGN[1] / 2), str(4000 + 37 * number), font=font, fill=ink, anchor="mm")
    return np.array(plate)


def first(number: int) -> int:
    """Index of the first frame with a sign."""
    return BEFORE + number * PITCH


def drift(name: str, index: int) -> int:
    """Pixels that the camera of a scene has panned to the right, there and back."""
    way = PAN * index % 1200
    return min(way, 1200 - way) if name == "panning" else 0


def box(name: str, seed: int, number: int, index: int) -> tuple[int, int, int, int]:
    """Of a sign in a frame; a panning camera has it in sight for all of its frames."""
    chance = np.random.default_rng([seed, SCENES.index(name)])
    margin = PAN * SHOWN if name == "panning" else 0
    room = SIZE[0] - SIGN[0] - 2 * margin, SIZE[1] - SIGN[1]
    x, y = [(margin + int(chance.integers(0, room[0])), int(chance.integers(0, room[1]))) for _ in range(number + 1)][-1]
    x -= drift(name, index) - drift(name, first(number))
    return x, y, x + SIGN[0], y + SIGN[1]


def frames(name: str, seed: int) -> Iterator[Any]:
    """The pictures of a scene in which signs appear, one after another."""
    if name != "walkers":
        behind = covering(photograph("leuvenA.jpg"), (SIZE[0] if name == "still" else SIZE[0] + 600, SIZE[1]))
    else:
        walkers = four_cameras("walkers" if seed == SEEDS["chosen on"] else "apart")
    for index in range(FRAMES):
        left = drift(name, index)
        if name == "walkers":
            # There and back, so that nobody jumps.
            at = index % (2 * len(walkers.frames) - 2)
            frame = walkers.picture(min(at, 2 * len(walkers.frames) - 2 - at))[: SIZE[1], : SIZE[0]].copy()
        else:
            frame = behind[: SIZE[1], left : left + SIZE[0]].copy()
        number = (index - BEFORE) // PITCH
        if index >= BEFORE and index - first(number) < SHOWN:
            x0, y0, x1, y1 = box(name, seed, number, index)
            frame[y0:y1, x0:x1] = sign(number)
        yield frame


def frames_until_sharp(view: Extracted, name: str, seed: int, number: int) -> int:
    """The frames until a sign is wholly sharp, 0 at once; `SHOWN` if it never is."""
    for passed in range(SHOWN):
        index = first(number) + passed
        x0, y0, x1, y1 = box(name, seed, number, index)
        if step_map(view.frame(index)[0], SIZE)[y0:y1, x0:x1].max() <= 1:
            return passed
    return SHOWN


def told(waits: list[int]) -> str:
    """Median frames, the share within 5 frames, and the share that is never sharp."""
    soon, never = (sum(is_so) / len(waits) for is_so in ([wait <= 5 for wait in waits], [wait == SHOWN for wait in waits]))
    return f"{'never' if median(waits) >= SHOWN else f'{median(waits):g}'} ({soon:.2f}, {never:.2f})"


def by_view(name: str, seed: int) -> dict[str, str]:
    """Of each view, how soon signs are sharp in a scene."""
    views = extract(made_scene(f"sign {name} {seed}", partial(frames, name, seed), SIZE), LOOKING_AROUND)
    return {
        label: told([frames_until_sharp(view, name, seed, number) for number in range(SIGNS)])
        for label, view in views.items()
    }


def main() -> None:
    for what, seed in SEEDS.items():
        table = Table([f"{what}: median frames until sharp (share within 5, share never)", *SCENES])
        print(table.columns([by_view(name, seed) for name in SCENES]), end="\n\n")


if __name__ == "__main__":
    main()
