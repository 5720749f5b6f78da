"""Boxes of objects, frame by frame, from the text of the MOT challenges or the JSON of COCO."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import Unlearnable


class Truth(NamedTuple):
    """Where the objects of a clip are.

    :ivar boxes: of a frame, counted from 1, [N, 4] float64: x0, y0, x1, y1 in source pixels, half-open. A frame without
        any is not in it.
    :ivar looked_at: the frames that somebody looked for objects in; None for all.
    :ivar left_out: boxes that the file says are not to be counted.
    """

    boxes: dict[int, NDArray[np.float64]]
    looked_at: frozenset[int] | None
    left_out: int

    def of(self, frame: int) -> NDArray[np.float64]:
        """[N, 4], the boxes of a frame."""
        return self.boxes.get(frame, np.zeros((0, 4)))

    def knows(self, frame: int) -> bool:
        """Whether somebody looked for objects in a frame."""
        return self.looked_at is None or frame in self.looked_at


def read(path: Path, frame_count: int, size: tuple[int, int]) -> Truth:
    """The boxes in a file, whose first character says which of the two it is.

    :param frame_count: frames of the clip.
    :param size: its width and height in pixels.
    :raises Unlearnable: if the file is malformed, does not fit the clip, or has no box.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unlearnable(f"the boxes {path} cannot be read: {error}") from error
    parse = _coco if text.lstrip().startswith(("{", "[")) else _mot
    truth = parse(path, text, _Clip(frame_count, *size))
    if not truth.boxes:
        raise Unlearnable(f"{path} has no box that counts: give the boxes of what is to be found")
    return truth


class _Clip(NamedTuple):
    frame_count: int
    width: int
    height: int

    def checked_frame(self, frame: int, where: str) -> int:
        if not 1 <= frame <= self.frame_count:
            raise Unlearnable(
                f"{where}: frame {frame}, but the clip has the frames 1 to {self.frame_count}: "
                "give the boxes of this clip, with frames counted from 1"
            )
        return frame

    def checked_box(self, x: float, y: float, width: float, height: float, where: str) -> tuple[float, ...]:
        """x0, y0, x1, y1, cut at the edges of the picture."""
        if not all(map(math.isfinite, (x, y, width, height))):
            raise Unlearnable(f"{where}: the box {x:g}, {y:g}, {width:g}, {height:g} is not finite")
        if width <= 0 or height <= 0:
            raise Unlearnable(f"{where}: the box is {width:g} x {height:g} pixels: both sides must be above 0")
        x0, y0, x1, y1 = max(0.0, x), max(0.0, y), min(self.width, x + width), min(self.height, y + height)
        if x1 <= x0 or y1 <= y0:
            raise Unlearnable(
                f"{where}: the box at {x:g}, {y:g} lies outside the picture of {self.width} x {self.height} pixels: "
                "give boxes in pixels of this clip, not of a scaled one"
            )
        return x0, y0, x1, y1


def _truth(found: dict[int, list[tuple[float, ...]]], looked_at: frozenset[int] | None, left_out: int) -> Truth:
    return Truth({frame: np.array(boxes, np.float64) for frame, boxes in found.items()}, looked_at, left_out)


def _mot(path: Path, text: str, clip: _Clip) -> Truth:
    """Lines of frame, id, x, y, width, height, and perhaps confidence, class and visibility. What has a confidence of 0 is
    not counted."""
    found: dict[int, list[tuple[float, ...]]] = {}
    left_out = 0
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        words = line.split(",")
        if len(words) < 6:
            raise Unlearnable(f"{where}: {line.strip()[:60]!r}: expected frame,id,x,y,width,height")
        try:
            values = [float(word) for word in words if word.strip()]
        except ValueError:
            values = []
        if len(values) != len(words):
            raise Unlearnable(f"{where}: {line.strip()[:60]!r}: expected numbers with commas between")
        if not values[0].is_integer():
            raise Unlearnable(f"{where}: the frame {values[0]:g} is not a whole number")
        frame = clip.checked_frame(int(values[0]), where)
        box = clip.checked_box(values[2], values[3], values[4], values[5], where)
        if len(values) > 6 and values[6] == 0:
            left_out += 1
        else:
            found.setdefault(frame, []).append(box)
    return _truth(found, None, left_out)


def _coco(path: Path, text: str, clip: _Clip) -> Truth:
    """Frames are those of ``frame_id`` if each image has it, counted from 1, or from 0 if one is 0; else images are in the
    natural order of their names. What ``iscrowd`` is not counted."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Unlearnable(f"{path} is neither COCO JSON ({error}) nor lines of frame,id,x,y,width,height") from error
    images, annotations = (_list(document, key, path) for key in ("images", "annotations"))
    frames = _frames(path, images, clip)
    found: dict[int, list[tuple[float, ...]]] = {}
    left_out = 0
    for index, annotation in enumerate(annotations):
        where = f"{path}, annotations[{index}]"
        frame = frames.get(_id(annotation.get("image_id"), where, "image_id"))
        if frame is None:
            raise Unlearnable(f"{where}: its image_id {annotation['image_id']!r} is not the id of any image")
        bbox = annotation.get("bbox")
        if not (isinstance(bbox, list) and len(bbox) == 4 and all(map(_is_number, bbox))):
            raise Unlearnable(f"{where}: its bbox is {bbox!r}: expected [x, y, width, height]")
        box = clip.checked_box(bbox[0], bbox[1], bbox[2], bbox[3], where)
        if annotation.get("iscrowd"):
            left_out += 1
        else:
            found.setdefault(frame, []).append(box)
    return _truth(found, frozenset(frames.values()), left_out)


def _frames(path: Path, images: list[dict[str, Any]], clip: _Clip) -> dict[Any, int]:
    """By the id of an image its frame, counted from 1."""
    has_frame_id = bool(images) and all("frame_id" in image for image in images)
    for index, image in enumerate(images):
        where = f"{path}, images[{index}]"
        _id(image.get("id"), where, "id")
        key = "frame_id" if has_frame_id else "file_name"
        if not isinstance(image.get(key), int if has_frame_id else str) or isinstance(image[key], bool):
            raise Unlearnable(f"{where}: its {key} is {image.get(key)!r}: each image needs a frame_id, or each a file_name")
        size = image.get("width", clip.width), image.get("height", clip.height)
        if size != (clip.width, clip.height):
            raise Unlearnable(f"{where}: it is {size[0]} x {size[1]} pixels, but the clip is {clip.width} x {clip.height}")
    if has_frame_id:
        shift = int(min(image["frame_id"] for image in images) == 0)
        numbers = [(image, image["frame_id"] + shift) for image in images]
    else:
        ordered = sorted(images, key=lambda image: _natural(image["file_name"]))
        numbers = [(image, number) for number, image in enumerate(ordered, 1)]
    frames: dict[Any, int] = {}
    for image, number in numbers:
        where = f"{path}, the image {image['id']!r}"
        if image["id"] in frames or number in frames.values():
            raise Unlearnable(f"{where}: its id or its frame {number} is another image's, too")
        frames[image["id"]] = clip.checked_frame(number, where)
    return frames


def _list(document: Any, key: str, path: Path) -> list[dict[str, Any]]:
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unlearnable(f"{path} is no COCO JSON: expected an object with a list of objects `{key}`")
    return items


def _id(value: Any, where: str, key: str) -> Any:
    if not isinstance(value, (int, str)):
        raise Unlearnable(f"{where}: its {key} is {value!r}: expected a number")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _natural(name: str) -> list[Any]:
    """A key of an order in which 2.png is before 10.png."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
