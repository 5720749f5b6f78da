"""What the measurements share: the cache, tables, and scenes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import matplotlib
import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "python"), str(ROOT / "scripts" / "bench")]

#: Kept between runs: packages, clips, scenes, and everything that was computed from them.
CACHE = Path(os.environ.get("FOVEATE_VALUE_CACHE") or Path.home() / ".cache" / "foveate" / "value")

cv2.setNumThreads(2)


class Table:
    """Rows of Markdown; numbers with two digits after the point."""

    def __init__(self, head: Sequence[str]) -> None:
        self.rows = [head, ["---", *("---:" for _ in head[1:])]]

    def row(self, name: str, values: Iterable[Any]) -> None:
        """Adds a row."""
        self.rows.append([name, *(value if isinstance(value, str) else f"{value:.2f}" for value in values)])

    def columns(self, columns: Sequence[dict[str, Any]]) -> Table:
        """Adds the rows of columns whose cells have the same names."""
        for name in columns[0]:
            self.row(name, [column.get(name, "") for column in columns])
        return self

    def plot(self, name: str, label: str) -> None:
        """Draws the rows against the numbers of the head, as docs/images/NAME."""
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes, ticks = figure.add_subplot(), self.rows[0][1:]
        places = [float(number) for number in ticks]
        for row, *values in self.rows[2:]:
            axes.plot(places, [float(value) for value in values], marker="o", label=row)
        axes.set(xscale="log", xticks=places, xticklabels=ticks, xlabel="tokens", ylabel=label, ylim=(0, 1.02))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower right")
        figure.savefig(ROOT / "docs" / "images" / name, metadata={"Date": None})

    def __str__(self) -> str:
        return "\n".join("| " + " | ".join(row) + " |" for row in self.rows)


def digest(*things: Any) -> str:
    """A name for anything that JSON can hold."""
    return hashlib.sha256(json.dumps(things, sort_keys=True).encode()).hexdigest()[:16]


def cached(name: str, key: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Arrays that `make` computes only once for each `key`, which is anything that JSON can hold."""
    path = CACHE / "computed" / f"{name}-{digest(key)}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **make())
        part.rename(path)
    with np.load(path, allow_pickle=True) as arrays:
        return dict(arrays)


# Scenes: frames in order, as raw RGBx, so that the product gets exactly the pixels that the full picture has.


class Scene(NamedTuple):
    """A clip on disk.

    :ivar frames: [F, height, width, 4] uint8, R, G, B and an unused byte.
    :ivar measured: indices of the frames that are measured; those before are for the gaze to look around.
    :ivar rate: frames a second.
    """

    name: str
    path: Path
    frames: Any
    measured: list[int]
    rate: int = 10

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.frames.shape[2], self.frames.shape[1]

    def picture(self, index: int) -> Any:
        """[height, width, 3] uint8, R, G, B."""
        return np.ascontiguousarray(self.frames[index, :, :, :3])

    def _parsed(self, rate: int) -> str:
        width, height = self.size
        return f"rawvideoparse format=rgbx width={width} height={height} framerate={rate}/1"

    def pipeline(self) -> str:
        """For GStreamer."""
        return f"{self._raw()} ! {self._parsed(self.rate)} ! appsink name=frames"

    def live_pipeline(self) -> str:
        """In real time, at four frames a second, so that a consumer keeps up on a busy machine."""
        return f"{self._raw()} ! {self._parsed(4)} ! identity sync=true ! appsink name=frames"

    def still_pipeline(self) -> str:
        """The first frame for ever, eight times a second."""
        path = self.path.with_suffix(".first.rgbx")
        if not path.exists():
            self.frames[0].tofile(path)
        return f"multifilesrc location={path} loop=true ! {self._parsed(8)} ! identity sync=true ! appsink name=frames"

    def _raw(self) -> str:
        return f"filesrc location={self.path} blocksize={self.frames[0].nbytes}"


def made_scene(name: str, make: Callable[[], Iterable[Any]], size: tuple[int, int], measured: Sequence[int] = ()) -> Scene:
    """The scene of the pictures that `make` yields, [height, width, 3] uint8 each. They are made once."""
    path = CACHE / "scenes" / f"{name.replace(' ', '-')}.rgbx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            for picture in make():
                file.write(cv2.cvtColor(picture, cv2.COLOR_RGB2RGBA).tobytes())
        part.rename(path)
    frames = np.memmap(path, np.uint8, "r").reshape(-1, size[1], size[0], 4)
    return Scene(name, path, frames, list(measured))


#: Where the four stretches of vtest.avi begin that lie side by side, two above two; `walkers` is what rules were tuned on.
STRETCHES = {"walkers": (0, 200, 400, 600), "apart": (100, 300, 500, 690)}
WARM_UP, MEASURED, STEP = 40, 12, 4
LENGTH = WARM_UP + MEASURED * STEP


def clip_frames(path: Path) -> list[Any]:
    """All frames of a clip, R, G, B."""
    capture = cv2.VideoCapture(str(path))
    frames: list[Any] = []
    while True:
        is_read, frame = capture.read()
        if not is_read:
            return frames
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))


def four_cameras(name: str) -> Scene:
    """`walkers` or `apart`, 1536x1152."""

    def make() -> Iterator[Any]:
        clip = clip_frames(CACHE.parent / "vtest.avi")
        for at in range(LENGTH):
            four = [clip[start + at] for start in STRETCHES[name]]
            yield np.vstack([np.hstack(four[:2]), np.hstack(four[2:])])

    return made_scene(name, make, (1536, 1152), range(WARM_UP, LENGTH, STEP))


def one_camera() -> Scene:
    """One of the stretches of `walkers`."""

    def make() -> list[Any]:
        return clip_frames(CACHE.parent / "vtest.avi")[600 : 600 + LENGTH]

    return made_scene("camera", make, (768, 576), range(WARM_UP, LENGTH, STEP))


def sign_photograph(number: int) -> Any:
    """One of six photographs of signs, from 1."""
    return photograph(f"scenetext0{number}.jpg")


def six_signs() -> Scene:
    """The photographs of signs, three in a row, 640x480 each."""

    def make() -> list[Any]:
        cells = []
        for number in range(1, 7):
            sign, cell = sign_photograph(number), np.zeros((480, 640, 3), np.uint8)
            scale = min(640 / sign.shape[1], 480 / sign.shape[0])
            size = round(sign.shape[1] * scale), round(sign.shape[0] * scale)
            cell[: size[1], : size[0]] = cv2.resize(sign, size, interpolation=cv2.INTER_AREA)
            cells.append(cell)
        return [np.vstack([np.hstack(cells[:3]), np.hstack(cells[3:])])] * 12

    return made_scene("signs", make, (1920, 960), [10])


# Pictures that scenes are made of.


def photograph(path: str | Path) -> Any:
    """[height, width, 3] uint8, R, G, B; a relative path is one of the pictures of OpenCV's examples."""
    return cv2.cvtColor(cv2.imread(str(CACHE / "pictures" / path)), cv2.COLOR_BGR2RGB)


def covering(picture: Any, size: tuple[int, int]) -> Any:
    """A picture scaled as far as it takes to fill this width and height, and cut off."""
    scale = max(size[0] / picture.shape[1], size[1] / picture.shape[0])
    return cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)[: size[1], : size[0]].copy()


def font_file(name: str) -> str:
    """Of a font that comes with matplotlib."""
    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")
