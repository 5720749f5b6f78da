"""Hierarchical attention beside full attention, on queries, keys and values of a vision transformer: error, time and bytes."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import matplotlib

matplotlib.use("Agg")
import torch  # noqa: E402: the backend comes first
from foveate_engine.attention import hierarchical_attention  # noqa: E402
from matplotlib import pyplot  # noqa: E402
from torch.nn import functional  # noqa: E402

import measuring  # noqa: E402
import vit  # noqa: E402

#: Of OpenCV's examples.
PICTURES = ("aloeL.jpg", "building.jpg", "fruits.jpg", "leuvenA.jpg")
SIDES = (32, 64, 128)
LAYERS = (0, 2, 5, 8, 11)
#: Queries of a picture that errors are taken over.
SAMPLE = 512
TOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
#: `coarse` and `levels`.
SHAPES = ((2, 1), (4, 1), (2, 2), (4, 2), (2, 3))
TIMED = ((2, 1), (4, 1), (2, 2))
TIMED_TOPS = (0.1, 0.3)
#: Of the fine and the coarse attention in the fixed mixture.
MIXTURE = (0.7, 0.3)
# Okabe and Ito's colours, which most colour-blind people tell apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

Inputs = tuple[Any, Any, Any]
#: By side: inputs of each picture and layer.
Everything = dict[int, list[Inputs]]


def inputs(pictures: list[Path], is_quick: bool) -> Everything:
    model = vit.Model()
    found: Everything = {}
    for side in SIDES[:2] if is_quick else SIDES:
        of_side = []
        # One picture is enough of the largest: its full attention takes seconds a layer.
        for path in pictures[:1] if side == SIDES[-1] else pictures:
            print(f"{side} by {side} patches of {path.name}", file=sys.stderr)
            of_side += model.attention_inputs(vit.picture(path, side), LAYERS).values()
        found[side] = of_side
    return found


def sampled(side: int) -> Any:
    chosen = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
    return chosen[:SAMPLE]


def error(found: Any, expected: Any) -> float:
    """Relative, over all heads and queries."""
    return float((found - expected).norm() / expected.norm())


def mixture(q: Any, k: Any, v: Any, side: int, coarse: int, top: float) -> Any:
    """0.7 of attention to the keys of the best cells alone and 0.3 of attention to all cells alone."""
    tiles = [one.unflatten(2, (side // coarse, coarse, side // coarse, coarse)).transpose(3, 4).flatten(4, 5) for one in (k, v)]
    mean_k, mean_v = (one.mean(4).flatten(2, 3) for one in tiles)
    scores = q @ mean_k.mT / math.sqrt(q.shape[-1])
    count = math.ceil(top * scores.shape[-1])
    best = scores.topk(count, dim=-1).indices
    opened = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
    of_keys = opened.unflatten(3, (side // coarse, side // coarse)).repeat_interleave(coarse, 3).repeat_interleave(coarse, 4)
    fine = functional.scaled_dot_product_attention(q, k, v, attn_mask=of_keys.flatten(3))
    return MIXTURE[0] * fine + MIXTURE[1] * (scores.softmax(-1) @ mean_v)


def errors(everything: Everything) -> dict[int, dict[str, list[tuple[float, float]]]]:
    """By side and way: at each share, the mean error over pictures and layers, and the largest."""
    found: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for side, all_inputs in everything.items():
        print(f"errors at {side * side} keys", file=sys.stderr)
        rows = sampled(side)
        ways: dict[str, Callable[..., Any]] = {
            f"coarse {coarse}, levels {levels}": lambda q, k, v, top, coarse=coarse, levels=levels: hierarchical_attention(
                q, k, v, (side, side), coarse, top, levels
            )
            for coarse, levels in SHAPES
        }
        ways["mixture, coarse 2"] = lambda q, k, v, top: mixture(q, k, v, side, 2, top)
        sums: dict[str, list[list[float]]] = {name: [[] for _ in TOPS] for name in ways}
        for q, k, v in all_inputs:
            some = q[:, :, rows].contiguous()
            expected = functional.scaled_dot_product_attention(some, k, v)
            for name, way in ways.items():
                for index, top in enumerate(TOPS):
                    sums[name][index].append(error(way(some, k, v, top), expected))
        found[side] = {name: [(statistics.mean(one), max(one)) for one in at] for name, at in sums.items()}
    return found


def keys_read(side: int, coarse: int, levels: int, top: float) -> int:
    """Means and keys that a query is compared with; what is opened is compared too."""
    counts = [(-(-side // coarse**level)) ** 2 for level in range(levels + 1)]
    read = counts[levels]
    opened = math.ceil(top * counts[levels])
    for level in reversed(range(levels)):
        children = min(opened * coarse**2, counts[level])
        read += children
        opened = min(children, math.ceil(top * counts[level]))
    return read


def timed(everything: Everything, rounds: int) -> list[list[str]]:
    """Both in turns; rows of the table."""
    rows = []
    for side, all_inputs in everything.items():
        q, k, v = all_inputs[LAYERS.index(5)]
        turns = rounds if side < SIDES[-1] else max(2, rounds // 4)
        for coarse, levels in TIMED:
            for top in TIMED_TOPS:
                print(f"time at {side * side} keys, coarse {coarse}, levels {levels}, top {top}", file=sys.stderr)
                full, ours = [], []
                for _ in range(turns):
                    full.append(seconds(lambda: functional.scaled_dot_product_attention(q, k, v)))
                    ours.append(seconds(lambda: hierarchical_attention(q, k, v, (side, side), coarse, top, levels)))
                ratios = [a / b for a, b in zip(full, ours)]
                share = keys_read(side, coarse, levels, top) / (side * side)
                rows.append(
                    [
                        f"{side * side}",
                        f"{coarse}",
                        f"{levels}",
                        f"{top}",
                        f"{min(full) * 1e3:.1f}",
                        f"{min(ours) * 1e3:.1f}",
                        f"{min(full) / min(ours):.2f}",
                        f"{statistics.median(ratios):.2f}",
                        f"{4 * 2 * side * side * q.shape[-1] * share / 1024:.0f} KiB ({share:.0%})",
                    ]
                )
    return rows


def seconds(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def plot(found: dict[int, dict[str, list[tuple[float, float]]]], path: Path) -> None:
    figure, axes = pyplot.subplots(1, len(found), figsize=(11, 4.2), sharey=True, squeeze=False)
    for axis, (side, ways) in zip(axes[0], found.items()):
        for (name, at), color in zip(ways.items(), COLORS):
            style = "--" if name.startswith("mixture") else "-"
            shown = [(top, 100 * mean) for top, (mean, _) in zip(TOPS, at) if 1e-5 < mean]
            axis.plot(*zip(*shown), style, marker="o", markersize=3.5, color=color, label=name)
        axis.axhline(2, color="gray", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", yscale="log", title=f"{side * side} keys", xlabel="top")
        axis.set_xticks(TOPS, [f"{top:g}" for top in TOPS], fontsize=8)
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    axes[0][0].set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes[0][0].set_ylabel("relative error, %")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncol=len(COLORS), frameon=False, fontsize=8.5)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def markdown(found: Any, times: list[list[str]], threads: int) -> str:
    said = (
        f"Measured on {measuring.today()} on {measuring.processor()}, both on {threads} threads, torch {torch.__version__}.\n"
        f"Pictures: {', '.join(PICTURES)}; layers {', '.join(map(str, LAYERS))}, all heads, {SAMPLE} queries each."
    )
    rows = []
    for side, ways in found.items():
        for name, at in ways.items():
            cells = [f"{100 * mean:.2g} ({100 * most:.2g})" if 1e-5 < most else "0" for mean, most in at]
            rows.append([f"{side * side}", name, *cells])
    of_errors = measuring.table(["keys", "error in %: mean (largest), top", *(f"{top:g}" for top in TOPS)], rows)
    heads = ["keys", "coarse", "levels", "top", "torch, ms", "Foveate, ms", "ratio", "median of ratios", "read a query"]
    return "\n\n".join([said, of_errors, measuring.table(heads, times)])


def run(arguments: Any) -> Iterator[tuple[str, str]]:
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    with torch.no_grad():
        everything = inputs([arguments.pictures / name for name in PICTURES], arguments.quick)
        times = timed(everything, 4 if arguments.quick else 12)
        found = errors(everything)
    if arguments.refresh_docs:
        plot(found, arguments.picture)
    yield "attention", markdown(found, times, threads)
