"""Measures how long tokens of a batch of tensors take, forward and backward, on one thread of the CPU.

    python python/engine/examples/measure_sample.py

`docs/data/datasets.txt` has a table of what it printed.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import torch

from foveate_engine.torch import sample

LAYOUTS: dict[str, dict[str, Any]] = {
    "foveal": {},
    "uniform": {"layout": "uniform"},
    "directional": {"layout": "directional"},
    "rings": {"layout": "rings", "preset": "stt172"},
    "windows": {"layout": "windows", "patch": 224, "budget": 8},
}
FIXATIONS = [(100, 100), (960, 540), (1900, 1000), (400, 700)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4, help="the best of so many is printed")
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    images = torch.rand(len(FIXATIONS), 3, 1080, 1920, requires_grad=True)
    for name, layout in LAYOUTS.items():
        forward = backward = math.inf
        for _ in range(repeats):
            images.grad = None
            start = time.perf_counter()
            pixels = sample(images, FIXATIONS, **layout).pixels
            middle = time.perf_counter()
            pixels.backward(torch.ones_like(pixels))
            forward, backward = min(forward, middle - start), min(backward, time.perf_counter() - middle)
        print(f"{name}: {pixels.shape[1]} tokens, forward {forward:.2f} s, backward {backward:.2f} s")


if __name__ == "__main__":
    main()
