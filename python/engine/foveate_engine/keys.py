"""The keys of a layout, for type checkers and checks; a view of the daemon has the same keys with the same meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Normalisation(TypedDict):
    """Normalises R, G and B: (value / 255 - mean) / std."""

    mean: Sequence[float]
    std: Sequence[float]


class LayoutKeys(TypedDict, total=False):
    """The places of tokens, and their format in memory. None counts as absent.

    :ivar layout: ``"foveal"``, the default here, because calls state where to look; ``"adaptive"``, the default of the
        daemon, ``"inset"``, ``"uniform"``, ``"directional"``, ``"rings"``, ``"samples"`` or ``"windows"``.
    :ivar budget: most tokens; by default 273, and of samples the rows of the table.
    :ivar patch: P: side of a token in texels, even, 8 to 64, by default 16; of windows 224 to 1024; of samples 1 by default.
    :ivar dtype: ``"u8"``, ``"f16"``, ``"bf16"`` or ``"f32"``; by default ``"f16"``, and ``"f32"`` where P is 1.
    :ivar normalisation: ``"none"``, ``"unit"``, ``"imagenet"``, ``"clip"``, ``"siglip"``, or {"mean": [r, g, b], "std": [r,
        g, b]}; by default ``"imagenet"``, and ``"none"`` for uint8.
    :ivar outside: value of a texel without a real pixel: ``"edge"`` or ``"mean"``.
    :ivar rounding: ``"half-up"`` or ``"floor"``.
    :ivar share: share of the budget that goes to blocks, 0 to 0.99 (inset).
    :ivar blocks: most fixations, each with a block, 1 to 8 (inset).
    :ivar min_step: fewest source pixels per texel of a block, 1 to 64 (inset).
    :ivar aspect: columns of a block for each of its rows, 0.05 to 20 (inset).
    :ivar e0: eccentricity in pixels at which magnification has halved (foveal, directional).
    :ivar foveae: most fixations, 1 to 8 (foveal).
    :ivar coarsest: highest level of a token, as far as the budget allows (foveal).
    :ivar preset: name of a trained model's rings (rings).
    :ivar strides: source pixels per texel of each ring (rings).
    :ivar grids: patches along a side of each ring (rings).
    :ivar table: path of the table of points, ``.npy`` or safetensors (samples); read again when the file has changed.
    :ivar memory: what the consumer keeps between frames, ``"none"`` or ``"canvas"`` (adaptive).
    """

    layout: str
    budget: int | None
    patch: int | None
    dtype: str | None
    normalisation: str | Normalisation | None
    outside: Literal["edge", "mean"] | None
    rounding: Literal["half-up", "floor"] | None
    share: float | None
    blocks: int | None
    min_step: float | None
    aspect: float | None
    e0: float | None
    foveae: int | None
    coarsest: int | None
    preset: str | None
    strides: Sequence[int] | None
    grids: Sequence[int] | None
    table: str | None
    memory: Literal["none", "canvas"] | None


#: Names of the keys.
LAYOUT_KEYS = tuple(LayoutKeys.__annotations__)


def layout_keys(**keys: Unpack[LayoutKeys]) -> LayoutKeys:
    """The keys with the default of ``layout``.

    :raises TypeError: if a key is unknown.
    """
    unknown = keys.keys() - set(LAYOUT_KEYS)
    if unknown:
        names = ", ".join(map(repr, sorted(unknown)))
        raise TypeError(f"a layout has no key {names}; expected one of {', '.join(LAYOUT_KEYS)}")
    return {"layout": "foveal", **keys}
