"""``python -m foveate.learn``: boxes, overlap, the file of a scorer, and learning where one channel tells the boxes."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from support import PACKAGE_ROOT, torch_or_skip

from foveate.abi import TOKEN
from foveate.learn import boxes, overlap, pictures, recording, report, scorer, training
from foveate.learn.__main__ import main
from foveate.learn.errors import Unlearnable

SIZE, CELL, FRAMES = (256, 190), 32, 24
ROWS, COLUMNS = 6, 8
NAMES = ["strokes", "change", "mean", "orientation_sin", "x", "relevance", "normal_x"]


def with_folder(test: unittest.TestCase) -> Path:
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return Path(folder.name)


class BoxesOfMot(unittest.TestCase):
    def setUp(self) -> None:
        self.path = with_folder(self) / "gt.txt"

    def read(self, text: str) -> boxes.Truth:
        self.path.write_text(text)
        return boxes.read(self.path, FRAMES, SIZE)

    def test_frames_and_edges(self) -> None:
        truth = self.read("1,1,10,20,30,40,1,1,0.5\n\n1, 2, -5, 100, 50.5, 200\r\n3,1,10,20,30,40,0,1,1\n24,7,1,2,3,4,-1\n")
        np.testing.assert_array_equal(truth.of(1), [[10, 20, 40, 60], [0, 100, 45.5, 190]])
        np.testing.assert_array_equal(truth.of(24), [[1, 2, 4, 6]])
        self.assertEqual((sorted(truth.boxes), truth.left_out, truth.of(2).shape), ([1, 24], 1, (0, 4)))
        self.assertTrue(truth.knows(2))

    def test_refusals_name_the_line(self) -> None:
        for line, reason in {
            "1,1,10,20,30": "expected frame,id,x,y,width,height",
            "1 1 10 20 30 40": "expected frame,id,x,y,width,height",
            "1,1,10,20,thirty,40": "expected numbers",
            "1,1,10,20,,40": "expected numbers",
            "1,1,10,nan,30,40": "is not finite",
            "1,1,10,20,inf,40": "is not finite",
            "1,1,10,20,0,40": "both sides must be above 0",
            "1,1,10,20,30,-40": "both sides must be above 0",
            "1.5,1,10,20,30,40": "is not a whole number",
            "nan,1,10,20,30,40": "is not a whole number",
            "0,1,10,20,30,40": "frames counted from 1",
            "25,1,10,20,30,40": "the frames 1 to 24",
            "1,1,300,20,30,40": "lies outside the picture of 256 x 190",
        }.items():
            with self.subTest(line), self.assertRaisesRegex(Unlearnable, f"gt.txt, line 2: .*{reason}"):
                self.read(f"1,1,1,2,3,4\n{line}\n")

    def test_refuses_a_file_without_a_box(self) -> None:
        for text in ("", "\n", "1,1,10,20,30,40,0\n"):
            with self.subTest(text), self.assertRaisesRegex(Unlearnable, "no box that counts"):
                self.read(text)
        with self.assertRaisesRegex(Unlearnable, "cannot be read"):
            boxes.read(self.path.with_name("none"), FRAMES, SIZE)


class BoxesOfCoco(unittest.TestCase):
    def setUp(self) -> None:
        self.path = with_folder(self) / "gt.json"

    def read(self, images: Any, annotations: Any) -> boxes.Truth:
        self.path.write_text(json.dumps({"images": images, "annotations": annotations}))
        return boxes.read(self.path, FRAMES, SIZE)

    def test_order_of_names(self) -> None:
        images = [{"id": 5, "file_name": "10.png"}, {"id": 6, "file_name": "9.png", "width": 256, "height": 190}]
        crowd = {"image_id": 6, "bbox": [0, 0, 9, 9], "iscrowd": 1}
        truth = self.read(images, [{"image_id": 5, "bbox": [1, 2, 3, 4]}, crowd])
        np.testing.assert_array_equal(truth.of(2), [[1, 2, 4, 6]])
        self.assertEqual((list(truth.boxes), truth.left_out), ([2], 1))
        self.assertEqual([truth.knows(frame) for frame in (1, 2, 3)], [True, True, False])

    def test_frame_ids_from_one_or_from_zero(self) -> None:
        for frame_ids, expected in (((3, 7), 7), ((0, 7), 8)):
            images = [{"id": index, "frame_id": number} for index, number in enumerate(frame_ids)]
            truth = self.read(images, [{"image_id": 1, "bbox": [1, 2, 3, 4]}])
            self.assertEqual(list(truth.boxes), [expected])

    def test_refusals(self) -> None:
        image, box = {"id": 1, "file_name": "1.png"}, {"image_id": 1, "bbox": [1, 2, 3, 4]}
        for images, found, reason in (
            ([image], [{"image_id": 2, "bbox": [1, 2, 3, 4]}], r"annotations\[0\]: .* not the id of any image"),
            ([image], [{"bbox": [1, 2, 3, 4]}], r"annotations\[0\]: its image_id is None"),
            ([image], [box, {"image_id": 1, "bbox": [1, 2, 3]}], r"annotations\[1\]: its bbox"),
            ([image], [{"image_id": 1, "bbox": [1, 2, 3, True]}], "its bbox"),
            ([image], [{"image_id": 1, "bbox": [1, 2, float("nan"), 4]}], "not finite"),
            ([image, image], [box], "another image's"),
            ([{"id": 1}], [box], "each image needs a frame_id"),
            ([{"id": 1, "frame_id": 99}], [box], "frame 99"),
            ([{**image, "width": 999}], [box], "999 x 190"),
            ("none", [box], "list of objects `images`"),
            ([image], [], "no box that counts"),
        ):
            with self.subTest(reason), self.assertRaisesRegex(Unlearnable, reason):
                self.read(images, found)
        self.path.write_text("{")
        with self.assertRaisesRegex(Unlearnable, "neither COCO JSON"):
            boxes.read(self.path, FRAMES, SIZE)


class Overlap(unittest.TestCase):
    def test_a_pixel_belongs_to_a_box_if_its_centre_does(self) -> None:
        found = overlap.mask(np.array([[0.5, 0.6, 2.5, 3.0], [1, 1, 2, 4]]), (4, 4))
        np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]])

    def test_of_masks(self) -> None:
        one, other = np.zeros((2, 4), bool), np.zeros((2, 4), bool)
        self.assertEqual(overlap.overlap(one, other), 0.0)
        one[:, :2], other[:, 1:] = True, True
        self.assertEqual(overlap.overlap(one, other), 2 / 8)

    def test_of_cells(self) -> None:
        # Cells of 4 pixels in a picture of 10 x 6: the last column has 2 pixels, the last row 2.
        cells = overlap.Cells((10, 6), 4)
        np.testing.assert_array_equal(cells.area, [[16, 16, 8], [8, 8, 4]])
        # 2 x 4 pixels in the first cell, 3 x 4 in the one beside it, 3 x 1 in that below.
        covered = cells.sums(overlap.mask(np.array([[2, 0, 7, 4], [4, 4, 7, 5]], float), (10, 6)))
        np.testing.assert_array_equal(covered, [[8, 12, 0], [0, 3, 0]])
        self.assertEqual(cells.count(covered), 2)
        self.assertEqual(cells.count(np.zeros_like(covered)), 1)
        score = np.array([[3, 1, 0], [0, 2, 0]], np.float32)
        self.assertEqual(cells.by_score(covered, score), 11 / (23 + 24 - 11))
        self.assertEqual(cells.best_of_as_many(covered), 20 / (23 + 32 - 20))
        # With the 3 of 8 pixels below, too.
        self.assertEqual(cells.best(covered), 23 / 40)
        np.testing.assert_array_equal(cells.greatest(np.zeros((2, 3)), 2), [0, 1])

    def test_of_positions(self) -> None:
        # Of 41 x 34 pixels: three columns and two rows of positions; the centres of a third row would be outside.
        positions = overlap.Positions((41, 34))
        inside = positions.inside(overlap.mask(np.array([[0, 0, 17, 24], [24, 25, 41, 34]], float), (41, 34)))
        np.testing.assert_array_equal(inside, [[1, 0, 0], [0, 0, 0]])
        inside = positions.inside(overlap.mask(np.array([[8, 8, 41, 25]], float), (41, 34)))
        np.testing.assert_array_equal(inside, [[1, 1, 1], [1, 1, 1]])

    def test_share_of_positions_in_the_best_cells(self) -> None:
        positions = overlap.Positions((256, 256))
        inside = np.zeros((16, 16), bool)
        inside[:4, :8] = True
        self.assertEqual(positions.best(inside), 32 / 64)
        score = np.zeros((8, 8), np.float32)
        score[1:5, 0:4] = 1
        # Rows 2 to 9 of columns 0 to 7 are chosen, of which two rows lie in the box.
        self.assertEqual(positions.by_score(inside, score, 32), 16 / 64)
        inside[:] = True
        self.assertEqual(positions.best(inside), 1.0)

    def test_of_tokens(self) -> None:
        kind = np.dtype([(name, "<u4") for name in ("x0", "y0", "x1", "y1", "sx", "sy", "extra_width", "extra_height")])
        tokens = np.zeros((2, 3), kind)
        tokens[1] = [(0, 0, 4, 4, 1, 1, 0, 0), (4, 0, 12, 8, 2, 2, 0, 0), (4, 0, 8, 4, 1, 1, 0, 0)]
        watched = recording.Watched(np.array([3, 4]), np.array([0, 3]), tokens, np.zeros((2, 3, 3, 4, 4), np.uint8))
        np.testing.assert_array_equal(watched.finest(4), [[0, 0, 4, 4], [4, 0, 8, 4]])
        truth = boxes.Truth({4: np.array([[2.0, 0.0, 8.0, 8.0]])}, None, 0)
        found = report.by_tokens(truth, [4], (12, 8), {"learned": watched})
        self.assertEqual(found["learned"], 24 / (48 + 32 - 24))

    def test_tokens_of_extract_are_drawn(self) -> None:
        # As `tokens.npy` has them: the box in four fields.
        kind = [(name, *rest) for name, *rest in TOKEN.descr if name != "box"]
        kind[1:1] = [(edge, "<u4") for edge in ("x0", "y0", "x1", "y1")]
        tokens = np.zeros(1, kind)
        for name, value in {"x1": 4, "y1": 4, "sx": 1, "sy": 1, "size": 4, "columns": 4, "rows": 4}.items():
            tokens[name] = value
        drawn = pictures.frame(tokens, np.full((1, 3, 4, 4), 77, np.uint8), (4, 4))
        np.testing.assert_array_equal(drawn, np.full((4, 4, 3), 77))


class ScorerFile(unittest.TestCase):
    def test_holds_tensors_and_names(self) -> None:
        tensors = {
            "mean": np.arange(2), "std": np.ones(2), "conv1.weight": np.arange(54).reshape(3, 2, 3, 3),
            "conv1.bias": np.zeros(3), "conv2.weight": np.ones((1, 3, 1, 1)), "conv2.bias": np.array([7.0]),
        }
        path = with_folder(self) / "one.safetensors"
        scorer.Scorer(("strokes", "change"), tensors).write(path)
        names, found = parsed(path)
        self.assertEqual(names, "strokes,change")
        self.assertEqual(list(found), list(tensors))
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found[name], tensor.astype(np.float32))
        self.assertEqual([other.name for other in path.parent.iterdir()], [path.name])

    def test_scores_as_documented(self) -> None:
        weight = np.zeros((1, 1, 3, 3), np.float32)
        weight[0, 0, 1, 2] = 2
        tensors = {"mean": np.full(1, 1, np.float32), "std": np.full(1, 2, np.float32), "conv1.weight": weight,
                   "conv1.bias": np.full(1, 5, np.float32)}
        score = scorer.Scorer(("change",), tensors).score(np.array([[[1, 3, 5]]], np.float32))
        # (value - 1) / 2 of the cell to the right, twice, and 5; nothing beyond the edge.
        np.testing.assert_array_equal(score, [[7, 9, 5]])

    def test_weights_add_channels_to_the_score(self) -> None:
        chance = np.random.default_rng(2)
        tensors = {
            "mean": np.array([0.5, -1.0]), "std": np.array([2.0, 0.25]), "conv1.weight": chance.normal(size=(4, 2, 3, 3)),
            "conv1.bias": chance.normal(size=4), "conv2.weight": chance.normal(size=(1, 4, 1, 1)), "conv2.bias": np.ones(1),
        }  # fmt: skip
        learned = scorer.Scorer(("a", "b"), {name: tensor.astype(np.float32) for name, tensor in tensors.items()})
        channels = chance.normal(size=(3, 5, 6)).astype(np.float32)
        found = learned.with_weights({"b": -2.0, "c": 3.0})
        self.assertEqual(found.channels, ("a", "b", "c"))
        expected = learned.score(channels[:2]) - 2 * channels[1] + 3 * channels[2]
        np.testing.assert_allclose(found.score(channels), expected, atol=1e-4)

    def test_the_default_scorer_adds_up_channels(self) -> None:
        names = ["change", *(name for name in scorer.UNTRAINED if name != "change"), "x"]
        channels = np.zeros((len(names), 1, 2), np.float32)
        channels[0, 0, 1], channels[names.index("eccentricity"), 0, 1], channels[-1] = 0.5, 1, 9
        np.testing.assert_array_equal(scorer.untrained(names, channels), [[0, 5.5]])
        self.assertIsNone(scorer.untrained(names[1:], channels[1:]))


def parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """The names of channels and the tensors of a safetensors file."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    names = header.pop("__metadata__")["channels"]
    tensors, data = {}, content[end:]
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        tensors[name] = np.frombuffer(data[start:stop], "<f4").reshape(entry["shape"])
    return names, tensors


def write_recording(folder: Path, shares: Any, names: list[str] = NAMES) -> None:
    """What `foveate extract` writes of a clip whose decisions are two frames apart: `change` tells the boxes of `shares`,
    [FRAMES, ROWS, COLUMNS], `normal_x` is nothing, the others are chance."""
    chance = np.random.default_rng(1)
    channels = chance.random((FRAMES, len(names), ROWS, COLUMNS)).astype(np.float16)
    channels[:, names.index("change")] = shares * 0.8 + 0.2 * channels[:, 0]
    if "normal_x" in names:
        channels[:, names.index("normal_x")] = 0
    frames = np.zeros(FRAMES, [("frame_seq", "<u8"), ("token_count", "<u4"), ("channels_frame", "<u8")])
    frames["frame_seq"] = np.arange(1, FRAMES + 1)
    # Row 0 has none yet; rows 1 and 2 have those of frame 1, rows 3 and 4 those of frame 3.
    frames["channels_frame"] = np.maximum(0, (np.arange(FRAMES) - 1) // 2 * 2 + 1)
    rows = np.maximum(0, frames["channels_frame"].astype(int) - 1)
    folder.mkdir(parents=True)
    np.save(folder / "channels.npy", channels[rows])
    np.save(folder / "frames.npy", frames)
    segment = {"source_width": SIZE[0], "source_height": SIZE[1], "channels": {"names": names, "cell": CELL}}
    (folder / "segments.json").write_text(json.dumps([segment]))


def write_boxes(path: Path) -> Any:
    """Two boxes of whole cells in each frame, as MOT text; returns the share of each cell, [FRAMES, ROWS, COLUMNS]."""
    chance, shares, lines = np.random.default_rng(2), np.zeros((FRAMES, ROWS, COLUMNS)), []
    for frame in range(FRAMES):
        for number in range(2):
            x, y = int(chance.integers(COLUMNS - 1)), int(chance.integers(ROWS - 2))
            shares[frame, y : y + 2, x] = 1
            lines.append(f"{frame + 1},{number},{x * CELL},{y * CELL},{CELL},{2 * CELL}\n")
    path.write_text("".join(lines))
    return shares


class Recordings(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = with_folder(self)
        self.shares = write_boxes(self.folder / "gt.txt")
        write_recording(self.folder / "out" / "view", self.shares)

    def test_each_decision_once(self) -> None:
        for folder in (self.folder / "out", self.folder / "out" / "view"):
            found = recording.load(folder)
            self.assertEqual((found.size, found.cell, found.frame_count, list(found.names)), (SIZE, CELL, FRAMES, NAMES))
            np.testing.assert_array_equal(found.seen, np.arange(1, FRAMES, 2)[: len(found.seen)])
            np.testing.assert_array_equal(found.rows, found.seen)

    def test_shares_of_cells(self) -> None:
        found = recording.load(self.folder / "out")
        truth = boxes.read(self.folder / "gt.txt", FRAMES, SIZE)
        np.testing.assert_array_equal(report.shares(found, truth, 5), self.shares[4])

    def test_refusals(self) -> None:
        view = self.folder / "out" / "view"
        with self.assertRaisesRegex(Unlearnable, "has 0 views with channels.npy"):
            recording.load(self.folder / "nothing")
        frames = np.load(view / "frames.npy")
        np.save(view / "frames.npy", frames[1:])
        with self.assertRaisesRegex(Unlearnable, "record it again"):
            recording.load(view)
        frames["channels_frame"] = 0
        np.save(view / "frames.npy", frames)
        with self.assertRaisesRegex(Unlearnable, "no decision"):
            recording.load(view)
        (view / "segments.json").write_text('[{"channels": null}]')
        with self.assertRaisesRegex(Unlearnable, "does not describe its channels"):
            recording.load(view)


class ChannelsToLearnFrom(unittest.TestCase):
    def test_all_but_those_of_the_gaze_and_the_place(self) -> None:
        self.assertEqual(training.chosen(NAMES, None), ["strokes", "change", "mean", "orientation_sin", "normal_x"])
        self.assertEqual(training.chosen(NAMES, ["relevance", "x"]), ["relevance", "x"])
        for wanted, reason in ((["query"], "not recorded"), (["mean", "mean"], "named twice")):
            with self.assertRaisesRegex(Unlearnable, reason):
                training.chosen(NAMES, wanted)

    def test_what_never_varies_is_left_out(self) -> None:
        channels = np.zeros((2, 2, 3, 3), np.float32)
        channels[0, 1, 0, 0] = 1
        self.assertEqual(training.varying(["a", "b"], channels, False), ["b"])
        for names, values, must_all in ((["a", "b"], channels, True), (["a"], channels[:, :1], False)):
            with self.assertRaisesRegex(Unlearnable, "the same in all cells .*: a:"):
                training.varying(names, values, must_all)


class Losses(unittest.TestCase):
    def test_are_measures_in_which_the_default_scorer_finds_more(self) -> None:
        figures = {
            "cells": {"random": 0.1, "untrained": 0.5, "learned": 0.25, "best": 1.0},
            "positions": {"random": 0.1, "untrained": 0.5, "learned": 0.5},
            "tokens": {"random": 0.1, "untrained": 0.25, "learned": 0.125},
        }
        expected = ["overlap of cells 0.250 (untrained 0.500)", "overlap of tokens 0.125 (untrained 0.250)"]
        self.assertEqual(report.losses(figures), expected)
        self.assertEqual(report.losses({"cells": {"learned": 0.0}}), [], "its channels may not be recorded")


class TheDefaultScorer(unittest.TestCase):
    def test_has_the_weights_of_the_document(self) -> None:
        rows = (PACKAGE_ROOT.parent / "docs" / "reference" / "relevance.md").read_text().split("\n| Weight |")
        names = [re.findall(r"`(\w+)`", cell) for cell in rows[0].rpartition("\n| Channel |")[2].split("\n")[0].split("|")]
        weights = [float(cell) for cell in rows[1].split("\n")[0].split("|") if cell.strip()]
        found = {name: weight for cell, weight in zip(filter(None, names), weights, strict=True) for name in cell}
        self.assertEqual(found, scorer.UNTRAINED)


class TheShippedScorers(unittest.TestCase):
    def read(self, name: str) -> scorer.Scorer:
        names, tensors = parsed(PACKAGE_ROOT.parent / "configs" / "scorers" / f"{name}.safetensors")
        return scorer.Scorer(tuple(names.split(",")), tensors)

    def test_read_channels_that_are_computed(self) -> None:
        rows = (PACKAGE_ROOT.parent / "docs" / "reference" / "relevance.md").read_text().split("\n")
        computed = {row.split("`")[1] for row in rows if re.match(r"\| `\w+` \| -?\d to \d \|", row)}
        for name in ("people", "text"):
            self.assertLessEqual(set(self.read(name).channels), computed, name)

    def test_text_adds_three_octaves_of_what_is_unseen(self) -> None:
        text = self.read("text")
        seen = np.random.default_rng(3).random((len(text.channels), 4, 5)).astype(np.float32)
        unseen = seen.copy()
        seen[text.channels.index("unseen")], unseen[text.channels.index("unseen")] = 0.0, 1.0
        np.testing.assert_allclose(text.score(unseen) - text.score(seen), 3.0, atol=1e-4)


class Learning(unittest.TestCase):
    def setUp(self) -> None:
        torch_or_skip()
        self.folder = with_folder(self)
        write_recording(self.folder / "recorded", write_boxes(self.folder / "gt.txt"))

    def learn(self, out: str, *options: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        arguments = ["--recorded", str(self.folder / "recorded"), "--boxes", str(self.folder / "gt.txt")]
        said, warned = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(warned):
            code = main([*arguments, "--out", str(self.folder / out), "--epochs", "200", *options])
        return code, said.getvalue(), warned.getvalue()

    def test_finds_what_one_channel_tells_in_frames_that_were_held_out(self) -> None:
        code, said, warned = self.learn("one.safetensors", "--train", "1:16", "--hidden", "8")
        self.assertEqual(code, 0, warned)
        figures = [float(cell) for cell in said.splitlines()[-2].strip("| ").split("|")[1:]]
        _, learned, best_of_as_many, best = figures
        self.assertEqual((best_of_as_many, best), (1.0, 1.0))
        self.assertGreater(learned, 0.95, said)
        for name in ("relevance", "normal_x", "x"):
            self.assertIn(name, warned)
        names, tensors = parsed(self.folder / "one.safetensors")
        self.assertEqual(names, "strokes,change,mean,orientation_sin")
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self.assertEqual(shapes, {
            "mean": (4,), "std": (4,), "conv1.weight": (8, 4, 3, 3), "conv1.bias": (8,),
            "conv2.weight": (1, 8, 1, 1), "conv2.bias": (1,),
        })  # fmt: skip
        self.assertGreater(tensors["std"].min(), 0)

    def test_covered_cells_are_where_the_layout_is_finest(self) -> None:
        self.learn("one.safetensors", "--hidden", "8")
        names, tensors = parsed(self.folder / "one.safetensors")
        found = recording.load(self.folder / "recorded")
        truth = boxes.read(self.folder / "gt.txt", FRAMES, SIZE)
        index, overlaps = [NAMES.index(name) for name in names.split(",")], []
        for frame, row in zip(found.seen, found.rows, strict=True):
            score = scorer.Scorer(tuple(names.split(",")), tensors).score(found.channels[row][index].astype(np.float32))
            score -= score.mean()
            score *= 4 / max(4, score.max())
            is_fine = score >= score.max() + 2 * np.log2(0.8)
            overlaps.append(overlap.overlap(is_fine, report.shares(found, truth, int(frame)) > 0.5))
        self.assertGreater(np.mean(overlaps), 0.8)

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        outs = {}
        for name, seed in (("one", "0"), ("same", "0"), ("other", "1")):
            self.learn(name, "--seed", seed, "--epochs", "3")
            outs[name] = (self.folder / name).read_bytes()
        self.assertEqual(outs["one"], outs["same"])
        self.assertNotEqual(outs["one"], outs["other"])

    def test_a_single_convolution(self) -> None:
        code, _, warned = self.learn("one", "--hidden", "0", "--kernel", "1", "--channels", "change, x")
        self.assertEqual(code, 0, warned)
        names, tensors = parsed(self.folder / "one")
        self.assertEqual((names, sorted(tensors)), ("change,x", ["conv1.bias", "conv1.weight", "mean", "std"]))
        self.assertEqual(tensors["conv1.weight"].shape, (1, 2, 1, 1))

    def test_draws_and_writes_figures(self) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("Pillow is not installed") from None
        code, _, warned = self.learn("one.safetensors", "--pictures", str(self.folder / "drawn"), "--epochs", "1")
        self.assertEqual(code, 0, warned)
        figures = json.loads((self.folder / "one.json").read_text())
        for measured in (figures["overlap"]["cells"], figures["positions"]):
            self.assertEqual(sorted(measured), ["best", "best of as many", "learned", "random"])
        self.assertEqual(len(list((self.folder / "drawn").glob("*-cells.png"))), 6)

    def test_says_when_it_finds_less_than_the_untrained_scorer(self) -> None:
        shares = write_boxes(self.folder / "gt.txt")
        names = ["change", *(name for name in scorer.UNTRAINED if name != "change")]
        write_recording(self.folder / "told", shares, names)
        # `change` tells the boxes to the untrained scorer; nothing tells them to one that learns from `entropy` alone.
        options = ("--recorded", str(self.folder / "told"), "--channels", "entropy")
        code, said, warned = self.learn("worse.safetensors", *options)
        self.assertEqual(code, 0, warned)
        header, _, cells, positions = [line.strip("| ").split(" | ") for line in said.splitlines()[1:5]]
        untrained, learned = header.index("untrained"), header.index("learned")
        for measure, row in (("overlap of cells", cells), ("64 positions, share in boxes", positions)):
            self.assertLess(float(row[learned]), float(row[untrained]))
            self.assertIn(f"{measure} {row[learned]} (untrained {row[untrained]})", warned)
        self.assertIn("leave `scorer` out of the configuration", warned)
        _, _, warned = self.learn("better.safetensors", "--recorded", str(self.folder / "told"))
        self.assertNotIn("untrained", warned)

    def test_refusals(self) -> None:
        for options, reason in (
            (("--train", "1:24"), "that are held out, none has a box"),
            (("--train", "5:2"), "a part of the clip's frames, 1:24"),
            (("--train", "all"), "such as 1:100"),
            (("--channels", "query"), "'query' is not recorded"),
            (("--weights", "query=3"), "--weights query: the channel is not recorded"),
            (("--weights", "change=3", "--hidden", "0"), "--weights needs two convolutions"),
            (("--weights", "change=3", "--hidden", "64"), "66 outputs of the first convolution"),
            (("--channels", "change,normal_x"), "the same in all cells"),
            (("--boxes", str(self.folder / "none")), "cannot be read"),
            (("--clip", "clip.avi", "--foveate", str(self.folder / "none")), "--foveate"),
        ):
            with self.subTest(reason):
                code, said, warned = self.learn("one", *options)
                self.assertEqual((code, said), (2, ""))
                self.assertIn(reason, warned)
        code, _, warned = self.learn("no/where")
        self.assertEqual(code, 2)
        self.assertIn("there is no folder", warned)

    def test_refuses_numbers_out_of_range(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as warned, self.assertRaises(SystemExit) as ended:
            main(["--boxes", "gt.txt", "--out", "one", "--hidden", "7"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("an even number from 0 to 64", warned.getvalue())
        for text in ("unseen", "unseen=3,unseen=4", "unseen=high"):
            with contextlib.redirect_stderr(io.StringIO()) as warned, self.assertRaises(SystemExit):
                main(["--boxes", "gt.txt", "--out", "one", "--weights", text])
            self.assertIn("such as unseen=3", warned.getvalue())


class NothingToLearnFrom(unittest.TestCase):
    def test_is_refused(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as warned:
            self.assertEqual(main(["--boxes", "gt.txt", "--out", "one"]), 2)
        self.assertIn("give --clip, or --recorded", warned.getvalue())


if __name__ == "__main__":
    unittest.main()
