"""What the models have in common: normalised texels, places of tokens and pictures, the identity of a content."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FoveateError
from ..texels import floats


class Unsuitable(FoveateError, ValueError):
    """A view or an argument that a model cannot take.

    :ivar key: what is unsuitable: a key of the view's configuration, such as ``"patch"``, or the name of an argument.
    :ivar value: its value.
    :ivar remedy: what would do.
    """

    def __init__(self, model: str, key: str, value: Any, remedy: str) -> None:
        super().__init__(model, key, value, remedy)
        self.model = model
        self.key = key
        self.value = value
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.model} cannot take {self.key} = {self.value!r}: {self.remedy}"


class MissingLibrary(FoveateError, ImportError):
    """A library that a model needs is not installed, or too old."""


class Place(NamedTuple):
    """Where a picture made from tokens lies in the source.

    :ivar x: Left edge in source pixels.
    :ivar y: Top edge in source pixels.
    :ivar sx: Source pixels per pixel of the picture, to the right.
    :ivar sy: The same, down.
    :ivar width: Width of the picture in its own pixels.
    :ivar height: Its height.
    """

    x: int
    y: int
    sx: int
    sy: int
    width: int
    height: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """x0, y0, x1, y1 in source pixels, half-open."""
        return self.x, self.y, self.x + self.width * self.sx, self.y + self.height * self.sy

    def source_from_image(self, points: ArrayLike, size: tuple[float, float] | None = None) -> NDArray[np.float64]:
        """Source pixels of points that a model returned.

        :param points: [..., 2]: x and y, measured from the picture's top left corner; a box is two points.
        :param size: the width and height that the model's coordinates count to: (1000, 1000) if it answers in
            thousandths of the picture, the resized picture's if the server resized it; by default the picture's own.
        :returns: [..., 2] float64: x and y in source pixels.
        :raises Unsuitable: if ``points`` has another shape, or ``size`` is not positive.
        """
        return _points(points) * self._scale(size) + (self.x, self.y)

    def image_from_source(self, points: ArrayLike, size: tuple[float, float] | None = None) -> NDArray[np.float64]:
        """The inverse of :meth:`source_from_image`."""
        return (_points(points) - (self.x, self.y)) / self._scale(size)

    def _scale(self, size: tuple[float, float] | None) -> NDArray[np.float64]:
        """Source pixels per unit of the model's coordinates."""
        width, height = (self.width, self.height) if size is None else size
        if not 0 < min(width, height) < np.inf:
            raise Unsuitable("a picture's place", "size", size, "give a positive width and height, such as (1000, 1000)")
        return np.array([self.sx * self.width / width, self.sy * self.height / height])


class Cells(NamedTuple):
    """The finest grid of tokens that covers a frame's source: positions of tokens count its cells.

    :ivar rows: Rows, partial ones at the bottom included.
    :ivar columns: Columns, partial ones at the right included.
    :ivar width: Width of a cell in source pixels.
    :ivar height: Its height.
    """

    rows: int
    columns: int
    width: float
    height: float


def library(name: str, package: str, user: str) -> Any:
    """Imports a module that only ``user`` needs.

    :raises MissingLibrary: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(f"{user} needs {package}, which cannot be imported ({error}): pip install {package}") from error


def normalised(
    frame: Any, model: str, mean: Sequence[float], std: Sequence[float], name: str
) -> NDArray[np.float32]:
    """The texels as a model with this ``mean`` and ``std`` takes them, [N, 3, P, P].

    Texels of 0 to 255 are normalised here; others must have been by the view, since doing it twice would round twice.

    :param name: the ``normalisation`` of a view that fits, for the error.
    :raises Unsuitable: if the view normalises in another way, or into a number format that is not known here.
    """
    info = frame.info
    if info.dtype == "u8":
        values = (np.arange(256) / 255 - np.reshape(mean, (3, 1))) / np.reshape(std, (3, 1))
        table = values.astype(np.float32)
        return np.stack([table[channel][frame.pixels[:, channel]] for channel in range(3)], axis=1)
    if not (np.allclose(info.mean, mean, rtol=0, atol=1e-6) and np.allclose(info.std, std, rtol=0, atol=1e-6)):
        raise Unsuitable(
            model,
            "normalisation",
            {"mean": tuple(info.mean), "std": tuple(info.std)},
            f'its mean is {tuple(mean)} and its std {tuple(std)}: open the view with normalisation = {name}, '
            'or with dtype = "u8"',
        )
    if info.dtype not in ("f16", "bf16", "f32"):
        raise Unsuitable(model, "dtype", info.dtype, 'open the view with dtype = "u8", "f16" or "bf16"')
    return floats(frame.pixels, info.dtype)


def check_patch(frame: Any, model: str, side: int) -> None:
    """Checks the side of a frame's tokens.

    :raises Unsuitable: if it is another.
    """
    if frame.info.patch != side:
        raise Unsuitable(model, "patch", frame.info.patch, f"open the view with patch = {side}")


def check_tokens(frame: Any, model: str) -> None:
    """Checks that a frame has any tokens.

    :raises Unsuitable: if not.
    """
    if len(frame.tokens) == 0:
        raise Unsuitable(model, "tokens", 0, "it needs at least one")


def places(frame: Any, model: str) -> list[Place]:
    """The pictures that a frame consists of: one of a ``uniform`` view, each window of a ``windows`` view.

    :raises Unsuitable: if the frame has another layout, does not fill its grid, or has no tokens.
    """
    info, tokens = frame.info, frame.tokens
    check_tokens(frame, model)
    if info.layout == "windows":
        return [_place(token, info.patch, info.patch) for token in tokens]
    if info.grid is None:
        raise Unsuitable(
            model, "layout", info.layout, 'it takes whole pictures: open the view with layout = "uniform" or "windows"'
        )
    columns, rows = info.grid
    if columns * rows != len(tokens):
        raise Unsuitable(model, "grid", tuple(info.grid), f"the frame has {len(tokens)} tokens, which do not fill it")
    return [_place(tokens[0], columns * info.patch, rows * info.patch)]


def pictures(frame: Any, texels: NDArray[Any], model: str) -> list[NDArray[Any]]:
    """``texels``, [N, 3, P, P], as the pictures of :func:`places`, each [3, height, width]."""
    where = places(frame, model)
    if frame.info.layout == "windows":
        return list(texels)
    columns, rows = frame.info.grid
    side = frame.info.patch
    grid = texels.reshape(rows, columns, 3, side, side).transpose(2, 0, 3, 1, 4)
    return [grid.reshape(3, where[0].height, where[0].width)]


def cells(frame: Any, parts: int = 1) -> Cells:
    """The grid of the finest tokens: those of a ``uniform`` view, else those of one source pixel a texel.

    :param parts: divide each cell into ``parts`` x ``parts``.
    """
    info, tokens = frame.info, frame.tokens
    is_uniform = info.layout == "uniform" and len(tokens)
    sx, sy = (int(tokens["sx"][0]), int(tokens["sy"][0])) if is_uniform else (1, 1)
    width, height = info.extent
    columns, rows = (parts * -(-extent // (info.patch * step)) for extent, step in ((width, sx), (height, sy)))
    return Cells(rows, columns, info.patch * sx / parts, info.patch * sy / parts)


def positions(frame: Any, parts: int = 1) -> NDArray[np.float64]:
    """The centres of tokens in units of :func:`cells`; the centre of the first cell is (0, 0).

    A token is cut at the edges of the grid first, and is a cell wide there if nothing remains: so a position is always
    between the first and the last cell, and that of a cell is its row and column exactly.

    :param parts: the centres of ``parts`` x ``parts`` parts of each token instead, row by row.
    :returns: [N * parts * parts, 2]: row and column.
    """
    grid = cells(frame, parts)
    tokens = frame.tokens
    part = np.arange(parts, dtype=np.float64)

    def along(origin: str, step: str, side: float, count: int) -> NDArray[np.float64]:
        """[N, parts]"""
        width = tokens[step].astype(np.float64)[:, None] * (frame.info.patch / parts)
        start = tokens[origin].astype(np.float64)[:, None] + part * width
        first = np.clip(start / side, 0, count - 1)
        end = np.clip((start + width) / side, 1, count)
        return (first + end) / 2 - 0.5

    rows = along("y", "sy", grid.height, grid.rows)[:, :, None]
    columns = along("x", "sx", grid.width, grid.columns)[:, None, :]
    return np.stack(np.broadcast_arrays(rows, columns), axis=-1).reshape(-1, 2)


def content_id(frame: Any, indices: Any = slice(None), what: str = "tokens") -> str:
    """A name of the content of a frame, for the cache of a server: equal names, equal bytes.

    It is made from the epoch and the places and ``changed_frame`` of the tokens, not from their texels, so it costs
    little, and stays the same until something changes under a token or the gaze moves.

    :param indices: of these tokens only.
    :param what: what was made from them, such as ``"jpeg-90"``; whatever else changes the bytes belongs in it.
    """
    tokens = frame.tokens[indices]
    keys = np.stack([tokens[name].astype(np.int64) for name in ("x", "y", "sx", "sy", "changed_frame")])
    digest = hashlib.sha256(keys.tobytes()).hexdigest()[:16]
    newest = int(tokens["changed_frame"].max()) if len(tokens) else 0
    return f"foveate-{frame.info.epoch:016x}-{newest}-{digest}-{what}"


def _place(first: Any, width: int, height: int) -> Place:
    """Of a picture that begins with the token ``first``."""
    return Place(int(first["x"]), int(first["y"]), int(first["sx"]), int(first["sy"]), width, height)


def _points(points: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(points, np.float64)
    if array.ndim == 0 or array.shape[-1] != 2:
        raise Unsuitable(
            "a picture's place", "points", array.shape, "the last axis is x and y: reshape a box to two points, (2, 2)"
        )
    return array
