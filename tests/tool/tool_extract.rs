//! `foveate extract` takes files, whatever they are called.

#[cfg(feature = "pictures")]
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn a_file_may_be_named_like_a_shorthand() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_foveate"))
        .args(["extract", "test", "--out", "arrays"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("/test\" does not exist"), "{error}");
    assert!(!folder.path().join("arrays").exists());
}

/// No mask of a configuration is left out in silence.
#[cfg(feature = "pictures")]
#[test]
fn masks_are_refused_where_they_are_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("photos")).unwrap();
    let config = "[[stream]]\nname = 'street'\nsource = 'test'\n[[stream.mask]]\nname = 'door'\n\
                  points = [[0.1, 0.1], [0.2, 0.1], [0.2, 0.2]]\n[[stream.view]]\nname = 'main'\n";
    std::fs::write(folder.path().join("street.toml"), config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_foveate"))
        .args(["extract", "photos", "--config", "street.toml", "--out", "arrays"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("privacy masks do not apply"), "{error}");
}

/// A program that prints times in whole microseconds rounds some of them up.
#[test]
fn a_printed_time_of_a_frame_starts_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip.mov");
    testkit::film::encode(
        &clip,
        "videotestsrc num-buffers=30 ! video/x-raw,width=64,height=48,framerate=30/1 ! jpegenc ! qtmux",
    );
    for (start, count) in [("0.066667", 28), ("0.066669", 27), ("0.066666", 28)] {
        let output = extract(folder.path(), &["clip.mov", "--start", start, "--force"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!(": {count} frames")), "{start}: {said}");
    }
}

/// `foveate extract` in `folder`, to `arrays`.
fn extract(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foveate"));
    command.arg("extract").args(arguments).args(["--out", "arrays"]).current_dir(folder);
    command.output().unwrap()
}

/// Taken alone and in a sequence, as of a thermal camera: 401 samples in the middle of 16 bits.
#[cfg(feature = "pictures")]
#[test]
fn sixteen_bit_gray_is_scaled_alike_in_folders_and_sequences() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("photos")).unwrap();
    let samples = (0..64 * 64_u16).flat_map(|index| (29_000 + index % 401).to_be_bytes());
    let samples: Vec<u8> = samples.collect();
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, 64, 64);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Sixteen);
    encoder.write_header().unwrap().write_image_data(&samples).unwrap();
    std::fs::write(folder.path().join("photos/a.png"), picture).unwrap();
    let config = "[[stream]]\nname = 'thermal'\nsource = 'test'\n[[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 16\n\
                  patch = 16\ndtype = 'u8'\nnormalisation = 'none'\n";
    std::fs::write(folder.path().join("thermal.toml"), config).unwrap();
    let levels = |options: &[&str]| {
        let _ = std::fs::remove_dir_all(folder.path().join("arrays"));
        let arguments = [&["photos", "--config", "thermal.toml", "--force"], options].concat();
        let output = extract(folder.path(), &arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let pixels = std::fs::read(folder.path().join("arrays/main/pixels.npy")).unwrap();
        let texels = pixels[pixels.len() - 16 * 3 * 256..].to_vec();
        let json =
            std::fs::read_to_string(folder.path().join("arrays/main/segments.json")).unwrap();
        let pictures = std::fs::read_to_string(folder.path().join("arrays/pictures.json"));
        (texels, said, json + &pictures.unwrap_or_default())
    };
    let distinct = |texels: &[u8]| texels.iter().collect::<BTreeSet<_>>().len();
    for sequence in [&[][..], &["--sequence"]] {
        let (texels, said, json) = levels(sequence);
        assert!(distinct(&texels) <= 3);
        assert!(said.contains("401 levels of the first picture become"), "{said}");
        assert!(json.contains("\"gray_range\""), "{json}");
        for range in ["29000,29400", "auto"] {
            let (texels, said, json) = levels(&[sequence, &["--gray-range", range]].concat());
            let expected = |index: usize| {
                let above = 29_000 + index % 401 - 29_000;
                (2 * above * 255 + 400) / 800
            };
            // The tokens of 16 x 16, row by row.
            for (token, texels) in texels.chunks(3 * 256).enumerate() {
                for (place, level) in texels[..256].iter().enumerate() {
                    let (x, y) = (token % 4 * 16 + place % 16, token / 4 * 16 + place / 16);
                    assert_eq!(usize::from(*level), expected(y * 64 + x), "{range} {sequence:?}");
                }
            }
            assert!(!said.contains("become"), "{said}");
            let json: String = json.split_whitespace().collect();
            assert!(json.contains("\"gray_range\":[29000,29400]"), "{json}");
        }
    }
}

/// Of a megabyte of compressed zeros, a profile, a decoder that is not stopped makes more than the limit of memory.
#[cfg(feature = "pictures")]
#[test]
fn a_profile_that_unpacks_to_a_gigabyte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("photos")).unwrap();
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, 16, 16);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[90; 16 * 16 * 3]).unwrap();
    std::fs::write(folder.path().join("photos/a.png"), &picture).unwrap();
    let mut profile = b"bomb\0\0".to_vec();
    profile.extend(zeros(1_500_000_000));
    let mut chunk = b"iCCP".to_vec();
    chunk.extend(profile);
    let length = u32::try_from(chunk.len() - 4).unwrap().to_be_bytes();
    let sum = crc32fast::hash(&chunk).to_be_bytes();
    // After the signature and the header.
    let bomb = [&picture[..33], &length, &chunk, &sum, &picture[33..]].concat();
    std::fs::write(folder.path().join("photos/b.png"), bomb).unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 1000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_foveate")])
        .args(["extract", "photos", "--out", "arrays"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let listed = std::fs::read_to_string(folder.path().join("arrays/pictures.json")).unwrap();
    assert!(listed.contains("b.png"), "{listed}");
}

/// So many zeros in the format of zlib: a literal, then copies of 258 bytes, by the fixed codes.
#[cfg(feature = "pictures")]
fn zeros(count: usize) -> Vec<u8> {
    // Last block, fixed codes; the literal 0; then the length 258 and the distance 1, over and over; then the end. Codes begin with
    // their highest bit.
    let mut bits: Vec<u8> = vec![1, 1, 0];
    bits.extend([0, 0, 1, 1, 0, 0, 0, 0]);
    for _ in 0..count / 258 {
        bits.extend([1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
    }
    bits.extend([0; 7]);
    let byte = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
    let data = bits.chunks(8).map(byte);
    // The sum at the end is wrong.
    [0x78, 0x01].into_iter().chain(data).chain([0; 4]).collect()
}
