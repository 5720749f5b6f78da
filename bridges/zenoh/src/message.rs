//! The message of a frame: whole, or what differs from the message before.
//!
//! Little-endian, without gaps. A *whole* message stands for itself. Any other says what differs from the message before, its *base*,
//! and is of no use to a reader without it.
//!
//! | Offset | Bytes | Field | Type | Meaning |
//! | ---: | ---: | --- | --- | --- |
//! | 0 | 4 | `magic` | `[u8; 4]` | `FVZ1`; the digit is the version |
//! | 4 | 4 | `flags` | u32 | bit 0: whole |
//! | 8 | 8 | `run` | u64 | identity of the bridge's run: greater than that of any run before on that machine (ns since 1970 when it started) |
//! | 16 | 8 | `sequence` | u64 | counts the frames of the view in this run, from 1 |
//! | 24 | 8 | `base` | u64 | `sequence` of the message that this one differs from, of the same run and epoch; 0 in a whole one |
//! | 32 | 8 | `epoch` | u64 | that of the segment |
//! | 40 | 4 | `token_count` | u32 | tokens of the frame |
//! | 44 | 4 | `record_count` | u32 | token records that follow; in a whole message `token_count` |
//! | 48 | 4 | `texel_count` | u32 | tokens whose texels follow; in a whole message `token_count` |
//! | 52 | 4 | `planes` | u32 | bit i: items of plane i of the segment's table follow; bit 0 is always set, and in a whole message all are |
//! | 56 | 8 | `reserved` | u64 | 0 |
//!
//! Then come, each only where stated:
//!
//! | Bytes | In | What |
//! | --- | --- | --- |
//! | 4096 | whole | the first 4,096 bytes of the segment (the ABI), with zeros for its LiveBlock |
//! | 512 | all | the SlotHeader of the frame |
//! | 4 × `token_count` | not whole | the *origin* of each token, below |
//! | 56 × `record_count` | all | token records, in the order of the tokens |
//! | stride × `texel_count` | all | texels, in the order of the tokens; the stride is `token_stride` of the segment's first plane |
//! | | all | the items of each further plane whose bit is set, in the order of the table, all of them; the others are, byte for byte, those of the base |
//!
//! An origin is a u32. Its lower 31 bits are the index of the token, among those of the base, that has the same texels, or 0x7FFFFFFF:
//! the texels follow. Bit 31 says that the record follows; else it is, byte for byte, that of the base's token.
//!
//! Texels are left out where place and `changed_frame` are those of a token of the base: they are the same bytes.

use std::collections::HashMap;

use foveate_ring::abi::{SlotHeader, TokenRecord};
use foveate_ring::{Reader, TokenFrameBuf};

/// First bytes of a message; the digit is the version.
pub const MAGIC: [u8; 4] = *b"FVZ1";

/// Bytes before the description or the header of the slot.
pub const HEAD_BYTES: usize = 64;

/// Bit of the flags: it holds the whole frame and the description of the segment.
pub const FLAG_WHOLE: u32 = 1;

/// Bit of a token's origin: its record follows. Otherwise it is that of the token in the message before.
pub const NEW_RECORD: u32 = 1 << 31;

/// Origin of a token whose texels follow, without [`NEW_RECORD`].
pub const NEW_TEXELS: u32 = NEW_RECORD - 1;

/// A message, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The payload.
    pub bytes: Vec<u8>,
    /// Whether the message holds the whole frame.
    pub is_whole: bool,
    /// Tokens whose texels are in the message.
    pub texels: usize,
}

/// Makes the messages of a view, one for each frame.
#[derive(Debug)]
pub struct Encoder {
    /// Identity of this run of the bridge.
    run: u64,
    /// Number of the newest message, from 1; 0 before the first.
    sequence: u64,
    segment: Option<Segment>,
    /// The frame of the newest message.
    newest: TokenFrameBuf,
}

/// The segment that the newest message belongs to.
#[derive(Debug)]
struct Segment {
    epoch: u64,
    description: Vec<u8>,
    /// Size of the texels of a token.
    token_bytes: usize,
    /// Whether a frame of the segment was sent.
    is_begun: bool,
}

impl Encoder {
    /// For the run of a bridge that is called `run`, a number that no other run has.
    pub fn new(run: u64) -> Self {
        Self { run, sequence: 0, segment: None, newest: TokenFrameBuf::default() }
    }

    /// Goes on with the frames of the segment of `reader`.
    pub fn enter(&mut self, reader: &Reader) {
        let info = reader.header();
        if self.segment.as_ref().is_some_and(|segment| segment.epoch == info.epoch) {
            return;
        }
        self.segment = Some(Segment {
            epoch: info.epoch,
            description: reader.header_page().to_vec(),
            token_bytes: info.format.token_bytes(),
            is_begun: false,
        });
    }

    /// Takes `frame`, in exchange for one that is no longer needed, as the next in order, and makes its message if `is_wanted`.
    ///
    /// The message is whole if `is_whole`, if it is the first of its segment, or if no token has stayed as it was.
    pub fn encode(
        &mut self,
        frame: &mut TokenFrameBuf,
        is_wanted: bool,
        is_whole: bool,
    ) -> Option<Message> {
        let segment = self.segment.as_mut()?;
        self.sequence += 1;
        std::mem::swap(frame, &mut self.newest);
        let is_first = !std::mem::replace(&mut segment.is_begun, true);
        if !is_wanted {
            return None;
        }
        if is_whole || is_first {
            return self.whole();
        }
        self.difference(frame).or_else(|| self.whole())
    }

    /// Tokens of the newest frame.
    pub fn token_count(&self) -> usize {
        self.newest.records.len()
    }

    /// The newest message as a whole one; `None` before the first.
    pub fn whole(&self) -> Option<Message> {
        let segment = self.segment.as_ref().filter(|segment| segment.is_begun)?;
        let TokenFrameBuf { records, pixels, planes, .. } = &self.newest;
        let texels = records.len();
        let every_plane = (1 << (1 + planes.len())) - 1;
        let mut bytes = self.head(segment, FLAG_WHOLE, 0, [texels, texels, texels], every_plane);
        bytes.extend_from_slice(&segment.description);
        bytes.extend_from_slice(bytemuck::bytes_of(&self.slot()));
        bytes.extend_from_slice(bytemuck::cast_slice(records));
        bytes.extend_from_slice(pixels);
        planes.iter().for_each(|plane| bytes.extend_from_slice(plane));
        Some(Message { bytes, is_whole: true, texels })
    }

    /// What differs between the newest frame and `before`; `None` if all tokens do.
    fn difference(&self, before: &TokenFrameBuf) -> Option<Message> {
        let segment = self.segment.as_ref()?;
        let TokenFrameBuf { records, pixels, planes, .. } = &self.newest;
        let places: HashMap<_, _> =
            (0..).zip(&before.records).map(|(index, record)| (place(record), index)).collect();
        let origins: Vec<u32> = records
            .iter()
            .map(|record| {
                let Some(&index) = places.get(&place(record)) else {
                    return NEW_RECORD | NEW_TEXELS;
                };
                let held = &before.records[index as usize];
                let is_new = bytemuck::bytes_of(held) != bytemuck::bytes_of(record);
                let texels =
                    if held.changed_frame == record.changed_frame { index } else { NEW_TEXELS };
                // Without an index there is no token to take the record from.
                if is_new || texels == NEW_TEXELS { NEW_RECORD | texels } else { texels }
            })
            .collect();
        let has_record = |origin: &u32| origin & NEW_RECORD != 0;
        let has_texels = |origin: &u32| origin & NEW_TEXELS == NEW_TEXELS;
        let record_count = origins.iter().filter(|origin| has_record(origin)).count();
        let texels = origins.iter().filter(|origin| has_texels(origin)).count();
        if texels == records.len() {
            return None;
        }
        let differs = |index: usize| before.planes.get(index) != planes.get(index);
        let plane_bits =
            (0..planes.len()).filter(|index| differs(*index)).fold(1, |bits, at| bits | 2 << at);

        let counts = [records.len(), record_count, texels];
        let mut bytes = self.head(segment, 0, self.sequence - 1, counts, plane_bits);
        bytes.extend_from_slice(bytemuck::bytes_of(&self.slot()));
        bytes.extend_from_slice(bytemuck::cast_slice(&origins));
        for (record, _) in records.iter().zip(&origins).filter(|(_, origin)| has_record(origin)) {
            bytes.extend_from_slice(bytemuck::bytes_of(record));
        }
        let tokens = pixels.chunks_exact(segment.token_bytes).zip(&origins);
        for (token, _) in tokens.filter(|(_, origin)| has_texels(origin)) {
            bytes.extend_from_slice(token);
        }
        for (_, plane) in planes.iter().enumerate().filter(|(index, _)| differs(*index)) {
            bytes.extend_from_slice(plane);
        }
        Some(Message { bytes, is_whole: false, texels })
    }

    fn slot(&self) -> SlotHeader {
        self.newest.head.to_slot(self.newest.records.len())
    }

    /// The first [`HEAD_BYTES`] of a message. `counts` are those of tokens, of records and of texels.
    fn head(
        &self,
        segment: &Segment,
        flags: u32,
        base: u64,
        counts: [usize; 3],
        planes: u32,
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&flags.to_le_bytes());
        for number in [self.run, self.sequence, base, segment.epoch] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for count in counts {
            let count = u32::try_from(count).expect("a segment has at most 2^24 tokens");
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes.extend_from_slice(&planes.to_le_bytes());
        bytes.resize(HEAD_BYTES, 0);
        bytes
    }
}

/// Tokens of one place, `changed_frame` and epoch have the same texels.
fn place(record: &TokenRecord) -> (i32, i32, [u16; 2], [u8; 2]) {
    let TokenRecord { x, y, sx, sy, extra_width, extra_height, .. } = *record;
    (x, y, [sx, sy], [extra_width, extra_height])
}
