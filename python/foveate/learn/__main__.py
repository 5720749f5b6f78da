"""``python -m foveate.learn``: a scorer from a clip and the boxes of what matters in it (docs/guide/learning.md)."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FoveateError
from ..models.common import library
from . import boxes, overlap, pictures, recording, report, training
from .boxes import Truth
from .errors import Unlearnable
from .recording import Recording, Watched
from .scorer import Scorer

#: Most outputs of a scorer's first convolution.
HIDDEN_MAX = 64
#: Frames that are drawn.
PICTURES = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2 if there is nothing to learn from what was given."""
    given = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="foveate-learn-") as folder:
            _learn(given, Path(folder))
    except FoveateError as error:
        print(f"foveate.learn: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m foveate.learn", description="Learns a scorer from a clip and the boxes of what matters in it."
    )
    say = parser.add_argument
    say("--clip", help="what `foveate extract` takes: a file, a folder of pictures, or an address")
    say("--recorded", type=Path, metavar="DIR", help="what `foveate extract` wrote of a view with channels, to learn from")
    say("--boxes", type=Path, required=True, metavar="FILE", help="MOT text, or COCO JSON")
    say("--out", type=Path, required=True, metavar="FILE", help="the scorer, a safetensors file")
    say("--channels", default="all", help="names with commas between (default: all but those of the gaze and of the place)")
    say("--train", metavar="FIRST:LAST", help="frames to learn from; the others are held out (default: the first half)")
    hidden = "outputs of the first convolution, an even number up to 64; 0 for a single one (default: %(default)s)"
    say("--hidden", type=_even(HIDDEN_MAX), default=8, help=hidden)
    weights = "what channels add to the learned score, in octaves for each of their units, such as unseen=3"
    say("--weights", type=_weights, default={}, metavar="NAME=WEIGHT,...", help=weights)
    say("--kernel", type=int, choices=(1, 3), default=3, help="side of convolutions (default: %(default)s)")
    say("--epochs", type=_between(1, 10000), default=30, help="how often each frame is shown (default: %(default)s)")
    say("--seed", type=_between(0, 2**63 - 1), default=0, help="another gives other weights (default: %(default)s)")
    say("--pictures", type=Path, metavar="DIR", help="draw held-out frames, and write the figures beside --out")
    say("--foveate", default="foveate", metavar="PROGRAM", help="the program (default: %(default)s)")
    say("--budget", type=_between(1, 5000), default=273, help="tokens of a frame (default: %(default)s)")
    return parser


def _between(least: int, most: int) -> Any:
    def number(text: str) -> int:
        if not (re.fullmatch(r"-?\d+", text) and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} to {most}")
        return int(text)

    return number


def _even(most: int) -> Any:
    def number(text: str) -> int:
        if not (re.fullmatch(r"\d+", text) and int(text) <= most and int(text) % 2 == 0):
            raise argparse.ArgumentTypeError(f"{text!r}: expected an even number from 0 to {most}")
        return int(text)

    return number


def _weights(text: str) -> dict[str, float]:
    """Weights by the names of channels."""
    found: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([a-z0-9_-]+)\s*=\s*([+-]?\d+(?:\.\d+)?)\s*", part)
        if match is None or match[1] in found:
            raise argparse.ArgumentTypeError(
                f"{part!r}: expected a channel and its weight, each channel once, such as unseen=3"
            )
        found[match[1]] = float(match[2])
    return found


def _learn(given: argparse.Namespace, folder: Path) -> None:
    if given.clip is None and given.recorded is None:
        raise Unlearnable("nothing to learn from: give --clip, or --recorded, or both")
    if given.weights and given.hidden == 0:
        raise Unlearnable("--weights needs two convolutions: give --hidden a number above 0")
    outputs = given.hidden + 2 * len(given.weights)
    if outputs > HIDDEN_MAX:
        raise Unlearnable(
            f"--hidden {given.hidden} with {len(given.weights)} weights: {outputs} outputs of the first convolution "
            f"(expected at most {HIDDEN_MAX}, two for each weight): lower --hidden"
        )
    # Report missing requirements before any long step.
    library("torch", "torch", "learning a scorer")
    if given.pictures is not None:
        library("PIL.Image", "Pillow", "--pictures")
    if not given.out.resolve().parent.is_dir():
        raise Unlearnable(f"--out {given.out}: there is no folder {given.out.resolve().parent}")
    recorded = given.recorded
    if recorded is None:
        _say(f"playing {given.clip}")
        recorded = recording.record(given.foveate, given.clip, folder / "recorded", given.budget)
    clip = recording.load(recorded)
    for name in given.weights:
        if name not in clip.names:
            raise Unlearnable(f"--weights {name}: the channel is not recorded: there are {', '.join(clip.names)}")
    truth = boxes.read(given.boxes, clip.frame_count, clip.size)
    learn_rows, held_rows = _parts(given.train, clip, truth)
    learned = _trained(given, clip, truth, learn_rows)
    _written(learned.with_weights(given.weights) if given.weights else learned, given.out)
    with_boxes = [(frame, row) for frame, row in held_rows if frame in truth.boxes]
    figures = {
        "cells": report.by_cells(clip, truth, with_boxes, learned),
        "positions": report.by_positions(clip, truth, with_boxes, learned),
    }
    watched: dict[str, Watched] = {}
    if given.clip is not None:
        for name, scorer in (("untrained", None), ("learned", given.out)):
            _say(f"playing {given.clip} to the {name} scorer")
            arrays = recording.watch(given.foveate, given.clip, folder / name, given.budget, scorer)
            watched[name] = Watched.load(arrays)
        figures["tokens"] = report.by_tokens(truth, [frame for frame, _ in with_boxes], clip.size, watched)
    print(f"{len(with_boxes)} frames with boxes of {len(held_rows)} that were held out; {given.budget} tokens")
    print(report.table(figures))
    losses = report.losses(figures)
    if losses:
        _say(
            f"warning: {given.out} finds less than the untrained scorer, the default of the policy relevance: "
            f"{', '.join(losses)}: leave `scorer` out of the configuration, or give more frames with boxes (--train), "
            "other --channels or more --epochs"
        )
    if given.pictures is not None:
        _drawn(given.pictures, clip, truth, with_boxes, learned, watched)
        summary = {
            "frames": len(with_boxes), "channels": list(learned.channels), "budget": given.budget,
            "overlap": {name: figures[name] for name in figures if name != "positions"}, "positions": figures["positions"],
        }
        given.out.with_suffix(".json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _parts(text: str | None, clip: Recording, truth: Truth) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Frames and their rows in the recording: to learn from, and held out."""
    first, last = 1, max(1, clip.frame_count // 2)
    if text is not None:
        match = re.fullmatch(r"(\d+):(\d+)", text)
        if match is None:
            raise Unlearnable(f"--train {text}: expected the first and the last frame to learn from, such as 1:100")
        first, last = int(match[1]), int(match[2])
        if not 1 <= first <= last <= clip.frame_count:
            raise Unlearnable(f"--train {text}: expected a part of the clip's frames, 1:{clip.frame_count}")
    known = [(int(frame), int(row)) for frame, row in zip(clip.seen, clip.rows, strict=True) if truth.knows(int(frame))]
    learn = [part for part in known if first <= part[0] <= last]
    held = [part for part in known if not first <= part[0] <= last]
    for part, rows in (("to learn from", learn), ("that are held out", held)):
        if not any(frame in truth.boxes for frame, _ in rows):
            raise Unlearnable(
                f"of the {len(rows)} frames {part}, none has a box: divide the clip in another way, "
                f"--train FIRST:LAST within 1:{clip.frame_count}"
            )
    return learn, held


def _trained(given: argparse.Namespace, clip: Recording, truth: Truth, rows: list[tuple[int, int]]) -> Scorer:
    wanted = None if given.channels == "all" else [name.strip() for name in given.channels.split(",")]
    names = training.chosen(clip.names, wanted)
    if len(rows) > training.FRAMES_MAX:
        rows = [rows[index] for index in np.linspace(0, len(rows) - 1, training.FRAMES_MAX).round().astype(int)]

    def read(names: Sequence[str]) -> Any:
        index = [clip.names.index(name) for name in names]
        return np.stack([np.asarray(clip.channels[row][index], np.float32) for _, row in rows])

    channels = read(names)
    if not np.isfinite(channels).all():
        raise Unlearnable(f"{clip.folder}/channels.npy has values that are not finite: record it again")
    varying = training.varying(names, channels, wanted is not None)
    if varying != names:
        channels = read(varying)
    left_out = [name for name in clip.names if name not in varying]
    _say(f"learning from {len(varying)} channels of {len(rows)} frames"
         + (f"; left out: {', '.join(left_out)}" if left_out and wanted is None else ""))
    shares = np.stack([report.shares(clip, truth, frame) for frame, _ in rows])
    settings = training.Settings(given.hidden, given.kernel, given.epochs, given.seed)
    return training.train(varying, channels, shares, settings)


def _written(learned: Scorer, out: Path) -> None:
    try:
        learned.write(out)
    except OSError as error:
        raise Unlearnable(f"--out {out} cannot be written: {error.strerror}") from error


def _drawn(
    folder: Path,
    clip: Recording,
    truth: Truth,
    rows: list[tuple[int, int]],
    learned: Scorer,
    watched: dict[str, Watched],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    cells = overlap.Cells(clip.size, clip.cell)
    index = [clip.names.index(name) for name in learned.channels]
    for at in sorted({round(part) for part in np.linspace(0, len(rows) - 1, PICTURES)}):
        frame, row = rows[at]
        score = learned.score(np.asarray(clip.channels[row][index], np.float32))
        picture, true = None, truth.of(frame)
        if watched:
            picture = pictures.frame(*watched["learned"].of(frame), clip.size)
            fine = watched["learned"].finest(frame)
            pictures.draw(folder / f"{frame:06}-tokens.png", picture, score, cells, fine, true)
        covered = cells.sums(overlap.mask(true, clip.size))
        best = cells.greatest(score, cells.count(covered))
        corner = np.stack([best % cells.area.shape[1], best // cells.area.shape[1]], axis=-1) * float(clip.cell)
        squares = np.concatenate([corner, np.minimum(corner + clip.cell, clip.size)], axis=-1)
        pictures.draw(folder / f"{frame:06}-cells.png", picture, score, cells, squares, true)


if __name__ == "__main__":
    sys.exit(main())
