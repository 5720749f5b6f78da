//! Where the tokens of a frame lie: pure functions from extent, patch side, budget, fixation and relevance to a
//! [`TokenPlan`].

use crate::geometry::patch::Patch;
use crate::geometry::plan::{Token, TokenPlan};
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::relevance::RelevanceMap;
#[cfg(feature = "serde")]
use crate::value::{Pixels, optional};

pub mod foveal;
pub mod uniform;

/// How a view spends its budget of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Layout {
    /// Full resolution at the fixation, coarser with eccentricity.
    Foveal {
        /// The eccentricity in pixels at which magnification has halved; `None` is
        /// [`foveal::default_e0_px`].
        #[cfg_attr(
            feature = "serde",
            serde(rename = "e0", default, deserialize_with = "optional::<Pixels, _, _>")
        )]
        e0_px: Option<f64>,
    },
    /// One level everywhere.
    Uniform,
}

impl Default for Layout {
    fn default() -> Self {
        Self::Foveal { e0_px: None }
    }
}

impl Layout {
    /// Its name in configurations and rings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foveal { .. } => "foveal",
            Self::Uniform => "uniform",
        }
    }

    /// The plan of at most `budget` tokens of `patch_side` texels around `fixation`, in pixels.
    pub fn plan(
        self,
        shape: PyramidShape,
        patch_side: u32,
        budget: usize,
        fixation: (f64, f64),
        relevance: Option<&RelevanceMap>,
    ) -> TokenPlan {
        assert!(0 < budget, "a plan has at least one token");
        let mut leaves = match self {
            Self::Foveal { e0_px } => {
                let e0_px =
                    e0_px.unwrap_or_else(|| foveal::default_e0_px(shape.extent(), patch_side));
                foveal::leaves(
                    shape,
                    patch_side,
                    budget,
                    &foveal::Priority { fixation, e0_px, relevance },
                )
            }
            Self::Uniform => uniform::leaves(shape, patch_side, budget),
        };
        leaves.sort_unstable_by_key(|patch| (patch.level, patch.morton()));
        let token = |patch: Patch| Token::from_patch(patch, patch_side);
        TokenPlan { patch_side, tokens: leaves.into_iter().map(token).collect() }
    }
}
