//! Decodes token frames for pages, back to 8-bit texels.

use std::sync::Arc;

use foveate_core::geometry::extent::Extent;
use foveate_core::plane::DEPTH;
use foveate_core::token::{DType, TokenFormat};
use foveate_ring::canvas::tile_frames;
use foveate_ring::picture::ChannelImage;
use foveate_ring::{FrameHead, PlaneInfo, SegmentInfo, TokenFrameBuf, TokenRecord};

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
    /// Record of each token.
    pub(super) records: Vec<TokenRecord>,
    /// `[records.len(), 3, P, P]`, 0..=255.
    pub(super) pixels: Vec<u8>,
    /// Whether the numbers of each token are those that [`TokenFormat::table`] has for its texels.
    pub(super) is_exact: Vec<bool>,
    /// The channels that the view publishes.
    pub(super) channels: Arc<Vec<DecodedChannel>>,
    /// The view's plane of depth, if it has one.
    pub(super) depth: Option<DepthPlane>,
    /// For each tile of the picture, the newest frame that changed it; `None` if the view does not publish tiles.
    pub(super) tile_frames: Option<Vec<u64>>,
}

/// Depth of each token, as it is in the segment.
#[derive(Debug)]
pub(super) struct DepthPlane {
    dtype: DType,
    /// Bytes from one token to the next.
    stride: usize,
    /// Numbers of each of nearest, mean and known share of a token.
    count: usize,
    bytes: Vec<u8>,
}

impl DepthPlane {
    fn of(frame: &TokenFrameBuf, segment: &SegmentInfo) -> Option<Self> {
        let index = segment.plane_index(DEPTH)?;
        let PlaneInfo { dtype, ref shape, token_stride, .. } = segment.planes[index];
        let count = shape.iter().skip(2).map(|side| *side as usize).product();
        Some(Self { dtype, stride: token_stride, count, bytes: frame.plane(index).to_vec() })
    }

    /// Nearest, mean and known share of each texel of token `index`, or of the whole token.
    pub(super) fn of_token(&self, index: usize) -> impl Iterator<Item = [f64; 3]> {
        let size = self.dtype.bytes();
        let needed = 3 * self.count * size;
        let token = self.bytes.get(index * self.stride..).filter(|bytes| needed <= bytes.len());
        token.into_iter().flat_map(move |token| {
            (0..self.count).map(move |texel| {
                [0, 1, 2]
                    .map(|part| self.dtype.number(&token[(part * self.count + texel) * size..]))
            })
        })
    }
}

/// A channel whose values are 0..=255, from the least to the greatest that it may have.
#[derive(Debug)]
pub(super) struct DecodedChannel {
    pub(super) name: String,
    /// Columns and rows of cells.
    pub(super) grid: Extent,
    /// Side of a cell in source pixels.
    pub(super) cell_side: u32,
    /// Row by row.
    pub(super) cells: Vec<u8>,
}

impl From<ChannelImage<'_>> for DecodedChannel {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of 255")]
    fn from(channel: ChannelImage<'_>) -> Self {
        let cells = channel.normalised().map(|share| (share * 255.0).round() as u8).collect();
        let ChannelImage { name, grid, cell_side, .. } = channel;
        Self { name: name.to_owned(), grid, cell_side, cells }
    }
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
    segment: SegmentInfo,
    /// The frame from which channels were decoded last, and these channels.
    channels: (u64, Arc<Vec<DecodedChannel>>),
    format: TokenFormat,
    values: Values,
}

/// Conversion of stored values to 8-bit texels.
#[derive(Debug)]
enum Values {
    Same,
    /// The texel for each value of 16 bits, for R, G and B, and whether the texel becomes that value again.
    Table(Box<[Vec<(u8, bool)>; 3]>),
    /// 32-bit values, too many for a table: the value that each texel becomes.
    Computed(Box<[[u32; 256]; 3]>),
}

impl Decoder {
    pub(super) fn new(segment: &SegmentInfo) -> Self {
        let format = segment.format;
        let encoded = format.table();
        let values = match format.dtype.bytes() {
            1 => Values::Same,
            2 => Values::Table(Box::new([0, 1, 2].map(|channel| {
                let texel = |bits: u16| {
                    let texel = format.denormalised(channel, &bits.to_le_bytes());
                    (texel, encoded[channel][usize::from(texel)] == u32::from(bits))
                };
                (0..=u16::MAX).map(texel).collect()
            }))),
            _ => Values::Computed(Box::new(encoded)),
        };
        Self { segment: segment.clone(), channels: (u64::MAX, Arc::default()), format, values }
    }

    /// Identity of the segment.
    pub(super) fn epoch(&self) -> u64 {
        self.segment.epoch
    }

    pub(super) fn decode(&mut self, frame: &TokenFrameBuf) -> DecodedFrame {
        if self.channels.0 != frame.head.channels_frame {
            let channels = frame.channels(&self.segment).map(DecodedChannel::from).collect();
            self.channels = (frame.head.channels_frame, Arc::new(channels));
        }
        let (pixels, is_exact) = self.pixels(&frame.pixels);
        DecodedFrame {
            epoch: self.segment.epoch,
            extent: self.segment.extent,
            patch_side: self.format.patch_side,
            capacity: self.segment.capacity,
            head: frame.head.clone(),
            records: frame.records.clone(),
            pixels,
            is_exact,
            channels: Arc::clone(&self.channels.1),
            depth: DepthPlane::of(frame, &self.segment),
            tile_frames: tile_frames(&self.segment, frame).map(Iterator::collect),
        }
    }

    /// The texels, and whether those of each token are exact.
    fn pixels(&self, bytes: &[u8]) -> (Vec<u8>, Vec<bool>) {
        let side = self.format.patch_side as usize;
        let texel_bytes = self.format.dtype.bytes();
        let plane_bytes = side * side * texel_bytes;
        let mut pixels = Vec::with_capacity(bytes.len() / texel_bytes);
        let tokens = bytes.chunks_exact(3 * plane_bytes).map(|token| {
            let mut is_exact = true;
            for (channel, plane) in token.chunks_exact(plane_bytes).enumerate() {
                let numbers = plane.chunks_exact(texel_bytes);
                match &self.values {
                    Values::Same => pixels.extend_from_slice(plane),
                    Values::Table(tables) => pixels.extend(numbers.map(|two| {
                        let bits = u16::from_le_bytes([two[0], two[1]]);
                        let (texel, is_same) = tables[channel][usize::from(bits)];
                        is_exact &= is_same;
                        texel
                    })),
                    Values::Computed(encoded) => pixels.extend(numbers.map(|number| {
                        let texel = self.format.denormalised(channel, number);
                        is_exact &= encoded[channel][usize::from(texel)].to_le_bytes() == *number;
                        texel
                    })),
                }
            }
            is_exact
        });
        let is_exact = tokens.collect();
        (pixels, is_exact)
    }
}
