"""What measurements share: Foveate's programs, contestants in turns, tables, and what the machine is.

The archive of scripts/gpu_bundle.sh has this file, so it takes nothing but Python's own library.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class FoveateError(RuntimeError):
    """A measurement cannot go on."""


class Bench:
    """`foveate bench`, which measures once for each line that it reads."""

    def __init__(self, program, *arguments):
        command = [program, "bench", "--json", "--each-line", *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self):
        """The p50 and p99 of a frame, or of a picture of a batch, in microseconds."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise FoveateError(f"foveate bench ended with {self._process.wait()}")
        report = json.loads(line)
        total = report["picture"] if "picture" in report else report["stages"]["total"]
        return total["p50_us"], total["p99_us"]

    def close(self):
        """Ends it."""
        self._process.communicate()


def output(*command):
    """What a program prints; its other output is shown only if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise FoveateError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def gst_launch(pipeline):
    """Runs a pipeline to its end."""
    done = subprocess.run(["gst-launch-1.0", "-q", *pipeline.split()], capture_output=True, text=True)
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise FoveateError(f"gst-launch-1.0 {pipeline}: {done.stderr.strip()}")


def report(program, *arguments):
    """What `foveate bench` says of the single measured backend."""
    return json.loads(output(program, "bench", "--json", *arguments).splitlines()[0])


def trial(program, *arguments):
    """The report of one small frame, to see how it would be measured."""
    return report(program, "--size", "64x64", "--frames", 1, *arguments)


def vulkan_device(program):
    """Arguments that choose the Vulkan device, a GPU or else llvmpipe, or None without one."""
    for choice in ([], ["--device", "llvmpipe"]):
        try:
            trial(program, "--backend", "vulkan", *choice)
            return choice
        except FoveateError:
            continue
    return None


def in_turns(contestants, rounds, pause_s=0.0):
    """Calls all functions in each round, and returns what each returned, by name. Each round begins with another one.

    :param contestants: functions by name.
    :param pause_s: pause before each, so that the threads of the one before are idle.
    """
    found = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(pause_s)
            found[name].append(contestants[name]())
    return found


def quantile(numbers, share):
    """The quantile at `share`."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(head, rows):
    """A table in Markdown, all columns but the first aligned to the right."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---", *["---:"] * (len(head) - 1)], *rows])


def processor():
    """The processor's name, and the number available to this process."""
    name = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{name[1] if name else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def today():
    """The date of the measurement."""
    return datetime.date.today().isoformat()


def write_fragment(path, name, text):
    """Replaces the text between the marks with this name in a Markdown file."""
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    document = Path(path).read_text(encoding="utf-8")
    before, found_begin, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise FoveateError(f"{path} lacks {begin} and {end}")
    Path(path).write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
