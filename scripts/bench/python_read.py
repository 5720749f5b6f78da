"""Prints how long reads in Python take, and copies of the same texels: a JSON list of pairs, in microseconds.

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

FRAMES = 300
CONFIG = """
[[stream]]
name = "camera"
pipeline = '''videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=1920,height=1080,framerate=60/1
! appsink name=frames'''
backend = "cpu"
[[stream.view]]
name = "main"
"""


def read(view):
    """How long it takes to read frames that are there, and to copy their texels into an array that is there."""
    target = np.empty_like(view.read(10).pixels)
    for _ in range(FRAMES):
        # At 60 frames a second there is a new one by then.
        time.sleep(0.02)
        started = time.perf_counter_ns()
        frame = view.read(1)
        read_done = time.perf_counter_ns()
        np.copyto(target, frame.pixels)
        copied = time.perf_counter_ns()
        yield (read_done - started) / 1e3, (copied - read_done) / 1e3


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
                print(json.dumps(list(read(view))))
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
