"""Measures the latency of feedback: sends `look` and `attend` at random times, and reads the effect from the ring.

Usage: feedback.py --foveate PROGRAM --socket PATH --view STREAM/VIEW [--seconds S] [--hz HZ]

For each message that led to a fixation: the frames from its arrival in the daemon to the first one that was looked at so,
that one included, and the time to the publishing of its tokens. Maps wait for the next decision: a view with a `saccade_hz` as
high as the frame rate shows what is left then. Prints one row for each kind of message: p50, p99 and the greatest.
"""

import argparse
import json
import random
import socket
import struct
import subprocess
import threading
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--foveate", required=True, help="the program")
    parser.add_argument("--socket", required=True, help="the daemon's socket")
    parser.add_argument("--view", required=True, help="a view whose policy is feedback")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hz", type=float, default=2.0, help="messages a second")
    return parser.parse_args()


class Client:
    """A connection to the daemon."""

    def __init__(self, path, view):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.view = view

    def ask(self, request, payload=b""):
        datagram = json.dumps({"view": self.view, **request}).encode() + (b"\n" + payload if payload else b"")
        self.socket.sendall(datagram)
        answer = json.loads(self.socket.recv(1 << 17))
        if not answer["ok"]:
            raise SystemExit(f"the daemon refused: {answer['error']}")
        return answer

    def look(self, chance):
        self.ask({"op": "look", "x": chance.random(), "y": chance.random(), "normalised": True})

    def attend(self, chance):
        peak = chance.randrange(16 * 16)
        weights = [1.0 if index == peak else 0.01 for index in range(16 * 16)]
        payload = struct.pack("<256f", *weights)
        self.ask({"op": "attend", "shape": [16, 16], "dtype": "f32"}, payload)


def talk(options, stop):
    """Sends either message, at times independent of the frame rate."""
    client, chance = Client(options.socket, options.view), random.Random(1)
    while not stop.wait(chance.uniform(0.5, 1.5) / options.hz):
        chance.choice([client.look, client.attend])(chance)


def watch(options):
    """The frames that were published meanwhile."""
    command = [options.foveate, "--socket", options.socket, "watch", options.view, "--json"]
    command += ["--seconds", str(options.seconds)]
    stop = threading.Event()
    talking = threading.Thread(target=talk, args=(options, stop))
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
        changed = newest["id"] != fixation
        fixation = newest["id"]
        asked_ns = frame["asked_ns"]
        if index == 0 or not changed or asked_ns == 0:
            continue
        later = sum(1 for moment in published[: index + 1] if asked_ns < moment)
        found[newest["reason"]].append((later, (frame["publish_ns"] - asked_ns) / 1e6))
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main():
    options = arguments()
    frames = watch(options)
    if not frames:
        raise SystemExit("no frame came: is the view there, and its stream live?")
    span_s = (frames[-1]["publish_ns"] - frames[0]["publish_ns"]) / 1e9
    print(f"{len(frames)} frames in {span_s:.1f} s")
    print("| Message | Obeyed | Frames p50 / p99 / most | ms p50 / p99 / most |")
    print("| --- | ---: | ---: | ---: |")
    for kind, found in outcomes(frames).items():
        if found:
            counts, times = [list(part) for part in zip(*found)]
            counts = " / ".join(str(value) for value in (percentile(counts, 0.5), percentile(counts, 0.99), max(counts)))
            times = " / ".join(f"{value:.1f}" for value in (percentile(times, 0.5), percentile(times, 0.99), max(times)))
            print(f"| `{kind}` | {len(found)} | {counts} | {times} |")


if __name__ == "__main__":
    main()
