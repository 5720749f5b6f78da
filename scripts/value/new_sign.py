"""Characters read of signs that appear, some frames later, and whether a fixation is at them then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Scene, Table, covering, font_file, four_cameras, made_scene, photograph
from models import share_read
from PIL import Image, ImageDraw, ImageFont
from product import CANVAS, DEFAULT, Extracted, Keys, compared, extract, seen

SIZE = (1280, 720)
#: Of the sign, in pixels.
SIGN = (84, 44)
#: Times that signs appear in a scene, frames between the first frames of two, and frames for which one is there: 2 s.
TIMES, PITCH, SHOWN, BEFORE = 10, 26, 20, 12
FRAMES = BEFORE + TIMES * PITCH
#: How many signs appear at once in each scene, and the standard deviation of the camera's noise in levels.
SCENES = {"still": 1, "pair": 2, "panning": 1, "walkers": 1}
NOISE = {"still": 0.0, "pair": 1.5, "panning": 0.0, "walkers": 0.0}
#: Of the scenes, the seed that settings were chosen with, and the one of the figures.
CHOSEN_ON, MEASURED_ON = 5, 6
#: Frames after which they are read.
AFTER = (0, 1, 2, 5, 19)
#: The views whose fixations are compared with the signs.
VIEWS: dict[str, Keys] = {"default settings": DEFAULT, "a view with a canvas": CANVAS, "`foveal`": {"layout": "foveal"}}
#: Pixels that the camera pans in a frame.
PAN = 3


def sign(number: int) -> Any:
    """A plate with a number, [height, width, 3]."""
    plate = Image.new("RGB", SIGN, ((240, 215, 40), (235, 235, 235), (180, 30, 35), (25, 70, 160))[number % 4])
    font = ImageFont.truetype(font_file("DejaVuSans-Bold"), 26)
    draw, ink = ImageDraw.Draw(plate), (20, 20, 20) if number % 4 < 2 else (245, 245, 245)
    draw.rectangle((1, 1, SIGN[0] - 2, SIGN[1] - 2), outline=ink, width=2)
    draw.text((SIGN[0] / 2, SIGN[1] / 2), text(number), font=font, fill=ink, anchor="mm")
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
    chance = np.random.default_rng([seed, list(SCENES).index(name)])
    margin = PAN * SHOWN if name == "panning" else 0
    room = SIZE[0] - SIGN[0] - 2 * margin, SIZE[1] - SIGN[1]
    x, y = [(margin + int(chance.integers(0, room[0])), int(chance.integers(0, room[1]))) for _ in range(number + 1)][-1]
    x -= drift(name, index) - drift(name, first(number // SCENES[name]))
    return x, y, x + SIGN[0], y + SIGN[1]


def text(number: int) -> str:
    """What a sign says."""
    return str(4000 + 37 * number)


def frames(name: str, seed: int) -> Iterator[Any]:
    """The pictures of a scene in which signs appear, one time after another."""
    chance = np.random.default_rng(seed)
    if name != "walkers":
        room = SIZE[0] + 600 if name == "panning" else SIZE[0]
        behind = covering(photograph("leuvenA.jpg" if name in ("still", "panning") else "home.jpg"), (room, SIZE[1]))
    else:
        walkers = four_cameras("walkers" if seed == CHOSEN_ON else "apart")
    for index in range(FRAMES):
        left = drift(name, index)
        if name == "walkers":
            # There and back, so that nobody jumps.
            at = index % (2 * len(walkers.frames) - 2)
            frame = walkers.picture(min(at, 2 * len(walkers.frames) - 2 - at))[: SIZE[1], : SIZE[0]].copy()
        else:
            frame = behind[: SIZE[1], left : left + SIZE[0]].copy()
        time = (index - BEFORE) // PITCH
        if index >= BEFORE and index - first(time) < SHOWN:
            for number in range(time * SCENES[name], (time + 1) * SCENES[name]):
                x0, y0, x1, y1 = box(name, seed, number, index)
                frame[y0:y1, x0:x1] = sign(number)
        if NOISE[name]:
            noise = NOISE[name] * chance.standard_normal(frame.shape, np.float32)
            frame = np.clip(np.round(frame + noise), 0, 255).astype(np.uint8)
        yield frame


def sign_scene(name: str, seed: int) -> Scene:
    """One of the scenes."""
    return made_scene(f"signs {name} {seed}", partial(frames, name, seed), SIZE)


def by_delay(name: str, seed: int) -> dict[str, dict[str, float]]:
    """What is read of the signs of a scene, some frames after they appeared."""
    source = sign_scene(name, seed)
    at = [first(time) + passed for time in range(TIMES) for passed in AFTER]
    shown = seen(source, at)

    def share(pictures: list[Any], passed: int) -> float:
        lines, places = [], []
        for number in range(TIMES * SCENES[name]):
            index = first(number // SCENES[name]) + passed
            lines.append((box(name, seed, number, index), text(number)))
            places.append(at.index(index))
        return share_read(lines, lambda line: pictures[places[line]])

    return {
        f"`{name}`, {passed} frames later": {way: share(pictures, passed) for way, pictures in shown.items()}
        for passed in AFTER
    }


def at_fixations(names: Iterable[str], seed: int) -> Table:
    """The share of the signs in whose box a fixation is, and what is read of these and of the others."""
    head = "signs with a fixation; characters read of these; of the others"
    table = Table([head, *(f"{passed} later" for passed in AFTER)])
    for name in names:
        source = sign_scene(name, seed)
        for label, view in extract(source, VIEWS).items():
            table.row(f"`{name}`, {label}", [at_fixation(name, seed, source, view, passed) for passed in AFTER])
    return table


def at_fixation(name: str, seed: int, source: Scene, view: Extracted, passed: int) -> str:
    """A cell of it: some frames after signs appeared."""
    looked_at: list[list[float]] = [[], []]
    for number in range(TIMES * SCENES[name]):
        index = first(number // SCENES[name]) + passed
        x0, y0, x1, y1 = place = box(name, seed, number, index)
        at, picture = view.fixations(index), view.drawn(source, index)
        is_at = bool(((at >= (x0, y0)) & (at < (x1, y1))).all(axis=1).any())
        looked_at[is_at].append(share_read([(place, text(number))], lambda _, picture=picture: picture))
    others, these = looked_at
    shares = [f"{np.mean(some):.2f}" if some else "-" for some in (these, others)]
    return " ".join((f"{len(these) / (len(these) + len(others)):.2f}", *shares))


def main() -> None:
    for seed in (MEASURED_ON, CHOSEN_ON):
        print(at_fixations(SCENES, seed), end="\n\n", flush=True)
        measures = {label: values for name in SCENES for label, values in by_delay(name, seed).items()}
        print(compared("273 tokens, characters read", measures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
