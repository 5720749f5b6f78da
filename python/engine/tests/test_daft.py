"""Tokens in Daft: a column of rows, the same as a table's."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import optional
from engine_support import foveate_engine, picture

daft: Any = None
pa: Any = None

LAYOUT: dict[str, Any] = {"budget": 20, "patch": 8}


def setUpModule() -> None:
    global daft, pa
    daft = optional.package("daft", "FOVEATE_REQUIRE_DAFT")
    pa = optional.package("pyarrow", "FOVEATE_REQUIRE_DAFT")
    # Processes of the function find the package there.
    os.environ["PYTHONPATH"] = str(Path(foveate_engine.__file__).parent.parent)


class InDaft(unittest.TestCase):
    def test_rows_are_those_of_a_table(self) -> None:
        from foveate_engine import datasets
        from foveate_engine.daft import tokenizer

        files = []
        for index in range(12):
            pixels = picture(index, 40 + index % 2, 60, 3)
            files.append(b"P6 60 %d 255\n" % len(pixels) + pixels.tobytes()[: 99 if index == 3 else None])
        points = [None if index % 2 else [3.0 * index, 4.0] for index in range(12)]
        fixations = pa.array(points, pa.list_(pa.float64()))
        items = pa.table({"path": [f"{index}.ppm" for index in range(12)], "bytes": files, "fixation": fixations})
        for concurrency, dtype in ((None, "u8"), (2, "f16")):
            with self.subTest(concurrency=concurrency, dtype=dtype), tempfile.TemporaryDirectory() as folder:
                encoder = datasets.Encoder(dtype=dtype, **LAYOUT)
                self.addCleanup(encoder.close)
                expected = encoder.table(items).sort_by("id")
                tokens = tokenizer(concurrency=concurrency, batch_size=5, dtype=dtype, **LAYOUT)
                frame = daft.from_arrow(items).select(tokens(daft.col("path"), daft.col("bytes"), daft.col("fixation")).unnest())
                found = frame.to_arrow().sort_by("id")
                self.assertEqual(found.column_names, expected.column_names)
                for name in expected.column_names:
                    self.assertEqual(str(found[name].to_pylist()), str(expected[name].to_pylist()), name)
                frame.write_parquet(folder)
                self.assertEqual(daft.read_parquet(folder).count_rows(), 12)

    def test_files_are_read_by_path(self) -> None:
        from foveate_engine.daft import tokenizer

        with tempfile.TemporaryDirectory() as folder:
            good = Path(folder) / "good.ppm"
            good.write_bytes(b"P6 60 40 255\n" + picture(1, 40, 60, 3).tobytes())
            frame = daft.from_pydict({"path": [str(good), str(Path(folder) / "missing.ppm")]})
            rows = frame.select(tokenizer(**LAYOUT)(daft.col("path")).unnest()).select("count", "error").to_pylist()
        self.assertEqual([row["error"] is None for row in rows], [True, False])
        self.assertIn("missing.ppm", rows[1]["error"])
        with self.assertRaisesRegex(ValueError, "budget"):
            tokenizer(budget=0)


if __name__ == "__main__":
    unittest.main()
