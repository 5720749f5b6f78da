"""The camera model of a stream: from source pixels to directions, and back.

The calibrated image is the one that the calibration was made with; the source is the result of the pipeline's cropping,
scaling or rotation. Coordinates of both have their origin in the top left *corner*, so that the centre of the first
pixel is (0.5, 0.5). The camera matrix follows ROS and OpenCV, where that centre is (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import codes
from .errors import FoveateError

#: From coordinates with pixel centres at +0.5 to those of the camera matrix, with pixel centres at 0.
_PIXEL_CENTRE = 0.5
#: Accuracy of the inverse distortion, in the image plane at distance 1.
_TOLERANCE = 1e-9
#: Newton's iteration doubles the digits in each step; a point that needs more has no solution.
_STEPS_MAX = 50
#: Points between the principal point and a solution that are checked for a fold.
_FOLD_PROBES = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Camera:
    """A calibrated camera, as in ROS's ``camera_info``, and its pose."""

    #: 1: pinhole.
    kind: int
    #: The camera matrix in pixels of the calibrated image: [3, 3] float64.
    k: Floats
    #: Name of the distortion model: ``"plumb_bob"``, ``"rational_polynomial"``, ``"equidistant"``, or one of the daemon's.
    distortion: str
    #: Its coefficients, in the order of ROS's ``D``: [0 to 14] float64.
    coefficients: Floats
    #: Width and height of the calibrated image in pixels.
    extent: tuple[int, int]
    #: Source pixel = A @ (x, y, 1) of the calibrated image: [2, 3] float64.
    source_from_calibrated: Floats
    #: The ``frame_id`` of directions: x right, y down, z forward.
    optical_frame: str
    #: The parent frame of the pose, or None without one.
    parent_frame: str | None = None
    #: Rows of [R | t], in metres: [3, 4] float64, or None.
    parent_from_optical: Floats | None = None

    def rays(self, points: ArrayLike) -> Floats:
        """The directions of points of the source.

        :param points: [N, 2], x and y in source pixels.
        :returns: unit vectors in the optical frame, [N, 3] float64. NaN where no direction leads to the point: beyond
            the range of the distortion model.
        :raises FoveateError: if the model is unknown or inconsistent.
        """
        points = np.asarray(points, np.float64).reshape(-1, 2)
        return self._distortion().rays(self._plane_from_source(points))

    def project(self, directions: ArrayLike) -> Floats:
        """The points of directions in the source: the inverse of :meth:`rays`.

        :param directions: [N, 3] in the optical frame, of any length.
        :returns: x and y in source pixels, [N, 2] float64, inside the picture or not. NaN behind the camera.
        :raises FoveateError: as :meth:`rays`.
        """
        directions = np.asarray(directions, np.float64).reshape(-1, 3)
        plane = self._distortion().project(directions)
        calibrated = (_homogeneous(plane) @ self.k.T)[:, :2] + _PIXEL_CENTRE
        return _homogeneous(calibrated) @ self.source_from_calibrated.T

    def _plane_from_source(self, points: Floats) -> Floats:
        """Points of the distorted image plane at distance 1: [N, 2]."""
        turn, shift = self.source_from_calibrated[:, :2], self.source_from_calibrated[:, 2]
        calibrated = (points - shift) @ _inverse(turn, "source_from_calibrated").T
        plane = _homogeneous(calibrated - _PIXEL_CENTRE) @ _inverse(self.k, "the camera matrix").T
        return plane[:, :2] / plane[:, 2:]

    def _distortion(self) -> _Polynomial | _Equidistant:
        if self.kind != codes.CAMERA_PINHOLE:
            raise FoveateError(f"unknown camera kind {self.kind}: install a newer foveate package")
        if not self.distortion and not self.coefficients.any():
            return _Polynomial(self._padded_coefficients(0))
        for name, count, model in _MODELS:
            if self.distortion == name:
                return model(self._padded_coefficients(count))
        known = ", ".join(name for name, _, _ in _MODELS)
        raise FoveateError(f"unknown distortion model {self.distortion!r} (expected one of {known})")

    def _padded_coefficients(self, count: int) -> Floats:
        if self.coefficients[count:].any():
            raise FoveateError(
                f"{self.distortion} has {len(self.coefficients)} coefficients, but only the first {count} are supported"
            )
        return np.append(self.coefficients, np.zeros(count))[:count]


class _Polynomial:
    """``plumb_bob`` and ``rational_polynomial``: Brown's model, as OpenCV has it, with a rational radius and a thin
    prism: k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4."""

    def __init__(self, coefficients: Floats) -> None:
        self._coefficients = np.append(coefficients, np.zeros(12 - len(coefficients)))

    def rays(self, plane: Floats) -> Floats:
        straight = self._straightened(plane)
        rays = _homogeneous(straight)
        return rays / np.linalg.norm(rays, axis=1, keepdims=True)

    def project(self, directions: Floats) -> Floats:
        depth = np.where(0 < directions[:, 2:], directions[:, 2:], np.nan)
        return self._distorted(directions[:, :2] / depth)[0]

    def _straightened(self, target: Floats) -> Floats:
        """The points whose distortion is ``target``, by Newton's iteration; NaN where there are none."""
        point = target.copy()
        with np.errstate(all="ignore"):
            for _ in range(_STEPS_MAX):
                distorted, jacobian = self._distorted(point)
                step = _solved(jacobian, target - distorted)
                point = point + step
                if not (_TOLERANCE * 1e-3 < np.abs(step)).any():
                    break
            is_solved = np.abs(self._distorted(point)[0] - target).max(axis=1, initial=0) < _TOLERANCE
            point[~(is_solved & self._is_unfolded(point))] = np.nan
        return point

    def _is_unfolded(self, point: Floats) -> Floats:
        """Whether the mapping does not fold anywhere between the principal point and ``point``."""
        unfolded = np.ones(len(point), bool)
        for share in np.linspace(0, 1, _FOLD_PROBES + 1):
            unfolded &= 0 < np.linalg.det(self._distorted(share * point)[1])
        return unfolded

    def _distorted(self, point: Floats) -> tuple[Floats, Floats]:
        """Distorted points [N, 2], and the Jacobians of the distortion: [N, 2, 2]."""
        k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = self._coefficients
        x, y = point[:, 0], point[:, 1]
        r2 = x * x + y * y
        upper, lower = 1 + r2 * (k1 + r2 * (k2 + r2 * k3)), 1 + r2 * (k4 + r2 * (k5 + r2 * k6))
        upper_slope, lower_slope = k1 + r2 * (2 * k2 + 3 * r2 * k3), k4 + r2 * (2 * k5 + 3 * r2 * k6)
        radial = upper / lower
        radial_slope = (upper_slope - radial * lower_slope) / lower
        prism_x, prism_y = 2 * (s1 + 2 * r2 * s2), 2 * (s3 + 2 * r2 * s4)
        mixed = 2 * (x * y * radial_slope + p1 * x + p2 * y)
        distorted = (
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + r2 * (s1 + r2 * s2),
            y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + r2 * (s3 + r2 * s4),
        )
        jacobian = (
            (radial + 2 * x * x * radial_slope + 2 * p1 * y + 6 * p2 * x + prism_x * x, mixed + prism_x * y),
            (mixed + prism_y * x, radial + 2 * y * y * radial_slope + 6 * p1 * y + 2 * p2 * x + prism_y * y),
        )
        return np.stack(distorted, axis=1), np.moveaxis(np.array(jacobian), 2, 0)


class _Equidistant:
    """``equidistant``: the fisheye model of Kannala and Brandt, as OpenCV has it. The distance from the principal point
    is a polynomial of the angle from the optical axis, which may exceed a right angle."""

    def __init__(self, coefficients: Floats) -> None:
        k1, k2, k3, k4 = coefficients
        self._radius = np.polynomial.Polynomial([0, 1, 0, k1, 0, k2, 0, k3, 0, k4])
        self._slope = self._radius.deriv()

    def rays(self, plane: Floats) -> Floats:
        radius = np.linalg.norm(plane, axis=1)
        angle = self._angle(radius)
        scale = np.divide(np.sin(angle), radius, out=np.ones_like(radius), where=0 < radius)
        return np.column_stack([plane * scale[:, None], np.cos(angle)])

    def project(self, directions: Floats) -> Floats:
        across = np.linalg.norm(directions[:, :2], axis=1)
        radius = self._radius(np.arctan2(across, directions[:, 2]))
        scale = np.divide(radius, across, out=np.zeros_like(radius), where=0 < across)
        return directions[:, :2] * scale[:, None]

    def _angle(self, radius: Floats) -> Floats:
        """The angles whose images are at ``radius``, by Newton's iteration; NaN where there are none."""
        angle = radius.copy()
        with np.errstate(all="ignore"):
            for _ in range(_STEPS_MAX):
                step = (radius - self._radius(angle)) / self._slope(angle)
                angle = angle + step
                if not (_TOLERANCE * 1e-3 < np.abs(step)).any():
                    break
            is_solved = (np.abs(self._radius(angle) - radius) < _TOLERANCE) & (0 <= angle) & (angle <= np.pi)
            for share in np.linspace(0, 1, _FOLD_PROBES + 1):
                is_solved &= 0 < self._slope(share * angle)
            angle[~is_solved] = np.nan
        return angle


#: Name, most coefficients, and the model.
_MODELS = (
    ("plumb_bob", 5, _Polynomial),
    ("rational_polynomial", 12, _Polynomial),
    ("equidistant", 4, _Equidistant),
)


def _homogeneous(points: Floats) -> Floats:
    return np.column_stack([points, np.ones(len(points))])


def _inverse(matrix: Floats, name: str) -> Floats:
    try:
        inverse = np.linalg.inv(matrix).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        raise FoveateError(f"invalid calibration: {name} is singular: {matrix.tolist()}") from None
    if not np.isfinite(inverse).all():
        raise FoveateError(f"invalid calibration: {name} is {matrix.tolist()}")
    return inverse


def _solved(matrix: Floats, target: Floats) -> Floats:
    """Cramer's rule for many 2 x 2 systems: unlike with LAPACK, a singular one affects only itself."""
    (a, b), (c, d) = np.moveaxis(matrix, 0, 2)
    x, y = target[:, 0], target[:, 1]
    return np.column_stack([d * x - b * y, a * y - c * x]) / (a * d - b * c)[:, None]
