"""Measures Foveate, OpenCV and PyTorch on the same frames in turns, and prints medians and ratios."""

import functools
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import numpy as np

import measuring
import recipes
from measuring import table

SIZES = ["1024x1024", "1920x1080", "3840x2160"]
SHARES = [0, 0.01, 0.1, 0.3, 1]
# There and back again is every step of a clip twice, so each round sees the same steps wherever it begins.
CLIP_FRAMES = 30
# Pictures of a batch.
BATCH = 32
# Pause between contestants, so that the threads of one are idle before the next starts.
PAUSE_S = 0.1
# Runs of the stages, of which the quickest is shown.
STAGES_RUNS = 3
BASE = ("Foveate CPU", "incremental")
# Narrower vector instructions that are measured too, where the processor has wider ones.
NARROWER = ["avx2", "plain"]
STAGES_CAPTION = (
    f"Medians in microseconds of the quickest of {STAGES_RUNS} runs, on the CPU; megabytes that `change` and `ingest` read and write, and that "
    "`sample` writes; and rates of two streams of bytes each:"
)


@dataclass
class Case:
    """Frames to measure on."""

    name: str
    made: list  # arguments of `foveate bench` that make them
    count: int  # frames a round
    cold: bool = False

    @property
    def is_made(self):
        """Whether the frames are made, not of a clip."""
        return "--clip" not in self.made


@dataclass
class Vulkan:
    """The device, if there is one: the arguments that choose it, and its name."""

    arguments: list | None = None
    name: str | None = None
    is_software: bool = False

    @classmethod
    def found(cls, program, asked):
        arguments = measuring.vulkan_device(program, asked)
        if arguments is None:
            return cls()
        name = measuring.trial(program, "--backend", "vulkan", *arguments)["device"]
        return cls(arguments, name, "llvmpipe" in name.lower())

    @property
    def label(self):
        return " (software)" if self.is_software else ""


def cases(arguments):
    sizes = SIZES[1:] if arguments.quick else SIZES
    shares = [0, 0.1, 1] if arguments.quick else SHARES
    found = []
    for size in sizes:
        pixels = np.prod([int(side) for side in size.split("x")])
        count = int(min(20, max(6, 40e6 // pixels)))
        for share in shares:
            made = ["--size", size, "--changed", share]
            label = f"{size}, {share:.0%} changed"
            found.append(Case(label, made, count))
            if size == "1920x1080" and not arguments.quick:
                found.append(Case(f"{label}, cold caches", made, count, cold=True))
    for clip in [*filter(os.path.exists, arguments.clips), *arguments.clip]:
        made = ["--clip", clip, "--frames", CLIP_FRAMES]
        found.append(Case(os.path.basename(clip), made, 2 * (CLIP_FRAMES - 1)))
    return found


def foveate_programs(arguments, case, plan, folder, vulkan):
    """Foveate's contestants: the arguments of `foveate bench` by name and kind."""
    path = os.path.join(folder, f"frames.{plan['format'].lower()}")
    played = ["--clip", path, "--size", f"{plan['width']}x{plan['height']}"]
    played += ["--cold"] if case.cold else []
    backends = [("Foveate CPU", ["--backend", "cpu"], case.count)]
    if vulkan.name:
        # A software device is there for completeness.
        count = 4 if case.is_made and vulkan.is_software else case.count
        backends.append((f"Foveate Vulkan{vulkan.label}", ["--backend", "vulkan", *vulkan.arguments], count))
    default, *others = policies(arguments.foveate)
    found = {}
    for name, backend, count in backends:
        measured = [*played, *backend, "--frames", count]
        for kind, refresh in [("incremental", []), ("full", ["--refresh", 1])]:
            found[name, kind] = [*measured, *refresh, "--policy", default]
        for policy in others:
            found[f"{name}, {policy} gaze", "incremental"] = [*measured, "--policy", policy]
        if backend == ["--backend", "cpu"] and not case.cold:
            for instructions in narrower(arguments.foveate):
                limited = [*measured, "--instructions", instructions, "--policy", default]
                found[f"{name}, {instructions}", "incremental"] = limited
        # Where everything changes anyway.
        if case.made[-1] == 1 and not case.cold:
            found[name, f"batch of {BATCH}"] = [*played, *backend, "--batch", BATCH, "--frames", 2 * BATCH]
    return found


@functools.cache
def policies(program):
    """The default policy, and `fixed` if that is another one."""
    return list(dict.fromkeys([measuring.trial(program, "--backend", "cpu")["views"]["policy"], "fixed"]))


@functools.cache
def narrower(program):
    """Those of NARROWER that this processor has, and that are not what it uses anyway."""
    used = measuring.trial(program, "--backend", "cpu")["instructions"]
    known = ["avx512", *NARROWER]
    return known[known.index(used) + 1:] if used in known else []


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
        times = sorted(step() for _ in range(count))
        return times[(count - 1) // 2], times[-(-count * 99 // 100) - 1]

    return measure


def evictor(case):
    """A function that evicts the caches like `foveate bench --cold`, or does nothing."""
    if not case.cold:
        return lambda: None
    # Where the system does not know, as much as large ones have.
    cache_bytes = max(map(os.sysconf, ("SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE"))) or 64 << 20
    buffer = np.ones(2 * cache_bytes // 8, dtype=np.uint64)

    def evict():
        np.add(buffer[::8], 1, out=buffer[::8])

    return evict


def measure(arguments, case, vulkan):
    """One case: all contestants in turns."""
    with tempfile.TemporaryDirectory() as folder:
        plan, frames = recipes.dumped(arguments.foveate, folder, *case.made, "--policy", "fixed")
        shown = frames[plan["tokens_of_frame"]]
        for name, kind, function in recipes.recipes(plan, frames):
            if name != "OpenCV pyramid":
                recipes.check(plan, folder, f"{name}, {kind}", function(shown))
        programs = {
            key: measuring.Bench(arguments.foveate, *options)
            for key, options in foveate_programs(arguments, case, plan, folder, vulkan).items()
        }
        contestants = {key: program.measure for key, program in programs.items()}
        for name, kind, function in recipes.recipes(plan, frames):
            contestants[name, kind] = recipe_measure(function, frames, case.count, evictor(case))
        try:
            rounds = measuring.in_turns(contestants, arguments.rounds, PAUSE_S)
        finally:
            for program in programs.values():
                program.close()
    return {"case": case.name, "cold": case.cold, "frames_a_round": case.count, "results": figures(rounds)}


def figures(rounds):
    """Medians over rounds, and the median of each round's ratio to Foveate's incremental update on the CPU."""
    results = []
    for (name, kind), times in rounds.items():
        ratios = [mine[0] / theirs[0] for mine, theirs in zip(times, rounds[BASE])]
        results.append({
            "name": name,
            "kind": kind,
            "p50_us": statistics.median(p50 for p50, _ in times),
            "p99_us": statistics.median(p99 for _, p99 in times),
            "ratio": statistics.median(ratios),
            "rounds": [{"p50_us": p50, "p99_us": p99} for p50, p99 in times],
        })
    return results


def peers_markdown(document):
    return "\n\n".join([caption(document), everything(document), tiers(document)])


def instructions_markdown(document):
    """What the instructions, the size of the frame and the number of views make of the CPU's time."""
    said = f"{document['date']}, {document['processor']}; median of {document['rounds']} rounds."
    return "\n\n".join([said, against_opencv(document), STAGES_CAPTION, stages(document)])


def caption(document):
    libraries = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return (
        f"{document['date']}, {document['processor']}; Vulkan: {document['vulkan'] or 'none'}; {libraries}. "
        f"Median of {document['rounds']} rounds in milliseconds a frame, and in brackets the median over the rounds of "
        "its ratio to Foveate's incremental update on the CPU: how many times as long it takes."
    )


def everything(document):
    # Not every case has every contestant.
    keys = list(dict.fromkeys((result["name"], result["kind"]) for case in document["cases"] for result in case["results"]))
    rows = []
    for case in document["cases"]:
        found = {(result["name"], result["kind"]): cell(result) for result in case["results"]}
        rows.append([case["case"], *[found.get(key, "") for key in keys]])
    return table(["frames", *[", ".join(key) for key in keys]], rows)


def tiers(document):
    """The table of tiers, from plain recipes to Foveate."""
    wanted = [
        ("plain library recipe", "OpenCV + NumPy", "full"),
        ("plain library recipe", "PyTorch", "full"),
        ("own kernels on buffers", "Foveate CPU", "full"),
        ("own kernels, only what changed", "Foveate CPU", "incremental"),
        ("textures", "Foveate Vulkan", "full"),
        ("textures, only what changed", "Foveate Vulkan", "incremental"),
    ]
    shown = [case for case in document["cases"] if not case["cold"]]
    shown = [case for case in shown if "changed" not in case["case"] or "10% changed" in case["case"]]
    rows = []
    for tier, name, kind in wanted:
        found = [[r for r in case["results"] if r["name"].startswith(name) and r["kind"] == kind] for case in shown]
        if all(found):
            rows.append([tier, f"{found[0][0]['name']}, {kind}", *[cell(results[0]) for results in found]])
    return table(["tier", "what", *[case["case"] for case in shown]], rows)


def against_opencv(document):
    """How many times as long OpenCV's bare pyramid takes, for each set of instructions; the median over rounds."""
    shown = [case for case in document["cases"] if "changed" in case["case"] and not case["cold"]]
    names = dict.fromkeys(result["name"] for case in shown for result in case["results"] if result["name"].startswith("Foveate CPU"))
    rows = [[name, *[f"{opencv_ratio(case, name):.3g}" for case in shown]] for name in names]
    return table(["OpenCV's pyramid / Foveate", *[case["case"] for case in shown]], rows)


def opencv_ratio(case, name):
    rounds = {(result["name"], result["kind"]): result["rounds"] for result in case["results"]}
    pairs = zip(rounds["OpenCV pyramid", "full"], rounds[name, "incremental"])
    return statistics.median(theirs["p50_us"] / ours["p50_us"] for theirs, ours in pairs)


def stages(document):
    """Where the time of an incremental update goes, and the bytes that its stages move beside what a copy does."""
    names = ("change", "ingest", "reduce", "sample", "publish", "rest", "total", "see")
    moving = ("change", "ingest", "sample")
    rows = []
    for report in document["stages"]:
        times, moved = report["stages"], moved_bytes(report)
        named = [times[stage]["p50_us"] for stage in names] + [moved[stage] / 1e6 for stage in moving]
        rates = [report["bandwidth"][rate] for rate in ("change_gb_s", "memcpy_gb_s")]
        frames = report["frames"]
        what = f"{frames['width']}x{frames['height']}, {frames['changed']:.0%} changed, {report['instructions']}, {report['views']['policy']}"
        if report["views"]["count"] != 1:
            what += f", {report['views']['count']} views"
        rows.append([what, *[f"{number:.3g}" for number in [*named, *rates]]])
    return table(["", *names, *[f"{stage}, MB" for stage in moving], "change, GB/s", "memcpy, GB/s"], rows)


def moved_bytes(report):
    """Bytes that stages read and write in a frame. `change` reads the frame and the resident copy, and writes what changed there;
    `ingest` reads that once more, and writes levels 1 to 5; of `sample` what it writes."""
    compared, tiles = report["bytes"]["compared"], report["tiles"]
    changed = compared * tiles["dirty_mean"] / tiles["count"]
    levels = tiles["dirty_mean"] * sum(3 * (tiles["side"] >> level) ** 2 for level in range(1, 6))
    return {"change": 2 * compared + changed, "ingest": changed + levels, "sample": report["bytes"]["sampled_mean"]}


def measured_stages(arguments):
    """The quickest runs, in turns, for each size, share and set of instructions, and for more views of one stream."""
    limits = [[], *[["--instructions", name] for name in narrower(arguments.foveate)]]
    default, *others = policies(arguments.foveate)
    limits = [["--policy", default, *limit] for limit in limits] + [["--policy", policy] for policy in others]
    cases = [[size, share, *limit] for size in SIZES[1:] for share in [0, 0.1, 1] for limit in limits]
    cases += [["1920x1080", share, "--views", views] for share in [0, 0.1, 1] for views in [2, 4]]
    runs = [
        [measuring.report(arguments.foveate, "--backend", "cpu", "--size", size, "--changed", share, *rest) for size, share, *rest in cases]
        for _ in range(STAGES_RUNS)
    ]
    return [min(reports, key=lambda report: report["stages"]["total"]["p50_us"]) for reports in zip(*runs)]


def cell(result):
    ms, ratio = result["p50_us"] / 1e3, result["ratio"]
    return f"{ms:.3g} ({ratio:.1f}x)" if ratio < 10 else f"{ms:.3g} ({ratio:.0f}x)"


def document_of(arguments):
    vulkan = Vulkan.found(arguments.foveate, arguments.device)
    measured = []
    every_case = cases(arguments)
    for number, case in enumerate(every_case, 1):
        print(f"{number} of {len(every_case)}: {case.name}", file=sys.stderr)
        measured.append(measure(arguments, case, vulkan))
    return {
        "date": measuring.today(),
        "processor": measuring.processor(),
        "vulkan": f"{vulkan.name}{vulkan.label}" if vulkan.name else None,
        "versions": recipes.versions(),
        "rounds": arguments.rounds,
        "cases": measured,
        "stages": measured_stages(arguments),
    }


def run(arguments):
    arguments.rounds = 3 if arguments.quick else 5
    document = document_of(arguments)
    if arguments.json:
        yield "json", json.dumps(document, indent=1)
        return
    yield "peers", peers_markdown(document)
    yield "instructions", instructions_markdown(document)
