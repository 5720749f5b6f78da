"""Pictures to learn from: which belong together, how they are scaled, and the tokens that are made of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.common import library
from .errors import Unadaptable

_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm")
#: Bits by which signatures of one picture may differ, in another size or compressed differently.
_ALIKE_BITS = 6
#: Pictures of less variance, in levels of 8 bits, are left out: every patch of them is the same.
_FLAT = 8.0


class Picture(NamedTuple):
    """A picture of a folder.

    :ivar path: of its file. :ivar signature: 64 bits, nearly the same for the same picture in another size.
    :ivar group: of pictures that belong together.
    """

    path: Path
    signature: int
    group: int


def listed(folder: Path, has_clips: bool) -> list[Picture]:
    """The pictures of a folder and its folders, sorted by path.

    :param has_clips: whether pictures of one folder belong together, as frames of a clip do.
    :raises Unadaptable: if there are none.
    """
    if not folder.is_dir():
        raise Unadaptable(f"{folder} is not a folder: give one with pictures")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    found, signatures = [], []
    for path in paths:
        picture = read(path, 64)
        if picture is not None and _FLAT < picture.std():
            found.append(path)
            signatures.append(_signature(picture))
    if not found:
        raise Unadaptable(f"{folder} has no picture that can be read: {', '.join(_SUFFIXES)} are taken")
    groups = _groups(found, np.array(signatures, np.uint64), has_clips)
    return [Picture(*each) for each in zip(found, signatures, groups, strict=True)]


def split(pictures: Sequence[Picture], share: float, seed: int) -> tuple[list[Picture], list[Picture]]:
    """Pictures to learn from and to validate with; pictures that belong together are on one side.

    :raises Unadaptable: if there are too few groups.
    """
    groups = sorted({picture.group for picture in pictures})
    if len(groups) < 2:
        raise Unadaptable("all pictures belong together, as frames of one clip or copies of one picture: give others, too")
    chance = np.random.default_rng([seed, 1])
    kept: set[int] = set()
    for group in chance.permutation(groups).tolist():
        if kept and share * len(pictures) <= sum(picture.group in kept for picture in pictures):
            break
        kept.add(group)
    learned = [picture for picture in pictures if picture.group not in kept]
    if not learned:
        raise Unadaptable("no picture is left to learn from: give more pictures that differ")
    return learned, [picture for picture in pictures if picture.group in kept]


def unlike(pictures: Sequence[Picture], others: Sequence[Picture]) -> list[Picture]:
    """The pictures whose group has no picture that is like one of the others."""
    signatures = np.array([other.signature for other in others], np.uint64)
    duplicate_groups = {picture.group for picture in pictures if (_bits(signatures, picture.signature) <= _ALIKE_BITS).any()}
    return [picture for picture in pictures if picture.group not in duplicate_groups]


def read(path: Path, side: int) -> NDArray[np.uint8] | None:
    """A picture, [height, width, 3], with at most ``side`` pixels along its longer side; None if it cannot be read."""
    engine = library("foveate_engine", "./python/engine of Foveate's checkout", "foveate.adapt")
    torch = library("torch", "torch", "foveate.adapt")
    try:
        picture: NDArray[np.uint8] = engine.decode(path)
    except (engine.EngineError, OSError):
        return None
    height, width = picture.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return picture
    size = max(1, round(height * scale)), max(1, round(width * scale))
    channels = torch.from_numpy(picture).permute(2, 0, 1)[None].float()
    scaled = torch.nn.functional.interpolate(channels, size, mode="bilinear", antialias=True)
    found: NDArray[np.uint8] = scaled[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8).numpy()
    return np.ascontiguousarray(found)


class Looks(NamedTuple):
    """How the student looks at pictures.

    :ivar layouts: each picture gets one of them. :ivar budgets: fewest and most tokens.
    """

    layouts: tuple[str, ...]
    budgets: tuple[int, int]
    patch: int

    def draw(self, chance: np.random.Generator) -> dict[str, Any]:
        """A layout and a budget at random; small budgets are as likely as large ones, by their logarithm."""
        least, most = self.budgets
        budget = int(round(float(np.exp(chance.uniform(np.log(least), np.log(most))))))
        return {"layout": str(chance.choice(self.layouts)), "budget": budget}

    def tokens(self, engine: Any, picture: NDArray[np.uint8], drawn: dict[str, Any], chance: np.random.Generator) -> Any:
        """Tokens of a picture around a point at random."""
        height, width = picture.shape[:2]
        point = (float(chance.uniform(0, width)), float(chance.uniform(0, height)))
        return engine.batch([picture], [point], patch=self.patch, dtype="u8", normalisation="none", **drawn)[0]


def every_patch(engine: Any, picture: NDArray[np.uint8], patch: int) -> Any:
    """The whole picture, patch by patch."""
    height, width = picture.shape[:2]
    count = -(-height // patch) * -(-width // patch)
    return engine.batch(
        [picture], layout="uniform", budget=count, patch=patch, dtype="u8", normalisation="none"
    )[0]


def _signature(picture: NDArray[np.uint8]) -> int:
    """Whether each of 8 x 8 cells is brighter than the one to its right."""
    torch = library("torch", "torch", "foveate.adapt")
    gray = torch.from_numpy(picture).float().mean(2)[None, None]
    cells = torch.nn.functional.interpolate(gray, (8, 9), mode="bilinear", antialias=True)[0, 0].numpy()
    return int(np.packbits(cells[:, 1:] < cells[:, :-1]).view(">u8")[0])


def _bits(signatures: NDArray[np.uint64], signature: int) -> NDArray[np.int64]:
    """In how many bits signatures differ from one."""
    differing = (signatures ^ np.uint64(signature)).view(np.uint8).reshape(-1, 8)
    return np.unpackbits(differing, axis=1).sum(axis=1, dtype=np.int64)


def _groups(paths: Sequence[Path], signatures: NDArray[np.uint64], has_clips: bool) -> list[int]:
    """The number of each picture's group: of similar pictures and, with ``has_clips``, of those of one folder."""
    group = list(range(len(paths)))

    def root(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    folders: dict[str, int] = {}
    for index, path in enumerate(paths):
        if has_clips:
            group[root(index)] = root(folders.setdefault(os.fspath(path.parent), index))
        for other in np.flatnonzero(_bits(signatures[:index], int(signatures[index])) <= _ALIKE_BITS).tolist():
            group[root(index)] = root(other)
    return [root(index) for index in range(len(paths))]
