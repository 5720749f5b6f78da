"""Prints how long reads in Python take, and copies of the same texels: a JSON object of lists of pairs, in microseconds, of
the first read after a pause, and of those right behind it.

Run by ipc.py, with the Python reader in the path and the folder of the programs as its argument.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import foveate
import numpy as np

BURSTS = 100
# Of the 8 that the ring holds.
FRAMES = 5
CONFIG = """
[[stream]]
name = "camera"
pipeline = '''videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=640,height=480,framerate=60/1
! appsink name=frames'''
backend = "cpu"
[[stream.view]]
name = "main"
slots = 8
gaze = { policy = "fixed" }
"""


def read(view, target):
    """How long it takes to read a frame that is there, and to copy its texels into an array that is there."""
    started = time.perf_counter_ns()
    frame = view.read(1, newest=False)
    read_done = time.perf_counter_ns()
    np.copyto(target, frame.pixels)
    return (read_done - started) / 1e3, (time.perf_counter_ns() - read_done) / 1e3


def measured(view):
    """Both lists."""
    target = np.empty_like(view.read(10).pixels)
    found = {"first": [], "next": []}
    for _ in range(BURSTS):
        # At 60 frames a second they have come by then.
        time.sleep(0.1)
        for index in range(FRAMES):
            found["next" if index else "first"].append(read(view, target))
    return found


def main():
    """Starts a daemon, and reads its view."""
    with tempfile.TemporaryDirectory() as folder:
        config, path = os.path.join(folder, "foveate.toml"), os.path.join(folder, "foveate.sock")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        command = [os.path.join(sys.argv[1], "foveated"), "--config", config, "--socket", path]
        daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(path) and daemon.poll() is None:
                time.sleep(0.01)
            with foveate.open("camera/main", socket=path) as view:
                print(json.dumps(measured(view)))
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
