//! Detects changes: makes of a whole frame the list of tiles to ingest, and copies their samples to the resident copy.
//!
//! Device side: `glsl/detect.comp`    Twin: `src/engine/change/detect.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::sample::count;
use super::shaders;
use super::staging::{TILE_EXTENT, record_bytes};
use super::tiles::{TileList, tile_list};
use foveate_core::clock::Span;
use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, GROUPS_PER_ROW, Gpu,
    GpuError, Lane, Recorder,
};

/// Bytes of the words that the shader reads and writes.
const WORD_BYTES: usize = 4;

/// Location of a plane in the frame's memory; all 0 if the format has no such plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PlanePlace {
    /// Offset in bytes.
    pub(super) first_byte: u32,
    /// Bytes from one row to the next.
    pub(super) stride: u32,
    /// Bytes of a row that hold samples.
    pub(super) row_bytes: u32,
    /// Rows.
    pub(super) rows: u32,
}

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DetectPush {
    /// The planes of the frame.
    pub(super) planes: [PlanePlace; 3],
    /// Columns and rows of the tile grid.
    pub(super) grid: [u32; 2],
    /// Range of tiles that are ingested in any case: the first, and the end.
    pub(super) refreshed: [u32; 2],
    /// A tile is ingested if a sample differs by more.
    pub(super) threshold: u32,
}

/// Compares frames with the resident copy, which it owns.
#[derive(Debug)]
pub(super) struct DetectPass {
    pass: ComputePass,
    push: DetectPush,
    /// A record for each tile of the grid.
    resident: Buffer,
    /// The largest difference of each tile, a word each.
    largest: Buffer,
    ingested: TileList,
    /// A bit for each tile of the grid.
    bits: Buffer,
    differences: Vec<u8>,
}

impl DetectPass {
    /// The pass for frames of `kind`, and memory for their resident copy.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device refuses.
    pub(super) fn new(gpu: &Arc<Gpu>, kind: FrameKind) -> Result<Self, GpuError> {
        let desc = ComputePassDesc {
            name: "detect",
            shader: shaders::DETECT,
            bindings: &[BindingKind::Buffer; 5],
            constants: &constants(kind),
            push_bytes: size_of::<DetectPush>(),
        };
        let grid = kind.extent.in_cells(TILE_SIDE);
        let tile_count = grid.area();
        let buffer = |name, kind, size| Buffer::new(gpu, name, kind, size);
        let resident_size = tile_count * record_bytes(kind.format);
        let bits_size = tile_count.div_ceil(8).next_multiple_of(WORD_BYTES);
        Ok(Self {
            pass: ComputePass::new(gpu, &desc)?,
            push: DetectPush { grid: [grid.width, grid.height], ..DetectPush::zeroed() },
            resident: buffer("resident copy", BufferKind::DeviceOnly, resident_size)?,
            largest: buffer("differences", BufferKind::Readback, tile_count * WORD_BYTES)?,
            ingested: tile_list(gpu, kind.extent, 1)?,
            bits: buffer("ingested tiles", BufferKind::HostWritten, bits_size)?,
            differences: vec![0; tile_count],
        })
    }

    /// Prepares for a frame with these planes, whose tiles are ingested by `rule`.
    pub(super) fn prepare(&mut self, planes: [PlanePlace; 3], rule: &IngestRule) {
        let all = 0..self.differences.len();
        let refreshed = if rule.is_first { &all } else { &rule.refreshed };
        self.push = DetectPush {
            planes,
            refreshed: [refreshed.start, refreshed.end].map(count),
            threshold: rule.threshold.into(),
            ..self.push
        };
        self.ingested.leave_to_device();
        self.bits.mapped::<u8>().fill(0);
    }

    /// Compares `frame`, copies the tiles to ingest into the resident copy, and lists them.
    pub(super) fn record<'a>(&'a self, recorder: &mut Recorder<'a>, frame: &'a Buffer) {
        let bindings = [
            Binding::Read(frame),
            Binding::Update(&self.resident),
            Binding::Write(&self.largest),
            Binding::Update(self.ingested.buffer()),
            Binding::Update(&self.bits),
        ];
        recorder.dispatch(&self.pass, &bindings, &self.push, count(self.differences.len()));
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.pass)
    }

    /// The largest difference of each tile.
    #[expect(clippy::cast_possible_truncation, reason = "the difference of two samples of 8 bits")]
    pub(super) fn collect(&mut self) -> &[u8] {
        let largest = self.largest.mapped::<u32>();
        for (difference, largest) in self.differences.iter_mut().zip(largest) {
            *difference = *largest as u8;
        }
        &self.differences
    }

    /// The resident copy.
    pub(super) fn resident(&self) -> &Buffer {
        &self.resident
    }

    /// The tiles that are ingested, as a list.
    pub(super) fn ingested(&self) -> &TileList {
        &self.ingested
    }

    /// The tiles that are ingested, as bits.
    pub(super) fn bits(&self) -> &Buffer {
        &self.bits
    }
}

/// The specialization constants for frames of `kind`.
fn constants(kind: FrameKind) -> [u32; 9] {
    let FrameKind { format, extent, .. } = kind;
    let shapes = std::array::from_fn::<_, 3, _>(|index| {
        (index < format.plane_count()).then(|| format.plane_shape(index, TILE_EXTENT))
    });
    let [words_0, words_1, words_2] =
        shapes.map(|shape| shape.map_or(0, |shape| shape.row_bytes / count(WORD_BYTES)));
    let [rows_0, rows_1, rows_2] = shapes.map(|shape| shape.map_or(0, |shape| shape.rows));
    // The fourth byte of a pixel is padding, as is the second luma of the last pair of an odd row.
    let sample_mask = if format.has_fourth_byte() { 0x00FF_FFFF } else { u32::MAX };
    let is_odd = !extent.width.is_multiple_of(2);
    let row_end_mask = if format == PixelFormat::Yuy2 && is_odd { 0xFF00_FFFF } else { u32::MAX };
    [words_0, words_1, words_2, rows_0, rows_1, rows_2, sample_mask, row_end_mask, GROUPS_PER_ROW]
}
