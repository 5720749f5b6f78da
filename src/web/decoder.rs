//! Decodes token frames for pages, back to 8-bit texels.

use foveate_core::geometry::extent::Extent;
use foveate_core::token::TokenFormat;
use foveate_ring::{FrameHead, SegmentInfo, TokenFrameBuf, TokenRecord};

/// A token frame with 8-bit texels.
#[derive(Debug)]
pub(super) struct DecodedFrame {
    pub(super) epoch: u64,
    /// Width and height of the source in pixels.
    pub(super) extent: Extent,
    /// P: side of a token in texels.
    pub(super) patch_side: u32,
    /// Most tokens of a frame.
    pub(super) capacity: usize,
    pub(super) head: FrameHead,
    /// One for each token.
    pub(super) records: Vec<TokenRecord>,
    /// `[records.len(), 3, P, P]`, 0..=255.
    pub(super) pixels: Vec<u8>,
}

impl DecodedFrame {
    /// Bytes of one token of [`DecodedFrame::pixels`].
    pub(super) fn token_bytes(&self) -> usize {
        3 * (self.patch_side * self.patch_side) as usize
    }
}

/// Decodes the frames of one segment.
#[derive(Debug)]
pub(super) struct Decoder {
    epoch: u64,
    extent: Extent,
    capacity: usize,
    format: TokenFormat,
    values: Values,
}

/// How stored values become 8-bit texels.
#[derive(Debug)]
enum Values {
    Same,
    /// For each of R, G and B, indexed by the 16 bits of the value.
    Table(Box<[Vec<u8>; 3]>),
    /// 32-bit values, too many for a table.
    Computed,
}

impl Decoder {
    pub(super) fn new(segment: &SegmentInfo) -> Self {
        let format = segment.format;
        let values = match format.dtype.bytes() {
            1 => Values::Same,
            2 => Values::Table(Box::new([0, 1, 2].map(|channel| {
                (0..=u16::MAX)
                    .map(|bits| format.denormalised(channel, &bits.to_le_bytes()))
                    .collect()
            }))),
            _ => Values::Computed,
        };
        let SegmentInfo { epoch, extent, capacity, .. } = *segment;
        Self { epoch, extent, capacity, format, values }
    }

    pub(super) fn decode(&self, frame: &TokenFrameBuf) -> DecodedFrame {
        DecodedFrame {
            epoch: self.epoch,
            extent: self.extent,
            patch_side: self.format.patch_side,
            capacity: self.capacity,
            head: frame.head.clone(),
            records: frame.records.clone(),
            pixels: self.pixels(&frame.pixels),
        }
    }

    fn pixels(&self, bytes: &[u8]) -> Vec<u8> {
        let side = self.format.patch_side as usize;
        let texel_bytes = self.format.dtype.bytes();
        let mut pixels = Vec::with_capacity(bytes.len() / texel_bytes);
        let planes = bytes.chunks_exact(side * side * texel_bytes).zip([0, 1, 2].iter().cycle());
        for (plane, &channel) in planes {
            match &self.values {
                Values::Same => pixels.extend_from_slice(plane),
                Values::Table(tables) => {
                    let texels = plane.chunks_exact(2);
                    let bits = texels.map(|two| usize::from(u16::from_le_bytes([two[0], two[1]])));
                    pixels.extend(bits.map(|bits| tables[channel][bits]));
                }
                Values::Computed => {
                    let texels = plane.chunks_exact(texel_bytes);
                    pixels.extend(texels.map(|texel| self.format.denormalised(channel, texel)));
                }
            }
        }
        pixels
    }
}
