"""Boxes of the walkers of vtest.avi, as MOT text: those of tests/capture/walkers.rs, by background subtraction."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from common import CACHE, clip_frames

#: Side of a cell in pixels, and every so many frames count for the background.
CELL, BACKGROUND_STEP = 4, 8
#: Differences that make a cell foreground: of luma, and of both chroma planes together.
LUMA, CHROMA = 22, 14
#: Fewest cells of a walker, and fewest rows of them.
LEAST_CELLS, LEAST_ROWS = 24, 6
#: Frames that a walker may be out of sight; after which he takes the size of his blob; and fewest in sight.
MISSED_MAX, NARROW_MAX, LEAST_FRAMES = 5, 3, 20


class Walker:
    """Of one walker the boxes [4] (x0, y0, x1, y1), from the frame of index `first` on."""

    def __init__(self, first: int, box: Any) -> None:
        self.first, self.boxes = first, [box]
        self.velocity, self.missed, self.narrow = np.zeros(2), 0, 0

    def predicted(self) -> Any:
        """Where he is expected next."""
        return self.boxes[-1] + np.tile(self.velocity, 2)

    def go_on(self, to: Any) -> None:
        """He is there now."""
        step = (to[:2] + to[2:] - self.boxes[-1][:2] - self.boxes[-1][2:]) / 2
        self.velocity = 0.7 * self.velocity + 0.3 * step
        self.boxes.append(to)


def area(box: Any) -> float:
    """In pixels."""
    return float(max(box[2] - box[0], 0) * max(box[3] - box[1], 0))


def common_part(a: Any, b: Any) -> float:
    """Pixels in both."""
    return area(np.concatenate([np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])]))


def belongs(fragment: Any, predicted: Any) -> bool:
    """Whether most of a blob is where a walker is expected."""
    return 0.6 * area(fragment) < common_part(fragment, predicted)


def may_become(before: Any, now: Any) -> bool:
    """Whether somebody who filled one box fills the other a frame later."""
    return bool((now[2:] - now[:2] < 1.35 * np.maximum(before[2:] - before[:2], 28)).all())


def kept_in(box: Any, other: Any) -> Any:
    """Moved as little as it takes to lie in the other, as far as it fits."""
    fits = other[2:] - other[:2] <= box[2:] - box[:2]
    middle = (other[:2] + other[2:] - box[:2] - box[2:]) / 2
    inside = np.maximum(other[:2] - box[:2], 0) + np.minimum(other[2:] - box[2:], 0)
    return box + np.tile(np.where(fits, middle, inside), 2)


def cells(frame: Any) -> Any:
    """Luma and both chroma planes of each cell, [rows, columns, 3]."""
    height, width = frame.shape[:2]
    planes = cv2.cvtColor(frame, cv2.COLOR_RGB2YUV_I420).reshape(-1)
    luma, chroma = planes[: height * width].reshape(height, width), planes[height * width :]
    found = []
    for plane in (luma, *chroma.reshape(2, height // 2, width // 2)):
        side = plane.shape[1] * CELL // width
        rows, columns = plane.shape[0] // side, plane.shape[1] // side
        found.append(plane.reshape(rows, side, columns, side).sum((1, 3), dtype=np.int64) // side**2)
    return np.stack(found, axis=-1)


def blobs(frame: Any, background: Any) -> list[Any]:
    """Boxes of what differs."""
    differs = np.abs(frame - background)
    foreground = ((differs[..., 0] > LUMA) | (differs[..., 1] + differs[..., 2] > CHROMA)).astype(np.uint8)
    # A dark coat on a grey path leaves gaps. Pixels beyond the edges do not count.
    closed = cv2.erode(cv2.dilate(foreground, np.ones((5, 3))), np.ones((5, 3)))
    _, _, statistics, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    found = []
    for left, top, width, height, count in statistics[1:]:
        if count >= LEAST_CELLS and height >= LEAST_ROWS:
            found.append(((top, left), np.array([left, top, left + width, top + height], np.float64) * CELL))
    return [box for _, box in sorted(found, key=lambda item: item[0])]


def matched(predicted: list[Any], found: list[Any]) -> list[int | None]:
    """In which blob each walker is found. Several share one only if it has room for more than the one that it fits best."""
    pairs = []
    for walker, box in enumerate(predicted):
        for blob, place in enumerate(found):
            shared = common_part(box, place)
            if 0.3 * min(area(box), area(place)) < shared:
                pairs.append((-shared / (area(box) + area(place) - shared), walker, blob))
    where: list[int | None] = [None] * len(predicted)
    room, is_taken = [area(place) for place in found], [False] * len(found)
    for _, walker, blob in sorted(pairs):
        if where[walker] is None and (not is_taken[blob] or 0.4 * area(predicted[walker]) < room[blob]):
            where[walker], is_taken[blob] = blob, True
            room[blob] -= area(predicted[walker])
    return where


def follow(walkers: list[Walker], found: list[Any], index: int) -> None:
    """Advances to the next frame: finds the known walkers in its blobs, and new ones."""
    predicted = [walker.predicted() for walker in walkers]
    where = matched(predicted, found)
    for walker, expected, blob in zip(walkers, predicted, where):
        size = walker.boxes[-1]
        if blob is None:
            walker.missed += 1
            walker.boxes.append(expected)
            continue
        walker.missed, whole = 0, found[blob]
        for part, place in enumerate(found):
            if part not in where and belongs(place, expected):
                whole = np.concatenate([np.minimum(whole[:2], place[:2]), np.maximum(whole[2:], place[2:])])
        is_shared = where.count(blob) > 1
        grown = next((place for place in (whole, found[blob]) if may_become(size, place)), None)
        walker.narrow = 0 if is_shared or grown is not None else walker.narrow + 1
        if grown is not None and not is_shared:
            walker.go_on(grown)
        elif grown is None and walker.narrow > NARROW_MAX:
            walker.go_on(found[blob])
        else:
            walker.go_on(kept_in(expected, found[blob]))
    for blob, place in enumerate(found):
        if blob not in where and not any(belongs(place, other) for other in predicted):
            walkers.append(Walker(index, place))


def walkers_of(frames: list[Any]) -> list[Walker]:
    """Everybody who is in sight for two seconds."""
    small = [cells(frame) for frame in frames]
    every = np.sort(np.stack(small[::BACKGROUND_STEP]), axis=0)
    background = every[len(every) // 2]
    gone: list[Walker] = []
    there: list[Walker] = []
    for index, frame in enumerate(small):
        follow(there, blobs(frame, background), index)
        gone += [walker for walker in there if walker.missed > MISSED_MAX]
        there = [walker for walker in there if walker.missed <= MISSED_MAX]
    for walker in gone + there:
        del walker.boxes[len(walker.boxes) - walker.missed :]
    return sorted((walker for walker in gone + there if len(walker.boxes) >= LEAST_FRAMES), key=lambda one: one.first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the MOT text")
    out = parser.parse_args().out
    walkers = walkers_of(clip_frames(CACHE.parent / "vtest.avi"))
    lines = []
    for number, walker in enumerate(walkers, 1):
        for frame, (x0, y0, x1, y1) in enumerate(walker.boxes, walker.first + 1):
            if 0 < min(x1, y1) and x0 < 768 and y0 < 576:
                lines.append((frame, f"{frame},{number},{x0:.1f},{y0:.1f},{x1 - x0:.1f},{y1 - y0:.1f},1,1,1\n"))
    out.write_text("".join(line for _, line in sorted(lines, key=lambda item: item[0])))
    at_once = np.bincount([frame for frame, _ in lines]).max()
    print(f"{len(walkers)} walkers, at most {at_once} at once, {len(lines)} boxes")


if __name__ == "__main__":
    main()
