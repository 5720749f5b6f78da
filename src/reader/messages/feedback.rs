//! Feedback messages (`look`, `attend`, `inject`, `weigh`), and their answer.

use std::collections::BTreeMap;

use super::{Refusal, RefusalReason, ViewName};
use foveate_core::ego::{EgoMotion, EgoMotionError};
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, is_share};
use foveate_core::geometry::region::Region;
use foveate_core::{names, object};

/// Look at points, or at a box, at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The view.
    pub view: ViewName,
    /// 1 to 8 points, and at most as many as the view has foveae, in source pixels from the top left, or in fractions of its
    /// width and height. Empty with a box.
    pub points: Vec<(f64, f64)>,
    /// The box to look at, in the units of the points. It is sharp all over, as far as the budget goes.
    pub region: Option<Region>,
    /// Share of the budget that is spent on the points or the box, above 0 to 1, with the layout `inset`; without it, the layout decides.
    pub share: Option<f64>,
    /// Whether the points, or the box, are fractions, 0 to 1.
    pub normalised: bool,
    /// Duration in milliseconds of stream time; without one, until newer feedback, a release, or the policy takes over after a
    /// silence.
    pub for_ms: Option<u32>,
    /// `frame_seq` of the frame that the client refers to; without it, the newest. One of the last ten seconds, and of the last 64 frames
    /// in any case; an older one counts as the newest, and the answer [says so](Looking::taken_for).
    pub frame: Option<u64>,
    /// Whether an older frame is refused instead.
    pub strict: bool,
    /// The client's ego motion since `frame`, which is then needed: 3 x 3 numbers, row by row, that take (x, y, 1) in source pixels of that
    /// frame to source pixels of now, times any factor. Not with `rotation`.
    pub homography: Option<[f64; 9]>,
    /// The client's ego motion since `frame` as a quaternion x, y, z, w of length 1 that takes a direction in the camera's optical frame at
    /// that frame to the same direction in the optical frame now; the stream's camera must be calibrated. Not with `homography`.
    pub rotation: Option<[f64; 4]>,
    /// Whether to answer only after a frame was sampled with the result.
    pub wait: bool,
}

object!(Look {
    "view": view;
    "points": points, "box": region, "share": share, "normalised": normalised, "for_ms": for_ms, "frame": frame,
    "strict": strict, "homography": homography, "rotation": rotation, "wait": wait,
}, strict);

/// Look at the peaks of a map, from the next decision on. The map follows the newline: row by row, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// The view.
    pub view: ViewName,
    /// Rows and columns, as in NumPy: 1 to 128 each.
    pub shape: [u32; 2],
    /// Number format.
    pub dtype: NumberFormat,
    /// The box that the map covers, `[x0, y0, x1, y1]` in source pixels; it may exceed the image, as with letterboxed input. Without it,
    /// the image.
    pub region: Option<Region>,
    /// `frame_seq` of the frame that the map was computed on, as that of [`Look`]; without it, the newest.
    pub frame: Option<u64>,
    /// Whether an old frame is refused, as in [`Look`].
    pub strict: bool,
    /// Ego motion as a homography, as in [`Look`].
    pub homography: Option<[f64; 9]>,
    /// Ego motion as a rotation, as in [`Look`].
    pub rotation: Option<[f64; 4]>,
    /// Whether to answer only after the decision.
    pub wait: bool,
}

object!(Attend {
    "view": view, "shape": shape, "dtype": dtype;
    "box": region, "frame": frame, "strict": strict, "homography": homography, "rotation": rotation,
    "wait": wait,
}, strict);

/// Look at the peaks of the scores of a frame's tokens, from the next decision on. The scores follow the newline: one per token,
/// in the order of the frame, little-endian; values after the last token are padding.
#[derive(Clone, Debug, PartialEq)]
pub struct AttendTokens {
    /// The view.
    pub view: ViewName,
    /// `frame_seq` of the frame whose tokens were scored, as that of [`Look`]. One whose tokens are not known any more is refused.
    pub frame: u64,
    /// Whether an old frame is refused, as in [`Look`].
    pub strict: bool,
    /// Number format.
    pub dtype: NumberFormat,
    /// Ego motion as a homography, as in [`Look`].
    pub homography: Option<[f64; 9]>,
    /// Ego motion as a rotation, as in [`Look`].
    pub rotation: Option<[f64; 4]>,
    /// Whether to answer only after the decision.
    pub wait: bool,
}

object!(AttendTokens {
    "view": view, "frame": frame, "dtype": dtype;
    "strict": strict, "homography": homography, "rotation": rotation, "wait": wait,
}, strict);

/// Give a view a map by name, as one of its channels. The map follows the newline as that of [`Attend`] does; its numbers may be
/// negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Inject {
    /// The view; its policy must be `relevance`.
    pub view: ViewName,
    /// Name of the channel: 1 to 31 of a-z, 0-9, `_` and `-`, and not that of one that is computed.
    pub name: String,
    /// Rows and columns, as in NumPy: 1 to 128 each.
    pub shape: [u32; 2],
    /// Number format.
    pub dtype: NumberFormat,
    /// The box that the map covers, as that of [`Attend`].
    pub region: Option<Region>,
    /// `frame_seq` of the frame that the map was made from, as that of [`Look`]; without it, the newest.
    pub frame: Option<u64>,
    /// Whether an old frame is refused, as in [`Look`].
    pub strict: bool,
    /// Milliseconds of stream time after that frame for which the map is kept, 1 to 60,000; without it,
    /// [`TTL_MS_DEFAULT`].
    pub ttl_ms: Option<u32>,
}

object!(Inject {
    "view": view, "name": name, "shape": shape, "dtype": dtype;
    "box": region, "frame": frame, "strict": strict, "ttl_ms": ttl_ms,
}, strict);

/// How long an injected map is kept if the client does not say, in milliseconds.
pub const TTL_MS_DEFAULT: u32 = 1000;

/// Set what channels of a view add to the score, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Weigh {
    /// The view; its policy must be `relevance`.
    pub view: ViewName,
    /// Octaves of relevance for each unit of the channel, at most 64 from 0; 0 takes a weight back. 1 to 64 channels, computed or
    /// injected, whether they are there or not.
    pub weights: BTreeMap<String, f64>,
}

object!(Weigh { "view": view, "weights": weights }, strict);

/// Number format of attention, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// 0 to 255.
    U8,
}

names!(NumberFormat { F32 = "f32", F16 = "f16", U8 = "u8" });

/// The answer to feedback.
#[derive(Clone, Debug, PartialEq)]
pub struct Looking {
    /// The view.
    pub view: ViewName,
    /// The requested points, or the greatest peak of the map, inside the image: pixels right of the source's left edge and below its top
    /// edge.
    pub points: Vec<(f64, f64)>,
    /// The resulting fixations; only with `wait`, and none if no decision was made within a second.
    pub fixations: Vec<Fixation>,
    /// `frame_seq` of the newest frame, if the feedback counts for it because the frame that it names is too old.
    pub taken_for: Option<u64>,
}

object!(Looking { "view": view, "points": points; "fixations": fixations, "taken_for": taken_for });

/// The answer to `inject`.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// The view.
    pub view: ViewName,
    /// The newest frame, if the map counts for it because the frame that it names is too old, as in [`Looking`].
    pub taken_for: Option<u64>,
}

object!(Injected { "view": view; "taken_for": taken_for });

impl Look {
    /// Look at (`x`, `y`) in pixels.
    pub fn at(view: &ViewName, x: f64, y: f64) -> Self {
        Self::at_points(view, &[(x, y)])
    }

    /// Look at points in pixels, as many at a time as the view has foveae.
    pub fn at_points(view: &ViewName, points: &[(f64, f64)]) -> Self {
        Self {
            view: view.clone(),
            points: points.to_vec(),
            region: None,
            share: None,
            normalised: false,
            for_ms: None,
            frame: None,
            strict: false,
            homography: None,
            rotation: None,
            wait: false,
        }
    }

    /// Look at a box in pixels.
    pub fn over(view: &ViewName, region: Region) -> Self {
        Self { region: Some(region), ..Self::at_points(view, &[]) }
    }

    /// Checks that some view can look there.
    ///
    /// # Errors
    ///
    /// If it has points and a box, or neither, shares of the sides are not 0 to 1, its box has no area or is not finite, its share is not
    /// above 0 to 1, or its [ego motion](Self::ego_motion) is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        let refused = |error: String| Err(Refusal::new(RefusalReason::BadRequest, error));
        let is_side = |number: f64| (0.0..=1.0).contains(&number);
        match self.region {
            Some(_) if !self.points.is_empty() => {
                return refused("several kinds of points (expected `points` or `box`)".to_owned());
            }
            Some(Region { x0, y0, x1, y1 })
                if self.normalised && ![x0, y0, x1, y1].into_iter().all(is_side) =>
            {
                let error = "invalid normalised `box` (expected shares of the sides, 0 to 1)";
                return refused(error.to_owned());
            }
            None if !(1..=FOVEAE_MAX).contains(&self.points.len()) => {
                let given = self.points.len();
                return refused(format!(
                    "invalid `points`: {given} points (expected 1 to {FOVEAE_MAX}, or a `box`)"
                ));
            }
            _ => {}
        }
        if self.normalised && !self.points.iter().all(|(x, y)| is_side(*x) && is_side(*y)) {
            let error = "invalid normalised `points` (expected shares of the sides, 0 to 1)";
            return refused(error.to_owned());
        }
        if let Some(Region { x0, y0, x1, y1 }) = self.region.filter(|region| !region.has_area()) {
            let error = format!(
                "invalid `box` [{x0}, {y0}, {x1}, {y1}] (expected finite numbers with x0 < x1 and y0 < y1)"
            );
            return Err(Refusal::new(RefusalReason::BadBox, error));
        }
        if let Some(share) = self.share.filter(|share| !is_share(*share)) {
            return refused(format!(
                "invalid `share`: {share} (expected a number above 0 and up to 1)"
            ));
        }
        self.ego_motion().map(drop)
    }

    /// The ego motion since its frame, if it has any.
    ///
    /// # Errors
    ///
    /// If it names no frame, has both a homography and a rotation, or numbers are not finite.
    pub fn ego_motion(&self) -> Result<Option<EgoMotion>, Refusal> {
        ego_motion(self.homography, self.rotation, self.frame)
    }
}

impl Attend {
    /// The ego motion, as in [`Look::ego_motion`].
    ///
    /// # Errors
    ///
    /// The ego motion, as in [`Look::ego_motion`].
    pub fn ego_motion(&self) -> Result<Option<EgoMotion>, Refusal> {
        ego_motion(self.homography, self.rotation, self.frame)
    }
}

impl AttendTokens {
    /// The ego motion, as in [`Look::ego_motion`].
    ///
    /// # Errors
    ///
    /// The ego motion, as in [`Look::ego_motion`].
    pub fn ego_motion(&self) -> Result<Option<EgoMotion>, Refusal> {
        ego_motion(self.homography, self.rotation, Some(self.frame))
    }
}

/// The ego motion of a message.
fn ego_motion(
    homography: Option<[f64; 9]>,
    rotation: Option<[f64; 4]>,
    frame: Option<u64>,
) -> Result<Option<EgoMotion>, Refusal> {
    let refused = |error: String| Err(Refusal::new(RefusalReason::BadRequest, error));
    let motion = match (homography, rotation) {
        (None, None) => return Ok(None),
        (Some(cells), None) => EgoMotion::Homography(cells),
        (None, Some(quaternion)) => EgoMotion::Rotation(quaternion),
        (Some(_), Some(_)) => {
            let error = "`homography` and `rotation` exclude each other (expected one of them)";
            return refused(error.to_owned());
        }
    };
    if frame.is_none() {
        let error = "ego motion needs `frame`, the frame since which the camera moved";
        return refused(error.to_owned());
    }
    let mut numbers = homography.iter().flatten().chain(rotation.iter().flatten());
    if !numbers.all(|number| number.is_finite()) {
        return refused(EgoMotionError::NotFinite.to_string());
    }
    Ok(Some(motion))
}

impl NumberFormat {
    /// Bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::U8 => 1,
        }
    }
}
