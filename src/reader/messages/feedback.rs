//! What clients say about where to look, and what they are answered.

use super::ViewName;
use foveate_core::geometry::attention::Region;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::{names, object};

/// Look at a point, at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Which view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, or a share of its width.
    pub x: f64,
    /// Pixels below the source's top edge, or a share of its height.
    pub y: f64,
    /// Whether `x` and `y` are shares, 0 to 1.
    pub normalised: bool,
    /// How long to look there, in milliseconds of the stream's time; without it, until something else is said, the view is
    /// released, or its policy takes over after a silence.
    pub for_ms: Option<u32>,
    /// `frame_seq` of the frame that the client looked at; without it, the newest.
    pub frame: Option<u64>,
    /// Whether to answer only once a frame has been looked at so.
    pub wait: bool,
}

object!(Look {
    "view": view, "x": x, "y": y;
    "normalised": normalised, "for_ms": for_ms, "frame": frame, "wait": wait,
}, strict);

/// Look where this map has its peak, from the next decision on. The numbers follow the newline: row by row, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// Which view.
    pub view: ViewName,
    /// Rows and columns, as NumPy has them: 1 to 128 each.
    pub shape: [u32; 2],
    /// Number format.
    pub dtype: NumberFormat,
    /// What the map lies over, `[x0, y0, x1, y1]` in source pixels, also beyond the image where the model's input was
    /// letterboxed; without it, the image.
    pub region: Option<Region>,
    /// `frame_seq` of the frame that the map was computed on; without it, the newest.
    pub frame: Option<u64>,
    /// Whether to answer only once it has been decided what to look at.
    pub wait: bool,
}

object!(Attend {
    "view": view, "shape": shape, "dtype": dtype;
    "box": region, "frame": frame, "wait": wait,
}, strict);

/// Look where these scores of the tokens of a frame have their peak, from the next decision on. The scores follow the newline:
/// one per token, in the order of the frame, little-endian; what comes behind the last token is padding.
#[derive(Clone, Debug, PartialEq)]
pub struct AttendTokens {
    /// Which view.
    pub view: ViewName,
    /// `frame_seq` of the frame whose tokens were scored, one of the last 64.
    pub frame: u64,
    /// Number format.
    pub dtype: NumberFormat,
    /// Whether to answer only once it has been decided what to look at.
    pub wait: bool,
}

object!(AttendTokens { "view": view, "frame": frame, "dtype": dtype; "wait": wait }, strict);

/// The number format of attention, little-endian.
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

/// The answer to feedback: where the view was asked to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Looking {
    /// Which view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, inside the image: of the point, or of the peak of the map.
    pub x: f64,
    /// Pixels below the source's top edge, inside the image.
    pub y: f64,
    /// The fixation that it led to; only where `wait` was asked, and absent where nothing was decided within a second.
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
