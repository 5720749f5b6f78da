//! Samples the tokens of one view from the pyramid.
//!
//! Device side: `glsl/sample.comp`    Twin: `src/engine/backend/cpu/sample.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::keep::KeepPasses;
use super::pyramid::{GpuPyramid, layer_sums, tail_offset};
use super::shaders;
use super::target::TokenTarget;
use super::work::WorkList;
use crate::planes::SamplerSpec;
use crate::reuse::Reuse;
use foveate_core::clock::Span;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::{LEVEL_COUNT_MAX, PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::token::{Outside, Rounding, TokenFormat};
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, GpuError, Lane,
    Recorder,
};

/// `local_size_x` of the shader.
pub(super) const GROUP_INVOCATIONS: u32 = 64;

/// Bytes of the words that the shader writes.
pub(super) const WORD_BYTES: usize = 4;

/// How the texels of a token are made: copied from a level; as means of boxes of pixels; or as means of the texels of a level, weighted by
/// their overlap with a box.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum TexelKind {
    Level = 0,
    Boxes = 1,
    Weights = 2,
}

/// Location of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TokenSource {
    /// 0 if its texels are those of the level, 1 if they are means of boxes of pixels, 2 if they are means of weighted texels of the
    /// level.
    pub(super) kind: u32,
    /// Leftmost column: in texels of the level for kind 0, otherwise in source pixels.
    pub(super) x: i32,
    /// Topmost row, in the unit of `x`.
    pub(super) y: i32,
    /// Source pixels per texel along a row; of weighted texels, per P texels.
    pub(super) width: u32,
    /// Source pixels per texel down a column; of weighted texels, per P texels.
    pub(super) height: u32,
    /// Pyramid level that is read.
    pub(super) level: u32,
    /// Where the level starts in the tail, in texels; 0 for the levels of the image.
    pub(super) tail_offset: u32,
    /// Layer of the pyramid.
    pub(super) layer: u32,
    /// Index of the item that it is sampled to.
    pub(super) item: u32,
}

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SamplePush {
    /// Width and height of the source in pixels.
    pub(super) extent: [u32; 2],
    /// Word at which the first item begins.
    pub(super) first_word: u32,
}

/// Samples one view.
#[derive(Debug)]
pub(super) struct SamplePass {
    passes: SamplingPasses,
    /// The tokens to sample.
    stale: WorkList<TokenSource>,
    /// The encoding of each value of each channel.
    table: Buffer,
    target: TokenTarget,
    shape: PyramidShape,
    format: TokenFormat,
    capacity: usize,
    /// Offset of each level in the tail, in texels.
    tail_offsets: [u32; LEVEL_COUNT_MAX as usize],
}

/// The sampling passes of a view.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each view")]
enum SamplingPasses {
    Sample(ComputePass),
    /// Tokens may keep the texels that they were last published with.
    Keep(KeepPasses),
}

impl SamplePass {
    /// The pass for one view of a source.
    ///
    /// # Errors
    ///
    /// If the view is too large for the device, or the device refuses.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        shape: PyramidShape,
        spec: SamplerSpec,
    ) -> Result<Self, GpuError> {
        let SamplerSpec { format, capacity, keeps_unchanged } = spec;
        let constants = [
            format.patch_side,
            texels_per_word(format),
            TILE_LEVEL_COUNT,
            u32::from(format.outside == Outside::Mean),
            u32::from(format.rounding == Rounding::Floor),
        ];
        let desc = ComputePassDesc {
            name: "sample",
            shader: shaders::SAMPLE,
            bindings: &[
                BindingKind::FetchedImage,
                BindingKind::Buffer,
                BindingKind::Buffer,
                BindingKind::Buffer,
                BindingKind::Buffer,
            ],
            constants: &constants,
            push_bytes: size_of::<SamplePush>(),
        };
        // Buffers must not be empty, and warming up samples one token.
        let most = capacity.max(1);
        // First, because it is the largest and the first to exceed the device's limits.
        let target = TokenTarget::new(gpu, most, format.token_bytes())?;
        let numbers = format.table();
        let mut table =
            Buffer::new(gpu, "normalisation", BufferKind::HostWritten, size_of_val(&numbers))?;
        table.mapped().copy_from_slice(numbers.as_flattened());
        let passes = if keeps_unchanged {
            let texel_count = (format.patch_side as usize).pow(2);
            SamplingPasses::Keep(KeepPasses::new(gpu, &constants, most, texel_count)?)
        } else {
            SamplingPasses::Sample(ComputePass::new(gpu, &desc)?)
        };
        Ok(Self {
            passes,
            stale: WorkList::new(gpu, "stale tokens", most)?,
            table,
            target,
            shape,
            format,
            capacity,
            tail_offsets: tail_offsets(shape),
        })
    }

    /// Uploads the list of tokens to sample: the stale ones.
    pub(super) fn upload(&mut self, plan: &TokenPlan, stale: &[u32]) {
        assert!(stale.len() <= self.capacity, "a plan beyond the view's capacity");
        let Self { stale: list, shape, format, tail_offsets, .. } = self;
        list.fill(stale.iter().map(|&item| {
            let record = token_source(plan.tokens[item as usize], *shape, *format, tail_offsets);
            TokenSource { item, ..record }
        }));
    }

    /// Uploads the list of tokens to sample: all of the plan of each layer, one after the other.
    pub(super) fn upload_layers<'a>(&mut self, plans: impl Iterator<Item = &'a TokenPlan>) {
        let Self { stale: list, shape, format, tail_offsets, .. } = self;
        let layer_sums = count(layer_sums(*shape));
        let layers = (0..).zip(plans);
        let tokens = layers.flat_map(|(layer, plan)| plan.tokens.iter().map(move |t| (layer, *t)));
        list.fill((0..).zip(tokens).map(|(item, (layer, token))| {
            let record = token_source(token, *shape, *format, tail_offsets);
            let tail_offset = record.tail_offset + layer * layer_sums;
            TokenSource { layer, tail_offset, item, ..record }
        }));
    }

    /// Uploads how tokens are compared with what they were last published with, if they are.
    pub(super) fn prepare_comparisons(&mut self, reuse: &Reuse) {
        if let SamplingPasses::Keep(passes) = &mut self.passes {
            passes.prepare(reuse);
        }
    }

    /// Reads by how much the tokens `stale` have moved, if they were compared.
    pub(super) fn collect_comparisons(&mut self, stale: &[u32], reuse: &mut Reuse) {
        if let SamplingPasses::Keep(passes) = &mut self.passes {
            passes.collect(stale, &mut reuse.moved);
        }
    }

    /// Leaves the list to a pass of the next submission.
    pub(super) fn leave_to_device(&mut self) {
        self.stale.leave_to_device();
    }

    /// Makes the next `record` skip sampling.
    pub(super) fn sample_nothing(&mut self) {
        self.stale.fill(std::iter::empty());
    }

    /// Makes the next `record` sample one token of undefined texels.
    pub(super) fn prepare_warm(&mut self) {
        self.stale.fill(std::iter::once(TokenSource::zeroed()));
    }

    /// The tokens to sample.
    pub(super) fn stale(&self) -> &WorkList<TokenSource> {
        &self.stale
    }

    /// The record on the device of a plan's token number `item`.
    pub(super) fn token_source(&self, token: Token, item: u32) -> TokenSource {
        TokenSource { item, ..token_source(token, self.shape, self.format, &self.tail_offsets) }
    }

    /// The buffer that the tokens are sampled into.
    pub(super) fn target(&mut self) -> &mut TokenTarget {
        &mut self.target
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        match &self.passes {
            SamplingPasses::Sample(pass) => lane.span(pass),
            SamplingPasses::Keep(passes) => passes.span(lane),
        }
    }

    /// Samples the tokens of the list.
    pub(super) fn record<'a>(&'a self, recorder: &mut Recorder<'a>, pyramid: &'a GpuPyramid) {
        if self.stale.count() == Some(0) {
            return;
        }
        let (tokens, first_word) = self.target.place();
        let (stale, table) = (self.stale.buffer(), &self.table);
        let extent = self.shape.extent();
        let channel_words = channel_words(self.format);
        let groups = self.stale.groups(|count| (count * channel_words).div_ceil(GROUP_INVOCATIONS));
        match &self.passes {
            SamplingPasses::Sample(pass) => {
                let bindings = [
                    pyramid.levels(),
                    Binding::Read(&pyramid.tail),
                    Binding::Read(stale),
                    Binding::Read(table),
                    Binding::Write(tokens),
                ];
                let push = SamplePush { extent: [extent.width, extent.height], first_word };
                recorder.dispatch(pass, &bindings, &push, groups);
            }
            SamplingPasses::Keep(passes) => {
                passes.record_compare(recorder, pyramid, extent, stale, groups);
                passes.record_settle(recorder, stale, table, (tokens, first_word), groups);
            }
        }
    }
}

fn token_source(
    token: Token,
    shape: PyramidShape,
    format: TokenFormat,
    tail_offsets: &[u32; LEVEL_COUNT_MAX as usize],
) -> TokenSource {
    let Token { x, y, sx, sy, .. } = token;
    let patch_side = format.patch_side;
    let level = token.level(shape, format.rounding);
    let (kind, level, [width, height]) = match token.weighted_level(shape, patch_side) {
        Some(level) => {
            (TexelKind::Weights, level, [token.width(patch_side), token.height(patch_side)])
        }
        None if level.is_some() => (TexelKind::Level, level.unwrap_or(0), [sx, sy].map(u32::from)),
        None => (TexelKind::Boxes, 0, [sx, sy].map(u32::from)),
    };
    // Exact, as the token is aligned.
    let [x, y] =
        [x, y].map(|place| if matches!(kind, TexelKind::Level) { place >> level } else { place });
    let tail_offset = tail_offsets[level as usize];
    TokenSource { kind: kind as u32, x, y, width, height, level, tail_offset, layer: 0, item: 0 }
}

/// Words of a channel of a token; each has an invocation.
pub(super) fn channel_words(format: TokenFormat) -> u32 {
    format.patch_side * format.patch_side / texels_per_word(format)
}

fn texels_per_word(format: TokenFormat) -> u32 {
    count(WORD_BYTES / format.dtype.bytes())
}

fn tail_offsets(shape: PyramidShape) -> [u32; LEVEL_COUNT_MAX as usize] {
    let mut offsets = [0; LEVEL_COUNT_MAX as usize];
    for level in TILE_LEVEL_COUNT..shape.level_count() {
        offsets[level as usize] = count(tail_offset(shape, level));
    }
    offsets
}

/// A count as a shader's 32-bit number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "buffers of more entries exceed every device's limit"
)]
pub(super) fn count(entries: usize) -> u32 {
    entries as u32
}
