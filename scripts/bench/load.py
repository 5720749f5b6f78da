"""Finds how many cameras of 1280x720 at 30 frames a second two processors can serve, with and without decoding.

A number of streams is carried where in the time that is measured no frame is dropped, every stream delivers what it is asked
to, and 99 of 100 frames of each stream are published within a bound of the histogram below a frame time.
"""

import math
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import measuring
from daemon import Daemon, growth, quantile_ms, spent_ns, stats
from measuring import FoveateError, gst_launch

import foveate

WIDTH, HEIGHT, RATE = 1280, 720, 30
#: Processors for the daemon and the sources of its frames.
PROCESSORS = 2
#: Upper limit of the search; reaching it is reported.
STREAMS_MAX = 128
#: Required share of the frames that are due.
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
STAGES = ("plan", "change", "ingest", "reduce", "sample", "adapt", "publish")
#: Streams whose frames are followed through their stages: so few that hardly one waits for another.
FOLLOWED = 16


@dataclass
class Case:
    """The streams' source: a name, the pipeline before the appsink, and further tables of a stream."""

    name: str
    source: str
    tables: str = ""

    def text(self, count):
        """The configuration for `count` streams."""
        pipeline = f"pipeline = '{self.source} ! appsink name=frames'"
        return "\n".join(
            f"[[stream]]\nname = 'camera-{n}'\nbackend = 'cpu'\n{pipeline}\n{self.tables}" for n in range(count)
        )


@dataclass
class Run:
    """The result of one number of streams; as it begins, of a daemon that was too busy to answer.

    :ivar within: share of the frames that were published in time, of the stream where it is least.
    :ivar delivered: share of the frames that are due, of the stream where it is least.
    """

    count: int
    dropped: int = 0
    within: float = 0.0
    p50_ms: float = math.inf
    p99_ms: float = math.inf
    worst_p99_ms: float = math.inf
    cpu: float = math.nan
    delivered: float = 0.0

    @property
    def is_carried(self):
        """Whether all streams were served."""
        return self.dropped == 0 and DELIVERED_MIN <= self.delivered and 0.99 <= self.within


class Material:
    """The clip, as raw frames and as H.264."""

    def __init__(self, clip, folder, seconds):
        self._frames, self._still = os.path.join(folder, "%05d.nv12"), os.path.join(folder, "00000.nv12")
        self._encoded = os.path.join(folder, "clip.mp4")
        # Each picture of the clip is one of the camera's.
        picture = f"video/x-raw,format=NV12,width={WIDTH},height={HEIGHT}"
        gst_launch(
            f"filesrc location={clip} ! decodebin ! videoconvert ! videoscale ! {picture}"
            f" ! identity eos-after={CLIP_FRAMES + 1} ! multifilesink location={self._frames}"
        )
        self._count = sum(name.endswith(".nv12") for name in os.listdir(folder))
        # As long as a run at the most: a live source does not begin again.
        gst_launch(
            f"{self._raw(seconds * RATE)} ! videoconvert ! openh264enc bitrate=4000000 complexity=low gop-size=30"
            f" ! h264parse ! mp4mux ! filesink location={self._encoded}"
        )

    def _raw(self, count=-1):
        source = f"multifilesrc location={self._frames} loop=true stop-index={self._count - 1} num-buffers={count}"
        return f"{source} ! {self._parsed()}"

    @staticmethod
    def _parsed():
        return f"rawvideoparse format=nv12 width={WIDTH} height={HEIGHT} framerate={RATE}/1"

    def _decoded(self, pace):
        # As a live camera is decoded: no frame waits for the next one to be decoded beside it.
        return f"filesrc location={self._encoded} ! qtdemux ! h264parse ! {pace}avdec_h264 thread-type=slice"

    def cases(self):
        """What is measured, the frames' own cost included. `clocksync` lets each go when it is due, as a camera does."""
        raw, decoded = f"{self._raw()} ! clocksync", self._decoded("clocksync ! ")
        still = f"multifilesrc location={self._still} loop=true ! {self._parsed()} ! clocksync"
        fixed = "[[stream.view]]\nname = 'main'\n[stream.view.gaze]\npolicy = 'fixed'\n"
        auto = "[stream.change]\nthreshold = 'auto'\n"
        return [
            Case("raw frames, a moving scene", raw),
            Case('raw frames, a moving scene, `policy = "fixed"`', raw, fixed),
            Case('raw frames, a moving scene, `threshold = "auto"`', raw, auto),
            Case("raw frames, nothing moves", still),
            Case("H.264, decoded, a moving scene", decoded),
            Case('H.264, decoded, `threshold = "auto"`', decoded, auto),
        ]

    def own_costs(self):
        """Milliseconds of processor time that a frame costs before anybody looks at it: raw and decoded."""
        begin = seconds_of("fakesrc num-buffers=1 ! fakesink")
        raw = seconds_of(f"{self._raw(COST_FRAMES)} ! fakesink")
        decoded = seconds_of(f"{self._decoded('')} ! identity eos-after={COST_FRAMES + 1} ! fakesink")
        return [1e3 * (spent - begin) / COST_FRAMES for spent in (raw, decoded)]


def seconds_of(pipeline):
    """The processor time that a pipeline takes to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    gst_launch(pipeline)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class MeasuredDaemon(Daemon):
    """`foveated` with one configuration, for one run."""

    def look(self):
        """Its statistics, and those of its streams by name."""
        return stats(self.socket)

    def spent(self):
        """Seconds of processor time that the threads of frame loops took, and all others with the processes of sources."""
        pid = self.process.pid
        loops = spent_ns(pid, lambda name: name.startswith("frames-"))
        every = sum(map(spent_ns, [pid, *self.sources()]))
        return loops / 1e9, (every - loops) / 1e9

    def warm_up(self, seconds):
        """Waits until all streams deliver frames, and then for so long. An overloaded machine takes its time, and some of it
        may never come to that."""
        end = time.monotonic() + BEGIN_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise FoveateError(f"foveated has ended:\n{self.log()}")
            try:
                if all(stream["state"] == "live" for stream in self.look()[1].values()):
                    break
            except (foveate.NoDaemon, foveate.TimedOut):
                pass
            time.sleep(0.1)
        time.sleep(seconds)


def measured(programs, case, count, seconds, warm_s):
    """One run, of which a line is printed on standard error."""
    with MeasuredDaemon(programs, case.text(count)) as daemon:
        daemon.warm_up(warm_s)
        try:
            # An answer takes tens of milliseconds where many streams run: both times are after one.
            spent, before, started = sum(daemon.spent()), daemon.look(), time.monotonic()
            time.sleep(seconds)
            after, passed = daemon.look(), time.monotonic() - started
            run = summed(before, after, passed, sum(daemon.spent()) - spent)
        except foveate.TimedOut:
            run = Run(count)
    print(f"{case.name}: {'carried' if run.is_carried else 'not carried'}: {run}", file=sys.stderr)
    return run


def summed(before, after, seconds, spent):
    """The growth of the counters between two samples, between which so many seconds passed and were spent."""
    dropped = 0
    ages, tails, shares, delivered = [], [], [], []
    for name, stream in after[1].items():
        counts, grown = growth(before[1].get(name), stream)
        dropped += counts["frames_dropped"]
        # One more than due or less depends on when the window begins.
        delivered.append((counts["frames_captured"] + 1) / (seconds * RATE))
        bounds = stream["age"]["bounds_ns"]
        ages.append(grown)
        tails.append(quantile_ms(bounds, grown, 0.99) or math.inf)
        within = sum(n for bound, n in zip(bounds, grown, strict=False) if bound <= AGE_BOUND_NS)
        shares.append(within / max(1, sum(grown)))
    every_age = [sum(counts) for counts in zip(*ages, strict=True)]
    p50, p99 = (quantile_ms(bounds, every_age, share) or math.inf for share in (0.5, 0.99))
    return Run(len(tails), dropped, min(shares), p50, p99, max(tails), spent / seconds, min(delivered))


def greatest(attempt):
    """The greatest number that `attempt` carries more often than not, and its runs: doubles, bisects, tries the edge again.
    On the way up one good run is enough, and a bad one is tried again, because other things happen on a machine."""
    runs = {}

    def is_carried(count):
        done = runs.setdefault(count, [])
        while len(done) < REPEATS // 2 + 1 and not any(run.is_carried for run in done):
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
    return good, runs.get(good, [])


def carried(runs):
    """How many of them carried their streams."""
    return sum(run.is_carried for run in runs)


def row(case, good, runs):
    """A row of the table: the greatest number, and what comes after it."""
    if good == 0:
        return [case.name, "0", *[""] * 6]
    p50, p99, slowest, cpu = (
        statistics.median(getattr(run, name) for run in runs) for name in ("p50_ms", "p99_ms", "worst_p99_ms", "cpu")
    )
    count = f"{good}{' or more' if STREAMS_MAX <= good else ''}"
    times = (f"{number:.1f}" for number in (p50, p99, slowest))
    return [case.name, count, f"{carried(runs)} of {len(runs)}", *times, f"{cpu:.2f}", f"{1e3 * cpu / (good * RATE):.2f}"]


def greatest_numbers(arguments, material, seconds, warm_s):
    """The table of the numbers of streams."""
    raw, decoded = material.own_costs()
    rows = []
    for case in material.cases():
        good, runs = greatest(lambda count, case=case: measured(arguments.programs, case, count, seconds, warm_s))
        rows.append(row(case, good, runs))
    versions = [
        measuring.output(program, "--version").splitlines()[0]
        for program in (arguments.programs / "foveated", "gst-launch-1.0")
    ]
    head = [
        "1280x720, 30 frames a second",
        "streams",
        "times carried",
        "p50 of the age, ms",
        "p99",
        "p99 of the slowest stream",
    ]
    return (
        f"{where()} {', '.join(versions)}. {seconds} s a run after {warm_s} s that do not count; the greatest number "
        f"was tried {REPEATS} times, and the figures are medians of these.\n\n"
        f"{measuring.table([*head, 'processors busy', 'CPU time a frame, ms'], rows)}\n\n"
        f"Without Foveate a frame costs {raw:.2f} ms of CPU time where it is read from memory, and"
        f" {decoded:.2f} ms where it is decoded from H.264: these are part of the figures above."
    )


def followed(programs, case, seconds, warm_s):
    """A row of the second table: milliseconds of a frame, by where they go."""
    with MeasuredDaemon(programs, case.text(FOLLOWED)) as daemon:
        daemon.warm_up(warm_s)
        before = *daemon.spent(), daemon.look()[1]
        time.sleep(seconds)
        after = *daemon.spent(), daemon.look()[1]
    streams = [(stream, after[2][name]) for name, stream in before[2].items()]
    frames = sum(newer["frames_captured"] - older["frames_captured"] for older, newer in streams)
    loops, others = (1e3 * (newer - older) / frames for older, newer in zip(before[:2], after[:2], strict=True))

    def mean_ms(of):
        return sum(of(newer)["sum_ns"] - of(older)["sum_ns"] for older, newer in streams) / 1e6 / frames

    step = mean_ms(lambda stream: stream["step"])
    parts = [mean_ms(lambda stream, stage=stage: stream["stages"][stage]) for stage in STAGES]
    figures = [others, loops, *parts, step - sum(parts), loops - step]
    return [case.name, *(f"{figure:.3f}" for figure in figures)]


def stages(arguments, material, seconds, warm_s):
    """The table of where the time of a frame goes."""
    head = ["1280x720, 30 frames a second", "sources", "frame loops", *STAGES, "rest until published", "beside it"]
    rows = [followed(arguments.programs, case, seconds, warm_s) for case in material.cases()]
    return (
        f"{where()} {seconds} s a row.\n\n"
        f"Milliseconds of a frame with {FOLLOWED} streams: processor time of the threads of sources and of frame "
        "loops; the time that the stages of the latter took; what else they did between a frame in memory and its "
        "tokens in the ring; and the rest, which is handing over, waking, switching and counting.\n\n"
        f"{measuring.table(head, rows)}"
    )


def where():
    """When and on what it is measured."""
    return f"{measuring.today()}, {measuring.processor()}, of which {PROCESSORS} are used."


def run(arguments):
    # Processes started from here on inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    seconds, warm_s = (4, 1) if arguments.quick else (20, 5)
    # In memory, where there is room for some times the frames.
    folder = "/dev/shm" if 2 << 30 < shutil.disk_usage("/dev/shm").free else None
    with tempfile.TemporaryDirectory(prefix="foveate-load-", dir=folder) as folder:
        print("Making the clip", file=sys.stderr)
        material = Material(arguments.cache / "box.mp4", folder, seconds + warm_s + BEGIN_S)
        yield "stages", stages(arguments, material, seconds, warm_s)
        if not arguments.stages:
            yield "load", greatest_numbers(arguments, material, seconds, warm_s)
