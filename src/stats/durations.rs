//! Durations of frames and of their stages.

pub use self::histogram::{Histogram, HistogramCounts};

mod histogram;

/// Durations of the frames of a stream since it started.
#[derive(Debug)]
pub struct StreamDurations {
    /// Time from capture until all configured views had published.
    pub age: Histogram,
    /// Time from a frame in memory until all configured views had published.
    pub step: Histogram,
    /// Times of each stage, in the order of [`FrameStage::ALL`].
    pub stages: [Histogram; FrameStage::ALL.len()],
}

impl StreamDurations {
    /// Bounds for ages: from a fresh frame to one that was queued for seconds.
    const AGE_BOUNDS_NS: [u64; 14] = [
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        5_000_000_000,
        10_000_000_000,
    ];

    /// Bounds for stages: from tens of microseconds, as on a GPU, to a frame that waited for a shader compiler.
    const STAGE_BOUNDS_NS: [u64; 14] = [
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        500_000_000,
    ];
}

impl Default for StreamDurations {
    fn default() -> Self {
        let stage = || Histogram::new(&Self::STAGE_BOUNDS_NS);
        Self {
            age: Histogram::new(&Self::AGE_BOUNDS_NS),
            step: stage(),
            stages: std::array::from_fn(|_| stage()),
        }
    }
}

/// A stage that a frame passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStage {
    /// Gaze and token plans.
    Plan,
    /// Finding the dirty tiles.
    Change,
    /// Handing samples to the device.
    Upload,
    /// Computing the levels that depend on one tile from the camera's samples.
    Ingest,
    /// Computing the features of the dirty tiles.
    Features,
    /// Computing the levels above.
    Reduce,
    /// Sampling tokens from the pyramid.
    Sample,
    /// Copying tokens from the device.
    Collect,
    /// What each part of the picture loses at coarser steps, and the tokens that follow it.
    Adapt,
    /// Storing records and tokens in the rings.
    Publish,
    /// The views that clients opened, from their plans to their rings.
    Opened,
    /// Work after publishing, for the next frame.
    See,
}

// In the order of a frame, as in metrics.
foveate_core::names!(FrameStage {
    Plan = "plan", Change = "change", Upload = "upload", Ingest = "ingest", Features = "features",
    Reduce = "reduce", Sample = "sample", Collect = "collect", Adapt = "adapt", Publish = "publish",
    Opened = "opened", See = "see",
});
