//! Features of the dirty tiles, in sums of integers.
//!
//! Device side: `glsl/features.comp`    Twin: `src/engine/backend/cpu/features.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::ingest::{TileRecords, sampling};
use super::pyramid::GpuPyramid;
use super::sample::count;
use super::shaders;
use super::tiles::TileList;
use foveate_core::clock::Span;
use foveate_core::frame::FrameKind;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_gaze::relevance::features::{STROKE_MAX, STRONG, TileFeatures};
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, GpuError, Groups,
    Lane, Recorder,
};

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct FeaturesPush {
    /// Width and height of the source in pixels.
    pub(super) extent: [u32; 2],
    /// 1 for all tiles of the grid, which must be resident; 0 for those of the list.
    pub(super) is_whole: u32,
}

/// Computes the features of ingested tiles, and keeps the features of all tiles.
#[derive(Debug)]
pub(super) struct FeaturesPass {
    pass: ComputePass,
    push: FeaturesPush,
    /// A record for each tile of the grid.
    made: Buffer,
    /// Row by row; `None` while they are not wanted, empty before they are made.
    features: Option<Vec<TileFeatures>>,
    tile_count: usize,
}

impl FeaturesPass {
    /// The pass for frames of `kind`.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device refuses.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        records: TileRecords,
    ) -> Result<Self, GpuError> {
        let desc = ComputePassDesc {
            name: "features",
            shader: shaders::FEATURES,
            bindings: &[BindingKind::Buffer; 4],
            constants: &[
                TILE_SIDE,
                sampling(kind.format),
                u32::from(records == TileRecords::Resident),
                STRONG.into(),
                STROKE_MAX,
            ],
            push_bytes: size_of::<FeaturesPush>(),
        };
        let tile_count = kind.extent.in_cells(TILE_SIDE).area();
        let size = tile_count * size_of::<TileFeatures>();
        Ok(Self {
            pass: ComputePass::new(gpu, &desc)?,
            push: FeaturesPush { extent: [kind.extent.width, kind.extent.height], is_whole: 0 },
            made: Buffer::new(gpu, "features", BufferKind::Readback, size)?,
            features: None,
            tile_count,
        })
    }

    /// Sets whether they are wanted.
    pub(super) fn keep(&mut self, wanted: bool) {
        self.features = wanted.then(Vec::new);
    }

    /// The features of every tile; `None` before they are made.
    pub(super) fn get(&self) -> Option<&[TileFeatures]> {
        self.features.as_deref().filter(|features| !features.is_empty())
    }

    /// Whether features are computed.
    pub(super) fn are_wanted(&self) -> bool {
        self.features.is_some()
    }

    /// Whether features are wanted before the first computation.
    pub(super) fn is_due(&self) -> bool {
        self.features.as_ref().is_some_and(Vec::is_empty)
    }

    /// Takes the features of all tiles, made elsewhere.
    pub(super) fn fill(&mut self, make: impl FnOnce(&mut [TileFeatures])) {
        let mut features = vec![TileFeatures::default(); self.tile_count];
        make(&mut features);
        self.features = Some(features);
    }

    /// Prepares for the tiles of the list, or for all, which must be resident, if none are made yet.
    pub(super) fn prepare(&mut self) {
        self.push.is_whole = u32::from(self.is_due());
    }

    /// Makes the features of `tiles` from their `records` and from what ingesting them has summed up in `pyramid`.
    pub(super) fn record<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        records: &'a Buffer,
        tiles: &'a TileList,
        pyramid: &'a GpuPyramid,
    ) {
        let bindings = [
            Binding::Read(records),
            Binding::Read(tiles.buffer()),
            Binding::Write(&self.made),
            Binding::Read(&pyramid.sums),
        ];
        let groups = if self.push.is_whole == 1 {
            Groups::Count(count(self.tile_count))
        } else {
            tiles.groups(|count| count)
        };
        recorder.dispatch(&self.pass, &bindings, &self.push, groups);
    }

    /// Takes what the submission made: the features of `ingested`, or of all.
    pub(super) fn collect(&mut self, ingested: &TileSet) {
        let Some(features) = &mut self.features else { return };
        let made = self.made.mapped::<TileFeatures>();
        if features.is_empty() {
            features.extend_from_slice(made);
        } else {
            ingested.indices().for_each(|index| features[index] = made[index]);
        }
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        if self.are_wanted() { lane.span(&self.pass) } else { Span::NONE }
    }
}
