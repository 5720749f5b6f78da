"""Pyramids and batches of arrays: exact, whatever the array, the backend and the number of threads."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import time
import unittest
from typing import Any

import numpy as np
from engine_support import REPOSITORY, foveate_engine, picture, refused, run, vulkan_or_skip
from numpy.typing import NDArray

from foveate_engine import EngineError, arrays

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"layout": "foveal", "foveae": 2, "coarsest": 3, "patch": 8},
    {"layout": "uniform", "dtype": "u8"},
    {"layout": "inset", "blocks": 2, "min_step": 1.5},
    {"layout": "directional", "dtype": "f32", "normalisation": "clip"},
    {"layout": "adaptive", "budget": 40},
    {"layout": "rings", "preset": "stt172"},
    {"layout": "windows", "patch": 224, "outside": "mean", "normalisation": {"mean": [0, 0.5, 1], "std": [1, 2, 3]}},
]


def mean(rgb: NDArray[np.uint8], x0: int, y0: int, x1: int, y1: int) -> NDArray[np.uint8]:
    """The mean of the pixels of a box, clipped to the picture, rounded half up."""
    height, width = rgb.shape[:2]
    box = rgb[max(y0, 0) : min(y1, height), max(x0, 0) : min(x1, width)].reshape(-1, 3).astype(np.int64)
    return ((box.sum(0) + len(box) // 2) // len(box)).astype(np.uint8)


def naive(rgb: NDArray[np.uint8], token: Any) -> NDArray[np.uint8]:
    """The texels of a token by their definition, [3, P, P]; 0 where there is no real pixel."""
    x, y, sx, sy, size = (int(token[name]) for name in ("x", "y", "sx", "sy", "size"))
    width, height = size * sx + int(token["extra_width"]), size * sy + int(token["extra_height"])
    # Each pixel as size x size of its parts: so wide are texels.
    parts = rgb.repeat(size, 0).repeat(size, 1) if (width % size, height % size) != (0, 0) else rgb
    unit = len(parts) // len(rgb)
    x, y, across, down = x * unit, y * unit, width * unit // size, height * unit // size
    texels = np.zeros((3, size, size), np.uint8)
    for v in range(token["first_row"], token["first_row"] + token["rows"]):
        for u in range(token["first_column"], token["first_column"] + token["columns"]):
            texels[:, v, u] = mean(parts, x + u * across, y + v * down, x + (u + 1) * across, y + (v + 1) * down)
    return texels


class Laws(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = foveate_engine.Engine("cpu", threads=2)
        self.addCleanup(self.engine.close)

    def test_tokens_are_the_means_of_their_boxes(self) -> None:
        rgb = picture(1, 97, 131, 3)
        tokens = self.engine.pyramid(rgb).sample((50, 40), layout="foveal", budget=40, patch=8, dtype="u8", outside="mean")
        self.assertGreater(len(set(tokens.tokens["sx"].tolist())), 1, "more than one level")
        for token, texels in zip(tokens.tokens, tokens.pixels, strict=True):
            np.testing.assert_array_equal(texels, naive(rgb, token))

    def test_pixels_count_by_their_share_in_a_texel_of_a_real_step(self) -> None:
        rgb = picture(1, 97, 131, 3)
        for layout in ({"layout": "uniform", "budget": 40}, {"layout": "inset", "budget": 50, "min_step": 1.3}):
            tokens = self.engine.pyramid(rgb).sample((50, 40), patch=8, dtype="u8", outside="mean", **layout)
            self.assertGreater(len(tokens), 30)
            self.assertTrue((tokens.tokens["extra_width"] > 0).any() and (tokens.tokens["sx"] < 4).all())
            for token, texels in zip(tokens.tokens, tokens.pixels, strict=True):
                np.testing.assert_array_equal(texels, naive(rgb, token))

    def test_levels_are_means_rounded_once(self) -> None:
        rgb = picture(2, 45, 70, 3)
        pyramid = self.engine.pyramid(rgb)
        np.testing.assert_array_equal(pyramid.level(0), rgb)
        for level in range(1, pyramid.level_count):
            side, texels = 1 << level, pyramid.level(level)
            self.assertEqual(texels.shape, (-(-45 // side), -(-70 // side), 3))
            for y, x in np.ndindex(texels.shape[:2]):
                np.testing.assert_array_equal(texels[y, x], mean(rgb, x * side, y * side, (x + 1) * side, (y + 1) * side))
        with refused(self, IndexError, "level=9", "0 to"):
            pyramid.level(9)

    def test_updating_equals_rebuilding(self) -> None:
        random = np.random.default_rng(3)
        rgb = picture(3, 150, 200, 3)
        pyramid = self.engine.pyramid(rgb)
        for step in range(8):
            changed = np.zeros((5, 7), bool)
            rgb = rgb.copy()
            for _ in range(step):
                y, x = random.integers(150), random.integers(200)
                rgb[y, x, random.integers(3)] ^= 1
                changed[y // 32, x // 32] = True
            tiles = pyramid.update(rgb)
            # A bit may have been flipped twice.
            self.assertFalse((tiles & ~changed).any())
            fresh = self.engine.pyramid(rgb)
            for level in range(pyramid.level_count):
                np.testing.assert_array_equal(pyramid.level(level), fresh.level(level))
            for layout in LAYOUTS:
                one, other = pyramid.sample((150, 20), **layout), fresh.sample((150, 20), **layout)
                self.assertEqual(one.pixels.tobytes(), other.pixels.tobytes(), layout)
            self.assertEqual(pyramid.frame_seq, step + 2)

    def test_changed_frame_is_that_of_the_last_change_under_a_token(self) -> None:
        rgb = picture(4, 64, 96, 3)
        pyramid = self.engine.pyramid(rgb)
        rgb[40, 80] += 1
        tiles = pyramid.update(rgb)
        np.testing.assert_array_equal(np.argwhere(tiles), [[1, 2]])
        tokens = pyramid.sample(layout="uniform").tokens
        touched = (tokens["box"][:, 2] > 64) & (tokens["box"][:, 3] > 32)
        np.testing.assert_array_equal(tokens["changed_frame"], np.where(touched, 2, 1))

    def test_a_threshold_keeps_what_differs_by_less(self) -> None:
        rgb = np.full((64, 64, 3), 100, np.uint8)
        pyramid = self.engine.pyramid(rgb, threshold=4)
        self.assertFalse(pyramid.update(rgb + 4).any())
        self.assertEqual(pyramid.sample().bounds[0], 4)
        self.assertTrue(pyramid.update(rgb + 5).all())

    def test_every_format_is_read_as_gstreamer_means_it(self) -> None:
        gray, rgb, rgba = picture(5, 33, 47), picture(6, 33, 47, 3), picture(7, 33, 47, 4)
        levels = {
            "GRAY8": (gray, np.repeat(gray[:, :, None], 3, 2)),
            "RGB": (rgb, rgb),
            "BGR": (rgb, rgb[:, :, ::-1]),
            "RGBx": (rgba, rgba[:, :, :3]),
            "BGRx": (rgba, rgba[:, :, 2::-1]),
        }
        for format, (given, expected) in levels.items():
            with self.subTest(format=format):
                np.testing.assert_array_equal(self.engine.pyramid(given, format).level(0), expected)
        np.testing.assert_array_equal(self.engine.pyramid(gray[:, :, None]).level(0)[:, :, 0], gray)

    def test_ycbcr_is_converted_by_its_matrix_and_range(self) -> None:
        y, u, v = (picture(seed, *shape) for seed, shape in ((8, (32, 40)), (9, (16, 20)), (10, (16, 20))))
        matrices = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
        for matrix, (red, blue) in matrices.items():
            for range, (offset, luma, chroma) in {"full": (0, 255, 255), "limited": (16, 219, 224)}.items():
                wide = [np.kron(plane, np.ones((2, 2))) - 128 for plane in (u, v)]
                scaled = (y - float(offset)) * 255 / luma
                r = scaled + 2 * (1 - red) * wide[1] * 255 / chroma
                b = scaled + 2 * (1 - blue) * wide[0] * 255 / chroma
                g = (scaled - red * r - blue * b) / (1 - red - blue)
                expected = np.clip(np.stack([r, g, b], 2), 0, 255)
                interleaved = np.stack([u, v], 2)
                stacked = np.concatenate([y, u.reshape(8, 40), v.reshape(8, 40)])
                forms: list[tuple[Any, str]] = [
                    ((y, interleaved), "NV12"),
                    ((y, u, v), "I420"),
                    (np.concatenate([y, interleaved.reshape(16, 40)]), "NV12"),
                    (stacked, "I420"),
                ]
                for given, format in forms:
                    with self.subTest(matrix=matrix, range=range, format=format):
                        got = self.engine.pyramid(given, format, matrix=matrix, range=range).level(0)
                        self.assertLessEqual(np.abs(got - expected).max(), 1)

    def test_the_default_colorimetry_is_gstreamers(self) -> None:
        for height, matrix in ((576, "bt601"), (720, "bt709")):
            y, uv = np.full((height, 16), 90, np.uint8), picture(11, height // 2, 8, 2)
            pyramid = self.engine.pyramid((y, uv))
            named = self.engine.pyramid((y, uv), matrix=matrix, range="limited")
            self.assertEqual(pyramid.colorimetry, named.colorimetry)
            np.testing.assert_array_equal(pyramid.level(0), named.level(0))

    def test_an_array_may_lie_anyhow_in_memory(self) -> None:
        rgb = picture(12, 60, 80, 3)
        wide = np.zeros((60, 100, 3), np.uint8)
        wide[:, 10:90] = rgb
        reversed_rows = rgb[::-1].copy()[::-1]
        planar = np.ascontiguousarray(rgb.transpose(2, 0, 1)).transpose(1, 2, 0)
        read_only = rgb.copy()
        read_only.flags.writeable = False
        expected = self.engine.pyramid(rgb).sample((9, 9)).pixels.tobytes()
        apart = rgb.repeat(2, 1)[:, ::2]
        forms = [
            wide[:, 10:90],
            np.asfortranarray(rgb),
            reversed_rows,
            planar,
            read_only,
            rgb.repeat(2, 0)[::2],
            apart,
            bytearray,
        ]
        for given in forms:
            if given is bytearray:
                given = memoryview(bytearray(rgb.tobytes())).cast("B", [60, 80, 3])
            self.assertEqual(self.engine.pyramid(given).sample((9, 9)).pixels.tobytes(), expected)

    def test_a_batch_gives_what_pictures_one_by_one_give(self) -> None:
        for engine in (self.engine, vulkan_or_skip()):
            images = [picture(seed, 70, 101, 3) for seed in range(37)]
            points = [(float(3 * index), float(index)) for index in range(37)]
            for layout in LAYOUTS[:4] + LAYOUTS[6:7]:
                together = engine.batch(images, points, **layout)
                for image, point, tokens in zip(images, points, together, strict=True):
                    alone = self.engine.pyramid(image).sample(point, **layout)
                    self.assertEqual(tokens.pixels.tobytes(), alone.pixels.tobytes(), (engine, layout))
                    np.testing.assert_array_equal(tokens.tokens, alone.tokens)
                    self.assertEqual((tokens.fixations, tokens.info), (alone.fixations, alone.info))
            stacked = engine.batch(np.stack(images), (7, 8))
            self.assertEqual(stacked[36].pixels.tobytes(), engine.batch([images[36]], (7, 8))[0].pixels.tobytes())

    def test_vulkan_gives_the_same_bytes(self) -> None:
        engine = vulkan_or_skip()
        self.assertEqual(engine.backend, "vulkan")
        rgb = picture(14, 150, 211, 3)
        here, there = self.engine.pyramid(rgb), engine.pyramid(rgb)
        for step in range(3):
            for layout in LAYOUTS:
                one, other = here.sample((20, 30), **layout), there.sample((20, 30), **layout)
                self.assertEqual(one.pixels.tobytes(), other.pixels.tobytes(), layout)
            np.testing.assert_array_equal(here.features(), there.features())
            np.testing.assert_array_equal(here.relevance(), there.relevance())
            for name, cells in here.channels().items():
                np.testing.assert_array_equal(cells, there.channels()[name], name)
            rgb = rgb.copy()
            rgb[step * 20 : step * 20 + 15] += 9
            np.testing.assert_array_equal(here.update(rgb), there.update(rgb))

    def test_threads_give_the_same_bytes_and_do_not_disturb_each_other(self) -> None:
        images = [picture(seed, 120, 160, 3) for seed in range(4)]
        expected = [self.engine.pyramid(image).sample((50, 60)).pixels.tobytes() for image in images]
        wrong: list[int] = []

        def work(index: int) -> None:
            pyramid = self.engine.pyramid(images[index])
            for turn in range(20):
                pyramid.update(images[(index + turn) % 4])
                if pyramid.sample((50, 60)).pixels.tobytes() != expected[(index + turn) % 4]:
                    wrong.append(index)
                if self.engine.batch(images, (50, 60))[index].pixels.tobytes() != expected[index]:
                    wrong.append(index)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_interpreters_lock_is_released(self) -> None:
        """Nobody has to give the lock up for seconds, so another thread runs during an update only if that gives it up."""
        images = [arrays.picture(picture(seed, 1080, 1920, 3)).planes for seed in (1, 2)]
        pyramid = foveate_engine.Engine("cpu", threads=1).pyramid(picture(1, 1080, 1920, 3))
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        counted, is_over = [0], False

        def count() -> None:
            while not is_over:
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        sys.setswitchinterval(100)
        went_on = 0
        for turn in range(200):
            before = counted[0]
            pyramid._native.update(images[turn % 2], turn + 1)
            went_on = max(went_on, counted[0] - before)
        is_over = True
        thread.join()
        self.assertGreater(went_on, 10, "while a single update ran")

    def test_arrays_outlive_what_they_came_from(self) -> None:
        engine = foveate_engine.Engine("cpu")
        pyramid = engine.pyramid(picture(15, 200, 300, 3))
        tokens = pyramid.sample()
        pixels, records = tokens.pixels, tokens.tokens
        before = (pixels.tobytes(), records.tobytes())
        pyramid.close()
        engine.close()
        del pyramid, engine, tokens
        gc.collect()
        other = foveate_engine.Engine("cpu").pyramid(picture(16, 200, 300, 3)).sample()
        self.assertEqual((pixels.tobytes(), records.tobytes()), before)
        self.assertFalse(np.shares_memory(other.pixels, pixels))
        if hasattr(np, "from_dlpack"):
            borrowed = np.from_dlpack(pixels)
            self.assertTrue(np.shares_memory(borrowed, pixels))
            del pixels
            gc.collect()
            self.assertEqual(borrowed.tobytes(), before[0])

    def test_features_are_sums_over_tiles(self) -> None:
        gray = picture(17, 40, 70)
        features = self.engine.pyramid(gray).features()
        self.assertEqual(features.shape, (2, 3))
        tile = gray[32:40, 64:70].astype(np.int64)
        of_tile = features[1, 2]
        self.assertEqual(of_tile["count"], 48)
        self.assertEqual(of_tile["luma"], tile.sum())
        self.assertEqual(of_tile["luma_squared"], (tile**2).sum())
        self.assertEqual(of_tile["gradient"][0], np.abs(np.diff(tile, axis=1)).sum())
        np.testing.assert_array_equal(of_tile["histogram"], np.bincount(tile.ravel() // 16, minlength=16))
        np.testing.assert_array_equal(of_tile["color"], [tile.sum()] * 3)

    def test_channels_see_what_moves_and_relevance_follows_them(self) -> None:
        still = np.full((320, 480, 3), 60, np.uint8)
        pyramid = self.engine.pyramid(still)
        self.assertEqual(pyramid.channels()["change"].max(), 0)
        for step in range(4):
            moved = still.copy()
            moved[200 : 240, 100 + 10 * step : 140 + 10 * step] = 250
            pyramid.update(moved)
        channels, side = pyramid.channels(), pyramid.cell
        self.assertEqual(channels["change"].shape, (320 // side, 480 // side))
        row, column = np.unravel_index(channels["change"].argmax(), channels["change"].shape)
        self.assertIn(int(row), range(200 // side - 1, 240 // side + 1))
        self.assertIn(int(column), range(100 // side - 1, 180 // side + 1))
        relevance = pyramid.relevance()
        self.assertEqual(np.unravel_index(relevance.argmax(), relevance.shape), (row, column))
        weighted = pyramid.relevance(weights={"x": 4.0})
        self.assertGreater(weighted[0, -1], relevance[0, -1])
        guided = pyramid.sample((0, 0), relevance=relevance, budget=60)
        self.assertGreater(guided.relevance.max(), 1)
        self.assertNotEqual(guided.tokens.tobytes(), pyramid.sample((0, 0), budget=60).tokens.tobytes())

    def test_records_are_those_of_the_rings(self) -> None:
        import sys

        sys.path.insert(0, str(REPOSITORY / "python"))
        self.addCleanup(sys.path.remove, str(REPOSITORY / "python"))
        from foveate import TOKEN

        self.assertEqual(foveate_engine.TOKEN, TOKEN)

    def test_tokens_carry_what_models_need(self) -> None:
        tokens = self.engine.pyramid(picture(18, 90, 120, 3)).sample((10, 20), layout="uniform", dtype="bf16", budget=50)
        columns, rows = tokens.info.grid or (0, 0)
        self.assertEqual((len(tokens), columns * rows), (len(tokens.pixels), len(tokens)))
        exact = self.engine.pyramid(picture(18, 90, 120, 3)).sample((10, 20), layout="uniform", dtype="f32", budget=50)
        np.testing.assert_allclose(tokens.floats(), exact.pixels, rtol=2**-8)
        self.assertEqual(set(tokens.planes), {"pixels", "relevance"})
        self.assertIn("50" if len(tokens) == 50 else str(len(tokens)), repr(tokens))


class Refusals(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = foveate_engine.Engine("cpu")

    def test_backends_and_threads(self) -> None:
        with refused(self, ValueError, "backend", "cuda", "vulkan"):
            foveate_engine.Engine("cuda")
        with refused(self, ValueError, "threads=0"):
            foveate_engine.Engine(threads=0)
        with refused(self, foveate_engine.BackendError, "no such device", "backend="):
            foveate_engine.Engine("vulkan", device="no such device")

    def test_pictures(self) -> None:
        for given, kind, parts in (
            (np.zeros((4, 4, 3)), TypeError, ("image", "float64", "uint8")),
            (np.zeros((4, 4, 5), np.uint8), ValueError, ("image", "[4, 4, 5]", "[H, W, 3]")),
            (np.zeros((0, 4, 3), np.uint8), ValueError, ("image", "at least one pixel")),
            (np.zeros((1, 20000, 3), np.uint8), ValueError, ("20000x1", "16384")),
            ("picture.png", TypeError, ("image", "str")),
            (None, TypeError, ("image", "NoneType")),
            ((np.zeros((4, 4), np.uint8), np.zeros((2, 3, 2), np.uint8)), ValueError, ("image[1]", "[2, 2, 2]")),
        ):
            with self.subTest(parts=parts), refused(self, kind, *parts):
                self.engine.pyramid(given)
        image = np.zeros((8, 8, 3), np.uint8)
        for keywords, parts in (
            ({"format": "RGB24"}, ("format", "RGB24", "NV12")),
            ({"format": "BGRA"}, ("[8, 8, 3]", "BGRA")),
            ({"matrix": "bt470"}, ("matrix", "bt470", "bt709")),
            ({"range": "video"}, ("range", "video", "limited")),
            ({"threshold": 300}, ("threshold=300", "255")),
            ({"threshold": -1}, ("threshold=-1",)),
        ):
            with self.subTest(keywords=keywords), refused(self, ValueError, *parts):
                self.engine.pyramid(image, **keywords)  # type: ignore[arg-type]

    def test_another_device(self) -> None:
        class OnGpu:
            def __dlpack_device__(self) -> tuple[int, int]:
                return 2, 0

            def __dlpack__(self, **_: Any) -> Any:
                raise AssertionError("must not be asked")

        with refused(self, TypeError, "image", "device", "copy it to the CPU"):
            self.engine.pyramid(OnGpu())

    def test_updates(self) -> None:
        pyramid = self.engine.pyramid(np.zeros((8, 9, 3), np.uint8))
        with refused(self, ValueError, "10 x 8", "9 x 8", "another pyramid"):
            pyramid.update(np.zeros((8, 10, 3), np.uint8))
        with refused(self, ValueError, "[8, 9]", "RGB"):
            pyramid.update(np.zeros((8, 9), np.uint8))
        pyramid.update(np.zeros((8, 9, 3), np.uint8), seconds=2)
        for seconds in (1.0, float("nan"), float("inf")):
            with refused(self, ValueError, "seconds", "2.0"):
                pyramid.update(np.zeros((8, 9, 3), np.uint8), seconds=seconds)

    def test_layouts(self) -> None:
        pyramid = self.engine.pyramid(np.zeros((80, 90, 3), np.uint8))
        for keywords, kind, parts in (
            ({"layout": "spiral"}, ValueError, ("layout", "spiral", "foveal")),
            ({"budget": 0}, ValueError, ("budget", "5000")),
            ({"patch": 7}, ValueError, ("patch", "even")),
            ({"dtype": "f64"}, ValueError, ("dtype", "f64", "f16")),
            ({"e0": 3.0, "layout": "uniform"}, ValueError, ("e0", "foveal")),
            ({"budgets": 3}, TypeError, ("budgets",)),
            ({"coarsest": object()}, TypeError, ("layout", "numbers")),
            ({"fixation": (1, 2, 3)}, ValueError, ("fixation", "(x, y)")),
            ({"fixation": "here"}, ValueError, ("fixation", "(x, y)")),
            ({"fixation": (float("nan"), 1)}, ValueError, ("fixation", "finite")),
            ({"fixation": [(1, 2), (3, 4)]}, ValueError, ("fixation", "2 points", "foveae")),
            ({"relevance": np.zeros(3)}, ValueError, ("relevance", "[rows, columns]")),
            ({"relevance": np.full((2, 2), -1.0)}, ValueError, ("relevance", "-1")),
            ({"relevance": np.ones((2, 2000))}, ValueError, ("relevance", "1024")),
        ):
            with self.subTest(keywords=keywords), refused(self, kind, *parts):
                pyramid.sample(**keywords)  # type: ignore[arg-type]
        with refused(self, ValueError, "weights", "strikes", "strokes"):
            pyramid.relevance(weights={"strikes": 1})
        with refused(self, ValueError, "scorer", "nowhere"):
            pyramid.relevance("nowhere.safetensors")
        with refused(self, ValueError, "gain=2"):
            pyramid.relevance(gain=2)

    def test_batches(self) -> None:
        one, other = np.zeros((8, 9, 3), np.uint8), np.zeros((9, 8, 3), np.uint8)
        for arguments, kind, parts in (
            (([],), ValueError, ("images", "empty")),
            ((5,), TypeError, ("images", "int")),
            (([one, other],), ValueError, ("images[1]", "8 x 9", "images[0]", "9 x 8", "folder")),
            (([one, one], [(1, 2), (3, 4), (5, 6)]), ValueError, ("fixations", "3", "2 pictures")),
            (([one, one.astype(float)],), TypeError, ("images[1]", "float64")),
        ):
            with self.subTest(parts=parts), refused(self, kind, *parts):
                self.engine.batch(*arguments)

    def test_closed_things_say_so(self) -> None:
        pyramid = self.engine.pyramid(np.zeros((8, 9, 3), np.uint8))
        pyramid.close()
        pyramid.close()
        for call in (pyramid.sample, pyramid.features, lambda: pyramid.update(np.zeros((8, 9, 3), np.uint8))):
            with refused(self, EngineError, "Pyramid is closed"):
                call()
        self.engine.close()
        self.assertIn("closed", repr(self.engine))
        with refused(self, EngineError, "Engine is closed"):
            self.engine.pyramid(np.zeros((8, 9, 3), np.uint8))

    def test_nothing_is_pickled(self) -> None:
        for thing in (self.engine, self.engine.pyramid(np.zeros((8, 9, 3), np.uint8))):
            with refused(self, TypeError, type(thing).__name__, "pickle"):
                pickle.dumps(thing)
        tokens = self.engine.pyramid(picture(1, 50, 60, 3)).sample()
        again = pickle.loads(pickle.dumps(tokens))
        self.assertEqual(again.pixels.tobytes(), tokens.pixels.tobytes())

    def test_a_fork_is_told_to_make_its_own(self) -> None:
        """Also after Vulkan has been used, and at the end of the child."""
        code = """
import os, sys
import numpy as np, foveate_engine
engine = foveate_engine.Engine(%r, device=%r)
image = np.zeros((64, 64, 3), np.uint8)
pyramid = engine.pyramid(image)
child = os.fork()
if child == 0:
    for call in (pyramid.sample, lambda: engine.pyramid(image), lambda: engine.batch([image]), engine.close):
        try:
            call()
            os._exit(1)
        except foveate_engine.EngineError as error:
            assert "after the fork" in str(error), error
    own = foveate_engine.Engine("cpu").pyramid(image).sample()
    assert len(own)
    del pyramid, engine
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(len(pyramid.sample()))
"""
        devices = [("cpu", None)]
        if not os.environ.get("FOVEATE_WITHOUT_VULKAN"):
            devices.append(("vulkan", os.environ.get("FOVEATE_TEST_DEVICE", "llvmpipe")))  # type: ignore[arg-type]
        for backend, device in devices:
            # From Python 3.12 on, it warns of every fork of a process with threads.
            done = run(code % (backend, device), PYTHONWARNINGS="ignore:This process:DeprecationWarning")
            self.assertEqual((done.returncode, done.stderr), (0, ""), backend)


if __name__ == "__main__":
    unittest.main()
