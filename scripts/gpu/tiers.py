"""Foveate and PyTorch on the same frames, in turns, and hierarchical beside full attention; a line of JSON for each.

Run by run.sh of the archive that scripts/gpu_bundle.sh packs. Times are from samples in memory to tokens in memory, so on a
GPU with the upload and the way back.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
# In the archive they lie beside this file.
sys.path += [HERE, os.path.join(HERE, "..", "bench")]

import measuring  # noqa: E402 (the path comes first)
import recipes  # noqa: E402

CASES = [("1024x1024", 0.1), ("1920x1080", 0.1), ("1024x1024", 1), ("1920x1080", 1)]
BATCH = 32
BATCH_SIZE = "1024x1024"
HEADS, WIDTH = 12, 64

Measure = Callable[[], float]


class Unfold(recipes.Torch):
    """All patches of all levels, as `unfold` cuts them, of which those of the plan are kept."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__(plan)
        self.side = plan["patch_side"]
        self.picked = []
        for at in range(recipes.LEVELS + 1):
            width = -(-plan["levels"][at][0] // self.side)
            places = [
                (x >> at, y >> at)
                for level, (x, y, _, _) in zip(recipes.levels_of(plan), plan["views"][0], strict=True)
                if level == at
            ]
            flat = [y // self.side * width + x // self.side for x, y in places]
            self.picked.append(torch.tensor(flat, dtype=torch.int64, device=self.device))

    def patches(self, level: Any, number: int) -> Any:
        height, width = level.shape[-2:]
        padded = functional.pad(level, (0, -width % self.side, 0, -height % self.side), mode="replicate")
        every = functional.unfold(padded, self.side, stride=self.side).transpose(1, 2)
        return every[:, self.picked[number]].unflatten(2, (3, self.side, self.side))


def timed(call: Callable[[], Any], count: int) -> float:
    """The median of several calls in microseconds."""
    times = []
    for _ in range(count):
        started = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - started) / 1e3)
    return statistics.median(times)


def compare(
    arguments: argparse.Namespace, frames: str, contestants: dict[str, Measure], programs: dict[str, list[Any]]
) -> None:
    """Measures all in each round, and prints their medians in microseconds.

    :param programs: further contestants: arguments of `foveate bench`.
    """
    opened = {name: measuring.Bench(arguments.foveate, *options) for name, options in programs.items()}
    measures = {**contestants, **{name: lambda program=program: program.measure()[0] for name, program in opened.items()}}
    try:
        for name, times in measuring.in_turns(measures, arguments.rounds).items():
            print(json.dumps({"tier": name, "frames": frames, "us": statistics.median(times), "rounds": times}), flush=True)
    finally:
        for program in opened.values():
            program.close()


def dumped(
    arguments: argparse.Namespace, folder: str, size: str, share: float
) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """Foveate's plan and frames, and the arguments that play these frames."""
    view = ["--layout", "foveal", "--policy", "fixed"]
    plan, frames = recipes.dumped(arguments.foveate, folder, "--size", size, "--changed", share, *view)
    return plan, frames, ["--clip", os.path.join(folder, "frames.nv12"), "--size", size, "--layout", "foveal"]


def measure_frames(arguments: argparse.Namespace, size: str, share: float, count: int) -> None:
    """A stream's frame: unfold, a gather, and Foveate."""
    with tempfile.TemporaryDirectory() as folder:
        plan, frames, clip = dumped(arguments, folder, size, share)
        clip += ["--policy", "fixed", "--frames", count]
        contestants: dict[str, Measure] = {}
        for name, recipe in (("unfold", Unfold(plan)), ("gather", recipes.Torch(plan))):
            recipes.check(plan, folder, name, recipe.tokens(frames[plan["tokens_of_frame"]]))
            contestants[f"PyTorch ({recipe.device}), {name}"] = partial(timed, in_turn(recipe, frames), count)
        programs = {
            "Foveate Vulkan": [*clip, "--backend", "vulkan", "--device", arguments.device],
            "Foveate Vulkan, full": [*clip, "--backend", "vulkan", "--device", arguments.device, "--refresh", 1],
            "Foveate CPU": [*clip, "--backend", "cpu"],
        }
        compare(arguments, f"{size}, {share:g} changed", contestants, programs)


def in_turn(recipe: recipes.Torch, frames: list[Any]) -> Callable[[], Any]:
    """Takes one frame after the other."""
    turns = cycle(frames)
    return lambda: recipe.tokens(next(turns))


def measure_batch(arguments: argparse.Namespace, count: int) -> None:
    """Pictures that are seen once, 32 at a time; the time of one."""
    with tempfile.TemporaryDirectory() as folder:
        plan, frames, clip = dumped(arguments, folder, BATCH_SIZE, 1)
        clip += ["--batch", BATCH, "--frames", count * BATCH]
        stack = np.stack([frames[index % len(frames)] for index in range(BATCH)])
        recipe = recipes.Torch(plan)
        index = plan["tokens_of_frame"]
        recipes.check(plan, folder, "batch", recipe.batch(stack)[index])
        torch_batch = {
            f"PyTorch ({recipe.device}), batch of {BATCH}": lambda: timed(lambda: recipe.batch(stack), count) / BATCH
        }
        programs = {
            f"Foveate Vulkan, batch of {BATCH}": [*clip, "--backend", "vulkan", "--device", arguments.device],
            f"Foveate CPU, batch of {BATCH}": [*clip, "--backend", "cpu"],
        }
        compare(arguments, BATCH_SIZE, torch_batch, programs)


def measure_attention(arguments: argparse.Namespace, side: int, count: int) -> None:
    """Queries, keys and values in memory; on PyTorch's GPU also where they are there already."""
    from foveate_attention import hierarchical_attention

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(1, HEADS, side * side, WIDTH, generator=generator) for _ in range(3)]
    resident = [tensor.to(device) for tensor in tensors]

    def full() -> Any:
        return functional.scaled_dot_product_attention(*(tensor.to(device) for tensor in tensors)).cpu()

    def full_resident() -> None:
        functional.scaled_dot_product_attention(*resident)
        if device == "cuda":
            torch.cuda.synchronize()

    def ours(backend: str) -> Any:
        options = {"device": arguments.device} if backend == "vulkan" else {}
        return hierarchical_attention(*tensors, (side, side), 2, 0.1, backend=backend, **options)

    exact = hierarchical_attention(*tensors, (side, side), 2, 1.0, backend="vulkan", device=arguments.device)
    difference = float((exact - full()).abs().max())
    if not difference < 1e-2:
        raise RuntimeError(f"attention to all keys of {side} x {side}: {difference} off PyTorch's")
    contestants: dict[str, Measure] = {
        f"PyTorch ({device}), scaled_dot_product_attention": lambda: timed(full, count),
        f"PyTorch ({device}), the same, tensors on it": lambda: timed(full_resident, count),
        "Foveate Vulkan, hierarchical_attention": lambda: timed(lambda: ours("vulkan"), count),
        "Foveate CPU, hierarchical_attention": lambda: timed(lambda: ours("cpu"), count),
    }
    compare(arguments, f"{side * side} keys, {HEADS} heads", contestants, {})


def attempt(what: str, measure: Callable[..., None], *arguments: Any) -> bool:
    """Whether it could be measured. What fails does not end the rest."""
    try:
        measure(*arguments)
        return True
    except (RuntimeError, AttributeError, ImportError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"{what}: {error}", file=sys.stderr)
        return False


def main() -> None:
    """Measures everything; fails at the end if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--foveate", required=True, help="the program")
    parser.add_argument("--device", required=True, help="name of the Vulkan device")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--software", action="store_true", help="the device computes on the CPU: hardly any frames")
    arguments = parser.parse_args()
    arguments.rounds = 1 if arguments.software else 3
    count = 2 if arguments.software else 20
    sides = [32] if arguments.software else [32, 64] if arguments.quick else [32, 64, 128]
    done = [attempt("batch", measure_batch, arguments, max(2, count // 4))]
    for size, share in CASES[:2] if arguments.quick else CASES:
        done.append(attempt(f"{size}, {share:g} changed", measure_frames, arguments, size, share, count))
    for side in sides:
        done.append(attempt(f"attention to {side * side} keys", measure_attention, arguments, side, max(2, count // 4)))
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
