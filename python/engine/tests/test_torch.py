"""Tokens of tensors: the engine's places, exact means, and the exact adjoint as their gradient."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import engine_support  # noqa: F401 It makes the package importable.
import numpy as np
import optional

import foveate_engine

torch: Any = None
sample: Any = None

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

#: Each layout, with the picture's width and height: odd ones, so that texels are cut off at the right and at the
#: bottom.
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "foveal": ({"budget": 60}, (333, 251)),
    "foveal, two foveae": ({"budget": 60, "foveae": 2, "patch": 8}, (171, 93)),
    "uniform": ({"layout": "uniform", "budget": 20}, (333, 251)),
    "directional": ({"layout": "directional", "budget": 40}, (333, 251)),
    "foveal, a map": ({"budget": 40}, (333, 251)),
    "inset": ({"layout": "inset", "budget": 40}, (333, 251)),
    "inset, mean": (
        {"layout": "inset", "budget": 20, "blocks": 2, "patch": 14, "min_step": 1.3, "outside": "mean"},
        (333, 251),
    ),
    "real steps of a level": ({"layout": "uniform", "budget": 5, "patch": 8}, (333, 251)),
    "rings": ({"layout": "rings", "preset": "stt172", "outside": "edge"}, (333, 251)),
    "rings, mean": ({"layout": "rings", "preset": "stt172", "outside": "mean"}, (333, 251)),
    "own rings": ({"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8, "outside": "mean"}, (61, 35)),
    "windows": ({"layout": "windows", "patch": 224, "budget": 3}, (333, 251)),
    "windows, mean": ({"layout": "windows", "patch": 224, "budget": 3, "outside": "mean"}, (333, 251)),
}
#: Shares of the sides: the middle, corners, edges, and beyond an edge.
PLACES = ((0.5, 0.5), (0.0, 0.0), (1.0, 1.0), (0.999, 0.02), (0.3, 1.5))


def setUpModule() -> None:
    global torch, sample
    torch = optional.package("torch", "FOVEATE_REQUIRE_TORCH")
    from foveate_engine.torch import sample as the_sample

    sample = the_sample


def fixations(extent: tuple[int, int], foveae: int) -> list[list[tuple[float, float]]]:
    """F points for each of five images."""
    points = [(x * extent[0], y * extent[1]) for x, y in PLACES]
    return [[points[(index + other) % len(points)] for other in range(foveae)] for index in range(len(points))]


class TexelsAreTheEngines(unittest.TestCase):
    def test_of_8_bit_pictures_they_are_the_engines_before_rounding(self) -> None:
        engine = foveate_engine.Engine("cpu")
        random = np.random.default_rng(1)
        for name, (layout, (width, height)) in LAYOUTS.items():
            with self.subTest(layout=name):
                pictures = random.integers(0, 256, (len(PLACES), height, width, 3), np.uint8)
                points = fixations((width, height), layout.get("foveae", layout.get("blocks", 1)))
                maps = [random.uniform(0.1, 10, (7, 9)) for _ in PLACES] if name == "foveal, a map" else None
                stored = engine.batch(
                    list(pictures), points, relevance=maps, dtype="u8", **{"rounding": "half-up", **layout}
                )
                images = torch.from_numpy(pictures).permute(0, 3, 1, 2).double()
                found = sample(images, points, relevance=None if maps is None else np.stack(maps), **layout)
                self.assertEqual(found.pixels.dtype, torch.float64)
                self.assertEqual(found.pixels.shape[1], max(map(len, stored)))
                for index, tokens in enumerate(stored):
                    count = len(tokens)
                    self.assertEqual(
                        found.mask[index].tolist(), [place < count for place in range(found.mask.shape[1])]
                    )
                    records = found.tokens[index, :count]
                    for field in foveate_engine.TOKEN.names or ():
                        if field != "changed_frame":
                            np.testing.assert_array_equal(records[field], tokens.tokens[field], field)
                    difference = np.abs(found.pixels[index, :count].numpy() - tokens.pixels)
                    # From a step of 4 on, real steps are of a level, which is rounded, too.
                    is_real = (records["extra_width"] != 0) | (records["extra_height"] != 0)
                    of_level = is_real & (np.minimum(records["sx"], records["sy"]) >= 4)
                    most = 1.0 if of_level.any() else 0.5
                    self.assertLessEqual(float(difference.max()), most + 1e-9)
                    self.assertEqual(float(found.pixels[index, count:].abs().sum()), 0)
                    self.assertEqual(int(found.tokens[index, count:]["size"].sum()), 0)

    def test_each_texel_is_the_mean_of_the_real_pixels_of_its_box(self) -> None:
        """One by one, as the record says; NaN and infinity stay in the texels that they are part of."""
        images = torch.rand(1, 3, 35, 61, dtype=torch.float64)
        images[0, 1, 20, 30] = float("nan")
        found = sample(images, [(3, 33)], layout="rings", strides=[1, 3], grids=[3, 3], patch=8, outside="mean")
        picture, texels = images[0].numpy(), found.pixels[0].numpy()
        for record, token in zip(found.tokens[0], texels, strict=True):
            for v in range(8):
                for u in range(8):
                    x, y = (
                        int(record[axis]) + at * int(record[step])
                        for axis, step, at in (("x", "sx", u), ("y", "sy", v))
                    )
                    right, bottom = x + int(record["sx"]), y + int(record["sy"])
                    real = picture[:, max(y, 0) : max(bottom, 0), max(x, 0) : max(right, 0)]
                    expected = real.mean((1, 2)) if real.size else np.zeros(3)
                    np.testing.assert_allclose(token[:, v, u], expected, rtol=1e-12)

    def test_pixels_count_by_their_share_in_a_texel_of_a_real_step(self) -> None:
        images = torch.rand(1, 3, 50, 70, dtype=torch.float64)
        found = sample(images, layout="uniform", budget=12, patch=8)
        self.assertNotEqual(int(found.tokens["extra_width"][0, 0]), 0)
        picture = images[0].numpy()
        for record, token in zip(found.tokens[0], found.pixels[0].numpy(), strict=True):
            side = (8 * int(record["sx"]) + int(record["extra_width"])) / 8
            for v, u in np.ndindex(int(record["rows"]), int(record["columns"])):
                shares = []
                for start, length in ((record["y"] + v * side, 50), (record["x"] + u * side, 70)):
                    pixels = np.arange(length)
                    shares.append(np.clip(np.minimum(pixels + 1, start + side) - np.maximum(pixels, start), 0, None))
                down, across = shares
                expected = np.einsum("y,cyx,x->c", down, picture, across) / (down.sum() * across.sum())
                np.testing.assert_allclose(token[:, v, u], expected, rtol=1e-9)

    def test_the_counts_of_a_batch_may_differ(self) -> None:
        found = sample(torch.ones(2, 3, 251, 333), [(0, 0), (333, 0)], budget=60, patch=8)
        counts = found.mask.sum(1).tolist()
        self.assertNotEqual(*counts)
        self.assertEqual(found.pixels.shape[1], max(counts))
        self.assertTrue(bool((found.pixels.amin((2, 3, 4)) == found.mask).all()))

    def test_each_type_stays_and_is_rounded_once(self) -> None:
        exact = torch.rand(2, 3, 95, 130, dtype=torch.float64)
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            with self.subTest(dtype=dtype):
                images = exact.to(dtype).requires_grad_()
                found = sample(images, budget=30)
                self.assertEqual(found.pixels.dtype, dtype)
                reference = sample(images.detach().double(), budget=30).pixels
                # Half a step of the type, and what sums of float32 are rounded by.
                steps = 0.5 * torch.finfo(dtype).eps + 1e-6
                self.assertTrue(bool(((found.pixels.double() - reference).abs() <= steps * reference.abs()).all()))
                found.pixels.float().sum().backward()
                self.assertEqual(images.grad.dtype, dtype)

    def test_strided_images_and_tensors_of_points_are_taken(self) -> None:
        images = torch.rand(2, 95, 130, 3).permute(0, 3, 1, 2)
        points, cells = torch.tensor([[10, 20], [100, 50]]), torch.rand(4, 5)
        first = sample(images, points, relevance=cells, budget=30)
        second = sample(images.contiguous(), points.tolist(), relevance=cells.numpy(), budget=30)
        self.assertTrue(torch.equal(first.pixels, second.pixels))

    def test_a_normalisation_is_that_of_the_engine_for_images_in_0_to_1(self) -> None:
        picture = np.random.default_rng(2).integers(0, 256, (95, 130, 3), np.uint8)
        images = torch.from_numpy(picture).permute(2, 0, 1)[None].double() / 255
        given = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 1.0, 2.0]}
        for normalisation in ("imagenet", "siglip", "unit", given):
            for outside in ("edge", "mean"):
                with self.subTest(normalisation=normalisation, outside=outside):
                    layout: dict[str, Any] = {
                        "layout": "rings",
                        "preset": "giava20",
                        "normalisation": normalisation,
                        "outside": outside,
                    }
                    stored = foveate_engine.Engine("cpu").pyramid(picture).sample((3, 90), dtype="f32", **layout)
                    found = sample(images, [(3, 90)], **layout).pixels[0].numpy()
                    rounding = 0.5 / 255 / np.reshape(stored.info.std, (3, 1, 1))
                    self.assertTrue((np.abs(found - stored.pixels) <= rounding + 1e-6).all())
        plain = sample(images, [(3, 90)]).pixels
        self.assertTrue(torch.equal(plain, sample(images, [(3, 90)], normalisation="none").pixels))


class TheGradientIsTheAdjoint(unittest.TestCase):
    def test_sums_agree(self) -> None:
        """<A x, y> = <x, A' y>."""
        generator = torch.Generator().manual_seed(3)
        for name, (layout, (width, height)) in LAYOUTS.items():
            with self.subTest(layout=name):
                images = torch.randn(
                    len(PLACES), 3, height, width, dtype=torch.float64, generator=generator, requires_grad=True
                )
                texels = sample(images, fixations((width, height), layout.get("foveae", 1)), **layout).pixels
                weights = torch.randn(texels.shape, dtype=torch.float64, generator=generator)
                left = (texels * weights).sum()
                left.backward()
                right = (images.detach() * images.grad).sum()
                scale = float((texels * weights).abs().sum())
                self.assertLess(abs(float(left - right)), 1e-13 * scale)

    def test_of_numeric_differences(self) -> None:
        cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
            ({"budget": 3, "patch": 8}, (19, 11)),
            ({"layout": "directional", "budget": 3, "patch": 8}, (19, 11)),
            ({"layout": "uniform", "budget": 3, "patch": 8}, (19, 11)),
            ({"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8, "outside": "edge"}, (9, 5)),
            ({"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8, "outside": "mean"}, (9, 5)),
            ({"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8, "normalisation": "imagenet"}, (9, 5)),
        ]
        for layout, (width, height) in cases:
            with self.subTest(layout=layout):
                images = torch.rand(1, 3, height, width, dtype=torch.float64, requires_grad=True)

                def texels(given: Any) -> Any:
                    return sample(given, [(width - 1.0, 3.0)], **layout).pixels

                self.assertTrue(torch.autograd.gradcheck(texels, (images,)))

    def test_of_gradients_too(self) -> None:
        images = torch.rand(1, 3, 5, 9, dtype=torch.float64, requires_grad=True)
        layout = {"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8}
        self.assertTrue(torch.autograd.gradgradcheck(lambda given: sample(given, **layout).pixels ** 2, (images,)))

    def test_pixels_that_no_texel_shows_get_exactly_nothing(self) -> None:
        images = torch.rand(1, 3, 400, 500, requires_grad=True)
        found = sample(images, [(100, 100)], layout="rings", strides=[1], grids=[4])
        found.pixels.pow(2).sum().backward()
        seen = torch.zeros(400, 500, dtype=torch.bool)
        for x0, y0, x1, y1 in found.tokens["box"][0].tolist():
            seen[y0:y1, x0:x1] = True
        self.assertTrue(torch.equal((images.grad[0] != 0).any(0), seen))


class MistakesAreNamed(unittest.TestCase):
    def refused(self, kind: type[Exception], *words: str, images: Any = None, **arguments: Any) -> None:
        given = torch.rand(2, 3, 64, 64) if images is None else images
        with self.subTest(words=words):
            with self.assertRaises(kind) as caught:
                sample(given, **arguments)
            for word in words:
                self.assertIn(word, str(caught.exception))

    def test_of_images(self) -> None:
        self.refused(ValueError, "images", "[3, 64, 64]", "images[None]", images=torch.rand(3, 64, 64))
        self.refused(ValueError, "images", "[1, 64, 64, 3]", "permute(0, 3, 1, 2)", images=torch.rand(1, 64, 64, 3))
        self.refused(ValueError, "images", "[2, 4, 64, 64]", images=torch.rand(2, 4, 64, 64))
        self.refused(ValueError, "images", "[0, 3, 64, 64]", images=torch.rand(0, 3, 64, 64))
        self.refused(TypeError, "images", "uint8", "/ 255", images=torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
        self.refused(TypeError, "images", "ndarray", "torch.from_numpy", images=np.zeros((1, 3, 64, 64)))

    def test_of_fixations(self) -> None:
        for wrong in ((3, 4), [(1, 2)], torch.rand(2, 3), torch.rand(2, 0, 2), [(1, 2), (3,)], "middle"):
            self.refused(ValueError, "fixations", "[2, 2]", "[(x, y)] * 2", fixations=wrong)
        self.refused(ValueError, "fixation", "foveae", fixations=torch.rand(2, 3, 2))
        self.refused(ValueError, "fixation", "finite", fixations=[(1, float("nan"))] * 2)

    def test_of_relevance(self) -> None:
        for wrong in (torch.rand(3), torch.rand(3, 4, 5), np.zeros((0, 4)), "everywhere"):
            self.refused(ValueError, "relevance", "[2, rows, columns]", relevance=wrong)

    def test_of_layouts(self) -> None:
        self.refused(ValueError, "dtype='f16'", "images.half()", dtype="f16")
        self.refused(ValueError, "rounding='floor'", "leave rounding out", rounding="floor")
        self.refused(TypeError, "'budgets'", "budget", budgets=3)
        self.refused(ValueError, "budget", budget=0)
        self.refused(ValueError, "normalisation", normalisation="vgg")


@unittest.skipUnless(optional.long(), "takes minutes: set FOVEATE_LONG=1")
class TheExampleLearns(unittest.TestCase):
    def test_it_is_far_above_chance(self) -> None:
        optional.package("skimage", "FOVEATE_REQUIRE_TORCH")
        paths = os.pathsep.join(filter(None, sys.path))
        run = subprocess.run(
            [sys.executable, str(EXAMPLES / "train_tokens.py")],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        chance, accuracy = (float(word) for word in run.stdout.split() if word.startswith("0."))
        self.assertLess(chance, 0.2)
        self.assertGreater(accuracy, 0.5)


if __name__ == "__main__":
    unittest.main()
