"""Measures the latency of a token frame to a reader in another process, alternating with iceoryx2, and a read in
Python.

Run by scripts/bench_ipc.sh.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import measuring

#: Contestants: a name, and the arguments of `foveate bench ring`, or of the peer.
FOVEATE = [
    ("Foveate, futex", ["--how", "futex"]),
    ("Foveate, pollable descriptor", ["--how", "notice"]),
    ("Foveate, spinning", ["--how", "spin"]),
    ("Foveate, futex, 8 slots", ["--how", "futex", "--slots", 8]),
    ("Foveate, spinning, 8 slots", ["--how", "spin", "--slots", 8]),
]
PEER = [("iceoryx2, events", "event"), ("iceoryx2, polling", "poll")]
#: A run that only says how large a frame is.
ONE = ["--how", "spin", "--frames", 1]
#: Goals: the first contestant's figure should be at most the second's.
PAIRS = [
    ("Foveate, futex", "iceoryx2, events"),
    ("Foveate, futex, 8 slots", "iceoryx2, events"),
    ("Foveate, spinning", "iceoryx2, polling"),
    ("Foveate, spinning, 8 slots", "iceoryx2, polling"),
]


def output(*command, env=None):
    """The JSON that a program prints; its other output is shown only if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise measuring.FoveateError(f"{command[0]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measured(arguments):
    """The reports of every contestant, by name: one per round. Each round starts with a different one."""
    # The peer sends as many bytes, though it has neither records nor a header.
    bytes_of_all = output(arguments.foveate, "bench", "ring", "--json", "--payload", arguments.payload, *ONE)["frame_bytes"]
    shared = ["--payload", arguments.payload, "--frames", arguments.frames, "--interval-us", arguments.interval_us]
    contestants = [
        (name, [arguments.foveate, "bench", "ring", "--json", *shared, *rest]) for name, rest in FOVEATE
    ] + [
        (name, [arguments.peer, how, bytes_of_all, arguments.frames, arguments.interval_us]) for name, how in PEER
    ]
    reports = {name: [] for name, _ in contestants}
    for round_number in range(arguments.rounds):
        for turn in range(len(contestants)):
            name, command = contestants[(round_number + turn) % len(contestants)]
            time.sleep(0.1)
            reports[name].append(output(*command))
    return reports


def python_read(programs):
    """Times of reads in Python, and of copies of the same texels, in microseconds."""
    here = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ, PYTHONPATH=os.path.join(here, "..", "..", "python"))
    return output(sys.executable, "-B", os.path.join(here, "python_read.py"), programs, env=environment)


def median(reports, part, quantile):
    """The median over the rounds of one figure, in microseconds."""
    return statistics.median(report[part][quantile] for report in reports)


def table(reports):
    """The figures of every contestant."""
    yield "| | publish p50 | wake p50 | release store to copy: p50 | p99 | p99.9 | all of it: p50 | p99 | p99.9 | passed over |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, rounds in reports.items():
        cells = [median(rounds, part, "p50_us") for part in ("publish", "wake")]
        for part in ("read_done", "total"):
            cells += [median(rounds, part, quantile) for quantile in ("p50_us", "p99_us", "p99_9_us")]
        missed = statistics.median(report["missed"] for report in rounds)
        yield f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} | {missed:.0f} |"


def comparison(reports):
    """Ratios within each round."""
    yield "| p50 of | release store to copy | all of it |"
    yield "| --- | ---: | ---: |"
    for ours, theirs in PAIRS:
        cells = []
        for part in ("read_done", "total"):
            pairs = zip(reports[ours], reports[theirs])
            ratios = [our[part]["p50_us"] / their[part]["p50_us"] for our, their in pairs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        yield f"| {ours} / {theirs} | {' | '.join(cells)} |"


def quantile(numbers, share):
    """The quantile at `share`."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def markdown(arguments, reports, overheads):
    """The complete report."""
    ours = reports[FOVEATE[0][0]][0]
    size = f"A frame has {ours['frame_bytes']} bytes, {ours['payload_bytes']} of them texels"
    yield (
        f"{measuring.today()}, {measuring.processor()}. {size}; {arguments.frames} frames in each of"
        f" {arguments.rounds} rounds, one every {arguments.interval_us} us, one reader. Medians over the rounds, in microseconds."
    )
    yield ""
    yield from table(reports)
    yield ""
    yield "Ratios within each round, their median and range:"
    yield ""
    yield from comparison(reports)
    yield ""
    yield f"`view.read` in Python {sys.version_info.major}.{sys.version_info.minor}, of a frame that is there:"
    yield ""
    yield "| | read: p50 | p99 | a NumPy copy of its texels: p50 | beside that copy: p50 | p99 |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, key in (("after a pause of 0.1 s", "first"), ("right after another", "next")):
        reads, copies = zip(*overheads[key])
        beside = [read - copy for read, copy in overheads[key]]
        cells = [quantile(reads, 0.5), quantile(reads, 0.99), quantile(copies, 0.5)]
        cells += [quantile(beside, 0.5), quantile(beside, 0.99)]
        yield f"| {name} | {' | '.join(f'{cell:.0f}' for cell in cells)} |"


def main():
    """Measures, and prints or stores the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--foveate", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--payload", type=int, default=419_328)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--interval-us", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--refresh")
    arguments = parser.parse_args()
    try:
        reports = measured(arguments)
        overheads = python_read(os.path.dirname(arguments.foveate))
        text = "\n".join(markdown(arguments, reports, overheads))
        print(text)
        if arguments.refresh:
            measuring.write_fragment(arguments.refresh, "ipc", text)
    except measuring.FoveateError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
