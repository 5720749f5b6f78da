"""Measures what a process for each source costs, in turns with a pipeline in the daemon."""

import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial

import measuring
from daemon import Daemon, spent_ns
from measuring import gst_launch

SIZES = ((1280, 720), (1920, 1080))
RATE = 30
MODES = ("none", "process")
#: What is read of the processes, in the order of the table.
FIGURES = (
    "age p50, ms",
    "age p99",
    "CPU time a frame, ms",
    "memory of the daemon, MiB",
    "of the source",
    "first frame, ms",
)
#: Timeout for a frame, in seconds.
FRAME_S = 60
#: The name of the memory in which frames cross.
SHARED = "memfd:foveate-frame"


@dataclass
class Run:
    """Ages of frames in ms, from the end of the pipeline until they were published, and the other figures."""

    ages: list[float]
    cpu_ms: float
    daemon_mib: float
    source_mib: float
    first_ms: float

    def figures(self):
        """In the order of `FIGURES`."""
        ages = (measuring.quantile(self.ages, share) for share in (0.5, 0.99))
        return [*ages, self.cpu_ms, self.daemon_mib, self.source_mib, self.first_ms]


def cases(folder, seconds):
    """Pipelines by name, each of which gives frames when they are due."""
    found = {}
    for width, height in SIZES:
        size = f"{width}x{height}"
        raw = f"video/x-raw,format=I420,width={width},height={height},framerate={RATE}/1"
        path = os.path.join(folder, size)
        pattern = f"videotestsrc num-buffers={seconds * RATE} pattern=smpte ! {raw}"
        encoder = "openh264enc bitrate=4000000 gop-size=30 ! h264parse ! mp4mux"
        gst_launch(f"{pattern} ! {encoder} ! filesink location={path}.mp4")
        gst_launch(f"{pattern} ! jpegenc ! avimux ! filesink location={path}.avi")
        found[f"{size} raw"] = f"videotestsrc is-live=true pattern=smpte ! {raw}"
        h264 = f"filesrc location={path}.mp4 ! qtdemux ! h264parse ! clocksync"
        found[f"{size} H.264"] = f"{h264} ! avdec_h264 thread-type=slice"
        found[f"{size} MJPEG"] = f"filesrc location={path}.avi ! avidemux ! clocksync ! jpegdec"
    return found


def memory_mib(pid):
    """What a process adds to the machine's memory, in MiB: its share of what it shares, without the frames that cross."""
    total, is_frame = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            first, _, rest = line.partition(" ")
            if not first.endswith(":"):
                is_frame = SHARED in rest
            elif first == "Pss:" and not is_frame:
                total += int(rest.split()[0])
    return total / 1024


def measured(programs, name, pipeline, mode, seconds, warm_s):
    """One run."""
    configuration = (
        f"[[stream]]\nname = 'camera'\nbackend = 'cpu'\nisolation = '{mode}'\n"
        f"pipeline = '{pipeline} ! appsink name=frames'\n"
    )
    started_ns = time.monotonic_ns()
    with Daemon(programs, configuration) as daemon, daemon.open("camera/main") as view:
        first_ns = view.read(timeout=FRAME_S).publish_ns
        end = time.monotonic() + warm_s
        while time.monotonic() < end:
            frame = view.read(timeout=FRAME_S)
        first_seq = frame.frame_seq
        pids = [daemon.process.pid, *daemon.sources()]
        before, ages, end = sum(map(spent_ns, pids)), [], time.monotonic() + seconds
        while time.monotonic() < end:
            frame = view.read(timeout=FRAME_S)
            ages.append((frame.publish_ns - frame.arrival_ns) / 1e6)
        cpu_ms = (sum(map(spent_ns, pids)) - before) / 1e6 / (frame.frame_seq - first_seq)
        memory = [memory_mib(pid) for pid in pids]
        run = Run(ages, cpu_ms, memory[0], sum(memory[1:]), (first_ns - started_ns) / 1e6)
    print(f"{name}, {mode}: {run.figures()} of {len(ages)} frames, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return run


def row(name, mode, runs):
    """The medians of the runs."""
    figures = zip(*(run.figures() for run in runs), strict=True)
    return [name, f"`{mode}`", *(f"{statistics.median(figure):.2f}" for figure in figures)]


def run(arguments):
    seconds, warm_s, rounds = (3, 1, 1) if arguments.quick else (10, 2, 5)
    rows = []
    with tempfile.TemporaryDirectory(prefix="foveate-isolation-") as folder:
        # They may start late on a busy machine.
        for name, pipeline in cases(folder, 2 * (seconds + warm_s)).items():
            contestants = {
                mode: partial(measured, arguments.programs, name, pipeline, mode, seconds, warm_s) for mode in MODES
            }
            found = measuring.in_turns(contestants, rounds)
            rows += [row(name, mode, found[mode]) for mode in MODES]
    yield (
        "isolation",
        f"{measuring.today()}, {measuring.processor()}. {seconds} s a run, {rounds} in turns, medians; ages from the end of "
        "the pipeline until the tokens are published, memory without the frames that cross, first frame from the start of "
        f"the daemon.\n\n{measuring.table(['source', '`isolation`', *FIGURES], rows)}",
    )
