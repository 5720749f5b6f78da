"""The daemon's `stats` for the soak and load tests, and their differences between two samples."""

import time

import foveate.control

#: How long a daemon may take to answer.
TIMEOUT_S = 5

#: What is counted of a stream.
COUNTS = ("frames_captured", "frames_corrupted", "frames_dropped", "frames_published", "frames_refused", "frames_rested")


def stats(socket):
    """The daemon's numbers, and its streams' by name."""
    connection = foveate.control.Connection(socket)
    try:
        daemon, streams, more = {}, {}, {}
        while True:
            asking = connection.asking("stats", None, **more)
            answer = foveate.control.driven(asking, TIMEOUT_S, time.monotonic() + TIMEOUT_S)
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
    pairs = zip(before["age"]["counts"], after["age"]["counts"])
    return counts, [newer - older for older, newer in pairs]


def quantile_ms(bounds_ns, counts, share):
    """The duration that a share of all stays within, interpolated within its bucket as Prometheus does; None without any.
    What lies above the last bound is given as that."""
    wanted = share * sum(counts)
    if wanted == 0:
        return None
    below, lower = 0, 0
    for bound, count in zip(bounds_ns, counts):
        if wanted <= below + count:
            return (lower + (bound - lower) * (wanted - below) / count) / 1e6
        below, lower = below + count, bound
    return bounds_ns[-1] / 1e6


def restarts(stream):
    """Pipelines that were begun after one was lost."""
    return sum(stream["restarts"].values())


def in_flight(stream):
    """Frames that were captured, and of which nothing more is known."""
    captured, *known = (stream[name] for name in COUNTS)
    return captured - sum(known)
