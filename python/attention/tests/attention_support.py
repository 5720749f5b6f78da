"""What the tests share: the package as it was built, and a device."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

#: Of the package's sources.
ROOT = Path(__file__).resolve().parent.parent
#: Of the repository.
REPOSITORY = ROOT.parent.parent


def _package() -> None:
    """Makes the package importable: the one that is installed, or the sources beside the library that Cargo built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / "debug" / "libfoveate_attention.so"
    if not built.exists():
        return
    place = Path(tempfile.mkdtemp(prefix="foveate-attention-"))
    (place / "foveate_attention").mkdir()
    for source in (ROOT / "foveate_attention").glob("*.py*"):
        (place / "foveate_attention" / source.name).symlink_to(source)
    shutil.copy(built, place / "foveate_attention" / "_native.abi3.so")
    sys.path.insert(0, str(place))
    atexit.register(shutil.rmtree, place, ignore_errors=True)


_package()

#: What a reference device is called: Mesa's, which computes on the processor.
SOFTWARE = os.environ.get("FOVEATE_TEST_DEVICE", "llvmpipe")


def vulkan_or_skip() -> None:
    """Skips where the environment says that there is no device."""
    if os.environ.get("FOVEATE_WITHOUT_VULKAN"):
        raise unittest.SkipTest("left out by FOVEATE_WITHOUT_VULKAN")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, with the same package."""
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        # The sources without their library may lie in the present folder, which Python would search first.
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
