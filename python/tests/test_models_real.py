"""What ``foveate.models`` gives equals what the real libraries compute: image processors, vision towers, a timm ViT.

Models are tiny and have random weights. ``scripts/test.sh --long`` installs the libraries; elsewhere this is skipped.
"""

from __future__ import annotations

import base64
import io
import unittest
from types import SimpleNamespace
from typing import Any

import numpy as np
from models_support import CLIP, SIGLIP, foveal, module_or_skip, scene, uniform, windows

from foveate import models
from foveate.models import qwen2_5_vl, qwen3_vl, sglang, vit, vllm

FAMILIES = ((qwen2_5_vl, CLIP, 28), (qwen3_vl, SIGLIP, 32))
#: Rounding of each dtype, for numbers up to 3: half a unit in the last place. u8 is normalised in float32 by both.
ROUNDING = {"u8": 1e-6, "f32": 1e-6, "f16": 2**-10, "bf16": 2**-7}


def processor(family: Any, statistics: Any, **keys: Any) -> Any:
    module = module_or_skip("transformers.models.qwen2_vl.image_processing_qwen2_vl")
    return module.Qwen2VLImageProcessor(
        patch_size=family.MODEL.patch, image_mean=statistics["mean"], image_std=statistics["std"], **keys
    )


def expected(processor: Any, pictures: list[Any]) -> Any:
    return processor(images=pictures, return_tensors="np", input_data_format="channels_last")


def lively(model: Any) -> Any:
    """Gives a model weights with which attention and positions matter: those it begins with do almost nothing."""
    torch = module_or_skip("torch")
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=1.5 / module.in_features**0.5)
    return model.eval()


def tower(family: Any) -> Any:
    """A tiny vision tower with random weights."""
    torch = module_or_skip("torch")
    torch.manual_seed(3)
    sizes = dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=24)
    if family is qwen2_5_vl:
        kind = module_or_skip("transformers.models.qwen2_5_vl.modeling_qwen2_5_vl")
        config = kind.Qwen2_5_VLVisionConfig(**sizes, fullatt_block_indexes=[1])
        return lively(kind.Qwen2_5_VisionTransformerPretrainedModel(config))
    kind = module_or_skip("transformers.models.qwen3_vl.modeling_qwen3_vl")
    visual = lively(kind.Qwen3VLVisionModel(kind.Qwen3VLVisionConfig(**sizes, deepstack_visual_indexes=[0, 1])))
    # Its table begins as zeros, and would place nothing.
    torch.nn.init.normal_(visual.pos_embed.weight)
    return visual


def stock(visual: Any, rows: Any) -> Any:
    return visual(rows["pixel_values"], grid_thw=rows["image_grid_thw"])


class RowsEqualTheProcessors(unittest.TestCase):
    def test_with_its_resize_off(self) -> None:
        for family, statistics, side in FAMILIES:
            picture = scene(side * 7, side * 5)
            want = expected(processor(family, statistics, do_resize=False), [picture])
            for patch in (side // 2, side):
                for dtype, rounding in ROUNDING.items():
                    with self.subTest(family=family.__name__, patch=patch, dtype=dtype):
                        keys = {} if dtype == "u8" else statistics
                        found = family.rows(uniform(picture, patch, dtype=dtype, **keys))
                        np.testing.assert_array_equal(found.image_grid_thw, want["image_grid_thw"])
                        np.testing.assert_allclose(found.pixel_values, want["pixel_values"], rtol=0, atol=rounding)

    def test_at_sizes_where_its_resize_is_the_identity(self) -> None:
        for family, statistics, side in FAMILIES:
            picture = scene(side * 12, side * 9)
            want = expected(
                processor(family, statistics, size={"shortest_edge": 256**2, "longest_edge": 4096**2}), [picture]
            )
            found = family.rows(uniform(picture, side))
            np.testing.assert_array_equal(found.image_grid_thw, want["image_grid_thw"])
            np.testing.assert_allclose(found.pixel_values, want["pixel_values"], rtol=0, atol=1e-6)

    def test_windows_are_its_pictures(self) -> None:
        for family, statistics, side in FAMILIES:
            frame = windows(scene(1000, 700), 8 * side, 3, 300, 200)
            pictures = [token.transpose(1, 2, 0) for token in frame.pixels]
            want = expected(processor(family, statistics, do_resize=False), pictures)
            found = family.rows(frame)
            self.assertEqual(len(found.places), 3)
            np.testing.assert_array_equal(found.image_grid_thw, want["image_grid_thw"])
            np.testing.assert_allclose(found.pixel_values, want["pixel_values"], rtol=0, atol=1e-6)


class TowersTakePlaces(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        self.enterContext(self.torch.no_grad())

    def test_at_full_resolution_it_is_the_stock_forward_pass(self) -> None:
        for family, _, side in FAMILIES:
            # More than one window of 4 x 4 tokens both ways, and partial ones.
            frame = uniform(scene(side * 11 - 5, side * 6 - 9), side)
            visual = tower(family)
            want = stock(visual, family.tensors(family.rows(frame)))
            found = family.tower(visual, family.tokens(frame))
            with self.subTest(family=family.__name__):
                self.assertEqual(tuple(found.pooler_output.shape), (66, 24))
                self.torch.testing.assert_close(found.pooler_output, want.pooler_output, rtol=0, atol=1e-5)
                for ours, theirs in zip(
                    getattr(found, "deepstack_features", []), getattr(want, "deepstack_features", []), strict=False
                ):
                    self.torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)

    def test_places_matter(self) -> None:
        """Or equality with the stock forward pass would say nothing."""
        for family, _, side in FAMILIES:
            frame = uniform(scene(side * 11, side * 6), side)
            visual = tower(family)
            tokens = family.tokens(frame)
            before = family.tower(visual, tokens).pooler_output
            tokens.positions[:] = np.random.default_rng(0).permutation(tokens.positions)
            self.assertGreater((family.tower(visual, tokens).pooler_output - before).abs().max().item(), 0.1)

    def test_order_of_tokens_does_not_matter(self) -> None:
        for family, _, side in FAMILIES:
            frame = foveal(scene(900, 600), side, 300, 200)
            visual = tower(family)
            before = family.tower(visual, family.tokens(frame)).pooler_output
            order = np.random.default_rng(0).permutation(len(frame.tokens))
            frame.tokens, frame.pixels = frame.tokens[order], frame.pixels[order]
            after = family.tower(visual, family.tokens(frame)).pooler_output
            self.torch.testing.assert_close(after, before[self.torch.from_numpy(order)], rtol=0, atol=1e-5)

    def test_foveal_tokens_run(self) -> None:
        for family, statistics, side in FAMILIES:
            frame = foveal(scene(1280, 720), side, 900, 500, dtype="f16", **statistics)
            self.assertGreater(len(np.unique(frame.tokens["sx"])), 2)
            tokens = family.tokens(frame)
            visual = tower(family)
            output = family.tower(visual, tokens)
            self.assertEqual(len(output.pooler_output), len(frame.tokens))
            self.assertTrue(self.torch.isfinite(family.embeddings(output)).all())
            taps = family.tower_arguments(visual, tokens).get("interp_indices")
            if taps is not None:
                self.assertTrue(0 <= taps.min() and taps.max() < visual.num_grid_per_side**2)

    def test_the_tower_of_qwen3_5_takes_the_same(self) -> None:
        kind = module_or_skip("transformers.models.qwen3_5.modeling_qwen3_5")
        sizes = dict(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=24)
        visual = lively(kind.Qwen3_5VisionModel(kind.Qwen3_5VisionConfig(**sizes)))
        self.torch.nn.init.normal_(visual.pos_embed.weight)
        rows, tokens = both(qwen3_vl, scene(32 * 7, 32 * 6))
        want = stock(visual, qwen3_vl.tensors(rows)).pooler_output
        self.torch.testing.assert_close(qwen3_vl.tower(visual, tokens).pooler_output, want, rtol=0, atol=1e-5)

    def test_a_tower_of_the_other_family_is_refused(self) -> None:
        frame = uniform(scene(64, 64), 32)
        with self.assertRaises(models.Unsuitable) as caught:
            qwen3_vl.tower(tower(qwen2_5_vl), qwen3_vl.tokens(frame))
        self.assertEqual(caught.exception.key, "visual")

    def test_a_tower_that_ignores_places_is_refused(self) -> None:
        class Old(self.torch.nn.Linear):
            patch_size, spatial_merge_size = 16, 2

        frame = uniform(scene(64, 64), 32)
        with self.assertRaises(models.MissingLibrary):
            qwen3_vl.tower(Old(2, 2), qwen3_vl.tokens(frame))


def whole_model(family: Any, attn_implementation: str | None = None) -> Any:
    """A tiny language model with its vision tower."""
    name = "Qwen2_5_VL" if family is qwen2_5_vl else "Qwen3VL"
    kind = module_or_skip(
        f"transformers.models.{family.__name__.rpartition('.')[2]}.modeling_{family.__name__.rpartition('.')[2]}"
    )
    torch = module_or_skip("torch")
    torch.manual_seed(5)
    vision = dict(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=48)
    vision.update(dict(fullatt_block_indexes=[1]) if family is qwen2_5_vl else dict(deepstack_visual_indexes=[0]))
    text = dict(
        vocab_size=64,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 4, 4]},
    )
    if family is qwen3_vl:
        text["head_dim"] = 24
    tokens = dict(image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63)
    module = module_or_skip(kind.__name__.replace("modeling", "configuration"))
    config = getattr(module, f"{name}Config")(vision_config=vision, text_config=text, **tokens)
    model = lively(getattr(kind, f"{name}ForConditionalGeneration")(config))
    if attn_implementation is not None:
        model.set_attn_implementation(attn_implementation)
    return model


def whole_processor(family: Any, statistics: Any) -> Any:
    """The processor of such a model, which leaves the size of pictures alone; its tokens are those of the tiny model."""
    transformers = module_or_skip("transformers")
    video = module_or_skip("transformers.models.qwen2_vl.video_processing_qwen2_vl")
    letters = [chr(code) for code in range(ord("!"), ord("!") + 60)]
    letters[2] = "<|endoftext|>"
    tokenizer = transformers.Qwen2Tokenizer(vocab={letter: index for index, letter in enumerate(letters)}, merges=[])
    images = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": images})
    kind = transformers.Qwen2_5_VLProcessor if family is qwen2_5_vl else transformers.Qwen3VLProcessor
    return kind(processor(family, statistics, do_resize=False), tokenizer, video.Qwen2VLVideoProcessor())


class WholeModelsTakePictures(unittest.TestCase):
    """What a whole model gets is what its processor gives, key by key."""

    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        self.enterContext(self.torch.no_grad())

    def both(self, family: Any, statistics: Any, side: int, model: Any) -> Any:
        """What the processor gives for a picture, three windows and another picture, and what we give."""
        one, other = uniform(scene(side * 5, side * 6), side), uniform(scene(side * 9, side * 2, seed=2), side)
        three = windows(scene(1000, 700), 2 * side, 3, 300, 200)
        pictures = [scene(side * 5, side * 6), *(token.transpose(1, 2, 0) for token in three.pixels)]
        pictures.append(scene(side * 9, side * 2, seed=2))
        text = "AB" + "C".join(["<|vision_start|><|image_pad|><|vision_end|>"] * 5) + "DE"
        stock = whole_processor(family, statistics)(text=[text], images=pictures, return_tensors="pt")
        rows = [family.rows(frame) for frame in (one, three, other)]
        return stock, family.model_arguments(model, stock["input_ids"], *rows)

    def test_arguments_are_those_of_the_processor(self) -> None:
        for family, statistics, side in FAMILIES:
            stock, ours = self.both(family, statistics, side, whole_model(family))
            self.assertEqual(set(ours), set(stock))
            for key, want in stock.items():
                with self.subTest(family=family.__name__, key=key):
                    self.assertEqual(ours[key].dtype, want.dtype)
                    self.torch.testing.assert_close(ours[key], want, rtol=0, atol=1e-6)

    def test_generation_is_that_of_the_processor(self) -> None:
        for family, statistics, side in FAMILIES:
            model = whole_model(family)
            stock, ours = self.both(family, statistics, side, model)
            found = []
            for arguments in (stock, ours):
                text = model.generate(**arguments, do_sample=False, max_new_tokens=8)
                found.append((text.tolist(), model.model.rope_deltas.tolist(), model(**arguments).logits))
            with self.subTest(family=family.__name__):
                self.assertEqual(found[0][:2], found[1][:2])
                # Text positions, which a model falls back to where it is not told which tokens are pictures, have none.
                self.assertLess(found[1][1][0][0], 0)
                self.torch.testing.assert_close(found[1][2], found[0][2], rtol=0, atol=1e-4)

    def test_a_model_that_takes_no_token_types_gets_none(self) -> None:
        """As in transformers 4."""
        rows, _ = both(qwen3_vl, scene(32 * 2, 32 * 3))
        old = SimpleNamespace(config=SimpleNamespace(image_token_id=60), forward=lambda input_ids, pixel_values: None)
        prompt = self.torch.tensor([[1, 62, *[60] * 6, 63, 3]])
        self.assertNotIn("mm_token_type_ids", qwen3_vl.model_arguments(old, prompt, rows))

    def test_prompts_that_do_not_fit_are_refused(self) -> None:
        model = whole_model(qwen3_vl)
        rows, tokens = both(qwen3_vl, scene(32 * 2, 32 * 3))
        self.assertEqual((rows.token_counts, tokens.token_counts), ((6,), (6,)))
        prompt = self.torch.tensor([[1, 62, *[60] * 6, 63, 3]])
        for key, arguments in (
            ("is_image", (prompt[:, :-3], rows)),
            ("is_image", (prompt,)),
            ("is_image", (prompt, rows, rows)),
            ("images", (prompt, rows, tokens)),
            ("input_ids", (prompt.repeat(2, 1), rows)),
        ):
            with self.subTest(key=key), self.assertRaises(models.Unsuitable) as caught:
                qwen3_vl.model_arguments(model, *arguments)
            self.assertEqual(caught.exception.key, key)


class WholeModelsTakePlaces(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        self.enterContext(self.torch.no_grad())

    def prompt(self, count: int) -> Any:
        return self.torch.tensor([[1, 2, 62, *[60] * count, 63, 3, 4]])

    def test_at_full_resolution_it_is_the_stock_forward_pass(self) -> None:
        for family, _, side in FAMILIES:
            model, (rows, tokens) = whole_model(family), both(family, scene(side * 5, side * 6))
            prompt = self.prompt(30)
            stock = dict(input_ids=prompt, mm_token_type_ids=(prompt == 60).int(), **family.tensors(rows))
            ours = family.model_arguments(model, prompt, tokens)
            with self.subTest(family=family.__name__):
                self.torch.testing.assert_close(model(**ours).logits, model(**stock).logits, rtol=0, atol=1e-5)
                steps = dict(do_sample=False, max_new_tokens=8)
                self.assertEqual(model.generate(**ours, **steps).tolist(), model.generate(**stock, **steps).tolist())

    def test_several_images_of_one_prompt(self) -> None:
        for family, _, side in FAMILIES:
            model = whole_model(family)
            pictures = [both(family, scene(side * 5, side * 6)), both(family, scene(side * 9, side * 2, seed=2))]
            prompt = self.torch.cat([self.prompt(30), self.prompt(18)], dim=1)
            rows = [family.tensors(rows) for rows, _ in pictures]
            stock = {name: self.torch.cat([tensors[name] for tensors in rows]) for name in rows[0]}
            want = model(input_ids=prompt, mm_token_type_ids=(prompt == 60).int(), **stock).logits
            found = model(**family.model_arguments(model, prompt, *(tokens for _, tokens in pictures))).logits
            self.torch.testing.assert_close(found, want, rtol=0, atol=1e-5)

    def test_foveal_tokens_run(self) -> None:
        for family, _, side in FAMILIES:
            tokens = family.tokens(foveal(scene(900, 600), side, 300, 200))
            model, prompt = whole_model(family), self.prompt(tokens.mrope.shape[1])
            arguments = family.model_arguments(model, prompt, tokens)
            self.assertTrue(self.torch.isfinite(model(**arguments).logits).all())
            self.assertEqual(model.generate(**arguments, max_new_tokens=3, min_new_tokens=3).shape[1], prompt.shape[1] + 3)


def both(family: Any, picture: Any) -> Any:
    """A picture as rows, and as tokens with places."""
    frame = uniform(picture, family.MODEL.side)
    return family.rows(frame), family.tokens(frame)


class ServersTakeRows(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        self.enterContext(self.torch.no_grad())

    def test_each_picture_has_its_own_embeddings(self) -> None:
        for family, _, side in FAMILIES:
            frame = windows(scene(1000, 700), 8 * side, 2, 300, 200)
            rows = family.rows(frame)
            output = stock(tower(family), family.tensors(rows))
            width = output.pooler_output.shape[1] * (1 + len(getattr(output, "deepstack_features", [])))
            parts = vllm.parts(rows, output)
            self.assertEqual([part["uuid"] for part in parts], list(rows.ids))
            decoded = [self.decoded(part["image_embeds"]["image_embeds"]) for part in parts]
            grids = [self.decoded(part["image_embeds"]["image_grid_thw"]) for part in parts]
            self.assertEqual([tuple(one.shape) for one in decoded], [(64, width)] * 2)
            self.assertEqual([grid.tolist() for grid in grids], rows.image_grid_thw.tolist())
            self.torch.testing.assert_close(self.torch.cat(decoded), family.embeddings(output))
            engine = vllm.multi_modal(rows, output)
            self.assertEqual(tuple(engine["multi_modal_data"]["image"]["image_embeds"].shape), (128, width))
            self.assertEqual(engine["multi_modal_uuids"]["image"], list(rows.ids))
            item = sglang.precomputed_embedding(rows, output)
            self.assertEqual((item["format"], tuple(item["feature"].shape)), ("precomputed_embedding", (128, width)))
            item = sglang.processor_output(rows)
            self.assertEqual(item["format"], "processor_output")
            self.assertEqual(tuple(item["pixel_values"].shape), rows.pixel_values.shape)

    def test_tokens_without_a_grid_and_wrong_counts_are_refused(self) -> None:
        frame = uniform(scene(112, 112), 28)
        visual = tower(qwen2_5_vl)
        rows, tokens = qwen2_5_vl.rows(frame), qwen2_5_vl.tokens(frame)
        output = stock(visual, qwen2_5_vl.tensors(rows))
        for give in (vllm.parts, vllm.multi_modal, sglang.precomputed_embedding):
            with self.assertRaises(models.Unsuitable) as caught:
                give(tokens, output)
            self.assertEqual(caught.exception.key, "rows")
            other = qwen2_5_vl.rows(uniform(scene(56, 56), 28))
            with self.assertRaises(models.Unsuitable) as caught:
                give(other, output)
            self.assertEqual(caught.exception.key, "output")

    def decoded(self, text: str) -> Any:
        """As vLLM does."""
        return self.torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True)


def timm_model(name: str = "vit_tiny_patch16_224", **keys: Any) -> Any:
    torch = module_or_skip("torch")
    timm = module_or_skip("timm")
    torch.manual_seed(4)
    model = lively(timm.create_model(name, pretrained=False, depth=2, **keys))
    torch.nn.init.normal_(model.pos_embed)
    return model


class VisionTransformersTakePlaces(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        self.enterContext(self.torch.no_grad())

    def stock(self, model: Any, frame: Any, height: int, width: int) -> Any:
        texels = models.common.normalised(frame, "", model.pretrained_cfg["mean"], model.pretrained_cfg["std"], "")
        picture = models.common.pictures(frame, texels, "")[0]
        self.assertEqual(picture.shape, (3, height, width))
        return model.forward_features(self.torch.from_numpy(picture)[None])

    def test_full_resolution_is_the_stock_forward_pass(self) -> None:
        for name, side, patch in (
            ("vit_tiny_patch16_224", 224, 16),
            ("vit_base_patch16_clip_224", 224, 16),
            ("vit_small_patch14_reg4_dinov2", 518, 14),
            ("vit_base_patch16_siglip_224", 224, 16),
            ("deit3_small_patch16_224", 224, 16),
        ):
            model = timm_model(name)
            frame = uniform(scene(side, side), patch)
            with self.subTest(model=name):
                self.torch.testing.assert_close(
                    vit.features(model, frame), self.stock(model, frame, side, side), rtol=0, atol=1e-5
                )

    def test_pictures_of_another_size_get_the_positions_that_timm_gives_them(self) -> None:
        for width, height in ((384, 320), (160, 96), (333, 200)):
            model = timm_model(dynamic_img_size=True)
            frame = uniform(scene(width, height), 16)
            want = self.stock(model, frame, -(-height // 16) * 16, -(-width // 16) * 16)
            self.torch.testing.assert_close(vit.features(model, frame), want, rtol=0, atol=2e-5)

    def test_area_bias_counts_a_token_as_often_as_it_has_cells(self) -> None:
        """Splitting a constant token into four changes nothing; without the bias it does."""
        model = timm_model()
        # All tokens at one position: what differs is how they are cut.
        model.pos_embed.data[:, 1:] = model.pos_embed.data[:, 1:2]
        picture = scene(224, 224)
        picture[64:96, 96:128] = (200, 40, 90)
        fine = uniform(picture, 16)
        inside = ((fine.tokens["x"] // 32 == 3) & (fine.tokens["y"] // 32 == 2)).nonzero()[0]
        self.assertEqual(len(inside), 4)
        split = vit.features(model, fine, area_bias=True)[0]
        merged = foveal_merge(fine, inside)
        for bias in (True, False):
            whole = vit.features(model, merged, area_bias=bias)[0]
            others = np.setdiff1d(np.arange(len(fine.tokens)), inside)
            rows = self.torch.from_numpy(np.concatenate([[0], 1 + others]))
            change = (whole[: len(rows)] - split[rows]).abs().max().item()
            if bias:
                self.assertLess(change, 2e-5)
                self.assertLess((whole[-1] - split[1 + inside[0]]).abs().max().item(), 2e-5)
            else:
                self.assertGreater(change, 0.01)

    def test_foveal_tokens_run_and_are_painted_back(self) -> None:
        model = timm_model()
        frame = foveal(scene(500, 333), 16, 200, 100)
        for bias in (False, True):
            output = vit.features(model, frame, bias)
            self.assertTrue(self.torch.isfinite(output).all())
            dense = vit.paint(frame, output[0, model.num_prefix_tokens :])
            self.assertEqual(tuple(dense.shape), (21, 32, 192))
            self.assertTrue(self.torch.isfinite(dense).all())
            self.assertEqual(tuple(model.forward_head(output).shape), (1, 1000))

    def test_other_models_and_views_are_refused(self) -> None:
        timm = module_or_skip("timm")
        model = timm_model()
        frame = uniform(scene(224, 224), 16)
        rope = timm.create_model("vit_small_patch16_dinov3", pretrained=False, depth=1)
        bare = timm.models.vision_transformer.VisionTransformer(depth=1, embed_dim=32, num_heads=2)
        for key, give in (
            ("model", lambda: vit.features(rope, frame)),
            ("model.pretrained_cfg", lambda: vit.features(bare, frame)),
            ("patch", lambda: vit.features(model, uniform(scene(224, 224), 14))),
            ("normalisation", lambda: vit.features(model, uniform(scene(224, 224), 16, dtype="f32", **CLIP))),
        ):
            with self.subTest(key=key), self.assertRaises(models.Unsuitable) as caught:
                give()
            self.assertEqual(caught.exception.key, key)


def foveal_merge(frame: Any, inside: Any) -> Any:
    """The frame with some tokens merged into one, which is the last; all of them have one colour."""
    others = np.setdiff1d(np.arange(len(frame.tokens)), inside)
    merged = frame.tokens[inside[:1]].copy()
    merged["sx"], merged["sy"] = 2, 2
    merged["box"][:, 2:] += 16
    frame.info.layout, frame.info.grid = "foveal", None
    frame.tokens = np.concatenate([frame.tokens[others], merged])
    frame.pixels = np.concatenate([frame.pixels[others], frame.pixels[inside[:1]]])
    return frame


if __name__ == "__main__":
    unittest.main()
