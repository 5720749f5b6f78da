"""Steering and the examples of ``docs/guide/python.md`` go through a restart of the real daemon, stopped or killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
from support import HANG, PACKAGE_ROOT, RealDaemon, foveate, programs, within

import foveate.aio

STREAM = """
[[stream]]
name = "%s"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! \
appsink name=frames"
backend = "cpu"
events = true
[[stream.view]]
name = "robot"
gaze = { policy = "feedback" }
[[stream.view]]
name = "channels"
gaze = { policy = "relevance" }
"""
CAMERAS = STREAM % "front" + STREAM % "rear"

ENDS = (signal.SIGTERM, signal.SIGKILL)
PAGE = PACKAGE_ROOT.parent / "docs" / "guide" / "python.md"
LOOP = re.compile(r"^```python\n((?:(?!^```).)*?for frame in.*?)^```$", re.MULTILINE | re.DOTALL)
#: What a view without `reconnect` may raise when its daemon goes.
PARTINGS = ("foveate.errors.Ended", "foveate.errors.NoDaemon", "foveate.errors.TimedOut")


class SteeringSurvivesARestart(unittest.TestCase):
    def test_threads_steer_through_a_restart(self) -> None:
        weights = np.ones((3, 4), np.float16)
        for end in ENDS:
            with self.subTest(end=end.name), RealDaemon(CAMERAS) as daemon:
                wait_for_frames(daemon)
                view = foveate.open("front/robot", daemon.path, reconnect=True)
                channels = foveate.open("front/channels", daemon.path, reconnect=True)
                own = foveate.open_view("front", daemon.path, reconnect=True, gaze={"policy": "feedback"})
                loops = [
                    Loop(
                        view,
                        lambda frame: view.look(5, 6),
                        lambda frame: view.attend(weights, frame=frame),
                        lambda frame: view.attend_tokens(frame, np.ones(len(frame), np.uint8)),
                    ),
                    Loop(own, lambda frame: own.look(7, 8), lambda frame: own.release()),
                    Loop(channels, lambda frame: channels.inject("depth", weights), lambda frame: channels.weigh(edges=0.5)),
                ]
                for loop in loops:
                    loop.wait_for("granted")
                daemon.kill(end)
                for loop in loops:
                    loop.wait_for("Unavailable")
                daemon.start()
                for loop in loops:
                    loop.wait_for("granted")
                    loop.end()
                    self.assertIsNone(loop.error)

    def test_tasks_steer_through_a_restart(self) -> None:
        async def steer(daemon: RealDaemon, end: signal.Signals) -> None:
            loop = asyncio.get_running_loop()
            async with foveate.aio.open("front/robot", daemon.path, reconnect=True) as view:
                await view.read(HANG)
                await view.look(5, 6)
                await loop.run_in_executor(None, daemon.kill, end)
                with self.assertRaises(foveate.Unavailable):
                    for _ in within():
                        await view.look(5, 6)
                await loop.run_in_executor(None, daemon.start)
                for _ in within():
                    try:
                        await view.read(HANG)
                        await view.look(5, 6)
                    except foveate.Unavailable:
                        continue
                    break

        for end in ENDS:
            with self.subTest(end=end.name), RealDaemon(CAMERAS) as daemon:
                asyncio.run(steer(daemon, end))

    def test_a_daemon_that_stops_is_unavailable_at_once(self) -> None:
        """Also where it still answers: its streams end before it hangs up."""
        for _ in range(5):
            with RealDaemon(CAMERAS) as daemon, foveate.open("front/robot", daemon.path, reconnect=True) as view:
                view.read(HANG)
                daemon.process.send_signal(signal.SIGTERM)
                with self.assertRaises(foveate.Unavailable):
                    for _ in within():
                        try:
                            view.look(5, 6)
                        except foveate.Refused as refused:
                            # It is asked as quickly as it can be.
                            if refused.reason != "rate-limit":
                                raise


class Loop:
    """A thread that reads frames and steers with each, until something else than `Unavailable` is raised."""

    def __init__(self, view: foveate.View, *calls: Callable[[Any], object]) -> None:
        self._view, self._calls = view, calls
        self._seen: set[str] = set()
        self._is_over = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over and self.error is None:
            try:
                frame = self._view.read(timeout=0.2)
                for call in self._calls:
                    call(frame)
                self._seen.add("granted")
            except foveate.Unavailable:
                self._seen.add("Unavailable")
            except BaseException as error:
                # Frames come more often than feedback may.
                if not (isinstance(error, foveate.Refused) and error.reason == "rate-limit"):
                    self.error = error

    def wait_for(self, what: str) -> None:
        """Waits until that has happened again."""
        self._seen.clear()
        for _ in within():
            if what in self._seen or self.error is not None:
                return
            time.sleep(0.01)

    def end(self) -> None:
        self._is_over = True
        self._thread.join()
        self._view.close()


class ExamplesSurviveARestart(unittest.TestCase):
    def test_every_loop_of_the_page(self) -> None:
        loops = LOOP.findall(PAGE.read_text())
        self.assertGreater(len(loops), 3)
        for code in loops:
            for end in ENDS:
                with self.subTest(end=end.name, code=code), RealDaemon(CAMERAS) as daemon:
                    self.go_through(code, end, daemon)

    def go_through(self, code: str, end: signal.Signals, daemon: RealDaemon) -> None:
        wait_for_frames(daemon)
        environment = {**os.environ, "FOVEATE_SOCKET": daemon.path, "PYTHONPATH": str(PACKAGE_ROOT)}
        command = [sys.executable, "-u", "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
            self.addCleanup(process.kill)
            assert process.stdout is not None
            last = number_of(process.stdout.readline())
            daemon.kill(end)
            daemon.start()
            if "reconnect=True" in code:
                # Frames of the daemon that is back count from 1.
                while last <= (last := number_of(process.stdout.readline())):
                    pass
                process.terminate()
                self.assertEqual(process.wait(HANG), -signal.SIGTERM)
                return
            _, complaint = process.communicate(timeout=HANG)
            if process.returncode != 0:
                self.assertTrue(complaint.splitlines()[-1].startswith(PARTINGS), complaint)


def wait_for_frames(daemon: RealDaemon) -> None:
    """Views can be opened and steered from the first frame on."""
    with foveate.open_many(["front/robot", "front/channels", "rear/robot"], daemon.path) as views:
        for view in views:
            view.read(HANG)


def number_of(line: str) -> int:
    """The first number of a line that an example prints."""
    if not line:
        raise AssertionError("the example has ended")
    found = re.search(r"(?<![\w/])\d+", line)
    return int(found.group()) if found else 0


def setUpModule() -> None:
    programs()


if __name__ == "__main__":
    unittest.main()
