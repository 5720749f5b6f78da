"""Laws of ``foveate.models.VideoEncoder``: exact where all is computed, nothing computed where nothing changed, and what is
computed attends to what is kept.

Models are tiny and have random weights. ``scripts/test.sh --long`` installs the libraries; elsewhere these are skipped.
"""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

import numpy as np
from models_support import foveal, module_or_skip, scene, uniform
from support import foveate
from test_models_real import FAMILIES, lively, timm_model, tower, whole_model

from foveate import models
from foveate.models import qwen2_5_vl, qwen3_vl, vit
from foveate.models.canvas_tokens import CanvasTokens
from foveate.models.video import EncodedFrame, VideoEncoder


def changed(frame: Any, indices: Any, number: int = 8, levels: int = 90) -> Any:
    """The frame after one in which some tokens changed."""
    tokens, pixels = frame.tokens.copy(), frame.pixels.copy()
    tokens["changed_frame"][indices] = number
    pixels[indices] = pixels[indices] ^ levels
    return SimpleNamespace(info=frame.info, tokens=tokens, pixels=pixels)


def permuted(frame: Any, order: Any) -> Any:
    return SimpleNamespace(info=frame.info, tokens=frame.tokens[order], pixels=frame.pixels[order])


class Calls:
    """Counts the rows that go through the first block of a model."""

    def __init__(self, model: Any) -> None:
        self.rows = 0
        model.blocks[0].norm1.register_forward_hook(self._count)

    def _count(self, module: Any, inputs: Any, output: Any) -> None:
        self.rows += output.shape[-2]


class EncodersOfVisionTransformers(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        module_or_skip("timm")
        self.enterContext(self.torch.no_grad())

    def close(self, found: Any, want: Any) -> None:
        self.torch.testing.assert_close(found, want, rtol=0, atol=2e-5)

    def test_all_changed_is_the_full_run(self) -> None:
        for name, patch, bias in (
            ("vit_tiny_patch16_224", 16, 0),
            ("vit_tiny_patch16_224", 16, 0.5),
            ("vit_small_patch14_reg4_dinov2", 14, 0),
            ("vit_base_patch16_siglip_224", 16, 0),
        ):
            model = timm_model(name)
            encoder = VideoEncoder(model, area_bias=bias, full_share=1, tolerance=0)
            for seed in (1, 2):
                frame = foveal(scene(500, 333, seed), patch, 200, 100, changed_frame=seed)
                with self.subTest(model=name, bias=bias, seed=seed):
                    self.close(encoder.encode(frame), vit.features(model, frame, bias))
                    self.assertEqual(encoder.last, EncodedFrame(len(frame.tokens), len(frame.tokens), True))

    def test_nothing_changed_computes_nothing(self) -> None:
        model = timm_model()
        calls, encoder = Calls(model), VideoEncoder(model, full_every=2)
        frame = foveal(scene(500, 333), 16, 200, 100)
        first = encoder.encode(frame)
        before = calls.rows
        for _ in range(5):
            again = encoder.encode(permuted(frame, slice(None)))
            self.assertTrue(self.torch.equal(again, first))
            self.assertEqual(encoder.last, EncodedFrame(len(frame.tokens), 0, True))
        self.assertEqual(calls.rows, before)
        again[:] = 0
        self.assertTrue(self.torch.equal(encoder.encode(frame), first))

    def test_changed_tokens_attend_to_all(self) -> None:
        """With one block, keys and values of a token depend on it alone, so what is computed is exact."""
        for bias in (0, 0.5):
            model = lively(module_or_skip("timm").create_model("vit_tiny_patch16_224", pretrained=False, depth=1))
            calls, encoder = Calls(model), VideoEncoder(model, area_bias=bias)
            frame = foveal(scene(500, 333), 16, 200, 100)
            before = encoder.encode(frame)
            rows, indices = calls.rows, np.array([3, 40, 41, 77])
            now = changed(frame, indices)
            found, want = encoder.encode(now), vit.features(model, now, bias)
            self.assertEqual(encoder.last, EncodedFrame(len(frame.tokens), 4, False))
            self.assertEqual(calls.rows, rows + 1 + 4 + 1 + len(frame.tokens))
            self.close(found[0, 0], want[0, 0])
            self.close(found[0, 1 + indices], want[0, 1 + indices])
            others = np.setdiff1d(np.arange(len(frame.tokens)), indices)
            self.assertTrue(self.torch.equal(found[0, 1 + others], before[0, 1 + others]))
            self.assertGreater((want[0, 1 + others] - before[0, 1 + others]).abs().max().item(), 1e-3)

    def test_moved_tokens_take_the_places_of_those_that_are_gone(self) -> None:
        for bias in (0, 0.5):
            model = lively(module_or_skip("timm").create_model("vit_tiny_patch16_224", pretrained=False, depth=1))
            encoder = VideoEncoder(model, area_bias=bias, full_share=1, full_after=100)
            chance = np.random.default_rng(5)
            known: set[Any] = set()
            for number in range(9):
                x, y = chance.integers(0, (500, 333)).tolist()
                frame = foveal(scene(500, 333), 16, x, y)
                if number % 3 == 2:
                    frame = permuted(frame, chance.permutation(len(frame.tokens))[: len(frame.tokens) // 2])
                places = [tuple(place) for place in frame.tokens[["x", "y", "sx"]].tolist()]
                fresh = np.array([place not in known for place in places])
                known = set(places)
                found = encoder.encode(frame)
                self.assertEqual(encoder.last.computed, fresh.sum())
                want = vit.features(model, frame, bias)
                self.close(found[0, 0], want[0, 0])
                self.close(found[0, 1:][fresh], want[0, 1:][fresh])

    def test_a_full_run_restores_exactness(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model, full_every=3)
        frame = foveal(scene(500, 333), 16, 200, 100)
        encoder.encode(frame)
        exact = []
        for number in range(8, 16):
            frame = changed(frame, [number, number + 30], number)
            found = encoder.encode(frame)
            difference = (found - vit.features(model, frame)).abs().max().item()
            exact.append(difference < 2e-5)
            self.assertEqual(encoder.last.is_full, exact[-1])
        self.assertEqual(exact, [False, False, False, True] * 2)

    def test_much_change_in_all_is_followed_by_a_full_run(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model, full_after=0.5)
        frame = uniform(scene(224, 224), 16)
        encoder.encode(frame)
        computed = []
        for number in range(8, 15):
            frame = changed(frame, np.arange(40), number)
            encoder.encode(frame)
            computed.append(encoder.last.computed)
        self.assertEqual(computed, [40, 40, 40, 196, 40, 40, 40])

    def test_a_scene_that_rests_becomes_exact(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model, full_every=3)
        frame = foveal(scene(500, 333), 16, 200, 100)
        encoder.encode(frame)
        frame = changed(frame, [5])
        computed = []
        for _ in range(7):
            found = encoder.encode(frame)
            computed.append(encoder.last.computed)
        self.assertEqual(computed, [1, 0, 0, len(frame.tokens), 0, 0, 0])
        self.close(found, vit.features(model, frame))

    def test_what_rests_after_much_change_is_exact_at_once(self) -> None:
        model = timm_model()
        for share, expected in ((0.25, [0, 0, 0]), (0.35, [1, 0, 0])):
            encoder = VideoEncoder(model)
            frame = uniform(scene(224, 224), 16)
            encoder.encode(frame)
            count = len(frame.tokens)
            frame = changed(frame, np.arange(int(share * count)))
            encoder.encode(frame)
            computed = []
            for _ in range(3):
                found = encoder.encode(frame)
                computed.append(encoder.last.computed // count)
            self.assertEqual(computed, expected)
        self.close(found, vit.features(model, frame))

    def test_order_of_tokens_does_not_matter(self) -> None:
        model = timm_model()
        frame = foveal(scene(500, 333), 16, 200, 100)
        now = changed(frame, np.arange(0, 60, 5))
        order = np.random.default_rng(1).permutation(len(frame.tokens))
        outputs = []
        for chosen in (slice(None), order):
            encoder = VideoEncoder(model)
            encoder.encode(frame)
            outputs.append(encoder.encode(permuted(now, chosen))[0, 1:])
            self.assertEqual(encoder.last.computed, 12)
        self.close(outputs[1], outputs[0][order])

    def test_another_segment_or_layout_begins_anew(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model)
        first = uniform(scene(224, 224), 16)
        encoder.encode(first)
        other = scene(224, 224, 2)
        for key, frame in (
            ("epoch", uniform(other, 16, epoch=0xF1)),
            ("extent", uniform(other[:200], 16, epoch=0xF1)),
            ("layout", foveal(other[:200], 16, 90, 90, epoch=0xF1)),
            ("dtype", foveal(other[:200], 16, 90, 90, epoch=0xF1, dtype="f32", mean=model.pretrained_cfg["mean"],
                             std=model.pretrained_cfg["std"])),
        ):
            with self.subTest(key=key):
                self.close(encoder.encode(frame), vit.features(model, frame))
                self.assertEqual(encoder.last.computed, len(frame.tokens))
        encoder.reset()
        encoder.encode(frame)
        self.assertEqual(encoder.last.computed, len(frame.tokens))

    def test_small_differences_are_noise_until_they_add_up(self) -> None:
        model = timm_model()
        statistics = {key: model.pretrained_cfg[key] for key in ("mean", "std")}
        picture = np.full((112, 112, 3), 60, np.uint8)
        for keys in ({}, dict(dtype="f32", **statistics), dict(dtype="bf16", **statistics)):
            encoder = VideoEncoder(model, tolerance=5, full_every=0)
            computed = []
            for number in range(12):
                encoder.encode(uniform(picture + np.uint8(2 * number), 16, changed_frame=number, **keys))
                computed.append(encoder.last.computed)
            self.assertEqual(computed, [49, 0, 0] * 4)

    def test_equal_bytes_are_kept_whatever_their_number(self) -> None:
        encoder = VideoEncoder(timm_model(), tolerance=0)
        for number in (1, 2, 3):
            encoder.encode(uniform(scene(224, 224), 16, changed_frame=number))
        self.assertEqual((encoder.last.computed, encoder.last.is_full), (0, True))
        self.assertEqual((encoder.tokens, encoder.computed), (3 * 196, 196))

    def test_much_change_is_computed_in_full(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model, full_share=0.5)
        frame = uniform(scene(224, 224), 16)
        encoder.encode(frame)
        frame = changed(frame, np.arange(98))
        encoder.encode(frame)
        self.assertEqual(encoder.last.computed, 98)
        frame = changed(frame, np.arange(99), 9)
        self.close(encoder.encode(frame), vit.features(model, frame))
        self.assertEqual(encoder.last, EncodedFrame(196, 196, True))

    def test_a_frame_that_fails_is_computed_again(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model)
        frame = uniform(scene(224, 224), 16)
        encoder.encode(frame)
        frame = changed(frame, [3])

        def fail(*arguments: Any) -> None:
            raise MemoryError

        hook = model.blocks[1].norm1.register_forward_pre_hook(fail)
        with self.assertRaises(MemoryError):
            encoder.encode(frame)
        hook.remove()
        self.close(encoder.encode(frame), vit.features(model, frame))

    def test_more_tokens_than_ever_are_all_computed(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model)
        frame = uniform(scene(224, 224), 16)
        frame.info.capacity = 150
        encoder.encode(permuted(frame, slice(150)))
        self.close(encoder.encode(frame), vit.features(model, frame))
        self.assertEqual(encoder.last, EncodedFrame(196, 196, True))

    def test_two_tokens_of_one_place_are_two(self) -> None:
        model = timm_model()
        frame = uniform(scene(64, 64), 16)
        twice = permuted(frame, np.array([0, 1, 2, 2, 3, 3, 3]))
        encoder = VideoEncoder(model)
        for number in (1, 2):
            self.close(encoder.encode(twice), vit.features(model, twice))
            self.assertEqual(encoder.last.computed, 7 if number == 1 else 0)

    def test_what_does_not_fit_is_refused(self) -> None:
        timm, model = module_or_skip("timm"), timm_model()
        post = timm.create_model("vit_relpos_small_patch16_224", pretrained=False, depth=1).eval()
        for key, make in (
            ("tolerance", lambda: VideoEncoder(model, tolerance=-1)),
            ("tolerance", lambda: VideoEncoder(model, tolerance=float("nan"))),
            ("full_every", lambda: VideoEncoder(model, full_every=-1)),
            ("full_after", lambda: VideoEncoder(model, full_after=0)),
            ("full_share", lambda: VideoEncoder(model, full_share=1.5)),
            ("budget", lambda: VideoEncoder(model, budget=0)),
            ("area_bias", lambda: VideoEncoder(model, area_bias=2)),
            ("model", lambda: VideoEncoder(post)),
            ("model.training", lambda: VideoEncoder(timm_model().train())),
            ("area_bias", lambda: VideoEncoder(tower(qwen3_vl), area_bias=1)),
            ("patch", lambda: VideoEncoder(model).encode(uniform(scene(224, 224), 14))),
            ("frame", lambda: VideoEncoder(model).encode(foveate.Canvas())),
        ):
            with self.subTest(key=key), self.assertRaises(models.Unsuitable) as caught:
                make()
            self.assertEqual(caught.exception.key, key)

    def test_a_canvas_is_encoded_and_only_what_changed(self) -> None:
        model = timm_model()
        encoder = VideoEncoder(model, budget=150, tolerance=0)
        canvas = canvas_of(scene(320, 240), 16)
        self.close(encoder.encode(canvas), vit.features(model, encoder.frame))
        count = len(encoder.frame.tokens)
        self.assertEqual(encoder.last.computed, count)
        encoder.encode(canvas)
        self.assertEqual(encoder.last.computed, 0)
        canvas.pixels[16:32, 32:48] = 255
        canvas.frame_seq += 1
        encoder.encode(canvas)
        self.assertTrue(0 < encoder.last.computed < count / 4)


class EncodersOfQwen(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        module_or_skip("transformers")
        self.enterContext(self.torch.no_grad())

    def close(self, found: Any, want: Any) -> None:
        for ours, theirs in zip(
            (found.pooler_output, *found.deepstack_features),
            (want.pooler_output, *getattr(want, "deepstack_features", [])),
            strict=True,
        ):
            self.torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)

    def test_all_changed_is_the_full_run(self) -> None:
        for family, _, side in FAMILIES:
            visual = tower(family)
            encoder = VideoEncoder(visual, full_share=1, tolerance=0)
            for seed in (1, 2):
                frame = foveal(scene(900, 600, seed), side, 300, 200, changed_frame=seed)
                with self.subTest(family=family.__name__):
                    self.close(encoder.encode(frame), family.tower(visual, family.tokens(frame)))
                    self.assertEqual(encoder.last.computed, len(frame.tokens))

    def test_nothing_changed_computes_nothing(self) -> None:
        for family, _, side in FAMILIES:
            visual = tower(family)
            calls, encoder = Calls(visual), VideoEncoder(visual)
            frame = foveal(scene(900, 600), side, 300, 200)
            first = encoder.encode(frame)
            before = calls.rows
            again = encoder.encode(frame)
            self.assertEqual(calls.rows, before)
            self.assertTrue(self.torch.equal(again.pooler_output, first.pooler_output))

    def test_a_whole_model_takes_what_was_encoded(self) -> None:
        for family, _, side in FAMILIES:
            model = whole_model(family)
            encoder = VideoEncoder(model.model.visual)
            frame = foveal(scene(900, 600), side, 300, 200)
            tokens = family.tokens(frame)
            prompt = self.torch.tensor([[1, 62, *[60] * len(frame.tokens), 63, 3]])
            want = model(**family.model_arguments(model, prompt, tokens)).logits
            output = encoder.encode(frame)
            found = model(**family.model_arguments(model, prompt, tokens, output=output)).logits
            self.torch.testing.assert_close(found, want, rtol=0, atol=1e-4)
            short = output._replace(pooler_output=output.pooler_output[1:])
            for key, images in ((short, tokens), (output, family.rows(uniform(scene(64, 64), side)))):
                with self.assertRaises(models.Unsuitable) as caught:
                    family.model_arguments(model, prompt, images, output=key)
                self.assertEqual(caught.exception.key, "output")

    def test_changed_tokens_attend_to_all_of_their_window(self) -> None:
        """With one block that is exact."""
        for family, windowed in ((qwen2_5_vl, False), (qwen2_5_vl, True), (qwen3_vl, False)):
            visual, side = tower(family), family.MODEL.side
            visual.blocks = visual.blocks[:1]
            if family is qwen2_5_vl:
                visual.fullatt_block_indexes = [] if windowed else [0]
            encoder = VideoEncoder(visual)
            frame = foveal(scene(900, 600), side, 300, 200)
            encoder.encode(frame)
            indices = np.array([0, 3, 17, 30, len(frame.tokens) - 1])
            now = changed(frame, indices)
            found, want = encoder.encode(now), family.tower(visual, family.tokens(now))
            self.assertEqual(encoder.last, EncodedFrame(len(frame.tokens), 5, False))
            with self.subTest(family=family.__name__, windowed=windowed):
                self.torch.testing.assert_close(
                    found.pooler_output[indices], want.pooler_output[indices], rtol=0, atol=2e-5
                )


def canvas_of(picture: Any, patch: int, step: int = 1) -> Any:
    """A canvas that shows a picture at one step."""
    canvas = foveate.Canvas()
    height, width = picture.shape[:2]
    canvas._open(SimpleNamespace(epoch=5, extent=(width, height), patch=patch, dtype="u8"), np.dtype(np.uint8))
    canvas.steps[:], canvas.frames[:], canvas.frame_seq = step, 1, 1
    canvas.pixels[:] = picture
    return canvas


class TokensOfACanvas(unittest.TestCase):
    def test_they_cover_the_picture_once_within_the_budget(self) -> None:
        for width, height, patch in ((320, 240, 16), (333, 211, 16), (301, 203, 14), (640, 97, 28)):
            canvas = canvas_of(scene(width, height), patch)
            canvas.steps[: canvas.steps.shape[0] // 2] = 4
            for budget in (1, 7, 60, 10_000):
                frame = CanvasTokens(budget).update(canvas)
                with self.subTest(extent=(width, height), patch=patch, budget=budget):
                    self.assertLessEqual(len(frame.tokens), budget)
                    covered = np.zeros((height, width), int)
                    for x0, y0, x1, y1 in frame.tokens["box"].tolist():
                        covered[y0:y1, x0:x1] += 1
                    self.assertTrue((covered == 1).all())

    def test_texels_are_the_means_of_the_canvas(self) -> None:
        picture = scene(320, 240)
        frame = CanvasTokens(100).update(canvas_of(picture, 16))
        self.assertGreater(len(np.unique(frame.tokens["sx"])), 1)
        for token, texels in zip(frame.tokens, frame.pixels, strict=True):
            x, y, step = (int(token[name]) for name in ("x", "y", "sx"))
            side = 16 * step
            if x + side <= 320 and y + side <= 240:
                block = picture[y : y + side, x : x + side].reshape(16, step, 16, step, 3).mean((1, 3))
                np.testing.assert_allclose(texels.transpose(1, 2, 0), block, rtol=0, atol=0.51)

    def test_no_token_is_finer_than_the_canvas(self) -> None:
        canvas = canvas_of(scene(320, 240), 16)
        canvas.steps[:, 10:] = 2
        frame = CanvasTokens(10_000).update(canvas)
        fine = frame.tokens["box"][frame.tokens["sx"] == 1]
        self.assertEqual(len(fine), 150)
        self.assertTrue((fine[:, 2] <= 160).all())

    def test_the_finest_are_where_most_would_be_lost(self) -> None:
        picture = np.full((256, 256, 3), 90, np.uint8)
        picture[64:128, 192:256] = scene(64, 64)
        canvas = canvas_of(picture, 16)
        canvas.steps[0, 0] = 8
        frame = CanvasTokens(24).update(canvas)
        fine = frame.tokens["box"][frame.tokens["sx"] == 1]
        self.assertEqual(len(fine), 16)
        self.assertTrue(((192 <= fine[:, 0]) & (64 <= fine[:, 1]) & (fine[:, 3] <= 128)).all())

    def test_numbers_change_with_the_texels_alone(self) -> None:
        tokens, canvas = CanvasTokens(80), canvas_of(scene(320, 240), 16)
        first = tokens.update(canvas)
        canvas.frame_seq = 9
        again = tokens.update(canvas)
        np.testing.assert_array_equal(again.tokens, first.tokens)
        canvas.pixels[20, 40] ^= 255
        canvas.frame_seq = 12
        now = tokens.update(canvas)
        self.assertEqual((now.tokens["changed_frame"] == 12).sum(), 1)

    def test_updating_is_rebuilding(self) -> None:
        chance, tokens, canvas = np.random.default_rng(2), CanvasTokens(10_000), canvas_of(scene(333, 211), 16)
        canvas.steps[8:] = 4
        for number in range(6):
            x, y = chance.integers(0, (300, 180)).tolist()
            canvas.pixels[y : y + 20, x : x + 30] = chance.integers(0, 256, (20, 30, 3))
            canvas.frame_seq = 2 + number
            found, want = tokens.update(canvas), CanvasTokens(10_000).update(canvas)
            np.testing.assert_array_equal(found.tokens["box"], want.tokens["box"])
            np.testing.assert_array_equal(found.pixels, want.pixels)

    def test_a_square_gives_way_to_one_that_loses_a_quarter_more(self) -> None:
        noise = np.random.default_rng(2).integers(-1, 2, (32, 32, 3))
        canvas = canvas_of(np.full((32, 64, 3), 100, np.uint8), 16)
        canvas.steps[:, 0] = 2
        canvas.steps[0, 0] = 1
        tokens = CanvasTokens(5)
        amplitudes = ((40, 30, 0), (40, 30, 0), (40, 45, 0), (40, 45, 0), (40, 60, 32), (40, 60, 32), (60, 60, 32))
        for left, right, divided in amplitudes:
            canvas.pixels[:, :32], canvas.pixels[:, 32:] = 100 + left * noise, 100 + right * noise
            frame = tokens.update(canvas)
            self.assertEqual(len(frame.tokens), 5)
            self.assertEqual(frame.tokens["x"][frame.tokens["sx"] == 1].min(), divided)

    def test_another_segment_begins_anew(self) -> None:
        tokens, canvas = CanvasTokens(80), canvas_of(scene(320, 240), 16)
        tokens.update(canvas)
        other = canvas_of(scene(320, 240), 16)
        other.info.epoch, other.frame_seq = 6, 3
        self.assertTrue((tokens.update(other).tokens["changed_frame"] == 3).all())


if __name__ == "__main__":
    unittest.main()
