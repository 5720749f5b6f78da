"""Measures how long the samples of FOVI's retinas take from a picture of 1920 x 1080 on the CPU: by ``fovi``, and by tables.

    python python/engine/examples/measure_fovi.py --threads 1

Needs `fovi`, and `foveate` beside `foveate_engine`. `docs/reports/models.md` has what it printed. Times are those of the
processor, the median and the 95th percentile, in ms. The gaze moves in every frame. *look*: the picture stays; *frame*: a
new picture, in which a tenth of the rows or all of them changed, is taken in first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import foveate_engine
from foveate.models import fovi

WIDTH, HEIGHT = 1920, 1080
FOVEATIONS = (2.78, 60.94)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def measured(repeats: int, call: Callable[[tuple[float, float]], Any]) -> str:
    chance = np.random.default_rng(1)
    times = []
    for repeat in range(repeats + 3):
        point = (float(chance.uniform(0, WIDTH)), float(chance.uniform(0, HEIGHT)))
        start = time.process_time()
        call(point)
        if 3 <= repeat:
            times.append((time.process_time() - start) * 1e3)
    return f"{np.median(times):.2f} ({np.percentile(times, 95):.2f})"


def by_fovi(retina: Any, pictures: list[Any], repeats: int) -> dict[str, str]:
    """``retina`` takes bytes as they are, or a normalised picture, as its own examples have it."""
    mean, std = (torch.tensor(numbers).reshape(3, 1, 1) for numbers in IMAGENET)
    tensors = [torch.from_numpy(picture).permute(2, 0, 1)[None].contiguous() for picture in pictures]

    def sampled(image: Any, point: tuple[float, float]) -> Any:
        x, y = point
        return retina(image, torch.tensor([y / HEIGHT, x / WIDTH]), fixation_size=HEIGHT)

    return {
        "fovi, bytes": measured(repeats, lambda point: (sampled(tensors[0], point)[0] - mean[..., 0]) / std[..., 0]),
        "fovi, normalised picture": measured(repeats, lambda point: sampled((tensors[0] / 255 - mean) / std, point)),
    }


def by_table(path: str, pictures: list[Any], threads: int, repeats: int) -> dict[str, str]:
    keys: dict[str, Any] = dict(layout="samples", table=path, outside="mean", normalisation="imagenet")
    found = {}
    with foveate_engine.Engine("cpu", threads=threads) as engine:
        with engine.pyramid(pictures[0]) as pyramid:
            found["table, look"] = measured(repeats, lambda point: pyramid.sample(point, **keys))
        for name, other in (("a tenth", pictures[1]), ("all", pictures[2])):
            turns = [pictures[0], other]
            with engine.pyramid(pictures[0]) as pyramid:

                def frame(point: tuple[float, float], pyramid: Any = pyramid, turns: Any = turns) -> None:
                    turns.reverse()
                    pyramid.update(turns[0])
                    pyramid.sample(point, **keys)

                found[f"table, frame, {name} changed"] = measured(repeats, frame)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100, help="measured frames (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of both (default: %(default)s)")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    chance = np.random.default_rng(0)
    first = chance.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    tenth = first.copy()
    tenth[: HEIGHT // 10] = 255 - tenth[: HEIGHT // 10]
    pictures = [first, tenth, 255 - first]
    print("| a | samples | steps | " + "how | ms, median (95 %) |\n| ---: | ---: | --- | --- | ---: |")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for a in FOVEATIONS:
            for pooled in (False, True):
                retina = fovi.retina(a, pooled=pooled)
                rows = fovi.table(retina, HEIGHT)
                path = f"{folder}/{a}-{pooled}.npy"
                np.save(path, rows)
                found = {
                    **by_fovi(retina, pictures, given.repeats),
                    **by_table(path, pictures, given.threads, given.repeats),
                }
                for how, times in found.items():
                    steps = f"{rows[:, 2].min():.0f} to {rows[:, 2].max():.0f}"
                    print(f"| {a} | {len(rows)} | {steps} | {how} | {times} |", flush=True)


if __name__ == "__main__":
    main()
