"""Tokens in Ray Data: two real workers, one of which dies, and still each item has its rows exactly once."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import optional
from engine_support import foveate_engine, picture

try:
    from foveate_engine.ray import Tokenizer
except ImportError:
    Tokenizer = object

ray: Any = None
pa: Any = None
pq: Any = None

LAYOUT: dict[str, Any] = {"budget": 20, "patch": 8, "dtype": "u8"}
#: Far above what anything takes, in seconds.
HANG = 120.0


def setUpModule() -> None:
    global ray, pa, pq
    ray = optional.package("ray", "FOVEATE_REQUIRE_RAY")
    optional.package("ray.data", "FOVEATE_REQUIRE_RAY")
    pa = optional.package("pyarrow", "FOVEATE_REQUIRE_RAY")
    pq = optional.package("pyarrow.parquet", "FOVEATE_REQUIRE_RAY")
    # Workers are processes of their own, and import this file.
    here, package = Path(__file__).parent, Path(foveate_engine.__file__).parent.parent
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (here, package)))
    # Two workers, and one processor for what feeds them.
    ray.init(num_cpus=3, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False


def tearDownModule() -> None:
    if ray is not None:
        ray.shutdown()


class Recorded(Tokenizer):  # type: ignore[misc]
    """Leaves its process's id in a folder, and takes its time, so that it can be killed at work."""

    def __init__(self, pids: str, **options: Any) -> None:
        super().__init__(**options)
        self.pids = Path(pids)
        (self.pids / str(os.getpid())).touch()

    def __call__(self, items: Any) -> Any:
        time.sleep(0.05)
        return super().__call__(items)


class DiesAfterWriting(Recorded):
    """Its process dies once, when rows are written, but Ray does not know."""

    def __call__(self, items: Any) -> Any:
        written = super().__call__(items)
        try:
            (self.pids / "died").touch(exist_ok=False)
        except FileExistsError:
            return written
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")


class InRay(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.output, self.pids = self.folder / "tokens", self.folder / "pids"
        self.pids.mkdir()

    def items(self, count: int) -> Any:
        """Pictures of two sizes; every tenth is cut off."""
        files = []
        for index in range(count):
            pixels = picture(index, 40 + index % 2, 60, 3)
            file = b"P6 60 %d 255\n" % len(pixels) + pixels.tobytes()
            files.append(file[:99] if index % 10 == 3 else file)
        return pa.table({"path": [f"{index}.ppm" for index in range(count)], "bytes": files})

    def run_job(self, kind: Any, items: Any) -> list[dict[str, Any]]:
        options = {"pids": str(self.pids), "folder": str(self.output), **LAYOUT}
        blocks = [items.slice(start, 10) for start in range(0, len(items), 10)]
        job = ray.data.from_arrow(blocks).map_batches(
            kind, batch_format="pyarrow", batch_size=5, fn_constructor_kwargs=options, compute=ray.data.ActorPoolStrategy(size=2)
        )
        return list(job.take_all())

    def assert_each_once(self, items: Any) -> None:
        rows = [row for file in self.output.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        self.assertEqual(sorted(row["source"] for row in rows), sorted(items["path"].to_pylist()))
        for row in rows:
            self.assertEqual(row["error"] is not None, int(row["source"][:-4]) % 10 == 3, row["error"])

    def test_rows_come_back_as_tensors(self) -> None:
        from foveate_engine import datasets

        items = self.items(12)
        encoder = datasets.Encoder(**LAYOUT)
        self.addCleanup(encoder.close)
        blocks, workers = [items.slice(0, 6), items.slice(6)], ray.data.ActorPoolStrategy(size=2)
        job = ray.data.from_arrow(blocks).map_batches(
            Tokenizer, batch_format="pyarrow", fn_constructor_kwargs=LAYOUT, compute=workers
        )
        job.write_parquet(str(self.output))
        found = pq.ParquetDataset(str(self.output)).read().sort_by("id")
        expected = encoder.table(items).sort_by("id")
        self.assertEqual(found.column_names, expected.column_names)
        for name in expected.column_names:
            with self.subTest(column=name):
                # As text, since NaN is unlike itself.
                self.assertEqual(str(found[name].to_pylist()), str(expected[name].to_pylist()))

    def test_a_killed_worker_neither_loses_nor_repeats_an_item(self) -> None:
        items, killed = self.items(200), []

        def kill() -> None:
            deadline = time.monotonic() + HANG
            while time.monotonic() < deadline:
                workers = [int(file.name) for file in self.pids.iterdir()]
                if len(workers) == 2 and 5 <= len(list(self.output.glob("*.parquet"))):
                    os.kill(workers[0], signal.SIGKILL)
                    killed.append((workers[0], len(list(self.output.glob("*.parquet")))))
                    return
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        self.run_job(Recorded, items)
        killer.join()
        self.assertEqual(len(killed), 1)
        self.assertLess(killed[0][1], 40, "it was killed at the end only")
        self.assertGreater(len(list(self.pids.iterdir())), 2, "no worker took its place")
        self.assert_each_once(items)

    def test_one_that_dies_between_writing_and_answering_does_not_either(self) -> None:
        items = self.items(60)
        self.run_job(DiesAfterWriting, items)
        self.assertTrue((self.pids / "died").exists())
        self.assert_each_once(items)

    def test_a_job_goes_on(self) -> None:
        from foveate_engine import datasets

        items = self.items(40)
        first = self.run_job(Recorded, items.slice(0, 25))
        self.assertEqual(len(first), 25)
        self.assertEqual(len(datasets.remaining(items, self.output, **LAYOUT)), 15)
        self.assertEqual(len(self.run_job(Recorded, items)), 15)
        self.assert_each_once(items)


if __name__ == "__main__":
    unittest.main()
