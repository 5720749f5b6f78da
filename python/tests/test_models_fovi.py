"""Tables of FOVI's retinas: a view with one publishes what ``fovi`` samples of the same picture.

``scripts/test.sh --long`` installs ``fovi``; elsewhere what needs it is skipped.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from models_support import frame, module_or_skip, scene, smooth, uniform
from support import HANG, RealDaemon, foveate, within

from foveate.models import Unsuitable, fovi

#: Of the published models.
FOVEATIONS = (2.78, 60.94)
#: Diameter of the field, and where it looks: over an edge of the picture, too.
SIZE, POINTS = 400.0, ((320.5, 240.5), (30.25, 460.0))
IMAGENET = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def printed(*arguments: str) -> tuple[int, str, str]:
    """What the program returns and prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = fovi.main(arguments)
    return code, out.getvalue(), errors.getvalue()


class SamplesOfAFrame(unittest.TestCase):
    def test_they_come_in_the_order_of_a_model(self) -> None:
        picture = scene(64, 48)
        places = [(5, 7), (63, 0), (5, 7), (20, 30)]
        view = frame(picture, [(x, y, 1, 1, 0) for x, y in places], 1, "samples", dtype="f32", **IMAGENET)
        found = fovi.samples(view)
        self.assertEqual((found.shape, found.dtype), ((1, 1, 3, 4), np.float32))
        pixels = np.array([picture[y, x] for x, y in places]) / 255
        np.testing.assert_allclose(found[0, 0].T, (pixels - IMAGENET["mean"]) / IMAGENET["std"], atol=1e-6)

    def test_other_views_are_refused(self) -> None:
        with self.assertRaisesRegex(Unsuitable, "layout = 'uniform'.*table of the model's retina"):
            fovi.samples(uniform(scene(64, 48), 16))
        with self.assertRaisesRegex(Unsuitable, "patch = 8.*patch = 1"):
            fovi.samples(frame(scene(64, 48), [(0, 0, 8, 8, 0)], 8, "samples"))


class TablesOfRetinas(unittest.TestCase):
    """Of what stands for a retina: two rings around a point."""

    def retina(self, **changes: Any) -> Any:
        places = np.array([[0, 0], [0.25, 0], [0, 0.25], [-1, 0], [0, -1]], np.float32)
        coords = SimpleNamespace(
            cartesian=Tensor(places), polar=Tensor(np.hypot(*places.T)[:, None]), valid_mask=Tensor(np.ones(5, bool))
        )
        Coords = type("Coords", (SimpleNamespace,), {"__len__": lambda self: len(self.cartesian.array)})
        sampler = SimpleNamespace(coords=Coords(**vars(coords)), mode="nearest", style="isotropic")
        made = SimpleNamespace(sampler=sampler, field_geometry="planar")
        for name, value in changes.items():
            owner = made if hasattr(made, name) else sampler
            setattr(owner, name, value)
        return made

    def test_x_is_right_and_y_is_down(self) -> None:
        expected = [[0, 0, 1], [10, 0, 1], [0, -10, 1], [-40, 0, 1], [0, 40, 1]]
        np.testing.assert_array_equal(fovi.table(self.retina(), 80), expected)

    def test_pooled_steps_are_the_distance_of_rings(self) -> None:
        found = fovi.table(self.retina(pooler=None), 80)
        # Rings at 0, 10 and 40 pixels.
        np.testing.assert_array_equal(found[:, 2], np.gradient([0.0, 10, 40]).round()[[0, 1, 1, 2, 2]])
        tiny = fovi.table(self.retina(pooler=None), 0.1)
        np.testing.assert_array_equal(tiny[:, 2], 1)

    def test_retinas_that_no_table_can_say_are_refused(self) -> None:
        for changes, size, reason in (
            ({"mode": "bilinear"}, 80, "grid_bilinear"),
            ({"field_geometry": "spherical"}, 80, "planar"),
            ({}, 0, "positive number of pixels"),
            ({}, float("nan"), "positive number of pixels"),
        ):
            with self.subTest(changes), self.assertRaisesRegex(Unsuitable, reason):
                fovi.table(self.retina(**changes), size)

    def test_masked_samples_lie_beside_every_picture(self) -> None:
        masked = self.retina()
        masked.sampler.coords.valid_mask.array[2] = False
        expected = fovi.table(self.retina(), 80)
        expected[2] = (32768, 32768, 1)
        np.testing.assert_array_equal(fovi.table(masked, 80), expected)

    def test_numbers_that_no_retina_has_are_refused_before_fovi_is_imported(self) -> None:
        for arguments, reason in (
            ((0,), "a = 0"),
            ((float("inf"),), "a = inf"),
            ((2.78, 1), "resolution = 1"),
            ((2.78, 71), "from 2 to 70"),
            ((2.78, 64, -16), "fov = -16"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(Unsuitable, reason):
                fovi.retina(*arguments)
        code, _, error = printed("table.npy", "--a", "-1", "--size", "100")
        self.assertEqual(code, 2)
        self.assertIn("a = -1.0: give a positive number", error)


class Tensor:
    """An array with the method of a tensor that a table takes."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def numpy(self) -> Any:
        return self.array

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.array[key])


class ViewsAreTheSamplesOfFovi(unittest.TestCase):
    def setUp(self) -> None:
        self.torch = module_or_skip("torch")
        module_or_skip("fovi.sensing.retina")
        self.pillow = module_or_skip("PIL.Image")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def published(self, picture: Any, views: dict[str, Any]) -> dict[str, list[Any]]:
        """Frames of views with these tables over a picture, one for each of :data:`POINTS`."""
        self.pillow.fromarray(picture).save(self.folder / "picture.png")
        text = f'[[stream]]\nname = "front"\nsource = "{self.folder}/picture.png"\nloop = true\nbackend = "cpu"\n'
        for name, rows in views.items():
            np.save(self.folder / f"{name}.npy", rows)
            text += f'[[stream.view]]\nname = "{name}"\nlayout = "samples"\ntable = "{self.folder}/{name}.npy"\n'
            text += 'outside = "mean"\ngaze = { policy = "fixed" }\n'
        frames: dict[str, list[Any]] = {}
        with RealDaemon(text) as daemon:
            for name in views:
                with foveate.open(f"front/{name}", daemon.path) as view:
                    found = view.read(timeout=HANG)
                    for x, y in POINTS:
                        view.look(x, y)
                        for _ in within():
                            found = view.read(timeout=HANG)
                            if (found.fixation.x, found.fixation.y) == (x, y):
                                break
                        frames.setdefault(name, []).append(found)
        return frames

    def sampled(self, retina: Any, picture: Any, x: float, y: float) -> Any:
        """What ``fovi`` gives, [N, 3], normalised, and 0 beside the picture."""
        height, width = picture.shape[:2]
        mean, std = (self.torch.tensor(IMAGENET[name]).reshape(3, 1, 1) for name in ("mean", "std"))
        image = (self.torch.from_numpy(picture.transpose(2, 0, 1)).float() / 255 - mean) / std
        found = retina(image[None], self.torch.tensor([y / height, x / width]), fixation_size=int(SIZE))
        return found[0].T.numpy()

    def test_nearest_pixels_are_equal(self) -> None:
        picture = scene(640, 480)
        retinas = {f"a{index}": fovi.retina(a) for index, a in enumerate(FOVEATIONS)}
        tables = {name: fovi.table(retina, SIZE) for name, retina in retinas.items()}
        frames = self.published(picture, tables)
        for name, rows in tables.items():
            self.assertGreater(len(rows), 3_000)
            for (x, y), found in zip(POINTS, frames[name], strict=True):
                ours, theirs = fovi.samples(found)[0, 0].T, self.sampled(retinas[name], picture, x, y)
                # Places in single precision, and the even one of two pixels.
                points = rows[:, :2] + (x, y)
                is_certain = (np.abs(points - points.round()) > 1e-3).all(axis=1)
                self.assertGreater(is_certain.mean(), 0.9)
                np.testing.assert_allclose(ours[is_certain], theirs[is_certain], rtol=0, atol=1e-5)
                # Beside the picture, and what the retina masks at its rim.
                share = (ours == 0).all(axis=1).mean()
                self.assertTrue(0.3 < share if (x, y) == POINTS[1] else share < 0.1, share)

    def test_areas_agree_with_pooled_samples(self) -> None:
        picture = smooth(640, 480)
        stripes = (np.arange(480) // 3 % 2 * 60)[:, None, None]
        picture = (picture // 2 + stripes).astype(np.uint8)
        retinas = {f"a{index}": fovi.retina(a, resolution=24, pooled=True) for index, a in enumerate(FOVEATIONS)}
        tables = {name: fovi.table(retina, SIZE) for name, retina in retinas.items()}
        points = {f"{name}-points": np.where([True, True, False], rows, 1) for name, rows in tables.items()}
        frames = self.published(picture, {**tables, **points})
        std = np.array(IMAGENET["std"]) * 255
        for name, rows in tables.items():
            with self.subTest(name):
                self.assertGreater(rows[:, 2].max(), 4)
                theirs = self.sampled(retinas[name], picture, *POINTS[0])
                areas, nearest = (
                    np.abs(fovi.samples(frames[kind][0])[0, 0].T - theirs) * std for kind in (name, f"{name}-points")
                )
                # Nine photoreceptors stand for an area there: of stripes they miss some.
                self.assertLess(areas.mean(), 10)
                self.assertLess(2 * areas.mean(), nearest.mean())

    def test_the_program_writes_the_table(self) -> None:
        path = self.folder / "fovi.npy"
        code, out, _ = printed(str(path), "--a", "2.78", "--size", "400", "--resolution", "16")
        rows = np.load(path)
        self.assertEqual(code, 0)
        self.assertIn(f"{len(rows)} samples, steps of 1 to 1 pixels", out)
        np.testing.assert_array_equal(rows, fovi.table(fovi.retina(2.78, 16), 400))
        code, _, error = printed("/nowhere/fovi.npy", "--a", "2.78", "--size", "400", "--resolution", "16")
        self.assertEqual(code, 2)
        self.assertIn("No such file", error)


if __name__ == "__main__":
    unittest.main()
