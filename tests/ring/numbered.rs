//! Frames whose every word follows from their number, so that a single word of another shows. They are made and checked
//! about as fast as they are copied.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::{FrameHead, SegmentSpec, TokenFrameBuf};
use testkit::ring::{frame, spec};

/// A segment for frames of 273 tokens of 16x16 in f16, the defaults of a view: 420 kB.
pub fn large() -> SegmentSpec {
    let format = TokenFormat::new(16, DType::F16, Normalisation::NONE);
    SegmentSpec { format, ..spec(273) }
}

/// Makes `frame` number `number` of a segment of `spec`.
pub fn fill(frame: &mut TokenFrameBuf, number: u64, spec: &SegmentSpec) {
    let token_count = token_count_of(number, spec.capacity);
    frame.head = head_of(number);
    frame.records.resize(token_count, bytemuck::Zeroable::zeroed());
    frame.pixels.resize(token_count * spec.format.token_bytes(), 0);
    fill_words(bytemuck::cast_slice_mut(&mut frame.records), number);
    fill_words(&mut frame.pixels, !number);
    frame.planes.resize_with(spec.planes.len(), Vec::new);
    for (items, plane) in frame.planes.iter_mut().zip(&spec.planes) {
        items.resize(token_count * plane.item_bytes(), 0);
        fill_words(items, number);
    }
}

fn head_of(number: u64) -> FrameHead {
    frame(number, 0, spec(1).format).head
}

/// Most frames are full, some are short.
fn token_count_of(number: u64, capacity: usize) -> usize {
    if number.is_multiple_of(7) { capacity / 2 } else { capacity }
}

/// `frame` is what its number says, in every word.
pub fn check(frame: &TokenFrameBuf, capacity: usize) {
    let FrameHead { ring_sequence: number, publish_ns, .. } = frame.head;
    assert_eq!(frame.head, FrameHead { publish_ns, ..head_of(number) });
    assert_eq!(frame.records.len(), token_count_of(number, capacity), "frame {number}");
    assert!(is_filled(bytemuck::cast_slice(&frame.records), number), "records of frame {number}");
    assert!(is_filled(&frame.pixels, !number), "texels of frame {number}");
    assert_eq!(frame.planes.len(), 1);
    assert_eq!(frame.planes[0].len(), frame.records.len() * size_of::<f32>());
    assert!(is_filled(&frame.planes[0], number), "relevance of frame {number}");
}

fn fill_words(bytes: &mut [u8], seed: u64) {
    for (index, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&word_of(seed, index).to_le_bytes()[..word.len()]);
    }
}

fn is_filled(bytes: &[u8], seed: u64) -> bool {
    let mut words = bytes.chunks(8).enumerate();
    words.all(|(index, word)| *word == word_of(seed, index).to_le_bytes()[..word.len()])
}

/// Differs in every byte from that of neighbouring seeds and indices.
fn word_of(seed: u64, index: usize) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (index as u64).wrapping_mul(0x0101_0101_0101_0101)
}
