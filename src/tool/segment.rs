//! The segment header as JSON, for `watch --json` and for `segments.json` of `extract`.

use serde::Serialize;

use foveate_core::backend::BackendKind;
use foveate_core::color::Colorimetry;
#[cfg(feature = "gst")]
use foveate_core::gray::GrayRange;
use foveate_core::pixel::PixelFacts;
use foveate_core::token::{DType, Outside, Rounding, TokenFormat};
use foveate_ring::{ChannelFacts, PlaneInfo, SegmentInfo, abi};

/// The segment header without its epoch, which differs from run to run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SegmentFacts {
    abi: [u32; 2],
    stream: String,
    view: String,
    layout: String,
    patch_side: u32,
    dtype: DType,
    mean: [f64; 3],
    std: [f64; 3],
    outside: Outside,
    rounding: Rounding,
    capacity: usize,
    grid: Option<[u32; 2]>,
    foveae: usize,
    source_width: u32,
    source_height: u32,
    pixel_format: String,
    /// Width and height of a pixel as it is meant to be shown.
    pixel_aspect: [u32; 2],
    /// `null` if it is not known.
    color: Option<Colorimetry>,
    /// The samples of 16-bit gray that became black and white; only in `segments.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    gray_range: Option<[u16; 2]>,
    backend: BackendKind,
    device: String,
    slot_count: usize,
    total_bytes: usize,
    planes: Vec<PlaneFacts>,
    channels: Option<ChannelNames>,
}

/// What the items of the plane of channels are.
#[derive(Clone, Debug, Serialize)]
struct ChannelNames {
    /// Side of a cell in pixels.
    cell: u32,
    names: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct PlaneFacts {
    name: String,
    order: String,
    dtype: DType,
    shape: Vec<u32>,
    offset: usize,
    token_stride: usize,
    bytes: usize,
}

#[cfg(feature = "gst")]
impl SegmentFacts {
    /// Adds the scaling of 16-bit gray.
    pub(super) fn with_gray_range(self, range: Option<GrayRange>) -> Self {
        Self { gray_range: range.map(GrayRange::bounds), ..self }
    }
}

impl From<&SegmentInfo> for SegmentFacts {
    fn from(segment: &SegmentInfo) -> Self {
        let SegmentInfo { abi_minor, total_bytes, spec: segment, .. } = segment.clone();
        let TokenFormat { patch_side, dtype, normalisation, outside, rounding } = segment.format;
        // A segment has no place for the range of gray.
        let PixelFacts { pixel_aspect, color, gray_range: _ } = segment.picture;
        Self {
            abi: [abi::ABI_MAJOR, abi_minor],
            stream: segment.stream,
            view: segment.view,
            layout: segment.layout,
            patch_side,
            dtype,
            mean: normalisation.mean,
            std: normalisation.std,
            outside,
            rounding,
            capacity: segment.capacity,
            grid: segment.grid.map(|grid| [grid.width, grid.height]),
            foveae: segment.foveae,
            source_width: segment.extent.width,
            source_height: segment.extent.height,
            pixel_format: segment.pixel_format,
            pixel_aspect: [pixel_aspect.width, pixel_aspect.height],
            color,
            gray_range: None,
            backend: segment.backend,
            device: segment.device,
            slot_count: segment.slot_count,
            total_bytes,
            planes: segment.planes.into_iter().map(PlaneFacts::from).collect(),
            channels: segment
                .channels
                .map(|ChannelFacts { cell_side, names }| ChannelNames { cell: cell_side, names }),
        }
    }
}

impl From<PlaneInfo> for PlaneFacts {
    fn from(plane: PlaneInfo) -> Self {
        let PlaneInfo { name, order, dtype, shape, offset, token_stride, bytes } = plane;
        Self { name, order, dtype, shape, offset, token_stride, bytes }
    }
}
