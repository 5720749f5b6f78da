//! Sixteen-bit gray on the streaming thread: as 8 bits, before anything reads or fills a frame.

use std::sync::Arc;

use foveate_core::depth::{DepthFormat, DepthView};
use foveate_core::frame::Plane;
use foveate_core::gray::{GrayRange, GrayScale, GrayScaling};
use foveate_source::pool::Pool;
use gstreamer as gst;
use gstreamer_video as gst_video;

use super::caps::FrameFormat;
use super::frame::{PlaneLayout, RefusedBuffer, layout};
use super::masking::Copies;

/// The 16-bit gray that a frame format had before it was scaled.
#[derive(Clone, Debug)]
pub(super) struct WideGray {
    /// Byte order of the samples; never floats.
    pub(super) samples: DepthFormat,
    /// Memory layout of a buffer without VideoMeta.
    pub(super) info: gst_video::VideoInfo,
}

/// Scales the buffers of a source's pipelines, all with one range.
#[derive(Debug)]
pub(super) struct Scaler {
    stream: String,
    scaling: Option<GrayScaling>,
    /// Chosen with the first buffer.
    scale: Option<GrayScale>,
    buffers: Copies,
}

impl Scaler {
    pub(super) fn new(stream: &str, scaling: Option<GrayScaling>, pool: Option<Arc<Pool>>) -> Self {
        let buffers = Copies::new(pool);
        Self { stream: stream.to_owned(), scaling, scale: None, buffers }
    }

    /// Whether somebody has chosen which samples are black and white.
    pub(super) fn is_chosen(&self) -> bool {
        self.scaling.is_some()
    }

    /// The samples that become 0 and 255; `None` before the first buffer of 16 bits.
    pub(super) fn range(&self) -> Option<GrayRange> {
        self.scale.as_ref().map(|scale| scale.range)
    }

    /// Replaces `buffer` by one of the same picture in `GRAY8`, if it is `wide`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or there is no memory. The buffer must not be shown.
    pub(super) fn apply(
        &mut self,
        buffer: &mut gst::Buffer,
        format: &FrameFormat,
    ) -> Result<(), RefusedBuffer> {
        let (Some(wide), Some(narrow)) = (&format.wide, &format.info) else { return Ok(()) };
        let [PlaneLayout { offset, stride }, ..] = match buffer.meta::<gst_video::VideoMeta>() {
            Some(meta) => layout(meta.offset(), meta.stride())?,
            None => layout(wide.info.offset(), wide.info.stride())?,
        };
        let memory = buffer.map_readable().map_err(|_| RefusedBuffer::NotMapped)?;
        let plane = Plane { bytes: memory.get(offset..).unwrap_or_default(), stride };
        DepthView::new(wide.samples, format.extent, plane)?;
        let [width, rows] = [format.extent.width, format.extent.height].map(|side| side as usize);
        let row = |y: usize| plane.row(y, width * 2).as_chunks::<2>().0;
        let sample = |pair: &[u8; 2]| match wide.samples {
            DepthFormat::Gray16Be => u16::from_be_bytes(*pair),
            _ => u16::from_le_bytes(*pair),
        };
        if self.scale.is_none() {
            let scale = GrayScale::new(self.scaling, (0..rows).flat_map(row).map(sample));
            let (stream, gray_range) = (&self.stream, scale.range);
            match scale.loss {
                Some(loss) => tracing::warn!(stream, %gray_range, "{loss}"),
                None => tracing::info!(stream, %gray_range, "16-bit gray is scaled to 8 bits"),
            }
            self.scale = Some(scale);
        }
        let Self { scale: Some(scale), buffers, .. } = self else { unreachable!("just chosen") };
        let scaled = buffers.described_as(buffer, narrow.size());
        let mut scaled = scaled.map_err(|_| RefusedBuffer::NoMemory)?;
        let target = scaled.get_mut().ok_or(RefusedBuffer::NotWritable)?;
        let mut bytes = target.map_writable().map_err(|_| RefusedBuffer::NotWritable)?;
        let [PlaneLayout { offset, stride }, ..] = layout(narrow.offset(), narrow.stride())?;
        for (y, levels) in bytes[offset..].chunks_mut(stride).take(rows).enumerate() {
            for (level, pair) in levels.iter_mut().zip(row(y)) {
                *level = scale.level(sample(pair));
            }
        }
        drop(bytes);
        drop(memory);
        *buffer = scaled;
        Ok(())
    }
}
