//! Ego motion reported by a client, from odometry or a gyroscope: moves places of an earlier frame to the present one.
//!
//! A pure change of place, computed once per message in a fixed order of operations. It leaves out objects that moved in the scene.

use std::fmt;

use crate::camera::rays::Rays;
use crate::camera::rotation_matrix;
use crate::geometry::attention::AttentionMap;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::Points;
use crate::geometry::region::Region;

/// A homography whose determinant is smaller, in units of the picture's longer side and of its greatest number, takes the picture to a
/// line.
const DETERMINANT_MIN: f64 = 1e-9;

/// How far the length of a quaternion may be from 1, as in the configuration of a camera.
const LENGTH_ERROR_MAX: f64 = 0.01;

/// Parts into which each side of a map's area is cut to find where it goes.
const PARTS: u32 = 8;

/// Parts into which each side of where it goes is cut to turn the rays through a lens.
const LATTICE_PARTS: u32 = 24;

/// Motion of the camera, as a client states it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EgoMotion {
    /// Row by row: takes (x, y, 1) in source pixels of then to source pixels of now, times any factor. One that mirrors the picture is no
    /// motion of a camera: its factor is that with which the determinant is above 0, and then it leaves nothing in sight.
    Homography([f64; 9]),
    /// A quaternion x, y, z, w of length 1: takes a direction in the camera's optical frame of then (x right, y down, z forward) to the
    /// same direction in its optical frame of now. The camera's own turn is the inverse.
    Rotation([f64; 4]),
}

/// Why numbers do not describe an ego motion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EgoMotionError {
    /// A number is NaN or infinite.
    NotFinite,
    /// The homography takes the picture to a line or a point.
    Singular,
    /// The quaternion does not have length 1.
    NotUnit {
        /// Length of the quaternion.
        length: f64,
    },
    /// A rotation moves rays, and those of the camera are not known.
    NoRays,
}

impl fmt::Display for EgoMotionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFinite => f.write_str("invalid ego motion (expected finite numbers)"),
            Self::Singular => f.write_str(
                "invalid `homography`: it maps the picture to a line (expected 9 numbers, row by row, of an invertible matrix)",
            ),
            Self::NotUnit { length } => write!(
                f,
                "invalid `rotation`: length {length} (expected a quaternion [x, y, z, w] of length 1)"
            ),
            Self::NoRays => f.write_str("`rotation` needs the rays of the camera"),
        }
    }
}

impl std::error::Error for EgoMotionError {}

/// Takes pixels of an earlier frame ("then") to pixels of the present picture ("now"), and back.
#[derive(Clone, Debug, PartialEq)]
pub struct EgoTransform {
    image: Extent,
    map: PlaneMap,
}

#[derive(Clone, Debug, PartialEq)]
enum PlaneMap {
    /// Points in front of the camera have a third coordinate above 0.
    Homography {
        now_from_then: Matrix,
        then_from_now: Matrix,
    },
    Rotation {
        rays: Rays,
        now_from_then: Matrix,
    },
}

type Matrix = [[f64; 3]; 3];

impl EgoTransform {
    /// The transform of an ego motion, in pictures of `image` pixels. `rays` are the rays of the camera for such pictures, if they are known.
    ///
    /// # Errors
    ///
    /// See [`EgoMotionError`].
    pub fn of(
        motion: EgoMotion,
        image: Extent,
        rays: Option<Rays>,
    ) -> Result<Self, EgoMotionError> {
        let map = match motion {
            EgoMotion::Homography(cells) => homography(cells, image)?,
            EgoMotion::Rotation(quaternion) => {
                let now_from_then = rotation_matrix(normalised(quaternion)?);
                PlaneMap::Rotation { rays: rays.ok_or(EgoMotionError::NoRays)?, now_from_then }
            }
        };
        Ok(Self { image, map })
    }

    /// Where a place of then is now; `None` behind the camera, and outside of the picture.
    pub fn now(&self, place: (f64, f64)) -> Option<(f64, f64)> {
        self.carried(place).filter(|now| self.is_inside(*now))
    }

    /// Where a place of now was then; `None` behind the camera, and outside of the picture.
    pub fn then(&self, place: (f64, f64)) -> Option<(f64, f64)> {
        self.carried_back(place).filter(|then| self.is_inside(*then))
    }

    /// Points of then where they are now, without those that are not in the picture any more.
    pub fn points_now(&self, points: &[(f64, f64)]) -> Points {
        points.iter().filter_map(|point| self.now(*point)).collect()
    }

    /// A map over a frame of then, as one over a frame of now; `None` if nothing of it is in the picture any more. It has as many cells
    /// as that had in the picture, over the part of the picture where they are.
    pub fn map_now(&self, map: &AttentionMap) -> Option<AttentionMap> {
        let map = map.within(self.image);
        let (weights, region) = (map.as_weights(), self.region_now(map.region())?);
        let lattice = match self.map {
            PlaneMap::Homography { .. } => None,
            PlaneMap::Rotation { .. } => Some(Lattice::new(self, region)),
        };
        let back = |now| match &lattice {
            Some(lattice) => lattice.carried_back(self, now),
            None => self.carried_back(now),
        };
        map.resampled(self.image, region, |now| {
            let then = back(now).filter(|then| self.is_inside(*then));
            then.map_or(0.0, |then| weights.between(then))
        })
    }

    /// A box around where the part of `region` in the picture is now, cut to the picture; the whole picture where some of it is behind
    /// the camera.
    fn region_now(&self, region: Region) -> Option<Region> {
        let mut hull = Region {
            x0: f64::INFINITY,
            y0: f64::INFINITY,
            x1: f64::NEG_INFINITY,
            y1: f64::NEG_INFINITY,
        };
        for then in nodes(region.within(self.image), PARTS) {
            let Some((x, y)) = self.carried(then) else { return Some(Region::of(self.image)) };
            hull = Region {
                x0: hull.x0.min(x),
                y0: hull.y0.min(y),
                x1: hull.x1.max(x),
                y1: hull.y1.max(y),
            };
        }
        Some(hull.within(self.image)).filter(|part| part.has_area())
    }

    /// Where a place of then is now, in the picture or beside it; `None` behind the camera.
    fn carried(&self, place: (f64, f64)) -> Option<(f64, f64)> {
        match &self.map {
            PlaneMap::Homography { now_from_then, .. } => projected(now_from_then, place),
            PlaneMap::Rotation { rays, now_from_then } => turned(rays, now_from_then, place),
        }
    }

    /// Where a place of now was then, in the picture or beside it: the inverse of [`carried`](Self::carried).
    fn carried_back(&self, place: (f64, f64)) -> Option<(f64, f64)> {
        match &self.map {
            PlaneMap::Homography { then_from_now, .. } => projected(then_from_now, place),
            PlaneMap::Rotation { rays, now_from_then } => {
                turned(rays, &transposed(now_from_then), place)
            }
        }
    }

    fn is_inside(&self, (x, y): (f64, f64)) -> bool {
        (0.0..=f64::from(self.image.width)).contains(&x)
            && (0.0..=f64::from(self.image.height)).contains(&y)
    }
}

/// Where places of now were then, at the nodes of a lattice over a region. A lens takes a hundred steps a place, and bends little between
/// two nodes.
struct Lattice {
    region: Region,
    /// Place of then for each node, row by row.
    then: Vec<Option<(f64, f64)>>,
}

impl Lattice {
    fn new(transform: &EgoTransform, region: Region) -> Self {
        let then = nodes(region, LATTICE_PARTS).map(|node| transform.carried_back(node)).collect();
        Self { region, then }
    }

    /// Between the nodes around a place of the region; by `transform` where some of them were nowhere, and nowhere where all.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    fn carried_back(&self, transform: &EgoTransform, place: (f64, f64)) -> Option<(f64, f64)> {
        let along = |at: f64, from: f64, to: f64| {
            let parts = f64::from(LATTICE_PARTS);
            let part = ((at - from) / (to - from) * parts).clamp(0.0, parts);
            let first = part.floor().min(parts - 1.0);
            (first as usize, part - first)
        };
        let (column, across) = along(place.0, self.region.x0, self.region.x1);
        let (row, down) = along(place.1, self.region.y0, self.region.y1);
        let side = LATTICE_PARTS as usize + 1;
        let first = row * side + column;
        let corners = [first, first + 1, first + side, first + side + 1];
        let mix = |share: f64, one: (f64, f64), other: (f64, f64)| {
            (one.0 + share * (other.0 - one.0), one.1 + share * (other.1 - one.1))
        };
        match corners.map(|corner| self.then[corner]) {
            [Some(a), Some(b), Some(c), Some(d)] => {
                Some(mix(down, mix(across, a, b), mix(across, c, d)))
            }
            [None, None, None, None] => None,
            _ => transform.carried_back(place),
        }
    }
}

/// Places spread evenly over a region, `parts` and one along each side, row by row.
fn nodes(region: Region, parts: u32) -> impl Iterator<Item = (f64, f64)> {
    let Region { x0, y0, x1, y1 } = region;
    let along = move |from: f64, to: f64, part: u32| {
        from + (to - from) * (f64::from(part) / f64::from(parts))
    };
    (0..=parts).flat_map(move |row| {
        (0..=parts).map(move |column| (along(x0, x1, column), along(y0, y1, row)))
    })
}

fn homography(cells: [f64; 9], image: Extent) -> Result<PlaneMap, EgoMotionError> {
    check_finite(&cells)?;
    let greatest = cells.iter().fold(0.0_f64, |greatest, cell| greatest.max(cell.abs()));
    // The power of two below it: division by it is exact.
    let unit = f64::from_bits(greatest.to_bits() & f64::INFINITY.to_bits());
    if unit == 0.0 {
        return Err(EgoMotionError::Singular);
    }
    let [a, b, c, d, e, f, g, h, i] = cells.map(|cell| cell / unit);
    let side = f64::from(image.longer_side());
    let in_sides = [[a, b, c / side], [d, e, f / side], [g * side, h * side, i]];
    let greatest = in_sides.iter().flatten().fold(0.0_f64, |most, cell| most.max(cell.abs()));
    let determinant = determinant(&in_sides.map(|row| row.map(|cell| cell / greatest)));
    if determinant.abs() < DETERMINANT_MIN {
        return Err(EgoMotionError::Singular);
    }
    // A camera that moves does not mirror.
    let sign = determinant.signum();
    let now_from_then = [[a, b, c], [d, e, f], [g, h, i]].map(|row| row.map(|cell| sign * cell));
    let then_from_now = adjugate(&now_from_then);
    Ok(PlaneMap::Homography { now_from_then, then_from_now })
}

fn normalised(quaternion: [f64; 4]) -> Result<[f64; 4], EgoMotionError> {
    check_finite(&quaternion)?;
    let length = quaternion.iter().map(|part| part * part).sum::<f64>().sqrt();
    if LENGTH_ERROR_MAX < (length - 1.0).abs() {
        return Err(EgoMotionError::NotUnit { length });
    }
    Ok(quaternion.map(|part| part / length))
}

fn check_finite(numbers: &[f64]) -> Result<(), EgoMotionError> {
    let is_finite = numbers.iter().all(|number| number.is_finite());
    if is_finite { Ok(()) } else { Err(EgoMotionError::NotFinite) }
}

fn projected(matrix: &Matrix, (x, y): (f64, f64)) -> Option<(f64, f64)> {
    let [u, v, w] = times(matrix, [x, y, 1.0]);
    (0.0 < w).then_some((u / w, v / w))
}

fn turned(rays: &Rays, turn: &Matrix, (x, y): (f64, f64)) -> Option<(f64, f64)> {
    let [x, y] = rays.at(x, y)?;
    rays.pixel_from(times(turn, [x, y, 1.0]))
}

fn times(matrix: &Matrix, [x, y, z]: [f64; 3]) -> [f64; 3] {
    matrix.map(|[a, b, c]| a * x + b * y + c * z)
}

fn transposed(matrix: &Matrix) -> Matrix {
    let [[a, b, c], [d, e, f], [g, h, i]] = *matrix;
    [[a, d, g], [b, e, h], [c, f, i]]
}

fn determinant(matrix: &Matrix) -> f64 {
    let [[a, b, c], [d, e, f], [g, h, i]] = *matrix;
    a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
}

/// The inverse times the determinant.
fn adjugate(matrix: &Matrix) -> Matrix {
    let [[a, b, c], [d, e, f], [g, h, i]] = *matrix;
    [
        [e * i - f * h, c * h - b * i, b * f - c * e],
        [f * g - d * i, a * i - c * g, c * d - a * f],
        [d * h - e * g, b * g - a * h, a * e - b * d],
    ]
}
