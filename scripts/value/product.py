"""What Foveate shows of a scene, steered by a consumer or not; and pictures as small as a budget of tokens to compare it
with.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from common import CACHE, ROOT, Scene, cached, digest
from daemon import Daemon

from foveate import TOKEN
from foveate.picture import smoothed

#: The program that is measured.
TOOL = Path(os.environ.get("FOVEATE_TOOL") or ROOT / "target" / "release" / "foveate")

Keys = dict[str, Any]

#: Keys of the views that look around by themselves, 273 tokens.
LOOKING_AROUND: dict[str, Keys] = {
    "default settings": {},
    "default settings, policy `saliency`": {"gaze": {"policy": "saliency"}},
    "`foveal`, policy `saliency`": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "`foveal`": {"layout": "foveal"},
    "`relevance`": {"layout": "relevance"},
}


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

    def fixations(self, index: int) -> list[tuple[float, float]]:
        """Where a frame looks, in source pixels."""
        row = self.frames[index]
        return [(float(point["x"]), float(point["y"])) for point in row["fixations"][: row["fixation_count"]]]


def extract(source: Scene, views: dict[str, Keys], threshold: Any = 0) -> dict[str, Extracted]:
    """Runs `foveate extract` with these views, of which the keys of the configuration are given."""
    scorers = [Path(keys["gaze"]["scorer"]) for keys in views.values() if "scorer" in keys.get("gaze", {})]
    programs = [path.stat().st_mtime_ns for path in (TOOL, *scorers)]
    names = [f"v{number}" for number in range(len(views))]
    text = configuration(source.pipeline(), dict(zip(names, views.values(), strict=True)), threshold)
    out = CACHE / "extracted" / digest(source.name, text, programs)
    if not (out / "done").exists():
        out.mkdir(parents=True, exist_ok=True)
        config = out / "views.toml"
        config.write_text(text)
        command = [str(TOOL), "extract", "--pipeline", source.pipeline(), "--config", str(config), "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (out / "done").touch()
    return {label: Extracted(out / name) for label, name in zip(views, names, strict=True)}


def configuration(pipeline: str, views: dict[str, Keys], threshold: Any = 0) -> str:
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


def raster(source: Scene, columns: int, rows: int) -> Keys:
    """Keys of a view whose gaze log looks along rows, with 16 fixations from the first frame of a scene to its last."""
    (width, height), path = source.size, CACHE / f"raster-{columns}x{rows}-{source.size[0]}.log"
    lines: list[Keys] = [{"foveate_gaze_log": 2, "view": "scene/raster", "extent": [width, height]}]
    for index in range(16):
        x, y = (index % columns + 0.5) * width / columns, (index // columns + 0.5) * height / rows
        frame = 1 + round(index * len(source.frames) / 16)
        fixation = {"id": index + 1, "x": x, "y": y, "since_frame": frame, "reason": "policy", "weight": 1.0}
        lines.append({"frame": frame, "fixations": [fixation], "relevance": None})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"layout": "foveal", "gaze": {"policy": "replay", "log": str(path)}}


def seen_over_time(source: Scene, views: dict[str, Keys], at: Sequence[int]) -> dict[str, list[Any]]:
    """What a still scene is to a model after each of these frames, 273 tokens a frame: shrunk, by crops, and through views,
    which keep of each place the finest token so far."""
    picture, middle = source.picture(0), (source.size[0] / 2, source.size[1] / 2)
    extracted = extract(source, views)
    return {
        "shrunk to 273 patches": [shrunk(picture, 273)] * len(at),
        "a crop of 273 patches, at the centre": [cropped(picture, middle, 273)] * len(at),
        "rolling tiles, 273 a frame": [tiled(picture, 273, frame + 1) for frame in at],
        **{label: sharpest(view, source.size, at) for label, view in extracted.items()},
    }


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


def tiled(picture: Any, budget: int, frames: int, patch: int = 16) -> Any:
    """What so many frames show of a still picture where each has the next `budget` patches of full resolution, row by row;
    on top of nothing."""
    height, width = picture.shape[:2]
    columns, shown = -(-width // patch), np.zeros_like(picture)
    rows, rest = divmod(min(budget * frames, columns * -(-height // patch)), columns)
    shown[: rows * patch] = picture[: rows * patch]
    last = slice(rows * patch, (rows + 1) * patch), slice(0, rest * patch)
    shown[last] = picture[last]
    return shown


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
