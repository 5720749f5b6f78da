"""Examples of the guides, the README and the package's own page run as they stand: Python on synthetic rings and on a daemon
with ``configs/tour.toml``, commands on such a daemon. What they print is compared with the page: numbers stand for any
number, a line ``...`` for any lines."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from models_support import ChatServer
from support import (
    HANG,
    PACKAGE_ROOT,
    FakeDaemon,
    FakeRing,
    RealDaemon,
    abi,
    foveate,
    programs,
    token_records,
    torch_or_skip,
    within,
)

import foveate.aio

REPOSITORY = PACKAGE_ROOT.parent
GUIDES = REPOSITORY / "docs" / "guide"
PYTHON = GUIDES / "python.md"
#: Those whose Python has a test of its own, or runs without a view.
OTHERS = ("attention.md", "canvas.md", "datasets.md", "engine.md", "extract.md", "models.md")
PAGES = [page for page in sorted(GUIDES.glob("*.md")) if page.name not in OTHERS]
PAGES += [REPOSITORY / "README.md", PACKAGE_ROOT / "README.md"]
EXAMPLE = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Pages whose Python runs on the daemon of the tour.
TOURED = [*PAGES, GUIDES / "canvas.md", GUIDES / "models.md", REPOSITORY / "docs" / "reference" / "control.md"]
#: An example, and what the page says that it prints.
SHOWN = re.compile(EXAMPLE.pattern + r"(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What examples need that are only compiled here: the package mcap, or another machine.
COMPILED = ("mcap", "zenoh")


class ExamplesRun(unittest.TestCase):
    def setUp(self) -> None:
        rings = {f"{name}/robot": camera_ring(name) for name in ("front", "rear")}
        self.daemon = FakeDaemon({**rings, "front/model": depth_ring()})
        self.addCleanup(self.daemon.__exit__)
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": "front/robot"}
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
            for needs, code in EXAMPLE.findall(page.read_text()):
                with self.subTest(page=page.name, code=code):
                    if needs == "torch":
                        torch_or_skip()
                    if needs in COMPILED:
                        compile(code, str(page), "exec")
                        continue
                    printed = run_patched(code, page, patches)
                    if page.name == "depth.md":
                        self.assertEqual(printed.count("0.75"), 3 * 12 * 6, "of three frames all are near")

    def test_every_public_name_is_documented(self) -> None:
        text = PYTHON.read_text() + (REPOSITORY / "docs" / "reference" / "python.md").read_text() + (foveate.__doc__ or "")
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


class ExamplesPrintWhatPagesShow(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = RealDaemon(REPOSITORY / "configs" / "tour.toml")
        self.addCleanup(self.daemon.kill)
        self.environment = {
            **os.environ,
            "PATH": f"{programs().absolute()}:{os.environ['PATH']}",
            "FOVEATE_SOCKET": self.daemon.path,
            "PYTHONPATH": str(PACKAGE_ROOT),
        }
        self.run_command("foveate wait front/robot && foveate wait front/model && foveate wait rear/robot", None)

    def test_every_python_example_runs_and_prints_what_the_page_shows(self) -> None:
        iterate, read = foveate.View.__iter__, foveate.View.read
        server = ChatServer()
        self.addCleanup(server.close)
        patches = [
            mock.patch.dict(os.environ, {"FOVEATE_SOCKET": self.daemon.path}),
            # On a busy machine all frames may be older than an example accepts.
            mock.patch.object(foveate.View, "read", lambda view, max_age=None, **others: read(view, **others)),
            # As many frames as the pages show.
            mock.patch.object(foveate.View, "__iter__", lambda view: itertools.islice(iterate(view), 2)),
            mock.patch.object(foveate.aio.View, "__aiter__", few_awaited),
            mock.patch("urllib.request.urlopen", server.redirected(urllib.request.urlopen)),
        ]
        compared = 0
        for page in TOURED:
            for needs, code, shown in SHOWN.findall(page.read_text()):
                if needs:
                    continue
                with self.subTest(page=page.name, code=code):
                    printed = run_until_in_time(code, page, patches)
                    if shown:
                        complaint = f"the page shows:\n{shown}\nit printed:\n{printed}"
                        self.assertRegex(numberless(printed), pattern(shown), complaint)
                        compared += 1
        self.assertGreaterEqual(compared, 4)

    def test_every_command_prints_what_the_page_shows(self) -> None:
        count = 0
        for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]:
            folder = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, folder)
            for name in ("configs", "docs", "include", "tests"):
                Path(folder, name).symlink_to(REPOSITORY / name)
            for session in SESSION.findall(page.read_text()):
                for command, shown in commands(session):
                    with self.subTest(page=page.name, command=command):
                        printed = self.run_command(command, folder)
                        complaint = f"the page shows:\n{shown}\nit printed:\n{printed}"
                        self.assertRegex(numberless(printed), pattern(shown), complaint)
                    count += 1
            if page.name == "extract.md":
                for _, code in EXAMPLE.findall(page.read_text()):
                    self.run_command(f"{sys.executable} - <<'END'\n{code}END", folder)
        self.assertGreater(count, 15)

    def test_every_c_example_runs_as_its_comment_says(self) -> None:
        count = 0
        for source in sorted((REPOSITORY / "tests" / "c").glob("*.c")):
            # tests/readers runs these: on a busy machine one takes minutes, the other waits for frames of the last second.
            if source.name in ("laws.c", "own_view.c"):
                continue
            for command in re.findall(r"^//     (cc .*)$", source.read_text(), re.MULTILINE):
                with self.subTest(source=source.name), tempfile.TemporaryDirectory() as folder:
                    for name in ("include", "tests"):
                        Path(folder, name).symlink_to(REPOSITORY / name)
                    # The programs wait 2 s for an answer, which a busy machine may exceed.
                    for _ in within(5 * HANG):
                        try:
                            self.run_command(command, folder)
                            break
                        except AssertionError as failed:
                            print(failed, file=sys.stderr)
                count += 1
        self.assertGreaterEqual(count, 4)

    def run_command(self, command: str, folder: str | None) -> str:
        """What it prints to standard output."""
        shell = ["bash", "-c", command]
        done = subprocess.run(
            shell, cwd=folder, env=self.environment, text=True, timeout=5 * HANG, capture_output=True, check=False
        )
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout


def run_patched(code: str, page: Path, patches: Sequence[Any]) -> str:
    """What an example prints."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        printed = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        exec(compile(code, str(page), "exec"), {})
    return printed.getvalue()


def run_until_in_time(code: str, page: Path, patches: Sequence[Any]) -> str:
    """What an example prints, once no call of it takes longer than it says; a busy machine may need a few attempts."""
    for _ in within():
        with contextlib.suppress(foveate.TimedOut):
            return run_patched(code, page, patches)
    raise AssertionError("unreachable: the loop ends with an error")


def commands(session: str) -> list[tuple[str, str]]:
    """Commands, after ``$`` and perhaps ``>``, and the output below each."""
    found: list[tuple[str, str]] = []
    for line in session.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (found[-1][0] + line[2:], "")
        else:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def numberless(text: str) -> str:
    """With each number as 0, runs of spaces as one, and without spaces around lines."""
    lines = re.sub(r" +", " ", re.sub(r"-?\d+(\.\d+)?", "0", text)).splitlines()
    return "".join(f"{line.strip()}\n" for line in lines)


def pattern(shown: str) -> str:
    """What matches the numberless output that a page shows."""
    lines = numberless(shown).splitlines(keepends=True)
    return r"\A" + "".join(r"(?:.*\n)*" if line == "...\n" else re.escape(line) for line in lines) + r"\Z"


async def few_awaited(view: foveate.aio.View) -> AsyncIterator[foveate.Frame]:
    for _ in range(3):
        yield await view.__anext__()


def camera_ring(stream: str) -> FakeRing:
    ring = FakeRing(stream=stream, view="robot", capacity=16, patch=16, dtype="f16", slot_count=8, extent=(640, 480))
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
