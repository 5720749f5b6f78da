//! Every source that cannot be used is refused by what is wrong with it, with the way out and an exit code.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use foveate_capture::{CaptureError, End, Pace, Source, SourceSpec, TakeResult};
use foveate_core::geometry::extent::Extent;
use testkit::film::take_all;
use testkit::wait::HANG;

use crate::specs::{open, pipeline, shorthand};

#[test]
fn broken_text_is_refused_with_the_text() {
    for text in [
        "",
        "   ",
        "videotestsrc !",
        "videotestsrc ! ! appsink name=frames",
        "videotestsrc pattern=none-such ! appsink name=frames",
        "videotestsrc nonesuch=1 ! appsink name=frames",
    ] {
        let error = refusal(text);
        assert!(matches!(error, CaptureError::Parse { .. }), "{text:?}: {error:?}");
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn an_unknown_element_is_named_with_its_package() {
    for (element, package) in [
        ("vah264dec", "gstreamer1.0-plugins-bad"),
        ("x264enc", "gstreamer1.0-plugins-ugly"),
        ("nosuchelement", "gst-inspect-1.0"),
        ("nvarguscamerasrc", "nvidia-l4t-gstreamer"),
        ("nvv4l2decoder", "nvidia-l4t-gstreamer"),
        ("nvstreammux", "DeepStream"),
        ("nvcudah264enc", "gstreamer1.0-plugins-bad, and NVIDIA's driver"),
    ] {
        let error = refusal(&format!("videotestsrc ! {element} ! appsink name=frames"));
        assert!(
            matches!(&error, CaptureError::UnknownElement { element: named, .. } if named == element),
            "{error:?}"
        );
        assert!(error.to_string().contains(package), "{error}");
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn a_pipeline_without_the_appsink_is_told_what_it_has() {
    for (text, found) in [
        ("videotestsrc ! fakesink", "`fakesink name=fakesink"),
        ("videotestsrc ! appsink name=frame", "`appsink name=frame`"),
        ("videotestsrc ! fakesink name=frames", "`fakesink name=frames`"),
        ("videotestsrc", "no sink"),
    ] {
        let error = refusal(text);
        assert!(
            matches!(&error, CaptureError::NoAppsink { found: told } if told.starts_with(found.trim_end_matches('`'))),
            "{text}: {error:?}"
        );
        assert!(error.to_string().contains("appsink name=frames"), "{error}");
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn what_is_not_raw_video_is_refused_by_its_caps() {
    for (text, caps) in [
        ("videotestsrc num-buffers=3 ! jpegenc ! appsink name=frames", "image/jpeg"),
        ("audiotestsrc num-buffers=3 ! appsink name=frames", "audio/x-raw"),
    ] {
        let error = refusal(text);
        assert!(
            matches!(&error, CaptureError::NotRawVideo { offered } if offered.starts_with(caps)),
            "{text}: {error:?}"
        );
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn memory_of_a_device_is_refused_with_what_fetches_it() {
    for (memory, remedy) in [("memory:NVMM", "nvvidconv"), ("memory:NoSuchMemory", "system memory")]
    {
        let error = refusal(&format!(
            "fakesrc num-buffers=2 sizetype=fixed sizemax=10000 ! capsfilter caps=\"video/x-raw({memory}),format=NV12,width=64,height=48,framerate=30/1\" ! appsink name=frames"
        ));
        assert!(
            matches!(&error, CaptureError::DeviceMemory { memory: named, .. } if named == memory),
            "{error:?}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn absurd_sizes_are_refused_before_a_frame_is_made() {
    for (width, height) in [(16_385, 2), (2, 16_385), (0, 0), (0, 16)] {
        let error = refusal(&format!(
            "fakesrc num-buffers=2 ! capsfilter caps=video/x-raw,format=GRAY8,width={width},height={height},framerate=30/1 ! appsink name=frames"
        ));
        assert_eq!(error, CaptureError::Extent { extent: Extent::new(width, height) });
    }
}

#[test]
fn caps_that_never_come_are_waited_for_no_longer_than_asked() {
    let spec = SourceSpec {
        caps_timeout: Duration::from_secs(1),
        ..pipeline("appsrc ! appsink name=frames")
    };
    let error = open(&spec).unwrap_err();
    assert!(matches!(&error, CaptureError::CapsTimeout { seconds: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("caps_timeout_ms"));
    assert_eq!(error.exit_code(), 69);
}

/// Buffers arrive, but none is a frame: the message says why.
#[test]
fn buffers_that_are_no_frames_are_told_where_none_was_one() {
    let text = "fakesrc sizetype=fixed sizemax=1000 ! identity sleep-time=10000 ! \
        capsfilter caps=video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1 ! appsink name=frames";
    let spec = SourceSpec { caps_timeout: Duration::from_secs(1), ..pipeline(text) };
    let error = open(&spec).unwrap_err().to_string();
    assert!(
        error.contains("the frames that arrived were refused: ") && error.contains("1000 bytes"),
        "{error}"
    );
}

#[test]
fn a_source_that_ends_before_its_first_frame_has_none() {
    let error = refusal("fakesrc num-buffers=0 ! appsink name=frames");
    assert_eq!(error, CaptureError::NoFrames { what: "the source".to_owned() });
}

#[test]
fn every_frame_of_a_live_source_is_refused() {
    let spec = SourceSpec { pace: Pace::EveryFrame, ..shorthand("test") };
    assert_eq!(open(&spec).unwrap_err(), CaptureError::EveryFrameLive);
}

#[test]
fn files_and_cameras_that_are_not_there_are_named() {
    let missing = |what: &str| CaptureError::Missing { what: what.to_owned() };
    assert_eq!(open(&shorthand("/no/such/clip.mp4")).unwrap_err(), missing("/no/such/clip.mp4"));
    assert_eq!(
        open(&shorthand("file:///no/such/clip.mp4")).unwrap_err(),
        missing("/no/such/clip.mp4")
    );
    let camera = open(&shorthand("/dev/video987")).unwrap_err();
    assert_eq!(camera, CaptureError::NoCamera { device: "/dev/video987".to_owned() });
    let by_id = open(&shorthand("/dev/v4l/by-id/usb-none")).unwrap_err();
    assert_eq!(by_id, CaptureError::NoCamera { device: "/dev/v4l/by-id/usb-none".to_owned() });
    let in_text = refusal("v4l2src device=/dev/video987 ! appsink name=frames");
    assert_eq!(in_text, camera);
    let in_text = refusal("filesrc location=/no/such/clip.mp4 ! decodebin ! appsink name=frames");
    assert_eq!(in_text, missing("/no/such/clip.mp4"));
    assert_eq!(camera.exit_code(), 69);
}

#[test]
fn a_damaged_file_is_no_video() {
    let file = tempfile::Builder::new().suffix(".mp4").tempfile().unwrap();
    for bytes in [
        vec![],
        b"not a video at all, only a line of text\n".repeat(100),
        (0..9000_u32).map(|i| ((i * i) >> 3).to_le_bytes()[0]).collect(),
    ] {
        std::fs::write(file.path(), bytes).unwrap();
        let error = open(&shorthand(file.path().to_str().unwrap())).unwrap_err();
        assert!(
            matches!(
                &error,
                CaptureError::Corrupt { .. }
                    | CaptureError::NoFrames { .. }
                    | CaptureError::MissingDecoder { .. }
            ),
            "{error:?}"
        );
        assert_eq!(error.exit_code(), 69);
    }
}

#[test]
fn what_nothing_decodes_is_named_with_a_package() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = b"gimp xcf v003\0".iter().chain(&[0; 4000]).copied().collect::<Vec<_>>();
    std::fs::write(file.path(), bytes).unwrap();
    let error = open(&shorthand(file.path().to_str().unwrap())).unwrap_err();
    assert!(matches!(error, CaptureError::MissingDecoder { .. }), "{error:?}");
    assert!(error.to_string().contains("gstreamer1.0-"), "{error}");
}

#[test]
fn a_file_without_permission_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let spec = shorthand(file.path().to_str().unwrap());
    // As the user who may read its plugins.
    foveate_capture::hints::gstreamer_version().unwrap();
    let as_nobody = std::thread::spawn(move || {
        // Root may read everything. On Linux this changes only the calling thread.
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_uid(nobody).unwrap();
        }
        // Its thread inherits the user.
        Source::check(&spec, HANG).unwrap_err()
    });
    let error = as_nobody.join().unwrap();
    assert!(matches!(error, CaptureError::Permission { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 69);
}

#[test]
fn an_unreachable_server_error_hides_the_password() {
    // Port 9 of this machine: nothing listens.
    let error = open(&shorthand("rtsp://user:MARKER@127.0.0.1:9/MARKER@stream")).unwrap_err();
    assert!(matches!(error, CaptureError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 69);
    assert!(!format!("{error} {error:?}").contains("MARKER"), "{error:?}");
}

#[test]
fn what_is_no_source_is_told_the_forms() {
    for text in ["", "ftp://user:MARKER@host/clip"] {
        let error = open(&shorthand(text)).unwrap_err();
        assert!(matches!(error, CaptureError::UnknownSource { .. }), "{text:?}: {error:?}");
        assert!(!error.to_string().contains("MARKER"));
        assert_eq!(error.exit_code(), 78);
    }
}

#[test]
fn parameters_that_do_not_fit_are_named() {
    let with = |text: &str, parameters: &[(&str, &str)]| {
        let parameters: BTreeMap<_, _> =
            parameters.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        match open(&SourceSpec { parameters, ..pipeline(text) }).unwrap_err() {
            CaptureError::Parameter { name, .. } => name,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with("filesrc location=${location}", &[]), "location");
    assert_eq!(
        with("filesrc location=${location}", &[("location", "a"), ("locatoin", "b")]),
        "locatoin"
    );
    assert_eq!(with("filesrc location=${location}", &[("location", "a\n! filesink")]), "location");
    assert_eq!(with("filesrc location=${location}", &[("location", "")]), "location");
    assert_eq!(with("filesrc location=${location", &[]), "${location");
}

#[test]
fn an_error_in_mid_stream_ends_the_source_with_its_reason() {
    let spec =
        pipeline("videotestsrc num-buffers=50 ! identity error-after=5 ! appsink name=frames");
    let mut source = open(&SourceSpec { pace: Pace::EveryFrame, ..spec }).unwrap();
    let end = take_all(&mut source, |_| {});
    assert!(matches!(end, End::Failed(CaptureError::Failed { .. })), "{end:?}");
}

#[test]
fn without_waiting_the_refusal_is_the_end() {
    let spec = pipeline("videotestsrc ! nosuchelement ! appsink name=frames");
    let mut source = Source::start(&spec, &Arc::default()).unwrap();
    let taken = source.next_frame(HANG);
    assert!(
        matches!(taken, TakeResult::Ended(End::Failed(CaptureError::UnknownElement { .. }))),
        "{taken:?}"
    );
}

fn refusal(text: &str) -> CaptureError {
    match open(&pipeline(text)) {
        Ok(_) => panic!("{text:?} was not refused"),
        Err(error) => error,
    }
}
