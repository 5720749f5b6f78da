"""Every example of ``docs/guide/models.md`` runs as it stands, on synthetic frames: those that need a library, where it is,
with tiny models of random weights in place of those that it names."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import types
import unittest
import urllib.request
from typing import Any
from unittest import mock

import numpy as np
from models_support import CLIP, NONE, SIGLIP, ChatServer, foveal, frame, module_or_skip, scene, uniform, windows
from support import PACKAGE_ROOT, foveate

import foveate.adapt
from foveate.canvas import Canvas
from foveate.feedback import _numbers

PAGE = PACKAGE_ROOT.parent / "docs" / "guide" / "models.md"
EXAMPLE = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What an example needs by its label.
LIBRARIES = {
    "": (),
    "torch": ("torch",),
    "timm": ("torch", "timm"),
    "onnx": ("torch", "timm", "onnxscript", "onnxruntime"),
    "transformers": ("torch", "transformers"),
    "sglang": ("torch", "transformers"),
    "vllm": ("torch", "transformers"),
    "fovi": ("torch",),
}
IMAGENET = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
NORMALISATIONS = {"clip": CLIP, "siglip": SIGLIP, "imagenet": IMAGENET}


class SyntheticView:
    """A view with the keys of a configuration, on a picture."""

    def __init__(
        self,
        stream: str,
        layout: str = "foveal",
        patch: int = 16,
        budget: int = 273,
        dtype: str = "f16",
        normalisation: str = "imagenet",
        memory: str = "none",
    ) -> None:
        assert memory == "none" or dtype == "u8"
        picture = scene(1280, 720)
        keys: Any = dict(dtype=dtype, **(NONE if dtype == "u8" else NORMALISATIONS[normalisation]))
        if layout == "windows":
            self.frame = windows(picture, patch, budget, 300, 200, **keys)
        elif layout == "foveal" and memory == "none":
            self.frame = foveal(picture, patch, 300, 200, **keys)
        else:
            steps = (1 << level for level in range(8))
            self.frame = next(
                view for view in (uniform(picture, patch, step, **keys) for step in steps) if len(view.tokens) <= budget
            )

    def __enter__(self) -> SyntheticView:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def read(self, newest: bool = True) -> Any:
        if not newest:
            # One of a view for a canvas, in order.
            self.ring_sequence += 1
            self.frame.ring_sequence = self.frame.frame_seq = self.ring_sequence
            self.frame.tiles, self.frame.epoch = np.ones((23, 40), np.uint64), self.frame.info.epoch
        return self.frame

    ring_sequence = 0

    def canvas(self) -> Canvas:
        return Canvas()

    def look(self, x: float, y: float, wait: bool = False) -> None:
        width, height = self.frame.info.extent
        assert 0 <= x <= width and 0 <= y <= height

    def attend_tokens(self, frame: Any, scores: Any, wait: bool = False) -> Any:
        """What the daemon takes, and its answer: the middle of the best token."""
        numbers, _ = _numbers(scores, "scores", 1)
        assert frame is self.frame and len(numbers) == len(frame.tokens)
        assert np.isfinite(numbers).all() and 0 <= numbers.min() < numbers.max()
        x0, y0, x1, y1 = frame.tokens["box"][numbers.argmax()].tolist()
        return types.SimpleNamespace(x=(x0 + x1) / 2, y=(y0 + y1) / 2)


class Retina:
    """A view with the layout ``samples``."""

    def __init__(self, name: str) -> None:
        specs = [(x, y, 1, 1, 0) for x, y in ((960, 540), (961, 540), (20, 30))]
        self.frame = frame(scene(1920, 1080), specs, 1, "samples", dtype="f32", **IMAGENET)

    def __enter__(self) -> Retina:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def look(self, x: float, y: float, wait: bool) -> None:
        assert 0 <= x <= 1920 and 0 <= y <= 1080

    def read(self) -> Any:
        return self.frame


class FakeFovi:
    """A model of FOVI: [b, f, c, n] to an embedding of each fixation."""

    def head(self, embeddings: Any) -> Any:
        return embeddings

    def __call__(self, samples: Any, setting: str, fixated_inputs: bool, do_postproc: bool) -> Any:
        assert tuple(samples.shape) == (1, 1, 3, 3) and setting == "supervised" and fixated_inputs and not do_postproc
        return samples.mean(-1), [], samples


class FakeTokenizer:
    """Words of a prompt by number; image tokens as the tiny model's configuration numbers them."""

    def __call__(self, text: str, return_tensors: str | None = None) -> Any:
        ids = [1, 2, 62, *[60] * text.count("<|image_pad|>"), 63, 3, 4]
        if return_tensors is None:
            return types.SimpleNamespace(input_ids=ids)
        return types.SimpleNamespace(input_ids=module_or_skip("torch").tensor([ids]))

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids.tolist()))


class FakeEngine:
    """SGLang's engine: checks what it gets against the form that its documentation states."""

    def __init__(self, model_path: str) -> None:
        pass

    def generate(self, input_ids: list[int], image_data: list[dict[str, Any]]) -> dict[str, str]:
        (item,) = image_data
        assert item["format"] == "processor_output" and item["pixel_values"].shape[1] == 1176
        assert 4 * input_ids.count(60) == len(item["pixel_values"]) == item["image_grid_thw"].prod()
        return {"text": "ok"}


class FakeLlm:
    """vLLM's engine: the same."""

    def __init__(self, name: str, enable_mm_embeds: bool = False) -> None:
        assert enable_mm_embeds

    def generate(self, prompt: dict[str, Any]) -> Any:
        image = prompt["multi_modal_data"]["image"]
        assert prompt["prompt"].count("<|image_pad|>") == len(prompt["multi_modal_uuids"]["image"]) == 1
        assert 4 * len(image["image_embeds"]) == image["image_grid_thw"].prod() and image["image_embeds"].ndim == 2
        return [types.SimpleNamespace(outputs=[types.SimpleNamespace(text="ok")])]


class ExamplesOfModels(unittest.TestCase):
    def setUp(self) -> None:
        self.patches = contextlib.ExitStack()
        self.addCleanup(self.patches.close)
        self.patches.enter_context(mock.patch.object(foveate, "open_view", SyntheticView))

    def run_labelled(self, *labels: str) -> None:
        examples = [code for label, code in EXAMPLE.findall(PAGE.read_text()) if label in labels]
        self.assertGreater(len(examples), 0)
        for code in examples:
            with self.subTest(code=code), contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, str(PAGE), "exec"), {})
                self.assertTrue(printed.getvalue())

    def test_all_compile_and_are_short(self) -> None:
        examples = EXAMPLE.findall(PAGE.read_text())
        self.assertGreater(len(examples), 6)
        for label, code in examples:
            self.assertIn(label, LIBRARIES)
            compile(code, str(PAGE), "exec")
            self.assertLessEqual(code.count("\n"), 25)

    def test_those_of_numpy_run(self) -> None:
        server = ChatServer()
        self.addCleanup(server.close)
        redirected = server.redirected(urllib.request.urlopen)
        self.patches.enter_context(mock.patch("urllib.request.urlopen", redirected))
        self.run_labelled("")
        self.assertEqual(len(server.pictures), 3)

    def test_those_of_torch_run(self) -> None:
        module_or_skip("torch")
        self.run_labelled("torch")

    def test_that_of_fovi_runs(self) -> None:
        module_or_skip("torch")
        self.patches.enter_context(mock.patch.object(foveate, "open", Retina))
        self.patches.enter_context(mock.patch("foveate.models.fovi.load", lambda name: FakeFovi()))
        self.run_labelled("fovi")

    def with_tiny_timm(self) -> None:
        timm = module_or_skip("timm")
        create = timm.create_model
        tiny = lambda name, pretrained: create(name, pretrained=False, depth=1)  # noqa: E731
        self.patches.enter_context(mock.patch.object(timm, "create_model", tiny))
        adapted = lambda folder: (tiny("vit_small_patch14_dinov2", False).eval(), 0.5)  # noqa: E731
        self.patches.enter_context(mock.patch.object(foveate.adapt, "load", adapted))

    def test_those_of_timm_run(self) -> None:
        self.with_tiny_timm()
        self.run_labelled("timm")

    def test_those_of_onnx_run(self) -> None:
        for name in LIBRARIES["onnx"]:
            module_or_skip(name)
        self.with_tiny_timm()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            self.run_labelled("onnx")

    def test_those_of_transformers_and_servers_run(self) -> None:
        transformers = module_or_skip("transformers")
        module_or_skip("torch")
        from test_models_real import whole_model

        from foveate.models import qwen2_5_vl, qwen3_vl

        for name, family in (
            ("Qwen2_5_VLForConditionalGeneration", qwen2_5_vl),
            ("Qwen3VLForConditionalGeneration", qwen3_vl),
        ):
            load = lambda name, dtype, attn_implementation=None, family=family: whole_model(  # noqa: E731
                family, attn_implementation
            )
            self.patches.enter_context(mock.patch.object(getattr(transformers, name), "from_pretrained", load))
        load = lambda name: FakeTokenizer()  # noqa: E731
        self.patches.enter_context(mock.patch.object(transformers.AutoTokenizer, "from_pretrained", load))
        servers = {"sglang": types.ModuleType("sglang"), "vllm": types.ModuleType("vllm")}
        servers["sglang"].Engine, servers["vllm"].LLM = FakeEngine, FakeLlm  # type: ignore[attr-defined]
        self.patches.enter_context(mock.patch.dict(sys.modules, servers))
        self.run_labelled("transformers", "sglang", "vllm")


if __name__ == "__main__":
    unittest.main()
