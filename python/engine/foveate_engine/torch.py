"""Foveated tokens of tensors, with gradients back to their pixels.

The places are the engine's own; the means are sums over gathered pixels, on whatever device the images lie. That is
linear, and its gradient the exact adjoint: every pixel gets the gradients of the texels that it is part of, by its
share in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from .engine import weights
from .keys import LayoutKeys, layout_keys
from .tokens import TOKEN, spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Types of images, and those in which their means are made.
_SUM_DTYPES = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}

#: Keys of a layout that say how texels are stored; a tensor has a type of its own, and its means are not rounded to 8
#: bits.
_STORAGE_KEYS = ("dtype", "rounding")


class TokenBatch(NamedTuple):
    """The tokens of a batch of images.

    :ivar pixels: The texels, [B, N, 3, P, P]: image, token, channel, row, column; the images' dtype, on their device.
        N is the largest count of tokens in the batch, and 0 follows where an image has fewer.
    :ivar tokens: Their records, [B, N] of :data:`foveate_engine.TOKEN`, all 0 where there is no token. Their numbers
        are those of :attr:`foveate_engine.Tokens.tokens`.
    :ivar mask: Where there is a token, [B, N] bool, on the images' device.
    """

    pixels: torch.Tensor
    tokens: NDArray[Any]
    mask: torch.Tensor


def sample(
    images: torch.Tensor,
    fixations: torch.Tensor | ArrayLike | None = None,
    *,
    relevance: torch.Tensor | ArrayLike | None = None,
    **layout: Unpack[LayoutKeys],
) -> TokenBatch:
    """Tokens of images, at the places where an :class:`foveate_engine.Engine` has them, differentiable with respect to
    the images.

    Texel (u, v) of a token is the mean of the real pixels in [``x`` + u ``sx``, ``x`` + (u + 1) ``sx``) x [``y`` + v
    ``sy``, ``y`` + (v + 1) ``sy``), neither rounded nor, unless ``normalisation`` is given, normalised: whatever the
    images hold, their tokens hold means of. Of tokens with real steps it is the mean by the same weights as the engine's, of
    the means of pixels that are not rounded either. A texel without a real pixel is the nearest one of its token's grid that
    has some (``outside="edge"``), or 0 (``outside="mean"``). Means of float16 and bfloat16 are made in float32 and
    rounded once; so are their gradients.

    There is no gradient with respect to the fixations, nor a straight-through estimate of one: places move by whole
    pixels.

    :param images: [B, 3, H, W], R, G, B; float16, bfloat16, float32 or float64; on any device, of any strides.
    :param fixations: where to look, x and y in source pixels: [B, 2], or [B, F, 2] for F points each (F up to the
        layout's ``foveae``); None is the middle.
    :param relevance: how much each part of an image matters, [rows, columns] for all, or [B, rows, columns]; see
        :meth:`foveate_engine.Pyramid.sample`.
    :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`, without ``dtype`` and ``rounding``. With
        a ``normalisation`` the texels are (mean of the pixels - ``mean``) / ``std``, for images in 0 to 1; ``"none"``,
        the default, leaves them as they are.
    :raises TypeError: if the images are not a tensor of such a type, or an argument is unknown.
    :raises ValueError: if a shape is wrong, or an argument does not go with another.
    """
    _check_images(images)
    for key, value in layout.items():
        if key in _STORAGE_KEYS and value is not None:
            raise ValueError(
                f"{key}={value!r} says how the engine stores tokens; "
                "those of a tensor have its own type and are not rounded: "
                f"leave {key} out, and convert the images (images.half()) or the result"
            )
    checked = spec({**layout_keys(**layout), "dtype": "f32"})
    count, _, height, width = images.shape
    points = _points(fixations, count, (width, height))
    maps = _maps(relevance, count)
    plans = [checked.plan((width, height), at, cells).view(TOKEN) for at, cells in zip(points, maps, strict=True)]

    most = max(map(len, plans))
    tokens = np.zeros((count, most), TOKEN)
    mask = np.zeros((count, most), np.bool_)
    for index, plan in enumerate(plans):
        tokens[index, : len(plan)], mask[index, : len(plan)] = plan, True
    scales = _scales(tokens, mask, checked.patch, (width, height), images)
    pixels = _Gathered.apply(images, scales, (mask.size, checked.patch)).view(
        *mask.shape, 3, checked.patch, checked.patch
    )
    if layout.get("normalisation", "none") not in ("none", None):
        mean, std = (pixels.new_tensor(of).view(3, 1, 1) for of in (checked.mean, checked.std))
        pixels = (pixels - mean) / std
    # Normalised or not, what nothing real lies under is 0.
    kept = np.broadcast_to(mask[:, :, None, None], (*mask.shape, checked.patch, checked.patch))
    if checked.outside == "mean":
        rows = _is_real(tokens, "first_row", "rows", checked.patch)
        columns = _is_real(tokens, "first_column", "columns", checked.patch)
        kept = kept & rows[..., :, None] & columns[..., None, :]
    pixels = pixels.masked_fill(torch.from_numpy(~kept).to(images.device)[:, :, None], 0)
    return TokenBatch(pixels.to(images.dtype), tokens, torch.from_numpy(mask).to(images.device))


class _Scale(NamedTuple):
    """The tokens of one scale in a batch: n of them, of which r rows and c columns of texels differ from their
    neighbours.

    :ivar token: Which they are in [B N].
    :ivar pixel: Index of the pixels under each texel in [B, 3, H, W]: image, channel, row and column, [n, 3, r, h, c, w]
        together, for h rows and w columns of pixels.
    :ivar row_share: Share of each row in its texel's mean, [n, 1, r, h, 1].
    :ivar column_share: Share of each column, [n, 1, 1, 1, c, w].
    :ivar texel: Index in the means, [n, 3, r, c], of each of the tokens' texels: token, channel, row and column, [n,
        3, P, P] together.
    """

    token: torch.Tensor
    pixel: tuple[torch.Tensor, ...]
    row_share: torch.Tensor
    column_share: torch.Tensor
    texel: tuple[torch.Tensor, ...]


class _Gathered(torch.autograd.Function):  # type: ignore[misc, no-untyped-call, unused-ignore]
    """Texels [B N, 3, P, P] of images [B, 3, H, W]."""

    @staticmethod
    def forward(context: Any, images: torch.Tensor, scales: list[_Scale], tokens: tuple[int, int]) -> torch.Tensor:
        context.scales, context.shape, context.tokens, context.dtype = scales, images.shape, tokens, images.dtype
        count, patch = tokens
        texels = images.new_zeros((count, 3, patch, patch), dtype=_SUM_DTYPES[images.dtype])
        for scale in scales:
            pixels = images[scale.pixel].to(texels.dtype)
            means = ((pixels * scale.column_share).sum(5) * scale.row_share).sum(3)
            texels[scale.token] = means[scale.texel]
        return texels

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        spread = _Spread.apply(gradients[0], context.scales, context.shape, context.dtype)
        return spread, None, None


class _Spread(torch.autograd.Function):  # type: ignore[misc, no-untyped-call, unused-ignore]
    """The adjoint of :class:`_Gathered`: what it sums is spread by the same shares. It has a gradient for those of
    gradients."""

    @staticmethod
    def forward(
        context: Any, gradient: torch.Tensor, scales: list[_Scale], shape: torch.Size, dtype: torch.dtype
    ) -> torch.Tensor:
        context.scales, context.tokens = scales, (gradient.shape[0], gradient.shape[-1])
        images = gradient.new_zeros(shape)
        for scale in scales:
            shares = scale.row_share[..., None] * scale.column_share
            means = gradient.new_zeros((len(scale.token), 3, shares.shape[2], shares.shape[4]))
            means.index_put_(scale.texel, gradient[scale.token], accumulate=True)
            images.index_put_(scale.pixel, means[:, :, :, None, :, None] * shares, accumulate=True)
        return images.to(dtype)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        return _Gathered.apply(gradients[0], context.scales, context.tokens), None, None, None


def _scales(
    tokens: NDArray[Any], mask: NDArray[np.bool_], patch: int, extent: tuple[int, int], like: torch.Tensor
) -> list[_Scale]:
    """Where the texels of tokens come from, scale by scale: pixels under tokens of one scale have one shape, and are
    one gather."""
    width, height = extent
    owner, place = np.nonzero(mask)
    records = tokens[owner, place]
    found = []
    steps, step_of = np.unique(records[["sx", "sy", "extra_width", "extra_height"]], return_inverse=True)
    for index, (sx, sy, extra_width, extra_height) in enumerate(steps.tolist()):
        which = np.flatnonzero(step_of == index)
        sides = (sx * patch + extra_width, sy * patch + extra_height)
        level = _level(sides, patch, extent) if extra_width or extra_height else None
        row, row_share, texel_row = _under(records["y"][which], sides[1], patch, height, level)
        column, column_share, texel_column = _under(records["x"][which], sides[0], patch, width, level)
        count = len(which)

        def on_device(array: NDArray[Any], *shape: int) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(like.device).view(shape)

        (rows, tall), (columns, wide) = row.shape[1:], column.shape[1:]
        channel = np.arange(3)
        found.append(
            _Scale(
                on_device(owner[which] * mask.shape[1] + place[which], count),
                (
                    on_device(owner[which], count, 1, 1, 1, 1, 1),
                    on_device(channel, 1, 3, 1, 1, 1, 1),
                    on_device(row, count, 1, rows, tall, 1, 1),
                    on_device(column, count, 1, 1, 1, columns, wide),
                ),
                on_device(row_share, count, 1, rows, tall, 1).to(_SUM_DTYPES[like.dtype]),
                on_device(column_share, count, 1, 1, 1, columns, wide).to(_SUM_DTYPES[like.dtype]),
                (
                    on_device(np.arange(count), count, 1, 1, 1),
                    on_device(channel, 1, 3, 1, 1),
                    on_device(texel_row, count, 1, patch, 1),
                    on_device(texel_column, count, 1, 1, patch),
                ),
            )
        )
    return found


def _level(sides: tuple[int, int], patch: int, extent: tuple[int, int]) -> int:
    """The pyramid level that a token with real steps is averaged from."""
    last = (-(-max(extent) // 8) - 1).bit_length()
    return min(max((min(sides) // patch).bit_length() - 2, 0), last)


def _under(
    origins: NDArray[np.int32], side: int, patch: int, length: int, level: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Which pixels lie under the texels of tokens along one axis of ``length`` pixels, and their shares in the texels'
    means.

    The tokens are ``side`` pixels long. Those with real steps are averaged from the texels of ``level``; it is None for
    others. Only a range of texels is computed that has all those with a real pixel, of any of the tokens; of a token that
    lies outside, the pixels nearest to it stand under the first or last.

    :returns: places from 0 to ``length`` - 1, [n, r, k]; shares, of which those of a texel add up to 1 and those of
        repeated places are 0, [n, r, k]; and which of the r each of the P texels is, or repeats, [n, P].
    """
    # In parts of a pixel, of which real steps have whole numbers.
    unit, step = (1, side // patch) if level is None else (patch, side)
    origin, end = origins.astype(np.int64)[:, None] * unit, length * unit
    first, last = -origin // step, (end - 1 - origin) // step
    least, greatest = np.clip(first, 0, patch - 1), np.clip(last, 0, patch - 1)
    computed = np.arange(least.min(), greatest.max() + 1)
    start = origin + np.clip(computed, first, last) * step
    low, high = np.clip(start, 0, end)[..., None], np.clip(start + step, 0, end)[..., None]
    # Cells are texels of the level, or pixels.
    pixels = 1 << (level or 0)
    cell = unit * pixels
    nearest, furthest = low // cell * pixels, np.minimum(((high - 1) // cell + 1) * pixels, length) - 1
    place = nearest + np.arange((furthest - nearest).max() + 1)
    own = place // pixels
    shared = np.minimum(high, (own + 1) * cell) - np.maximum(low, own * cell)
    count = np.minimum((own + 1) * pixels, length) - own * pixels
    share = np.where(place <= furthest, shared / np.maximum(count, 1) / (high - low), 0.0)
    return np.minimum(place, furthest), share, np.clip(np.arange(patch), least, greatest) - computed[0]


def _is_real(tokens: NDArray[Any], first: str, count: str, patch: int) -> NDArray[np.bool_]:
    """Which rows or columns of texels have real pixels, [B, N, P]."""
    start = tokens[first].astype(np.int64)[..., None]
    texel = np.arange(patch)
    is_real: NDArray[np.bool_] = (start <= texel) & (texel < start + tokens[count][..., None])
    return is_real


def _check_images(images: torch.Tensor) -> None:
    if not isinstance(images, torch.Tensor):
        raise TypeError(
            f"images is a {type(images).__name__} (expected a torch.Tensor, [B, 3, H, W]): "
            "torch.from_numpy makes one of an array"
        )
    if images.dtype not in _SUM_DTYPES:
        raise TypeError(
            f"images has the type {images.dtype} (expected float16, bfloat16, float32 or float64): "
            "images.float() / 255 makes one of uint8"
        )
    if images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape:
        way_out = ": images[None] makes a batch of one" if images.ndim == 3 else ""
        if images.ndim == 4 and images.shape[3] == 3:
            way_out = ": images.permute(0, 3, 1, 2) moves the channels"
        raise ValueError(f"images has the shape {list(images.shape)} (expected [B, 3, H, W]){way_out}")


def _array(given: torch.Tensor | ArrayLike) -> NDArray[np.float64]:
    """The given array as float64; empty if it is not an array of numbers."""
    if isinstance(given, torch.Tensor):
        return np.asarray(given.detach().cpu().to(torch.float64))
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def _points(
    given: torch.Tensor | ArrayLike | None, count: int, extent: tuple[int, int]
) -> list[list[tuple[float, float]]]:
    if given is None:
        return [[(extent[0] / 2, extent[1] / 2)]] * count
    points = _array(given)
    if points.ndim == 2:
        points = points[:, None]
    if points.ndim != 3 or points.shape[0] != count or not points.shape[1] or points.shape[2] != 2:
        shape = list(given.shape) if hasattr(given, "shape") else list(np.shape(_array(given)))
        raise ValueError(
            f"fixations has the shape {shape}; [{count}, 2] or [{count}, F, 2] is expected, "
            "x and y in source pixels for each of the "
            f"{count} images: [(x, y)] * {count} is one point for all"
        )
    return [[(float(x), float(y)) for x, y in each] for each in points]


def _maps(given: torch.Tensor | ArrayLike | None, count: int) -> list[NDArray[np.float64] | None]:
    if given is None:
        return [None] * count
    cells = _array(given)
    if cells.ndim == 2 and cells.size:
        return [weights(cells)] * count
    if cells.ndim != 3 or len(cells) != count or not cells.size:
        raise ValueError(
            f"relevance has the shape {list(cells.shape)}; "
            f"[rows, columns] for all images, or [{count}, rows, columns], is expected"
        )
    return [weights(each) for each in cells]
