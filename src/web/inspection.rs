//! Describes one token of a frame.

use std::fmt::Write as _;

use foveate::messages::ViewName;
use serde::Serialize;

use super::decoder::DecodedFrame;
use super::thumbnail::area;

/// Texels of larger tokens are not sent: the picture shows them as they are.
const TEXELS_SIDE_MAX: u32 = 64;

/// A token under a point.
#[derive(Debug, Serialize)]
pub(super) struct TokenReport {
    view: ViewName,
    /// `frame_seq` of the frame.
    frame: u64,
    /// Index among the tokens of the frame.
    index: usize,
    /// Top left corner of the token in source pixels; may lie outside of the picture.
    x: i32,
    y: i32,
    /// The source pixels that the token covers: left, top, right, bottom.
    #[serde(rename = "box")]
    covered: [u32; 4],
    /// Side of a texel in source pixels, along a row and down a column.
    step: [f64; 2],
    /// P: side of the token in texels.
    patch: u32,
    group: u16,
    relevance: f32,
    /// `frame_seq` of the frame that changed the token last.
    changed_frame: u64,
    /// Frames since `changed_frame`.
    unchanged_frames: u64,
    /// Absent without a plane of depth.
    depth: Option<TokenDepth>,
    /// Two digits for each of R, G and B of each texel, a text for each row; empty for tokens of more than 64 texels a side.
    texels: Vec<String>,
}

/// Depth of a token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct TokenDepth {
    /// Nearest depth in metres; absent if unknown.
    nearest_m: Option<f64>,
    mean_m: Option<f64>,
    /// Share of the depth pixels that are known.
    known: f64,
}

impl TokenDepth {
    /// Joins the three numbers of each texel, or takes those of the whole token: nearest, mean, known share.
    pub(super) fn of(texels: impl Iterator<Item = [f64; 3]>) -> Option<Self> {
        let (mut nearest, mut sum, mut known, mut count) = (f64::INFINITY, 0.0, 0.0, 0u32);
        for [texel_nearest, mean, share] in texels {
            count += 1;
            if 0.0 < share && mean.is_finite() {
                // A NaN is never the least.
                nearest = nearest.min(texel_nearest);
                (sum, known) = (sum + share * mean, known + share);
            }
        }
        let is_known = 0.0 < known;
        (0 < count).then(|| Self {
            nearest_m: Some(nearest).filter(|nearest| nearest.is_finite()),
            mean_m: is_known.then(|| sum / known),
            known: known / f64::from(count),
        })
    }
}

impl TokenReport {
    /// The finest token of `frame` that covers a point in source pixels; of several of one size the last, which is drawn on top.
    pub(super) fn at(view: &ViewName, frame: &DecodedFrame, (x, y): (f64, f64)) -> Option<Self> {
        let is_under = |at: f64, from: u32, to: u32| f64::from(from) <= at && at < f64::from(to);
        // The last pixel reaches to the edge, where a pointer may be.
        let inside = |at: f64, side: u32| at.clamp(0.0, (f64::from(side) - 0.5).max(0.0));
        let (x, y) = (inside(x, frame.extent.width), inside(y, frame.extent.height));
        let side = frame.patch_side;
        let covers = frame.records.iter().enumerate().rev().filter(|(_, record)| {
            is_under(x, record.x0, record.x1) && is_under(y, record.y0, record.y1)
        });
        let (index, record) = covers.min_by_key(|(_, record)| area(record, side))?;
        let token = record.token();
        let step = |length: u32| f64::from(length) / f64::from(side.max(1));
        let present = frame.head.stamp.frame_seq;
        Some(Self {
            view: view.clone(),
            frame: present,
            index,
            x: record.x,
            y: record.y,
            covered: [record.x0, record.y0, record.x1, record.y1],
            step: [step(token.width(side)), step(token.height(side))],
            patch: side,
            group: record.group,
            relevance: record.relevance,
            changed_frame: record.changed_frame,
            unchanged_frames: present.saturating_sub(record.changed_frame),
            depth: frame.depth.as_ref().and_then(|depth| TokenDepth::of(depth.of_token(index))),
            texels: texels(frame, index),
        })
    }
}

/// The texels of token `index`, a text for each row.
fn texels(frame: &DecodedFrame, index: usize) -> Vec<String> {
    if TEXELS_SIDE_MAX < frame.patch_side {
        return Vec::new();
    }
    let (side, bytes) = (frame.patch_side as usize, frame.token_bytes());
    let Some(planes) = frame.pixels.get(index * bytes..(index + 1) * bytes) else {
        return Vec::new();
    };
    let row = |row: usize| {
        let mut text = String::with_capacity(6 * side);
        for column in 0..side {
            for plane in planes.chunks_exact(side * side) {
                // Writing to a text cannot fail.
                let _ = write!(text, "{:02x}", plane[row * side + column]);
            }
        }
        text
    };
    (0..side).map(row).collect()
}
