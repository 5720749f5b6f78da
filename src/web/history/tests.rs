//! Laws of what is kept of a stream, on a clock of the test: the minute, the bound, the bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "64 MiB")]

use testkit::ring;

use super::*;
use crate::decoder::Decoder;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::{SegmentInfo, SegmentSpec, TokenRecord};

const TOKENS: u32 = 8;

/// The share of the default bound for as many of the 273 tokens of a view of 1280x720.
const BYTES: usize = BYTES_DEFAULT as usize * TOKENS as usize / 273;

const PAGE_BYTES: usize = size_of::<foveate_ring::HeaderPage>();

const SECOND_NS: u64 = 1_000_000_000;
const INTERVAL_NS: u64 = SECOND_NS / 30;

/// Views of which all tokens change with each frame.
struct Busy {
    histories: Histories,
    segment: Arc<FrameSegment>,
    decoder: Decoder,
    frames: u64,
}

impl Busy {
    fn new(format: TokenFormat, bytes_max: usize) -> Self {
        let capacity = TOKENS as usize;
        let spec = SegmentSpec { format, planes: Vec::new(), ..ring::spec(capacity) };
        let info = SegmentInfo::of(&spec).unwrap();
        let decoder = Decoder::new(&info);
        let page = Box::new([0; PAGE_BYTES]);
        let segment = Arc::new(FrameSegment { page, info });
        Self { histories: Histories::new(bytes_max), segment, decoder, frames: 0 }
    }

    /// The frame with this number: values that no other frame has, as numbers of the format.
    fn frame(&self, number: u64) -> TokenFrameBuf {
        let format = self.segment.info.format;
        let (table, side) = (format.table(), format.patch_side as usize);
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut pixels = Vec::new();
        for plane in 0..3 * TOKENS as usize {
            for _ in 0..side * side {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = table[plane % 3][(state >> 56) as usize];
                pixels.extend_from_slice(&number.to_le_bytes()[..format.dtype.bytes()]);
            }
        }
        let record = |index| {
            let token = Token::of_level(0, index * format.patch_side, 0);
            TokenRecord::new(token, Extent::new(1280, 720), format.patch_side, number, 1.0)
        };
        let records = (0..TOKENS).map(record).collect();
        TokenFrameBuf { records, pixels, ..TokenFrameBuf::default() }
    }

    /// Takes in the next frame of each of `subjects`.
    fn push(&mut self, subjects: &[Subject]) {
        let frame = self.frame(self.frames);
        self.push_frame(&frame, subjects);
    }

    fn push_frame(&mut self, frame: &TokenFrameBuf, subjects: &[Subject]) {
        let decoded = self.decoder.decode(frame);
        let arrived_ns = 100 * SECOND_NS + self.frames * INTERVAL_NS;
        let at = (milliseconds(arrived_ns), arrived_ns);
        for subject in subjects {
            let missed = u64::from(self.frames % 100 == 50);
            self.histories.push_at(at, subject, &self.segment, (frame, &decoded), missed);
            let bytes = self.histories.bytes();
            assert!(bytes <= self.histories.bytes_max(), "{bytes} bytes");
        }
        self.frames += 1;
    }

    /// Number of each kept frame.
    fn kept(&self, subject: &Subject) -> Vec<u64> {
        let snapshot = self.histories.snapshot(subject).unwrap();
        snapshot.frames.iter().map(|frame| number_of(frame)).collect()
    }

    /// Number of each kept frame, after their bytes were compared.
    fn kept_whole(&self, subject: &Subject) -> Vec<u64> {
        for frame in self.histories.snapshot(subject).unwrap().frames.iter() {
            assert!(frame.to_buf() == self.frame(number_of(frame)), "{frame:?}");
        }
        self.kept(subject)
    }
}

fn number_of(frame: &StoredFrame) -> u64 {
    (frame.arrival.arrived_ns - 100 * SECOND_NS) / INTERVAL_NS
}

fn view(name: &str) -> Subject {
    Subject::View(format!("camera/{name}").parse().unwrap())
}

#[test]
fn a_minute_fits_though_all_tokens_change() {
    let mut busy = Busy::new(TokenFormat::default(), BYTES);
    let subjects = [view("main")];
    for frames in [1800, 2400, 3000] {
        while busy.frames < frames {
            busy.push(&subjects);
        }
        let kept = busy.kept_whole(&subjects[0]);
        let newest = frames - 1;
        assert_eq!(kept.last(), Some(&newest));
        assert!(kept.is_sorted_by(|one, other| one < other), "{kept:?}");
        // The oldest of a minute, or the next.
        assert!(newest - kept[0] <= 1800 && 1700 <= newest - kept[0], "{kept:?}");
        // Older frames are rarer, but none is missing for long.
        for pair in kept.windows(2) {
            let (gap, age) = (pair[1] - pair[0], newest - pair[0]);
            assert!(gap == 1 || gap < age / 8, "nothing between {pair:?} of {newest}");
        }
        let extent = busy.histories.extent(&subjects[0]).unwrap();
        let count = newest - kept[0] + 1;
        assert_eq!((extent.frames, extent.left_out), (kept.len(), count - kept.len() as u64));
        let missed = (kept[0] + 1..=newest).filter(|number| number % 100 == 50).count();
        assert_eq!(extent.missed, missed as u64);
        let whole = kept.windows(2).rposition(|pair| pair[0] + 1 < pair[1]).unwrap() + 1;
        let whole_ms = milliseconds((newest - kept[whole]) * INTERVAL_NS);
        assert!((extent.to_ms - extent.whole_from_ms - whole_ms).abs() < 1e-3, "{extent:?}");
        assert!(1000.0 < whole_ms, "the last {whole_ms} ms are whole");
    }
}

#[test]
fn views_share_the_bound() {
    let mut busy = Busy::new(TokenFormat::default(), BYTES);
    let subjects = ["main", "wide", "small"].map(view);
    for _ in 0..2000 {
        busy.push(&subjects);
    }
    let counts = subjects.map(|subject| {
        let kept = busy.kept(&subject);
        assert!(1600 < kept.last().unwrap() - kept[0], "{kept:?}");
        kept.len()
    });
    assert!(counts.iter().max() < counts.iter().min().map(|least| least + 20).as_ref());
}

#[test]
fn what_a_page_records_is_left_out_last() {
    let mut busy = Busy::new(TokenFormat::default(), BYTES);
    let subjects = [view("main")];
    for _ in 0..1000 {
        busy.push(&subjects);
    }
    let from = 1000;
    busy.push(&subjects);
    let from_ms = busy.histories.extent(&subjects[0]).unwrap().to_ms;
    let recorder = busy.histories.record(&subjects[0], from_ms).unwrap();
    let first_recorded = |busy: &Busy| {
        let kept = busy.kept(&subjects[0]);
        let first = kept.iter().position(|number| from <= *number).unwrap();
        assert!(kept[first..].is_sorted_by(|one, other| one + 1 == *other), "{kept:?}");
        (first, kept[first])
    };
    // As long as others give way.
    while 0 < first_recorded(&busy).0 {
        assert_eq!(first_recorded(&busy).1, from);
        busy.push(&subjects);
    }
    assert!(from + 200 < busy.frames, "{} frames", busy.frames - from);
    busy.push(&subjects);
    busy.push(&subjects);
    assert!(from < first_recorded(&busy).1);
    assert!(from_ms < busy.histories.extent(&subjects[0]).unwrap().whole_from_ms);
    drop(recorder);
    for _ in 0..200 {
        busy.push(&subjects);
    }
    let kept = busy.kept(&subjects[0]);
    assert!(kept.windows(2).any(|pair| pair[0] + 1 < pair[1]), "{kept:?}");
}

#[test]
fn numbers_are_kept_to_the_bit() {
    for dtype in [DType::U8, DType::F16, DType::Bf16, DType::F32] {
        let normalisation =
            if dtype == DType::U8 { Normalisation::NONE } else { Normalisation::CLIP };
        let format = TokenFormat::new(14, dtype, normalisation);
        let mut busy = Busy::new(format, 1 << 30);
        let subject = view("main");
        let plain = busy.frame(0);
        let token_bytes = format.token_bytes();
        // As of texels outside the picture, which are 0: in one token, one texel, the last.
        let [mut one, mut last] = [plain.clone(), plain.clone()];
        one.pixels[..token_bytes].fill(0);
        let texel = one.pixels.len() - dtype.bytes();
        last.pixels[texel..].fill(0);
        // One bit off, which a page cannot tell.
        let mut off = plain.clone();
        off.pixels[token_bytes] ^= 1;
        let frames = [&plain, &one, &plain, &off, &plain, &last, &off, &one];
        for frame in frames {
            busy.push_frame(frame, std::slice::from_ref(&subject));
        }
        let snapshot = busy.histories.snapshot(&subject).unwrap();
        for (stored, frame) in snapshot.frames.iter().zip(frames) {
            assert!(stored.to_buf() == *frame, "{dtype:?}");
        }
    }
}

#[test]
fn normalised_numbers_take_a_byte() {
    let bytes = |dtype| {
        let format = TokenFormat::new(16, dtype, Normalisation::IMAGENET);
        let mut busy = Busy::new(format, 1 << 30);
        busy.push(&[view("main")]);
        busy.histories.bytes()
    };
    assert_eq!([DType::F16, DType::Bf16, DType::F32].map(bytes), [bytes(DType::F16); 3]);
    assert!(bytes(DType::F16) < TOKENS as usize * (768 + 200) + 1000);
}
