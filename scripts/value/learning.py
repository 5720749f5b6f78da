"""Two clips and their boxes that no scorer and no default of `foveate.learn` was chosen with, for docs/reports/learning.md.

`text`: lines of text before photographs, as posters.py makes them, with other photographs and other fonts. `movers`: things that
drift before a camera that stands still, among some that rest; only those that move have boxes. In both, the second half has other
photographs than the first.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from posters import FRAMES_A_SCENE, SCENES, SIZE, place_for, poster

#: Photographs of scikit-image, of each half.
BEHIND = (("astronaut", "motorcycle_left", "grass", "hubble_deep_field"), ("coffee", "rocket", "brick", "motorcycle_right"))
#: What things are cut out of.
CUT_OUT_OF = (("chelsea", "ihc", "astronaut"), ("retina", "coffee", "gravel"))
FONTS = (("cmr10", "cmss10"), ("cmtt10", "cmb10"))
#: Scenes of movers, frames of each, and standard deviation of the noise in steps.
MOVER_SCENES, MOVER_FRAMES, NOISE = 20, 40, 2.0


def photograph(name: str) -> Any:
    """[height, width, 3], R, G, B."""
    package = importlib.util.find_spec("skimage")
    if package is None or package.submodule_search_locations is None:
        raise ImportError("scikit-image is not installed: `pip install --no-deps scikit-image` fetches its photographs")
    folder = Path(package.submodule_search_locations[0]) / "data"
    path = next(path for path in sorted(folder.glob(f"{name}.*")) if path.suffix in (".png", ".jpg"))
    return cv2.cvtColor(cv2.imread(str(path), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def background(chance: Any, half: int, room: tuple[int, int]) -> Any:
    """A photograph that fills `room`, columns and rows, as floats."""
    behind = photograph(str(chance.choice(BEHIND[half])))
    scale = max(room[0] / behind.shape[1], room[1] / behind.shape[0])
    size = int(np.ceil(behind.shape[1] * scale)), int(np.ceil(behind.shape[0] * scale))
    behind = cv2.resize(behind, size, interpolation=cv2.INTER_CUBIC)[: room[1], : room[0]]
    return (behind[:, ::-1] if chance.random() < 0.5 else behind).astype(np.float64)


def text(chance: Any) -> Iterator[tuple[Any, Any]]:
    """Frames and their boxes, [N, 4]."""
    room = SIZE[0] + 96, SIZE[1] + 48
    for number in range(SCENES):
        half = int(number >= SCENES // 2)
        picture, found, taken = background(chance, half, room), [np.zeros((0, 4))], []
        for _ in range(chance.integers(2, 6)):
            thing, boxes = poster(chance, FONTS[half])
            at = place_for(chance, (thing.shape[1], thing.shape[0]), room, taken)
            if at is not None:
                paste(picture, thing, *at)
                found.append(boxes + np.tile(at, 2))
        pan = chance.integers(-8, 9, 2)
        for step in range(FRAMES_A_SCENE):
            left, top = np.clip((48, 24) + step * pan, 0, (96, 48))
            seen = picture[top : top + SIZE[1], left : left + SIZE[0]]
            yield seen, np.concatenate(found) - (left, top, left, top)


def paste(picture: Any, thing: Any, left: int, top: int) -> None:
    """Puts a picture with a fourth channel, how far it covers, in front of another; it may hang over the edges."""
    x0, y0 = max(0, -left), max(0, -top)
    x1, y1 = min(thing.shape[1], picture.shape[1] - left), min(thing.shape[0], picture.shape[0] - top)
    if x0 < x1 and y0 < y1:
        part = picture[top + y0 : top + y1, left + x0 : left + x1]
        part += (thing[y0:y1, x0:x1, :3] - part) * (thing[y0:y1, x0:x1, 3:] / 255)


def thing_of(chance: Any, half: int) -> Any:
    """An ellipse of a photograph, R, G, B and how far it covers."""
    source = photograph(str(chance.choice(CUT_OUT_OF[half])))
    width, height = int(chance.integers(24, 81)), int(chance.integers(32, 111))
    x, y = chance.integers(0, (source.shape[1] - width, source.shape[0] - height))
    cover = np.zeros((height, width), np.uint8)
    cv2.ellipse(cover, (width // 2, height // 2), (width // 2 - 1, height // 2 - 1), 0, 0, 360, 255, -1, cv2.LINE_AA)
    return np.dstack([source[y : y + height, x : x + width], cover])


def movers(chance: Any) -> Iterator[tuple[Any, Any]]:
    """Frames and the boxes of what moves in them, [N, 4]."""
    for number in range(MOVER_SCENES):
        half = int(number >= MOVER_SCENES // 2)
        behind = background(chance, half, SIZE)
        for _ in range(3):
            paste(behind, thing_of(chance, half), *map(int, chance.integers(0, (SIZE[0] - 80, SIZE[1] - 110))))
        things = [thing_of(chance, half) for _ in range(chance.integers(3, 7))]
        places = [chance.integers((0, 0), (SIZE[0] - 80, SIZE[1] - 110)).astype(float) for _ in things]
        steps = [chance.uniform(2, 8) * np.array([np.cos(turn), np.sin(turn)]) for turn in chance.uniform(0, 6.28, len(things))]
        for _ in range(MOVER_FRAMES):
            picture, boxes = behind.copy(), []
            for index, (thing, step) in enumerate(zip(things, steps)):
                places[index] = places[index] + step
                left, top = map(int, places[index].round())
                paste(picture, thing, left, top)
                boxes.append((left, top, left + thing.shape[1], top + thing.shape[0]))
            yield picture + chance.normal(0, NOISE, picture.shape), np.array(boxes, np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("text", "movers"))
    parser.add_argument("clip", type=Path, help="the clip, Motion JPEG in AVI")
    parser.add_argument("boxes", type=Path, help="the MOT text")
    given = parser.parse_args()
    make, rate = {"text": (text, 4), "movers": (movers, 10)}[given.kind]
    writer = cv2.VideoWriter(str(given.clip), cv2.VideoWriter_fourcc(*"MJPG"), rate, SIZE)
    writer.set(cv2.VIDEOWRITER_PROP_QUALITY, 92)
    count, lines = 0, []
    for picture, boxes in make(np.random.default_rng(11)):
        count += 1
        writer.write(cv2.cvtColor(np.clip(picture.round(), 0, 255).astype(np.uint8), cv2.COLOR_RGB2BGR))
        for box in np.clip(boxes, 0, (*SIZE, *SIZE)):
            width, height = box[2:] - box[:2]
            if width >= 1 and height >= 1:
                lines.append(f"{count},-1,{box[0]:.1f},{box[1]:.1f},{width:.1f},{height:.1f}\n")
    writer.release()
    given.boxes.write_text("".join(lines))
    print(f"{count} frames, {len(lines)} boxes")


if __name__ == "__main__":
    main()
