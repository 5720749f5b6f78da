"""What Foveate shows of a scene, steered by a consumer or not; and pictures as small as a budget of tokens to compare it
with.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
from common import CACHE, ROOT, Scene, Table, cached, digest
from daemon import Daemon

from foveate import TOKEN, Canvas
from foveate.picture import smoothed

#: The program that is measured, and an earlier one whose default settings are measured beside it, if there is one.
TOOL = Path(os.environ.get("FOVEATE_TOOL") or ROOT / "target" / "release" / "foveate")
BEFORE = Path(os.environ["FOVEATE_TOOL_BEFORE"]) if os.environ.get("FOVEATE_TOOL_BEFORE") else None

Keys = dict[str, Any]

#: Keys of the views that nobody steers, 273 tokens.
DEFAULT: Keys = {"layout": "adaptive"}
CANVAS: Keys = {**DEFAULT, "memory": "canvas"}
UNIFORM: Keys = {"layout": "uniform", "gaze": {"policy": "fixed"}}
#: Ways to see a scene: single frames, the last one of which is judged beside the others; and the same of all frames so far.
SINGLE = ("full", "shrunk", "crop", "uniform", "before", "canvas, single frames", "default")
KEPT = ("full", "shrunk", "tiles", "before, kept", "canvas")
#: What the last one is judged beside.
RIVALS = ("shrunk", "crop", "uniform", "before", "tiles", "before, kept")


class Extracted:
    """The arrays of one view, as `foveate extract` writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frames = np.load(folder / "frames.npy")
        self.tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self.pixels = np.load(folder / "pixels.npy", mmap_mode="r")

    def frame(self, index: int) -> tuple[Any, Any]:
        """Records and texels [N, 3, P, P] of a frame."""
        count = self.frames["token_count"][index]
        return self.tokens[index, :count].view(TOKEN), self.pixels[index, :count]

    def fixations(self, index: int) -> Any:
        """Where the view looked in a frame, [N, 2]."""
        blocks = self.frames["fixations"][index, : self.frames["fixation_count"][index]]
        return np.stack([blocks["x"], blocks["y"]], axis=1)

    def drawn(self, source: Scene, index: int) -> Any:
        """The picture that a frame alone shows."""
        return rebuilt(*self.frame(index), source.size)

    def canvas(self, source: Scene, at: Iterable[int]) -> list[Any]:
        """What a canvas that got every frame shows after each of these."""
        canvas, tiles, pictures = Canvas(), np.load(self.folder / "tiles.npy", mmap_mode="r"), []
        info = SimpleNamespace(epoch=1, extent=source.size, patch=self.pixels.shape[-1], dtype="u8")
        for index in range(max(at) + 1):
            tokens, pixels = self.frame(index)
            canvas.update(
                SimpleNamespace(
                    info=info,
                    epoch=1,
                    ring_sequence=index + 1,
                    frame_seq=index + 1,
                    tokens=tokens,
                    pixels=pixels,
                    tiles=tiles[index].view("<u8")[..., 0],
                )
            )
            if index in at:
                pictures.append(canvas.picture(smooth=True))
        return pictures


def extract(source: Scene, views: dict[str, Keys], threshold: Any = "auto", tool: Path = TOOL) -> dict[str, Extracted]:
    """Runs `foveate extract` with these views, of which the keys of the configuration are given; the threshold is that of
    a camera."""
    names = [f"v{number}" for number in range(len(views))]
    text = configuration(source.pipeline(), dict(zip(names, views.values(), strict=True)), threshold)
    out = CACHE / "extracted" / digest(source.name, text, tool.stat().st_mtime_ns)
    if not (out / "done").exists():
        out.mkdir(parents=True, exist_ok=True)
        config = out / "views.toml"
        config.write_text(text)
        command = [str(tool), "extract", "--force", "--pipeline", source.pipeline(), "--config", str(config)]
        command += ["--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (out / "done").touch()
    return {label: Extracted(out / name) for label, name in zip(views, names, strict=True)}


def configuration(pipeline: str, views: dict[str, Keys], threshold: Any = "auto") -> str:
    """A configuration file of one stream `scene`."""
    change = {"threshold": threshold}
    lines = ["[[stream]]", 'name = "scene"', f"pipeline = {toml(pipeline)}", 'backend = "cpu"', f"change = {toml(change)}"]
    for name, keys in views.items():
        lines += [
            "[[stream.view]]",
            *(f"{key} = {toml(value)}" for key, value in {"name": name, "dtype": "u8", **keys}.items()),
        ]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """A value in TOML, with tables in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def rebuilt(tokens: Any, pixels: Any, size: tuple[int, int]) -> Any:
    """The smooth picture [height, width, 3] of records and texels [N, 3, P, P]."""
    return smoothed(tokens, np.moveaxis(pixels, 1, 3), size)


def step_map(tokens: Any, size: tuple[int, int], patch: int = 16) -> Any:
    """Pixels of a texel along its longer side, at each pixel: [height, width] float32, infinite where no token lies."""
    width, height = size
    steps = np.full((height, width), np.inf, np.float32)
    along = np.maximum(patch * tokens["sx"] + tokens["extra_width"], patch * tokens["sy"] + tokens["extra_height"]) / patch
    for number in np.argsort(-along, kind="stable"):
        x0, y0, x1, y1 = tokens["box"][number]
        steps[y0:y1, x0:x1] = along[number]
    return steps


def sharpest(view: Extracted, size: tuple[int, int], at: Iterable[int]) -> list[Any]:
    """Of a still scene, the picture of the finest tokens of each place so far, after each of these frames."""
    picture, steps = np.zeros((size[1], size[0], 3), np.uint8), np.full((size[1], size[0]), np.inf, np.float32)
    before, pictures = b"", []
    for index in range(max(at) + 1):
        tokens, pixels = view.frame(index)
        places = tokens[["x", "y", "sx", "sy", "extra_width", "extra_height"]].tobytes()
        if places != before:
            now = step_map(tokens, size)
            is_finer = now < steps
            picture[is_finer] = rebuilt(tokens, pixels, size)[is_finer]
            steps[is_finer] = now[is_finer]
            before = places
        if index in at:
            pictures.append(picture.copy())
    return pictures


def seen(source: Scene, at: Sequence[int], *, is_still: bool = False) -> dict[str, list[Any]]:
    """What a scene is to a model in each of these frames, 273 tokens a frame: in single frames, `SINGLE`, and in all that a
    consumer has kept of the frames so far, `KEPT`.

    :param is_still: whether nothing ever changes, so that the finest token so far of each place is still true.
    """
    middle = (source.size[0] / 2, source.size[1] / 2)
    full = [source.picture(index) for index in at]
    views = extract(source, {"default": DEFAULT, "canvas": CANVAS, "uniform": UNIFORM})

    def single(view: Extracted) -> list[Any]:
        return [view.drawn(source, index) for index in at]

    shown = {
        "full": full,
        "shrunk": [shrunk(picture, 273) for picture in full],
        "crop": [cropped(picture, middle, 273) for picture in full],
        "uniform": single(views["uniform"]),
        "default": single(views["default"]),
        "canvas, single frames": single(views["canvas"]),
        "tiles": [rolled(source, index, 273) for index in at],
        "canvas": views["canvas"].canvas(source, at),
    }
    if BEFORE is not None:
        before = extract(source, {"view": {}}, tool=BEFORE)["view"]
        shown["before"] = single(before)
        shown["before, kept"] = sharpest(before, source.size, at) if is_still else shown["before"]
    return shown


def compared(what: str, measures: dict[str, dict[str, Any]]) -> str:
    """Tables of single frames and of what is kept, with a row for each measure and a column for each way. Rows in which the
    last way has less than another one, the full picture left out, come first, and are marked.

    :param measures: by name, of each way the value, or the value and the standard error of its difference from `shrunk`.
    """
    tables = []
    for title, ways in (("single frames", SINGLE), ("all frames so far", KEPT)):
        present = [way for way in ways if way in next(iter(measures.values()))]

        def lead(name: str, ways: list[str] = present) -> float:
            values = {way: np.ravel(measures[name][way])[0] for way in ways if way in measures[name]}
            others = [value for way, value in values.items() if way in RIVALS]
            return round(float(values[ways[-1]] - max(others)), 3)

        table = Table([f"{what}: {title}", *present])
        for name in sorted(measures, key=lambda name: min(0.0, lead(name))):
            cells = [measures[name].get(way, "") for way in present]
            told = [f"{cell[0]:.3f} ({cell[1]:.3f})" if isinstance(cell, tuple) else cell for cell in cells]
            table.row(name if 0 <= lead(name) else f"*{name}*", told)
        tables.append(str(table))
    return "\n\n".join(tables)


# Pictures as small as a budget of tokens.


def shrunk(picture: Any, budget: int, patch: int = 16) -> Any:
    """The picture shrunk to as many texels as `budget` tokens have, by area means, and enlarged again."""
    height, width = picture.shape[:2]
    scale = (budget * patch * patch / (width * height)) ** 0.5
    if scale >= 1:
        return picture
    small = cv2.resize(picture, (int(width * scale), int(height * scale)), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def cropped(picture: Any, point: tuple[float, float], budget: int, aspect: float = 1.0, patch: int = 16) -> Any:
    """The patches of full resolution around a point, as many as `budget`, `aspect` times as many columns as rows; the rest
    is black.
    """
    height, width = picture.shape[:2]
    columns = max(1, min(width // patch, budget, round((budget * aspect) ** 0.5)))
    rows = max(1, min(height // patch, budget // columns))
    x0 = int(min(max(0, point[0] - columns * patch / 2), width - columns * patch))
    y0 = int(min(max(0, point[1] - rows * patch / 2), height - rows * patch))
    crop = np.zeros_like(picture)
    place = slice(y0, y0 + rows * patch), slice(x0, x0 + columns * patch)
    crop[place] = picture[place]
    return crop


def rolled(source: Scene, index: int, budget: int, patch: int = 16) -> Any:
    """The picture where each frame has brought the next `budget` patches of full resolution, row by row."""
    width, height = source.size
    columns, rows = -(-width // patch), -(-height // patch)
    picture = np.zeros((height, width, 3), np.uint8)
    number = np.arange(columns * rows)
    #: Of each patch the last frame that had it.
    last = np.full(columns * rows, -1)
    for frame in range(index + 1):
        last[(number - frame * budget) % (columns * rows) < budget] = frame
    every = last.reshape(rows, columns).repeat(patch, 0).repeat(patch, 1)[:height, :width]
    for frame in range(max(0, index - columns * rows // budget - 1), index + 1):
        picture[every == frame] = source.picture(frame)[every == frame]
    return picture


# A consumer that steers a view of a running daemon.

#: A daemon decides about a map this many frames after it came.
SETTLED = 3


def _shown(
    name: str, key: Any, pipeline: str, keys: Keys, show: Callable[[Any], list[tuple[Any, Any]]]
) -> list[tuple[Any, Any]]:
    """What `show` returns of a view of a daemon, records and texels [N, 3, P, P]; only once for each `key`."""

    def make() -> dict[str, Any]:
        with Daemon(TOOL.parent, configuration(pipeline, {"view": keys})) as daemon, daemon.open("scene/view") as view:
            frames = show(view)
        return {f"{kind}{at:04}": array for at, frame in enumerate(frames) for kind, array in zip("tp", frame, strict=True)}

    arrays = cached(name, [key, keys, TOOL.with_name("foveated").stat().st_mtime_ns], make)
    names = sorted(arrays)
    return [(arrays[f"t{at:04}"], arrays[f"p{at:04}"]) for at in range(len(names) // 2)]


def steered(source: Scene, keys: Keys, steer: Callable[[int], Any], key: Any) -> dict[int, tuple[Any, Any]]:
    """Plays a scene in real time; the map `steer(index)`, if it is not None, is sent once frame `index` has been read. The
    last frame before each measured one is what the consumer has seen: what it sends then steers the measured frame.

    :param key: what `steer` depends on, for the cache.
    :returns: records and texels [N, 3, P, P] of each measured frame.
    """

    def show(view: Any) -> list[tuple[Any, Any]]:
        frames, index = [], -1
        while index < source.measured[-1]:
            frame = view.read(timeout=5)
            index = frame.frame_seq - 1
            weights = steer(index)
            if weights is not None:
                view.attend(weights, frame=frame)
            if index in source.measured:
                frames.append((frame.tokens, frame.pixels))
        return frames

    return dict(zip(source.measured, _shown("steered", [source.name, key], source.live_pipeline(), keys, show), strict=True))


def looked(source: Scene, keys: Keys, looks: Sequence[Callable[[Any, Any], None]], key: Any) -> list[tuple[Any, Any]]:
    """Records and texels [N, 3, P, P] of a still scene once a consumer has asked a view for each of `looks`, one after
    another.

    :param looks: functions of the view and a frame of it.
    :param key: what they ask for, for the cache.
    """

    def show(view: Any) -> list[tuple[Any, Any]]:
        frames = []
        for look in looks:
            look(view, view.read(timeout=20))
            for _ in range(SETTLED):
                frame = view.read(timeout=20)
            frames.append((frame.tokens, frame.pixels))
        return frames

    return _shown("looked", [source.name, key], source.still_pipeline(), keys, show)
