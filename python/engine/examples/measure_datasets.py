"""Measures how many pictures a second become rows of tokens in Parquet files: by an Encoder alone, and by workers of
Ray.

    python python/engine/examples/measure_datasets.py --workers 1 2

The pictures are JPEGs of 640 x 480 pixels, crops of a picture that scikit-image brings along. What is measured is all
between the pictures' files and those of the rows, after a warm-up; starting Ray and its workers is not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import skimage.data
from skimage.io import imsave

from foveate_engine import datasets

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1500, help="pictures that are measured")
    parser.add_argument("--workers", type=int, nargs="*", default=[1], help="numbers of workers of Ray")
    parser.add_argument("--dtype", default="f16", help="number format of the texels")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = pictures(Path(folder) / "pictures", 100)
        # Each item has a fixation of its own, or they would be the same item.
        points = np.random.default_rng(0).uniform((0, 0), (640, 480), (arguments.count, 2)).tolist()
        items = pa.table({"path": [paths[index % len(paths)] for index in range(arguments.count)], "fixation": points})
        print(f"an Encoder: {alone(items, Path(folder) / 'alone', arguments.dtype):.0f} pictures/s")
        for workers in arguments.workers:
            rate = in_ray(items, Path(folder) / f"ray-{workers}", arguments.dtype, workers)
            print(f"{workers} of Ray: {rate:.0f} pictures/s")


def pictures(folder: Path, count: int) -> list[str]:
    """Paths of JPEGs of 640 x 480 pixels."""
    folder.mkdir()
    random, source = np.random.default_rng(0), np.tile(skimage.data.astronaut(), (2, 2, 1))
    for index in range(count):
        top, left = random.integers(0, 512, 2)
        imsave(folder / f"{index}.jpg", source[top : top + 480, left : left + 640], quality=90)
    return [str(path) for path in sorted(folder.iterdir())]


def alone(items: pa.Table, output: Path, dtype: str) -> float:
    encoder = datasets.Encoder(dtype=dtype)
    encoder.write(items.slice(0, BATCH), output)
    start = time.perf_counter()
    for first in range(BATCH, len(items), BATCH):
        encoder.write(items.slice(first, BATCH), output)
    return (len(items) - BATCH) / (time.perf_counter() - start)


def in_ray(items: pa.Table, output: Path, dtype: str, workers: int) -> float:
    """Pictures a second from the first file after which all workers are at work to the last file."""
    import ray

    from foveate_engine.ray import Tokenizer

    # A processor more than there are workers, for what feeds them.
    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)
    blocks = [items.slice(first, BATCH) for first in range(0, len(items), BATCH)]
    options: dict[str, Any] = {"folder": str(output), "dtype": dtype}
    job = ray.data.from_arrow(blocks).map_batches(
        Tokenizer,
        fn_constructor_kwargs=options,
        batch_format="pyarrow",
        batch_size=BATCH,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )
    job.materialize()
    ray.shutdown()
    times = sorted(os.stat(file).st_mtime for file in output.iterdir())
    # By then each worker has written a file.
    begun = 2 * workers
    return (len(times) - begun) * BATCH / (times[-1] - times[begun - 1])


if __name__ == "__main__":
    main()
