//! Views that come and go while their stream runs: what samples one is made on another thread, and then put in.

#[cfg(feature = "vulkan")]
use std::sync::Arc;

use super::cpu::sample::Encoder;
#[cfg(feature = "vulkan")]
use super::vulkan::{sample::SamplePass, stale::StalePass, view};
use super::{MOST_VIEWS, RetinaError, ViewSpec};
use foveate_core::geometry::pyramid::PyramidShape;
#[cfg(feature = "vulkan")]
use foveate_gpu::Gpu;

/// Makes what samples views of one retina, on any thread, while the retina takes frames.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewMaker {
    shape: PyramidShape,
    site: Site,
}

/// Who samples, and who finds the tiles that are ingested.
#[derive(Clone, Debug)]
enum Site {
    Cpu,
    #[cfg(feature = "vulkan")]
    Told(Arc<Gpu>),
    #[cfg(feature = "vulkan")]
    Detecting(Arc<Gpu>),
}

/// What samples one view of one retina: made by a [`ViewMaker`] on any thread, [put in](super::Retina::add_view) by the
/// thread of the retina, and dropped on any again.
#[derive(Debug)]
pub struct ViewPass {
    maker: ViewMaker,
    means: Means,
}

/// What a [`Site`] samples a view with.
#[derive(Debug)]
enum Means {
    Cpu(Encoder),
    #[cfg(feature = "vulkan")]
    Told(Box<SamplePass>),
    #[cfg(feature = "vulkan")]
    Detecting(Box<StalePass>, Box<SamplePass>),
}

/// A view that a retina did not take in.
#[derive(Debug, thiserror::Error)]
#[error("{refusal}")]
pub struct RefusedView {
    pass: ViewPass,
    refusal: Refusal,
}

/// Why a retina did not take a view in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was made for another shape, backend or device: the stream was rebuilt meanwhile.
    #[error(
        "the view was made for another pyramid than the stream has now, as its frames or its backend have changed since: make it again"
    )]
    OtherRetina,
    /// There are as many views as there may be.
    #[error("the stream has {MOST_VIEWS} views, and may have no more: close another first")]
    Full,
}

impl ViewMaker {
    /// For a retina on the CPU.
    pub(super) fn on_cpu(shape: PyramidShape) -> Self {
        Self { shape, site: Site::Cpu }
    }

    /// For a retina on `gpu` that is told the dirty tiles.
    #[cfg(feature = "vulkan")]
    pub(super) fn told_on(gpu: &Arc<Gpu>, shape: PyramidShape) -> Self {
        Self { shape, site: Site::Told(Arc::clone(gpu)) }
    }

    /// For a retina on `gpu` that finds the dirty tiles.
    #[cfg(feature = "vulkan")]
    pub(super) fn detecting_on(gpu: &Arc<Gpu>, shape: PyramidShape) -> Self {
        Self { shape, site: Site::Detecting(Arc::clone(gpu)) }
    }

    /// Makes what samples a view, and runs it once, as some drivers compile only then. The retina is not touched, but
    /// shares the device's queue: frames wait there for as long as that one run takes, which is long only where the driver
    /// compiles then, as llvmpipe does.
    ///
    /// # Errors
    ///
    /// If the view is too large for the device, or the device is lost or refuses.
    pub fn make(&self, spec: ViewSpec) -> Result<ViewPass, RetinaError> {
        let means = match &self.site {
            Site::Cpu => Means::Cpu(Encoder::new(spec.format)),
            #[cfg(feature = "vulkan")]
            Site::Told(gpu) => Means::Told(Box::new(view::warm_told(gpu, self.shape, spec)?)),
            #[cfg(feature = "vulkan")]
            Site::Detecting(gpu) => {
                let (stale, sample) = view::warm_detecting(gpu, self.shape, spec)?;
                Means::Detecting(Box::new(stale), Box::new(sample))
            }
        };
        Ok(ViewPass { maker: self.clone(), means })
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu, Self::Cpu) => true,
            #[cfg(feature = "vulkan")]
            (Self::Told(gpu), Self::Told(other))
            | (Self::Detecting(gpu), Self::Detecting(other)) => Arc::ptr_eq(gpu, other),
            #[cfg(feature = "vulkan")]
            _ => false,
        }
    }
}

impl ViewPass {
    /// What a retina on the CPU had.
    pub(super) fn of_cpu(maker: &ViewMaker, encoder: Encoder) -> Self {
        Self { maker: maker.clone(), means: Means::Cpu(encoder) }
    }

    /// What a retina on a GPU had that is told the dirty tiles.
    #[cfg(feature = "vulkan")]
    pub(super) fn of_told(maker: &ViewMaker, sample: Box<SamplePass>) -> Self {
        Self { maker: maker.clone(), means: Means::Told(sample) }
    }

    /// What a retina on a GPU had that finds the dirty tiles.
    #[cfg(feature = "vulkan")]
    pub(super) fn of_detecting(
        maker: &ViewMaker,
        stale: Box<StalePass>,
        sample: Box<SamplePass>,
    ) -> Self {
        Self { maker: maker.clone(), means: Means::Detecting(stale, sample) }
    }

    /// What a retina on the CPU takes in as view number `index`, if `maker` made it.
    pub(super) fn into_cpu(self, maker: &ViewMaker, index: usize) -> Result<Encoder, RefusedView> {
        match self.checked(maker, index)? {
            Means::Cpu(encoder) => Ok(encoder),
            #[cfg(feature = "vulkan")]
            _ => unreachable!("{maker:?} makes no others"),
        }
    }

    /// What a retina on a GPU that is told the dirty tiles takes in as view number `index`, if `maker` made it.
    #[cfg(feature = "vulkan")]
    pub(super) fn into_told(
        self,
        maker: &ViewMaker,
        index: usize,
    ) -> Result<Box<SamplePass>, RefusedView> {
        match self.checked(maker, index)? {
            Means::Told(sample) => Ok(sample),
            _ => unreachable!("{maker:?} makes no others"),
        }
    }

    /// What a retina on a GPU that finds the dirty tiles takes in as view number `index`, if `maker` made it.
    #[cfg(feature = "vulkan")]
    pub(super) fn into_detecting(
        self,
        maker: &ViewMaker,
        index: usize,
    ) -> Result<(Box<StalePass>, Box<SamplePass>), RefusedView> {
        match self.checked(maker, index)? {
            Means::Detecting(stale, sample) => Ok((stale, sample)),
            _ => unreachable!("{maker:?} makes no others"),
        }
    }

    /// Refuses what `maker` did not make, and what there is no room for.
    fn checked(self, maker: &ViewMaker, index: usize) -> Result<Means, RefusedView> {
        if self.maker != *maker {
            return Err(RefusedView { pass: self, refusal: Refusal::OtherRetina });
        }
        if MOST_VIEWS <= index {
            return Err(RefusedView { pass: self, refusal: Refusal::Full });
        }
        Ok(self.means)
    }
}

impl RefusedView {
    /// Why.
    pub fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// What was not taken in, for another thread to drop.
    pub fn into_pass(self) -> ViewPass {
        self.pass
    }
}
