"""Finds how many cameras of 1280x720 at 30 frames a second two processors can serve, with and without decoding.

A number of streams is carried where in the time that is measured no frame is dropped, every stream delivers what it is asked to, and
99 of 100 frames of each stream are published within a bound of the histogram below a frame time.
"""

import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import foveate

import measuring
from daemon import Daemon, growth, quantile_ms, stats
from measuring import FoveateError, gst_launch

WIDTH, HEIGHT, RATE = 1280, 720, 30
FRAME_MS = 1000 / RATE
FRAME_BYTES = WIDTH * HEIGHT * 3 // 2
#: Processors for the daemon and the sources of its frames.
PROCESSORS = 2
#: Upper limit of the search; reaching it is reported.
STREAMS_MAX = 128
#: Required share of the frames that are due in any window: one may fall outside it.
DELIVERED_MIN = 0.99
#: Largest bound of the daemon's histogram of ages that is below a frame time.
AGE_BOUND_NS = 25_000_000
#: Timeout for a pipeline's frames, in seconds.
BEGIN_S = 60
#: Frames of the clip that are used.
CLIP_FRAMES = 300
#: Frames that show what they cost by themselves, the start of the pipeline aside.
COST_FRAMES = 1000
#: How often the greatest number is tried.
REPEATS = 3
#: Stages on the CPU.
STAGES = ("plan", "change", "ingest", "reduce", "sample", "publish")
#: Streams whose frames are followed through their stages: so few that hardly one waits for another.
FOLLOWED = 16


@dataclass
class Case:
    """The streams' source: a name, the pipeline before the appsink, keys of `[stream.change]`, and the policy of the view if not the
    default one."""

    name: str
    source: str
    change: str = ""
    policy: str = ""

    def text(self, count):
        """The configuration for `count` streams."""
        pipeline = f"pipeline = '{self.source} ! appsink name=frames'"
        change = f"[stream.change]\n{self.change}\n" if self.change else ""
        view = f"[[stream.view]]\nname = 'main'\n[stream.view.gaze]\npolicy = '{self.policy}'\n" if self.policy else ""
        streams = [f"[[stream]]\nname = 'camera-{n}'\nbackend = 'cpu'\n{pipeline}\n{change}{view}" for n in range(count)]
        return "\n".join(streams)


@dataclass
class Run:
    """The result of one number of streams."""

    count: int
    captured: int
    dropped: int
    within: float
    p50_ms: float
    p99_ms: float
    worst_p99_ms: float
    cpu: float
    delivered: float

    @property
    def is_carried(self):
        """Whether it was carried."""
        return self.dropped == 0 and DELIVERED_MIN <= self.delivered and 0.99 <= self.within


def seconds_of(pipeline):
    """The processor time that a pipeline takes to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    gst_launch(pipeline)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Material:
    """The clip, as raw frames and as H.264, in memory where there is room."""

    def __init__(self, clip, folder, frame_count, seconds):
        self._frames = os.path.join(folder, "%05d.nv12")
        self._still = os.path.join(folder, "00000.nv12")
        self._encoded = os.path.join(folder, "clip.mp4")
        self.frame_count = frame_count
        # The clip over and over; each picture that it has is one of the camera's.
        picture = f"video/x-raw,format=NV12,width={WIDTH},height={HEIGHT}"
        gst_launch(
            f"filesrc location={clip} ! decodebin ! videoconvert ! videoscale ! {picture}"
            f" ! identity eos-after={frame_count + 1} ! multifilesink location={self._frames}"
        )
        self.frame_count = len([name for name in os.listdir(folder) if name.endswith(".nv12")])
        gst_launch(
            f"{self._read(seconds * RATE)} ! videoconvert ! openh264enc bitrate=4000000 complexity=low gop-size=30"
            f" ! h264parse ! mp4mux ! filesink location={self._encoded}"
        )

    def _read(self, count=-1):
        files = f"multifilesrc location={self._frames} loop=true stop-index={self.frame_count - 1} num-buffers={count}"
        return f"{files} ! {self._as_video()}"

    @staticmethod
    def _as_video():
        return f"rawvideoparse format=nv12 width={WIDTH} height={HEIGHT} framerate={RATE}/1"

    @staticmethod
    def _decoded():
        # As a live camera is decoded: no frame waits for the next one to be decoded beside it.
        return "avdec_h264 thread-type=slice"

    def cases(self):
        """What is measured, the frames' own cost included. `clocksync` lets each go when it is due, as a camera does."""
        raw = f"{self._read()} ! clocksync"
        packets = f"filesrc location={self._encoded} ! qtdemux ! h264parse ! clocksync"
        still = f"multifilesrc location={self._still} loop=true ! {self._as_video()} ! clocksync"
        return [
            Case("raw frames, a moving scene", raw),
            Case("raw frames, a moving scene, `policy = \"fixed\"`", raw, policy="fixed"),
            Case("raw frames, a moving scene, `threshold = \"auto\"`", raw, 'threshold = "auto"'),
            Case("raw frames, nothing moves", still),
            Case("H.264, decoded, a moving scene", f"{packets} ! {self._decoded()}"),
            Case("H.264, decoded, `threshold = \"auto\"`", f"{packets} ! {self._decoded()}", 'threshold = "auto"'),
        ]

    def own_costs(self, count):
        """Milliseconds of processor time that a frame costs before anybody looks at it, by kind: raw and decoded."""
        begin = seconds_of("fakesrc num-buffers=1 ! fakesink")
        raw = seconds_of(f"{self._read(count)} ! fakesink")
        packets = f"filesrc location={self._encoded} ! qtdemux ! h264parse"
        decoded = seconds_of(f"{packets} ! {self._decoded()} ! identity eos-after={count + 1} ! fakesink")
        return {kind: 1e3 * (spent - begin) / count for kind, spent in (("raw", raw), ("decoded", decoded))}


class MeasuredDaemon(Daemon):
    """`foveated` with one configuration, for one run."""

    def look(self):
        """Its statistics."""
        return stats(self.socket)

    def spent(self):
        """Seconds of processor time that the threads of frame loops took, and all others."""
        sums = {True: 0, False: 0}
        for thread in os.scandir(f"/proc/{self.process.pid}/task"):
            with open(f"{thread.path}/comm", encoding="utf-8") as name, open(f"{thread.path}/schedstat", encoding="utf-8") as spent:
                sums[name.read().startswith("frames-")] += int(spent.read().split()[0])
        return sums[True] / 1e9, sums[False] / 1e9

    def wait_until_live(self):
        """Until all streams deliver frames. An overloaded machine takes its time, and some of it may never come to that."""
        end = time.monotonic() + BEGIN_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise FoveateError(f"foveated has ended:\n{self.log()}")
            try:
                if all(stream["state"] == "live" for stream in self.look()[1].values()):
                    return
            except (foveate.NoDaemon, foveate.TimedOut):
                pass
            time.sleep(0.1)


def measured(programs, case, count, seconds, warm_s):
    """One run. A daemon that is too busy to answer carries nothing."""
    with MeasuredDaemon(programs, case.text(count)) as daemon:
        daemon.wait_until_live()
        time.sleep(warm_s)
        try:
            started, before = time.monotonic(), daemon.look()
            time.sleep(seconds)
            after, took = daemon.look(), time.monotonic() - started
        except foveate.TimedOut:
            return Run(count, 0, 0, 0.0, math.inf, math.inf, math.inf, math.nan, 0.0)
    return summed(before, after, took)


def summed(before, after, seconds):
    """The growth of the counters between two samples."""
    captured = dropped = 0
    ages, tails, shares, delivered = None, [], [], []
    for name, stream in after[1].items():
        counts, grown = growth(before[1].get(name), stream)
        captured += counts["frames_captured"]
        dropped += counts["frames_dropped"]
        delivered.append(counts["frames_captured"] / (seconds * RATE))
        bounds = stream["age"]["bounds_ns"]
        ages = grown if ages is None else [one + other for one, other in zip(ages, grown)]
        tails.append(quantile_ms(bounds, grown, 0.99) or math.inf)
        within = sum(n for bound, n in zip(bounds, grown) if bound <= AGE_BOUND_NS)
        shares.append(within / max(1, sum(grown)))
    spent = after[0]["process"]["cpu_seconds"] - before[0]["process"]["cpu_seconds"]
    p50, p99 = (quantile_ms(bounds, ages, share) or math.inf for share in (0.5, 0.99))
    return Run(len(tails), captured, dropped, min(shares), p50, p99, max(tails), spent / seconds, min(delivered))


def followed(programs, case, seconds, warm_s):
    """A row of the second table: milliseconds of a frame, by where they go."""
    with MeasuredDaemon(programs, case.text(FOLLOWED)) as daemon:
        daemon.wait_until_live()
        time.sleep(warm_s)
        before = *daemon.spent(), daemon.look()[1]
        time.sleep(seconds)
        after = *daemon.spent(), daemon.look()[1]
    streams = [(stream, after[2][name]) for name, stream in before[2].items()]
    frames = sum(newer["frames_captured"] - older["frames_captured"] for older, newer in streams)
    loops, others = (1e3 * (newer - older) / frames for older, newer in zip(before[:2], after[:2]))

    def mean_ms(of):
        return sum(of(newer)["sum_ns"] - of(older)["sum_ns"] for older, newer in streams) / 1e6 / frames

    step = mean_ms(lambda stream: stream["step"])
    parts = [mean_ms(lambda stream, stage=stage: stream["stages"][stage]) for stage in STAGES]
    figures = [others, loops, *parts, step - sum(parts), loops - step]
    return [case.name, *(f"{figure:.3f}" for figure in figures)]


def greatest(attempt):
    """The greatest number that `attempt` carries more often than not, and its runs: doubles, bisects, tries the edge again.
    On the way up one good run is enough, and a bad one is tried again, because other things happen on a machine."""
    runs = {}

    def is_carried(count, tries=REPEATS // 2 + 1):
        done = runs.setdefault(count, [])
        while len(done) < tries and not any(run.is_carried for run in done):
            done.append(attempt(count))
        return any(run.is_carried for run in done)

    def holds(count):
        done = runs.setdefault(count, [])
        done.extend(attempt(count) for _ in range(REPEATS - len(done)))
        return REPEATS // 2 < carried(done)

    good, bad = 0, 1
    while bad <= STREAMS_MAX and is_carried(bad):
        good, bad = bad, 2 * bad
    while good + 1 < bad and bad <= STREAMS_MAX:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_carried(middle) else (good, middle)
    while 0 < good and not holds(good):
        good -= 1
    return good, runs


def carried(runs):
    """How many of them carried their streams."""
    return sum(run.is_carried for run in runs)


def narrate(case, run):
    """One line for who waits."""
    fate = "carried" if run.is_carried else "not carried"
    print(
        f"{case.name}: {run.count} streams: {run.dropped} of {run.captured} dropped, slowest delivers {run.delivered:.1%},"
        f" p50 {run.p50_ms:.1f} ms, p99 {run.p99_ms:.1f} ms (slowest {run.worst_p99_ms:.1f} ms),"
        f" {run.cpu:.2f} processors: {fate}",
        file=sys.stderr,
    )


def row(case, good, runs):
    """A row of the table: the greatest number, and what comes after it."""
    if good == 0:
        return [case.name, "0", *[""] * 6]
    tries = runs[good]
    p50, p99, slowest, cpu = (
        statistics.median(getattr(run, name) for run in tries) for name in ("p50_ms", "p99_ms", "worst_p99_ms", "cpu")
    )
    cost_ms = 1e3 * cpu / (good * RATE)
    count = f"{good}{' or more' if STREAMS_MAX <= good else ''}"
    times = (f"{number:.1f}" for number in (p50, p99, slowest))
    return [case.name, count, f"{carried(tries)} of {len(tries)}", *times, f"{cpu:.2f}", f"{cost_ms:.2f}"]


def version(*command):
    """The first line of a program's version output."""
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]


def where():
    """When and on what it is measured."""
    return f"{measuring.today()}, {measuring.processor()}, of which {PROCESSORS} are used."


def greatest_numbers(arguments, material, seconds, warm_s):
    """The numbers of streams."""
    costs, rows = material.own_costs(COST_FRAMES), []
    for case in material.cases():

        def attempt(count, case=case):
            run = measured(arguments.programs, case, count, seconds, warm_s)
            narrate(case, run)
            return run

        rows.append(row(case, *greatest(attempt)))
    versions = f"{version(arguments.programs / 'foveated', '--version')}, {version('gst-launch-1.0', '--version')}"
    head = ["1280x720, 30 frames a second", "streams", "times carried", "p50 of the age, ms", "p99", "p99 of the slowest stream"]
    parts = [
        f"{where()} {versions}. {seconds} s a run after {warm_s} s that do not count; the greatest number was tried {REPEATS}"
        " times, and the figures are medians of these.",
        measuring.table([*head, "processors busy", "CPU time a frame, ms"], rows),
        f"Without Foveate a frame costs {costs['raw']:.2f} ms of CPU time where it is read from memory, and"
        f" {costs['decoded']:.2f} ms where it is decoded from H.264: these are part of the figures above.",
    ]
    return "\n\n".join(parts)


def stages(arguments, material, seconds, warm_s):
    """Where the time of a frame goes."""
    head = ["1280x720, 30 frames a second", "sources", "frame loops", *STAGES, "rest until published", "beside it"]
    parts = [
        f"{where()} {seconds} s a row.",
        f"Milliseconds of a frame with {FOLLOWED} streams: processor time of the threads of sources and of frame loops; the time that the"
        " stages of the latter took; what else they did between a frame in memory and its tokens in the ring; and the rest, which is"
        " handing over, waking, switching and counting.",
        measuring.table(head, [followed(arguments.programs, case, seconds, warm_s) for case in material.cases()]),
    ]
    return "\n\n".join(parts)


def room():
    """A folder in memory, where there is enough of it."""
    memory = "/dev/shm"
    if os.path.isdir(memory) and 4 * CLIP_FRAMES * FRAME_BYTES < shutil.disk_usage(memory).free:
        return memory
    return None


def run(arguments):
    # Processes started from here on inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    seconds, warm_s = (4, 1) if arguments.quick else (20, 5)
    with tempfile.TemporaryDirectory(prefix="foveate-load-", dir=room()) as folder:
        print("Making the clip", file=sys.stderr)
        # The clip in H.264 is as long as a run at the most: a live source does not begin again.
        material = Material(arguments.clip, folder, CLIP_FRAMES, seconds + warm_s + BEGIN_S)
        yield "stages", stages(arguments, material, seconds, warm_s)
        if not arguments.stages:
            yield "load", greatest_numbers(arguments, material, seconds, warm_s)
