"""Tokens: their texels, where they lie, and what they are made with."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native

#: A record of a token, as in the rings of the daemon (``foveate.TOKEN``).
TOKEN = np.dtype(
    [
        ("changed_frame", "<u8"),
        ("box", "<u4", 4),
        ("x", "<i4"),
        ("y", "<i4"),
        ("sx", "<u2"),
        ("sy", "<u2"),
        ("size", "<u2"),
        ("group", "<u2"),
        ("first_column", "<u2"),
        ("columns", "<u2"),
        ("first_row", "<u2"),
        ("rows", "<u2"),
        ("fovea", "<u2"),
        ("extra_width", "u1"),
        ("extra_height", "u1"),
        ("relevance", "<f4"),
    ]
)

#: Element types of the texels; NumPy has no bfloat16, so its bits come as uint16.
_DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "f32": np.dtype("<f4"),
}


@dataclass(frozen=True)
class TokenInfo:
    """What tokens are made with. It has the names of ``foveate.SegmentInfo``, so that ``foveate.models`` take the tokens.

    :ivar layout: Name of the layout.
    :ivar patch: P: side of a token in texels.
    :ivar dtype: Number format of a texel: ``"u8"``, ``"f16"``, ``"bf16"`` or ``"f32"``.
    :ivar capacity: Most tokens.
    :ivar grid: Columns and rows of the tokens, if they form a grid, row by row (layout ``"uniform"``); else None.
    :ivar outside: What a texel without a real pixel is: ``"edge"`` or ``"mean"``.
    :ivar extent: Width and height of the picture in pixels.
    :ivar mean: R, G, B: a texel is (value / 255 - mean) / std.
    :ivar std: R, G, B.
    """

    layout: str
    patch: int
    dtype: str
    capacity: int
    grid: tuple[int, int] | None
    outside: str
    extent: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    epoch: int = 0
    name: str = "foveate_engine"
    camera: None = None

    @classmethod
    def of(cls, spec: _native.Spec, extent: tuple[int, int]) -> TokenInfo:
        """From what a layout was checked to."""
        (red, green, blue), (red_std, green_std, blue_std) = spec.mean, spec.std
        return cls(
            layout=spec.layout,
            patch=spec.patch,
            dtype=spec.dtype,
            capacity=spec.capacity,
            grid=spec.grid(extent),
            outside=spec.outside,
            extent=extent,
            mean=(red, green, blue),
            std=(red_std, green_std, blue_std),
        )


@dataclass(frozen=True)
class Tokens:
    """The tokens of one picture. ``len(tokens)`` is N.

    All arrays are the caller's own, and C-contiguous; ``torch.from_dlpack(tokens.pixels)`` and the like take them without a
    copy.

    :ivar pixels: The texels, [N, 3, P, P]: token, channel (R, G, B), row, column; uint8, float16 or float32 by
        ``info.dtype``, and bfloat16 as its bits in uint16 (see :meth:`torch`). Normalised: (value / 255 - ``info.mean``) /
        ``info.std``, except uint8.
    :ivar tokens: One record per token, [N] of :data:`TOKEN`. Texel (u, v) is the mean of the source pixels in [``x`` + u
        ``sx``, ``x`` + (u + 1) ``sx``) x [``y`` + v ``sy``, ``y`` + (v + 1) ``sy``), rounded once. If ``extra_width`` or
        ``extra_height``, pixels beyond P ``sx`` and P ``sy``, is not 0, steps are a P-th of the token's sides, and texels
        end inside pixels. ``box`` is what the token covers (x0, y0, x1, y1, half-open, in source pixels), ``group`` its
        pyramid level, ring, window or block, ``fovea`` the index of its fixation, ``relevance`` its weight in the layout,
        and ``changed_frame`` the number of the picture in which something under it last changed.
    :ivar fixations: Where was looked, in source pixels: x and y of each.
    :ivar frame_seq: Number of the picture, from 1.
    :ivar bounds: Most by which a sample, and a channel of an RGB pixel, may differ from the picture: 0 unless a threshold
        was given, or of a lossy clip.
    :ivar info: What the tokens are made with.
    :ivar source: Where the picture comes from, such as the path of a file; None for an array.
    :ivar seconds: Time of the frame in its clip; None if it has none.
    :ivar changed: Share of the picture's tiles that were read again for this frame, 0 to 1.
    :ivar gray_range: The samples of 16-bit gray that became black and white, of a file or a clip; None if it has 8 bits, and
        of an array.
    """

    pixels: NDArray[Any]
    tokens: NDArray[Any]
    fixations: tuple[tuple[float, float], ...]
    frame_seq: int
    bounds: tuple[int, int]
    info: TokenInfo
    source: str | None = None
    seconds: float | None = None
    changed: float = 1.0
    gray_range: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        width, height = self.info.extent
        return f"<foveate_engine.Tokens: {len(self)} of {width} x {height}, {self.info.layout}, {self.info.dtype}>"

    @property
    def relevance(self) -> NDArray[np.float32]:
        """The weight of each token in the layout, [N] float32."""
        return np.ascontiguousarray(self.tokens["relevance"])

    @property
    def planes(self) -> Mapping[str, NDArray[Any]]:
        """The arrays by name, as in a ring: ``pixels`` and ``relevance``."""
        return {"pixels": self.pixels, "relevance": self.relevance}

    @property
    def layout(self) -> str:
        """Name of the layout."""
        return self.info.layout

    @property
    def view(self) -> str:
        """What errors of models call it."""
        return self.source or self.info.name

    def floats(self) -> NDArray[np.float32]:
        """The texels as float32, [N, 3, P, P]; exact, since each format is a subset of it."""
        if self.info.dtype == "bf16":
            return (self.pixels.astype(np.uint32) << 16).view(np.float32)
        return self.pixels.astype(np.float32)

    def torch(self, device: Any = "cpu") -> Any:
        """The texels as a ``torch.Tensor``, [N, 3, P, P], bfloat16 included; on the CPU it shares the memory of
        :attr:`pixels`.

        :param device: its device, as PyTorch names it.
        """
        import torch

        if self.info.dtype != "bf16":
            return torch.from_numpy(self.pixels).to(device)
        return torch.from_numpy(self.pixels.view(np.int16)).view(torch.bfloat16).to(device)


def made(
    spec: _native.Spec,
    extent: tuple[int, int],
    fixations: Sequence[tuple[float, float]],
    arrays: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    frame_seq: int = 1,
    bounds: tuple[int, int] = (0, 0),
    source: str | None = None,
) -> Tokens:
    """Tokens from the bytes that the engine returned, without a copy."""
    info = TokenInfo.of(spec, extent)
    pixels, records = arrays
    texels = pixels.view(_DTYPES[info.dtype]).reshape(-1, 3, info.patch, info.patch)
    return Tokens(texels, records.view(TOKEN), tuple(fixations), frame_seq, bounds, info, source)


def spec(keys: Mapping[str, Any]) -> _native.Spec:
    """A checked layout and token format.

    :param keys: keys of :class:`foveate_engine.keys.LayoutKeys`, and ``gaze``; those that are None are left out.
    :raises ValueError: if a key is wrong, or two exclude each other.
    """
    given = {key: value for key, value in keys.items() if value is not None}
    written = 0
    if isinstance(given.get("table"), str):
        given["table"] = os.path.abspath(given["table"])
        with contextlib.suppress(OSError):
            written = os.stat(given["table"]).st_mtime_ns
    try:
        text = json.dumps({"name": "python", **given}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a layout is described by names, numbers, and lists and dicts of them ({error})") from None
    return _spec(text, written)


@lru_cache(maxsize=64)
def _spec(keys: str, _written: int) -> _native.Spec:
    return _native.Spec(keys)
