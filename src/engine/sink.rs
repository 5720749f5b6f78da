//! Sinks for the token frames of a view: a ring in shared memory, or memory of this process.

use arrayvec::ArrayVec;
use foveate_core::frame::{FrameStamp, PictureMotion};
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_ring::abi::PLANE_COUNT_MAX;
use foveate_ring::{FrameHead, Items, TokenFrame, Writer};

pub use self::memory::Memory;
use crate::change::tracker::ChangeTracker;
use crate::channels::ChannelPlane;
use crate::depth::{DepthPlanes, StreamDepth};
use crate::planes::Planes;

mod memory;

/// The tokens and planes of one view in one frame.
#[derive(Clone, Copy, Debug)]
pub struct SampledFrame<'a> {
    /// Identity of the camera frame that was sampled.
    pub stamp: FrameStamp,
    /// Fixation and relevance that the plan was made for.
    pub gaze: &'a Gaze,
    /// Whether the policy has acted on the newest feedback.
    pub is_settled: bool,
    /// When the message that led to the fixation arrived, on CLOCK_MONOTONIC; 0 if none did.
    pub asked_ns: u64,
    /// `frame_seq` of the first frame sampled by this plan.
    pub plan_since: u64,
    /// Whether the plan begins with this frame and was made without the plan before, of which it could have kept a part.
    pub is_planned_afresh: bool,
    /// The changes of the frame, which all views share.
    pub changes: &'a FrameChanges<'a>,
    /// The tokens.
    pub planes: &'a Planes,
    /// Plane of channels that the scorer read.
    pub channels: &'a ChannelPlane,
    /// Depth of the tokens.
    pub depth: &'a DepthPlanes,
    /// For each tile, row by row, the newest frame that changed it or the masks; empty if the view does not publish the plane.
    pub tiles: &'a [u64],
}

/// The changes of one frame against the frame before.
#[derive(Clone, Copy, Debug)]
pub struct FrameChanges<'a> {
    /// The pyramid of the frame.
    pub shape: PyramidShape,
    /// The tiles that changed, each with its newest changed frame.
    pub tracker: &'a ChangeTracker,
    /// Most by which a channel of a published texel may differ from the texel made of this frame.
    pub rgb_bound: u32,
    /// The newest depth picture.
    pub depth: &'a StreamDepth,
    /// How the picture moved up to the frame before; `None` if it is not known.
    pub motion: Option<PictureMotion>,
}

impl SampledFrame<'_> {
    /// The planes of [`ViewSpec::planes`](foveate_gaze::view::ViewSpec::planes), of which the first, the texels, is empty: they went
    /// where the sink said.
    pub fn plane_bytes(&self) -> ArrayVec<&[u8], PLANE_COUNT_MAX> {
        let channels = Some(self.channels.bytes()).filter(|bytes| !bytes.is_empty());
        let relevance = bytemuck::cast_slice(self.planes.relevance());
        let tiles = Some(self.tiles).filter(|tiles| !tiles.is_empty()).map(bytemuck::cast_slice);
        let planes = [&[][..], relevance].into_iter().chain(channels);
        planes.chain(self.depth.bytes()).chain(tiles).collect()
    }

    /// The frame as a ring stores it, with [`plane_bytes`](Self::plane_bytes).
    #[expect(clippy::cast_possible_truncation, reason = "a source has at most 512 x 512 tiles")]
    pub fn token_frame(&self) -> TokenFrame<'_> {
        let FrameChanges { tracker, rgb_bound, motion, .. } = *self.changes;
        let mut planes = [&[][..]; PLANE_COUNT_MAX];
        for (plane, bytes) in planes.iter_mut().zip(self.plane_bytes()) {
            *plane = bytes;
        }
        let head = FrameHead {
            stamp: self.stamp,
            fixations: self.gaze.fixations.clone(),
            relevance_frame: self.gaze.relevance.as_ref().map_or(0, |map| map.frame_seq),
            asked_ns: self.asked_ns,
            sample_bound: tracker.sample_bound().into(),
            rgb_bound,
            dirty_tiles: tracker.ingested().count() as u32,
            tile_count: tracker.ingested().grid().area() as u32,
            channels_frame: self.channels.frame_seq(),
            depth: self.depth.stamp(),
            motion,
            ..FrameHead::default()
        };
        TokenFrame {
            head,
            records: self.planes.records(),
            planes,
            versions: self.planes.versions(),
            // Both only grow, so the sum changes whenever one of them does.
            whole_version: self.channels.version() + self.tiles.iter().max().unwrap_or(&0),
        }
    }
}

/// Receives the token frames of one view.
pub trait Sink {
    /// Begins the next frame, and says where its texels go; `None` leaves them with the view. May be called again before
    /// [`publish`](Self::publish), if the backend failed.
    fn begin(&mut self) -> Option<Items>;

    /// Publishes a frame. The sink copies what it keeps: `frame` changes with the next one.
    fn publish(&mut self, frame: &SampledFrame<'_>);
}

impl Sink for Writer {
    fn begin(&mut self) -> Option<Items> {
        Some(Self::begin(self))
    }

    fn publish(&mut self, frame: &SampledFrame<'_>) {
        Self::publish(self, &frame.token_frame());
    }
}
