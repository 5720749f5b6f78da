//! Maps that clients give a view by name, and weights that they give its channels.

use std::fmt;

use foveate_core::geometry::attention::ATTENTION_SIDE_MAX;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::Region;

/// The longest name of a channel, in bytes.
pub const CHANNEL_NAME_BYTES_MAX: usize = 31;

/// Most injected channels of a view.
pub const INJECTED_MAX: usize = 32;

/// Longest time for which a channel is kept, in milliseconds.
pub const TTL_MS_MAX: u32 = 60_000;

/// Values of a channel are within this distance of 0: what binary16 can say.
pub const VALUE_MAX: f32 = 65_504.0;

/// A validated map of finite numbers on a grid of equal cells over a box of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    name: String,
    grid: Extent,
    region: Region,
    /// Row by row.
    values: Vec<f32>,
    frame_seq: u64,
    ttl_ms: u32,
}

/// Why a map cannot be injected.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectionError {
    /// The name is not one that a channel may have.
    Name(String),
    /// The name is that of a computed channel.
    Computed(String),
    /// The number of values differs from the number of cells.
    Count {
        /// Number of values given.
        given: usize,
        /// Number of values needed.
        wanted: usize,
    },
    /// The grid is empty or too large.
    Grid(Extent),
    /// The region has no area, or is not finite.
    EmptyRegion,
    /// No cell touches the image.
    Outside(Extent),
    /// A value is not finite, or too far from 0.
    Value {
        /// Index of the value.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The time to live is 0 or too long.
    Ttl(u32),
}

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "invalid channel name `{name}` (expected 1 to {CHANNEL_NAME_BYTES_MAX} of a-z, 0-9, `_` and `-`)"
            ),
            Self::Computed(name) => {
                write!(f, "Foveate computes the channel `{name}`: inject under another name")
            }
            Self::Count { given, wanted } => write!(f, "{given} values (expected {wanted})"),
            Self::Grid(grid) => write!(
                f,
                "invalid map size: {grid} cells (expected 1 to {ATTENTION_SIDE_MAX} a side); pool it first"
            ),
            Self::EmptyRegion => f.write_str(
                "invalid `box` (expected finite [x0, y0, x1, y1] with x0 < x1 and y0 < y1)",
            ),
            Self::Outside(image) => write!(f, "`box` is outside the image of {image} pixels"),
            Self::Value { index, value } => {
                write!(
                    f,
                    "invalid value {index}: {value} (expected a finite number within {VALUE_MAX} of 0)"
                )
            }
            Self::Ttl(ms) => {
                write!(f, "invalid `ttl_ms`: {ms} (expected 1 to {TTL_MS_MAX})")
            }
        }
    }
}

impl std::error::Error for InjectionError {}

impl Injection {
    /// Validates a map of `grid` cells over `region` of an image, made from frame `frame_seq`. It is forgotten `ttl_ms` of stream
    /// time after that frame.
    ///
    /// # Errors
    ///
    /// See [`InjectionError`].
    pub fn new(
        name: &str,
        (grid, region): (Extent, Region),
        image: Extent,
        values: Vec<f32>,
        frame_seq: u64,
        ttl_ms: u32,
    ) -> Result<Self, InjectionError> {
        check_channel_name(name)?;
        if foveate_core::channel::Channel::named(name).is_some() {
            return Err(InjectionError::Computed(name.to_owned()));
        }
        let sides = 1..=ATTENTION_SIDE_MAX;
        if !sides.contains(&grid.width) || !sides.contains(&grid.height) {
            return Err(InjectionError::Grid(grid));
        }
        if values.len() != grid.area() {
            return Err(InjectionError::Count { given: values.len(), wanted: grid.area() });
        }
        if !region.has_area() {
            return Err(InjectionError::EmptyRegion);
        }
        let (right, bottom) = (f64::from(image.width), f64::from(image.height));
        if region.x1 <= 0.0 || region.y1 <= 0.0 || right <= region.x0 || bottom <= region.y0 {
            return Err(InjectionError::Outside(image));
        }
        let is_allowed = |value: &f32| value.abs() <= VALUE_MAX;
        if let Some(index) = values.iter().position(|value| !is_allowed(value)) {
            return Err(InjectionError::Value { index, value: values[index] });
        }
        if !(1..=TTL_MS_MAX).contains(&ttl_ms) {
            return Err(InjectionError::Ttl(ttl_ms));
        }
        Ok(Self { name: name.to_owned(), grid, region, values, frame_seq, ttl_ms })
    }

    /// Name of the channel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Columns and rows.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// The box that it covers.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// `frame_seq` of the frame that it was made from.
    pub fn frame_seq(&self) -> u64 {
        self.frame_seq
    }

    /// Time in milliseconds after that frame for which it is kept.
    pub fn ttl_ms(&self) -> u32 {
        self.ttl_ms
    }

    /// Whether the map has expired at `now_ns`, if its frame is of `made_ns`: both in stream time.
    pub fn is_over(&self, made_ns: u64, now_ns: u64) -> bool {
        u64::from(self.ttl_ms) * 1_000_000 <= now_ns.saturating_sub(made_ns)
    }
}

/// Whether a channel may be called `name`.
///
/// # Errors
///
/// If not.
pub fn check_channel_name(name: &str) -> Result<(), InjectionError> {
    let is_short = name.len() <= CHANNEL_NAME_BYTES_MAX;
    let is_allowed = foveate_core::name::is_name(name) && is_short;
    is_allowed.then_some(()).ok_or_else(|| InjectionError::Name(name.to_owned()))
}
