"""Clips and their boxes that scorers are learned from and judged with (docs/reports/learning.md).

`posters`: photographs with lines of text and signs in front of them. `lines`: the same without signs, with other photographs
and other fonts. `movers`: things that drift before a camera that stands still, among some that rest; only those that move
have boxes. No scorer and no default of `foveate.learn` was chosen with the last two. In each, the second half has other
photographs than the first.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from common import covering, font_file, photograph, sign_photograph
from models import lines_in
from PIL import Image, ImageDraw, ImageFont

SIZE = (1024, 576)
#: Scenes of text: they are larger than a frame, which moves over them.
SCENES, FRAMES_A_SCENE, ROOM = 160, 6, (SIZE[0] + 96, SIZE[1] + 48)
#: Scenes of movers, frames of each, and standard deviation of the noise in steps.
MOVER_SCENES, MOVER_FRAMES, NOISE = 20, 40, 2.0
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Posters(NamedTuple):
    """Of each half: photographs behind, fonts, and photographs of signs, by number; and how many posters a scene has."""

    behind: tuple[tuple[str, ...], tuple[str, ...]]
    fonts: tuple[tuple[str, ...], tuple[str, ...]]
    signs: tuple[tuple[int, ...], tuple[int, ...]] | None
    count: tuple[int, int]


POSTERS = Posters(
    behind=(
        (
            "aero1.jpg",
            "apple.jpg",
            "baboon.jpg",
            "building.jpg",
            "fruits.jpg",
            "leuvenA.jpg",
            "blox.jpg",
            "starry_night.jpg",
        ),
        ("aloeL.jpg", "butterfly.jpg", "home.jpg", "orange.jpg", "squirrel_cls.jpg", "stuff.jpg", "rubberwhale1.png"),
    ),
    fonts=(
        ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSans-Oblique", "STIXGeneral"),
        ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono-Bold", "STIXGeneralBol", "DejaVuSerif-Italic"),
    ),
    signs=((1, 2, 3), (4, 5, 6)),
    count=(1, 5),
)
LINES = Posters(
    behind=(
        ("astronaut", "motorcycle_left", "grass", "hubble_deep_field"),
        ("coffee", "rocket", "brick", "motorcycle_right"),
    ),
    fonts=(("cmr10", "cmss10"), ("cmtt10", "cmb10")),
    signs=None,
    count=(2, 6),
)
#: What movers are cut out of.
CUT_OUT_OF = (("chelsea", "ihc", "astronaut"), ("retina", "coffee", "gravel"))


def picture_of(name: str) -> Any:
    """A photograph of OpenCV's examples, or without an ending one of scikit-image."""
    if "." in name:
        return photograph(name)
    package = importlib.util.find_spec("skimage")
    if package is None or package.submodule_search_locations is None:
        raise ImportError("scikit-image is not installed: `pip install --no-deps scikit-image` fetches its photographs")
    folder = Path(package.submodule_search_locations[0]) / "data"
    return photograph(next(path for path in sorted(folder.glob(f"{name}.*")) if path.suffix in (".png", ".jpg")))


def background(chance: Any, names: tuple[str, ...], room: tuple[int, int]) -> Any:
    """A photograph that fills `room`, columns and rows, as floats."""
    behind = covering(picture_of(str(chance.choice(names))), room)
    return (behind[:, ::-1] if chance.random() < 0.5 else behind).astype(np.float64)


def paste(picture: Any, thing: Any, left: int, top: int) -> None:
    """Puts a picture with a fourth channel, how far it covers, in front of another; it may hang over the edges."""
    x0, y0 = max(0, -left), max(0, -top)
    x1, y1 = min(thing.shape[1], picture.shape[1] - left), min(thing.shape[0], picture.shape[0] - top)
    if x0 < x1 and y0 < y1:
        part = picture[top + y0 : top + y1, left + x0 : left + x1]
        part += (thing[y0:y1, x0:x1, :3] - part) * (thing[y0:y1, x0:x1, 3:] / 255)


def words(chance: Any) -> str:
    """Something that looks like a line of text."""
    lengths = chance.integers(2, 9, chance.integers(1, 4))
    return " ".join("".join(chance.choice(list(LETTERS), length)) for length in lengths)


def poster(chance: Any, fonts: tuple[str, ...]) -> tuple[Any, Any]:
    """A picture with a few lines, R, G, B and how far it covers, and their boxes [N, 4] in it."""
    height = int(np.exp(chance.uniform(np.log(10), np.log(44))))
    font = ImageFont.truetype(font_file(chance.choice(fonts)), height)
    texts = [words(chance) for _ in range(chance.integers(1, 5))]
    margin, step = height // 2, int(height * 1.4)
    width = int(max(font.getlength(text) for text in texts)) + 2 * margin
    ink, paper = chance.integers(0, 256, 3), chance.integers(0, 256, 3)
    if abs(ink.mean() - paper.mean()) < 70:
        ink = np.full(3, 255 if paper.mean() < 128 else 0)
    is_bare = chance.random() < 0.3
    picture = Image.new("RGBA", (width, step * len(texts) + margin), (*map(int, paper), 0 if is_bare else 255))
    pen, boxes = ImageDraw.Draw(picture), []
    for row, text in enumerate(texts):
        at = margin, margin // 2 + row * step
        pen.text(at, text, font=font, fill=(*map(int, ink), 255))
        boxes.append(pen.textbbox(at, text, font=font))
    return np.array(picture), np.array(boxes, np.float64)


@cache
def sign_with_lines(number: int) -> tuple[Any, Any]:
    """A photograph of a sign and the boxes of the lines that PP-OCR finds in it."""
    picture = sign_photograph(number)
    return picture, lines_in(picture)


def sign(chance: Any, numbers: tuple[int, ...]) -> tuple[Any, Any]:
    """A smaller photograph of a sign, and its lines."""
    picture, boxes = sign_with_lines(int(chance.choice(numbers)))
    scale = chance.uniform(0.35, 0.9) * 480 / picture.shape[0]
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.dstack([small, np.full(small.shape[:2], 255, np.uint8)]), boxes * scale


def place_for(chance: Any, size: tuple[int, int], taken: list[Any]) -> Any:
    """A free place for an item of this width and height; None if no place was found."""
    for _ in range(20):
        spare = np.array(ROOM) - size
        if (spare <= 0).any():
            return None
        at = chance.integers(0, spare)
        box = np.concatenate([at, at + size])
        if all((box[2:] <= other[:2]).any() or (other[2:] <= box[:2]).any() for other in taken):
            taken.append(box)
            return at
    return None


def poster_scene(chance: Any, kind: Posters, half: int) -> tuple[Any, Any]:
    """A picture larger than a frame, and the boxes of its lines."""
    picture = background(chance, kind.behind[half], ROOM)
    found, taken = [np.zeros((0, 4))], []
    things = [sign(chance, kind.signs[half])] if kind.signs and chance.random() < 0.5 else []
    things += [poster(chance, kind.fonts[half]) for _ in range(chance.integers(*kind.count))]
    for thing, boxes in things:
        at = place_for(chance, (thing.shape[1], thing.shape[0]), taken)
        if at is not None:
            paste(picture, thing, *at)
            found.append(boxes + np.tile(at, 2))
    return picture.astype(np.uint8), np.concatenate(found)


def posters(chance: Any, kind: Posters) -> Iterator[tuple[Any, Any]]:
    """Frames and the boxes of their lines, [N, 4]."""
    for number in range(SCENES):
        picture, boxes = poster_scene(chance, kind, int(number >= SCENES // 2))
        pan = chance.integers(-8, 9, 2)
        for step in range(FRAMES_A_SCENE):
            left, top = np.clip((48, 24) + step * pan, 0, (96, 48))
            yield picture[top : top + SIZE[1], left : left + SIZE[0]], boxes - (left, top, left, top)


def mover(chance: Any, half: int) -> Any:
    """An ellipse of a photograph, R, G, B and how far it covers."""
    source = picture_of(str(chance.choice(CUT_OUT_OF[half])))
    width, height = int(chance.integers(24, 81)), int(chance.integers(32, 111))
    x, y = chance.integers(0, (source.shape[1] - width, source.shape[0] - height))
    cover = np.zeros((height, width), np.uint8)
    cv2.ellipse(cover, (width // 2, height // 2), (width // 2 - 1, height // 2 - 1), 0, 0, 360, 255, -1, cv2.LINE_AA)
    return np.dstack([source[y : y + height, x : x + width], cover])


def movers(chance: Any) -> Iterator[tuple[Any, Any]]:
    """Frames and the boxes of what moves in them, [N, 4]."""
    spare = SIZE[0] - 80, SIZE[1] - 110
    for number in range(MOVER_SCENES):
        half = int(number >= MOVER_SCENES // 2)
        behind = background(chance, LINES.behind[half], SIZE)
        for _ in range(3):
            paste(behind, mover(chance, half), *map(int, chance.integers(0, spare)))
        things = [mover(chance, half) for _ in range(chance.integers(3, 7))]
        places = [chance.integers((0, 0), spare).astype(float) for _ in things]
        steps = [
            chance.uniform(2, 8) * np.array([np.cos(turn), np.sin(turn)])
            for turn in chance.uniform(0, 6.28, len(things))
        ]
        for _ in range(MOVER_FRAMES):
            picture, boxes = behind.copy(), []
            for index, (thing, step) in enumerate(zip(things, steps, strict=True)):
                places[index] = places[index] + step
                left, top = map(int, places[index].round())
                paste(picture, thing, left, top)
                boxes.append((left, top, left + thing.shape[1], top + thing.shape[0]))
            yield picture + chance.normal(0, NOISE, picture.shape), np.array(boxes, np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("posters", "lines", "movers"))
    parser.add_argument("clip", help="the clip, Motion JPEG in AVI")
    parser.add_argument("boxes", type=Path, help="the MOT text")
    given = parser.parse_args()
    # Text at as many frames a second as a gaze decides by default.
    if given.kind == "movers":
        frames, rate = movers(np.random.default_rng(11)), 10
    elif given.kind == "lines":
        frames, rate = posters(np.random.default_rng(11), LINES), 4
    else:
        frames, rate = posters(np.random.default_rng(7), POSTERS), 4
    writer = cv2.VideoWriter(given.clip, cv2.VideoWriter_fourcc(*"MJPG"), rate, SIZE)
    writer.set(cv2.VIDEOWRITER_PROP_QUALITY, 92)
    lines = []
    for count, (picture, boxes) in enumerate(frames, 1):
        writer.write(cv2.cvtColor(np.clip(picture.round(), 0, 255).astype(np.uint8), cv2.COLOR_RGB2BGR))
        for x0, y0, x1, y1 in np.clip(boxes, 0, (*SIZE, *SIZE)):
            if x1 - x0 >= 1 and y1 - y0 >= 1:
                lines.append(f"{count},-1,{x0:.1f},{y0:.1f},{x1 - x0:.1f},{y1 - y0:.1f}\n")
    writer.release()
    given.boxes.write_text("".join(lines))
    print(f"{count} frames, {len(lines)} boxes")


if __name__ == "__main__":
    main()
