//! Sequences of frames: drift, noise, flicker, cuts, and moving objects.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use foveate_core::geometry::extent::Extent;

use crate::naive::{OwnedFrame, Random};

/// The picture a frame later; `kind` is below 6.
pub fn move_on(frame: &mut OwnedFrame, kind: u32, frame_seq: u64, random: &mut Random) {
    let Extent { width, height } = frame.extent;
    let everywhere = frame.extent.longer_side();
    let (x, y) = (random.below(width), random.below(height));
    match kind {
        // A drift.
        0 => frame.adjust(0, 0, everywhere, |sample| sample.saturating_add(1)),
        // Noise.
        1 => frame.adjust(0, 0, everywhere, |sample| {
            sample.saturating_add_signed(random.below(5) as i8 - 2)
        }),
        // A flicker.
        2 => frame.adjust(0, 0, everywhere, |sample| {
            if frame_seq.is_multiple_of(2) { sample | 5 } else { sample & !5 }
        }),
        // A cut.
        3 => frame.scramble(0, 0, everywhere, random),
        // Something that moves.
        4 => frame.scramble(x, y, 1 + random.below(40), random),
        // A single pixel that goes its own way, and nothing else.
        _ => frame.adjust(x, y, 1, |sample| sample.saturating_sub(random.below(30) as u8)),
    }
}
