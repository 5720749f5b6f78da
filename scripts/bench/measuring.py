"""Foveate's side of the measurements: runs `foveate bench`, and says what was measured where."""

import datetime
import json
import os
import platform
import subprocess


class FoveateError(Exception):
    """`foveate bench` refused or ended."""


def report(program, *arguments):
    """The JSON object of the only backend that is measured."""
    command = [program, "bench", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise FoveateError(done.stderr.strip())
    return json.loads(done.stdout)


def vulkan_device(program, asked):
    """Arguments that choose the Vulkan device, or None where there is none: a GPU, otherwise llvmpipe."""
    choices = [["--device", asked]] if asked else [[], ["--device", "llvmpipe"]]
    for choice in choices:
        arguments = ["--backend", "vulkan", "--size", "64x64", "--frames", 1, *choice]
        try:
            report(program, *arguments)
            return choice
        except FoveateError as error:
            reason = error
    if asked:
        raise reason
    return None


def is_software(name):
    """Whether a Vulkan device of that name computes on the processor."""
    return "llvmpipe" in name.lower()


def processor():
    """The name of the processor, and how many of it this process may use."""
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
    """Replaces what stands between the marks of that name in a Markdown file."""
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    with open(path, encoding="utf-8") as file:
        document = file.read()
    before, found_begin, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise FoveateError(f"{path} lacks {begin} and {end}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text.strip()}\n{end}{after}")
