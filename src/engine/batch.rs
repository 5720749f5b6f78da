//! Many pictures of one kind, each seen once.
//!
//! Nothing is compared with anything, and nothing stays: the samples are read where they lie, and the tokens are those that an
//! [`Engine`](crate::Engine) makes of the same picture as its first frame.

use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::view::ViewSpec;
use foveate_ring::TokenRecord;

use crate::backend::BackendError;
use crate::backend::cpu::batch::CpuBatch;
#[cfg(feature = "vulkan")]
use crate::backend::vulkan::batch::VulkanBatch;
use crate::planes::weight_of;

/// A picture of a batch, and where to look.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Of the kind that the batch was built for.
    pub frame: FrameView<'a>,
    /// Fixations and relevance.
    pub gaze: &'a Gaze,
}

/// The tokens of a picture.
#[derive(Debug)]
pub struct Sampled {
    /// The plane [`pixels`](foveate_core::plane::PIXELS), `[N, 3, P, P]`.
    pub pixels: Vec<u8>,
    /// Where each token lies; their `changed_frame` is 1.
    pub records: Vec<TokenRecord>,
}

/// Samples pictures of one kind into tokens of one view, many at a time.
#[derive(Debug)]
pub struct Batch {
    kind: FrameKind,
    spec: ViewSpec,
    place: Place,
}

/// Where the pyramids are.
#[derive(Debug)]
pub(crate) enum Place {
    /// A thread takes a picture at a time.
    Cpu(CpuBatch),
    /// The pictures are layers of an image; each submission takes as many as there are.
    #[cfg(feature = "vulkan")]
    Vulkan(Box<VulkanBatch>),
}

impl Batch {
    pub(crate) fn new(kind: FrameKind, spec: ViewSpec, place: Place) -> Self {
        Self { kind, spec, place }
    }

    /// What the pictures have in common.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The tokens of each of `pictures`.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails: the batch must not be used any more.
    ///
    /// # Panics
    ///
    /// If a picture is of another kind.
    pub fn sample(&mut self, pictures: &[Picture<'_>]) -> Result<Vec<Sampled>, BackendError> {
        let Self { kind, spec, place } = self;
        for picture in pictures {
            assert_eq!(picture.frame.kind(), *kind, "a picture of the batch's kind");
        }
        match place {
            Place::Cpu(batch) => Ok(batch.sample(spec, pictures)),
            #[cfg(feature = "vulkan")]
            Place::Vulkan(batch) => batch.sample(spec, pictures),
        }
    }
}

/// The plan of a picture, and its records.
pub fn planned(spec: &ViewSpec, gaze: &Gaze, extent: Extent) -> (TokenPlan, Vec<TokenRecord>) {
    let plan = spec.plan(gaze, PyramidShape::new(extent), None);
    let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
    let records = records_of(&plan, extent, relevance);
    (plan, records)
}

fn records_of(
    plan: &TokenPlan,
    extent: Extent,
    relevance: Option<&RelevanceMap>,
) -> Vec<TokenRecord> {
    let side = plan.patch_side;
    let record = |token: &foveate_core::geometry::plan::Token| {
        let weight = weight_of(relevance, extent, token.read_box(extent, side));
        TokenRecord::new(*token, extent, side, 1, weight)
    };
    plan.tokens.iter().map(record).collect()
}
