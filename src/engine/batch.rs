//! Many pictures of one kind, each seen once.
//!
//! Nothing is compared with anything, and nothing stays: the samples are read where they lie, and the tokens are those that an
//! [`Engine`](crate::Engine) makes of the same picture as its first frame.

use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::fixation::Gaze;
use foveate_gaze::view::ViewSpec;

pub use self::picture::{PictureTokens, planned, planned_for};

use crate::backend::BackendError;
use crate::backend::cpu::batch::CpuBatch;
#[cfg(feature = "vulkan")]
use crate::backend::vulkan::batch::VulkanBatch;

pub(crate) mod picture;

/// Samples pictures of one kind into tokens of one view, many at a time.
#[derive(Debug)]
pub struct Batch {
    kind: FrameKind,
    spec: ViewSpec,
    place: BatchBackend,
}

/// The pyramids, on the device that samples them.
#[derive(Debug)]
pub(crate) enum BatchBackend {
    /// A thread takes a picture at a time.
    Cpu(CpuBatch),
    /// The pictures are layers of an image; each submission takes as many as there are.
    #[cfg(feature = "vulkan")]
    Vulkan(Box<VulkanBatch>),
}

impl Batch {
    pub(crate) fn new(kind: FrameKind, spec: ViewSpec, place: BatchBackend) -> Self {
        Self { kind, spec, place }
    }

    /// Format, colour and extent that all pictures share.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The sampled result of each picture.
    pub fn spec(&self) -> &ViewSpec {
        &self.spec
    }

    /// The tokens of each of `pictures`, of which each has a gaze: fixations and relevance.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails: the batch must not be used any more.
    ///
    /// # Panics
    ///
    /// If a picture is of another kind.
    pub fn sample(
        &mut self,
        pictures: &[(FrameView<'_>, &Gaze)],
    ) -> Result<Vec<PictureTokens>, BackendError> {
        let Self { kind, spec, place } = self;
        for (frame, _) in pictures {
            assert_eq!(frame.kind(), *kind, "a picture of the batch's kind");
        }
        match place {
            BatchBackend::Cpu(batch) => Ok(batch.sample(spec, pictures)),
            #[cfg(feature = "vulkan")]
            BatchBackend::Vulkan(batch) => batch.sample(spec, pictures),
        }
    }
}
