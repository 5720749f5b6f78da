//! Frames of a measurement, all in memory before it starts, each in its own buffer.

use std::path::Path;

use crate::ToolError;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane, PlaneShape};
use foveate_core::geometry::extent::Extent;
use foveate_engine::aligned::AlignedBytes;

/// Memory limit for frames.
const CLIP_BYTES_MAX: usize = 1 << 30;

/// At least two frames of one kind.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    kind: FrameKind,
    /// Consecutive planes, rows without padding. Drivers of cameras and most decoders align them, too.
    buffers: Vec<AlignedBytes>,
}

impl Frames {
    /// Frames of [`frame_bytes`] each, at least one. A single frame is duplicated, so that no frame has the address of the
    /// previous one.
    pub(super) fn new(kind: FrameKind, buffers: Vec<Vec<u8>>) -> Self {
        assert!(buffers.iter().all(|buffer| buffer.len() == frame_bytes(kind)), "whole frames");
        let buffers = buffers.into_iter().map(|buffer| AlignedBytes::from(buffer.as_slice()));
        let mut buffers: Vec<_> = buffers.collect();
        if let [only] = buffers.as_slice() {
            buffers.push(only.clone());
        }
        assert!(2 <= buffers.len(), "nothing to play");
        Self { kind, buffers }
    }

    pub(super) fn kind(&self) -> FrameKind {
        self.kind
    }

    pub(super) fn buffers(&self) -> &[AlignedBytes] {
        &self.buffers
    }

    /// The frame at `position` of the playback, which runs forward and backward in turn, so that successive frames are always
    /// neighbours in the clip.
    pub(super) fn index_at(&self, position: usize) -> usize {
        let last = self.buffers.len() - 1;
        let step = position % (2 * last);
        step.min(2 * last - step)
    }

    pub(super) fn view(&self, index: usize) -> FrameView<'_> {
        let FrameKind { format, extent, color } = self.kind;
        let mut rest: &[u8] = &self.buffers[index];
        let planes: Vec<Plane<'_>> = (0..format.plane_count())
            .map(|plane| {
                let PlaneShape { row_bytes, rows } = format.plane_shape(plane, extent);
                let (bytes, behind) = rest.split_at(row_bytes as usize * rows as usize);
                rest = behind;
                Plane { bytes, stride: row_bytes as usize }
            })
            .collect();
        FrameView::new(format, extent, color, &planes).expect("buffers hold whole frames")
    }
}

/// Bytes of all samples of a frame.
pub(super) fn frame_bytes(FrameKind { format, extent, .. }: FrameKind) -> usize {
    let plane_bytes = |plane| {
        let PlaneShape { row_bytes, rows } = format.plane_shape(plane, extent);
        row_bytes as usize * rows as usize
    };
    (0..format.plane_count()).map(plane_bytes).sum()
}

/// Frames without colorimetry: BT.601 in limited range, as OpenCV's `cvtColor` assumes; RGB unchanged, gray in full range. The
/// measurement does not depend on it.
pub(super) fn kind_of(format: PixelFormat, extent: Extent) -> FrameKind {
    let color = if format.is_rgb() {
        ColorTransform::IDENTITY
    } else if format == PixelFormat::Gray8 {
        ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Full)
    } else {
        ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Limited)
    };
    FrameKind { format, extent, color }
}

/// Most frames that fit into the memory limit, but at least 2.
pub(super) fn most_frames(kind: FrameKind, asked: usize) -> usize {
    asked.min((CLIP_BYTES_MAX / frame_bytes(kind)).max(2))
}

/// Fails without a frame.
pub(super) fn played(
    path: &Path,
    kind: FrameKind,
    buffers: Vec<Vec<u8>>,
) -> Result<Frames, ToolError> {
    if buffers.is_empty() {
        return Err(broken(path, "no frames"));
    }
    Ok(Frames::new(kind, buffers))
}

pub(super) fn broken(path: &Path, problem: &str) -> ToolError {
    ToolError::Clip(format!("{}: {problem}", path.display()))
}
