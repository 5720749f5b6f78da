"""Measures Foveate, OpenCV and PyTorch on the same frames in turns, and prints medians and ratios.

Run by scripts/bench_peers.sh. On a machine with nothing but NumPy it measures what is there:
python3 scripts/bench/peers.py --foveate target/release/foveate
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import numpy as np

import measuring
import recipes

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
    dump: list  # arguments of `foveate bench` that make them
    count: int  # frames a round
    cold: bool = False


@dataclass
class Contestant:
    """A contestant, and the result of each round."""

    name: str
    kind: str
    measure: object  # function: nothing -> (p50, p99) in microseconds
    close: object = lambda: None
    rounds: list = field(default_factory=list)

    @property
    def key(self):
        return (self.name, self.kind)


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
    for clip in arguments.clips:
        made = ["--clip", clip, "--frames", CLIP_FRAMES]
        found.append(Case(os.path.basename(clip), made, 2 * (CLIP_FRAMES - 1)))
    return found


def dump(program, case, folder):
    """Makes Foveate write the frames and the plan; returns the plan and the frames, one array each."""
    command = [program, "bench", *map(str, case.dump), "--policy", "fixed", "--dump", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise measuring.FoveateError(done.stderr.strip())
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    if plan["format"] not in ("NV12", "I420") or plan["width"] % 2 or plan["height"] % 2:
        raise measuring.FoveateError(f"{case.name}: the recipes take 4:2:0 of even sizes")
    if max(recipes.levels_of(plan)) > recipes.LEVELS:
        raise measuring.FoveateError(f"{case.name}: the plan has more levels than the recipes")
    samples = np.fromfile(os.path.join(folder, f"frames.{plan['format'].lower()}"), dtype=np.uint8)
    rows = plan["height"] * 3 // 2
    frames = [np.copy(frame) for frame in samples.reshape(plan["frame_count"], rows, plan["width"])]
    return plan, frames


def check_recipes(plan, frames, folder):
    """Fails unless the recipes' tokens equal Foveate's except for rounding."""
    path = os.path.join(folder, "tokens-0.bin")
    shape = (-1, 3, plan["patch_side"], plan["patch_side"])
    expected = np.fromfile(path, dtype=np.float16).reshape(shape).astype(np.float32)
    for name, kind, function in recipes.recipes(plan, frames):
        if name == "OpenCV pyramid":
            continue
        found = in_plan_order(plan, np.asarray(function(frames[plan["tokens_of_frame"]]), dtype=np.float32))
        difference = float(np.abs(found - expected).mean())
        if difference > 0.02:
            raise measuring.FoveateError(f"{name}, {kind}: other tokens than Foveate's ({difference:.3f} off)")


def in_plan_order(plan, patches):
    """The recipes gather level by level."""
    levels = recipes.levels_of(plan)
    ordered = np.empty_like(patches)
    ordered[np.argsort(levels, kind="stable")] = patches
    return ordered


def foveate_contestants(arguments, case, plan, folder, device):
    path = os.path.join(folder, f"frames.{plan['format'].lower()}")
    played = ["--clip", path, "--size", f"{plan['width']}x{plan['height']}"]
    played += ["--cold"] if case.cold else []
    backends = [("Foveate CPU", ["--backend", "cpu"], case.count)]
    if device is not None:
        backends.append((arguments.vulkan_name, ["--backend", "vulkan", *device], vulkan_count(arguments, case)))
    default, *others = policies(arguments.foveate)
    for name, backend, count in backends:
        measured = [*played, *backend, "--frames", count]
        for kind, refresh in [("incremental", []), ("full", ["--refresh", 1])]:
            yield foveate_contestant(arguments.foveate, name, kind, [*measured, *refresh, "--policy", default])
        for policy in others:
            yield foveate_contestant(arguments.foveate, f"{name}, {policy} gaze", "incremental", [*measured, "--policy", policy])
        if backend == ["--backend", "cpu"] and not case.cold:
            for instructions in narrower(arguments.foveate):
                limited = [*measured, "--instructions", instructions, "--policy", default]
                yield foveate_contestant(arguments.foveate, f"{name}, {instructions}", "incremental", limited)
        # Where everything changes anyway.
        if case.dump[-1] == 1 and not case.cold:
            batch = ["--batch", BATCH, "--frames", 2 * BATCH]
            yield foveate_contestant(arguments.foveate, name, f"batch of {BATCH}", [*played, *backend, *batch])


@functools.cache
def policies(program):
    """The default policy, and others to measure beside it."""
    return measuring.policies(program)


@functools.cache
def narrower(program):
    """Those of NARROWER that this processor has, and that are not what it uses anyway."""
    used = measuring.report(program, "--backend", "cpu", "--size", "64x64", "--frames", 1)["instructions"]
    known = ["avx512", *NARROWER]
    return known[known.index(used) + 1:] if used in known else []


def vulkan_count(arguments, case):
    """A software device is there for completeness."""
    made = "--clip" not in case.dump
    return 4 if made and arguments.software else case.count


def foveate_contestant(program, name, kind, arguments):
    command = [program, "bench", "--json", "--each-line", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure():
        process.stdin.write("\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise measuring.FoveateError(f"{name}, {kind}: ended with {process.wait()}")
        report = json.loads(line)
        total = report["picture"] if "picture" in report else report["stages"]["total"]
        return total["p50_us"], total["p99_us"]

    def close():
        process.stdin.close()
        process.stdout.close()
        process.wait()

    return Contestant(name, kind, measure, close)


def recipe_contestants(case, plan, frames, evict):
    for name, kind, function in recipes.recipes(plan, frames):
        yield Contestant(name, kind, recipe_measure(function, frames, case.count, evict))


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
    buffer = np.ones(2 * cache_bytes() // 8, dtype=np.uint64)

    def evict():
        np.add(buffer[::8], 1, out=buffer[::8])

    return evict


def cache_bytes():
    sizes = [64 << 20]
    folder = "/sys/devices/system/cpu/cpu0/cache"
    if os.path.isdir(folder):
        units = {"K": 1 << 10, "M": 1 << 20}
        texts = [read(os.path.join(folder, name, "size")) for name in os.listdir(folder)]
        sizes = [int(text[:-1]) * units[text[-1]] for text in texts if text] or sizes
    return max(sizes)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def measure(arguments, case, device):
    """One case: all contestants in turn, each round starting with a different one."""
    with tempfile.TemporaryDirectory() as folder:
        plan, frames = dump(arguments.foveate, case, folder)
        check_recipes(plan, frames, folder)
        contestants = list(foveate_contestants(arguments, case, plan, folder, device))
        try:
            contestants += recipe_contestants(case, plan, frames, evictor(case))
            for number in range(arguments.rounds):
                first = number % len(contestants)
                for contestant in contestants[first:] + contestants[:first]:
                    time.sleep(PAUSE_S)
                    contestant.rounds.append(contestant.measure())
        finally:
            for contestant in contestants:
                contestant.close()
    return figures(case, contestants)


def figures(case, contestants):
    """Medians over rounds, and the median of each round's ratio to Foveate's incremental update on the CPU."""
    base = next(contestant for contestant in contestants if contestant.key == BASE)
    results = []
    for contestant in contestants:
        ratios = [mine[0] / theirs[0] for mine, theirs in zip(contestant.rounds, base.rounds)]
        results.append({
            "name": contestant.name,
            "kind": contestant.kind,
            "p50_us": statistics.median(p50 for p50, _ in contestant.rounds),
            "p99_us": statistics.median(p99 for _, p99 in contestant.rounds),
            "ratio": statistics.median(ratios),
            "rounds": [{"p50_us": p50, "p99_us": p99} for p50, p99 in contestant.rounds],
        })
    return {"case": case.name, "cold": case.cold, "frames_a_round": case.count, "results": results}


def markdown(document):
    return "\n\n".join([caption(document), table(document), tiers(document)])


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


def table(document):
    # Not every case has every contestant.
    keys = list(dict.fromkeys((result["name"], result["kind"]) for case in document["cases"] for result in case["results"]))
    lines = [row(["frames", *[", ".join(key) for key in keys]]), row(["---", *["---:" for _ in keys]])]
    for case in document["cases"]:
        found = {(result["name"], result["kind"]): cell(result) for result in case["results"]}
        lines.append(row([case["case"], *[found.get(key, "") for key in keys]]))
    return "\n".join(lines)


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
    lines = [row(["tier", "what", *[case["case"] for case in shown]])]
    lines.append(row(["---", "---", *["---:" for _ in shown]]))
    for tier, name, kind in wanted:
        found = [[r for r in case["results"] if r["name"].startswith(name) and r["kind"] == kind] for case in shown]
        if all(found):
            lines.append(row([tier, f"{found[0][0]['name']}, {kind}", *[cell(results[0]) for results in found]]))
    return "\n".join(lines)


def against_opencv(document):
    """How many times as long OpenCV's bare pyramid takes, for each set of instructions; the median over rounds."""
    shown = [case for case in document["cases"] if "changed" in case["case"] and not case["cold"]]
    lines = [row(["OpenCV's pyramid / Foveate", *[case["case"] for case in shown]]), row(["---", *["---:" for _ in shown]])]
    names = dict.fromkeys(result["name"] for case in shown for result in case["results"] if result["name"].startswith("Foveate CPU"))
    for name in names:
        lines.append(row([name, *[f"{opencv_ratio(case, name):.3g}" for case in shown]]))
    return "\n".join(lines)


def opencv_ratio(case, name):
    rounds = {(result["name"], result["kind"]): result["rounds"] for result in case["results"]}
    pairs = zip(rounds["OpenCV pyramid", "full"], rounds[name, "incremental"])
    return statistics.median(theirs["p50_us"] / ours["p50_us"] for theirs, ours in pairs)


def stages(document):
    """Where the time of an incremental update goes, and the bytes that its stages move beside what a copy does."""
    names = ("change", "ingest", "reduce", "sample", "publish", "rest", "total", "see")
    moving = ("change", "ingest", "sample")
    lines = [
        row(["", *names, *[f"{stage}, MB" for stage in moving], "change, GB/s", "memcpy, GB/s"]),
        row(["---", *["---:"] * (len(names) + len(moving) + 2)]),
    ]
    for report in document["stages"]:
        times, moved = report["stages"], moved_bytes(report)
        named = [times[stage]["p50_us"] for stage in names] + [moved[stage] / 1e6 for stage in moving]
        rates = [report["bandwidth"][rate] for rate in ("change_gb_s", "memcpy_gb_s")]
        frames = report["frames"]
        what = f"{frames['width']}x{frames['height']}, {frames['changed']:.0%} changed, {report['instructions']}, {report['views']['policy']}"
        if report["views"]["count"] != 1:
            what += f", {report['views']['count']} views"
        lines.append(row([what, *[f"{number:.3g}" for number in [*named, *rates]]]))
    return "\n".join(lines)


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


def row(cells):
    return f"| {' | '.join(cells)} |"


def cell(result):
    ms, ratio = result["p50_us"] / 1e3, result["ratio"]
    return f"{ms:.3g} ({ratio:.1f}x)" if ratio < 10 else f"{ms:.3g} ({ratio:.0f}x)"


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foveate", required=True, help="the program, a release build")
    parser.add_argument("--device", help="part of the name of the Vulkan device")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument("--refresh", metavar="FILE", help="a Markdown file whose tables are replaced")
    parser.add_argument("clips", nargs="*", help="clips to measure on as well")
    arguments = parser.parse_args()
    arguments.rounds = 3 if arguments.quick else 5
    return arguments


def document_of(arguments):
    device = measuring.vulkan_device(arguments.foveate, arguments.device)
    name = None
    if device is not None:
        tried = ["--backend", "vulkan", "--size", "64x64", "--frames", 1, *device]
        name = measuring.report(arguments.foveate, *tried)["device"]
    arguments.software = name is not None and measuring.is_software(name)
    software = " (software)" if arguments.software else ""
    arguments.vulkan_name = f"Foveate Vulkan{software}"
    measured = []
    everything = cases(arguments)
    for number, case in enumerate(everything, 1):
        print(f"{number} of {len(everything)}: {case.name}", file=sys.stderr)
        measured.append(measure(arguments, case, device))
    return {
        "date": measuring.today(),
        "processor": measuring.processor(),
        "vulkan": f"{name}{software}" if name else None,
        "versions": recipes.versions(),
        "rounds": arguments.rounds,
        "cases": measured,
        "stages": measured_stages(arguments),
    }


def main():
    arguments = parsed_arguments()
    try:
        document = document_of(arguments)
        if arguments.refresh:
            measuring.write_fragment(arguments.refresh, "peers", markdown(document))
            measuring.write_fragment(arguments.refresh, "instructions", instructions_markdown(document))
    except measuring.FoveateError as error:
        sys.exit(f"peers.py: {error}")
    print(json.dumps(document, indent=1) if arguments.json else f"{markdown(document)}\n\n{instructions_markdown(document)}")


if __name__ == "__main__":
    main()
