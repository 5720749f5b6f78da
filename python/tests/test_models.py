"""What models take from a frame, with NumPy alone: against the definitions, and against what the real libraries computed
(``data/models.npz``, which ``record_models.py`` writes)."""

from __future__ import annotations

import subprocess
import sys
import unittest
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from models_support import CLIP, NONE, SIGLIP, foveal, frame, inset, scene, uniform, windows
from support import PACKAGE_ROOT, foveate

from foveate import models
from foveate.models import Unsuitable, common, qwen, qwen2_5_vl, qwen3_vl, vit, weighted_grid

RECORDED = np.load(Path(__file__).parent / "data" / "models.npz")
FAMILIES = ((qwen2_5_vl, CLIP, 28), (qwen3_vl, SIGLIP, 32))


def naive_row(picture: Any, row: int, column: int, patch: int, statistics: Any) -> Any:
    """The row of one patch of a picture, [3 * 2 * p * p]: channel, frame, row, column."""
    block = picture[row * patch : (row + 1) * patch, column * patch : (column + 1) * patch] / 255
    block = (block - statistics["mean"]) / statistics["std"]
    return np.concatenate([block[..., channel].ravel() for channel in (0, 0, 1, 1, 2, 2)])


class RowsOfQwen(unittest.TestCase):
    def test_as_the_processor_computed_them(self) -> None:
        for family, statistics, side in FAMILIES:
            name = family.MODEL.patch
            for patch in (side, side // 2):
                for dtype, keys, rounding in (("u8", {}, 1e-6), ("f32", statistics, 1e-6), ("f16", statistics, 1e-3)):
                    found = family.rows(uniform(scene(3 * side, 2 * side), patch, dtype=dtype, **keys))
                    np.testing.assert_array_equal(found.image_grid_thw, RECORDED[f"grid_{name}"])
                    rows = found.pixel_values[:, RECORDED[f"columns_{name}"]]
                    np.testing.assert_allclose(rows, RECORDED[f"rows_{name}"], rtol=0, atol=rounding)

    def test_are_the_patches_in_merge_order(self) -> None:
        for family, statistics, side in FAMILIES:
            picture = scene(4 * side, 3 * side)
            found = family.rows(uniform(picture, side))
            self.assertEqual(found.image_grid_thw.tolist(), [[1, 6, 8]])
            order = [
                (2 * row + y, 2 * column + x) for row in range(3) for column in range(4) for y in (0, 1) for x in (0, 1)
            ]
            want = [naive_row(picture, row, column, side // 2, statistics) for row, column in order]
            np.testing.assert_allclose(found.pixel_values, want, rtol=0, atol=1e-6)

    def test_of_coarse_views_are_those_of_the_smaller_picture(self) -> None:
        view = uniform(scene(28 * 8, 28 * 6), 28, step=2)
        small = common.pictures(view, view.pixels, "")[0].transpose(1, 2, 0)
        np.testing.assert_array_equal(
            qwen2_5_vl.rows(view).pixel_values, qwen2_5_vl.rows(uniform(small, 28)).pixel_values
        )

    def test_of_windows_are_one_picture_each(self) -> None:
        view = windows(scene(900, 500), 224, 2, 400, 300)
        found = qwen2_5_vl.rows(view)
        self.assertEqual(found.image_grid_thw.tolist(), [[1, 16, 16]] * 2)
        self.assertEqual(found.pixel_values.shape, (512, 1176))
        self.assertEqual(found.places[1].box, (176, 52, 624, 500))
        self.assertEqual(len(set(found.ids)), 2)

    def test_do_not_depend_on_the_dtype_beyond_its_rounding(self) -> None:
        want = qwen3_vl.rows(uniform(scene(96, 64), 32)).pixel_values
        for dtype, rounding in (("f32", 1e-7), ("f16", 2**-11), ("bf16", 2**-8)):
            found = qwen3_vl.rows(uniform(scene(96, 64), 32, dtype=dtype, **SIGLIP)).pixel_values
            self.assertEqual(found.dtype, np.float32)
            np.testing.assert_allclose(found, want, rtol=0, atol=rounding)


    def test_of_a_real_step_are_those_of_the_smaller_picture(self) -> None:
        view = uniform(scene(28 * 9, 28 * 6), 28, step=1.5)
        self.assertEqual(view.tokens["extra_width"].tolist(), [14] * 24)
        small = common.pictures(view, view.pixels, "")[0].transpose(1, 2, 0)
        found = qwen2_5_vl.rows(view)
        np.testing.assert_array_equal(found.pixel_values, qwen2_5_vl.rows(uniform(small, 28)).pixel_values)
        self.assertEqual(found.places[0], (0, 0, 1.5, 1.5, 168, 112))
        self.assertEqual(found.places[0].box, (0, 0, 252, 168))

    def test_of_an_inset_are_its_base_and_its_blocks(self) -> None:
        picture = scene(300, 210)
        view = inset(picture, 28, 42, [(90, 60, 28, 3, 2), (200, 120, 35, 2, 2)])
        found = qwen2_5_vl.rows(view)
        self.assertEqual(found.image_grid_thw.tolist(), [[1, 10, 16], [1, 4, 6], [1, 4, 4]])
        self.assertEqual(found.token_counts, (40, 6, 4))
        self.assertEqual([place.box for place in found.places], [(0, 0, 336, 210), (90, 60, 174, 116), (200, 120, 270, 190)])
        own = qwen2_5_vl.rows(uniform(picture[60:116, 90:174], 28))
        np.testing.assert_array_equal(found.pixel_values[160:184], own.pixel_values)
        self.assertEqual(len(set(found.ids)), 3)


class PicturesOfInsets(unittest.TestCase):
    def test_a_base_shows_the_block_where_the_block_took_its_tokens(self) -> None:
        picture = scene(301, 203)
        blocks = [(80, 60, 16, 5, 4), (285, 187, 20, 1, 1), (0, 190, 24, 4, 1)]
        view = inset(picture, 16, 24, blocks)
        self.assertLess(len(view.tokens), 13 * 9 + 20 + 1 + 4)
        base, first, *_ = common.pictures(view, view.pixels, "")
        expected = common.pictures(uniform(picture, 16, step=1.5), uniform(picture, 16, step=1.5).pixels, "")[0]
        np.testing.assert_array_equal(first, picture[60:124, 80:160].transpose(2, 0, 1))
        missing = np.ones((9, 13), bool)
        is_base = view.tokens["group"] == 0
        missing[view.tokens["y"][is_base] // 24, view.tokens["x"][is_base] // 24] = False
        # Those under two of the blocks; the one in the corner hangs over, and only its real part lies under a block.
        self.assertTrue(missing.any() and missing[8, 12] and not missing[0].any())
        texels = missing.repeat(16, 0).repeat(16, 1)
        np.testing.assert_array_equal(base[:, ~texels], expected[:, ~texels])
        # Texels of step 1 give the exact mean of their pixels; a mean of means is off by their rounding.
        exact = np.zeros_like(texels)
        exact[48:80, 64:96] = True
        self.assertTrue(texels[exact].all())
        np.testing.assert_array_equal(base[:, exact], expected[:, exact])
        self.assertLess(np.abs(base[:, texels].astype(int) - expected[:, texels]).mean(), 12)

    def test_a_block_shows_the_one_before_it_where_that_took_its_tokens(self) -> None:
        picture = scene(200, 160)
        blocks = [(32, 32, 16, 4, 4), (64, 48, 16, 4, 4)]
        view = inset(picture, 16, 40, blocks)
        self.assertEqual((view.tokens["group"] == 2).sum(), 16 - 6)
        base, *found = common.pictures(view, view.pixels, "")
        for drawn, (x, y, *_) in zip(found, blocks, strict=True):
            np.testing.assert_array_equal(drawn, picture[y : y + 64, x : x + 64].transpose(2, 0, 1))
        whole = uniform(picture, 16, step=2.5)
        expected = common.pictures(whole, whole.pixels, "")[0]
        # Both blocks have exact pixels.
        np.testing.assert_array_equal(base, expected)

    def test_a_base_that_blocks_cover_wholly_is_left_out(self) -> None:
        view = inset(scene(64, 48), 16, 24, [(0, 0, 16, 4, 3)])
        self.assertEqual([grid.place.box for grid in common.grids(view, "")], [(0, 0, 64, 48)])

    def test_the_windows_of_a_block_begin_at_its_corner(self) -> None:
        view = inset(scene(500, 400), 28, 80, [(99, 75, 28, 4, 4), (220, 200, 28, 4, 4)])
        order, edges = qwen.windows(qwen2_5_vl.tokens(view), 4)
        groups = [view.tokens["group"][order[first:end]].tolist() for first, end in pairwise(edges // 4)]
        for block in (1, 2):
            self.assertEqual([group for group in groups if block in group], [[block] * 16])

    def test_positions_are_the_centres_of_what_tokens_cover(self) -> None:
        view = inset(scene(501, 403), 28, 45, [(99, 75, 30, 3, 2)])
        tokens = qwen2_5_vl.tokens(view)
        for index, token in enumerate(view.tokens):
            side = 30 if token["group"] else 45
            if token["x"] + side > 501 or token["y"] + side > 403:
                continue
            # In patches of 14 pixels, the centre of the first at 0.
            x, y = ((int(token[axis]) + side / 4) / 14 - 0.5 for axis in ("x", "y"))
            step = side / 2 / 14
            expected = [[y, x], [y, x + step], [y + step, x], [y + step, x + step]]
            np.testing.assert_allclose(tokens.positions[4 * index : 4 * index + 4], expected, rtol=1e-6)
        self.assertTrue((tokens.positions <= (tokens.grid.rows - 1, tokens.grid.columns - 1)).all())

    def test_mrope_ids_of_every_real_step_are_unique(self) -> None:
        for side, width, height in ((29, 30 * 29 + 1, 97), (41, 611, 83), (57, 500, 333)):
            base = inset(scene(width, height), 28, side, [])
            ids = qwen2_5_vl.tokens(base).mrope.T.tolist()
            self.assertEqual(len(ids), len({tuple(one) for one in ids}))

    def test_every_cell_is_painted_by_the_finest_token_over_its_centre(self) -> None:
        view = inset(scene(300, 210), 16, 38, [(90, 60, 16, 3, 2)])
        owners = vit.owners(view)
        sides = np.where(view.tokens["group"] == 0, 38, 16)
        for row, column in np.ndindex(*owners.shape):
            x, y = column * 16 + 8, row * 16 + 8
            over = (view.tokens["x"] <= x) & (x < view.tokens["x"] + sides)
            over &= (view.tokens["y"] <= y) & (y < view.tokens["y"] + sides)
            self.assertEqual(owners[row, column], np.flatnonzero(over)[np.argmin(sides[over])])
        areas = np.exp(vit.log_area(view))
        np.testing.assert_allclose(areas[0], (38 / 16) ** 2, rtol=1e-6)


class TokensOfQwen(unittest.TestCase):
    def test_at_full_resolution_places_are_those_of_the_model(self) -> None:
        # Edges hang over.
        tokens = qwen2_5_vl.tokens(uniform(scene(28 * 14 - 9, 28 * 10 - 3), 28))
        np.testing.assert_array_equal(tokens.positions, RECORDED["position_ids"])
        order, edges = qwen.windows(tokens, 4)
        np.testing.assert_array_equal(order, RECORDED["window_index"])
        np.testing.assert_array_equal(edges, RECORDED["cu_window_seqlens"])
        indices, weights = qwen.table_taps(tokens, 48)
        np.testing.assert_array_equal(indices, RECORDED["interp_indices"])
        np.testing.assert_allclose(weights, RECORDED["interp_weights"], rtol=0, atol=1e-6)

    def test_the_rows_of_a_token_are_those_of_a_picture_of_it(self) -> None:
        view = foveal(scene(600, 400), 28, 100, 100)
        tokens = qwen2_5_vl.tokens(view)
        for index in (0, len(view.tokens) - 1):
            alone = qwen2_5_vl.rows(uniform(view.pixels[index].transpose(1, 2, 0), 28)).pixel_values
            np.testing.assert_array_equal(tokens.pixel_values[4 * index : 4 * index + 4], alone)

    def test_a_large_token_lies_in_the_middle_of_the_cells_that_it_covers(self) -> None:
        specs = [(56, 112, 56, 56, 1), (0, 28, 28, 28, 0), (112, 0, 112, 112, 2)]
        view = frame(scene(28 * 8, 28 * 8), specs, 28, "foveal")
        tokens = qwen2_5_vl.tokens(view)
        # Its patches are 2 x 2 patches of the grid each: columns 4 5 | 6 7, rows 8 9 | 10 11.
        self.assertEqual(tokens.positions[:4].tolist(), [[8.5, 4.5], [8.5, 6.5], [10.5, 4.5], [10.5, 6.5]])
        self.assertEqual(tokens.positions[4:8].tolist(), [[2, 0], [2, 1], [3, 0], [3, 1]])
        # The cell at the centre, or the one above and to the left of it.
        self.assertEqual(tokens.mrope.T.tolist(), [[0, 4, 2], [0, 1, 0], [0, 1, 5]])
        self.assertEqual((tokens.grid.rows, tokens.grid.columns, tokens.mrope_side), (16, 16, 8))

    def test_places_are_inside_the_table_and_mrope_ids_are_unique(self) -> None:
        for width, height, x, y in ((901, 613, 5, 600), (333, 999, 300, 20), (64, 64, 32, 32), (29, 1500, 9, 9)):
            tokens = qwen3_vl.tokens(foveal(scene(width, height), 32, x, y, coarsest=4))
            self.assertTrue((tokens.positions >= 0).all())
            self.assertTrue((tokens.positions <= (tokens.grid.rows - 1, tokens.grid.columns - 1)).all())
            indices, weights = qwen.table_taps(tokens, 48)
            self.assertTrue((0 <= indices).all() and (indices < 48 * 48).all())
            np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-5)
            ids = tokens.mrope.T.tolist()
            self.assertEqual(len(ids), len({tuple(one) for one in ids}))
            self.assertLess(tokens.mrope.max(), tokens.mrope_side)

    def test_each_window_holds_tokens_of_one_size_in_one_place(self) -> None:
        view = foveal(scene(1280, 720), 28, 500, 300)
        tokens = qwen2_5_vl.tokens(view)
        order, edges = qwen.windows(tokens, 4)
        self.assertEqual(sorted(order.tolist()), list(range(len(view.tokens))))
        self.assertEqual((int(edges[0]), int(edges[-1])), (0, 4 * len(view.tokens)))
        seen = set()
        for first, end in pairwise(edges // 4):
            places = {
                (int(token["sx"]), int(token["x"]) // (112 * token["sx"]), int(token["y"]) // (112 * token["sy"]))
                for token in view.tokens[order[first:end]]
            }
            self.assertEqual(len(places), 1)
            self.assertFalse(places & seen)
            seen |= places

    def test_mrope_ids_are_those_of_the_model(self) -> None:
        pictures = [uniform(scene(3 * 28, 2 * 28), 28), uniform(scene(2 * 28, 4 * 28), 28)]
        tokens = [qwen2_5_vl.tokens(view) for view in pictures]
        ids, delta = qwen.mrope_ids(RECORDED["mrope_kinds"] == 1, *tokens)
        np.testing.assert_array_equal(ids, RECORDED["mrope_ids"][:, 0])
        self.assertEqual(delta, RECORDED["mrope_delta"].item())
        with self.assertRaises(Unsuitable) as caught:
            qwen.mrope_ids([0, 1, 1, 0], *tokens)
        self.assertEqual((caught.exception.key, caught.exception.value), ("is_image", [2]))


class PlacesComeBack(unittest.TestCase):
    def test_points_of_a_picture_are_source_pixels(self) -> None:
        view = windows(scene(900, 500), 224, 2, 400, 300)
        fine, coarse = qwen2_5_vl.rows(view).places
        self.assertEqual(fine.box, (288, 188, 512, 412))
        self.assertEqual(fine.source_from_image([10, 20]).tolist(), [298, 208])
        self.assertEqual(coarse.source_from_image([[10, 20], [224, 224]]).tolist(), [[196, 92], [624, 500]])
        # In thousandths of the picture, as Qwen3-VL answers.
        self.assertEqual(coarse.source_from_image([500, 250], size=(1000, 1000)).tolist(), [400, 164])
        self.assertEqual(coarse.source_from_image([20, 40], size=(448, 448)).tolist(), [196, 92])

    def test_there_and_back(self) -> None:
        place = models.Place(-7, 13, 4, 2, 448, 224)
        points = np.random.default_rng(0).normal(size=(3, 5, 2)) * 100
        for size in (None, (1000, 1000), (333, 77.5)):
            np.testing.assert_allclose(place.image_from_source(place.source_from_image(points, size), size), points)

    def test_bad_points_and_sizes_are_refused(self) -> None:
        place = models.Place(0, 0, 1, 1, 10, 10)
        for key, give in (
            ("points", lambda: place.source_from_image([1, 2, 3, 4])),
            ("points", lambda: place.image_from_source(3)),
            ("size", lambda: place.source_from_image([1, 2], size=(0, 5))),
        ):
            with self.assertRaises(Unsuitable) as caught:
                give()
            self.assertEqual(caught.exception.key, key)


class TokensOfVisionTransformers(unittest.TestCase):
    def test_positions_are_those_that_timm_gives_a_picture_of_that_size(self) -> None:
        table = RECORDED["table"][0]
        for name, rows, columns in (("table_7x9", 7, 9), ("table_3x2", 3, 2)):
            weights = vit.position_weights(uniform(scene(16 * columns, 16 * rows), 16), (4, 5))
            np.testing.assert_allclose(weights @ table, RECORDED[name][0], rtol=0, atol=1e-5)

    def test_positions_of_the_own_size_are_the_table(self) -> None:
        weights = vit.position_weights(uniform(scene(16 * 5, 16 * 4), 16), (4, 5))
        np.testing.assert_array_equal(weights, np.eye(20, dtype=np.float32))

    def test_a_larger_token_has_the_mean_of_the_places_of_its_cells(self) -> None:
        cells = vit.position_weights(uniform(scene(128, 96), 16), (4, 5)).reshape(6, 8, 20)
        view = frame(scene(128, 96), [(32, 16, 32, 32, 1), (64, 0, 64, 64, 2), (0, 64, 48, 48, 1)], 16, "foveal")
        # The last is cut at the lower edge.
        expected = [cells[1:3, 2:4], cells[0:4, 4:8], cells[4:6, 0:3]]
        weights = vit.position_weights(view, (4, 5))
        np.testing.assert_allclose(weights, [part.mean((0, 1)) for part in expected], rtol=0, atol=1e-6)

    def test_areas_count_cells(self) -> None:
        view = frame(
            scene(64, 40), [(0, 0, 16, 16, 0), (32, 0, 32, 32, 1), (0, 32, 16, 16, 0), (64, 0, 16, 16, 0)], 16, "rings"
        )
        areas = np.exp(vit.log_area(view)).tolist()
        # Half of the third lies below the picture, and all of the fourth beyond it.
        np.testing.assert_allclose(areas, [1, 4, 0.5, 0], rtol=1e-6)

    def test_every_cell_is_painted_by_the_token_that_covers_it(self) -> None:
        view = foveal(scene(500, 333), 16, 200, 100)
        owners = vit.owners(view)
        self.assertEqual(owners.shape, (21, 32))
        for row in range(21):
            for column in range(32):
                token = view.tokens[owners[row, column]]
                left, top, side = int(token["x"]), int(token["y"]), 16 * int(token["sx"])
                self.assertTrue(left <= column * 16 + 8 < left + side and top <= row * 16 + 8 < top + side)
        dense = vit.paint(view, view.tokens["sx"].astype(np.float32))
        np.testing.assert_array_equal(dense, view.tokens["sx"][owners])

    def test_the_finest_token_paints_and_gaps_stay_empty(self) -> None:
        view = frame(scene(64, 64), [(0, 0, 32, 32, 1), (16, 16, 16, 16, 0)], 16, "rings")
        dense = vit.paint(view, np.array([[2.0], [1.0]]))[..., 0]
        want = np.full((4, 4), np.nan)
        want[:2, :2] = 2
        want[1, 1] = 1
        np.testing.assert_array_equal(dense, want)
        with self.assertRaises(Unsuitable) as caught:
            vit.paint(view, np.zeros((3, 8)))
        self.assertEqual(caught.exception.key, "values")


class WeightsOfAGrid(unittest.TestCase):
    def test_are_the_mean_relevance_of_the_pixels_under_each_patch(self) -> None:
        chance = np.random.default_rng(0)
        view = foveal(scene(300, 200), 16, 90, 50)
        view.tokens["relevance"] = chance.uniform(1 / 16, 16, len(view.tokens))
        picture = np.empty((200, 300))
        for token in view.tokens:
            x0, y0, x1, y1 = token["box"]
            picture[y0:y1, x0:x1] = token["relevance"]
        want = picture.reshape(10, 20, 12, 25).mean(axis=(1, 3))
        np.testing.assert_allclose(weighted_grid.weights(view, 10, 12), want, rtol=1e-5)
        # A part of the picture.
        want = picture[20:120, 30:180].reshape(4, 25, 6, 25).mean(axis=(1, 3))
        np.testing.assert_allclose(weighted_grid.weights(view, 4, 6, box=(30, 20, 180, 120)), want, rtol=1e-5)

    def test_of_a_letterboxed_input_are_those_given_beyond_the_picture(self) -> None:
        view = uniform(scene(160, 80), 16, relevance=3.0)
        weights = weighted_grid.weights(view, 4, 4, box=(0, -40, 160, 120), uncovered=-1)
        self.assertEqual(weights.tolist(), [[-1] * 4, [3] * 4, [3] * 4, [-1] * 4])

    def test_bad_grids_and_boxes_are_refused(self) -> None:
        view = uniform(scene(160, 80), 16)
        for key, give in (
            ("rows x columns", lambda: weighted_grid.weights(view, 0, 4)),
            ("box", lambda: weighted_grid.weights(view, 4, 4, box=(10, 0, 10, 5))),
        ):
            with self.assertRaises(Unsuitable) as caught:
                give()
            self.assertEqual(caught.exception.key, key)


class NamesOfContents(unittest.TestCase):
    def test_are_equal_exactly_if_the_bytes_must_be(self) -> None:
        picture = scene(300, 200)

        def view(x: int = 90, **keys: Any) -> str:
            return models.content_id(foveal(picture, 16, x, 50, **keys))

        before = view()
        self.assertEqual(before, view(relevance=2.0))
        for other in (view(changed_frame=8), view(epoch=1), view(x=200)):
            self.assertNotEqual(before, other)
        for extra in ("extra_width", "extra_height"):
            larger = foveal(picture, 16, 90, 50)
            larger.tokens[extra][3] += 1
            self.assertNotEqual(before, models.content_id(larger))
        one = foveal(picture, 16, 90, 50)
        one.tokens["changed_frame"][3] = 5
        self.assertNotEqual(before, models.content_id(one))
        self.assertNotEqual(models.content_id(one), models.content_id(one, what="png"))
        self.assertIn("f0", before)


    def test_stand_for_what_a_server_has_cached(self) -> None:
        self.assertEqual(
            models.vllm.cached_part("a", "image_url"), {"type": "image_url", "image_url": None, "uuid": "a"}
        )


class UnsuitableViews(unittest.TestCase):
    def test_are_refused_with_the_key_the_value_and_what_would_do(self) -> None:
        picture = scene(448, 448)
        cases = [
            (qwen2_5_vl.rows, foveal(picture, 28, 9, 9), "layout", "foveal", '"uniform", "inset" or "windows"'),
            (qwen2_5_vl.rows, uniform(scene(320, 320), 32), "patch", 32, "patch = 28"),
            (qwen3_vl.rows, windows(picture, 230, 1, 9, 9), "patch", 230, "patch = 32"),
            # An odd count of patches cannot be merged.
            (qwen3_vl.rows, uniform(scene(48, 32), 16), "patch", 16, "patch = 32"),
            (qwen2_5_vl.tokens, foveal(picture, 32, 9, 9), "patch", 32, "28"),
            (qwen3_vl.tokens, foveal(picture, 28, 9, 9), "patch", 28, "32"),
            (qwen3_vl.tokens, frame(picture, [], 32, "foveal"), "tokens", 0, "at least one"),
            (qwen3_vl.rows, frame(picture, [], 224, "windows"), "tokens", 0, "at least one"),
            (
                qwen2_5_vl.rows,
                uniform(picture, 28, dtype="f16", **SIGLIP),
                "normalisation",
                SIGLIP,
                'normalisation = "clip", or with dtype = "u8"',
            ),
            (
                qwen3_vl.tokens,
                uniform(picture, 32, dtype="bf16", **NONE),
                "normalisation",
                NONE,
                'normalisation = "siglip"',
            ),
        ]
        for give, view, key, value, remedy in cases:
            with self.subTest(key=key, value=value):
                with self.assertRaises(Unsuitable) as caught:
                    give(view)
                error = caught.exception
                self.assertIsInstance(error, foveate.FoveateError)
                self.assertEqual((error.key, error.value), (key, value))
                for part in (key, str(value), remedy):
                    self.assertIn(part, str(error))

    def test_a_base_with_a_hole_that_no_block_covers_is_refused(self) -> None:
        view = inset(scene(64, 64), 32, 33, [])
        view.tokens, view.pixels = view.tokens[:3], view.pixels[:3]
        with self.assertRaises(Unsuitable) as caught:
            qwen3_vl.rows(view)
        self.assertEqual((caught.exception.key, caught.exception.value), ("tokens", 3))

    def test_a_grid_that_is_not_full_is_refused(self) -> None:
        view = uniform(scene(64, 64), 32)
        view.tokens, view.pixels = view.tokens[:3], view.pixels[:3]
        with self.assertRaises(Unsuitable) as caught:
            qwen3_vl.rows(view)
        self.assertEqual((caught.exception.key, caught.exception.value), ("grid", (2, 2)))

    def test_a_dtype_of_a_later_daemon_is_refused(self) -> None:
        view = uniform(scene(64, 64), 32, dtype="f32", **SIGLIP)
        view.info.dtype = "i16"
        with self.assertRaises(Unsuitable) as caught:
            qwen3_vl.rows(view)
        self.assertEqual((caught.exception.key, caught.exception.value), ("dtype", "i16"))


class Imports(unittest.TestCase):
    def test_need_numpy_alone_and_say_what_is_missing(self) -> None:
        """In a process where no other library can be imported."""
        code = """
import sys
for name in ("torch", "timm", "transformers", "PIL", "torchvision"):
    sys.modules[name] = None
sys.path[:0] = [%r, %r]
from foveate import models
from models_support import scene, uniform
view = uniform(scene(64, 64), 32)
rows = models.qwen3_vl.rows(view)
for give in (
    lambda: models.crops.crops(view),
    lambda: models.qwen3_vl.tensors(rows),
    lambda: models.vit.features(None, view),
):
    try:
        give()
    except models.MissingLibrary as error:
        print(error)
"""
        paths = (str(PACKAGE_ROOT), str(Path(__file__).parent))
        run = subprocess.run([sys.executable, "-c", code % paths], capture_output=True, text=True, check=True)
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), 3, run.stderr)
        for line, package in zip(lines, ("Pillow", "torch", "torch"), strict=True):
            self.assertIn(f"pip install {package}", line)


if __name__ == "__main__":
    unittest.main()
