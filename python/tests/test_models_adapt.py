"""Laws of ``python -m foveate.adapt``, with a tiny model of random weights and pictures drawn at random.

``scripts/test.sh --long`` installs the libraries and builds the engine; elsewhere these are skipped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from models_support import foveal, module_or_skip, scene, uniform
from support import PACKAGE_ROOT

import foveate.adapt
from foveate.adapt import __main__ as program
from foveate.adapt import model as models
from foveate.adapt import pictures, training
from foveate.models import video_onnx, vit

NAME = "vit_tiny_patch16_224"


def engine_or_skip() -> Any:
    """The engine that Cargo built, or the one that is installed."""
    sys.path.append(str(PACKAGE_ROOT / "engine" / "tests"))
    try:
        import engine_support
    except ImportError as error:
        if os.environ.get("FOVEATE_REQUIRE_MODELS") == "1":
            raise
        raise unittest.SkipTest(f"the engine is not built ({error}): scripts/test.sh builds it") from None
    return engine_support.foveate_engine


class Adapting(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.torch, timm, image = module_or_skip("torch"), module_or_skip("timm"), module_or_skip("PIL.Image")
        cls.engine = engine_or_skip()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.torch.manual_seed(0)
        cls.checkpoint = cls.folder / "base.safetensors"
        models.write(timm.create_model(NAME, pretrained=False).state_dict(), cls.checkpoint)
        for source, count in (("learned", 12), ("held", 2)):
            (cls.folder / source).mkdir()
            for number in range(count):
                picture = scene(170, 130, 100 * len(source) + number)
                picture = np.roll(picture, 13 * number, axis=number % 2)
                image.fromarray(picture).save(cls.folder / source / f"{number:02}.png")

    def adapt(self, out: str, *more: str) -> tuple[int, str]:
        """Runs the program for four steps; returns its exit code, and what it said."""
        arguments = ["--model", NAME, "--checkpoint", self.checkpoint, "--pictures", self.folder / "learned"]
        arguments += ["--held-out", self.folder / "held", "--out", self.folder / out, "--steps", 4, "--batch", 2]
        arguments += ["--rank", 2, "--side", 160, "--budgets", "20:30", "--rate", "1e-3", "--measure-every", 2]
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = program.main([*map(str, arguments), *more])
        return code, said.getvalue()

    def state(self, out: str) -> Any:
        return self.torch.load(self.folder / out / "state.pt", weights_only=True)

    def test_a_run_learns_and_its_model_can_be_used(self) -> None:
        code, said = self.adapt("used", "--onnx", "--norms", "--teacher-cache", str(self.folder / "cache"))
        self.assertEqual(code, 0, said)
        for name in ("model.safetensors", "adapt.json", "state.pt", "curve.svg", "README.md", "step.onnx"):
            self.assertGreater((self.folder / "used" / name).stat().st_size, 0)
        about = json.loads((self.folder / "used" / "adapt.json").read_text())
        self.assertEqual([found["step"] for found in about["history"]], [0, 2, 4])
        self.assertEqual(set(about["history"][-1]["held_out"]), set(training.MEASURES))
        model, area_bias = foveate.adapt.load(self.folder / "used")
        frame = foveal(scene(300, 200), 16, 90, 90)
        with self.torch.no_grad():
            found = vit.features(model, frame, area_bias)
            before = vit.features(models.base(NAME, self.checkpoint), frame, area_bias)
        self.assertGreater((found - before).abs().max().item(), 1e-3)
        encoder = video_onnx.VideoEncoder(self.folder / "used" / "step.onnx", area_bias=area_bias, threads=1)
        self.torch.testing.assert_close(self.torch.from_numpy(encoder.encode(frame)), found, rtol=0, atol=1e-4)

    def test_a_run_that_was_ended_goes_on_as_if_it_had_not_been(self) -> None:
        self.assertEqual(self.adapt("whole")[0], 0)
        ended = training.Trainer.run

        def end(trainer: Any, until: int) -> float:
            if until == 4:
                raise KeyboardInterrupt
            return ended(trainer, until)

        training.Trainer.run = end
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.adapt("ended")
        finally:
            training.Trainer.run = ended
        self.assertEqual(self.state("ended")["step"], 2)
        code, said = self.adapt("ended")
        self.assertIn("going on at step 2", said)
        whole, resumed = self.state("whole"), self.state("ended")
        self.assertEqual((resumed["step"], resumed["history"][-1]), (4, whole["history"][-1]))
        for name, value in whole["parameters"].items():
            self.assertTrue(self.torch.equal(resumed["parameters"][name], value), name)

    def test_only_updates_learn(self) -> None:
        self.assertEqual(self.adapt("frozen", "--no-sizes")[0], 0)
        first, learned = models.read_state(self.checkpoint), models.read_state(self.folder / "frozen" / "model.safetensors")
        self.assertEqual(set(first), set(learned))
        layers = {f"blocks.{index}.{layer}.weight" for index in range(12) for layer in models.LAYERS}
        for name, value in first.items():
            with self.subTest(name=name):
                self.assertEqual(self.torch.equal(value, learned[name]), name not in layers)

    def test_before_the_first_step_it_is_the_model(self) -> None:
        model = models.base(NAME, self.checkpoint)
        frames = [foveal(scene(300, 200, seed), 16, 90 * seed, 90) for seed in (1, 2)]
        with self.torch.no_grad():
            want = [vit.features(model, frame, 0.5)[0] for frame in frames]
            models.prepare(model, rank=4, has_sizes=True, has_norms=True)
            found = training.features(model, frames, 0.5)
        for ours, theirs in zip(found, want, strict=True):
            self.torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)

    def test_full_resolution_of_its_own_features_has_no_loss(self) -> None:
        model = models.base(NAME, self.checkpoint)
        frame = uniform(scene(160, 128), 16)
        with self.torch.no_grad():
            output = vit.features(model, frame)[0]
        target = (output[0], output[1:])
        self.assertAlmostEqual(float(training.loss_of(frame, output, target)), 0, places=5)
        self.torch.testing.assert_close(training.agreement(frame, output, target), [1.0, 1.0, 1.0])
        coarse = foveal(scene(160, 128), 16, 20, 20, coarsest=2)
        with self.torch.no_grad():
            other = vit.features(model, coarse)[0]
        self.assertGreater(float(training.loss_of(coarse, other, target)), 0.01)

    def test_copies_of_a_picture_and_frames_of_a_clip_are_in_one_set(self) -> None:
        image = module_or_skip("PIL.Image")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number in range(8):
                whole = image.open(self.folder / "learned" / f"{number:02}.png")
                for width in (170, 120, 85):
                    place = folder / f"clip{number // 2}"
                    place.mkdir(exist_ok=True)
                    whole.resize((width, width * 130 // 170)).save(place / f"{number}-{width}.png")
            for has_clips, parts in ((False, 3), (True, 6)):
                found = pictures.listed(folder, has_clips)
                self.assertEqual(len(found), 24)
                for seed in range(4):
                    sets = pictures.split(found, 0.25, seed)
                    self.assertEqual(sum(map(len, sets)), 24)
                    self.assertTrue(all(sets))
                    ours, theirs = ({picture.group for picture in part} for part in sets)
                    self.assertFalse(ours & theirs)
                    for part in sets:
                        self.assertEqual(len(part) % parts, 0)
            kept = pictures.unlike(pictures.listed(folder, False), pictures.listed(self.folder / "learned", False)[:3])
            self.assertEqual({picture.path.name.partition("-")[0] for picture in kept}, set("34567"))

    def test_what_cannot_be_learned_from_is_refused(self) -> None:
        self.assertEqual(self.adapt("refused")[0], 0)
        empty = self.folder / "empty"
        empty.mkdir()
        for said, arguments in (
            ("is not a folder", ["--pictures", str(self.folder / "nowhere")]),
            ("no picture that can be read", ["--pictures", str(empty)]),
            ("are like some of", ["--held-out", str(self.folder / "learned")]),
            ("cannot be made", ["--model", "no_such_model"]),
            ("other settings", ["--rank", "3"]),
            ("nothing would learn", ["--rank", "0", "--no-sizes"]),
            ("other weights", ["--checkpoint", str(self.folder / "refused" / "model.safetensors")]),
        ):
            code, told = self.adapt("refused", *arguments)
            self.assertEqual((code, said in told), (2, True), told)
        with self.assertRaises(foveate.adapt.Unadaptable):
            foveate.adapt.load(empty)


if __name__ == "__main__":
    unittest.main()
