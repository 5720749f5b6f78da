//! Rays of a camera: where in front of it a box of pixels lies, and where in the picture a direction is.

use super::CameraFacts;
use crate::geometry::region::PixelBox;

/// Steps of the iterations that take a distortion back.
const STEPS_MAX: usize = 50;

/// A ray is found when it is distorted to within this of where it should be, as a share of the focal length: a thousandth of a pixel
/// of a lens of 1000 pixels.
const PRECISION: f64 = 1e-6;

/// A ray that comes back from its pixel is the same to within this share of 1 and its slope. Where a polynomial turns back on itself, as
/// it does outside of what a lens shows, another one comes.
const SAME_RAY: f64 = 1e-3;

/// Parts into which each side of a box is cut to find how far a distortion bends it.
const PARTS: u32 = 4;

/// The slopes of rays: x / z and y / z in the optical frame, x right, y down, z forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RayBounds {
    /// Least and greatest x / z.
    pub x: [f64; 2],
    /// Least and greatest y / z.
    pub y: [f64; 2],
}

impl RayBounds {
    /// The box, in metres, that holds all points on these rays whose depth lies between `nearest` and `farthest`: least x, y, z and
    /// greatest x, y, z.
    pub fn between(self, nearest: f64, farthest: f64) -> [f64; 6] {
        // A slope to the left is farthest left at the farthest depth, and nearest to the axis at the nearest.
        let least = |slope: f64| slope * if slope < 0.0 { farthest } else { nearest };
        let greatest = |slope: f64| slope * if slope < 0.0 { nearest } else { farthest };
        let (x, y) = (self.x, self.y);
        [least(x[0]), least(y[0]), nearest, greatest(x[1]), greatest(y[1]), farthest]
    }
}

/// Takes pixels of the source to rays, and rays to pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Rays {
    k: [f64; 9],
    lens: Lens,
    /// Rows of a 2 x 3 matrix: from (x, y, 1) of the source to the calibrated picture.
    calibrated_from_source: [f64; 6],
    /// Inverse of the map from the source to the calibrated picture.
    source_from_calibrated: [f64; 6],
}

/// Distortion of a lens.
#[derive(Clone, Debug, PartialEq)]
enum Lens {
    /// No distortion.
    Straight,
    /// `plumb_bob` and `rational_polynomial`: k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4, as in OpenCV's `calib3d`.
    Polynomial([f64; 12]),
    /// `equidistant`: k1 k2 k3 k4, as in OpenCV's `fisheye`.
    Equidistant([f64; 4]),
}

impl Lens {
    /// The lens with the distortion model `name`; `None` if the model is unknown.
    fn of(name: &str, coefficients: &[f64]) -> Option<Self> {
        if coefficients.iter().all(|coefficient| *coefficient == 0.0) && name != "equidistant" {
            return Some(Self::Straight);
        }
        match name {
            "plumb_bob" | "rational_polynomial" => {
                let (known, tilt) = coefficients.split_at(coefficients.len().min(12));
                if tilt.iter().any(|coefficient| *coefficient != 0.0) {
                    return None;
                }
                let mut all = [0.0; 12];
                all[..known.len()].copy_from_slice(known);
                Some(Self::Polynomial(all))
            }
            "equidistant" if coefficients.len() <= 4 => {
                let mut all = [0.0; 4];
                all[..coefficients.len()].copy_from_slice(coefficients);
                Some(Self::Equidistant(all))
            }
            _ => None,
        }
    }

    /// The slopes behind the lens.
    fn bent(&self, slopes: [f64; 2]) -> [f64; 2] {
        let [x, y] = slopes;
        match self {
            Self::Straight => slopes,
            Self::Polynomial(coefficients) => {
                let (radial, shift) = polynomial(coefficients, slopes);
                [x * radial + shift[0], y * radial + shift[1]]
            }
            Self::Equidistant(coefficients) => {
                let slope = (x * x + y * y).sqrt();
                if slope == 0.0 {
                    return slopes;
                }
                let scale = equidistant(coefficients, slope.atan()).0 / slope;
                [x * scale, y * scale]
            }
        }
    }

    /// The slopes before the lens; `None` where no ray arrives.
    fn straightened(&self, bent: [f64; 2]) -> Option<[f64; 2]> {
        match self {
            Self::Straight => Some(bent),
            Self::Polynomial(coefficients) => {
                // The fixed point of OpenCV's undistortPoints.
                let mut slopes = bent;
                for _ in 0..STEPS_MAX {
                    let (radial, shift) = polynomial(coefficients, slopes);
                    let before = slopes;
                    slopes = [(bent[0] - shift[0]) / radial, (bent[1] - shift[1]) / radial];
                    // Further steps do not change the result.
                    if slopes == before {
                        break;
                    }
                }
                let (radial, shift) = polynomial(coefficients, slopes);
                let again = [slopes[0] * radial + shift[0], slopes[1] * radial + shift[1]];
                let error = (again[0] - bent[0]).abs().max((again[1] - bent[1]).abs());
                // Comparisons with NaN are false.
                (error <= PRECISION && 0.0 < radial).then_some(slopes)
            }
            Self::Equidistant(coefficients) => {
                let bent_angle = bent[0].hypot(bent[1]);
                if bent_angle == 0.0 {
                    return Some(bent);
                }
                let mut angle = bent_angle;
                for _ in 0..STEPS_MAX {
                    let (value, slope) = equidistant(coefficients, angle);
                    let before = angle;
                    angle -= (value - bent_angle) / slope;
                    if angle == before {
                        break;
                    }
                }
                let error = (equidistant(coefficients, angle).0 - bent_angle).abs();
                let is_ahead =
                    error <= PRECISION && 0.0 < angle && angle < std::f64::consts::FRAC_PI_2;
                let scale = angle.tan() / bent_angle;
                is_ahead.then_some([bent[0] * scale, bent[1] * scale])
            }
        }
    }
}

/// The radial factor and the shift of a ray.
fn polynomial(coefficients: &[f64; 12], [x, y]: [f64; 2]) -> (f64, [f64; 2]) {
    let [k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4] = *coefficients;
    let r2 = x * x + y * y;
    let radial = (1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1.0 + r2 * (k4 + r2 * (k5 + r2 * k6)));
    let shift = [
        2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x) + r2 * (s1 + r2 * s2),
        p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y + r2 * (s3 + r2 * s4),
    ];
    (radial, shift)
}

/// The angle behind the lens of a ray at `angle` from the axis, and its derivative.
fn equidistant(coefficients: &[f64; 4], angle: f64) -> (f64, f64) {
    let [k1, k2, k3, k4] = *coefficients;
    let a2 = angle * angle;
    let value = angle * (1.0 + a2 * (k1 + a2 * (k2 + a2 * (k3 + a2 * k4))));
    let slope = 1.0 + a2 * (3.0 * k1 + a2 * (5.0 * k2 + a2 * (7.0 * k3 + a2 * 9.0 * k4)));
    (value, slope)
}

impl Rays {
    /// The rays of a camera; `None` if its distortion is none of `plumb_bob`, `rational_polynomial` without tilt, and `equidistant`, and
    /// not 0.
    pub fn of(camera: &CameraFacts) -> Option<Self> {
        let calibration = &camera.calibration;
        let lens = Lens::of(&calibration.distortion, &calibration.coefficients)?;
        let [a, b, c, d, e, f] = camera.source_from_calibrated;
        let scale = 1.0 / (a * e - b * d);
        let (ia, ib, id, ie) = (e * scale, -b * scale, -d * scale, a * scale);
        let calibrated_from_source = [ia, ib, -(ia * c + ib * f), id, ie, -(id * c + ie * f)];
        let source_from_calibrated = camera.source_from_calibrated;
        Some(Self { k: calibration.k, lens, calibrated_from_source, source_from_calibrated })
    }

    /// The slopes x / z and y / z of the ray that meets the source at (`x`, `y`) pixels; `None` where the lens lets none through.
    pub fn at(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let [a, b, c, d, e, f] = self.calibrated_from_source;
        // ROS has the centre of the first pixel at (0, 0).
        let (u, v) = (a * x + b * y + c - 0.5, d * x + e * y + f - 0.5);
        let [fx, skew, cx, _, fy, cy, ..] = self.k;
        let bent_y = (v - cy) / fy;
        self.lens.straightened([(u - cx - skew * bent_y) / fx, bent_y])
    }

    /// The place in the plane of the source, in pixels, where light arrives from a direction x, y, z in the optical frame. `None` for a
    /// direction from behind the camera, and if the lens lets no light through from there.
    pub fn pixel_from(&self, [x, y, z]: [f64; 3]) -> Option<(f64, f64)> {
        if z <= 0.0 {
            return None;
        }
        let slopes = [x / z, y / z];
        let [bent_x, bent_y] = self.lens.bent(slopes);
        if self.lens != Lens::Straight {
            let again = self.lens.straightened([bent_x, bent_y])?;
            let is_same = |(again, slope): (f64, f64)| {
                (again - slope).abs() <= SAME_RAY * (1.0 + slope.abs())
            };
            if !again.into_iter().zip(slopes).all(is_same) {
                return None;
            }
        }
        let [fx, skew, cx, _, fy, cy, ..] = self.k;
        // The centre of the first pixel of ROS is half a pixel from the edge.
        let (u, v) = (fx * bent_x + skew * bent_y + cx + 0.5, fy * bent_y + cy + 0.5);
        let [a, b, c, d, e, f] = self.source_from_calibrated;
        Some((a * u + b * v + c, d * u + e * v + f))
    }

    /// Bounds of the rays through a box of pixels. Exact without a distortion; with one, the bounds of the rays through 25 points,
    /// spread evenly over the box. `None` if the lens lets no ray through one of the points, or the box is empty.
    pub fn through(&self, pixels: PixelBox) -> Option<RayBounds> {
        if pixels.is_empty() {
            return None;
        }
        let parts = if self.lens == Lens::Straight { 1 } else { PARTS };
        let along = |from: u32, to: u32, part: u32| {
            f64::from(from) + f64::from(to - from) * f64::from(part) / f64::from(parts)
        };
        let mut bounds = RayBounds {
            x: [f64::INFINITY, f64::NEG_INFINITY],
            y: [f64::INFINITY, f64::NEG_INFINITY],
        };
        for row in 0..=parts {
            for column in 0..=parts {
                let [x, y] =
                    self.at(along(pixels.x0, pixels.x1, column), along(pixels.y0, pixels.y1, row))?;
                bounds.x = [bounds.x[0].min(x), bounds.x[1].max(x)];
                bounds.y = [bounds.y[0].min(y), bounds.y[1].max(y)];
            }
        }
        Some(bounds)
    }
}
