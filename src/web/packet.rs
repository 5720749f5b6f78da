//! Binary packet of a frame for a page: all records, and the texels of the tokens that the page does not hold yet.
//!
//! `assets/wire.js` parses it; page and server come from one binary, so the format may change at any time.
//!
//! Little-endian. The header has 80 bytes:
//!
//! | Offset | Type | |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `FVW3` |
//! | 4 | u8 | picture: 0 the view, 1 the uniform one |
//! | 5 | u8 | 1 if the packet does not depend on held tokens; 2 more if the view is for a canvas |
//! | 6 | u16 | P, side of a token in texels, at most 1024 |
//! | 8 | u32 | serial number, to acknowledge |
//! | 12 | u32 | tokens |
//! | 16 | u32 | tokens whose texels follow |
//! | 20 | 2 u32 | width and height of the source in pixels, at most 16384 |
//! | 28 | 2 u32 | tiles that changed, and all tiles |
//! | 36 | u32 | fixations, 1 to 8 |
//! | 40 | u64 | `frame_seq` |
//! | 48 | u64 | ring sequence |
//! | 56 | u64 | age when it was sent, in nanoseconds |
//! | 64 | u64 | epoch |
//! | 72 | 2 u16 | columns and rows of the cells of the channel, at most 128; 0 without one |
//! | 76 | u32 | side of a cell in source pixels |
//!
//! Then for each fixation 20 bytes, each in the place that it keeps:
//!
//! | Offset | Type | |
//! | --- | --- | --- |
//! | 0 | u32 | id |
//! | 4 | 2 f64 | x and y, in source pixels |
//!
//! Then for each token 36 bytes:
//!
//! | Offset | Type | |
//! | --- | --- | --- |
//! | 0 | 2 i32 | x and y of its corner, in source pixels; may lie outside |
//! | 8 | 2 u16 | source pixels of a texel, along a row and down a column, rounded down |
//! | 12 | 4 u16 | first column and columns that are real, first row and rows |
//! | 20 | u16 | group: level, ring, window or block |
//! | 22 | 2 u8 | source pixels that the token is wider and higher than P such texels |
//! | 24 | f32 | relevance |
//! | 28 | u32 | frames since it changed |
//! | 32 | u32 | index among the tokens whose texels follow; 2^32 - 1 if the page holds it |
//!
//! Then the texels, `[3, P, P]` bytes for each token: the 8-bit values before normalisation. Then the cells of the channel, row by row: 0 to
//! 255 from the least to the greatest value that it may have. Then, if the view is for a canvas and the packet depends on held tokens, a bit
//! for each tile of 32x32 pixels, row by row, the lowest of a byte first: whether it has changed since the frame that the page holds. The
//! page ignores a packet with an impossible header or another length.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::decoder::{DecodedChannel, DecodedFrame};
use super::thumbnail::area;
use foveate_core::clock::monotonic_ns;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_ring::TokenRecord;

const MAGIC: [u8; 4] = *b"FVW3";

/// Bytes of the header, before the fixations.
const HEADER_BYTES: usize = 80;
const FIXATION_BYTES: usize = 20;
const RECORD_BYTES: usize = 36;

/// Texel index of a token that the page already holds.
const HELD: u32 = u32::MAX;

/// The packet that updates a page from `held` to `frame`, with the cells of `channel`. The page acknowledges it by `serial`.
///
/// Tokens of equal place, epoch and `changed_frame` have equal texels, and are not sent again while the page still shows them.
pub(super) fn packet(
    pane: u8,
    serial: u32,
    frame: &DecodedFrame,
    held: Option<&DecodedFrame>,
    channel: Option<&DecodedChannel>,
) -> Vec<u8> {
    let held = held.filter(|held| held.epoch == frame.epoch && can_follow(held, frame));
    let sent = held.map_or_else(|| vec![true; frame.records.len()], |held| to_send(held, frame));
    let sent_count = sent.iter().filter(|sent| **sent).count();

    let token_bytes = frame.token_bytes();
    let head_bytes = HEADER_BYTES + frame.head.fixations.len() * FIXATION_BYTES;
    let records_bytes = frame.records.len() * RECORD_BYTES;
    let cells = channel.map_or(&[][..], |channel| &channel.cells);
    let texels_bytes = sent_count * token_bytes;
    let mut bytes = Vec::with_capacity(head_bytes + records_bytes + texels_bytes + cells.len());
    let flags = u8::from(held.is_none()) | u8::from(frame.tile_frames.is_some()) << 1;
    put_header(&mut bytes, pane, serial, frame, sent_count, flags);
    put_grid(&mut bytes, channel);
    put_fixations(&mut bytes, &frame.head.fixations);
    let mut next = 0;
    for (record, sent) in frame.records.iter().zip(&sent) {
        put_record(&mut bytes, record, frame, if *sent { next } else { HELD });
        next += u32::from(*sent);
    }
    let tokens = frame.pixels.chunks_exact(token_bytes).zip(&sent);
    for (token, _) in tokens.filter(|(_, sent)| **sent) {
        bytes.extend_from_slice(token);
    }
    bytes.extend_from_slice(cells);
    if let Some((held, tile_frames)) = held.zip(frame.tile_frames.as_ref()) {
        let has_changed = |frame: &u64| held.head.stamp.frame_seq < *frame;
        let byte = |tiles: &[u64]| {
            tiles.iter().rev().fold(0, |bits, tile| bits << 1 | u8::from(has_changed(tile)))
        };
        bytes.extend(tile_frames.chunks(8).map(byte));
    }
    bytes
}

/// Whether a page that shows `held` can show `frame` by what has changed. Its canvas goes forwards alone.
fn can_follow(held: &DecodedFrame, frame: &DecodedFrame) -> bool {
    frame.tile_frames.is_none() || held.head.stamp.frame_seq <= frame.head.stamp.frame_seq
}

/// Which tokens of `frame` a page that shows `held` needs: those that it does not hold, and those that it no longer shows once these
/// are drawn.
fn to_send(held: &DecodedFrame, frame: &DecodedFrame) -> Vec<bool> {
    let places: HashMap<_, _> =
        held.records.iter().map(|record| (place(record), record.changed_frame)).collect();
    let is_new = |record: &TokenRecord| places.get(&place(record)) != Some(&record.changed_frame);
    let mut sent: Vec<bool> = frame.records.iter().map(is_new).collect();
    let whole = frame.extent.area() as u64;
    let covered = covered_pixels(frame);
    if covered < whole {
        // The page shows no pixels where a token has gone, so send all tokens.
        let is_moved = !are_in_place(held, frame);
        sent.iter_mut().for_each(|sent| *sent |= is_moved);
    } else if whole < covered.max(covered_pixels(held)) {
        send_overlapping(&mut sent, held, frame);
    }
    sent
}

/// Source pixels under all tokens, those under several counted as often.
fn covered_pixels(frame: &DecodedFrame) -> u64 {
    let area = |record: &TokenRecord| {
        u64::from(record.x1.saturating_sub(record.x0))
            * u64::from(record.y1.saturating_sub(record.y0))
    };
    frame.records.iter().map(area).sum()
}

fn are_in_place(held: &DecodedFrame, frame: &DecodedFrame) -> bool {
    held.records.iter().map(place).eq(frame.records.iter().map(place))
}

/// Adds the tokens over which a token of `held` lay that is gone, and those over which one is drawn that is sent.
fn send_overlapping(sent: &mut [bool], held: &DecodedFrame, frame: &DecodedFrame) {
    let places: HashSet<_> = frame.records.iter().map(place).collect();
    let gone = held.records.iter().filter(|record| !places.contains(&place(record)));
    let mut drawn: Vec<_> = gone.collect();
    let mut order: Vec<_> = (0..frame.records.len()).collect();
    // As the page draws them.
    order.sort_by_key(|index| Reverse(area(&frame.records[*index], frame.patch_side)));
    for index in order {
        let record = &frame.records[index];
        if !sent[index] {
            sent[index] = drawn.iter().any(|other| are_overlapping(record, other));
        }
        if sent[index] {
            drawn.push(record);
        }
    }
}

fn are_overlapping(one: &TokenRecord, other: &TokenRecord) -> bool {
    one.x0 < other.x1 && other.x0 < one.x1 && one.y0 < other.y1 && other.y0 < one.y1
}

fn place(record: &TokenRecord) -> (i32, i32, u16, u16, u8, u8) {
    let TokenRecord { x, y, sx, sy, extra_width, extra_height, .. } = *record;
    (x, y, sx, sy, extra_width, extra_height)
}

fn put_header(
    bytes: &mut Vec<u8>,
    pane: u8,
    serial: u32,
    frame: &DecodedFrame,
    sent_count: usize,
    flags: u8,
) {
    let head = &frame.head;
    let age_ns = monotonic_ns().saturating_sub(head.stamp.capture_ns);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[pane, flags]);
    bytes.extend_from_slice(&frame.records.first().map_or(0, |record| record.size).to_le_bytes());
    for number in [
        serial,
        narrowed(frame.records.len()),
        narrowed(sent_count),
        frame.extent.width,
        frame.extent.height,
        head.dirty_tiles,
        head.tile_count,
        narrowed(head.fixations.len()),
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for number in [head.stamp.frame_seq, head.ring_sequence, age_ns, frame.epoch] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// Columns, rows and side of the cells of the channel that is sent; zeros without one.
#[expect(clippy::cast_possible_truncation, reason = "at most 128 cells a side")]
fn put_grid(bytes: &mut Vec<u8>, channel: Option<&DecodedChannel>) {
    let (grid, side) =
        channel.map_or((Extent::new(0, 0), 0), |channel| (channel.grid, channel.cell_side));
    bytes.extend_from_slice(&(grid.width as u16).to_le_bytes());
    bytes.extend_from_slice(&(grid.height as u16).to_le_bytes());
    bytes.extend_from_slice(&side.to_le_bytes());
}

fn put_fixations(bytes: &mut Vec<u8>, fixations: &[Fixation]) {
    for Fixation { id, x, y, .. } in fixations {
        bytes.extend_from_slice(&narrowed(*id).to_le_bytes());
        bytes.extend_from_slice(&x.to_le_bytes());
        bytes.extend_from_slice(&y.to_le_bytes());
    }
}

fn put_record(bytes: &mut Vec<u8>, record: &TokenRecord, frame: &DecodedFrame, texels: u32) {
    let unchanged = frame.head.stamp.frame_seq.saturating_sub(record.changed_frame);
    bytes.extend_from_slice(&record.x.to_le_bytes());
    bytes.extend_from_slice(&record.y.to_le_bytes());
    let TokenRecord { sx, sy, first_column, columns, first_row, rows, group, .. } = *record;
    for number in [sx, sy, first_column, columns, first_row, rows, group] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&[record.extra_width, record.extra_height]);
    bytes.extend_from_slice(&record.relevance.to_le_bytes());
    bytes.extend_from_slice(&narrowed(unchanged).to_le_bytes());
    bytes.extend_from_slice(&texels.to_le_bytes());
}

/// Saturates: larger counts cannot be displayed.
fn narrowed(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}
