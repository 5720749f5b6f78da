"""``python/examples/gaze_action.py`` runs against a real daemon, and follows a ball by bounded steps."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace
from typing import Any

import numpy as np
from support import HANG, PACKAGE_ROOT, RealDaemon

EXAMPLE = PACKAGE_ROOT / "examples" / "gaze_action.py"
#: A ball that moves before a black background, and rings of samples around the gaze.
STREAM = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=320,height=240,framerate=10/1 ! \
appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "retina"
layout = "samples"
table = "{table}"
outside = "mean"
normalisation = "unit"
"""
RADIUS = 120
LINE = re.compile(
    r"^(\d+) steps, gaze at \(([+-]\d\.\d+), ([+-]\d\.\d+)\) radii, pixel \((\d+), (\d+)\), "
    r"(\d+) samples, the brightest (\d\.\d+)$"
)


def example() -> Any:
    found = importlib.util.spec_from_file_location("gaze_action", EXAMPLE)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class FakeView:
    """A view of 320 x 240 pixels that looks where it is asked to."""

    def __init__(self) -> None:
        self.looks: list[tuple[float, float]] = []

    def look(self, x: float, y: float, wait: bool = False) -> None:
        assert wait
        self.looks.append((x, y))

    def read(self) -> Any:
        return SimpleNamespace(info=SimpleNamespace(extent=(320, 240)))


class StepsAreBounded(unittest.TestCase):
    def test_an_action_is_clipped_and_the_state_stays_in_the_picture(self) -> None:
        view = FakeView()
        gaze = example().GazeAction(view, radius=100, speed=0.25)
        gaze.step((9, -0.5))
        np.testing.assert_allclose(gaze.state, (0.25, -0.125))
        self.assertEqual(view.looks, [(185, 107.5)])
        for _ in range(20):
            gaze.step((1, -1))
        np.testing.assert_allclose(gaze.state, (1.6, -1.2))
        self.assertEqual(view.looks[-1], (320, 0))


class ExampleOfActions(unittest.TestCase):
    def test_it_follows_a_ball(self) -> None:
        rings = [(12.0 * ring, 2 * np.pi * k / 12) for ring in range(1, 11) for k in range(12)]
        rows = [(0, 0, 3), *((r * np.cos(t), r * np.sin(t), max(3, r // 6)) for r, t in rings)]
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/table.npy", np.array(rows, np.float32))
            with RealDaemon(STREAM.format(table=f"{folder}/table.npy")) as daemon:
                command = [sys.executable, "-B", str(EXAMPLE), "front/retina", "--radius", str(RADIUS), "--seconds", "4.5"]
                done = subprocess.run(
                    [*command, "--socket", daemon.path],
                    env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
                    capture_output=True,
                    text=True,
                    timeout=4 * HANG,
                )
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [LINE.match(line) for line in done.stdout.splitlines()]
        self.assertTrue(lines and all(lines), done.stdout)
        for line in lines:
            assert line is not None
            steps, right, down, x, y, count, brightest = map(float, line.groups())
            self.assertGreater(steps, 0)
            self.assertEqual(count, len(rows))
            self.assertAlmostEqual(x, 160 + right * RADIUS, delta=1.5)
            self.assertAlmostEqual(y, 120 + down * RADIUS, delta=1.5)
            # It has not lost the ball.
            self.assertGreater(brightest, 0.5, done.stdout)


if __name__ == "__main__":
    unittest.main()
