//! Pictures on the CPU, one to a thread.
//!
//! Twin of `src/engine/backend/vulkan/batch.rs`.

use std::sync::Arc;

use parking_lot::Mutex;

use super::sample::{Encoder, PyramidTexels, SampleScratch, SampleToken, TexelTarget};
use super::{CpuPyramid, reduce};
use crate::batch::picture::{PictureTokens, planned_for};
use crate::pool::Pool;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::view::ViewSpec;

/// Pyramids for the threads of a pool.
#[derive(Debug)]
pub(crate) struct CpuBatch {
    kind: FrameKind,
    encoder: Encoder,
    all: TileSet,
    /// Pyramids that are free for the next thread.
    idle: Mutex<Vec<CpuPyramid>>,
    pool: Arc<Pool>,
    /// A pool without helpers, for a thread that has a picture to itself.
    alone: Arc<Pool>,
}

impl CpuBatch {
    /// A batch of pictures of `kind`, which the threads of `pool` share.
    pub(crate) fn new(kind: FrameKind, spec: &ViewSpec, pool: &Arc<Pool>) -> Self {
        Self {
            kind,
            encoder: Encoder::new(spec.format),
            all: TileSet::all(kind.extent),
            idle: Mutex::default(),
            pool: Arc::clone(pool),
            alone: Arc::new(Pool::new(0).limited_to(pool.instructions())),
        }
    }

    /// The tokens of each picture.
    pub(crate) fn sample(
        &self,
        spec: &ViewSpec,
        pictures: &[(FrameView<'_>, &Gaze)],
    ) -> Vec<PictureTokens> {
        let mut parts: Vec<_> = pictures.iter().map(|picture| (picture, None)).collect();
        self.pool.for_each(&mut parts, &|((frame, gaze), sampled)| {
            let (plan, records) = planned_for(spec, gaze, frame);
            *sampled = Some(PictureTokens { pixels: self.pixels(frame, &plan), records });
        });
        parts.into_iter().filter_map(|(_, sampled)| sampled).collect()
    }

    fn pixels(&self, frame: &FrameView<'_>, plan: &TokenPlan) -> Vec<u8> {
        let Self { encoder, all, idle, alone, .. } = self;
        let shape = PyramidShape::new(self.kind.extent);
        let idle_one = idle.lock().pop();
        let mut pyramid = idle_one.unwrap_or_else(|| CpuPyramid::new(shape, alone));
        pyramid.ingest_all(frame);
        reduce::reduce(&mut pyramid.tail, all, shape, &mut pyramid.levels);
        let texels = PyramidTexels { shape, frame, levels: &pyramid.levels };
        let token_bytes = encoder.format().token_bytes();
        let mut pixels = vec![0; plan.tokens.len() * token_bytes];
        let mut scratch = SampleScratch::default();
        for (&token, pixels) in plan.tokens.iter().zip(pixels.chunks_exact_mut(token_bytes)) {
            let (target, scratch) = (TexelTarget::Bytes(pixels), &mut scratch);
            SampleToken { texels, encoder, token, target, scratch, sent: None }
                .run(alone.instructions());
        }
        idle.lock().push(pyramid);
        pixels
    }
}
