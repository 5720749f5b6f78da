//! Metadata of a frame, and the header of its slot.

use std::time::Duration;

use bytemuck::Zeroable;

use super::abi::{FLAG_PTS, FixationBlock, SlotHeader};
use foveate_core::clock;
use foveate_core::depth::DepthStamp;
use foveate_core::frame::{CaptureClock, FrameStamp, PictureMotion};
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, FixationReason, Fixations};

/// Metadata of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameHead {
    /// Number of the frame in the segment, from 1.
    pub ring_sequence: u64,
    /// The camera frame that it was sampled from.
    pub stamp: FrameStamp,
    /// Publish time on CLOCK_MONOTONIC, in nanoseconds.
    pub publish_ns: u64,
    /// Where the view looked, each in the place that it keeps; at least one.
    pub fixations: Fixations,
    /// Bound on the difference between a camera sample and the one in the pyramid, which tokens are sampled from.
    pub sample_bound: u32,
    /// Bound on the difference between a channel of a texel and the one made of the newest frame.
    pub rgb_bound: u32,
    /// Tiles that were ingested for this frame.
    pub dirty_tiles: u32,
    /// Tiles of the source.
    pub tile_count: u32,
    /// `frame_seq` of the frame that the relevance of the tokens was made from; 0 without a relevance map.
    pub relevance_frame: u64,
    /// Arrival of the message that led to the newest fixation, CLOCK_MONOTONIC in nanoseconds; 0 if there was none.
    pub asked_ns: u64,
    /// `frame_seq` of the frame that the plane of channels was made from; 0 before any, and without that plane.
    pub channels_frame: u64,
    /// The depth picture that the planes of depth were made from; zeros if the frame has none, and without those planes.
    pub depth: DepthStamp,
    /// How the picture moved, up to the frame before or an earlier one; `None` if it is not known, or not computed.
    pub motion: Option<PictureMotion>,
}

impl FrameHead {
    /// Time since its camera frame was captured.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(clock::monotonic_ns().saturating_sub(self.stamp.capture_ns))
    }

    /// The first fixation.
    pub fn fixation(&self) -> Fixation {
        self.fixations[0]
    }

    /// Head of the frame in the slot of `header`.
    pub fn from_slot(header: &SlotHeader) -> Self {
        let has_pts = header.flags & FLAG_PTS != 0;
        Self {
            ring_sequence: header.ring_sequence,
            stamp: FrameStamp {
                frame_seq: header.frame_seq,
                pts_ns: has_pts.then_some(header.pts_ns),
                capture_ns: header.capture_ns,
                capture_unix_ns: header.capture_unix_ns,
                capture_clock: CaptureClock::from_code(header.capture_clock)
                    .unwrap_or(CaptureClock::Unknown),
                capture_error_ns: header.capture_error_ns,
                clock_steps: header.clock_steps,
                arrival_ns: header.arrival_ns,
            },
            publish_ns: header.publish_ns,
            fixations: fixations(header),
            sample_bound: header.sample_bound,
            rgb_bound: header.rgb_bound,
            dirty_tiles: header.dirty_tiles,
            tile_count: header.tile_count,
            relevance_frame: header.relevance_frame,
            asked_ns: header.asked_ns,
            channels_frame: header.channels_frame,
            depth: DepthStamp {
                capture_ns: header.depth_capture_ns,
                frame_seq: header.depth_frame,
            },
            motion: (header.motion_frame != 0).then_some(PictureMotion {
                frame_seq: header.motion_frame,
                now_from_before: header.motion,
            }),
        }
    }

    /// The header of the slot that holds this frame, of `token_count` tokens, at most 2^32 - 1: [`from_slot`](Self::from_slot)
    /// backwards, to send or keep a frame where there is no ring.
    pub fn to_slot(&self, token_count: usize) -> SlotHeader {
        let Self { ring_sequence, stamp, .. } = self;
        SlotHeader {
            lock: 2 * ring_sequence,
            ring_sequence: *ring_sequence,
            frame_seq: stamp.frame_seq,
            pts_ns: stamp.pts_ns.unwrap_or(0),
            capture_ns: stamp.capture_ns,
            capture_unix_ns: stamp.capture_unix_ns,
            arrival_ns: stamp.arrival_ns,
            publish_ns: self.publish_ns,
            flags: if stamp.pts_ns.is_some() { FLAG_PTS } else { 0 },
            capture_clock: stamp.capture_clock.code(),
            capture_error_ns: stamp.capture_error_ns,
            clock_steps: stamp.clock_steps,
            sample_bound: self.sample_bound,
            rgb_bound: self.rgb_bound,
            token_count: u32::try_from(token_count).expect("a segment has at most 2^24 tokens"),
            dirty_tiles: self.dirty_tiles,
            tile_count: self.tile_count,
            fixation_count: u32::try_from(self.fixations.len()).expect("at most 8 fixations"),
            relevance_frame: self.relevance_frame,
            asked_ns: self.asked_ns,
            channels_frame: self.channels_frame,
            depth_capture_ns: self.depth.capture_ns,
            depth_frame: self.depth.frame_seq,
            motion: self.motion.map_or([0.0; 6], |motion| motion.now_from_before),
            motion_frame: self.motion.map_or(0, |motion| motion.frame_seq),
            fixations: fixation_blocks(&self.fixations),
            ..SlotHeader::zeroed()
        }
    }
}

impl Default for FrameHead {
    /// All 0, with a fixation in the top left corner.
    fn default() -> Self {
        Self::from_slot(&SlotHeader::zeroed())
    }
}

/// Fixations as a slot has them.
fn fixation_blocks(fixations: &[Fixation]) -> [FixationBlock; FOVEAE_MAX] {
    let mut blocks = [FixationBlock::zeroed(); FOVEAE_MAX];
    for (block, fixation) in blocks.iter_mut().zip(fixations) {
        let Fixation { id, x, y, since_frame, reason, weight, .. } = *fixation;
        *block = FixationBlock { id, x, y, since_frame, weight, reason: reason.code() };
    }
    blocks
}

/// The fixations of a frame; a count out of bounds is clamped.
fn fixations(header: &SlotHeader) -> Fixations {
    let fixation = |block: &FixationBlock| Fixation {
        id: block.id,
        x: block.x,
        y: block.y,
        since_frame: block.since_frame,
        // Reasons added by later minor versions are those of policies.
        reason: FixationReason::from_code(block.reason).unwrap_or(FixationReason::Policy),
        weight: block.weight,
        region: None,
        share: None,
    };
    let count = (header.fixation_count as usize).clamp(1, FOVEAE_MAX);
    header.fixations[..count].iter().map(fixation).collect()
}
