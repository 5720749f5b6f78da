//! Laws of samples in memory: what is too short, what is transparent, and what is cut off.

use foveate_core::color::ColorTransform;
use foveate_core::depth::{DepthFormat, DepthView};
use foveate_core::frame::{
    FrameTime, FrameTimes, FrameView, PixelFormat, Plane, composite, is_opaque,
};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::{GrayRange, GrayScale, GrayScaling};
use foveate_core::jpeg;

#[test]
fn a_stride_that_overflows_is_refused() {
    let extent = Extent::new(4, 4);
    for stride in [usize::MAX, usize::MAX / 3, usize::MAX / 3 + 1, usize::MAX / 2] {
        let plane = Plane { bytes: &[0; 64], stride };
        let frame = FrameView::new(PixelFormat::Gray8, extent, ColorTransform::IDENTITY, &[plane]);
        assert!(frame.is_err_and(|error| error.to_string().contains("are needed")), "{stride}");
        let depth = DepthView::new(DepthFormat::Gray16Le, extent, plane);
        assert!(depth.is_err_and(|error| error.to_string().contains("are needed")), "{stride}");
        // A single row has no next one.
        let row = Extent::new(4, 1);
        let frame = FrameView::new(PixelFormat::Gray8, row, ColorTransform::IDENTITY, &[plane]);
        assert_eq!(frame.unwrap().plane(0).stride, 4);
    }
}

/// The times of the last 64 frames are kept at any rate, too.
#[test]
fn times_of_ten_seconds_are_known_at_any_rate() {
    for rate in [1, 5, 30, 90, 240, 2000] {
        let mut times = FrameTimes::default();
        let newest = 100 * rate;
        let time_of = |frame_seq: u64| frame_seq * 1_000_000_000 / rate;
        for frame_seq in 1..=newest {
            times.push(FrameTime { frame_seq, time_ns: time_of(frame_seq) });
        }
        let oldest = (newest - 10 * rate).min(newest - 63);
        assert!(times.oldest().unwrap() <= oldest, "{rate}: {:?}", times.oldest());
        assert!(newest - 12 * rate < times.oldest().unwrap() || rate < 6, "{rate}");
        for frame_seq in oldest..=newest {
            let off_ns = time_of(frame_seq) - times.time_ns(frame_seq).unwrap();
            let is_newest = newest - 64 < frame_seq;
            assert!(off_ns == 0 || !is_newest && off_ns < 50_000_000, "{off_ns} ns at {rate}");
        }
        // A stream that begins again has at most the last one of before, before long.
        for frame_seq in newest + 1..=newest + 2048 {
            times.push(FrameTime { frame_seq, time_ns: time_of(frame_seq - newest) });
        }
        assert!(newest <= times.oldest().unwrap(), "{rate}: {:?}", times.oldest());
    }
}

#[test]
fn compositing_rounds_to_the_nearest() {
    for background in [0, 1, 100, 255] {
        for sample in 0..=255_u8 {
            for alpha in 0..=255_u8 {
                let mut pixel = [sample, 7, 255 - sample, alpha];
                composite(&mut pixel, [background, 7, 0]);
                let share = f64::from(alpha) / 255.0;
                let exact = f64::from(sample) * share + f64::from(background) * (1.0 - share);
                assert!((f64::from(pixel[0]) - exact).abs() <= 0.5 + 1e-9, "{sample} {alpha}");
                assert_eq!((pixel[1], pixel[3]), (7, 255));
            }
        }
    }
}

#[test]
fn one_transparent_pixel_is_found() {
    let mut row = vec![0xFF; 4 * 77];
    row.chunks_exact_mut(4).for_each(|pixel| pixel[..3].fill(0));
    assert!(is_opaque(&row) && is_opaque(&[]));
    for pixel in 0..77 {
        row[4 * pixel + 3] = 254;
        assert!(!is_opaque(&row), "{pixel}");
        row[4 * pixel + 3] = 255;
    }
}

/// Compares with the definition in real numbers.
#[test]
fn gray_is_scaled_to_the_nearest_level() {
    for (low, high) in [(0, 65_535), (0, 1), (29_000, 29_400), (65_000, 65_535)] {
        let range = GrayRange::new(low, high).unwrap();
        for sample in 0..=u16::MAX {
            let share = (f64::from(sample) - f64::from(low)) / (f64::from(high) - f64::from(low));
            let exact = (share.clamp(0.0, 1.0) * 255.0 + 0.5 + 1e-9).floor();
            assert!((f64::from(range.level(sample)) - exact).abs() < 0.1, "{range} {sample}");
        }
    }
    assert_eq!((GrayRange::new(5, 5), GrayRange::new(5, 4)), (None, None));
}

#[test]
fn an_automatic_range_leaves_out_dead_pixels() {
    let auto = |samples: &[u16]| {
        GrayScale::new(Some(GrayScaling::Auto), samples.iter().copied()).range.bounds()
    };
    assert_eq!(auto(&[]), [0, 255]);
    assert_eq!(auto(&[500]), [500, 755]);
    assert_eq!(auto(&[65_530]), [65_280, 65_535]);
    assert_eq!(auto(&[7000, 9000]), [7000, 9000]);
    let mut samples: Vec<u16> = (0..2000).map(|index| 20_000 + index).collect();
    (samples[17], samples[900]) = (0, 65_535);
    assert_eq!(auto(&samples), [20_001, 21_998]);
}

#[test]
fn a_jpeg_ends_with_its_own_end_marker() {
    // A comment with the end marker of something else, a scan with a stuffed byte and a restart, and fill bytes.
    let whole = b"\xFF\xD8\xFF\xFE\0\x06\xFF\xD9\0\0\xFF\xFF\xDA\0\x03\x01\x55\xFF\0\x55\xFF\xD0\x55\xFF\xFF\xD9";
    assert!(jpeg::has_end(&whole[..]).unwrap());
    for length in 0..whole.len() {
        assert!(!jpeg::has_end(&whole[..length]).unwrap(), "{length}");
    }
    let (scan, _) = whole.split_at(20);
    assert!(!jpeg::has_end(&[scan, whole].concat()[..]).unwrap(), "the next picture is another");
    assert!(jpeg::has_end(&[whole, &b"padding"[..]].concat()[..]).unwrap());
}
