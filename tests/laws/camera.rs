//! The camera model for robots: calibration as in ROS, pose, and the transform of its pictures.

use foveate_config::Config;
use foveate_core::camera::{Calibration, Camera, Edit, Flip, parent_from_optical};
use foveate_core::geometry::extent::Extent;
use proptest::prelude::*;

/// A calibration in the form of ROS's `camera_calibration`.
const CALIBRATION: &str = "\
image_width: 1280
image_height: 720
camera_name: front
camera_matrix:
  rows: 3
  cols: 3
  data: [910.5, 0, 641.25, 0., 911.5, 359.75, 0, 0, 1]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.0831, -0.1917, 0.0005, -1.2e-4, 0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]
";

#[test]
fn a_camera_is_loaded_as_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("front.yaml"), CALIBRATION).unwrap();
    let parse = |lines: &str| {
        let text =
            format!("[[stream]]\nname = 'front'\nsource = 'test'\n[stream.camera]\n{lines}\n");
        Config::parse(&text, &folder.path().join("foveate.toml"))
    };
    let load = |lines: &str| {
        let stream = parse(lines).unwrap().streams.remove(0);
        stream.camera.unwrap().load(&stream.name)
    };
    let camera = load("calibration = 'front.yaml'").unwrap();
    assert_eq!(camera.calibration, calibration(Extent::new(1280, 720)));
    assert_eq!((camera.optical_frame.as_str(), camera.mount), ("front_optical", None));
    assert_eq!(camera.edit, Edit::default());

    let camera = load(
        "calibration = 'front.yaml'\noptical_frame = 'cam'\nparent_frame = 'base_link'\ntranslation = [1, 0.5, -2]\n\
         rotation = [0, 0, 0.70710678, 0.70710678]\ncrop = [160, 0, 960, 720]\nflip = 'horizontal'\nrotate = 90",
    )
    .unwrap();
    let (parent_frame, [_, _, _, x, _, _, _, y, _, _, _, z]) = camera.mount.unwrap();
    assert_eq!((parent_frame.as_str(), [x, y, z]), ("base_link", [1.0, 0.5, -2.0]));
    let edit = Edit { crop: Some([160, 0, 960, 720]), flip: Flip::Horizontal, quarter_turns: 1 };
    assert_eq!((camera.optical_frame.as_str(), camera.edit), ("cam", edit));

    for (lines, part) in [
        ("flip = 'none'", "missing key `calibration`"),
        ("calibration = 'front.yaml'\nrotate = 45", "0, 90, 180 or 270"),
        ("calibration = 'front.yaml'\ncrop = [0, 0, 9]", "expected [left, top, width, height]"),
        ("calibration = 'front.yaml'\ncrop = [0, 0, 9.5, 9]", "whole pixels"),
        ("calibration = 'front.yaml'\ntranslation = [0, 0, 0]", "`parent_frame`"),
        ("calibration = 'front.yaml'\nparent_frame = 'b'\nrotation = [1, 1, 1, 1]", "quaternion"),
    ] {
        let error = parse(lines).unwrap_err().to_string();
        assert!(error.contains("stream.camera") && error.contains(part), "{lines}: {error}");
    }
    let outside = load("calibration = 'front.yaml'\ncrop = [400, 0, 960, 720]").unwrap_err();
    assert!(outside.to_string().contains("exceeds the calibrated picture"), "{outside}");
    let missing = load("calibration = '/nowhere/front.yaml'").unwrap_err();
    assert!(missing.to_string().contains("/nowhere/front.yaml"), "{missing}");
}

proptest! {
    /// Each pixel of the source is the pixel of the calibrated picture that the pipeline put there.
    #[test]
    fn the_matrix_follows_the_pipeline_pixel_by_pixel(
        (width, height) in (2..40u32, 2..40u32),
        (left, top) in (0..20u32, 0..20u32),
        flip in prop_oneof![Just(Flip::None), Just(Flip::Horizontal), Just(Flip::Vertical)],
        quarter_turns in 0..4u32,
        scale in 1..4u32,
    ) {
        let calibrated = Extent::new(left + width + 3, top + height + 2);
        let edit = Edit { crop: Some([left, top, width, height]), flip, quarter_turns };
        // The centres of the pixels that are cut out, mirrored and turned as a program does with an array.
        let centre = |x: u32, y: u32| (f64::from(x) + 0.5, f64::from(y) + 0.5);
        let mut rows: Vec<Vec<(f64, f64)>> = (top..top + height)
            .map(|y| (left..left + width).map(|x| centre(x, y)).collect())
            .collect();
        match flip {
            Flip::None => {}
            Flip::Horizontal => rows.iter_mut().for_each(|row| row.reverse()),
            Flip::Vertical => rows.reverse(),
        }
        for _ in 0..quarter_turns {
            let turned = |x: usize| rows.iter().rev().map(|row| row[x]).collect();
            rows = (0..rows[0].len()).map(turned).collect();
        }
        let source = Extent::new(
            scale * u32::try_from(rows[0].len()).unwrap(),
            scale * u32::try_from(rows.len()).unwrap(),
        );
        let [a, b, c, d, e, f] = camera(calibrated, edit).source_from_calibrated(source);
        for (y, row) in (0..).zip(&rows) {
            for (x, &(from_x, from_y)) in (0..).zip(row) {
                let (to_x, to_y) = (a * from_x + b * from_y + c, d * from_x + e * from_y + f);
                let scaled = |value: u32| f64::from(scale) * (f64::from(value) + 0.5);
                prop_assert!((to_x - scaled(x)).abs() < 1e-9 && (to_y - scaled(y)).abs() < 1e-9);
            }
        }
    }

    /// A rotation preserves lengths and angles, and the camera's centre is at its translation.
    #[test]
    fn a_mount_is_a_turn_and_a_place(parts in prop::array::uniform4(-1.0..1.0f64), at in prop::array::uniform3(-9.0..9.0f64)) {
        let length = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
        prop_assume!(0.1 < length);
        let rotation = parts.map(|part| part / length);
        let matrix = parent_from_optical(at, rotation);
        let column = |index: usize| [matrix[index], matrix[4 + index], matrix[8 + index]];
        let dot = |one: [f64; 3], other: [f64; 3]| -> f64 {
            one.iter().zip(other).map(|(a, b)| a * b).sum()
        };
        for one in 0..3 {
            for other in 0..3 {
                let expected = f64::from(u8::from(one == other));
                prop_assert!((dot(column(one), column(other)) - expected).abs() < 1e-12);
            }
        }
        prop_assert_eq!(column(3), at);
        let [x, y, z] = [column(0), column(1), column(2)];
        let cross = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]];
        prop_assert!((dot(cross, z) - 1.0).abs() < 1e-12, "no mirror");
    }
}

#[test]
fn a_quarter_turn_about_the_vertical_axis_takes_x_to_y() {
    let half = 0.5f64.sqrt();
    let matrix = parent_from_optical([0.0; 3], [0.0, 0.0, half, half]);
    let x = [matrix[0], matrix[4], matrix[8]];
    assert!(x.iter().zip([0.0, 1.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{x:?}");
}

fn camera(extent: Extent, edit: Edit) -> Camera {
    let calibration = calibration(extent);
    Camera { calibration, optical_frame: "optical".to_owned(), mount: None, edit }
}

/// What [`CALIBRATION`] says, for pictures of another size.
fn calibration(extent: Extent) -> Calibration {
    Calibration {
        extent,
        k: [910.5, 0.0, 641.25, 0.0, 911.5, 359.75, 0.0, 0.0, 1.0],
        distortion: "plumb_bob".to_owned(),
        coefficients: vec![0.0831, -0.1917, 0.0005, -1.2e-4, 0.0],
    }
}
