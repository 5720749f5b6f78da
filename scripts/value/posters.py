"""A clip of photographs with text in front of them, and the boxes of its lines: what a scorer of text is learned from.

The second half has other photographs, other fonts and other signs than the first. Every six frames the scene is another.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import matplotlib
import numpy as np
from common import CACHE, lines_in
from PIL import Image, ImageDraw, ImageFont

SIZE = (1024, 576)
SCENES, FRAMES_A_SCENE = 160, 6
#: As often as a gaze decides by default.
FRAMES_A_SECOND = 4
#: Of each half: what is behind, the fonts, and photographs of signs (by number).
BEHIND = (
    ("aero1.jpg", "apple.jpg", "baboon.jpg", "building.jpg", "fruits.jpg", "leuvenA.jpg", "blox.jpg", "starry_night.jpg"),
    ("aloeL.jpg", "butterfly.jpg", "home.jpg", "orange.jpg", "squirrel_cls.jpg", "stuff.jpg", "rubberwhale1.png"),
)
FONTS = (
    ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSans-Oblique", "STIXGeneral"),
    ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono-Bold", "STIXGeneralBol", "DejaVuSerif-Italic"),
)
SIGNS = ((1, 2, 3), (4, 5, 6))
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def photograph(name: str) -> Any:
    """[height, width, 3], R, G, B."""
    return cv2.cvtColor(cv2.imread(str(CACHE / "pictures" / name)), cv2.COLOR_BGR2RGB)


def words(chance: Any) -> str:
    """Something that looks like a line of text."""
    lengths = chance.integers(2, 9, chance.integers(1, 4))
    return " ".join("".join(chance.choice(list(LETTERS), length)) for length in lengths)


def poster(chance: Any, fonts: tuple[str, ...]) -> tuple[Any, Any]:
    """A picture with a few lines, R, G, B and how far it covers, and their boxes [N, 4] in it."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    height = int(np.exp(chance.uniform(np.log(10), np.log(44))))
    font = ImageFont.truetype(str(folder / f"{chance.choice(fonts)}.ttf"), height)
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


@lru_cache
def with_lines(number: int) -> tuple[Any, Any]:
    """A photograph of a sign and the boxes of its lines."""
    picture = photograph(f"scenetext0{number}.jpg")
    return picture, lines_in(picture)


def sign(chance: Any, numbers: tuple[int, ...]) -> tuple[Any, Any]:
    """A photograph of a sign, and the lines that PP-OCR finds in it."""
    picture, boxes = with_lines(int(chance.choice(numbers)))
    scale = chance.uniform(0.35, 0.9) * 480 / picture.shape[0]
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.dstack([small, np.full(small.shape[:2], 255, np.uint8)]), boxes * scale


def place_for(chance: Any, size: tuple[int, int], room: tuple[int, int], taken: list[Any]) -> Any:
    """A free place for an item of this width and height; None if no place was found."""
    for _ in range(20):
        spare = np.array(room) - size
        if (spare <= 0).any():
            return None
        at = chance.integers(0, spare)
        box = np.concatenate([at, at + size])
        if all((box[2:] <= other[:2]).any() or (other[2:] <= box[:2]).any() for other in taken):
            taken.append(box)
            return at
    return None


def scene(chance: Any, half: int) -> tuple[Any, Any]:
    """A picture larger than a frame, and the boxes of its lines."""
    room = SIZE[0] + 96, SIZE[1] + 48
    behind = photograph(str(chance.choice(BEHIND[half])))
    scale = max(room[0] / behind.shape[1], room[1] / behind.shape[0])
    behind = cv2.resize(behind, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    picture = behind[: room[1], : room[0]].astype(np.float64)
    if chance.random() < 0.5:
        picture = picture[:, ::-1].copy()
    found, taken = [np.zeros((0, 4))], []
    things = [sign(chance, SIGNS[half])] if chance.random() < 0.5 else []
    things += [poster(chance, FONTS[half]) for _ in range(chance.integers(1, 5))]
    for thing, boxes in things:
        at = place_for(chance, (thing.shape[1], thing.shape[0]), (picture.shape[1], picture.shape[0]), taken)
        if at is None:
            continue
        part = picture[at[1] : at[1] + thing.shape[0], at[0] : at[0] + thing.shape[1]]
        share = thing[..., 3:] / 255
        part += (thing[..., :3] - part) * share
        found.append(boxes + np.tile(at, 2))
    return picture.astype(np.uint8), np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clip", type=Path, help="the clip, Motion JPEG in AVI")
    parser.add_argument("boxes", type=Path, help="the MOT text")
    given = parser.parse_args()
    chance, lines = np.random.default_rng(7), []
    writer = cv2.VideoWriter(str(given.clip), cv2.VideoWriter_fourcc(*"MJPG"), FRAMES_A_SECOND, SIZE)
    writer.set(cv2.VIDEOWRITER_PROP_QUALITY, 92)
    for number in range(SCENES):
        picture, boxes = scene(chance, int(number >= SCENES // 2))
        pan = chance.integers(-8, 9, 2)
        at = np.array([48, 24])
        for step in range(FRAMES_A_SCENE):
            frame = number * FRAMES_A_SCENE + step + 1
            left, top = at + step * pan
            left, top = min(max(left, 0), picture.shape[1] - SIZE[0]), min(max(top, 0), picture.shape[0] - SIZE[1])
            seen = picture[top : top + SIZE[1], left : left + SIZE[0]]
            writer.write(cv2.cvtColor(seen, cv2.COLOR_RGB2BGR))
            for box in np.clip(boxes - (left, top, left, top), 0, (*SIZE, *SIZE)):
                width, height = box[2:] - box[:2]
                if width >= 1 and height >= 1:
                    lines.append(f"{frame},-1,{box[0]:.1f},{box[1]:.1f},{width:.1f},{height:.1f}\n")
    writer.release()
    given.boxes.write_text("".join(lines))
    print(f"{SCENES * FRAMES_A_SCENE} frames, {len(lines)} boxes")


if __name__ == "__main__":
    main()
