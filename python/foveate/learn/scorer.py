"""Scorers: what they make of channels, and their files (docs/reference/relevance.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The weights of the default scorer, in octaves.
UNTRAINED = {
    "entropy": 1.0,
    "high_pass": 4.0,
    "strokes": 4.0,
    "intensity": 1.0,
    "red_green": 1.0,
    "blue_yellow": 1.0,
    "change": 12.0,
    "unseen": 3.0,
    "relevance": 0.5,
    "eccentricity": -0.5,
}


class Scorer(NamedTuple):
    """A scorer with trained weights.

    :ivar channels: names of the C channels that it reads.
    :ivar tensors: float32, by the names in the file.
    """

    channels: tuple[str, ...]
    tensors: dict[str, NDArray[np.float32]]

    def score(self, channels: NDArray[np.floating]) -> NDArray[np.float32]:
        """The score of each cell in octaves, before the mean is taken away and it is bounded.

        :param channels: [C, rows, columns].
        :returns: [rows, columns].
        """
        mean, std = (self.tensors[name][:, None, None] for name in ("mean", "std"))
        planes = _convolved((channels - mean) / std, self.tensors["conv1.weight"], self.tensors["conv1.bias"])
        if "conv2.weight" in self.tensors:
            planes = _convolved(planes.clip(0), self.tensors["conv2.weight"], self.tensors["conv2.bias"])
        return planes[0]

    def with_weights(self, weights: Mapping[str, float]) -> Scorer:
        """A scorer of two layers that adds channels to this one's score, each by its weight in octaves.

        Two more outputs of the first layer have each channel, above 0 and below 0, so the second can add it up.
        """
        channels = self.channels + tuple(name for name in weights if name not in self.channels)
        count, new = len(weights), len(channels) - len(self.channels)
        mean = np.append(self.tensors["mean"], np.zeros(new, np.float32))
        std = np.append(self.tensors["std"], np.ones(new, np.float32))
        side = self.tensors["conv1.weight"].shape[2]
        first = np.pad(self.tensors["conv1.weight"], ((0, 2 * count), (0, new), (0, 0), (0, 0)))
        bias = np.pad(self.tensors["conv1.bias"], (0, 2 * count))
        last = np.pad(self.tensors["conv2.weight"], ((0, 0), (0, 2 * count), (0, 0), (0, 0)))
        for number, (name, weight) in enumerate(weights.items()):
            index = channels.index(name)
            for output, sign in ((-2 * count + 2 * number, 1), (-2 * count + 2 * number + 1, -1)):
                first[output, index, side // 2, side // 2] = sign * std[index]
                bias[output] = sign * mean[index]
                last[0, output, last.shape[2] // 2, last.shape[3] // 2] = sign * weight
        tensors = {"mean": mean, "std": std, "conv1.weight": first, "conv1.bias": bias}
        return Scorer(channels, tensors | {"conv2.weight": last, "conv2.bias": self.tensors["conv2.bias"]})

    def write(self, path: Path) -> None:
        """Writes the file: all of it, or nothing."""
        arrays = {name: np.ascontiguousarray(tensor, "<f4") for name, tensor in self.tensors.items()}
        header: dict[str, object] = {"__metadata__": {"channels": ",".join(self.channels)}}
        end = 0
        for name, array in arrays.items():
            header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (end, end + array.nbytes)}
            end += array.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays.values()))
        os.replace(part, path)


def untrained(names: Sequence[str], channels: NDArray[np.floating]) -> NDArray[np.float32] | None:
    """The default scorer's score, before the mean is taken away and it is bounded; None if a channel of it is not there.

    :param names: of the C channels.
    :param channels: [C, rows, columns].
    """
    return weighted(UNTRAINED, names, channels) if set(UNTRAINED) <= set(names) else None


def weighted(
    weights: Mapping[str, float], names: Sequence[str], channels: NDArray[np.floating]
) -> NDArray[np.float32]:
    """The sum of channels by weights, [rows, columns]."""
    row = np.array([weights.get(name, 0.0) for name in names], np.float32)
    return np.tensordot(row, channels.astype(np.float32), 1)


def _convolved(
    planes: NDArray[np.float32], weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """A convolution with zeros beyond the edges: [C, rows, columns] and [H, C, k, k] become [H, rows, columns]."""
    side, (rows, columns) = weight.shape[2], planes.shape[1:]
    padded = np.pad(planes, ((0, 0), (side // 2,) * 2, (side // 2,) * 2))
    taps = [(y, x) for y in range(side) for x in range(side)]
    sums = sum(np.tensordot(weight[:, :, y, x], padded[:, y : y + rows, x : x + columns], 1) for y, x in taps)
    return (sums + bias[:, None, None]).astype(np.float32)
