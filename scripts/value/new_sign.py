"""Frames until a sign that appears is sharp: every pixel of it in a token of full resolution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import matplotlib
import numpy as np
from common import CACHE, LOOKING_AROUND, Extracted, Scene, extract, made_scene, scene, step_map
from PIL import Image, ImageDraw, ImageFont
from table import Table

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
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"
    draw, ink = ImageDraw.Draw(plate), (20, 20, 20) if number % 4 < 2 else (245, 245, 245)
    draw.rectangle((1, 1, SIGN[0] - 2, SIGN[1] - 2), outline=ink, width=2)
    draw.text((SIGN[0] / 2, SIGN[1] / 2), str(4000 + 37 * number), font=ImageFont.truetype(str(path), 26), fill=ink, anchor="mm")
    return np.array(plate)


def places(name: str, seed: int) -> list[tuple[int, int]]:
    """Left and top of each sign in its first frame; a panning camera has it in sight for all of its frames."""
    chance = np.random.default_rng([seed, SCENES.index(name)])
    margin = PAN * SHOWN if name == "panning" else 0
    room = SIZE[0] - SIGN[0] - 2 * margin, SIZE[1] - SIGN[1]
    return [(margin + int(chance.integers(0, room[0])), int(chance.integers(0, room[1]))) for _ in range(SIGNS)]


def drift(name: str, index: int) -> int:
    """Pixels that the camera of a scene has panned to the right, there and back."""
    way = PAN * index % 1200
    return min(way, 1200 - way) if name == "panning" else 0


def box(name: str, seed: int, number: int, index: int) -> tuple[int, int, int, int]:
    """Of a sign in a frame."""
    x, y = places(name, seed)[number]
    x -= drift(name, index) - drift(name, first(number))
    return x, y, x + SIGN[0], y + SIGN[1]


def first(number: int) -> int:
    """Index of the first frame with a sign."""
    return BEFORE + number * PITCH


def _frames(name: str, seed: int) -> Iterator[Any]:
    if name != "walkers":
        photograph = cv2.cvtColor(cv2.imread(str(CACHE / "pictures" / "leuvenA.jpg")), cv2.COLOR_BGR2RGB)
        width = SIZE[0] if name == "still" else SIZE[0] + 600
        scale = max(width / photograph.shape[1], SIZE[1] / photograph.shape[0])
        photograph = cv2.resize(photograph, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    else:
        walkers = scene("walkers" if seed == SEEDS["chosen on"] else "apart")
    for index in range(FRAMES):
        left = drift(name, index)
        if name == "walkers":
            # There and back, so that nobody jumps.
            at = index % (2 * len(walkers.frames) - 2)
            frame = walkers.picture(min(at, 2 * len(walkers.frames) - 2 - at))[: SIZE[1], : SIZE[0]].copy()
        else:
            frame = photograph[: SIZE[1], left : left + SIZE[0]].copy()
        number = (index - BEFORE) // PITCH
        if index >= BEFORE and index - first(number) < SHOWN:
            x0, y0, x1, y1 = box(name, seed, number, index)
            frame[y0:y1, x0:x1] = sign(number)
        yield frame


def sign_scene(name: str, seed: int) -> Scene:
    """A scene in which signs appear, one after another."""
    return made_scene(f"sign {name} {seed}", partial(_frames, name, seed), SIZE, [])


def frames_until_sharp(view: Extracted, name: str, seed: int) -> list[int | None]:
    """Of each sign, the frames until it is wholly sharp, 0 at once; None if it is not within two seconds."""
    waits: list[int | None] = []
    for number in range(SIGNS):
        wait = None
        for passed in range(SHOWN):
            index = first(number) + passed
            x0, y0, x1, y1 = box(name, seed, number, index)
            if step_map(view.frame(index)[0], SIZE)[y0:y1, x0:x1].max() <= 1:
                wait = passed
                break
        waits.append(wait)
    return waits


def told(waits: list[int | None]) -> str:
    """Median frames, the share within 5 frames, and the share that is never sharp."""
    order = sorted(SHOWN if wait is None else wait for wait in waits)
    median = (order[(len(order) - 1) // 2] + order[len(order) // 2]) / 2
    soon = sum(wait <= 5 for wait in order) / len(order)
    never = sum(wait is None for wait in waits) / len(waits)
    return f"{'never' if median >= SHOWN else f'{median:g}'} ({soon:.2f}, {never:.2f})"


def main() -> None:
    for what, seed in SEEDS.items():
        table = Table([f"{what}: median frames until sharp (share within 5, share never)", *SCENES])
        rows: dict[str, list[str]] = {label: [] for label in LOOKING_AROUND}
        for name in SCENES:
            folders = extract(sign_scene(name, seed), {f"v{at}": keys for at, keys in enumerate(LOOKING_AROUND.values())})
            for label, folder in zip(LOOKING_AROUND, folders.values()):
                rows[label].append(told(frames_until_sharp(Extracted(folder), name, seed)))
        for label, cells in rows.items():
            table.row(label, cells)
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
