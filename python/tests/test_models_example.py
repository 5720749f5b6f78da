"""``python/examples/video_vlm.py`` runs against a real daemon, with its tiny model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

from models_support import module_or_skip
from support import HANG, PACKAGE_ROOT, RealDaemon

#: A ball that moves before a black background.
STREAM = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=320,height=240,framerate=10/1 ! \
appsink name=frames"
backend = "cpu"
"""
LINE = re.compile(
    r"^(\d+) frames, (\d+)% of (\d+) tokens computed, \d+ ms from capture to answer, looks at \((\d+), (\d+)\): \d+$"
)


class ExampleOfVideo(unittest.TestCase):
    def test_it_says_a_line_a_second_and_computes_what_moves(self) -> None:
        module_or_skip("transformers")
        with RealDaemon(STREAM) as daemon:
            command = [sys.executable, "-B", str(PACKAGE_ROOT / "examples" / "video_vlm.py"), "front", "--seconds", "4"]
            environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [*command, "--budget", "80", "--socket", daemon.path],
                env=environment,
                capture_output=True,
                text=True,
                timeout=4 * HANG,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = done.stdout.splitlines()
        self.assertTrue(printed)
        lines = [LINE.match(line) for line in printed]
        self.assertTrue(all(lines), printed)
        # The first line has the full run of the first frame.
        numbers = [tuple(map(int, line.groups())) for line in lines if line is not None]
        self.assertTrue(all(0 < frames and 1 <= tokens <= 80 for frames, _, tokens, *_ in numbers), printed)
        self.assertTrue(all(x <= 320 and y <= 240 for *_, x, y in numbers), printed)
        self.assertLess(numbers[-1][1], 100, printed)


if __name__ == "__main__":
    unittest.main()
