//! Rays of a camera: what a lens bends, they take back, as OpenCV and ROS define its distortion.

use foveate_core::camera::rays::{RayBounds, Rays};
use foveate_core::camera::{Calibration, Camera, Edit, Flip};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use proptest::prelude::*;

pub(crate) const K: [f64; 9] = [620.0, 0.0, 329.5, 0.0, 610.0, 241.25, 0.0, 0.0, 1.0];

pub(crate) fn rays(distortion: &str, coefficients: &[f64], edit: Edit, source: Extent) -> Rays {
    let camera = Camera {
        calibration: Calibration {
            extent: Extent::new(640, 480),
            k: K,
            distortion: distortion.to_owned(),
            coefficients: coefficients.to_vec(),
        },
        optical_frame: "optical".to_owned(),
        mount: None,
        edit,
    };
    Rays::of(&camera.facts(source)).unwrap()
}

/// Where a lens takes a ray, from the formulas of OpenCV's documentation.
pub(crate) fn bent(distortion: &str, coefficients: &[f64], [x, y]: [f64; 2]) -> [f64; 2] {
    let k = |index: usize| coefficients.get(index).copied().unwrap_or(0.0);
    let r2 = x * x + y * y;
    if distortion == "equidistant" {
        let angle = r2.sqrt().atan();
        let bent = angle
            * (1.0
                + k(0) * angle.powi(2)
                + k(1) * angle.powi(4)
                + k(2) * angle.powi(6)
                + k(3) * angle.powi(8));
        let scale = if r2 == 0.0 { 1.0 } else { bent / r2.sqrt() };
        return [x * scale, y * scale];
    }
    let radial = (1.0 + k(0) * r2 + k(1) * r2.powi(2) + k(4) * r2.powi(3))
        / (1.0 + k(5) * r2 + k(6) * r2.powi(2) + k(7) * r2.powi(3));
    let (p1, p2) = (k(2), k(3));
    [
        x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x) + k(8) * r2 + k(9) * r2.powi(2),
        y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y + k(10) * r2 + k(11) * r2.powi(2),
    ]
}

pub(crate) const LENSES: [(&str, &[f64]); 6] = [
    ("plumb_bob", &[]),
    ("plumb_bob", &[-0.31, 0.11, 0.0012, -0.0007, -0.02]),
    ("plumb_bob", &[0.05, -0.1, 0.0, 0.001]),
    ("rational_polynomial", &[0.4, 0.1, 0.0003, -0.0002, 0.005, 0.7, 0.2, 0.01]),
    ("rational_polynomial", &[0.4, 0.1, 0.0, 0.0, 0.0, 0.7, 0.2, 0.0, 0.002, 0.001, -0.001, 0.0]),
    ("equidistant", &[-0.013, 0.02, -0.012, 0.0024]),
];

proptest! {
    /// A ray goes through the lens to a pixel; from that pixel comes the same ray.
    #[test]
    fn a_pixel_has_the_ray_that_arrives_there(x in -0.5..0.5_f64, y in -0.4..0.4_f64) {
        for (distortion, coefficients) in LENSES {
            let [bent_x, bent_y] = bent(distortion, coefficients, [x, y]);
            // The centre of the first pixel is (0, 0) in the camera matrix, and (0.5, 0.5) in the picture.
            let pixel = [K[0] * bent_x + K[2] + 0.5, K[4] * bent_y + K[5] + 0.5];
            let source = Extent::new(640, 480);
            let found = rays(distortion, coefficients, Edit::default(), source).at(pixel[0], pixel[1]);
            let [found_x, found_y] = found.expect("a ray");
            prop_assert!((found_x - x).abs() < 1e-5 && (found_y - y).abs() < 1e-5,
                "{distortion}: {found_x}, {found_y} of {x}, {y}");
        }
    }

    /// What the pipeline did to the picture changes the pixels, not the rays.
    #[test]
    fn an_edited_picture_has_the_rays_of_the_calibrated_one(u in 0.0..640.0_f64, v in 0.0..480.0_f64, turns in 0_u32..4) {
        for flip in [Flip::None, Flip::Horizontal, Flip::Vertical] {
            let edit = Edit { crop: Some([40, 20, 500, 400]), flip, quarter_turns: turns };
            let source = Extent::new(250, 300);
            let camera = Camera {
                calibration: Calibration {
                    extent: Extent::new(640, 480),
                    k: K,
                    distortion: "plumb_bob".to_owned(),
                    coefficients: vec![],
                },
                optical_frame: String::new(),
                mount: None,
                edit,
            };
            let [a, b, c, d, e, f] = camera.source_from_calibrated(source);
            let straight = rays("plumb_bob", &[], Edit::default(), Extent::new(640, 480)).at(u, v).unwrap();
            let edited = rays("plumb_bob", &[], edit, source)
                .at(a * u + b * v + c, d * u + e * v + f).unwrap();
            prop_assert!((straight[0] - edited[0]).abs() < 1e-9 && (straight[1] - edited[1]).abs() < 1e-9);
        }
    }

    /// Every point on rays within the bounds, at a depth within the limits, is in the box; and some point is on each side of it.
    #[test]
    fn a_box_holds_all_points_on_its_rays(
        sides in proptest::array::uniform4(-1.0..1.0_f64), near in 0.1..5.0_f64, further in 0.0..5.0_f64,
        shares in proptest::array::uniform3(0.0..=1.0_f64),
    ) {
        let order = |a: f64, b: f64| [a.min(b), a.max(b)];
        let bounds = RayBounds { x: order(sides[0], sides[1]), y: order(sides[2], sides[3]) };
        let far = near + further;
        let space = bounds.between(near, far);
        let between = |[from, to]: [f64; 2], share: f64| from + (to - from) * share;
        let z = between([near, far], shares[2]);
        let point = [between(bounds.x, shares[0]) * z, between(bounds.y, shares[1]) * z, z];
        for axis in 0..3 {
            prop_assert!(space[axis] <= point[axis] + 1e-12 && point[axis] <= space[axis + 3] + 1e-12);
        }
        for axis in 0..2 {
            let slopes = if axis == 0 { bounds.x } else { bounds.y };
            let corners = [slopes[0] * near, slopes[0] * far, slopes[1] * near, slopes[1] * far];
            prop_assert!(corners.contains(&space[axis]) && corners.contains(&space[axis + 3]));
        }
    }
}

#[test]
fn an_unknown_distortion_is_refused_unless_zero() {
    let source = Extent::new(640, 480);
    for (distortion, coefficients, is_known) in [
        ("double_sphere", vec![0.1, 0.2], false),
        ("double_sphere", vec![0.0, 0.0], true),
        ("plumb_bob", vec![0.1; 14], false),
        ("equidistant", vec![0.1; 5], false),
        ("rational_polynomial", vec![0.1; 12], true),
        ("", vec![], true),
    ] {
        let camera = Camera {
            calibration: Calibration {
                extent: source,
                k: K,
                distortion: distortion.to_owned(),
                coefficients,
            },
            optical_frame: String::new(),
            mount: None,
            edit: Edit::default(),
        };
        assert_eq!(Rays::of(&camera.facts(source)).is_some(), is_known, "{distortion}");
    }
}

/// Pixels beyond the edge of a fisheye's picture have no rays in front of the camera, and neither have pixels beyond the turning point
/// of a polynomial.
#[test]
fn where_no_ray_arrives_there_are_no_bounds() {
    let source = Extent::new(640, 480);
    let fisheye = rays("equidistant", &[0.0; 4], Edit::default(), source);
    assert!(fisheye.through(PixelBox::of(300..340, 200..240)).is_some());
    // 620 pixels to a radian: 90 degrees are 974 pixels away.
    assert!(fisheye.at(329.5 + 970.0, 241.75).is_some());
    assert!(fisheye.at(329.5 + 980.0, 241.75).is_none());
    let turning = rays("plumb_bob", &[-1.0, 0.0, 0.0, 0.0, 0.0], Edit::default(), source);
    assert!(turning.at(330.0, 241.75).is_some());
    assert!(turning.through(PixelBox::of(0..40, 0..40)).is_none());
    assert!(fisheye.through(PixelBox::of(5..5, 0..40)).is_none());
}
