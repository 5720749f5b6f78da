"""Measures Foveate, OpenCV and PyTorch on the same frames in turns, and prints medians and ratios."""

import functools
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import measuring
import numpy as np
import recipes

SIZES = ["1024x1024", "1920x1080", "3840x2160"]
SHARES = [0, 0.01, 0.1, 0.3, 1]
CLIPS = ["vtest.avi", "box.mp4"]
# There and back again is every step of a clip twice, so each round sees the same steps wherever it begins.
CLIP_FRAMES = 30
# Pictures of a batch.
BATCH = 32
# Pause between contestants, so that the threads of one are idle before the next starts.
PAUSE_S = 0.1
BASE = ("Foveate CPU", "incremental")
# From the widest to the narrowest vector instructions; narrower ones than the processor's are measured, too.
INSTRUCTIONS = ["avx512", "avx2", "plain"]


@dataclass
class Case:
    """Frames to measure on.

    :ivar made: the arguments of `foveate bench` that make them.
    :ivar count: frames a round.
    """

    name: str
    made: list
    count: int
    is_cold: bool = False


def cases(arguments):
    """Sizes and shares of changed tiles, and clips."""
    for size in SIZES[1:] if arguments.quick else SIZES:
        pixels = np.prod([int(side) for side in size.split("x")])
        count = int(min(20, max(6, 40e6 // pixels)))
        for share in [0, 0.1, 1] if arguments.quick else SHARES:
            name, made = f"{size}, {share:.0%} changed", ["--size", size, "--changed", share]
            yield Case(name, made, count)
            if size == "1920x1080" and not arguments.quick:
                yield Case(f"{name}, cold caches", made, count, is_cold=True)
    for clip in CLIPS:
        if (arguments.cache / clip).exists():
            yield Case(clip, ["--clip", arguments.cache / clip, "--frames", CLIP_FRAMES], 2 * (CLIP_FRAMES - 1))


def foveate_programs(arguments, case, plan, folder, vulkan):
    """Foveate's contestants: the arguments of `foveate bench` by name and kind.

    :param vulkan: the arguments that choose the device, and its name; None without one.
    """
    path = os.path.join(folder, f"frames.{plan['format'].lower()}")
    played = ["--clip", path, "--size", f"{plan['width']}x{plan['height']}"] + (["--cold"] if case.is_cold else [])
    cpu = ["--backend", "cpu"]
    backends = [("Foveate CPU", cpu, case.count)]
    if vulkan:
        choice, device = vulkan
        is_software = "llvmpipe" in device
        # A software device is there for completeness.
        count = 4 if "--clip" not in case.made and is_software else case.count
        backends.append((f"Foveate Vulkan{' (software)' if is_software else ''}", ["--backend", "vulkan", *choice], count))
    default, *others = policies(arguments.foveate)
    found = {}
    for name, backend, count in backends:
        measured = [*played, *backend, "--frames", count]
        found[name, "incremental"] = [*measured, "--policy", default]
        found[name, "full"] = [*measured, "--policy", default, "--refresh", 1]
        for policy in others:
            found[f"{name}, {policy} gaze", "incremental"] = [*measured, "--policy", policy]
        if backend == cpu and not case.is_cold:
            for instructions in narrower(arguments.foveate):
                limited = [*measured, "--instructions", instructions, "--policy", default]
                found[f"{name}, {instructions}", "incremental"] = limited
        # Where everything changes anyway.
        if case.made[-1] == 1 and not case.is_cold:
            found[name, f"batch of {BATCH}"] = [*played, *backend, "--batch", BATCH, "--frames", 2 * BATCH]
    return found


@functools.cache
def policies(program):
    """The default policy, and `fixed` if that is another one."""
    return list(dict.fromkeys([measuring.trial(program, "--backend", "cpu")["views"]["policy"], "fixed"]))


@functools.cache
def narrower(program):
    """Vector instructions that are narrower than those that the processor has."""
    used = measuring.trial(program, "--backend", "cpu")["instructions"]
    return INSTRUCTIONS[INSTRUCTIONS.index(used) + 1:] if used in INSTRUCTIONS else []


def recipe_measure(function, frames, count, evict):
    """Plays the frames forward and backward as `foveate bench` does."""
    position = 0

    def step():
        nonlocal position
        last = len(frames) - 1
        at = position % (2 * last)
        position += 1
        frame = frames[min(at, 2 * last - at)]
        evict()
        started = time.perf_counter_ns()
        function(frame)
        return (time.perf_counter_ns() - started) / 1e3

    def measure():
        # As long as `foveate bench` does.
        started, warm_up = time.perf_counter_ns(), 0
        while warm_up < 4 or time.perf_counter_ns() - started < 20e6:
            step()
            warm_up += 1
        return statistics.median(step() for _ in range(count))

    return measure


def evictor(case):
    """A function that evicts the caches like `foveate bench --cold`, or does nothing."""
    if not case.is_cold:
        return lambda: None
    # Where the system does not know, as much as large ones have.
    cache_bytes = max(map(os.sysconf, ("SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE"))) or 64 << 20
    buffer = np.ones(2 * cache_bytes // 8, dtype=np.uint64)

    def evict():
        np.add(buffer[::8], 1, out=buffer[::8])

    return evict


def measure(arguments, case, vulkan, rounds):
    """All contestants of a case in turns: the microseconds of each round, by name and kind."""
    with tempfile.TemporaryDirectory() as folder:
        plan, frames = recipes.dumped(arguments.foveate, folder, *case.made, "--policy", "fixed")
        shown = frames[plan["tokens_of_frame"]]
        programs = foveate_programs(arguments, case, plan, folder, vulkan)
        running = {key: measuring.Bench(arguments.foveate, *options) for key, options in programs.items()}
        contestants = {key: lambda program=program: program.measure()[0] for key, program in running.items()}
        for name, kind, function in recipes.recipes(plan, frames):
            if name != "OpenCV pyramid":
                recipes.check(plan, folder, f"{name}, {kind}", function(shown))
            contestants[name, kind] = recipe_measure(function, frames, case.count, evictor(case))
        try:
            return measuring.in_turns(contestants, rounds, PAUSE_S)
        finally:
            for program in running.values():
                program.close()


def cell(times, base):
    """The median in milliseconds, and the median over the rounds of the ratio to the base."""
    ratio = statistics.median(mine / theirs for mine, theirs in zip(times, base, strict=True))
    return f"{statistics.median(times) / 1e3:.3g} ({ratio:.{1 if ratio < 10 else 0}f}x)"


def run(arguments):
    rounds = 3 if arguments.quick else 5
    choice = measuring.vulkan_device(arguments.foveate)
    device = None if choice is None else measuring.trial(arguments.foveate, "--backend", "vulkan", *choice)["device"]
    measured = {}
    for case in cases(arguments):
        print(case.name, file=sys.stderr)
        measured[case.name] = measure(arguments, case, device and (choice, device), rounds)
    libraries = ", ".join(f"{name} {version}" for name, version in recipes.versions().items())
    caption = (
        f"{measuring.today()}, {measuring.processor()}; Vulkan: {device or 'none'}; {libraries}. Median of {rounds} "
        "rounds in milliseconds a frame, and in brackets the median over the rounds of its ratio to Foveate's "
        "incremental update on the CPU: how many times as long it takes."
    )
    # Not every case has every contestant.
    keys = list(dict.fromkeys(key for times in measured.values() for key in times))
    rows = [
        [name, *(cell(times[key], times[BASE]) if key in times else "" for key in keys)]
        for name, times in measured.items()
    ]
    yield "peers", f"{caption}\n\n{measuring.table(['frames', *map(', '.join, keys)], rows)}"
