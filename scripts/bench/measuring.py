"""What measurements share: Foveate's programs, contestants in turns, tables, and what the machine is.

The archive of scripts/gpu_bundle.sh has this file, so it takes nothing but Python's own library.
"""

import datetime
import json
import os
import platform
import subprocess
import time


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


def gst_launch(pipeline):
    """Runs a pipeline to its end."""
    done = subprocess.run(["gst-launch-1.0", "-q", *pipeline.split()], capture_output=True, text=True)
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise FoveateError(f"gst-launch-1.0 {pipeline}: {done.stderr.strip()}")


def bench(program, *arguments):
    """What `foveate bench` prints."""
    done = subprocess.run([program, "bench", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise FoveateError(done.stderr.strip())
    return done.stdout


def report(program, *arguments):
    """The JSON object of the single measured backend; with the default policy, unless the arguments have another."""
    return json.loads(bench(program, "--json", *arguments).splitlines()[0])


def trial(program, *arguments):
    """The report of one small frame, to see how it would be measured."""
    return report(program, "--size", "64x64", "--frames", 1, *arguments)


def vulkan_device(program, asked):
    """Arguments that choose the Vulkan device, a GPU or else llvmpipe, or None without one."""
    choices = [["--device", asked]] if asked else [[], ["--device", "llvmpipe"]]
    for choice in choices:
        try:
            trial(program, "--backend", "vulkan", *choice)
            return choice
        except FoveateError as error:
            reason = error
    if asked:
        raise reason
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
    name = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {len(os.sched_getaffinity(0))} processors"


def today():
    """The date of the measurement."""
    return datetime.date.today().isoformat()


def write_fragment(path, name, text):
    """Replaces the text between the marks with this name in a Markdown file."""
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    with open(path, encoding="utf-8") as file:
        document = file.read()
    before, found_begin, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise FoveateError(f"{path} lacks {begin} and {end}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text.strip()}\n{end}{after}")
