"""Measures the latency of feedback: sends `look` and `attend` at random times, and reads the effect from the ring.

For each message that led to a fixation: the frames from its arrival in the daemon to the first one that was looked at so,
that one included, and the time to the publishing of its tokens. Maps wait for the next decision: a view with a `saccade_hz`
as high as the frame rate shows what is left then.
"""

import json
import random
import subprocess
import threading

import numpy as np
from measuring import FoveateError, quantile, table

import foveate


def talk(arguments, stop):
    """Sends either message, at times independent of the frame rate."""
    chance = random.Random(1)
    with foveate.open(arguments.view, socket=arguments.socket) as view:
        while not stop.wait(chance.uniform(0.5, 1.5) / arguments.hz):
            if chance.random() < 0.5:
                view.look(chance.random(), chance.random(), normalised=True)
            else:
                weights = np.full((16, 16), 0.01, np.float32)
                weights[chance.randrange(16), chance.randrange(16)] = 1
                view.attend(weights)


def watch(arguments):
    """The frames that were published meanwhile."""
    command = [arguments.foveate, "--socket", arguments.socket, "watch", arguments.view, "--json"]
    command += ["--seconds", str(arguments.seconds)]
    stop = threading.Event()
    talking = threading.Thread(target=talk, args=(arguments, stop))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watching:
        talking.start()
        frames = [json.loads(line) for line in watching.stdout]
    stop.set()
    talking.join()
    return frames


def outcomes(frames):
    """For each kind of message: frames and milliseconds from its arrival to the first frame that follows it."""
    found = {"look": [], "attend": []}
    published = [frame["publish_ns"] for frame in frames]
    fixation = None
    for index, frame in enumerate(frames):
        newest = max(frame["fixations"], key=lambda point: point["id"])
        changed, fixation = newest["id"] != fixation, newest["id"]
        asked_ns = frame["asked_ns"]
        if 0 < index and changed and asked_ns != 0:
            later = sum(1 for moment in published[: index + 1] if asked_ns < moment)
            found[newest["reason"]].append((later, (frame["publish_ns"] - asked_ns) / 1e6))
    return found


def spread(numbers, digits):
    """The median, the 99th percentile and the most."""
    return " / ".join(f"{number:.{digits}f}" for number in (quantile(numbers, 0.5), quantile(numbers, 0.99), max(numbers)))


def run(arguments):
    frames = watch(arguments)
    if not frames:
        raise FoveateError("no frame came: is the view there, and its stream live?")
    span_s = (frames[-1]["publish_ns"] - frames[0]["publish_ns"]) / 1e9
    rows = []
    for kind, found in outcomes(frames).items():
        if found:
            counts, times = zip(*found, strict=True)
            rows.append([f"`{kind}`", str(len(found)), spread(counts, 0), spread(times, 1)])
    head = ["Message", "Obeyed", "Frames p50 / p99 / most", "ms p50 / p99 / most"]
    yield "feedback", f"{len(frames)} frames in {span_s:.1f} s\n\n{table(head, rows)}"
