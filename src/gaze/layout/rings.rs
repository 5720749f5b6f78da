//! Nested square blocks of patches around the fixation, each of larger texels than the one before.
//!
//! The presets are those of published models: `stt172` of Schmidt and Newcombe, "Segment This Thing: Foveated Tokenization for
//! Efficient Point-Prompted Segmentation", CVPR 2025, and `giava20` of Chuang et al., "Look, Focus, Act: Efficient and Robust Robot
//! Learning via Human Gaze and Foveated Vision Transformers" (2025), which has 288 pixels a side.

use arrayvec::ArrayVec;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation;
use foveate_core::geometry::plan::{STEP_MAX, Token};
use foveate_core::value::{ConfigValue, Keys, wholes};

/// Most rings.
pub const RINGS_MAX: usize = 8;

/// Nested blocks of patches. The block of a ring is `grid` x `grid` patches whose texels are `stride` pixels wide; the ring is
/// what of it lies outside the block before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rings(ArrayVec<PatchRing, RINGS_MAX>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PatchRing {
    stride: u16,
    /// Columns and rows of the block.
    grid: u16,
}

impl PatchRing {
    /// Width of the block in patches of stride 1.
    fn width(self) -> u32 {
        u32::from(self.stride) * u32::from(self.grid)
    }
}

/// The rings of a published model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset in a configuration.
    pub name: &'static str,
    strides: &'static [u32],
    grids: &'static [u32],
    /// P that the model was trained with.
    pub patch_side: u32,
    /// Whether the model was trained on means that were rounded down.
    pub floors: bool,
}

/// The presets.
pub const PRESETS: [Preset; 2] = [
    Preset {
        name: "stt172",
        strides: &[1, 2, 4, 6, 8],
        grids: &[4, 4, 6, 8, 10],
        patch_side: 16,
        floors: true,
    },
    Preset {
        name: "giava20",
        strides: &[1, 2, 6],
        grids: &[2, 3, 3],
        patch_side: 16,
        floors: false,
    },
];

impl Preset {
    /// The preset of a name.
    pub fn named(name: &str) -> Option<Self> {
        PRESETS.into_iter().find(|preset| preset.name == name)
    }

    /// Rings of the preset.
    pub fn rings(&self) -> Rings {
        Rings::new(self.strides, self.grids).expect("the presets nest")
    }
}

impl Rings {
    /// Rings of texels of `strides` pixels and blocks of `grids` patches, the innermost first.
    ///
    /// # Errors
    ///
    /// If they do not nest, with what would.
    pub fn new(strides: &[u32], grids: &[u32]) -> Result<Self, String> {
        if strides.len() != grids.len() || !(1..=RINGS_MAX).contains(&strides.len()) {
            let (strides, grids) = (strides.len(), grids.len());
            return Err(format!(
                "{strides} strides and {grids} grids; expected 1 to {RINGS_MAX} of each, as many strides as grids"
            ));
        }
        let mut rings = ArrayVec::<PatchRing, RINGS_MAX>::new();
        for (&stride, &grid) in strides.iter().zip(grids) {
            let ring = ring_of(stride, grid)?;
            if let Some(inner) = rings.last() {
                check_nesting(*inner, ring)?;
            }
            rings.push(ring);
        }
        Ok(Self(rings))
    }

    /// Tokens of a plan.
    pub fn token_count(&self) -> usize {
        let inside = [0].into_iter().chain(self.0.iter().map(|ring| ring.width()));
        let tokens = |(ring, inner): (&PatchRing, u32)| {
            let hole = inner / u32::from(ring.stride);
            u32::from(ring.grid).pow(2) - hole * hole
        };
        self.0.iter().zip(inside).map(tokens).sum::<u32>() as usize
    }

    /// Width of the outermost block in pixels.
    pub fn width_px(&self, patch_side: u32) -> u32 {
        self.0.last().map_or(0, |ring| ring.width() * patch_side)
    }

    /// The tokens, ring by ring from the innermost. Of a ring first the full rows above the block inside, then of each row beside
    /// it the part on the left and the part on the right, then the full rows below; all rows from left to right. As many as
    /// `budget` allows.
    pub fn tokens(
        &self,
        extent: Extent,
        patch_side: u32,
        budget: usize,
        fixation: (f64, f64),
    ) -> Vec<Token> {
        let (x, y) = fixation::snapped(extent, fixation.0, fixation.1);
        let mut tokens = Vec::with_capacity(self.token_count());
        let mut inner = 0;
        for (group, ring) in (0..).zip(&self.0) {
            let side = i32::from(ring.stride) * patch_side.cast_signed();
            let half = (ring.width() * patch_side / 2).cast_signed();
            let (left, top) = (floored(x) - half, floored(y) - half);
            let token = |column: i32, row: i32| Token {
                x: left + column * side,
                y: top + row * side,
                sx: ring.stride,
                sy: ring.stride,
                group,
                ..Token::default()
            };
            let grid = i32::from(ring.grid);
            let hole = (inner / u32::from(ring.stride)).cast_signed();
            let inside = (grid - hole) / 2..(grid + hole) / 2;
            let places = (0..grid).flat_map(|row| (0..grid).map(move |column| (column, row)));
            let is_outside =
                |&(column, row): &(i32, i32)| !(inside.contains(&column) && inside.contains(&row));
            tokens.extend(places.filter(is_outside).map(|(column, row)| token(column, row)));
            inner = ring.width();
        }
        tokens.truncate(budget);
        tokens
    }
}

fn ring_of(stride: u32, grid: u32) -> Result<PatchRing, String> {
    let width_max = Extent::SIDE_MAX;
    let narrow = u16::try_from(stride).ok().zip(u16::try_from(grid).ok());
    let ring = narrow.map(|(stride, grid)| PatchRing { stride, grid });
    ring.filter(|ring| (1..=STEP_MAX).contains(&ring.stride) && 1 <= ring.grid)
        .filter(|ring| ring.width() <= width_max)
        .ok_or_else(|| {
            format!(
                "a grid of {grid} with the stride {stride}; expected both from 1, the stride at most {STEP_MAX}, and blocks at most {width_max} pixels wide"
            )
        })
}

fn check_nesting(inner: PatchRing, outer: PatchRing) -> Result<(), String> {
    let (stride, grid) = (u32::from(outer.stride), u32::from(outer.grid));
    let hole = inner.width() / stride;
    let nests =
        inner.width().is_multiple_of(stride) && hole < grid && (grid - hole).is_multiple_of(2);
    if nests {
        return Ok(());
    }
    let PatchRing { stride: inner_stride, grid: inner_grid } = inner;
    Err(format!(
        "stride {stride} with grid {grid} does not nest around stride {inner_stride} with grid {inner_grid}: {inner_stride} * {inner_grid} must be a multiple of {stride}, and the grid larger than the quotient by an even number, at least 2"
    ))
}

#[expect(clippy::cast_possible_truncation, reason = "within a source")]
fn floored(place: f64) -> i32 {
    place.floor() as i32
}

impl Default for Rings {
    fn default() -> Self {
        PRESETS[0].rings()
    }
}

impl Rings {
    /// The keys: a preset, or strides and grids. That one of the two is given is for the configuration to check.
    pub(super) fn keys(&mut self, keys: &mut dyn Keys) {
        let [old_strides, old_grids]: [Vec<u16>; 2] = [
            self.0.iter().map(|ring| ring.stride).collect(),
            self.0.iter().map(|ring| ring.grid).collect(),
        ];
        let (mut strides, mut grids) = (Vec::new(), Vec::new());
        keys.value("preset", None, &mut |given| preset(given).map(|preset| *self = preset.rings()));
        let present = Some(old_strides.into());
        keys.value("strides", present, &mut |given| wholes(given).map(|given| strides = given));
        let present = Some(old_grids.into());
        keys.value("grids", present, &mut |given| wholes(given).map(|given| grids = given));
        if !strides.is_empty() && !grids.is_empty() {
            match Self::new(&strides, &grids) {
                Ok(rings) => *self = rings,
                Err(message) => keys.refuse("layout", message),
            }
        }
    }
}

fn preset(given: &ConfigValue) -> Result<Preset, String> {
    given.expect(given.text().and_then(Preset::named), "\"stt172\" or \"giava20\"")
}
