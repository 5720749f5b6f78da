"""Measures whether hostile clients change how long a frame takes from arrival to publication.

Phases without and with a storm of clients alternate while one daemon publishes the test pattern, so that whatever else the
machine does falls on both. The storm is one thread: it sends the fuzzer's corpus and broken copies of it over 32 connections,
does not read on some, and leaves and comes again.
"""

import argparse
import json
import pathlib
import random
import socket
import statistics
import subprocess
import tempfile
import threading
import time

CLIENTS = 32
CONFIG = """
[[stream]]
name = "camera"
pipeline = '''videotestsrc is-live=true pattern=smpte ! video/x-raw,format=NV12,width=1920,height=1080,framerate=60/1
! appsink name=frames'''
backend = "cpu"
[[stream.view]]
name = "main"
gaze = { policy = "feedback" }
[[stream.view]]
name = "calm"
"""


class Storm(threading.Thread):
    """Sends hostile messages while `is_on` is set."""

    def __init__(self, path, corpus, rate):
        super().__init__(daemon=True)
        self.path, self.corpus, self.rate = path, corpus, rate
        self.is_on = threading.Event()
        self.sent = 0
        self.random = random.Random(1)

    def run(self):
        while self.is_on.wait():
            clients = [self.connected() for _ in range(CLIENTS)]
            began, before = time.monotonic(), self.sent
            while self.is_on.is_set():
                if self.rate and self.rate * (time.monotonic() - began) < self.sent - before:
                    time.sleep(0.001)
                    continue
                number = self.random.randrange(CLIENTS)
                if not self.disturb(clients[number], reads=number % 4 != 0):
                    clients[number].close()
                    clients[number] = self.connected()
            for client in clients:
                client.close()

    def connected(self):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(self.path)
        client.setblocking(False)
        return client

    def disturb(self, client, reads):
        """Sends one message; returns whether the connection stays open."""
        message = bytearray(self.random.choice(self.corpus))
        if message and self.random.random() < 0.5:
            message[self.random.randrange(len(message))] ^= 1 << self.random.randrange(8)
        try:
            client.send(message)
            self.sent += 1
            while reads and client.recv(1 << 18):
                pass
        except BlockingIOError:
            pass
        except OSError:
            return False
        return self.random.random() < 0.99


def measure(arguments, folder):
    """The times from arrival to publication of each phase in microseconds, and how many messages were sent."""
    path, config = f"{folder}/foveate.sock", pathlib.Path(folder, "foveate.toml")
    config.write_text(CONFIG)
    programs = pathlib.Path(arguments.programs)
    daemon = subprocess.Popen(
        [programs / "foveated", "--socket", path, "--config", config], stderr=subprocess.DEVNULL
    )
    try:
        while not pathlib.Path(path).exists():
            time.sleep(0.1)
        corpus = pathlib.Path(__file__).parents[2] / "fuzz/corpus/messages"
        storm = Storm(path, messages(corpus, arguments.no_views), arguments.rate)
        storm.start()
        phases = {"quiet": [], "storm": []}
        for round_number in range(2 * arguments.rounds):
            name = ("quiet", "storm")[round_number % 2]
            (storm.is_on.set if name == "storm" else storm.is_on.clear)()
            # The first half second counts for neither.
            time.sleep(0.5)
            phases[name].append(watched(programs, path, arguments.seconds))
        storm.is_on.clear()
        time.sleep(0.5)
        return phases, storm.sent
    finally:
        daemon.terminate()
        daemon.wait()


def messages(corpus, no_views):
    """The messages of the corpus, optionally without those that open views."""
    files = [file for file in sorted(corpus.iterdir()) if not (no_views and file.name.startswith("open_view"))]
    return [file.read_bytes() for file in files]


def watched(programs, path, seconds):
    watch = [programs / "foveate", "--socket", path, "watch", "camera/calm", "--json", "--seconds", str(seconds)]
    lines = subprocess.run(watch, check=True, capture_output=True, text=True).stdout.splitlines()
    frames = [frame for frame in map(json.loads, lines) if "publish_ns" in frame]
    return [(frame["publish_ns"] - frame["arrival_ns"]) / 1000 for frame in frames]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="target/release", help="where foveated and foveate are (target/release)")
    parser.add_argument("--rounds", type=int, default=6, help="phases of each kind (6)")
    parser.add_argument("--seconds", type=int, default=5, help="length of a phase (5)")
    parser.add_argument("--no-views", action="store_true", help="without opening views, which cost what views cost")
    parser.add_argument(
        "--rate", type=int, default=6400, help="messages a second, 0 for all that go (6400: what 32 clients may send)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        phases, sent = measure(arguments, folder)
    seconds = arguments.rounds * (arguments.seconds + 0.5)
    print(f"{sent} messages, about {sent / seconds:.0f} a second of storm")
    print(f"{'':8}{'frames':>8}{'p50 us':>10}{'p99 us':>10}")
    for name, rounds in phases.items():
        times = [time for times in rounds for time in times]
        cuts = statistics.quantiles(times, n=100)
        print(f"{name:8}{len(times):8}{cuts[49]:10.1f}{cuts[98]:10.1f}")


if __name__ == "__main__":
    main()
