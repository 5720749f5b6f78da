//! The daemon keeps the promise of privacy masks, whatever a source process says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;
use std::sync::Arc;

use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry};
use foveate_core::depth::DepthFormat;
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::mask::{Mask, MaskFill};
use foveate_core::pixel::PixelAspect;
use foveate_source::frame::{FrameLayout, SampleFormat};
use foveate_source::ledger::{AcceptedFrame, Ledger, Violation};
use foveate_source::memory::WritableMemory;
use foveate_source::pool::PoolLimits;
use foveate_source::wire::{FrameCounts, FrameReady, SourceStamp};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::SentMasks;

const EXTENT: Extent = Extent::new(37, 21);

/// A process with one buffer, whose samples are all 77.
struct Scene {
    ledger: Ledger,
    memory: WritableMemory,
    layout: FrameLayout,
    number: u64,
}

impl Scene {
    fn new(samples: SampleFormat) -> Self {
        let (unix, whole) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, _) = socketpair(unix, whole, SocketFlags::CLOEXEC, None).unwrap();
        let (layout, bytes) = FrameLayout::packed(samples, EXTENT, PixelAspect::SQUARE);
        let (mut memory, file) = WritableMemory::new(bytes).unwrap();
        memory.bytes_mut().fill(77);
        let limits = PoolLimits { buffers_max: 1, bytes_max: 1 << 20, buffer_bytes_max: 1 << 20 };
        let mut ledger = Ledger::new(Arc::new(own), limits, 0);
        ledger.add(0, Some(file.as_fd())).unwrap();
        Self { ledger, memory, layout, number: 0 }
    }

    /// Fills what `masks` cover, but for the last sample of it if `misses_one`.
    fn fill(&mut self, masks: &[Mask], misses_one: bool) {
        let fill = MaskFill::new(masks, self.layout.kind());
        let bytes = self.memory.bytes_mut();
        bytes.fill(77);
        let before = bytes.to_vec();
        for (index, plane) in self.layout.planes.iter().enumerate() {
            match self.layout.samples {
                SampleFormat::Picture(format, _) if index < format.plane_count() => {
                    fill.fill(index, &mut bytes[plane.offset..], plane.stride);
                }
                SampleFormat::Depth(format) if index == 0 => {
                    fill.clear(bytes, plane.stride, format.sample_bytes());
                }
                _ => {}
            }
        }
        if misses_one {
            let last = (0..bytes.len()).rev().find(|at| bytes[*at] != before[*at]).unwrap();
            bytes[last] = 77;
        }
    }

    fn frame(&mut self, mask_revision: u64) -> AcceptedFrame {
        self.number += 1;
        let counts = FrameCounts { captured: 1, ..FrameCounts::default() };
        self.ledger.count(&counts).unwrap();
        let stamp = SourceStamp {
            number: self.number,
            pts_ns: None,
            capture_ns: 1,
            capture_unix_ns: 1,
            capture_clock: CaptureClock::Unknown,
            arrival_ns: 1,
        };
        let ready = FrameReady {
            buffer: 0,
            layout: self.layout,
            stamp,
            mask_revision,
            is_live: true,
            is_exact: false,
            counts,
        };
        self.ledger.accept(&ready, 2).unwrap()
    }
}

fn samples() -> Vec<SampleFormat> {
    let color = |matrix| Colorimetry {
        matrix,
        range: ColorRange::Limited,
        transfer: None,
        is_matrix_assumed: false,
        is_range_assumed: false,
    };
    let pictures = PixelFormat::ALL.map(|format| {
        let matrix = (!format.is_rgb()).then_some(ColorMatrix::Bt709);
        SampleFormat::Picture(format, color(matrix))
    });
    pictures.into_iter().chain(DepthFormat::ALL.map(SampleFormat::Depth)).collect()
}

fn masks() -> Vec<Mask> {
    vec![
        Mask::rectangle("box", [0.1, 0.2, 0.4, 0.7]),
        Mask { name: "corner".to_owned(), points: vec![[1.0, 0.4], [1.0, 1.0], [0.6, 1.0]] },
    ]
}

#[test]
fn a_frame_that_misses_one_masked_sample_is_refused() {
    for samples in samples() {
        let mut scene = Scene::new(samples);
        let mut sent = SentMasks::new(5, masks().into());
        scene.fill(&masks(), false);
        let coverage = sent.coverage(&scene.frame(5)).unwrap().unwrap();
        assert_eq!(coverage.revision, 5);
        assert!(coverage.texels.is_some(), "{samples:?}");
        scene.fill(&masks(), true);
        assert_eq!(sent.coverage(&scene.frame(5)), Ok(None), "{samples:?}");
        scene.fill(&[], false);
        assert_eq!(sent.coverage(&scene.frame(5)), Ok(None), "{samples:?}");
    }
}

#[test]
fn a_frame_has_sent_masks_and_never_earlier_ones_again() {
    let mut scene = Scene::new(samples()[0]);
    let mut sent = SentMasks::new(5, [].into());
    sent.add(6, masks().into());
    assert!(sent.coverage(&scene.frame(5)).unwrap().is_some(), "it was on its way");
    assert_eq!(sent.coverage(&scene.frame(6)), Ok(None));
    scene.fill(&masks(), false);
    assert!(sent.coverage(&scene.frame(6)).unwrap().is_some());
    assert_eq!(sent.coverage(&scene.frame(5)), Err(Violation::Masks(5)));
    assert_eq!(sent.coverage(&scene.frame(7)), Err(Violation::Masks(7)));
}
