"""The pictures of a frame for any vision-language model behind an HTTP API: data URLs, and words that say where each lies.

    view = foveate.open_view("front", layout="windows", patch=448, windows=3, dtype="u8")
    content = [part for crop in crops(view.read()) for part in crop.parts()]
    message = {"role": "user", "content": [*content, {"type": "text", "text": "What does the sign say?"}]}
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..canvas import Canvas
from ..texels import rgb
from .common import Grid, Place, Unsuitable, content_id, grids, library, pictures, sources

if TYPE_CHECKING:
    from ..frame import TokenFrame

_NAME = "models.crops"
#: By encoding: what Pillow calls it.
_FORMATS = {"jpeg": "JPEG", "png": "PNG"}


@dataclass(frozen=True, eq=False)
class Crop:
    """One picture of a frame.

    :ivar pixels: [height, width, 3] uint8, R, G, B: what the camera saw, without the filled parts of a window.
    :ivar place: where it lies in the source; see :meth:`Place.source_from_image`.
    :ivar sentence: says so to a model.
    :ivar url: the encoded picture as a ``data:`` URL.
    :ivar id: equal for equal content: for the cache of a server.
    """

    pixels: NDArray[np.uint8]
    place: Place
    sentence: str
    url: str
    id: str

    def parts(self, uuid: bool = False) -> list[dict[str, Any]]:
        """The sentence and the picture as content parts of an OpenAI chat message.

        :param uuid: whether to add :attr:`id` as vLLM's ``uuid``; other servers may refuse a key that they don't know.
        """
        image: dict[str, Any] = {"type": "image_url", "image_url": {"url": self.url}}
        if uuid:
            image["uuid"] = self.id
        return [{"type": "text", "text": self.sentence}, image]


def crops(frame: TokenFrame, encoding: str = "jpeg", quality: int = 90) -> list[Crop]:
    """The windows of a ``windows`` view, finest first; base and blocks of an ``inset`` view; the one picture of a
    ``uniform`` view.

    :param encoding: ``"jpeg"``, or ``"png"`` for exact pixels. Pillow encodes either.
    :param quality: of JPEG: 1 to 95.
    :raises Unsuitable: if the layout has no pictures, or a parameter is out of range.
    :raises MissingLibrary: if Pillow is not installed.
    """
    what = _what(encoding, quality)
    whole = zip(grids(frame, _NAME), pictures(frame, rgb(frame.pixels, frame.info), _NAME), strict=True)
    real = [_real_part(grid, picture, frame.info.extent) for grid, picture in whole]
    return [
        Crop(
            pixels=pixels,
            place=place,
            sentence=_sentence(place, index, len(real), frame.info.extent),
            url=f"data:image/{encoding};base64,{_encoded(pixels, encoding, quality)}",
            id=content_id(frame, tokens, what),
        )
        for index, ((place, pixels), tokens) in enumerate(zip(real, sources(frame, _NAME), strict=True))
    ]


def canvas_crops(
    canvas: Canvas, boxes: Iterable[Sequence[float]] = (), encoding: str = "jpeg", quality: int = 90
) -> list[Crop]:
    """Parts of a canvas, each in the finest step that the canvas has there; without boxes one picture of all of it.

    :param boxes: of each part x0, y0, x1, y1 in source pixels. It is cut to the picture and widened to whole texels.
    :param encoding: as of :func:`crops`, and so is ``quality``.
    :raises Unsuitable: if the canvas has no frame yet, a box has nothing of the picture, or a parameter is out of range.
    :raises MissingLibrary: if Pillow is not installed.
    """
    what = _what(encoding, quality)
    if canvas.frame_seq == 0:
        raise Unsuitable(_NAME, "canvas", "an empty canvas", "update it with a frame first")
    picture, extent = canvas.picture(smooth=True), canvas.info.extent
    parts = [_canvas_part(canvas, picture, box) for box in boxes or [(0, 0, *extent)]]
    return [
        Crop(
            pixels=pixels,
            place=place,
            sentence=_sentence(place, index, len(parts), extent, "" if is_even else "up to "),
            url=f"data:image/{encoding};base64,{_encoded(pixels, encoding, quality)}",
            id=f"foveate-canvas-{hashlib.sha256(repr(place).encode() + pixels.tobytes()).hexdigest()[:32]}-{what}",
        )
        for index, (place, pixels, is_even) in enumerate(parts)
    ]


def _canvas_part(
    canvas: Canvas, picture: NDArray[np.uint8], box: Sequence[float]
) -> tuple[Place, NDArray[np.uint8], bool]:
    """A part of a canvas in its finest step, and whether all of it has that."""
    lengths, side = canvas.info.extent, canvas.side
    is_box = len(box) == 4 and all(map(math.isfinite, box))
    starts = [max(0, math.floor(start)) for start in box[:2]] if is_box else [0, 0]
    ends = [min(length, math.ceil(end)) for end, length in zip(box[2:], lengths, strict=True)] if is_box else [0, 0]
    if not all(start < end for start, end in zip(starts, ends, strict=True)):
        remedy = f"give x0, y0, x1, y1 with a pixel of the picture of {lengths[0]} x {lengths[1]}"
        raise Unsuitable(_NAME, "box", tuple(box), remedy)
    (x0, y0), (x1, y1) = starts, ends
    steps = np.unique(canvas.steps[y0 // side : -(-y1 // side), x0 // side : -(-x1 // side)])
    step = int(steps[steps != 0].min(initial=max(steps.max(), 1)))
    x0, y0 = (start // step * step for start in (x0, y0))
    columns, rows = -(-(x1 - x0) // step), -(-(y1 - y0) // step)
    part = picture[y0 : y0 + rows * step, x0 : x0 + columns * step]
    room = (0, rows * step - part.shape[0]), (0, columns * step - part.shape[1]), (0, 0)
    cells = np.pad(part, room, "edge").reshape(rows, step, columns, step, 3)
    means = np.floor(cells.mean((1, 3), dtype=np.float32) + 0.5).astype(np.uint8)
    return Place(x0, y0, step, step, columns, rows), means, len(steps) == 1


def _what(encoding: str, quality: int) -> str:
    """How pictures are encoded, for their names.

    :raises Unsuitable: if they cannot be.
    """
    if encoding not in _FORMATS:
        raise Unsuitable(_NAME, "encoding", encoding, 'use "jpeg" or "png"')
    if not 1 <= quality <= 95:
        raise Unsuitable(_NAME, "quality", quality, "use 1 to 95, as Pillow does")
    return f"jpeg-{quality}" if encoding == "jpeg" else encoding


def _real_part(
    grid: Grid, picture: NDArray[np.uint8], extent: tuple[int, int]
) -> tuple[Place, NDArray[np.uint8]]:
    """The part of a picture that the camera saw, as [height, width, 3]."""
    place, (rows, columns) = grid.place, grid.real(extent)
    cut = place._replace(
        x=place.x + columns.start * place.sx,
        y=place.y + rows.start * place.sy,
        width=columns.stop - columns.start,
        height=rows.stop - rows.start,
    )
    return cut, np.ascontiguousarray(picture[:, rows, columns].transpose(1, 2, 0))


def _sentence(place: Place, index: int, count: int, extent: tuple[int, int], most: str = "") -> str:
    """Where a picture lies, in words of the source's pixels. ``most`` stands before its resolution."""
    width, height = extent
    x0, y0, x1, y1 = place.box
    x0, y0, x1, y1 = max(0, x0), max(0, y0), min(width, x1), min(height, y1)
    which = f"Picture {index + 1} of {count}" if count > 1 else "The picture"
    part = f"columns {round(x0)} to {round(x1)} and rows {round(y0)} to {round(y1)}"
    what = "all" if (x0, y0, x1, y1) == (0, 0, width, height) else part
    step = f"{place.sx:.2f}".rstrip("0").rstrip(".")
    scale = "full resolution" if place.sx == place.sy == 1 else f"1/{step} of the resolution"
    return f"{which} shows {what} of the camera's {width} x {height} pixels, at {most}{scale}."


def _encoded(pixels: NDArray[np.uint8], encoding: str, quality: int) -> str:
    image = library("PIL.Image", "Pillow", _NAME).fromarray(pixels)
    # Chroma at full resolution: the edges of coloured letters are as sharp as the tokens are.
    options = {"quality": quality, "subsampling": 0} if encoding == "jpeg" else {}
    file = io.BytesIO()
    image.save(file, _FORMATS[encoding], **options)
    return base64.b64encode(file.getvalue()).decode("ascii")
