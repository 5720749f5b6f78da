"""Frames of any layout, made from a picture by the definition of a token, for the tests of ``foveate.models``."""

from __future__ import annotations

import base64
import http.server
import importlib
import io
import json
import os
import threading
import unittest
import urllib.request
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import support  # noqa: F401 (finds the package)

from foveate.abi import TOKEN

CLIP = dict(mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
SIGLIP = dict(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
NONE = dict(mean=(0.0, 0.0, 0.0), std=(1 / 255, 1 / 255, 1 / 255))

#: x, y, width, height and group, in source pixels.
Spec = tuple


def scene(width: int, height: int, seed: int = 1) -> Any:
    """A picture with detail at every scale, [height, width, 3] uint8."""
    chance = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / a + y / b + c) for a, b, c in ((31, 17, 0), (5, 23, 1), (57, 7, 2))]
    noise = chance.integers(0, 40, (height, width, 3))
    return (np.stack(waves, axis=-1) * 80 + 108 + noise).clip(0, 255).astype(np.uint8)


def smooth(width: int, height: int) -> Any:
    """A picture that JPEG hardly changes."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 200 // width, y * 200 // height, (x + y) * 100 // (width + height)], axis=-1).astype(np.uint8)


def uniform(picture: Any, patch: int, step: float = 1, **keys: Any) -> Any:
    height, width = picture.shape[:2]
    side = round(patch * step)
    columns, rows = -(-width // side), -(-height // side)
    specs = squares(0, 0, side, columns, rows, 0)
    return frame(picture, specs, patch, layout="uniform", grid=(columns, rows), **keys)


def squares(x: int, y: int, side: int, columns: int, rows: int, group: int) -> list[Spec]:
    """Row by row."""
    return [(x + column * side, y + row * side, side, side, group) for row in range(rows) for column in range(columns)]


def inset(picture: Any, patch: int, side: int, blocks: Sequence[tuple[int, int, int, int, int]], **keys: Any) -> Any:
    """A base of squares of ``side`` pixels, and blocks: x, y, side, columns and rows. Squares of the base under a block are
    left out, and those of a block under one before it."""
    height, width = picture.shape[:2]

    def is_covered(spec: Spec, above: Sequence[tuple[int, int, int, int, int]]) -> bool:
        x, y, square = spec[:3]
        right, bottom = min(x + square, width), min(y + square, height)
        return any(
            left <= x and top <= y and right <= left + columns * own and bottom <= top + rows * own
            for left, top, own, columns, rows in above
        )

    base = squares(0, 0, side, -(-width // side), -(-height // side), 0)
    specs = [spec for spec in base if not is_covered(spec, blocks)]
    for index, block in enumerate(blocks):
        specs += [spec for spec in squares(*block, index + 1) if not is_covered(spec, blocks[:index])]
    return frame(picture, specs, patch, layout="inset", **keys)


def windows(picture: Any, patch: int, count: int, x: int, y: int, **keys: Any) -> Any:
    """Squares around (x, y), each twice as wide as the one before, moved inside the picture where they fit."""
    height, width = picture.shape[:2]

    def start(centre: int, extent: int, side: int) -> int:
        return 0 if extent <= side else min(max(centre - side // 2, 0), extent - side)

    specs = [
        (start(x, width, patch << window), start(y, height, patch << window), patch << window, patch << window, window)
        for window in range(count)
    ]
    return frame(picture, specs, patch, layout="windows", **keys)


def foveal(picture: Any, patch: int, x: int, y: int, coarsest: int = 3, **keys: Any) -> Any:
    """A quadtree that is split where a box is nearer to (x, y) than it is wide; finest first."""
    height, width = picture.shape[:2]
    specs: list[Any] = []

    def visit(left: int, top: int, level: int) -> None:
        side = patch << level
        if not (left < width and top < height):
            return
        away = max(left - x, x - left - side, top - y, y - top - side)
        if level == 0 or away >= side:
            specs.append((left, top, side, side, level))
            return
        for row in (0, 1):
            for column in (0, 1):
                visit(left + column * side // 2, top + row * side // 2, level - 1)

    side = patch << coarsest
    for top in range(0, height, side):
        for left in range(0, width, side):
            visit(left, top, coarsest)
    return frame(picture, sorted(specs, key=lambda spec: spec[4]), patch, layout="foveal", **keys)


def frame(
    picture: Any,
    specs: Sequence[Spec],
    patch: int,
    layout: str,
    grid: Any = None,
    dtype: str = "u8",
    mean: Any = NONE["mean"],
    std: Any = NONE["std"],
    relevance: Any = 1.0,
    changed_frame: Any = 7,
    epoch: int = 0xF0,
) -> Any:
    """What a reader gives for these tokens of ``picture``, with ``outside = "edge"`` and ``rounding = "half-up"``."""
    height, width = picture.shape[:2]
    tokens = np.zeros(len(specs), TOKEN)
    values = np.zeros((len(specs), 3, patch, patch), np.uint8)
    for token, texels, (x, y, token_width, token_height, group) in zip(tokens, values, specs, strict=True):
        first_column, columns = _real(x, token_width, patch, width)
        first_row, rows = _real(y, token_height, patch, height)
        box = [max(x, 0), max(y, 0), min(x + token_width, width), min(y + token_height, height)]
        fields = dict(x=x, y=y, group=group, size=patch, box=box)
        fields["sx"], fields["extra_width"] = divmod(token_width, patch)
        fields["sy"], fields["extra_height"] = divmod(token_height, patch)
        fields.update(first_column=first_column, columns=columns, first_row=first_row, rows=rows)
        for field, value in fields.items():
            token[field] = value
        texels[:] = _means(picture, x, y, token_width, token_height, patch)
    tokens["relevance"], tokens["changed_frame"] = relevance, changed_frame
    info = SimpleNamespace(
        patch=patch,
        dtype=dtype,
        mean=tuple(mean),
        std=tuple(std),
        extent=(width, height),
        layout=layout,
        grid=grid,
        outside="edge",
        rounding="half-up",
        capacity=len(specs),
        epoch=epoch,
    )
    return SimpleNamespace(info=info, tokens=tokens, pixels=_numbers(values, dtype, mean, std))


def _real(origin: int, size: int, patch: int, extent: int) -> tuple[int, int]:
    """The first texel with a real pixel along an axis, and how many have one."""
    real = [
        texel
        for texel in range(patch)
        if patch * origin + (texel + 1) * size > 0 and patch * origin + texel * size < patch * extent
    ]
    return (real[0], len(real)) if real else (0, 0)


def _shares(origin: int, size: int, patch: int, extent: int) -> tuple[Any, int]:
    """[P, pixels]: how much of each pixel under the token lies in each texel, in parts of a pixel, of which there are P; and
    the first of these pixels. Texels without a real pixel have the shares of the nearest one that has some."""
    first, count = _real(origin, size, patch, extent)
    texels = np.clip(np.arange(patch), first, first + count - 1)[:, None]
    start, end = ((patch * origin + (texels + more) * size).clip(0, patch * extent) for more in (0, 1))
    pixels = np.arange(start.min() // patch, -(-end.max() // patch))
    shares = np.minimum(end, (pixels + 1) * patch) - np.maximum(start, pixels * patch)
    return np.maximum(shares, 0), pixels[0]


def _means(picture: Any, x: int, y: int, token_width: int, token_height: int, patch: int) -> Any:
    """[3, P, P]: the mean of the real pixels under each texel, rounded half up; without any, of the nearest texel."""
    height, width = picture.shape[:2]
    if x + token_width <= 0 or width <= x or y + token_height <= 0 or height <= y:
        return 0
    across, left = _shares(x, token_width, patch, width)
    down, top = _shares(y, token_height, patch, height)
    part = picture[top : top + down.shape[1], left : left + across.shape[1]].astype(np.int64)
    total = np.einsum("vy,yxc,ux->cvu", down, part, across, optimize=True)
    count = np.outer(down.sum(1), across.sum(1))
    return (2 * total + count) // (2 * count)


def _numbers(values: Any, dtype: str, mean: Any, std: Any) -> Any:
    if dtype == "u8":
        return values
    exact = (values / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    if dtype == "bf16":
        bits = exact.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return exact.astype({"f16": np.float16, "f32": np.float32}[dtype])


def module_or_skip(name: str) -> Any:
    """A model library, which only ``scripts/test.sh --long`` installs."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("FOVEATE_REQUIRE_MODELS") == "1":
            raise
        raise unittest.SkipTest(f"{name} is not installed: scripts/test.sh --long installs it") from None


class ChatServer:
    """Decodes the pictures of a chat message, and answers with the brightest pixel of each, in its coordinates."""

    def __init__(self) -> None:
        self.pictures: list[Any] = []
        self.texts: list[str] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = owner.answer(request) if self.path == "/v1/chat/completions" else None
                body = json.dumps(answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def redirected(self, urlopen: Any) -> Any:
        """``urlopen``, with this server in place of a model's at port 8000."""

        def open_here(request: Any, *arguments: Any, **keywords: Any) -> Any:
            assert request.host == "localhost:8000"
            request.host = f"127.0.0.1:{self.server.server_port}"
            return urlopen(request, *arguments, **keywords)

        return open_here

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, request: Any) -> Any:
        (message,) = request["messages"]
        for part in message["content"]:
            if part["type"] == "text":
                self.texts.append(part["text"])
            else:
                head, _, data = part["image_url"]["url"].partition(";base64,")
                from PIL import Image

                image = Image.open(io.BytesIO(base64.b64decode(data)))
                assert head == f"data:image/{image.format.lower()}"
                self.pictures.append(np.asarray(image.convert("RGB")))
        points = [np.unravel_index(picture.sum(axis=2).argmax(), picture.shape[:2])[::-1] for picture in self.pictures]
        content = json.dumps([[int(x) + 0.5, int(y) + 0.5] for x, y in points])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        return {"id": "1", "object": "chat.completion", "model": request["model"], "choices": [choice]}

    def ask(self, content: list[dict[str, Any]]) -> Any:
        """What the model says, decoded."""
        body = {"model": "any", "messages": [{"role": "user", "content": content}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.server_port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(json.load(answer)["choices"][0]["message"]["content"])
