"""What the models have in common: normalised texels, places of tokens and pictures, the identity of a content."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FoveateError
from ..frame import TokenFrame, sizes_of
from ..picture import PLACE
from ..texels import floats


class Unsuitable(FoveateError, ValueError):
    """A view or an argument that a model cannot take.

    :ivar key: what is unsuitable: a key of the view's configuration, such as ``"patch"``, or the name of an argument.
    :ivar value: its value.
    :ivar remedy: what would do.
    """

    def __init__(self, model: str, key: str, value: object, remedy: str) -> None:
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

    These are whole numbers where the steps are.

    :ivar x: Left edge in source pixels.
    :ivar y: Top edge in source pixels.
    :ivar sx: Source pixels per pixel of the picture, to the right.
    :ivar sy: The same, down.
    :ivar width: Width of the picture in its own pixels.
    :ivar height: Its height.
    """

    x: float
    y: float
    sx: float
    sy: float
    width: int
    height: int

    @property
    def box(self) -> tuple[float, float, float, float]:
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


def library(name: str, package: str, user: str) -> ModuleType:
    """Imports a module that only ``user`` needs.

    :raises MissingLibrary: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(f"{user} needs {package}, which cannot be imported ({error}): pip install {package}") from error


def normalised(
    frame: TokenFrame, model: str, mean: Sequence[float], std: Sequence[float], name: str
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


def check_patch(frame: TokenFrame, model: str, side: int) -> None:
    """Checks the side of a frame's tokens.

    :raises Unsuitable: if it is another.
    """
    if frame.info.patch != side:
        raise Unsuitable(model, "patch", frame.info.patch, f"open the view with patch = {side}")


def check_tokens(frame: TokenFrame, model: str) -> None:
    """Checks that a frame has any tokens.

    :raises Unsuitable: if not.
    """
    if len(frame.tokens) == 0:
        raise Unsuitable(model, "tokens", 0, "it needs at least one")


class Grid(NamedTuple):
    """Tokens of one size, side by side: the picture that they are.

    :ivar x: Left edge in source pixels.
    :ivar y: Top edge in source pixels.
    :ivar token_size: Width and height of a token in source pixels.
    :ivar columns: Columns of tokens.
    :ivar rows: Rows of tokens.
    :ivar side: P.
    :ivar indices: [M], the tokens of the frame.
    :ivar is_whole: Whether there is a token in each place.
    """

    x: int
    y: int
    token_size: tuple[int, int]
    columns: int
    rows: int
    side: int
    indices: NDArray[np.int64]
    is_whole: bool

    @property
    def place(self) -> Place:
        """Where the picture lies."""
        sx, sy = (_quotient(size, self.side) for size in self.token_size)
        return Place(self.x, self.y, sx, sy, self.columns * self.side, self.rows * self.side)

    def real(self, extent: tuple[int, int]) -> tuple[slice, slice]:
        """Rows and columns of the picture with a pixel that the camera saw."""
        axes = zip((self.y, self.x), self.token_size[::-1], (self.rows, self.columns), extent[::-1], strict=True)
        down, across = (
            slice(max(0, -origin * self.side // size), min(count * self.side, -(-(length - origin) * self.side // size)))
            for origin, size, count, length in axes
        )
        return down, across

    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the rows and the columns of the picture begin, and the last ends, in source pixels."""
        width, height = self.token_size
        down = self.y + np.arange(self.rows * self.side + 1, dtype=np.float64) * (height / self.side)
        across = self.x + np.arange(self.columns * self.side + 1, dtype=np.float64) * (width / self.side)
        return down, across


def grids(frame: TokenFrame, model: str) -> list[Grid]:
    """The pictures that a frame consists of: one of a ``uniform`` view, each window of a ``windows`` view, base and
    blocks of an ``inset`` view; without the base where the blocks cover all of it.

    :raises Unsuitable: if the frame has another layout, does not fill its grid, or has no tokens.
    """
    info, tokens = frame.info, frame.tokens
    check_tokens(frame, model)
    if info.layout == "windows":
        return [_grid(frame, np.array([index]), (1, 1)) for index in range(len(tokens))]
    if info.layout == "inset":
        groups = [np.flatnonzero(tokens["group"] == group) for group in np.unique(tokens["group"])]
        return [_base(frame, group) if tokens["group"][group[0]] == 0 else _block(frame, group) for group in groups]
    if info.grid is None:
        raise Unsuitable(
            model,
            "layout",
            info.layout,
            'it takes whole pictures: open the view with layout = "uniform", "inset" or "windows"',
        )
    columns, rows = info.grid
    if columns * rows != len(tokens):
        raise Unsuitable(model, "grid", tuple(info.grid), f"the frame has {len(tokens)} tokens, which do not fill it")
    return [_grid(frame, np.arange(len(tokens)), (columns, rows))]


def pictures(frame: TokenFrame, texels: NDArray[Any], model: str) -> list[NDArray[Any]]:
    """``texels``, [N, 3, P, P], as the pictures of :func:`grids`, each [3, height, width].

    Where a block took the place of tokens of the base, or of a later block, these show the mean of the block's texels.
    """
    where = grids(frame, model)
    drawn = [_joined(frame, grid, texels) for grid in where]
    first_block = int(frame.info.layout == "inset" and frame.tokens["group"][where[0].indices[0]] == 0)
    # Blocks lie under those before them, and the base under all.
    for index in [*range(first_block, len(where)), *range(first_block)]:
        if where[index].is_whole:
            continue
        above = slice(first_block, index if first_block <= index else len(where))
        if not where[above]:
            raise Unsuitable(model, "tokens", len(frame.tokens), "some are missing, and no block lies over their places")
        _fill(frame, where[index], drawn[index], list(zip(where[above], drawn[above], strict=True)))
    return drawn


def sources(frame: TokenFrame, model: str) -> list[NDArray[np.int64]]:
    """The tokens that each picture of :func:`grids` is made of."""
    every = np.arange(len(frame.tokens))
    return [grid.indices if grid.is_whole else every for grid in grids(frame, model)]


def cells(frame: TokenFrame, parts: int = 1) -> Cells:
    """The grid of the finest tokens: those of a ``uniform`` view, else those of one source pixel a texel.

    :param parts: divide each cell into ``parts`` x ``parts``.
    """
    info, tokens = frame.info, frame.tokens
    is_uniform = info.layout == "uniform" and len(tokens)
    width, height = sizes_of(tokens[:1], info.patch)[0].tolist() if is_uniform else (info.patch, info.patch)
    columns, rows = (parts * -(-extent // size) for extent, size in zip(info.extent, (width, height), strict=True))
    return Cells(rows, columns, width / parts, height / parts)


def positions(frame: TokenFrame, parts: int = 1) -> NDArray[np.float64]:
    """The centres of tokens in units of :func:`cells`; the centre of the first cell is (0, 0).

    A token is cut at the edges of the grid first, and is a cell wide there if nothing remains: so a position is always
    between the first and the last cell, and that of a cell is its row and column exactly.

    :param parts: the centres of ``parts`` x ``parts`` parts of each token instead, row by row.
    :returns: [N * parts * parts, 2]: row and column.
    """
    rows, columns = (span.mean(axis=2) - 0.5 for span in spans(frame, parts))
    return np.stack(np.broadcast_arrays(rows[:, :, None], columns[:, None, :]), axis=-1).reshape(-1, 2)


def spans(frame: TokenFrame, parts: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the parts of tokens begin and end in units of :func:`cells`, along the rows and along the columns: [N, parts, 2]
    each. A token is cut at the edges of the grid, as :func:`positions` says."""
    grid = cells(frame, parts)
    tokens, sizes = frame.tokens, sizes_of(frame.tokens, frame.info.patch)
    part = np.arange(parts, dtype=np.float64)

    def along(origin: str, size: NDArray[np.int32], side: float, count: int) -> NDArray[np.float64]:
        width = size[:, None] / parts
        start = tokens[origin].astype(np.float64)[:, None] + part * width
        return np.stack([np.clip(start / side, 0, count - 1), np.clip((start + width) / side, 1, count)], axis=-1)

    return along("y", sizes[:, 1], grid.height, grid.rows), along("x", sizes[:, 0], grid.width, grid.columns)


def content_id(frame: TokenFrame, indices: Any = slice(None), what: str = "tokens") -> str:
    """A name of the content of a frame, for the cache of a server: equal names, equal bytes.

    It is made from the epoch and the places and ``changed_frame`` of the tokens, not from their texels, so it costs
    little, and stays the same until something changes under a token or the gaze moves.

    :param indices: of these tokens only.
    :param what: what was made from them, such as ``"jpeg-90"``; whatever else changes the bytes belongs in it.
    """
    tokens = frame.tokens[indices]
    keys = np.stack([tokens[name].astype(np.int64) for name in (*PLACE, "changed_frame")])
    digest = hashlib.sha256(keys.tobytes()).hexdigest()[:16]
    newest = int(tokens["changed_frame"].max()) if len(tokens) else 0
    return f"foveate-{frame.info.epoch:016x}-{newest}-{digest}-{what}"


def _quotient(dividend: int, divisor: int) -> float:
    """A whole number where it is one."""
    return dividend / divisor if dividend % divisor else dividend // divisor


def _grid(frame: TokenFrame, indices: NDArray[np.int64], counts: tuple[int, int]) -> Grid:
    """Of tokens that lie row by row; ``counts`` are columns and rows."""
    first, side = frame.tokens[indices[:1]], frame.info.patch
    width, height = sizes_of(first, side)[0].tolist()
    return Grid(int(first["x"][0]), int(first["y"][0]), (width, height), *counts, side, indices, True)


def _base(frame: TokenFrame, indices: NDArray[np.int64]) -> Grid:
    """The base of an ``inset`` view, which covers the source; some of its tokens may have made room for blocks."""
    grid = _grid(frame, indices, (1, 1))
    columns, rows = (-(-extent // size) for extent, size in zip(frame.info.extent, grid.token_size, strict=True))
    return grid._replace(x=0, y=0, columns=columns, rows=rows, is_whole=len(indices) == columns * rows)


def _block(frame: TokenFrame, indices: NDArray[np.int64]) -> Grid:
    """A block of an ``inset`` view; some of its tokens may have made room for blocks before it."""
    grid = _grid(frame, indices, (1, 1))
    tokens = frame.tokens[indices]
    least, most = ([int(end(tokens[axis])) for axis in ("x", "y")] for end in (np.min, np.max))
    columns, rows = ((last - first) // size + 1 for first, last, size in zip(least, most, grid.token_size, strict=True))
    return grid._replace(
        x=least[0], y=least[1], columns=columns, rows=rows, is_whole=len(indices) == columns * rows
    )


def _joined(frame: TokenFrame, grid: Grid, texels: NDArray[Any]) -> NDArray[Any]:
    """The picture of a grid, [3, height, width]; 0 where it has no token."""
    width, height = grid.token_size
    tokens = frame.tokens[grid.indices]
    joined = np.zeros((3, grid.rows, grid.side, grid.columns, grid.side), texels.dtype)
    rows, columns = (tokens["y"] - grid.y) // height, (tokens["x"] - grid.x) // width
    joined[:, rows, :, columns] = texels[grid.indices]
    return joined.reshape(3, grid.rows * grid.side, grid.columns * grid.side)


def _fill(
    frame: TokenFrame, grid: Grid, picture: NDArray[Any], above: Sequence[tuple[Grid, NDArray[Any]]]
) -> None:
    """Draws what grids above it show where a grid has no token."""
    missing = np.ones((grid.rows, grid.columns), bool)
    tokens, (width, height) = frame.tokens[grid.indices], grid.token_size
    missing[(tokens["y"] - grid.y) // height, (tokens["x"] - grid.x) // width] = False
    for row, column in np.argwhere(missing).tolist():
        place = tuple(slice(index * grid.side, (index + 1) * grid.side) for index in (row, column))
        edges = [edge[part.start : part.stop + 1] for edge, part in zip(grid.edges(), place, strict=True)]
        picture[(slice(None), *place)] = _means(frame, edges, above, picture.dtype)


def _means(
    frame: TokenFrame, edges: Sequence[NDArray[np.float64]], above: Sequence[tuple[Grid, NDArray[Any]]], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """The means of a grid's texels under those between ``edges``, down and across, [3, P, P]: of the one that covers most,
    and all, unless the writer is broken."""
    extent = frame.info.extent[::-1]
    clipped = [np.minimum(edge, most) for edge, most in zip(edges, extent, strict=True)]
    shares = [[_overlaps(edge, other) for edge, other in zip(clipped, grid.edges(), strict=True)] for grid, _ in above]
    best = max(range(len(above)), key=lambda index: shares[index][0].sum() * shares[index][1].sum())
    # Texels beyond the picture are as the last one inside.
    down, across = (share[np.minimum(np.arange(len(share)), share.any(1).sum() - 1)] for share in shares[best])
    sums = down @ above[best][1].astype(np.float64) @ across.T
    means = sums / np.maximum(np.outer(down.sum(1), across.sum(1)), np.finfo(np.float64).tiny)
    means = np.floor(means + 0.5) if dtype == np.uint8 else means
    return means.astype(dtype)


def _overlaps(edges: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each interval between two edges lies between each two of the others, [edges - 1, others - 1]."""
    shared = np.minimum(edges[1:, None], others[1:]) - np.maximum(edges[:-1, None], others[:-1])
    return np.maximum(shared, 0)


def _points(points: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(points, np.float64)
    if array.ndim == 0 or array.shape[-1] != 2:
        raise Unsuitable(
            "a picture's place", "points", array.shape, "the last axis is x and y: reshape a box to two points, (2, 2)"
        )
    return array
