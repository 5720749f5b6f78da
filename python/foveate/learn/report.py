"""How well scorers find boxes in frames that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import overlap, scorer
from .boxes import Truth
from .recording import Recording, Watched
from .scorer import Scorer

#: What a table calls its measures.
LABELS = {
    "cells": "overlap of cells",
    "positions": f"{overlap.POSITIONS} positions, share in boxes",
    "tokens": "overlap of tokens",
}
#: Choices at random that a figure is the mean of, in each frame.
DRAWS = 10


def shares(recording: Recording, truth: Truth, frame: int) -> NDArray[np.float32]:
    """The part of each cell that lies in boxes, [rows, columns], 0 to 1."""
    cells = overlap.Cells(recording.size, recording.cell)
    return (cells.sums(overlap.mask(truth.of(frame), recording.size)) / cells.area).astype(np.float32)


def by_cells(recording: Recording, truth: Truth, rows: Sequence[tuple[int, int]], learned: Scorer) -> dict[str, float]:
    """Mean overlap of the cells of the greatest score.

    :param rows: frames with boxes, and where in the recording their channels are.
    :returns: by who scored: ``random``, ``untrained`` if its channels are recorded, ``learned``; and ``best of as many``
        and ``best``, what no scorer can exceed with as many cells as the boxes would fill, and with any number.
    """
    cells, chance = overlap.Cells(recording.size, recording.cell), np.random.default_rng(0)
    found: dict[str, list[float]] = {}
    for frame, row in rows:
        covered = cells.sums(overlap.mask(truth.of(frame), recording.size))
        count = cells.count(covered)
        draws = [cells.overlap(covered, chance.permutation(covered.size)[:count]) for _ in range(DRAWS)]
        values = {"random": float(np.mean(draws))}
        for name, score in _scores(recording, row, learned).items():
            values[name] = cells.by_score(covered, score)
        values["best of as many"] = cells.best_of_as_many(covered)
        values["best"] = cells.best(covered)
        _collect(found, values)
    return _means(found)


def by_positions(
    recording: Recording, truth: Truth, rows: Sequence[tuple[int, int]], learned: Scorer
) -> dict[str, float]:
    """Mean share of chosen positions that lie in boxes.

    :param rows: frames with boxes, and where in the recording their channels are.
    :returns: as :func:`by_cells`; ``best of as many`` is of the cells that have most of the boxes, ``best`` of positions.
    """
    cells, positions = overlap.Cells(recording.size, recording.cell), overlap.Positions(recording.size)
    found: dict[str, list[float]] = {}
    for frame, row in rows:
        mask = overlap.mask(truth.of(frame), recording.size)
        inside = positions.inside(mask)
        values = {"random": float(inside.mean())}
        for name, score in _scores(recording, row, learned).items():
            values[name] = positions.by_score(inside, score, recording.cell)
        values["best of as many"] = positions.by_score(inside, cells.sums(mask) / cells.area, recording.cell)
        values["best"] = positions.best(inside)
        _collect(found, values)
    return _means(found)


def _scores(recording: Recording, row: int, learned: Scorer) -> dict[str, NDArray[np.float32]]:
    """The score of each cell by who scored; the default scorer's only if its channels are recorded."""
    channels = np.asarray(recording.channels[row], np.float32)
    untrained = scorer.untrained(recording.names, channels)
    scores = {} if untrained is None else {"untrained": untrained}
    scores["learned"] = learned.score(channels[[recording.names.index(name) for name in learned.channels]])
    return scores


def _collect(found: dict[str, list[float]], values: dict[str, float]) -> None:
    for name, value in values.items():
        found.setdefault(name, []).append(value)


def _means(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def by_tokens(
    truth: Truth, frames: Sequence[int], size: tuple[int, int], watched: dict[str, Watched]
) -> dict[str, float]:
    """Mean overlap of the tokens at full resolution.

    :param frames: those with boxes.
    :param watched: by who scored; the last decides how many tokens ``random`` has.
    """
    chance = np.random.default_rng(0)
    last = list(watched.values())[-1]

    def mean(boxes_of: Callable[[int], Any]) -> float:
        masks = ((overlap.mask(boxes_of(frame), size), overlap.mask(truth.of(frame), size)) for frame in frames)
        return float(np.mean([overlap.overlap(chosen, true) for chosen, true in masks]))

    def anywhere(frame: int) -> Any:
        side = last.pixels.shape[-1]
        columns, rows = -(-size[0] // side), -(-size[1] // side)
        at = chance.permutation(columns * rows)[: len(last.finest(frame))]
        corner = np.stack([at % columns, at // columns], axis=-1) * float(side)
        return np.concatenate([corner, np.minimum(corner + side, size)], axis=-1)

    found = {"random": mean(anywhere)}
    for name, tokens in watched.items():
        found[name] = mean(tokens.finest)
    return found


def losses(figures: dict[str, dict[str, float]]) -> list[str]:
    """Measures in which the learned scorer finds less than the default one, in words."""
    return [
        f"{LABELS[measure]} {values['learned']:.3f} (untrained {values['untrained']:.3f})"
        for measure, values in figures.items()
        if values["learned"] < values.get("untrained", 0)
    ]


def table(figures: dict[str, dict[str, float]]) -> str:
    """Figures by measure and scorer, as Markdown."""
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    lines = [["held-out frames", *names], ["---", *("---:" for _ in names)]]
    for measure, values in figures.items():
        lines.append([LABELS[measure], *(f"{values[name]:.3f}" if name in values else "" for name in names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
