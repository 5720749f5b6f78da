//! Pictures on the CPU, one to a thread.
//!
//! Twin of `src/engine/backend/vulkan/batch.rs`.

use std::sync::Arc;

use parking_lot::Mutex;

use super::sample::{Encoder, PyramidTexels, Room, SampleToken, Target};
use super::{Pyramid, reduce};
use crate::batch::picture::{BatchPicture, Sampled, planned};
use crate::pool::Pool;
use crate::simd::Instructions;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;
use foveate_core::view::ViewSpec;

/// Pyramids for the threads of a pool.
#[derive(Debug)]
pub(crate) struct CpuBatch {
    kind: FrameKind,
    encoder: Encoder,
    all: TileSet,
    /// Those that no thread uses.
    idle: Mutex<Vec<Pyramid>>,
    pool: Arc<Pool>,
    /// No helpers: threads have a picture each.
    alone: Arc<Pool>,
    instructions: Instructions,
}

impl CpuBatch {
    /// For pictures of `kind`, which the threads of `pool` share.
    pub(crate) fn new(kind: FrameKind, spec: &ViewSpec, pool: &Arc<Pool>) -> Self {
        Self {
            kind,
            encoder: Encoder::new(spec.format),
            all: TileSet::all(kind.extent),
            idle: Mutex::default(),
            pool: Arc::clone(pool),
            alone: Arc::new(Pool::new(0)),
            instructions: pool.instructions(),
        }
    }

    /// The tokens of each picture.
    pub(crate) fn sample(&self, spec: &ViewSpec, pictures: &[BatchPicture<'_>]) -> Vec<Sampled> {
        let mut parts: Vec<_> = pictures.iter().map(|picture| (picture, None)).collect();
        self.pool.for_each(&mut parts, &|(picture, sampled)| {
            let (plan, records) = planned(spec, picture.gaze, self.kind.extent);
            *sampled = Some(Sampled { pixels: self.pixels(&picture.frame, &plan), records });
        });
        parts.into_iter().filter_map(|(_, sampled)| sampled).collect()
    }

    fn pixels(&self, frame: &FrameView<'_>, plan: &TokenPlan) -> Vec<u8> {
        let Self { encoder, all, instructions, .. } = self;
        let shape = PyramidShape::new(self.kind.extent);
        let mut pyramid = self
            .idle
            .lock()
            .pop()
            .unwrap_or_else(|| Pyramid::new(shape, &self.alone, *instructions));
        pyramid.ingest_all(frame);
        reduce::reduce(&mut pyramid.tail, all, shape, &mut pyramid.levels);
        let texels = PyramidTexels { shape, frame, levels: &pyramid.levels };
        let token_bytes = encoder.format().token_bytes();
        let mut pixels = vec![0; plan.tokens.len() * token_bytes];
        let mut room = Room::default();
        for (&token, pixels) in plan.tokens.iter().zip(pixels.chunks_exact_mut(token_bytes)) {
            let (target, room) = (Target::Bytes(pixels), &mut room);
            SampleToken { texels, encoder, token, target, room, sent: None }.run(*instructions);
        }
        self.idle.lock().push(pyramid);
        pixels
    }
}
