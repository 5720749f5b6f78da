//! Feedback messages and their answer.

use super::ViewName;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::geometry::region::Region;
use foveate_core::{names, object};

/// Look at a point, at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, or a fraction of its width.
    pub x: f64,
    /// Pixels below the source's top edge, or a fraction of its height.
    pub y: f64,
    /// Whether `x` and `y` are fractions, 0 to 1.
    pub normalised: bool,
    /// Duration in milliseconds of stream time; without one, until newer feedback, a release, or the policy takes over after a
    /// silence.
    pub for_ms: Option<u32>,
    /// `frame_seq` of the frame that the client refers to; without it, the newest.
    pub frame: Option<u64>,
    /// Whether to answer only after a frame was sampled with the result.
    pub wait: bool,
}

object!(Look {
    "view": view, "x": x, "y": y;
    "normalised": normalised, "for_ms": for_ms, "frame": frame, "wait": wait,
}, strict);

/// Look at the peak of a map, from the next decision on. The map follows the newline: row by row, little-endian.
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
    /// `frame_seq` of the frame that the map was computed on; without it, the newest.
    pub frame: Option<u64>,
    /// Whether to answer only after the decision.
    pub wait: bool,
}

object!(Attend {
    "view": view, "shape": shape, "dtype": dtype;
    "box": region, "frame": frame, "wait": wait,
}, strict);

/// Look at the peak of the scores of a frame's tokens, from the next decision on. The scores follow the newline: one per token,
/// in the order of the frame, little-endian; values after the last token are padding.
#[derive(Clone, Debug, PartialEq)]
pub struct AttendTokens {
    /// The view.
    pub view: ViewName,
    /// `frame_seq` of the frame whose tokens were scored, one of the last 64.
    pub frame: u64,
    /// Number format.
    pub dtype: NumberFormat,
    /// Whether to answer only after the decision.
    pub wait: bool,
}

object!(AttendTokens { "view": view, "frame": frame, "dtype": dtype; "wait": wait }, strict);

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
    /// Requested point, or peak of the map: pixels right of the source's left edge, inside the image.
    pub x: f64,
    /// Pixels below the source's top edge, inside the image.
    pub y: f64,
    /// The resulting fixation; only with `wait`, and absent if no decision was made within a second.
    pub fixation: Option<Fixation>,
}

object!(Looking { "view": view, "x": x, "y": y; "fixation": fixation });

impl Look {
    /// Look at (`x`, `y`) in pixels.
    pub fn at(view: &ViewName, x: f64, y: f64) -> Self {
        let view = view.clone();
        Self { view, x, y, normalised: false, for_ms: None, frame: None, wait: false }
    }
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
