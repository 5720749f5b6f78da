"""Measures the latency of a token frame to a reader in another process, in turns with iceoryx2, and a read in Python."""

import json
import statistics
import sys
import time

import measuring
import numpy as np
from daemon import Daemon

PAYLOAD_BYTES, FRAMES, INTERVAL_US, ROUNDS = 419_328, 2000, 1000, 7
#: Contestants: a name, and the arguments of `foveate bench ring`, or of the peer.
FOVEATE = {
    "Foveate, futex": ["--how", "futex"],
    "Foveate, pollable descriptor": ["--how", "notice"],
    "Foveate, spinning": ["--how", "spin"],
    "Foveate, futex, 8 slots": ["--how", "futex", "--slots", 8],
    "Foveate, spinning, 8 slots": ["--how", "spin", "--slots", 8],
}
PEER = {"iceoryx2, events": "event", "iceoryx2, polling": "poll"}
#: Goals: the first contestant's figure should be at most the second's.
PAIRS = [
    ("Foveate, futex", "iceoryx2, events"),
    ("Foveate, futex, 8 slots", "iceoryx2, events"),
    ("Foveate, spinning", "iceoryx2, polling"),
    ("Foveate, spinning, 8 slots", "iceoryx2, polling"),
]
QUANTILES = {"p50_us": 0.5, "p99_us": 0.99, "p99_9_us": 0.999}

#: Reads in Python: bursts, and frames of each, of the 8 that the ring holds.
BURSTS, BURST_FRAMES = 100, 5
CAMERA = """
[[stream]]
name = "camera"
pipeline = '''videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=640,height=480,framerate=60/1
! appsink name=frames'''
backend = "cpu"
[[stream.view]]
name = "main"
layout = "foveal"
slots = 8
gaze = { policy = "fixed" }
"""


def peer_report(*command):
    """What the peer measures, as `foveate bench ring --json` says it."""
    times = json.loads(measuring.output(*command))
    report = {"missed": len(times["publish_ns"]) - len(times["total_ns"])}
    for part, ns in times.items():
        figures = {name: measuring.quantile(ns, share) / 1e3 for name, share in QUANTILES.items()}
        report[part.removesuffix("_ns")] = figures
    return report


def measured(arguments, rounds):
    """The reports of every contestant, by name: one per round."""
    ring = [arguments.foveate, "bench", "ring", "--json", "--payload", PAYLOAD_BYTES]

    def foveate_report(*options):
        return json.loads(measuring.output(*ring, *options))

    # The peer sends as many bytes, though it has neither records nor a header.
    frame_bytes = foveate_report("--how", "spin", "--frames", 1)["frame_bytes"]
    pace = ["--frames", FRAMES, "--interval-us", INTERVAL_US]
    contestants = {name: lambda options=options: foveate_report(*pace, *options) for name, options in FOVEATE.items()}
    for name, how in PEER.items():
        contestants[name] = lambda how=how: peer_report(arguments.peer, how, frame_bytes, FRAMES, INTERVAL_US)
    return measuring.in_turns(contestants, rounds, pause_s=0.1)


def read(view, target):
    """How long it takes to read a frame that is there, and to copy its texels into an array that is there, in
    microseconds.
    """
    started = time.perf_counter_ns()
    frame = view.read(1, newest=False)
    read_done = time.perf_counter_ns()
    np.copyto(target, frame.pixels)
    return (read_done - started) / 1e3, (time.perf_counter_ns() - read_done) / 1e3


def python_reads(programs):
    """The times of reads after a pause, and of those right behind another."""
    first, following = [], []
    with Daemon(programs, CAMERA) as daemon, daemon.open("camera/main") as view:
        target = np.empty_like(view.read(10).pixels)
        for _ in range(BURSTS):
            # At 60 frames a second they have come by then.
            time.sleep(0.1)
            first.append(read(view, target))
            following += [read(view, target) for _ in range(BURST_FRAMES - 1)]
    return {"after a pause of 0.1 s": first, "right after another": following}


def latencies(reports):
    """The table of every contestant: medians over the rounds."""
    head = [
        "",
        "publish p50",
        "wake p50",
        "release store to copy: p50",
        "p99",
        "p99.9",
        "all of it: p50",
        "p99",
        "p99.9",
        "passed over",
    ]
    shown = [("publish", "p50_us"), ("wake", "p50_us")]
    shown += [(part, figure) for part in ("read_done", "total") for figure in QUANTILES]
    rows = []
    for name, rounds in reports.items():
        cells = [statistics.median(report[part][figure] for report in rounds) for part, figure in shown]
        missed = statistics.median(report["missed"] for report in rounds)
        rows.append([name, *(f"{cell:.1f}" for cell in cells), f"{missed:.0f}"])
    return measuring.table(head, rows)


def comparison(reports):
    """The table of ratios within each round."""
    rows = []
    for ours, theirs in PAIRS:
        cells = []
        for part in ("read_done", "total"):
            pairs = zip(reports[ours], reports[theirs], strict=True)
            ratios = [our[part]["p50_us"] / their[part]["p50_us"] for our, their in pairs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        rows.append([f"{ours} / {theirs}", *cells])
    return measuring.table(["p50 of", "release store to copy", "all of it"], rows)


def reading(times):
    """The table of reads in Python."""
    rows = []
    for name, pairs in times.items():
        reads, copies = zip(*pairs, strict=True)
        beside = [read - copy for read, copy in pairs]
        shown = [(reads, 0.5), (reads, 0.99), (copies, 0.5), (beside, 0.5), (beside, 0.99)]
        rows.append([name, *(f"{measuring.quantile(numbers, share):.0f}" for numbers, share in shown)])
    return measuring.table(["", "read: p50", "p99", "a NumPy copy of its texels: p50", "beside that copy: p50", "p99"], rows)


def run(arguments):
    rounds = 2 if arguments.quick else ROUNDS
    reports = measured(arguments, rounds)
    ours = reports["Foveate, futex"][0]
    parts = [
        f"{measuring.today()}, {measuring.processor()}. A frame has {ours['frame_bytes']} bytes, "
        f"{ours['payload_bytes']} of them texels; {FRAMES} frames in each of {rounds} rounds, one every "
        f"{INTERVAL_US} us, one reader. Medians over the rounds, in microseconds.",
        latencies(reports),
        "Ratios within each round, their median and range:",
        comparison(reports),
        f"`view.read` in Python {sys.version_info.major}.{sys.version_info.minor}, of a frame that is there:",
        reading(python_reads(arguments.programs)),
    ]
    yield "ipc", "\n\n".join(parts)
