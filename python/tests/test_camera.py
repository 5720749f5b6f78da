"""Directions and pixels are inverses of each other, as the camera model defines them."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
from support import FakeRing, abi, foveate, token_records

K = np.array([[700.0, 0.0, 640.0], [0.0, 710.0, 350.0], [0.0, 0.0, 1.0]])
SAME = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
EXTENT = (1280, 720)

#: Calibrations of real lenses, in the order of ROS.
MODELS: dict[str, list[float]] = {
    "": [],
    "plumb_bob": [-0.28, 0.07, 0.0003, -0.0002, 0.01],
    "rational_polynomial": [0.68, -2.7, 0.0004, -0.0005, 1.6, 0.55, -2.55, 1.54, 0.001, -0.0002, 0.0005, 0.0001],
    "equidistant": [-0.02, 0.004, -0.003, 0.0007],
}


def camera(distortion: str = "", coefficients: Any = (), **fields: Any) -> foveate.Camera:
    given = dict(
        kind=1,
        k=K,
        distortion=distortion,
        coefficients=np.array(coefficients, np.float64),
        extent=EXTENT,
        source_from_calibrated=SAME,
        optical_frame="front_optical",
    )
    return foveate.Camera(**{**given, **fields})


def naive_pixel(distortion: str, d: list[float], direction: Any) -> tuple[float, float]:
    """OpenCV's definition of ``projectPoints`` and ``fisheye::projectPoints``, one direction at a time; pixel centres at
    whole numbers."""
    x, y = direction[0] / direction[2], direction[1] / direction[2]
    d = [*d, *[0.0] * 12]
    r2 = x**2 + y**2
    if distortion == "equidistant":
        theta = np.arctan(np.sqrt(r2))
        scale = theta * (1 + d[0] * theta**2 + d[1] * theta**4 + d[2] * theta**6 + d[3] * theta**8) / np.sqrt(r2)
        u, v = x * scale, y * scale
    else:
        radial = (1 + d[0] * r2 + d[1] * r2**2 + d[4] * r2**3) / (1 + d[5] * r2 + d[6] * r2**2 + d[7] * r2**3)
        u = x * radial + 2 * d[2] * x * y + d[3] * (r2 + 2 * x**2) + d[8] * r2 + d[9] * r2**2
        v = y * radial + d[2] * (r2 + 2 * y**2) + 2 * d[3] * x * y + d[10] * r2 + d[11] * r2**2
    return K[0, 0] * u + K[0, 2], K[1, 1] * v + K[1, 2]


class RaysInvertTheProjection(unittest.TestCase):
    def setUp(self) -> None:
        x, y = np.meshgrid(np.linspace(0, EXTENT[0], 33), np.linspace(0, EXTENT[1], 19))
        self.points = np.column_stack([x.flat, y.flat])

    def test_a_ray_leads_back_to_its_pixel(self) -> None:
        for distortion, coefficients in MODELS.items():
            with self.subTest(distortion=distortion):
                model = camera(distortion, coefficients)
                rays = model.rays(self.points)
                self.assertTrue(np.isfinite(rays).all())
                np.testing.assert_allclose(np.linalg.norm(rays, axis=1), 1, atol=1e-12)
                np.testing.assert_allclose(model.project(rays), self.points, atol=1e-6)

    def test_a_direction_appears_where_opencv_says_half_a_pixel_further(self) -> None:
        directions = np.random.default_rng(1).normal((0, 0, 3), (0.9, 0.5, 0.3), (200, 3))
        for distortion, coefficients in MODELS.items():
            with self.subTest(distortion=distortion):
                model = camera(distortion, coefficients)
                naive = np.array([naive_pixel(distortion, coefficients, direction) for direction in directions])
                np.testing.assert_allclose(model.project(directions), naive + 0.5, rtol=1e-12, atol=1e-9)
                unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
                np.testing.assert_allclose(model.rays(naive + 0.5), unit, atol=1e-8)

    def test_the_principal_point_is_straight_ahead(self) -> None:
        for distortion, coefficients in MODELS.items():
            ray = camera(distortion, coefficients).rays([(640.5, 350.5)])
            np.testing.assert_allclose(ray, [(0, 0, 1)], atol=1e-12)

    def test_right_is_x_down_is_y_and_forward_is_z(self) -> None:
        right, down = camera().rays([(640.5 + 700, 350.5), (640.5, 350.5 + 710)])
        np.testing.assert_allclose(right, np.array([1, 0, 1]) / np.sqrt(2), atol=1e-12)
        np.testing.assert_allclose(down, np.array([0, 1, 1]) / np.sqrt(2), atol=1e-12)

    def test_what_the_pipeline_did_to_the_picture_is_undone(self) -> None:
        # Flipped from left to right, scaled to a half, then cropped by 100 and 20 pixels.
        change = np.array([[-0.5, 0.0, 0.5 * 1280 - 100], [0.0, 0.5, -20.0]])
        points = np.array([(100.25, 30.5), (3.0, 300.0)])
        calibrated = np.array([((x - 540) / -0.5, (y + 20) / 0.5) for x, y in points])
        for distortion, coefficients in MODELS.items():
            plain, changed = (
                camera(distortion, coefficients),
                camera(distortion, coefficients, source_from_calibrated=change),
            )
            np.testing.assert_allclose(changed.rays(points), plain.rays(calibrated), atol=1e-12)
            np.testing.assert_allclose(changed.project(changed.rays(points)), points, atol=1e-6)

    def test_a_fisheye_sees_beyond_a_right_angle(self) -> None:
        model = camera("equidistant", [0.0, 0.0, 0.0, 0.0])
        ray = model.rays([(640.5 + 700 * 1.8, 350.5)])
        np.testing.assert_allclose(ray, [(np.sin(1.8), 0, np.cos(1.8))], atol=1e-12)
        np.testing.assert_allclose(model.project(ray), [(640.5 + 700 * 1.8, 350.5)], atol=1e-9)

    def test_where_no_direction_leads_there_is_none(self) -> None:
        # r (1 - 0.3 r^2) turns back at r = 1.054, where it is 0.703.
        model = camera("plumb_bob", [-0.3, 0, 0, 0, 0])
        inside, outside = (640.5 + 700 * 0.70, 350.5), (640.5 + 700 * 0.71, 350.5)
        rays = model.rays([inside, outside, (640.5, 350.5)])
        self.assertEqual(np.isnan(rays).all(axis=1).tolist(), [False, True, False])
        fisheye = camera("equidistant", [-0.3, 0, 0, 0])
        self.assertEqual(np.isnan(fisheye.rays([inside, outside])).all(axis=1).tolist(), [False, True])
        self.assertTrue(np.isnan(camera("plumb_bob", [0.1]).project([(0, 0, -1)])).all())

    def test_a_second_solution_beyond_a_fold_is_none(self) -> None:
        # Beyond its fold the radius grows again: there is a solution, and no lens has it.
        model = camera("plumb_bob", [-0.5, 0.08, 0, 0, 0])
        radius = np.linspace(0, 5, 5001)
        distorted = radius * (1 - 0.5 * radius**2 + 0.08 * radius**4)
        peak = distorted[: np.argmax(np.diff(distorted) < 0) + 1].max()
        self.assertGreater(distorted[-1], peak + 1)
        radii = peak + np.array([-0.01, 0.02, 0.1, 0.3, 0.5, 0.9])
        rays = model.rays(np.column_stack([640.5 + 700 * radii, np.full(6, 350.5)]))
        self.assertEqual(np.isnan(rays).all(axis=1).tolist(), [False] + [True] * 5)


class CalibrationIsChecked(unittest.TestCase):
    def test_what_is_not_known_is_refused_by_name(self) -> None:
        for model, pattern in [
            (camera("fov", [0.9]), "unknown distortion model 'fov'.*plumb_bob"),
            (camera("", [0.9]), "unknown distortion model ''"),
            (camera(kind=7), "kind 7"),
            (camera("plumb_bob", [0, 0, 0, 0, 0, 0.1]), "6 coefficients, but only the first 5"),
            (camera("rational_polynomial", [0] * 13 + [0.1]), "14 coefficients, but only the first 12"),
            (camera(k=np.zeros((3, 3))), "camera matrix is singular"),
            (camera(source_from_calibrated=np.zeros((2, 3))), "source_from_calibrated is singular"),
        ]:
            with self.assertRaisesRegex(foveate.FoveateError, pattern):
                model.rays([(1, 2)])


class SegmentBringsTheCamera(unittest.TestCase):
    def ring(self, kind: int = 1) -> FakeRing:
        ring = FakeRing(extent=EXTENT)
        block = ring.header["camera"]
        block["kind"], block["coefficient_count"] = kind, 5
        block["distortion_name"], block["k"] = b"plumb_bob", K.flat
        block["coefficients"][:5] = MODELS["plumb_bob"]
        place = ring.struct(abi.CAMERA_FRAME_BLOCK, abi.CAMERA_FRAME_OFFSET)
        place["optical_frame"], place["parent_frame"] = b"front_optical", b"base_link"
        place["parent_from_optical"] = range(12)
        place["source_from_calibrated"] = SAME.flat
        place["calibrated_width"], place["calibrated_height"] = EXTENT
        ring.publish(token_records(2, sx=[1, 8], sy=[1, 8], box=[(640, 350, 641, 351), (0, 0, 16, 12)]))
        return ring

    def test_every_field_arrives(self) -> None:
        model = self.ring().read().info.camera
        assert model is not None
        self.assertEqual((model.kind, model.distortion, model.extent), (1, "plumb_bob", EXTENT))
        self.assertEqual((model.optical_frame, model.parent_frame), ("front_optical", "base_link"))
        np.testing.assert_array_equal(model.k, K)
        np.testing.assert_array_equal(model.coefficients, MODELS["plumb_bob"])
        np.testing.assert_array_equal(model.source_from_calibrated, SAME)
        np.testing.assert_array_equal(model.parent_from_optical, np.arange(12).reshape(3, 4))

    def test_without_a_parent_there_are_no_extrinsics(self) -> None:
        ring = self.ring()
        ring.struct(abi.CAMERA_FRAME_BLOCK, abi.CAMERA_FRAME_OFFSET)["parent_frame"] = b""
        model = ring.read().info.camera
        assert model is not None
        self.assertEqual((model.parent_frame, model.parent_from_optical), (None, None))

    def test_rays_go_through_the_middles_of_the_boxes(self) -> None:
        frame = self.ring().read()
        np.testing.assert_array_equal(frame.centres(), [(640.5, 350.5), (8, 6)])
        rays = frame.rays()
        np.testing.assert_allclose(rays[0], (0, 0, 1), atol=1e-12)
        np.testing.assert_allclose(rays, frame.info.camera.rays([(640.5, 350.5), (8, 6)]))

    def test_without_a_camera_there_are_no_rays(self) -> None:
        with self.assertRaisesRegex(foveate.FoveateError, r"\[stream.camera\]"):
            self.ring(kind=0).read().rays()

    def test_the_name_of_a_distortion_arrives_whole(self) -> None:
        for name in ("rational_polynomial", "d" * 31):
            ring = self.ring()
            ring.header["camera"]["distortion_name"] = name.encode()
            model = ring.read().info.camera
            assert model is not None
            self.assertEqual(model.distortion, name)

    def test_more_coefficients_than_there_is_room_for_are_refused(self) -> None:
        ring = self.ring()
        ring.header["camera"]["coefficient_count"] = 15
        with self.assertRaisesRegex(foveate.BrokenSegment, "coefficient_count is 15"):
            ring.read()


if __name__ == "__main__":
    unittest.main()
