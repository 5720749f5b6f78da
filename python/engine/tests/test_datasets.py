"""Tables of tokens: each item's rows are the engine's tokens, bad items are rows too, and a folder grows by whole
files only."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import engine_support  # noqa: F401 It makes the package importable.
import numpy as np
import optional
from PIL import Image

import foveate_engine

pa: Any = None
pq: Any = None
datasets: Any = None

LAYOUT: dict[str, Any] = {"budget": 20, "patch": 8, "dtype": "u8"}


def setUpModule() -> None:
    global pa, pq, datasets
    pa = optional.package("pyarrow", "FOVEATE_REQUIRE_ARROW")
    pq = optional.package("pyarrow.parquet", "FOVEATE_REQUIRE_ARROW")
    from foveate_engine import datasets as the_module

    datasets = the_module


def picture(seed: int, height: int = 40, width: int = 60) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def ppm(pixels: Any) -> bytes:
    """The pixels as a file."""
    height, width = pixels.shape[:2]
    return b"P6 %d %d 255\n" % (width, height) + pixels.tobytes()


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.output = self.folder / "tokens"

    def save(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def encoder(self, **options: Any) -> Any:
        encoder = datasets.Encoder(**{**LAYOUT, **options})
        self.addCleanup(encoder.close)
        return encoder


class RowsAreTokens(InAFolder):
    def test_of_each_item_as_the_engine_makes_them(self) -> None:
        sizes = [(40, 60), (31, 45), (40, 60)]
        pictures = [picture(seed, *size) for seed, size in enumerate(sizes)]
        points: list[Any] = [None, [3.0, 4.0], [59.0, 39.0]]
        engine = foveate_engine.Engine("cpu")
        for dtype, layout in (
            ("u8", {}),
            ("f16", {}),
            ("bf16", {}),
            ("f32", {"layout": "rings", "strides": [1, 3], "grids": [3, 3]}),
        ):
            with self.subTest(dtype=dtype):
                encoder = self.encoder(dtype=dtype, **layout)
                items = pa.table(
                    {
                        "path": [self.save("0.ppm", ppm(pictures[0])), "named", None],
                        "bytes": [None, ppm(pictures[1]), ppm(pictures[2])],
                        "fixation": pa.array(points, pa.list_(pa.float64())),
                    }
                )
                file = datasets.write(encoder.table(items), self.output)
                rows = pq.read_table(file)
                self.assertEqual(rows.schema, encoder.schema)
                about = json.loads(rows.schema.metadata[b"foveate"])
                self.assertEqual(rows["error"].to_pylist(), [None] * 3)
                self.assertEqual(rows["source"].to_pylist()[:2], [str(self.folder / "0.ppm"), "named"])
                self.assertTrue(rows["source"].to_pylist()[2].startswith("sha256:"))
                pixels = rows["pixels"].combine_chunks().to_numpy_ndarray()
                fixations = rows["fixation"].combine_chunks().to_numpy_ndarray()
                for index, (given, point) in enumerate(zip(pictures, points, strict=True)):
                    tokens = engine.pyramid(given).sample(point, **{**LAYOUT, **layout, "dtype": dtype})
                    row = rows.slice(index, 1).to_pylist()[0]
                    self.assertEqual((row["height"], row["width"]), given.shape[:2])
                    self.assertEqual(row["count"], len(tokens))
                    self.assertEqual(about["capacity"], tokens.info.capacity)
                    np.testing.assert_array_equal(pixels[index, : len(tokens)], tokens.pixels)
                    self.assertFalse(pixels[index, len(tokens) :].any())
                    np.testing.assert_array_equal(fixations[index], tokens.fixations)
                    for name, values in row["tokens"].items():
                        corner = {"x0": 0, "y0": 1, "x1": 2, "y1": 3}.get(name)
                        expected = tokens.tokens[name] if corner is None else tokens.tokens["box"][:, corner]
                        np.testing.assert_array_equal(values[: len(tokens)], expected, name)
                        self.assertFalse(any(values[len(tokens) :]))

    def test_with_several_points(self) -> None:
        encoder = self.encoder(foveae=2)
        points = pa.array([[[3.0, 4.0], [50.0, 30.0]], [[7.0, 8.0]]], pa.list_(pa.list_(pa.float64())))
        rows = encoder.table(pa.table({"bytes": [ppm(picture(1))] * 2, "fixation": points}))
        fixations = rows["fixation"].combine_chunks().to_numpy_ndarray()
        self.assertEqual(str(fixations.tolist()), "[[[3.0, 4.0], [50.0, 30.0]], [[7.0, 8.0], [nan, nan]]]")

    def test_bad_items_are_rows_with_the_cause(self) -> None:
        good = ppm(picture(1))
        items = pa.table(
            {
                "path": [
                    None,
                    str(self.folder / "missing.png"),
                    str(self.folder),
                    "cut.ppm",
                    "good.ppm",
                    "nowhere.ppm",
                ],
                "bytes": [None, None, None, good[:50], good, good],
                "fixation": pa.array([None] * 5 + [[float("nan"), 1.0]], pa.list_(pa.float64())),
            }
        )
        rows = self.encoder().table(items).to_pylist()
        for row, word in zip(
            rows, ("neither a path nor bytes", "missing.png", "not a regular file", "", None, "finite"), strict=True
        ):
            with self.subTest(word=word):
                if word is None:
                    self.assertIsNone(row["error"])
                    self.assertGreater(row["count"], 0)
                else:
                    self.assertTrue(row["error"])
                    self.assertIn(word, row["error"])
                    self.assertEqual((row["count"], row["width"]), (0, 0))

    def test_cut_jpegs_and_large_pictures_are_bad_items(self) -> None:
        whole = io.BytesIO()
        Image.fromarray(picture(1)).save(whole, "JPEG", progressive=True)
        content = whole.getvalue()
        items = pa.table({"bytes": [content, content[: len(content) // 2], ppm(picture(2, 50, 60))]})
        errors = self.encoder(max_pixels=2400).table(items)["error"].to_pylist()
        for error, word in zip(errors, (None, "cut off", "at most 2400"), strict=True):
            self.assertIs(error is None, word is None, error)
            self.assertIn(word or "", error or "")

    def test_a_background_is_an_option(self) -> None:
        rgba = np.concatenate([picture(1), np.full((40, 60, 1), 100, np.uint8)], 2)
        file = io.BytesIO()
        Image.fromarray(rgba).save(file, "PNG")
        items = pa.table({"bytes": [file.getvalue()]})
        black, white = (self.encoder(background=(part,) * 3).table(items) for part in (0, 255))
        self.assertNotEqual(black["pixels"], white["pixels"])
        self.assertNotEqual(black["id"], white["id"])
        self.assertEqual(black["id"], self.encoder().table(items)["id"])
        self.encoder(background=(255,) * 3).write(items, self.output)
        options = {"background": (255,) * 3, **LAYOUT}
        self.assertEqual(
            (
                len(datasets.remaining(items, self.output, **options)),
                len(datasets.remaining(items, self.output, **LAYOUT)),
            ),
            (0, 1),
        )

    def test_few_decoded_pictures_are_in_memory(self) -> None:
        """Rows are the same as if all were."""
        items = pa.table({"bytes": [ppm(picture(index, 40, 60 + index % 2)) for index in range(9)]})
        expected = self.encoder().table(items)
        with mock.patch.object(datasets, "_DECODED_BYTES", 20_000):
            self.assertTrue(self.encoder().table(items).equals(expected))

    def test_mistakes_of_the_caller_are_raised(self) -> None:
        with self.assertRaisesRegex(ValueError, "path, bytes or both"):
            self.encoder().table(pa.table({"file": ["a.png"]}))
        with self.assertRaisesRegex(ValueError, "budget"):
            datasets.Encoder(budget=0)
        with self.assertRaisesRegex(ValueError, "every=-1"):
            datasets.Encoder(every=-1)
        with self.assertRaises(TypeError):
            datasets.Encoder(budgets=3)

    def test_a_device_that_refuses_is_no_fault_of_an_item(self) -> None:
        encoder = self.encoder()
        with mock.patch.object(foveate_engine.Engine, "batch", side_effect=foveate_engine.BackendError("lost")):
            with self.assertRaises(foveate_engine.BackendError):
                encoder.table(pa.table({"bytes": [ppm(picture(1))]}))


class FramesOfClips(InAFolder):
    """The clip is played by :meth:`foveate_engine.Engine.video`; here by frames of 10 per second, some late, before it
    breaks."""

    SECONDS = (0.0, 0.1, 0.21, 0.3, 0.52, 0.6, 0.7)

    def play(self, engine: Any, source: str, **layout: Any) -> Any:
        self.assertEqual(Path(source).read_bytes(), b"clip")

        def frames() -> Any:
            for index, seconds in enumerate(self.SECONDS):
                yield replace(engine.pyramid(picture(index)).sample(**layout), seconds=seconds)
            raise foveate_engine.EngineError("the clip is cut off")

        playing = mock.MagicMock()
        playing.__enter__.return_value = frames()
        playing.__exit__.return_value = None
        return playing

    def rows(self, items: Any, **options: Any) -> Any:
        def played(engine: Any, source: str, *, max_pixels: int, background: Any, **layout: Any) -> Any:
            return self.play(engine, source, **layout)

        with mock.patch.object(foveate_engine.Engine, "video", played):
            return self.encoder(**options).table(items).to_pylist()

    def test_the_first_of_every_so_many_seconds_is_kept(self) -> None:
        for items in (pa.table({"path": [self.save("clip", b"clip")]}), pa.table({"bytes": [b"clip"]})):
            for every, kept in ((0.2, [0.0, 0.21, 0.52, 0.6]), (0.25, [0.0, 0.3, 0.52]), (0, list(self.SECONDS))):
                with self.subTest(every=every):
                    *rows, last = self.rows(items, every=every)
                    self.assertEqual([row["seconds"] for row in rows], kept)
                    self.assertEqual([row["frame"] for row in (*rows, last)], list(range(len(kept) + 1)))
                    self.assertEqual({row["error"] for row in rows}, {None})
                    self.assertEqual(last["error"], "the clip is cut off")

    def test_where_none_can_be_played_the_row_says_so(self) -> None:
        fixed = pa.table({"path": ["clip"], "fixation": pa.array([[1.0, 2.0]], pa.list_(pa.float64()))})
        self.assertIn("fixation", self.rows(fixed, every=1)[0]["error"])
        rows = self.encoder(every=1).table(pa.table({"path": [str(self.folder / "missing.mp4")]})).to_pylist()
        self.assertEqual(len(rows), 1)
        self.assertTrue(rows[0]["error"])


class AFolderGrowsByWholeFiles(InAFolder):
    def items(self, count: int) -> Any:
        return pa.table(
            {
                "path": [f"{index}.ppm" for index in range(count)],
                "bytes": [ppm(picture(index)) for index in range(count)],
            }
        )

    def ids(self) -> list[str]:
        """Those of all rows in the folder."""
        return [id for file in self.output.glob("*.parquet") for id in pq.read_table(file)["id"].to_pylist()]

    def test_ids_are_of_source_place_and_options(self) -> None:
        def ids(fixation: Any = None, paths: Any = ("a", "b"), **options: Any) -> list[str]:
            column = pa.array([fixation] * len(paths), pa.list_(pa.float64()))
            return self.encoder(**options).table(pa.table({"path": paths, "fixation": column}))["id"].to_pylist()

        all_of_them = [*ids(), *ids([1.0, 2.0]), *ids(budget=21), *ids(paths=["c"])]
        self.assertEqual(len(set(all_of_them)), len(all_of_them))
        self.assertEqual(ids(), ids())

    def test_what_is_there_is_left_out(self) -> None:
        encoder, items = self.encoder(), self.items(7)
        self.assertEqual(datasets.remaining(items, self.output, **LAYOUT), items)
        written = encoder.write(items.slice(0, 3), self.output)
        self.assertEqual(written["rows"].to_pylist(), [1, 1, 1])
        self.assertEqual(set(written["file"].to_pylist()), {str(file) for file in self.output.iterdir()})
        self.assertEqual(datasets.remaining(items, self.output, **LAYOUT), items.slice(3))
        self.assertEqual(len(datasets.remaining(items, self.output, **{**LAYOUT, "budget": 19})), 7)
        rest = encoder.write(pa.concat_tables([items, items]), self.output, datasets.done(self.output))
        self.assertEqual(rest["source"].to_pylist(), [f"{index}.ppm" for index in range(3, 7)])
        self.assertEqual(len(encoder.write(items, self.output, datasets.done(self.output))), 0)
        self.assertEqual(sorted(self.ids()), sorted(datasets.done(self.output)))
        self.assertEqual(len(self.ids()), 7)

    def test_the_same_again_is_the_same_file(self) -> None:
        encoder, items = self.encoder(), self.items(3)
        self.assertEqual(encoder.write(items, self.output), encoder.write(items, self.output))
        self.assertEqual(len(self.ids()), 3)

    def test_what_was_not_finished_is_not_there(self) -> None:
        encoder, items = self.encoder(), self.items(3)
        halves = self.output / ".half.parquet"
        self.output.mkdir()
        halves.write_bytes(b"PAR1")
        for step in ("os.replace", "os.fsync"):
            with self.subTest(step=step), mock.patch(step, side_effect=OSError("no space")), self.assertRaises(OSError):
                encoder.write(items, self.output)
            self.assertEqual(os.listdir(self.output), [halves.name])
        self.assertEqual(datasets.done(self.output), set())
        (self.output / "torn.parquet").write_bytes(b"PAR1")
        with self.assertRaisesRegex(ValueError, "torn.parquet.*delete it"):
            datasets.done(self.output)

    def test_a_killed_process_leaves_whole_files_and_the_rest_follows(self) -> None:
        items = self.items(60)
        # It writes one item after the other until it is killed.
        program = """
import sys, pyarrow as pa
from foveate_engine import datasets
items = pa.ipc.open_file(sys.argv[1]).read_all()
encoder = datasets.Encoder(budget=20, patch=8, dtype="u8")
for index in range(len(items)):
    encoder.write(items.slice(index, 1), sys.argv[2])
"""
        source = self.folder / "items.arrow"
        with pa.ipc.new_file(str(source), items.schema) as file:
            file.write_table(items)
        # Arrow uses pandas where it finds it, but must not need it.
        (self.folder / "pandas.py").write_text("raise ImportError\n")
        path = f"{self.folder}{os.pathsep}{Path(foveate_engine.__file__).parent.parent}"
        job = subprocess.Popen(
            [sys.executable, "-c", program, str(source), str(self.output)], env={**os.environ, "PYTHONPATH": path}
        )
        while job.poll() is None and len(list(self.output.glob("*.parquet"))) < 5:
            time.sleep(0.001)
        job.kill()
        self.assertEqual(job.wait(), -signal.SIGKILL)
        before = len(self.ids())
        self.assertLess(before, 60)
        self.assertGreaterEqual(before, 5)
        rest = datasets.remaining(items, self.output, **LAYOUT)
        self.assertEqual(len(rest), 60 - before)
        self.encoder().write(rest, self.output)
        self.assertEqual(len(self.ids()), 60)
        self.assertEqual(len(set(self.ids())), 60)

    def test_readers_without_the_package_have_lists(self) -> None:
        table = self.encoder().table(self.items(2))
        content = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(), content, store_schema=False)
        plain = pq.read_table(content)
        self.assertEqual(str(plain.schema.field("pixels").type), "list<element: uint8>")
        columns = pq.read_metadata(content).schema
        self.assertIn("tokens.sx.list.element", [columns.column(index).path for index in range(len(columns))])
        self.assertEqual(plain["tokens"].to_pylist(), table["tokens"].to_pylist())


if __name__ == "__main__":
    unittest.main()
