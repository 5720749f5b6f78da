"""Signs: the text of whole sheets, read over four seconds of saliency gaze; and which signs it looks at first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import cv2
import numpy as np
from common import ROOT, Scene, Table, made_scene, sign_photograph
from models import read_lines, share_read
from product import Extracted, extract, raster, seen_over_time

#: Ways to look around; the raster scan has 16 fixations, a default number of decisions in four seconds.
VIEWS: dict[str, dict[str, Any]] = {
    "saliency": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "relevance": {"layout": "foveal", "gaze": {"policy": "relevance"}},
    "default settings": {},
    "relevance, and the layout `relevance`": {"layout": "relevance", "gaze": {"policy": "relevance"}},
}
SCORER = str(ROOT / "configs" / "scorers" / "text.safetensors")
PANNED_VIEWS: dict[str, dict[str, Any]] = {
    "saliency": VIEWS["saliency"],
    "relevance": VIEWS["relevance"],
    'relevance, `scorer = "text.safetensors"`': {"layout": "foveal", "gaze": {"policy": "relevance", "scorer": SCORER}},
}
#: Sheets of six photographs of signs each, anywhere and of any size; the first three were looked at while weights were
# chosen.
SHEETS = (1, 2, 3, 4, 5, 6)
#: So many frames are two seconds; a fixation so many pixels beside a sign is on it.
SOON, MARGIN = 20, 8
#: Pixels along both axes by which a camera pans in a frame.
PAN = 3


@cache
def sheet(number: int) -> Any:
    """A sheet of signs, 1920x1080."""
    random = np.random.default_rng(number)
    noise = random.integers(-6, 7, (135, 240, 1)).repeat(8, 0).repeat(8, 1)
    picture = np.clip(np.array((70, 75, 80)) + noise, 0, 255).astype(np.uint8)
    for cell, sign_number in enumerate(random.permutation(6)):
        sign = sign_photograph(sign_number + 1)
        scale = min(640 / sign.shape[1], 540 / sign.shape[0]) * random.uniform(0.55, 0.95)
        width, height = round(sign.shape[1] * scale), round(sign.shape[0] * scale)
        x = cell % 3 * 640 + random.integers(0, 640 - width + 1)
        y = cell // 3 * 540 + random.integers(0, 540 - height + 1)
        picture[y : y + height, x : x + width] = cv2.resize(sign, (width, height), interpolation=cv2.INTER_AREA)
    return picture


def scaled_sign(number: int, width: int) -> Any:
    """A photograph of a sign, scaled to this width."""
    sign = sign_photograph(number)
    scale = width / sign.shape[1]
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return cv2.resize(sign, (width, round(sign.shape[0] * scale)), interpolation=method)


class Pan(NamedTuple):
    """A camera that moves over a picture from a corner towards the one across.

    :ivar name: of the picture.
    :ivar size: width and height of what it sees.
    :ivar corner: whether it begins at the top, and at the left.
    """

    name: str
    picture: Any
    size: tuple[int, int]
    corner: tuple[bool, bool]

    def left_top(self, index: int) -> tuple[int, int]:
        """The corner of what it sees in a frame."""
        room = self.picture.shape[1] - self.size[0], self.picture.shape[0] - self.size[1]
        x, y = (min(PAN * index, most) for most in room)
        is_top, is_left = self.corner
        return x if is_left else room[0] - x, y if is_top else room[1] - y

    def frames(self) -> Iterator[Any]:
        """What it sees."""
        for index in range(SOON):
            x, y = self.left_top(index)
            yield self.picture[y : y + self.size[1], x : x + self.size[0]]

    def scene(self) -> Scene:
        """The scene of its frames."""
        return made_scene(f"pan {self.name} {self.corner[0]:d}{self.corner[1]:d}", self.frames, self.size)


def pans() -> dict[str, list[Pan]]:
    """Cameras over each photograph of a sign in four sizes, and over each sheet."""
    corners = [(is_top, is_left) for is_top in (True, False) for is_left in (True, False)]
    signs = [
        (f"{number} {width}", scaled_sign(number, width)) for number in range(1, 7) for width in (800, 1000, 1300, 1600)
    ]
    sheets = [(f"sheet {number}", sheet(number)) for number in SHEETS]
    return {
        "over one photograph": [Pan(*sign, (640, 480), corner) for sign in signs for corner in corners],
        "over a sheet of six": [Pan(*sheet, (1280, 720), corner) for sheet in sheets for corner in corners],
    }


def signs(pan: Pan) -> list[list[float]]:
    """Boxes of the signs that a camera pans over: lines of text that are less than a line apart are joined."""
    boxes = [list(box) for box, _ in read_lines(pan.name, pan.picture, 2)]

    def are_near(a: list[float], b: list[float]) -> bool:
        gap = min(a[3] - a[1], b[3] - b[1])
        return all(a[axis] - gap < b[axis + 2] and b[axis] - gap < a[axis + 2] for axis in (0, 1))

    index = 0
    while index < len(boxes):
        near = next((other for other in boxes[index + 1 :] if are_near(boxes[index], other)), None)
        if near is None:
            index += 1
            continue
        boxes.remove(near)
        joined = [*map(min, boxes[index][:2], near[:2]), *map(max, boxes[index][2:], near[2:])]
        boxes[index], index = joined, 0
    return boxes


def looked_at(pan: Pan, view: Extracted) -> tuple[int, int]:
    """Of the signs that are in sight for two seconds and do not begin at the centre: how many are fixated in that time, and
    how many there are. In sight is one whose middle is."""
    (width, height), seen, count = pan.size, 0, 0
    for box in signs(pan):
        places = [np.array(box) - np.array(pan.left_top(index) * 2) for index in range(SOON)]
        middles = [(place[:2] + place[2:]) / 2 for place in places]
        x0, y0, x1, y1 = places[0]
        is_at_centre = x0 < width / 2 < x1 and y0 < height / 2 < y1
        if is_at_centre or not all((0 < middle).all() and (middle < pan.size).all() for middle in middles):
            continue
        count += 1
        seen += any(is_fixated(place, view.fixations(index)) for index, place in enumerate(places))
    return seen, count


def is_fixated(place: Any, points: list[tuple[float, float]]) -> bool:
    """Whether a fixation lies on a sign."""
    x0, y0, x1, y1 = place + (-MARGIN, -MARGIN, MARGIN, MARGIN)
    return any(x0 <= x < x1 and y0 <= y < y1 for x, y in points)


def read_over_time(number: int) -> dict[str, float]:
    """The share of a sheet that is read after four seconds."""
    name = f"sheet {number}"
    source = made_scene(name, lambda: [sheet(number)] * 40, (1920, 1080))
    lines = read_lines(name, source.picture(0), 2)
    views = {**VIEWS, "a raster scan, 16 fixations": raster(source, 6, 3)}
    seen = seen_over_time(source, views, [len(source.frames) - 1])
    return {label: share_read(lines, lambda _, shown=pictures[-1]: shown) for label, pictures in seen.items()}


def main() -> None:
    columns = []
    for every in pans().values():
        counts: dict[str, Any] = {label: np.zeros(2, int) for label in PANNED_VIEWS}
        for pan in every:
            for label, view in extract(pan.scene(), PANNED_VIEWS).items():
                counts[label] += looked_at(pan, view)
        columns.append({label: f"{seen} of {count}, {seen / count:.2f}" for label, (seen, count) in counts.items()})
    print(Table(["signs fixated within two seconds, camera panning", *pans()]).columns(columns), end="\n\n")
    head = ["text read over four seconds, 273 tokens", *(f"sheet {number}" for number in SHEETS)]
    print(Table(head).columns([read_over_time(number) for number in SHEETS]))


if __name__ == "__main__":
    main()
