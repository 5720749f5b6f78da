"""Foveate's side of the measurements: runs `foveate bench`, and describes the machine."""

import datetime
import json
import os
import platform
import subprocess


class FoveateError(Exception):
    """`foveate bench` failed."""


def report(program, *arguments):
    """The JSON object of the single measured backend; with the default policy, unless the arguments have another."""
    command = [program, "bench", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise FoveateError(done.stderr.strip())
    return json.loads(done.stdout.splitlines()[0])


def policies(program):
    """The default policy, and `fixed` if that is another one."""
    default = report(program, "--backend", "cpu", "--size", "64x64", "--frames", 1)["views"]["policy"]
    return list(dict.fromkeys([default, "fixed"]))


def vulkan_device(program, asked):
    """Arguments that choose the Vulkan device, a GPU or else llvmpipe, or None without one."""
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
    """Whether a Vulkan device with this name computes on the CPU."""
    return "llvmpipe" in name.lower()


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
