"""What a vision transformer saves that computes only changed tokens, and how far its features are from a full run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from common import CACHE, Scene, Table, cached, clip_frames, four_cameras, made_scene
from dino import model
from features import PATCH, every_patch, frame_of
from product import CANVAS, DEFAULT, UNIFORM, Keys, extract
from reuse import clip_scene
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl
from typed import editor_scene

from foveate import Canvas
from foveate.models import content_id, qwen2_5_vl, qwen3_vl, video_onnx, vit
from foveate.models.video import VideoEncoder

#: A full run for comparison follows every so many frames.
EVERY = 10
#: An encoder that never computes everything because of age.
NEVER_FULL = {"full_every": 0, "full_after": 1e9}
#: Frames before those that are measured.
SETTLED = 10
THRESHOLDS = ("auto", 8, 0)


def long_camera() -> Scene:
    """A fixed camera over a square with people, 301 frames."""
    return made_scene("vtest 301", lambda: clip_frames(CACHE.parent / "vtest.avi")[:301], (768, 576))


def still_camera() -> Scene:
    """A fixed camera before which nothing moves, with noise of two levels of 8 bits, 116 frames."""

    def make() -> Iterator[Any]:
        first, chance = clip_frames(CACHE.parent / "vtest.avi")[0], np.random.default_rng(0)
        for _ in range(116):
            yield np.clip(first + chance.normal(0, 2, first.shape), 0, 255).round().astype(np.uint8)

    return made_scene("vtest still", make, (768, 576))


SCENES = {
    "fixed camera": long_camera,
    "walkers": lambda: four_cameras("walkers"),
    "screen": lambda: editor_scene("editor 3"),
    "moving camera": lambda: clip_scene("bikes.mp4"),
}


class Way(NamedTuple):
    """A way to encode a scene.

    :ivar view: keys of the view.
    :ivar encoder: parameters of the encoder; None computes the changed tokens alone, each frame for itself.
    :ivar frames: most frames.
    """

    view: Keys
    threshold: Any = "auto"
    encoder: Keys | None = {}
    is_canvas: bool = False
    frames: int = 301


EVERYWHERE = {
    "default settings": Way(DEFAULT),
    "threshold 8": Way(DEFAULT, 8, frames=100),
    "threshold 0": Way(DEFAULT, 0, frames=100),
}
#: Of some scenes more.
CANVAS_WAY = Way(CANVAS, encoder={"budget": 273}, is_canvas=True, frames=70)
MORE = {
    "fixed camera": {
        "tolerance 0": Way(DEFAULT, encoder={"tolerance": 0}, frames=100),
        "changed tokens alone": Way(DEFAULT, encoder=None, frames=100),
        "`uniform`": Way(UNIFORM, frames=100),
        "a canvas, 273 tokens": CANVAS_WAY,
        "1024 tokens": Way({**DEFAULT, "budget": 1024}, frames=40),
        "a canvas, 1024 tokens": Way(CANVAS, encoder={"budget": 1024}, is_canvas=True, frames=90),
    },
    "screen": {"a canvas, 273 tokens": CANVAS_WAY},
}
#: Measured on a fixed camera alone.
DRIFTING = {"default settings": EVERYWHERE["default settings"], "without full runs": Way(DEFAULT, encoder=NEVER_FULL)}


def frames(source: Scene, way: Way, patch: int = PATCH) -> Iterator[Any]:
    """What a reader of the view gives: frames, or the canvas after each."""
    view = extract(source, {"view": {**way.view, "patch": patch}}, way.threshold)["view"]
    canvas = Canvas()
    tiles = np.load(view.folder / "tiles.npy", mmap_mode="r") if way.is_canvas else None
    for index in range(min(len(view.frames), way.frames)):
        frame = frame_of(source, *map(np.array, view.frame(index)), str(way.view["layout"]))
        frame.info.epoch, frame.info.capacity, frame.info.patch = 1, view.tokens.shape[1], patch
        if tiles is None:
            yield frame
            continue
        number = index + 1
        frame = SimpleNamespace(**vars(frame), epoch=1, ring_sequence=number, frame_seq=number)
        canvas.update(SimpleNamespace(**vars(frame), tiles=tiles[index].view("<u8")[..., 0]))
        yield canvas


class AloneEncoder:
    """A plain ViT on the tokens that changed, without the others; these keep what they were."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}
        self.tokens = self.computed = 0

    def encode(self, frame: Any) -> Any:
        self.frame = frame
        keys = frame.tokens[["x", "y", "sx", "sy", "changed_frame"]].tolist()
        fresh = np.array([index for index, key in enumerate(keys) if key not in self._kept], np.int64)
        if len(fresh):
            part = SimpleNamespace(info=frame.info, tokens=frame.tokens[fresh], pixels=frame.pixels[fresh])
            with torch.no_grad():
                output = vit.features(model(), part)[0]
            self._kept |= {keys[index]: output[1 + row] for row, index in enumerate(fresh.tolist())}
            self._before = output[0]
        self._kept = {key: self._kept[key] for key in keys}
        self.tokens += len(keys)
        self.computed += len(fresh)
        return torch.stack([self._before, *self._kept.values()])[None]


def agreement(found: Any, full: Any) -> list[float]:
    """Mean cosine of tokens, the same less the mean of the frame, and cosine of the class token."""
    mean = full[1:].mean(axis=0)
    cosines = torch.cosine_similarity(found[1:], full[1:], dim=1)
    centred = torch.cosine_similarity(found[1:] - mean, full[1:] - mean, dim=1)
    return [float(part.mean()) for part in (cosines, centred, torch.cosine_similarity(found[0], full[0], dim=0))]


def figures(name: str, way: Way) -> dict[str, Any]:
    """:func:`measured`, only once."""
    return cached("video", [name, *way], lambda: measured(name, way))


def measured(name: str, way: Way) -> dict[str, Any]:
    """Processor time, share computed and agreement of a way, frame by frame."""
    source = SCENES[name]()
    encoder: Any = AloneEncoder() if way.encoder is None else VideoEncoder(model(), **way.encoder)
    times, full_times, shares, agreements = [], [], [], []
    for index, given in enumerate(frames(source, way)):
        before, start = encoder.computed, time.process_time()
        found = encoder.encode(given)[0]
        times.append(time.process_time() - start)
        shares.append((encoder.computed - before) / len(encoder.frame.tokens))
        if index % EVERY == 0:
            start = time.process_time()
            with torch.no_grad():
                full = vit.features(model(), encoder.frame)[0]
            full_times.append(time.process_time() - start)
            agreements.append(agreement(found, full))
    return {"times": times, "full": full_times, "shares": shares, "agreements": np.array(agreements)}


def row(name: str, way: Way) -> list[str]:
    """The cells of a way."""
    found = figures(name, way)
    settled = SETTLED // EVERY
    full = found["full"][1:].mean()
    agreements = found["agreements"][settled:]
    return [
        f"{1e3 * full:.0f}",
        f"{found['times'][SETTLED:].mean() / full:.2f}",
        f"{found['shares'][SETTLED:].mean():.2f}",
        *(f"{value:.3f}" for value in agreements.mean(axis=0)),
        f"{agreements[:, 0].min():.3f}",
    ]


def drift() -> Table:
    """Cosine by hundreds of frames."""
    table = Table(["mean cosine of tokens, fixed camera", "frames 11 to 100", "101 to 200", "201 to 300"])
    for label, way in DRIFTING.items():
        cosines = figures("fixed camera", way)["agreements"][:, 0]
        bounds = [SETTLED, 101, 201, 301]
        parts = [cosines[-(-start // EVERY) : -(-end // EVERY)] for start, end in zip(bounds, bounds[1:], strict=False)]
        table.row(label, [f"{part.mean():.3f}" for part in parts])
    return table


def all_patches() -> Table:
    """What all patches cost, on a frame of each scene."""
    table = Table(["processor seconds, one thread", "patches", "all patches"])
    for name in SCENES:
        source = SCENES[name]()

        def timed(source: Scene = source) -> dict[str, Any]:
            dense = every_patch(source, 20)
            start = time.process_time()
            with torch.no_grad():
                vit.features(model(), dense)
            return {"time": time.process_time() - start, "count": len(dense.tokens)}

        found = cached("video-all", [name, 1], timed)
        table.row(name, [str(int(found["count"])), f"{float(found['time']):.1f}"])
    return table


def towers() -> dict[str, tuple[Any, Any]]:
    """Vision towers of Qwen as wide as those of 2 to 7 billion parameters, four blocks deep, with random weights."""
    torch.manual_seed(0)
    wide = dict(depth=4, hidden_size=1024, intermediate_size=4096, num_heads=16, deepstack_visual_indexes=[1])
    windowed = dict(depth=4, hidden_size=1280, intermediate_size=3420, num_heads=16, fullatt_block_indexes=[3])
    return {
        "Qwen3-VL": (qwen3_vl, modeling_qwen3_vl.Qwen3VLVisionModel(modeling_qwen3_vl.Qwen3VLVisionConfig(**wide)).eval()),
        "Qwen2.5-VL": (
            qwen2_5_vl,
            modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel(
                modeling_qwen2_5_vl.Qwen2_5_VLVisionConfig(**windowed)
            ).eval(),
        ),
    }


def on_towers() -> Table:
    """Time of towers on some frames of the fixed camera, as a share of transformers' own."""
    table = Table(["four blocks, fixed camera", "the tower itself, s", "a full run", "time", "computed"])
    for name, (family, visual) in towers().items():

        def timed(family: Any = family, visual: Any = visual) -> dict[str, Any]:
            encoder, times, shares, own = VideoEncoder(visual, full_every=0), [], [], []
            for index, frame in enumerate(frames(long_camera(), Way(DEFAULT, frames=58), family.MODEL.side)):
                if index < 40:
                    continue
                start = time.process_time()
                encoder.encode(frame)
                times.append(time.process_time() - start)
                shares.append(encoder.last.computed / encoder.last.tokens)
                if index in (40, 50):
                    start = time.process_time()
                    with torch.no_grad():
                        family.tower(visual, family.tokens(frame))
                    own.append(time.process_time() - start)
            return {"times": times, "shares": shares, "own": own}

        found = cached("video-towers", [name, 1], timed)
        own = found["own"].mean()
        values = own, found["times"][0] / own, found["times"][2:].mean() / own, found["shares"][2:].mean()
        table.row(name, [f"{value:.2f}" for value in values])
    return table


def on_servers() -> Table:
    """Pictures of a loop that a server with a cache by content id computes: a stub that counts."""
    table = Table(["`uniform` view", "pictures", "computed"])
    for name, scene in {"still camera": still_camera, **SCENES}.items():
        if name in ("still camera", "fixed camera", "screen"):
            ids = [content_id(frame) for frame in frames(scene(), Way(UNIFORM, frames=116))]
            table.row(name, [str(len(ids)), str(len(set(ids)))])
    return table


def on_onnx_runtime() -> Table:
    """The same frames in PyTorch and in ONNX Runtime, one thread each, turn by turn; processor time."""

    def timed() -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "step.onnx"
            video_onnx.export(model(), path)
            encoders = VideoEncoder(model()), video_onnx.VideoEncoder(path, threads=1)
        found: list[list[tuple[float, ...]]] = []
        for given in frames(long_camera(), Way(DEFAULT, frames=90)):
            times, outputs = [], []
            for encoder in encoders:
                start = time.process_time()
                outputs.append(np.asarray(encoder.encode(given)))
                times.append(time.process_time() - start)
            assert encoders[0].last == encoders[1].last
            difference = float(np.abs(outputs[0] - outputs[1]).max())
            found.append((*times, encoders[0].last.computed / encoders[0].last.tokens, difference))
        return {"found": np.array(found)}

    found = cached("video-onnx", [1], timed)["found"]
    is_full, settled = found[:, 2] == 1, found[SETTLED:]
    table = Table(["fixed camera, 90 frames", "full run, ms", "a frame, ms", "time", "largest difference"])
    for index, name in enumerate(("PyTorch", "ONNX Runtime")):
        full, mean = found[1:][is_full[1:], index].mean(), settled[:, index].mean()
        difference = "" if index == 0 else f"{found[:, 3].max():.0e}"
        table.row(name, [f"{1e3 * full:.0f}", f"{1e3 * mean:.0f}", f"{mean / full:.2f}", difference])
    return table


def main() -> None:
    head = ["full run, ms", "time", "computed", "tokens", "less the mean", "class", "least frame"]
    for name in SCENES:
        table = Table([name, *head])
        for label, way in {**EVERYWHERE, **MORE.get(name, {})}.items():
            table.row(label, row(name, way))
        print(table, end="\n\n", flush=True)
    print(drift(), all_patches(), on_towers(), on_onnx_runtime(), on_servers(), sep="\n\n")


if __name__ == "__main__":
    main()
