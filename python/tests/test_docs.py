"""Every example of ``docs/guide/python.md``, ``docs/guide/depth.md`` and of the package's own page runs as it stands."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import threading
import unittest
from collections.abc import AsyncIterator
from unittest import mock

import numpy as np
from support import PACKAGE_ROOT, FakeDaemon, FakeRing, abi, foveate, token_records, torch_or_skip

import foveate.aio

DOCS = PACKAGE_ROOT.parent / "docs"
PAGES = [DOCS / "guide" / "python.md", DOCS / "guide" / "depth.md", PACKAGE_ROOT / "README.md"]
EXAMPLE = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class ExamplesRun(unittest.TestCase):
    def setUp(self) -> None:
        rings = {f"{name}/policy": camera_ring(name) for name in ("front", "rear")}
        self.daemon = FakeDaemon({**rings, "front/model": depth_ring()})
        self.addCleanup(self.daemon.__exit__)
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": "front/policy"}
        self.is_over = threading.Event()
        publisher = threading.Thread(target=self.publish)
        publisher.start()
        self.addCleanup(publisher.join)
        self.addCleanup(self.is_over.set)

    def publish(self) -> None:
        """All views publish together, about a hundred times a second."""
        tokens = token_records(12, size=16, columns=16, rows=16)
        # Depth lies where the texels do, and each number of it is 0.75.
        pixels = np.full((12, 3 * 16 * 8), 0.75, "<f4").view("<f2").reshape(12, 3, 16, 16)
        while not self.is_over.wait(0.01):
            for view, ring in self.daemon.rings.items():
                assert ring is not None
                self.daemon.publish(view, tokens, pixels, flags=1, depth_capture_ns=1)

    def test_every_example_runs(self) -> None:
        iterate = foveate.View.__iter__
        few = lambda view: itertools.islice(iterate(view), 3)  # noqa: E731
        patches = [
            mock.patch.dict(os.environ, {"FOVEATE_SOCKET": self.daemon.path}),
            mock.patch.object(foveate.View, "__iter__", few),
            mock.patch.object(foveate.aio.View, "__aiter__", few_awaited),
        ]
        for page in PAGES:
            examples = EXAMPLE.findall(page.read_text())
            self.assertGreater(len(examples), 0, page)
            for needs, code in examples:
                with self.subTest(page=page.name, code=code):
                    if needs == "torch":
                        torch_or_skip()
                    with contextlib.ExitStack() as stack:
                        for patch in patches:
                            stack.enter_context(patch)
                        printed = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                        exec(compile(code, str(page), "exec"), {})
                    if page.name == "depth.md":
                        self.assertEqual(printed.getvalue().count("0.75"), 3 * 12 * 6, "of three frames all are near")

    def test_every_public_name_is_documented(self) -> None:
        text = PAGES[0].read_text() + (foveate.__doc__ or "")
        for module in (foveate, foveate.aio):
            for name in module.__all__:
                with self.subTest(module=module.__name__, name=name):
                    self.assertTrue(getattr(module, name).__doc__ or name == "TOKEN")
        for name in (
            "open",
            "open_view",
            "open_many",
            "foveate.aio",
            "TokenCache",
            "Lapped",
            "Ended",
            "Refused",
            "TimedOut",
            "NoDaemon",
            "Unavailable",
        ):
            self.assertIn(name, text)


async def few_awaited(view: foveate.aio.View) -> AsyncIterator[foveate.Frame]:
    for _ in range(3):
        yield await view.__anext__()


def camera_ring(stream: str) -> FakeRing:
    ring = FakeRing(stream=stream, capacity=16, patch=16, dtype="f16", slot_count=8, extent=(640, 480))
    block = ring.header["camera"]
    block["kind"], block["distortion_name"], block["k"] = 1, b"plumb_bob", (600, 0, 320, 0, 600, 240, 0, 0, 1)
    block["coefficient_count"], block["coefficients"][:5] = 5, (-0.2, 0.05, 0, 0, 0)
    place = ring.struct(abi.CAMERA_FRAME_BLOCK, abi.CAMERA_FRAME_OFFSET)
    place["optical_frame"], place["parent_frame"] = f"{stream}_optical".encode(), b"base_link"
    place["parent_from_optical"] = np.eye(3, 4).flat
    place["source_from_calibrated"] = (1, 0, 0, 0, 1, 0)
    return ring


def depth_ring() -> FakeRing:
    ring = FakeRing(view="model", capacity=12, patch=16, dtype="f16", slot_count=8, extent=(640, 480))
    ring.header["plane_count"] = 4
    pixels = ring.header["planes"][0]
    for index, (name, length) in enumerate([(b"depth", 3), (b"boxes", 6)], 2):
        plane = ring.header["planes"][index]
        for field, value in dict(name=name, order=b"NC", dtype=4, ndim=2, shape=(12, length, 0, 0)).items():
            plane[field] = value
        for field in ("offset", "token_stride", "bytes"):
            plane[field] = pixels[field]
    return ring


if __name__ == "__main__":
    unittest.main()
