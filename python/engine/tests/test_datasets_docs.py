"""Every example of ``docs/guide/datasets.md`` runs as it stands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import engine_support
import optional

import foveate_engine

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "datasets.md"
EXAMPLE = re.compile(r"^```python (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class ExamplesRun(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(holder.name)
        # Processes of their own find the package there.
        os.environ["PYTHONPATH"] = str(Path(foveate_engine.__file__).parent.parent)
        os.mkdir("pictures")
        for index in range(6):
            Path("pictures", f"{index}.ppm").write_bytes(
                b"P6 320 240 255\n" + engine_support.picture(index, 240, 320, 3).tobytes()
            )
        Path("pictures", "cut.ppm").write_bytes(b"P6 320 240 255\n")

    def run_examples(self, needs: str) -> list[str]:
        """What those print that need a package."""
        printed = []
        for _, code in (found for found in EXAMPLE.findall(PAGE.read_text()) if found[0] == needs):
            output = io.StringIO()
            # PyTorch warns of arrays that it might write to.
            with contextlib.redirect_stdout(output), warnings.catch_warnings():
                warnings.filterwarnings("error", ".*not writable.*")
                exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
            printed.append(output.getvalue())
        return printed

    def rows(self, folder: str) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetDataset(folder).read(columns=["source", "error", "count"]).to_pylist()

    def assert_all_there(self, folder: str) -> None:
        rows = self.rows(folder)
        self.assertEqual(sorted(Path(row["source"]).name for row in rows), sorted(os.listdir("pictures")))
        self.assertEqual([Path(row["source"]).name for row in rows if row["error"]], ["cut.ppm"])

    def test_with_pytorch(self) -> None:
        optional.package("torch", "FOVEATE_REQUIRE_TORCH")
        optional.package("pyarrow", "FOVEATE_REQUIRE_ARROW")
        loop, in_the_loop = self.run_examples("torch")
        self.assertIn("torch.Size([6, 128, 3, 16, 16]) torch.float16", loop)
        self.assertEqual(in_the_loop, "")
        self.assert_all_there("tokens")
        self.run_examples("torch")
        self.assert_all_there("tokens")

    def test_with_ray(self) -> None:
        ray = optional.package("ray", "FOVEATE_REQUIRE_RAY")
        optional.package("ray.data", "FOVEATE_REQUIRE_RAY")
        ray.init(num_cpus=3, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False)
        self.addCleanup(ray.shutdown)
        self.assertIn("7 rows", self.run_examples("ray")[0])
        self.assert_all_there("tokens-of-ray")

    def test_with_daft(self) -> None:
        optional.package("daft", "FOVEATE_REQUIRE_DAFT")
        self.assertEqual(len(self.run_examples("daft")), 1)
        self.assert_all_there("tokens-of-daft")


if __name__ == "__main__":
    unittest.main()
