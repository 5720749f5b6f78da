//! What clients say about where to look, and what they are answered.

use serde::{Deserialize, Serialize};

use super::{FixationListing, Refusal, RefusalReason, ViewName};
use foveate_core::geometry::attention::Region;

/// Look at a point, at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Which view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, or a share of its width.
    pub x: f64,
    /// Pixels below the source's top edge, or a share of its height.
    pub y: f64,
    /// Whether `x` and `y` are shares, 0 to 1.
    #[serde(default, skip_serializing_if = "is_false")]
    pub normalised: bool,
    /// How long to look there, in milliseconds of the stream's time; without it, until something else is said, the view is
    /// released, or its policy takes over after a silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u32>,
    /// `frame_seq` of the frame that the client looked at; without it, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Whether to answer only once a frame has been looked at so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
}

/// Look where this map has its peak, from the next decision on. The numbers follow the newline: row by row, little-endian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attend {
    /// Which view.
    pub view: ViewName,
    /// Rows and columns, as NumPy has them: 1 to 128 each.
    pub shape: [u32; 2],
    /// Number format.
    pub dtype: NumberFormat,
    /// What the map lies over, `[x0, y0, x1, y1]` in source pixels, also beyond the image where the model's input was
    /// letterboxed; without it, the image.
    #[serde(default, rename = "box", skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// `frame_seq` of the frame that the map was computed on; without it, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Whether to answer only once it has been decided what to look at.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
}

/// Look where these scores of the tokens of a frame have their peak, from the next decision on. The scores follow the newline:
/// one per token, in the order of the frame, little-endian; what comes behind the last token is padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttendTokens {
    /// Which view.
    pub view: ViewName,
    /// `frame_seq` of the frame whose tokens were scored, one of the last 64.
    pub frame: u64,
    /// Number format.
    pub dtype: NumberFormat,
    /// Whether to answer only once it has been decided what to look at.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
}

/// The number format of attention, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// 0 to 255.
    U8,
}

/// The answer to feedback: where the view was asked to look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looking {
    /// Which view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, inside the image: of the point, or of the peak of the map.
    pub x: f64,
    /// Pixels below the source's top edge, inside the image.
    pub y: f64,
    /// The fixation that it led to; only where `wait` was asked, and absent where nothing was decided within a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixation: Option<FixationListing>,
}

/// The answer to [`Request::Release`](super::Request::Release).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// Which view.
    pub view: ViewName,
}

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

    /// Reads the numbers of a payload.
    ///
    /// # Errors
    ///
    /// If it ends within a number.
    pub fn numbers(self, payload: &[u8]) -> Result<Vec<f32>, Refusal> {
        let size = self.bytes();
        if !payload.len().is_multiple_of(size) {
            let error = format!("{} bytes are no array of numbers of {size} bytes", payload.len());
            return Err(Refusal::new(RefusalReason::WrongCount, error));
        }
        let numbers = payload.chunks_exact(size);
        Ok(match self {
            Self::F32 => numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            Self::F16 => numbers.map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
            Self::U8 => numbers.map(|b| f32::from(b[0])).collect(),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}
