//! Token frames in memory. Tokens that a frame shares with the one before are stored once, so a still stream costs 8 bytes a token and
//! frame, and every frame can be read without its predecessors. Numbers that are 8-bit values, normalised, are stored as these.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decoder::DecodedFrame;
use foveate_ring::{FrameHead, HeaderPage, SegmentInfo, SegmentSpec, TokenFrameBuf, TokenRecord};

/// Bytes that stored frames take, also those that only a paused page still holds.
#[derive(Debug, Default)]
pub(in crate::history) struct Ledger(AtomicUsize);

impl Ledger {
    pub(in crate::history) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts bytes while it exists.
#[derive(Debug)]
struct LedgerEntry {
    ledger: Arc<Ledger>,
    bytes: usize,
}

impl LedgerEntry {
    fn new(ledger: &Arc<Ledger>, bytes: usize) -> Self {
        ledger.0.fetch_add(bytes, Ordering::Relaxed);
        Self { ledger: Arc::clone(ledger), bytes }
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        self.ledger.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The segment that frames are of.
#[derive(Debug)]
pub struct FrameSegment {
    /// Header page of the segment.
    pub page: Box<HeaderPage>,
    /// The header page, parsed.
    pub info: SegmentInfo,
}

/// Bytes that frames share.
#[derive(Debug)]
struct Blob {
    bytes: Box<[u8]>,
    _entry: LedgerEntry,
}

impl Blob {
    fn new(ledger: &Arc<Ledger>, bytes: Vec<u8>) -> Arc<Self> {
        let size = size_of::<Self>() + bytes.len();
        Arc::new(Self { bytes: bytes.into(), _entry: LedgerEntry::new(ledger, size) })
    }

    /// `present` if it has these bytes, or a new one.
    fn shared(ledger: &Arc<Ledger>, bytes: &[u8], present: Option<&Arc<Self>>) -> Arc<Self> {
        match present {
            Some(present) if *present.bytes == *bytes => Arc::clone(present),
            _ => Self::new(ledger, bytes.to_vec()),
        }
    }
}

#[derive(Debug)]
struct StoredToken {
    record: TokenRecord,
    /// A byte for each texel that [`TokenFormat::table`] makes the number of; the numbers as they are if a token has others.
    texels: Arc<Blob>,
    /// Items of the token in the other planes, in the order of the planes.
    items: Arc<Blob>,
    _entry: LedgerEntry,
}

/// A token frame that shares memory with others.
#[derive(Debug)]
pub(crate) struct StoredFrame {
    pub(crate) segment: Arc<FrameSegment>,
    pub(crate) arrival: Arrival,
    pub(crate) head: FrameHead,
    tokens: Box<[Arc<StoredToken>]>,
    /// The planes after the pixels whose items are not the tokens; `None` for the others.
    planes: Box<[Option<Arc<Blob>>]>,
    _entry: LedgerEntry,
}

type Place = (i32, i32, u16, u16, u8, u8);

fn place(record: &TokenRecord) -> Place {
    let TokenRecord { x, y, sx, sy, extra_width, extra_height, .. } = *record;
    (x, y, sx, sy, extra_width, extra_height)
}

/// When a frame of a view came, and after how many others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// In milliseconds since 1970.
    pub(crate) at_ms: f64,
    /// On CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) arrived_ns: u64,
    /// Frames that had come before.
    pub(crate) serial: u64,
    /// Frames until then that were overwritten, or skipped for a newer one.
    pub(crate) missed: u64,
}

impl Arrival {
    /// Frames that came between `before` and this one.
    pub(crate) fn left_out_since(&self, before: &Self) -> u64 {
        self.serial - before.serial - 1
    }
}

impl StoredFrame {
    /// Stores `frame`, which `decoded` has decoded, and shares what it has in common with `before`.
    pub(in crate::history) fn new(
        ledger: &Arc<Ledger>,
        segment: &Arc<FrameSegment>,
        (frame, decoded): (&TokenFrameBuf, &DecodedFrame),
        arrival: Arrival,
        before: Option<&Self>,
    ) -> Self {
        let others = &segment.info.planes[1..];
        let before = before.filter(|before| before.segment.info.epoch == segment.info.epoch);
        let mut earlier = EarlierTokens { frame: before, by_place: None };
        let (token_bytes, texel_count) = (segment.info.format.token_bytes(), decoded.token_bytes());
        let mut items = Vec::new();
        let tokens: Box<[_]> = (frame.records.iter().enumerate())
            .map(|(index, record)| {
                let texels = if decoded.is_exact[index] {
                    &decoded.pixels[index * texel_count..][..texel_count]
                } else {
                    &frame.pixels[index * token_bytes..][..token_bytes]
                };
                items.clear();
                for (plane, bytes) in others.iter().zip(&frame.planes) {
                    if plane.is_of_tokens() {
                        let stride = plane.token_stride;
                        items.extend_from_slice(&bytes[index * stride..][..stride]);
                    }
                }
                let present = earlier.at(index, record);
                let shared = |blob: fn(&StoredToken) -> &Arc<Blob>, bytes: &[u8]| {
                    Blob::shared(ledger, bytes, present.map(|token| blob(token)))
                };
                let (texels, items) =
                    (shared(|token| &token.texels, texels), shared(|token| &token.items, &items));
                match present {
                    Some(token)
                        if token.record == *record
                            && Arc::ptr_eq(&token.texels, &texels)
                            && Arc::ptr_eq(&token.items, &items) =>
                    {
                        Arc::clone(token)
                    }
                    _ => Arc::new(StoredToken {
                        record: *record,
                        texels,
                        items,
                        _entry: LedgerEntry::new(ledger, size_of::<StoredToken>()),
                    }),
                }
            })
            .collect();
        let planes: Box<[_]> = (others.iter().zip(&frame.planes).enumerate())
            .map(|(index, (plane, bytes))| {
                let present = before.and_then(|before| before.planes.get(index)?.as_ref());
                (!plane.is_of_tokens()).then(|| Blob::shared(ledger, bytes, present))
            })
            .collect();
        let bytes = size_of::<Self>() + size_of_val(&*tokens) + size_of_val(&*planes);
        Self {
            segment: Arc::clone(segment),
            arrival,
            head: frame.head.clone(),
            tokens,
            planes,
            _entry: LedgerEntry::new(ledger, bytes),
        }
    }

    /// The frame as it was read from the ring.
    pub(crate) fn to_buf(&self) -> TokenFrameBuf {
        let SegmentSpec { planes, format, .. } = &self.segment.info.spec;
        let others = &planes[1..];
        let (token_bytes, table) = (format.token_bytes(), format.table());
        let mut pixels = Vec::with_capacity(self.tokens.len() * token_bytes);
        let mut planes: Vec<Vec<u8>> = (self.planes.iter())
            .map(|blob| blob.as_ref().map_or_else(Vec::new, |blob| blob.bytes.to_vec()))
            .collect();
        for token in &self.tokens {
            let texels = &*token.texels.bytes;
            if texels.len() == token_bytes {
                pixels.extend_from_slice(texels);
            } else {
                for (plane, encoded) in texels.chunks_exact(texels.len() / 3).zip(&table) {
                    let numbers = plane.iter().map(|texel| encoded[usize::from(*texel)]);
                    numbers.for_each(|number| {
                        pixels.extend_from_slice(&number.to_le_bytes()[..format.dtype.bytes()]);
                    });
                }
            }
            let mut items = &*token.items.bytes;
            for (plane, target) in others.iter().zip(&mut planes) {
                if plane.is_of_tokens() {
                    let (item, rest) = items.split_at(plane.token_stride);
                    target.extend_from_slice(item);
                    items = rest;
                }
            }
        }
        TokenFrameBuf {
            head: self.head.clone(),
            records: self.tokens.iter().map(|token| token.record).collect(),
            pixels,
            planes,
        }
    }
}

/// The tokens of the frame before.
struct EarlierTokens<'a> {
    frame: Option<&'a StoredFrame>,
    /// Indices of the tokens by place; made when a token has another index than in the frame before.
    by_place: Option<HashMap<Place, usize>>,
}

impl<'a> EarlierTokens<'a> {
    /// The token at the place of `record`, which is token `index` of the present frame.
    fn at(&mut self, index: usize, record: &TokenRecord) -> Option<&'a Arc<StoredToken>> {
        let tokens = &self.frame?.tokens;
        let wanted = place(record);
        if let Some(token) = tokens.get(index).filter(|token| place(&token.record) == wanted) {
            return Some(token);
        }
        let by_place = self.by_place.get_or_insert_with(|| {
            let places = tokens.iter().enumerate();
            places.map(|(index, token)| (place(&token.record), index)).collect()
        });
        by_place.get(&wanted).map(|index| &tokens[*index])
    }
}
