"""What the tests of the engine share: the package as it was built, and pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Of the package's sources.
ROOT = Path(__file__).resolve().parent.parent
#: Of the repository.
REPOSITORY = ROOT.parent.parent


def _package() -> None:
    """Makes the package importable: the one that is installed, or the sources beside the library that Cargo built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = target / "debug" / "libfoveate_engine.so"
    if os.environ.get("FOVEATE_INSTALLED_ENGINE") or not built.exists():
        return
    place = Path(tempfile.mkdtemp(prefix="foveate-engine-"))
    (place / "foveate_engine").mkdir()
    for source in (ROOT / "foveate_engine").glob("*.py*"):
        (place / "foveate_engine" / source.name).symlink_to(source)
    shutil.copy(built, place / "foveate_engine" / "_native.abi3.so")
    sys.path.insert(0, str(place))
    import atexit

    atexit.register(shutil.rmtree, place, ignore_errors=True)


_package()

import foveate_engine  # noqa: E402
from foveate_engine import _native  # noqa: E402

#: What a reference device is called: Mesa's, which computes on the processor.
SOFTWARE = os.environ.get("FOVEATE_TEST_DEVICE", "llvmpipe")


def picture(seed: int, height: int, width: int, *channels: int) -> NDArray[np.uint8]:
    """Samples at random, [height, width, ...]."""
    shape = (height, width, *channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def vulkan_or_skip() -> foveate_engine.Engine:
    """An engine on the reference device."""
    if os.environ.get("FOVEATE_WITHOUT_VULKAN"):
        raise unittest.SkipTest("left out by FOVEATE_WITHOUT_VULKAN")
    return foveate_engine.Engine("vulkan", device=SOFTWARE)


def gst_or_skip() -> None:
    """Skips where the build has no GStreamer, unless it must."""
    if not hasattr(_native, "Video"):
        if os.environ.get("FOVEATE_REQUIRE_GST"):
            raise AssertionError("this build has no GStreamer, and FOVEATE_REQUIRE_GST is set")
        raise unittest.SkipTest("a build without the feature gst")


def clip_or_skip(name: str) -> Path:
    """A real clip."""
    clips = os.environ.get("FOVEATE_CLIPS")
    if not clips:
        raise unittest.SkipTest("without FOVEATE_CLIPS there are no real clips")
    return Path(clips) / name


def tool_or_skip() -> Path:
    """The program ``foveate``."""
    folder = os.environ.get("FOVEATE_BIN")
    if not folder:
        raise unittest.SkipTest("without FOVEATE_BIN there are no programs")
    return Path(folder) / "foveate"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, with the same package."""
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refused(test: unittest.TestCase, kind: type[BaseException], *parts: str) -> Any:
    """Expects an exception of ``kind`` whose message has all ``parts``."""
    return _Refused(test, kind, parts)


class _Refused:
    def __init__(self, test: unittest.TestCase, kind: type[BaseException], parts: tuple[str, ...]) -> None:
        self.test, self.kind, self.parts = test, kind, parts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        self.test.assertIsNotNone(kind, f"nothing was refused; {self.kind.__name__} was expected: {self.parts}")
        if kind is None or not issubclass(kind, self.kind):
            return False
        for part in self.parts:
            self.test.assertIn(part, str(error))
        return True
