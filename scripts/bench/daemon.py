"""A daemon for a measurement, and what it counts."""

import contextlib
import os
import subprocess
import tempfile
import time

from measuring import FoveateError

import foveate
import foveate.control

#: Timeouts for the start, which an overloaded machine draws out, and for an answer, in seconds.
START_S = 60
ANSWER_S = 5
#: What is counted of a stream.
COUNTS = ("frames_captured", "frames_corrupted", "frames_dropped", "frames_published", "frames_refused", "frames_rested")


class Daemon:
    """`foveated`, until the end of the `with` block.

    :param folder: where its configuration, socket and log go; by default one that is removed at the end.
    :param environment: further variables.
    """

    def __init__(self, programs, configuration, folder=None, environment=None):
        self._scratch = tempfile.TemporaryDirectory(prefix="foveate-") if folder is None else contextlib.nullcontext(folder)
        self.folder = self._scratch.__enter__()
        self.socket = os.path.join(self.folder, "foveate.sock")
        self.log_path = os.path.join(self.folder, "foveated.log")
        self.config_path = os.path.join(self.folder, "foveate.toml")
        self.write(configuration)
        command = [os.path.join(programs, "foveated"), "--config", self.config_path, "--socket", self.socket]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
            )

    def write(self, configuration):
        """Replaces the configuration file, in one step."""
        with open(f"{self.config_path}.new", "w", encoding="utf-8") as file:
            file.write(configuration)
        os.replace(f"{self.config_path}.new", self.config_path)

    def __enter__(self):
        end = time.monotonic() + START_S
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or end < time.monotonic():
                log = self.log()
                self.__exit__(None, None, None)
                raise FoveateError(f"foveated does not serve its socket:\n{log}")
            time.sleep(0.02)
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self._scratch.__exit__(*error)

    def log(self):
        """The last lines of its log."""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-10:])

    def sources(self):
        """The processes of its sources."""
        found = set()
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/children", encoding="ascii") as children:
                found.update(int(child) for child in children.read().split())
        return sorted(found)

    def open(self, view):
        """A reader of a view, once its stream is there."""
        end = time.monotonic() + START_S
        while True:
            try:
                return foveate.open(view, socket=self.socket)
            except (foveate.NoDaemon, foveate.Refused):
                if end < time.monotonic():
                    raise
                time.sleep(0.02)


def spent_ns(pid, counts=lambda _: True):
    """Processor time of the threads of a process whose names count, in ns. Those that have ended are left out."""
    total = 0
    for task in os.scandir(f"/proc/{pid}/task"):
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"{task.path}/comm", encoding="utf-8") as name,
            open(f"{task.path}/schedstat", encoding="ascii") as spent,
        ):
            if counts(name.read()):
                total += int(spent.read().split()[0])
    return total


def stats(socket):
    """The daemon's numbers, and its streams' by name."""
    connection = foveate.control.Connection(socket)
    try:
        daemon, streams, more = {}, {}, {}
        while True:
            asking = connection.asking("stats", None, **more)
            answer = foveate.control.driven(asking, ANSWER_S, time.monotonic() + ANSWER_S)
            daemon = answer.get("daemon", daemon)
            streams.update((stream["name"], stream) for stream in answer["streams"])
            if "next" not in answer:
                return daemon, streams
            more = {"after": answer["next"]}
    finally:
        connection.close()


def growth(before, after):
    """The growth of each count and each bucket of the ages. A restarted stream counts from 0."""
    if before is None or after["frames_captured"] < before["frames_captured"]:
        counts = {name: after[name] for name in COUNTS}
        return counts, list(after["age"]["counts"])
    counts = {name: after[name] - before[name] for name in COUNTS}
    pairs = zip(before["age"]["counts"], after["age"]["counts"], strict=True)
    return counts, [newer - older for older, newer in pairs]


def quantile_ms(bounds_ns, counts, share):
    """The duration that a share of all stays within, interpolated within its bucket as Prometheus does; None without any.
    What lies above the last bound is given as that."""
    wanted = share * sum(counts)
    if wanted == 0:
        return None
    below, lower = 0, 0
    for bound, count in zip(bounds_ns, counts, strict=False):
        if wanted <= below + count:
            return (lower + (bound - lower) * (wanted - below) / count) / 1e6
        below, lower = below + count, bound
    return bounds_ns[-1] / 1e6
