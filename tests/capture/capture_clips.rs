//! Which file is a clip, whatever its name and its folder, and which of its video tracks is taken.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use foveate_capture::{CaptureError, Pace, Source, SourceChoice, SourceSpec, TakeResult};
use testkit::film::{encode, run};
use testkit::wait::HANG;

#[test]
fn any_file_name_plays() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip");
    encode(&clip, &format!("{} ! matroskamux", track(64, 3)));
    for name in ["a\nb.mkv", "ends in a backslash\\", "tab\t\\", "d'(x) ;%20!.mkv\n", "\u{1}%"] {
        let path = folder.path().join(name);
        fs::copy(&clip, &path).unwrap();
        assert_eq!(first_width(&shorthand(&path)).unwrap(), 64, "{name:?}");
    }
    let picture = folder.path().join("one");
    encode(&picture, &track(48, 1));
    let strange = folder.path().join("one\n.jpg");
    fs::rename(&picture, &strange).unwrap();
    assert_eq!(first_width(&shorthand(&strange)).unwrap(), 48);
    // In a folder of pictures, too.
    fs::remove_file(&clip).unwrap();
    assert_eq!(first_width(&shorthand(folder.path())).unwrap(), 48);
}

#[test]
fn a_file_below_dev_is_a_clip() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("clip.mkv");
    encode(&path, &format!("{} ! matroskamux", track(64, 3)));
    assert_eq!(first_width(&shorthand(&path)).unwrap(), 64);
    fs::remove_file(&path).unwrap();
    let error = first_width(&shorthand(&path)).unwrap_err();
    assert!(matches!(error, CaptureError::Missing { .. }), "{error:?}");
}

/// A shell passes such a path for `<(...)`.
#[test]
fn an_open_pipe_below_dev_is_a_clip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.mkv");
    encode(&path, &format!("{} ! matroskamux", track(64, 3)));
    let (reader, mut writer) = std::io::pipe().unwrap();
    let feeder = thread::spawn(move || {
        // Who has seen the first frame hangs up.
        let _ = writer.write_all(&fs::read(path).unwrap());
    });
    let pipe = format!("/dev/fd/{}", reader.as_raw_fd());
    assert_eq!(first_width(&shorthand(Path::new(&pipe))).unwrap(), 64);
    drop(reader);
    feeder.join().unwrap();
}

#[test]
fn another_device_is_not_a_camera() {
    let error = first_width(&shorthand(Path::new("/dev/null"))).unwrap_err();
    assert_eq!(error, CaptureError::NotACamera { device: "/dev/null".to_owned() });
}

#[test]
fn the_home_directory_is_not_expanded_and_the_error_says_so() {
    let error = first_width(&shorthand(Path::new("~/clip.mp4"))).unwrap_err();
    assert!(error.to_string().contains("home directory in full"), "{error}");
}

#[test]
fn the_video_track_of_the_largest_pictures_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    for muxer in ["matroskamux", "qtmux"] {
        let path = muxed(folder.path(), muxer, &[&track(32, 5), &track(96, 5), &track(64, 5)]);
        let spec = shorthand(&path);
        assert_eq!(first_width(&spec).unwrap(), 96, "{muxer}");
        for (number, width) in [(1, 32), (2, 96), (3, 64)] {
            let chosen = SourceSpec { track: Some(number), ..spec.clone() };
            assert_eq!(first_width(&chosen).unwrap(), width, "{muxer}, track {number}");
        }
        let error = first_width(&SourceSpec { track: Some(4), ..spec }).unwrap_err();
        assert_eq!(error, CaptureError::NoTrack { track: 4, count: 3 });
    }
}

#[test]
fn a_cover_is_not_taken_for_the_video() {
    let folder = tempfile::tempdir().unwrap();
    let video = "videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48,framerate=25/1 ! vp8enc deadline=1";
    let path = muxed(folder.path(), "matroskamux", &[&track(640, 1), video]);
    assert_eq!(first_width(&shorthand(&path)).unwrap(), 64);
    let cover = SourceSpec { track: Some(1), ..shorthand(&path) };
    assert_eq!(first_width(&cover).unwrap(), 640);
}

/// A part of a description that makes JPEG frames.
fn track(width: u32, frames: u32) -> String {
    format!(
        "videotestsrc num-buffers={frames} ! video/x-raw,width={width},height=48,framerate=25/1 ! jpegenc"
    )
}

fn muxed(folder: &Path, muxer: &str, tracks: &[&str]) -> std::path::PathBuf {
    let path = folder.join(muxer);
    let tracks: String = tracks.iter().map(|track| format!(" {track} ! queue ! mux.")).collect();
    run(&format!("{muxer} name=mux ! filesink location={}{tracks}", path.display()));
    path
}

fn shorthand(path: &Path) -> SourceSpec {
    let source = SourceChoice::Shorthand(path.to_str().unwrap().to_owned());
    SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("test", source) }
}

/// The width of the first frame.
fn first_width(spec: &SourceSpec) -> Result<u32, CaptureError> {
    let mut source = Source::open(spec, &Arc::default())?;
    match source.next_frame(HANG) {
        TakeResult::Frame(frame) => Ok(frame.view().unwrap().extent().width),
        other => panic!("{other:?}"),
    }
}
