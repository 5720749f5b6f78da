//! What a source may be, and what becomes of one that blocks, is damaged, turned, or short.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::process::Signal;

use crate::daemon::{Outcome, Place};
use crate::film::encode;

const CAMERA: &str = "[[stream]]\nname = 'camera'\nsource = 'test'\nbackend = 'cpu'\n";

#[test]
fn a_source_whose_opening_blocks_holds_up_nobody() {
    let place = Place::new();
    let fifo = make_fifo(&place, "cam.fifo");
    let blocked = "[[stream]]\nname = 'blocked'\nsource = 'cam.fifo'\ncaps_timeout_ms = 600000\nbackend = 'cpu'\n";
    let daemon = place.daemon(&format!("{CAMERA}{blocked}"));
    daemon.subscribe("camera/main").next_frame();

    // What is blocked is removed, added and removed again, and other streams too.
    place.foveate(&["remove-stream", "blocked"]).finish().assert_clean_exit(0);
    let again = blocked.replace("cam.fifo", &fifo.display().to_string());
    let file = place.write("again.toml", again);
    place.foveate(&["add-stream", file.to_str().unwrap()]).finish().assert_clean_exit(0);
    let other = place.write("other.toml", CAMERA.replace("'camera'", "'other'"));
    place.foveate(&["add-stream", other.to_str().unwrap()]).finish().assert_clean_exit(0);
    daemon.subscribe("other/main").next_frame();
    place.foveate(&["remove-stream", "blocked"]).finish().assert_clean_exit(0);
    place.foveate(&["remove-stream", "other"]).finish().assert_clean_exit(0);
    place.foveate(&["add-stream", file.to_str().unwrap()]).finish().assert_clean_exit(0);
    daemon.subscribe("camera/main").next_frame();
    let outcome = daemon.stop();
    assert!(outcome.stderr.contains("goes on in the background"), "{outcome:#?}");
}

#[test]
fn a_source_whose_opening_blocks_is_given_up_after_its_caps_timeout() {
    let place = Place::new();
    make_fifo(&place, "cam.fifo");
    let config = place.write(
        "c.toml",
        "[[stream]]\nname = 'a'\nsource = 'cam.fifo'\ncaps_timeout_ms = 300\nbackend = 'cpu'\n",
    );
    let config = config.to_str().unwrap();
    let outcome = place.foveated(&["--config", config], &[]).finish();
    outcome.assert_clean_exit(69);
    for part in ["no frame within", "FIFO", "`caps_timeout_ms`"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
    let (out, fifo) = (place.path("out"), place.path("cam.fifo"));
    let [out, fifo] = [&out, &fifo].map(|path| path.to_str().unwrap());
    let outcome = place.foveate(&["extract", fifo, "--out", out, "--config", config]).finish();
    outcome.assert_clean_exit(69);
    assert!(outcome.message().contains("no frame within"), "{outcome:#?}");
}

#[test]
fn checking_a_configuration_opens_no_source() {
    let place = Place::new();
    make_fifo(&place, "cam.fifo");
    let config = place.write("c.toml", "[[stream]]\nname = 'a'\nsource = 'cam.fifo'\n");
    let outcome = place.foveated(&["--check", "--config", config.to_str().unwrap()], &[]).finish();
    outcome.assert_clean_exit(0);
}

#[test]
fn a_fifo_is_opened_once() {
    let place = Place::new();
    let fifo = make_fifo(&place, "clip.fifo");
    let formats: [(&[u8], _); 2] = [(&y4m(30, 'p'), "progressive"), (&y4m(30, 't'), "interlaced")];
    for (clip, kind) in formats {
        for _ in 0..3 {
            // With a second opening it would see a broken pipe.
            let (path, clip) = (fifo.clone(), clip.to_vec());
            let writer = thread::spawn(move || {
                let mut pipe = File::options().write(true).open(path).unwrap();
                pipe.write_all(&clip)
            });
            let extracted = extract(&place, &fifo, &[]);
            extracted.assert_clean_exit(0);
            assert_eq!(frame_numbers(&place.path("out/main")), (1..=30).collect::<Vec<_>>(), "{kind}");
            writer.join().unwrap().unwrap();
        }
    }
}

#[test]
fn an_interlaced_clip_is_numbered_from_1_in_every_run() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(40, 't'));
    for _ in 0..5 {
        extract(&place, &clip, &[]).assert_clean_exit(0);
        assert_eq!(frame_numbers(&place.path("out/main")), (1..=40).collect::<Vec<_>>());
    }
}

#[test]
fn a_clip_shorter_than_the_interval_of_its_rate_goes_round() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(3, 'p'));
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'a'\nsource = '{}'\nloop = true\nmax_fps = 5.0\nbackend = 'cpu'\n",
        clip.display()
    ));
    let mut follower = daemon.subscribe("a/main");
    for _ in 0..4 {
        follower.next_frame();
    }
    daemon.stop();
}

#[test]
fn every_frame_is_extracted_whatever_rate_and_readers_a_view_asks_for() {
    let place = Place::new();
    let clip = place.write("clip.y4m", y4m(12, 'p'));
    let views = "[[stream.view]]\nname = 'slow'\nmax_fps = 1.0\nbudget = 4\n\
                 [[stream.view]]\nname = 'read'\npublish = 'when-read'\nbudget = 4\n\
                 [[stream.view]]\nname = 'all'\nbudget = 4\n";
    let config = place.write("c.toml", format!("{CAMERA}{views}"));
    let outcome = extract(&place, &clip, &["--config", config.to_str().unwrap()]);
    outcome.assert_clean_exit(0);
    for view in ["slow", "read", "all"] {
        let folder = place.path("out").join(view);
        assert_eq!(frame_numbers(&folder), (1..=12).collect::<Vec<_>>(), "{view}");
        let tokens = fs::read(folder.join("tokens.npy")).unwrap();
        let shape = npyz::NpyHeader::from_reader(&tokens[..]).unwrap().shape().to_vec();
        assert_eq!(shape, [12, 4]);
    }
}

/// Frames of 64x48 pixels, 25 a second, `scan` as in the header of Y4M.
fn y4m(frame_count: usize, scan: char) -> Vec<u8> {
    let mut clip = format!("YUV4MPEG2 W64 H48 F25:1 I{scan} A1:1 C420jpeg\n").into_bytes();
    for frame in 0..frame_count {
        clip.extend_from_slice(b"FRAME\n");
        clip.extend((0..64 * 48).map(|at| (16 + (at + 5 * frame) % 200) as u8));
        clip.extend([128; 2 * 32 * 24]);
    }
    clip
}

fn make_fifo(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Runs `foveate extract` on `clip` into the folder `out`.
fn extract(place: &Place, clip: &Path, arguments: &[&str]) -> Outcome {
    let out = place.path("out");
    // Left by an earlier run.
    let _ = fs::remove_dir_all(&out);
    let fixed = ["extract", clip.to_str().unwrap(), "--out", out.to_str().unwrap()];
    place.foveate(&[&fixed, arguments].concat()).finish()
}

/// The field `frame_seq` of `frames.npy`.
fn frame_numbers(folder: &Path) -> Vec<u64> {
    column(folder, "frame_seq")
}

/// A field of 8 bytes of `frames.npy`.
fn column(folder: &Path, name: &str) -> Vec<u64> {
    let bytes = fs::read(folder.join("frames.npy")).unwrap();
    let mut rest = &bytes[..];
    let header = npyz::NpyHeader::from_reader(&mut rest).unwrap();
    let npyz::DType::Record(fields) = header.dtype() else { panic!("not records") };
    let sizes = fields.iter().map(|field| (field.name.clone(), field.dtype.num_bytes().unwrap()));
    let sizes: Vec<_> = sizes.collect();
    let at = sizes.iter().take_while(|(field, _)| field != name).map(|(_, size)| size).sum::<usize>();
    let row = sizes.iter().map(|(_, size)| size).sum();
    let number = |row: &[u8]| u64::from_le_bytes(row[at..at + 8].try_into().unwrap());
    rest.chunks_exact(row).map(number).collect()
}
