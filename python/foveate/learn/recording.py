"""Recordings: the channels of a clip, and what tokens a scorer chooses in it, by ``foveate extract``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..frame import sizes_of
from .errors import Unlearnable

#: Where ``extract`` puts the arrays of the view below.
VIEW = "learn"


class Recording(NamedTuple):
    """What a view with the policy ``relevance`` saw of a clip.

    :ivar folder: where its arrays are.
    :ivar size: width and height of the clip in pixels.
    :ivar names: of the C channels.
    :ivar cell: side of a cell in pixels.
    :ivar frame_count: frames of the clip, which are counted from 1.
    :ivar seen: [S], the frames whose channels were made, ascending.
    :ivar rows: [S], where in ``channels`` they are.
    :ivar channels: [F, C, rows, columns], of each frame of the clip.
    """

    folder: Path
    size: tuple[int, int]
    names: tuple[str, ...]
    cell: int
    frame_count: int
    seen: NDArray[np.int64]
    rows: NDArray[np.int64]
    channels: NDArray[Any]


def record(program: str, clip: str, folder: Path, budget: int) -> Path:
    """Plays a clip to a view that publishes all channels, and returns the folder of its arrays.

    It decides in every frame, so that each is a sample.

    :raises Unlearnable: if the program fails.
    """
    view = ['channels = "all"', "[stream.view.gaze]", 'policy = "relevance"', "saccade_hz = 1000.0"]
    return _extracted(program, clip, folder, budget, view)


def watch(program: str, clip: str, folder: Path, budget: int, scorer: Path | None) -> Path:
    """Plays a clip to a view whose tokens go by ``scorer``, None for the default one; returns the folder of its arrays."""
    view = ["[stream.view.gaze]", 'policy = "relevance"']
    if scorer is not None:
        view.append(f"scorer = {_quoted(str(scorer.resolve()))}")
    return _extracted(program, clip, folder, budget, view)


def _extracted(program: str, clip: str, folder: Path, budget: int, view: list[str]) -> Path:
    folder.mkdir(parents=True)
    source = clip if "://" in clip else str(Path(clip).resolve())
    head = ["[[stream]]", 'name = "clip"', f"source = {_quoted(source)}", "[[stream.view]]", f'name = "{VIEW}"']
    head += ['layout = "adaptive"', 'dtype = "u8"', f"budget = {budget}"]
    config = folder / "learn.toml"
    config.write_text("\n".join([*head, *view, ""]), encoding="utf-8")
    command = [program, "extract", source, "--config", str(config), "--out", str(folder)]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    except OSError as error:
        raise Unlearnable(
            f"{program} cannot be run ({error.strerror}): name the program `foveate` with --foveate"
        ) from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise Unlearnable(f"{program} extract failed with the exit code {done.returncode}:\n{last}")
    return folder / VIEW


def _quoted(text: str) -> str:
    """A string of TOML with `${` escaped, so that it does not start a variable."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${")


def load(folder: Path) -> Recording:
    """A recording that is there: the folder of a view, or the one around it if there is one view.

    :raises Unlearnable: if it has no channels.
    """
    if not (folder / "channels.npy").exists():
        inside = [path.parent for path in sorted(folder.glob("*/channels.npy"))]
        if len(inside) != 1:
            raise Unlearnable(
                f"{folder} has {len(inside)} views with channels.npy: give the folder of one that `foveate extract` wrote, "
                'of a view with channels = "all" and the gaze policy "relevance"'
            )
        folder = inside[0]
    try:
        frames, channels = np.load(folder / "frames.npy"), np.load(folder / "channels.npy", mmap_mode="r")
        segments = json.loads((folder / "segments.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unlearnable(f"the recording {folder} cannot be read: {error}") from error
    return _checked(folder, frames, channels, segments)


def _checked(folder: Path, frames: Any, channels: Any, segments: Any) -> Recording:
    try:
        segment = segments[-1]
        names, cell = tuple(segment["channels"]["names"]), int(segment["channels"]["cell"])
        size = int(segment["source_width"]), int(segment["source_height"])
        seen = frames["channels_frame"].astype(np.int64)
        frame_count = int(frames["frame_seq"].max())
    except (LookupError, TypeError, ValueError) as error:
        raise Unlearnable(f"the recording {folder} does not describe its channels ({error!r}): record it again") from error
    grid = -(-size[1] // cell), -(-size[0] // cell)
    if channels.shape != (len(frames), len(names), *grid):
        raise Unlearnable(
            f"{folder}/channels.npy has the shape {list(channels.shape)}: "
            f"{[len(frames), len(names), *grid]} is expected by the other files: record it again"
        )
    if len({(other["source_width"], other["source_height"]) for other in segments}) != 1:
        raise Unlearnable(f"the frames of {folder} change their size: record a clip of one size")
    seen, rows = np.unique(seen, return_index=True)
    is_seen = seen > 0
    if not is_seen.any():
        raise Unlearnable(f"no decision was made while {folder} was recorded: record a longer clip")
    return Recording(folder, size, names, cell, frame_count, seen[is_seen], rows[is_seen], channels)


class Watched(NamedTuple):
    """Tokens that a scorer chose.

    :ivar numbers: [F], the frame of each row, counted from 1.
    """

    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]
    tokens: NDArray[Any]
    pixels: NDArray[Any]

    @staticmethod
    def load(folder: Path) -> Watched:
        """The arrays in a folder of `foveate extract`."""
        frames = np.load(folder / "frames.npy")
        tokens, pixels = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("tokens", "pixels"))
        return Watched(frames["frame_seq"].astype(np.int64), frames["token_count"].astype(np.int64), tokens, pixels)

    def of(self, frame: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Records [N] and texels [N, 3, P, P] of a frame."""
        row = int(np.searchsorted(self.numbers, frame))
        return self.tokens[row, : self.counts[row]], self.pixels[row, : self.counts[row]]

    def finest(self, frame: int) -> NDArray[np.float64]:
        """Boxes of the tokens of a frame at full resolution, [N, 4]: x0, y0, x1, y1."""
        tokens, texels = self.of(frame)
        fine = tokens[(sizes_of(tokens, texels.shape[-1]) == texels.shape[-1]).all(axis=1)]
        return np.stack([fine[edge].astype(np.float64) for edge in ("x0", "y0", "x1", "y1")], axis=-1)
