//! A tile is dirty exactly when one of its samples differs from the frame before, whatever the format, the size and
//! the history; and the number under a region is that of the last frame that changed it.

#[path = "common/naive.rs"]
mod naive;

use foveate::change::detect::ChangeDetector;
use foveate::frame::{FrameView, PixelFormat, Plane};
use foveate::geometry::extent::Extent;
use foveate::geometry::plan::PixelBox;
use foveate::geometry::tile::TileSet;
use naive::{OwnedFrame, Random};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn dirty_tiles_are_those_with_a_changed_pixel(
        seed: u64, width in 1..150u32, height in 1..120u32, format in 0..8usize,
    ) {
        let mut random = Random(seed);
        let format = PixelFormat::ALL[format];
        let extent = Extent::new(width, height);
        let color = naive::transforms(format)[0];
        let mut frame = OwnedFrame::random(format, extent, color, &mut random);
        let mut detector = ChangeDetector::new(&frame.view());
        prop_assert_eq!(detector.detect(&frame.view(), 1), &TileSet::all(extent));

        let grid = TileSet::none(extent).grid();
        let mut changed_frame = vec![1; grid.area()];
        for frame_seq in 2..8 {
            let before = frame.clone();
            for _ in 0..random.below(3) {
                frame.scramble(random.below(width), random.below(height), 1 + random.below(9), &mut random);
            }
            let expected = tiles_with_changed_samples(&before, &frame);
            prop_assert_eq!(detector.detect(&frame.view(), frame_seq), &expected);
            for tile in expected.indices() {
                changed_frame[tile] = frame_seq;
            }
            assert_same_samples(&detector.resident(), &frame);
            let (x0, y0) = (random.below(width), random.below(height));
            let (x1, y1) = (x0 + 1 + random.below(width - x0), y0 + 1 + random.below(height - y0));
            let newest = tiles_under(grid, x0, y0, x1, y1).map(|tile| changed_frame[tile]).max();
            prop_assert_eq!(Some(detector.changed_frame(PixelBox { x0, y0, x1, y1 })), newest);
        }
    }
}

#[test]
fn bytes_that_are_no_samples_do_not_count() {
    for (format, width, unused) in [
        (PixelFormat::Rgbx, 33, 4 * 32 + 3),
        (PixelFormat::Bgra, 8, 3),
        (PixelFormat::Yuy2, 33, 4 * 16 + 2),
        (PixelFormat::Yuy2, 63, 4 * 31 + 2),
    ] {
        let extent = Extent::new(width, 1);
        let mut bytes = vec![7; format.plane_shape(0, extent).row_bytes as usize];
        let color = naive::transforms(format)[0];
        let mut detector = None;
        for (frame_seq, value) in [(1, 7), (2, 9)] {
            bytes[unused] = value;
            let plane = Plane { bytes: &bytes, stride: bytes.len() };
            let frame = FrameView::new(format, extent, color, &[plane]).unwrap();
            let detector = detector.get_or_insert_with(|| ChangeDetector::new(&frame));
            assert_eq!(
                detector.detect(&frame, frame_seq).is_empty(),
                1 < frame_seq,
                "{format:?} {width}"
            );
        }
    }
}

#[test]
fn the_last_real_sample_of_a_yuy2_row_counts() {
    let extent = Extent::new(63, 1);
    let color = naive::transforms(PixelFormat::Yuy2)[0];
    for sample in [4 * 31, 4 * 31 + 1, 4 * 31 + 3] {
        let mut bytes = vec![7; 128];
        let frame = |bytes: &[u8], seq: u64, detector: &mut Option<ChangeDetector>| {
            let frame =
                FrameView::new(PixelFormat::Yuy2, extent, color, &[Plane { bytes, stride: 128 }])
                    .unwrap();
            detector.get_or_insert_with(|| ChangeDetector::new(&frame)).detect(&frame, seq).count()
        };
        let mut detector = None;
        frame(&bytes, 1, &mut detector);
        bytes[sample] = 8;
        assert_eq!(frame(&bytes, 2, &mut detector), 1, "sample {sample}");
    }
}

fn tiles_with_changed_samples(before: &OwnedFrame, after: &OwnedFrame) -> TileSet {
    let mut tiles = TileSet::none(before.extent);
    for y in 0..before.extent.height {
        for x in 0..before.extent.width {
            if before.samples(x, y) != after.samples(x, y) {
                tiles.insert(x / 32, y / 32);
            }
        }
    }
    tiles
}

fn assert_same_samples(resident: &FrameView<'_>, frame: &OwnedFrame) {
    for plane in 0..resident.format().plane_count() {
        for y in 0..resident.format().plane_shape(plane, resident.extent()).rows as usize {
            assert!(resident.row(plane, y) == frame.view().row(plane, y));
        }
    }
}

fn tiles_under(grid: Extent, x0: u32, y0: u32, x1: u32, y1: u32) -> impl Iterator<Item = usize> {
    let rows = y0 / 32..=(y1 - 1) / 32;
    rows.flat_map(move |row| {
        (x0 / 32..=(x1 - 1) / 32).map(move |column| (row * grid.width + column) as usize)
    })
}
