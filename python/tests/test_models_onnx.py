"""Laws of ``foveate.models.video_onnx``: a step in ONNX Runtime gives what PyTorch gives, of the same tokens.

Models are tiny and have random weights. ``scripts/test.sh --long`` installs the libraries; elsewhere these are skipped.
"""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from models_support import foveal, module_or_skip, scene, uniform
from test_models_real import lively, timm_model, tower
from test_models_video import canvas_of, changed, permuted

from foveate import models
from foveate.models import qwen3_vl, video, video_onnx, vit


class EncodersInOnnxRuntime(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        for name in ("timm", "onnxscript", "onnxruntime"):
            module_or_skip(name)
        self.enterContext(self.torch.no_grad())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def exported(self, model: Any) -> Path:
        path = self.folder / f"step{len(list(self.folder.iterdir()))}.onnx"
        video_onnx.export(model, path)
        return path

    def close(self, found: Any, want: Any) -> None:
        self.torch.testing.assert_close(self.torch.from_numpy(found), want, rtol=0, atol=1e-4)

    def test_frames_are_computed_as_in_pytorch(self) -> None:
        for name, patch, bias in (
            ("vit_tiny_patch16_224", 16, 0.5),
            ("vit_small_patch14_reg4_dinov2", 14, 0),
            ("vit_base_patch16_siglip_224", 16, 0),
        ):
            model = timm_model(name)
            theirs = video.VideoEncoder(model, area_bias=bias, full_every=4)
            ours = video_onnx.VideoEncoder(self.exported(model), area_bias=bias, full_every=4, threads=1)
            chance = np.random.default_rng(2)
            frame = foveal(scene(500, 333), patch, 200, 100)
            for number in range(8, 17):
                with self.subTest(model=name, number=number):
                    self.close(ours.encode(frame), theirs.encode(frame))
                    self.assertEqual(ours.last, theirs.last)
                if number % 3 == 0:
                    # Other places, in another order, and fewer of them.
                    frame = foveal(scene(500, 333), patch, *chance.integers(0, (500, 333)).tolist(), changed_frame=number)
                    frame = permuted(frame, chance.permutation(len(frame.tokens))[: len(frame.tokens) - number])
                else:
                    frame = changed(frame, chance.permutation(len(frame.tokens))[: number % 4], number)
            self.assertEqual((ours.tokens, ours.computed), (theirs.tokens, theirs.computed))
            self.assertLess(ours.computed, ours.tokens)

    def test_a_canvas_and_a_table_of_sizes(self) -> None:
        model = timm_model()
        model.size_embed = self.torch.nn.Parameter(self.torch.randn(3, model.embed_dim))
        ours = video_onnx.VideoEncoder(self.exported(model), budget=150, threads=1)
        found = ours.encode(canvas_of(scene(320, 240), 16))
        self.close(found, vit.features(model, ours.frame))
        del model.size_embed
        difference = np.abs(found - vit.features(model, ours.frame).numpy()).max()
        self.assertGreater(difference, 1e-2)

    def test_what_does_not_fit_is_refused(self) -> None:
        model = lively(module_or_skip("timm").create_model("vit_tiny_patch16_224", pretrained=False, depth=1))
        path, other = self.exported(model), self.folder / "other.txt"
        other.write_text("")
        for key, make in (
            ("model", lambda: video_onnx.export(tower(qwen3_vl), other)),
            ("model", lambda: video_onnx.export(model.half(), other)),
            ("path", lambda: video_onnx.VideoEncoder(self.folder / "missing.onnx")),
            ("path", lambda: video_onnx.VideoEncoder(other)),
            ("area_bias", lambda: video_onnx.VideoEncoder(path, area_bias=2)),
            ("tolerance", lambda: video_onnx.VideoEncoder(path, tolerance=-1)),
            ("patch", lambda: video_onnx.VideoEncoder(path).encode(uniform(scene(224, 224), 14))),
        ):
            with self.subTest(key=key), self.assertRaises(models.Unsuitable) as caught:
                make()
            self.assertEqual(caught.exception.key, key)


if __name__ == "__main__":
    unittest.main()
