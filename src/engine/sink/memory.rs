//! The newest token frame in memory of this process.

use bytemuck::Zeroable;
use foveate_core::clock;
use foveate_ring::{FrameHead, Items, TokenFrameBuf, TokenRecord};

use super::{SampledFrame, Sink};

/// Holds the newest frame of a view, exactly as a reader of a ring would have copied it.
#[derive(Debug, Default)]
pub struct Memory {
    frame: TokenFrameBuf,
    /// The version of each held token.
    held: Vec<u64>,
}

impl Memory {
    /// The newest frame; one without tokens before the first.
    pub fn frame(&self) -> &TokenFrameBuf {
        &self.frame
    }
}

impl Sink for Memory {
    fn begin(&mut self) -> Option<Items> {
        None
    }

    fn publish(&mut self, sampled: &SampledFrame<'_>) {
        let source = sampled.token_frame();
        let Self { frame, held } = self;
        let token_count = source.records.len();
        frame.records.resize(token_count, TokenRecord::zeroed());
        frame.records.copy_from_slice(source.records);
        let planes = sampled.plane_bytes();
        frame.planes.resize_with(planes.len() - 1, Vec::new);
        held.resize(token_count, 0);
        let token_bytes = sampled.planes.spec().format.token_bytes();
        frame.pixels.resize(token_count * token_bytes, 0);
        let pixels = frame.pixels.chunks_exact_mut(token_bytes).enumerate();
        for ((index, pixels), (version, held)) in pixels.zip(source.versions.iter().zip(&*held)) {
            if version != held {
                sampled.planes.items().load(index, pixels);
            }
        }
        for (target, bytes) in frame.planes.iter_mut().zip(planes.into_iter().skip(1)) {
            bytes.clone_into(target);
        }
        held.copy_from_slice(source.versions);
        frame.head = FrameHead {
            ring_sequence: frame.head.ring_sequence + 1,
            publish_ns: clock::monotonic_ns(),
            ..source.head
        };
    }
}
