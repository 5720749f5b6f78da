//! The integer conversion stays within one step of the real-valued one, for every sample of every matrix and range,
//! and keeps black, white and gray what they are.

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};

const MATRICES: [ColorMatrix; 5] = [
    ColorMatrix::Bt601,
    ColorMatrix::Bt709,
    ColorMatrix::Bt2020,
    ColorMatrix::Fcc,
    ColorMatrix::Smpte240m,
];

#[test]
fn rgb_is_within_one_step_of_the_real_formula() {
    for matrix in MATRICES {
        for range in [ColorRange::Limited, ColorRange::Full] {
            let transform = ColorTransform::from_ycbcr(matrix, range);
            for y in 0..=255 {
                for u in (0..=255).step_by(3) {
                    for v in (0..=255).step_by(3) {
                        let exact = real_rgb(matrix, range, y, u, v);
                        for (got, exact) in transform.rgb(y, u, v).into_iter().zip(exact) {
                            assert!(
                                (f64::from(got) - exact).abs() < 1.0,
                                "{matrix:?} {range:?} {y} {u} {v}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn black_white_and_gray_stay_neutral() {
    for matrix in MATRICES {
        for (range, black, white) in [(ColorRange::Limited, 16, 235), (ColorRange::Full, 0, 255)] {
            let transform = ColorTransform::from_ycbcr(matrix, range);
            assert_eq!(transform.rgb(black, 128, 128), [0; 3]);
            assert_eq!(transform.rgb(white, 128, 128), [255; 3]);
            for y in 0..=255 {
                assert_eq!(transform.rgb(y, 128, 128), [transform.channel(y); 3]);
            }
        }
    }
}

#[test]
fn full_range_rgb_is_not_touched() {
    assert_eq!(ColorTransform::from_rgb(ColorRange::Full), ColorTransform::IDENTITY);
    for sample in 0..=255 {
        assert_eq!(ColorTransform::IDENTITY.channel(sample), sample);
    }
}

#[test]
fn coefficients_fit_16_bit_multiply_add() {
    for matrix in MATRICES {
        for range in [ColorRange::Limited, ColorRange::Full] {
            let ColorTransform { y_offset: _, y, rv, gu, gv, bu } =
                ColorTransform::from_ycbcr(matrix, range);
            for coefficient in [y, rv, gu, gv, bu] {
                assert!(i16::try_from(coefficient).is_ok());
            }
        }
    }
}

#[test]
fn the_rgb_bound_is_tight() {
    for matrix in MATRICES {
        for range in [ColorRange::Limited, ColorRange::Full] {
            let transform = ColorTransform::from_ycbcr(matrix, range);
            assert_eq!(transform.rgb_bound(0), 0);
            for sample_bound in [1, 2, 7, 40, 255] {
                let furthest = furthest_channel_move(transform, sample_bound);
                let bound = transform.rgb_bound(sample_bound);
                assert!(furthest <= bound, "{matrix:?} {range:?}: {furthest} of {bound}");
                // Beyond that, clamping holds it back.
                if sample_bound <= 40 {
                    assert!(bound <= furthest + 2, "{matrix:?} {range:?}: {furthest} of {bound}");
                }
            }
        }
    }
}

/// RGB samples go through the luma part alone, each on its own.
#[test]
fn the_bound_of_rgb_samples_is_that_of_one_coefficient() {
    assert_eq!(ColorTransform::IDENTITY.rgb_bound(5), 6);
    // ceil(5 * 255 / 219) + 1
    assert_eq!(ColorTransform::from_rgb(ColorRange::Limited).rgb_bound(5), 7);
}

/// The most that a channel moves when every sample moves by `sample_bound`, as far as there is room, in any direction
/// from any of a grid of places.
fn furthest_channel_move(transform: ColorTransform, sample_bound: u8) -> u32 {
    let places = || (0..=255_u8).step_by(17).chain(108..=112);
    let mut furthest = 0;
    for (y, u, v) in
        places().flat_map(|y| places().flat_map(move |u| places().map(move |v| (y, u, v))))
    {
        let before = transform.rgb(y, u, v);
        for directions in 0..8 {
            let moved = |sample: u8, bit: u32| {
                if directions >> bit & 1 == 1 {
                    sample.saturating_add(sample_bound)
                } else {
                    sample.saturating_sub(sample_bound)
                }
            };
            let after = transform.rgb(moved(y, 0), moved(u, 1), moved(v, 2));
            for (before, after) in before.into_iter().zip(after) {
                furthest = furthest.max(u32::from(before.abs_diff(after)));
            }
        }
    }
    furthest
}

/// Rec. ITU-R BT.601-7, section 2.5, and its successors, solved for R, G and B.
fn real_rgb(matrix: ColorMatrix, range: ColorRange, y: u8, u: u8, v: u8) -> [f64; 3] {
    let (kr, kb) = matrix.weights();
    let (y, u, v) = (f64::from(y), f64::from(u) - 128.0, f64::from(v) - 128.0);
    let (y, pb, pr) = match range {
        ColorRange::Limited => ((y - 16.0) / 219.0, u / 224.0, v / 224.0),
        ColorRange::Full => (y / 255.0, u / 255.0, v / 255.0),
    };
    let red = y + 2.0 * (1.0 - kr) * pr;
    let blue = y + 2.0 * (1.0 - kb) * pb;
    let green = (y - kr * red - kb * blue) / (1.0 - kr - kb);
    [red, green, blue].map(|channel| (255.0 * channel).clamp(0.0, 255.0))
}
