//! Sources open only what the configuration names, and their errors say what a server does wrong.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_capture::reconnecting::{ReconnectingSource, SourceEvent};
use foveate_capture::{CaptureError, Pace, Source, SourceSpec, TakeResult};
use foveate_core::backoff::Backoff;
use foveate_core::source::Tls;
use foveate_stats::{LossReason, StreamCounters};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use testkit::film::encode;
use testkit::hostile_camera::{
    Conduct, HostileCamera, certificate, jpeg_of_size, other_certificate, playlist, png_of_size,
};
use testkit::wait::HANG;

use crate::specs::{open, pipeline, shorthand};

#[test]
fn playlists_open_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let (fifo, segment) = (place.path().join("fifo"), segment(place.path()));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let trap = HostileCamera::new(Conduct::status(404));
    let (file, fifo_uri, inside) = (uri(&segment), uri(&fifo), trap.address());
    for named in [&file, &fifo_uri, &inside] {
        let camera = HostileCamera::new(Conduct::playlist(&[named]));
        let error = refusal(&shorthand(&camera.address()));
        assert!(
            matches!(&error, CaptureError::Playlist { what, .. } if what.contains(&camera.address())),
            "{named}: {error:?}"
        );
        assert!(error.to_string().contains("an HLS playlist"), "{error}");
        assert!(error.to_string().contains("`follow_addresses = true`"), "{error}");
        let local = place.path().join("local.m3u8");
        fs::write(&local, playlist(&[named])).unwrap();
        let error = refusal(&shorthand(local.to_str().unwrap()));
        assert!(matches!(error, CaptureError::Playlist { .. }), "{named}: {error:?}");
        assert_eq!(error.exit_code(), 78);
    }
    let camera = HostileCamera::new(Conduct::playlist(&[&file]));
    // An element that makes its own source.
    let text = format!("uridecodebin uri={} ! appsink name=frames", camera.address());
    let error = refusal(&pipeline(&text));
    assert!(matches!(error, CaptureError::Playlist { .. }), "{error:?}");
    assert_eq!(trap.requests(), [""; 0]);
    let writer = File::options().write(true).custom_flags(libc_nonblock()).open(&fifo);
    assert_eq!(writer.unwrap_err().raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    // It would have worked.
    let follows = SourceSpec { follow_addresses: true, ..shorthand(&camera.address()) };
    take_frame(&mut open(&follows).unwrap());
}

#[test]
fn manifests_of_dash_and_smooth_streaming_open_nothing_else() {
    let trap = HostileCamera::new(Conduct::status(404));
    let dash = format!(
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT2S\" profiles=\"urn:mpeg:dash:profile:isoff-main:2011\"><Period>\
         <AdaptationSet mimeType=\"video/mp4\"><Representation id=\"1\" bandwidth=\"1\"><BaseURL>{}</BaseURL>\
         </Representation></AdaptationSet></Period></MPD>",
        trap.address()
    );
    let smooth = "<?xml version=\"1.0\"?><SmoothStreamingMedia MajorVersion=\"2\" MinorVersion=\"0\" Duration=\"1\">\
                  </SmoothStreamingMedia>";
    for (media, body, name) in [
        ("application/dash+xml", dash.as_str(), "a DASH manifest"),
        ("application/vnd.ms-sstr+xml", smooth, "a Smooth Streaming manifest"),
    ] {
        // Short texts are not recognised.
        let camera =
            HostileCamera::new(Conduct::body(media, format!("{body}{}", " ".repeat(9000))));
        let error = refusal(&shorthand(&camera.address()));
        assert!(
            matches!(&error, CaptureError::Playlist { playlist, .. } if *playlist == name),
            "{media}: {error:?}"
        );
    }
    assert_eq!(trap.requests(), [""; 0]);
}

#[test]
fn an_endless_playlist_is_refused_at_once() {
    let camera = HostileCamera::new(Conduct::EndlessPlaylist);
    let error = refusal(&shorthand(&camera.address()));
    assert!(matches!(error, CaptureError::Playlist { .. }), "{error:?}");
}

#[test]
fn redirects_stay_on_the_server() {
    let pictures = Conduct::Pictures(Arc::new(jpeg()));
    let other = HostileCamera::new(pictures.clone());
    let camera = HostileCamera::new(Conduct::redirect(&other.address()));
    for text in [
        format!("souphttpsrc location={} ! decodebin ! appsink name=frames", camera.address()),
        format!("uridecodebin uri={} ! appsink name=frames", camera.address()),
    ] {
        let error = refusal(&pipeline(&text));
        assert!(matches!(error, CaptureError::Redirected { .. }), "{error:?}");
    }
    let error = refusal(&shorthand(&camera.address()));
    assert!(
        matches!(&error, CaptureError::Redirected { to } if *to == other.address()),
        "{error:?}"
    );
    assert!(error.to_string().contains("follow_addresses"), "{error}");
    assert_eq!(other.requests(), [""; 0]);
    let follows = SourceSpec { follow_addresses: true, ..shorthand(&camera.address()) };
    take_frame(&mut open(&follows).unwrap());
    // A loop ends.
    camera.change(Conduct::redirect("/again"));
    let error = refusal(&shorthand(&camera.address()));
    assert!(matches!(error, CaptureError::Redirected { .. }), "{error:?}");
    assert!(camera.requests().contains(&"GET /again HTTP/1.1".to_owned()));
}

#[test]
fn a_redirect_on_the_same_server_is_followed() {
    let camera = HostileCamera::new(Conduct::RedirectOnce {
        location: "moved?x=1".to_owned(),
        then: Arc::new(Conduct::Pictures(Arc::new(jpeg()))),
    });
    let address = camera.address();
    for spec in [
        shorthand(&address),
        pipeline(&format!("souphttpsrc location={address} ! decodebin ! appsink name=frames")),
        pipeline(&format!("uridecodebin uri={address} ! appsink name=frames")),
    ] {
        take_frame(&mut open(&spec).unwrap());
    }
    let followed = camera.requests();
    let followed = followed.iter().filter(|line| *line == "GET /moved?x=1 HTTP/1.1");
    assert_eq!(followed.count(), 3);
}

#[test]
fn an_rtsp_redirect_to_another_server_opens_nothing() {
    let trap = HostileCamera::new(Conduct::Silence);
    for method in ["DESCRIBE", "OPTIONS", "PLAY"] {
        let headers = format!("Location: {}\r\n", trap.address_by("rtsp"));
        let camera = HostileCamera::new(Conduct::RtspAnswer { method, status: 302, headers });
        let spec =
            SourceSpec { caps_timeout: Duration::from_secs(3), ..shorthand(&camera.address()) };
        let error = refusal(&spec);
        assert!(
            matches!(&error, CaptureError::Redirected { to } if *to == trap.address_by("rtsp"))
                || method != "DESCRIBE",
            "{method}: {error:?}"
        );
        assert_eq!(trap.requests(), [""; 0], "{method}");
    }
}

#[test]
fn statuses_of_servers_are_told_and_counted_as_unreachable() {
    for (status, text) in [
        (401, "user and password"),
        (403, "user and password"),
        (404, "does not exist"),
        (500, "answers 500"),
        (503, "answers 503: it is starting, or has too many viewers"),
    ] {
        let web = HostileCamera::new(Conduct::status(status));
        let rtsp = HostileCamera::new(Conduct::RtspAnswer {
            method: "DESCRIBE",
            status,
            headers: String::new(),
        });
        for camera in [web, rtsp] {
            let error = refusal(&shorthand(&camera.address())).to_string();
            assert!(error.contains(text) && error.contains(&camera.address()), "{error}");
            assert_eq!(loss_of(&shorthand(&camera.address())), LossReason::Unreachable, "{error}");
        }
    }
}

#[test]
fn servers_that_cannot_be_reached_are_told_apart() {
    let silent = HostileCamera::new(Conduct::status(204));
    let place = silent.address_by("x").replace("x://", "").replace("/stream", "");
    drop(silent);
    for (source, text) in [
        (format!("http://{place}/"), format!("{place} refuses the connection")),
        (format!("https://{place}/"), format!("{place} refuses the connection")),
        (format!("rtsp://{place}/"), format!("{place} refuses the connection")),
        (
            "http://no-such-camera.invalid/".to_owned(),
            "unknown host \"no-such-camera.invalid\"".to_owned(),
        ),
        (
            "rtsp://no-such-camera.invalid/".to_owned(),
            "unknown host \"no-such-camera.invalid\"".to_owned(),
        ),
    ] {
        let error = refusal(&shorthand(&source));
        assert!(matches!(error, CaptureError::Unreachable { .. }), "{source}: {error:?}");
        assert!(error.to_string().contains(&text), "{source}: {error}");
        assert_eq!(loss_of(&shorthand(&source)), LossReason::Unreachable, "{source}");
    }
}

#[test]
fn certificates_are_verified_unless_the_configuration_says_otherwise() {
    let pictures = Conduct::Pictures(Arc::new(jpeg()));
    let camera = HostileCamera::with_tls(pictures);
    let with = |tls: Tls, source: &str| SourceSpec { tls, ..shorthand(source) };
    for tls in [Tls::Verify, Tls::CaFile(other_certificate())] {
        let error = refusal(&with(tls.clone(), &camera.address()));
        assert!(
            matches!(&error, CaptureError::Certificate { reason, .. } if reason.contains("no known authority")),
            "{tls:?}: {error:?}"
        );
        assert!(error.to_string().contains("set `tls`"), "{error}");
        assert_eq!(loss_of(&with(tls, &camera.address())), LossReason::Unreachable);
    }
    for tls in [Tls::Insecure, Tls::CaFile(certificate())] {
        take_frame(&mut open(&with(tls, &camera.address())).unwrap());
    }
    let rtsp = HostileCamera::with_tls(Conduct::RtspAnswer {
        method: "DESCRIBE",
        status: 404,
        headers: String::new(),
    });
    for (tls, text) in [
        (Tls::Verify, "is not trusted: no known authority has signed it"),
        (Tls::CaFile(other_certificate()), "is not trusted: no known authority has signed it"),
        // As far as its answer.
        (Tls::Insecure, "does not exist"),
        (Tls::CaFile(certificate()), "does not exist"),
    ] {
        let error = refusal(&with(tls.clone(), &rtsp.address())).to_string();
        assert!(error.contains(text), "{tls:?}: {error}");
    }
    let no_file = with(Tls::CaFile("/no/such/file.pem".into()), &camera.address());
    let error = Source::check(&no_file, HANG).unwrap_err();
    assert!(matches!(error, CaptureError::CaFile { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 78);
}

#[test]
fn cmyk_pictures_are_named() {
    let cmyk = fs::read(testkit::repository().join("tests/data/cmyk.jpg")).unwrap();
    let contents = [Conduct::Pictures(Arc::new(cmyk.clone())), Conduct::body("image/jpeg", cmyk)];
    for conduct in contents {
        let camera = HostileCamera::new(conduct);
        let error = refusal(&shorthand(&camera.address()));
        assert!(error.to_string().contains("CMYK"), "{error}");
        assert!(error.to_string().contains(&camera.address()), "{error}");
        assert_eq!(loss_of(&shorthand(&camera.address())), LossReason::Unreadable);
    }
}

#[test]
fn pictures_beyond_max_pixels_are_not_decoded() {
    let (jpeg, png) = (jpeg_of_size(&jpeg(), 30_000, 30_000), png_of_size(16_384, 16_384));
    for conduct in [
        Conduct::Pictures(Arc::new(jpeg.clone())),
        Conduct::body("image/jpeg", jpeg),
        Conduct::body("image/png", png),
    ] {
        let camera = HostileCamera::new(conduct);
        let error = refusal(&shorthand(&camera.address()));
        assert!(matches!(error, CaptureError::TooManyPixels { .. }), "{error:?}");
        assert!(error.to_string().contains("`max_pixels`"), "{error}");
    }
    let mut small = shorthand("test");
    small.max_pixels = 100;
    let error = refusal(&small);
    assert!(matches!(error, CaptureError::TooManyPixels { .. }), "{error:?}");
}

#[test]
fn a_picture_without_an_end_is_given_up() {
    let camera = HostileCamera::new(Conduct::EndlessPart);
    let error = refusal(&SourceSpec { max_pixels: 10_000_000, ..shorthand(&camera.address()) });
    assert!(matches!(error, CaptureError::EndlessPicture { mebibytes: 9.., .. }), "{error:?}");
}

#[test]
fn a_web_server_that_sends_something_else_is_tried_again() {
    let pictures = Conduct::Pictures(Arc::new(jpeg()));
    let local = place_of_sound();
    for wrong in [
        Conduct::body("text/plain", "it is starting\n".repeat(500)),
        Conduct::body("application/json", "{\"state\": \"starting\"}"),
        Conduct::body("text/html", "<!DOCTYPE html><html></html>"),
        Conduct::body("application/pdf", [&b"%PDF-1.4\n"[..], &[b'x'; 9000]].concat()),
        Conduct::body("audio/x-wav", fs::read(local.path().join("sound.wav")).unwrap()),
        Conduct::playlist(&["segment.ts"]),
        Conduct::status(503),
    ] {
        let camera = HostileCamera::new(wrong.clone());
        let (mut source, _) = reconnecting(&shorthand(&camera.address()));
        match next(&mut source) {
            SourceEvent::Lost(_) => {}
            other => panic!("{wrong:?}: {other:?}"),
        }
        camera.change(pictures.clone());
        loop {
            match next(&mut source) {
                SourceEvent::Frame(_) => break,
                SourceEvent::Lost(_) => {}
                other => panic!("{wrong:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn malformed_addresses_are_refused_without_a_connection() {
    for address in ["http://::1:80/", "rtsp://[fe80::1", "https://", "rtsp://user:MARKER@:554/"] {
        for spec in [
            shorthand(address),
            pipeline(&format!("souphttpsrc location={address} ! appsink name=frames")),
        ] {
            let error = Source::check(&spec, HANG).unwrap_err();
            let is_named = matches!(error, CaptureError::InvalidAddress { .. });
            assert!(is_named || error.to_string().contains("location"), "{address}: {error:?}");
            assert_eq!(error.exit_code(), 78);
            assert!(!error.to_string().contains("MARKER"), "{error}");
        }
        assert!(
            matches!(refusal(&shorthand(address)), CaptureError::InvalidAddress { .. }),
            "{address}"
        );
    }
    Source::check(&shorthand("http://[::1]:80/"), HANG).unwrap();
    Source::check(&shorthand("rtsp://[fe80::1]/main"), HANG).unwrap();
}

/// Until it is given up, its memory is not bounded: see `SECURITY.md`.
#[test]
fn an_endless_rtsp_body_leaves_other_streams_alone() {
    for conduct in [Conduct::EndlessDescription, Conduct::EndlessPlay] {
        let camera = HostileCamera::new(conduct);
        let mut other = open(&shorthand("test")).unwrap();
        let hostile =
            SourceSpec { caps_timeout: Duration::from_secs(1), ..shorthand(&camera.address()) };
        let mut hostile = Source::start(&hostile, &Arc::default()).unwrap();
        let mut frames = 0;
        let ended = loop {
            match hostile.next_frame(Duration::ZERO) {
                TakeResult::TimedOut => take_frame(&mut other),
                ended => break ended,
            }
            frames += 1;
        };
        assert!(matches!(ended, TakeResult::Ended(_)), "{ended:?}");
        assert!(5 < frames, "{frames} frames of the other stream");
        // Its connection ends first, so that nothing goes on reading.
        drop(camera);
        drop(hostile);
        take_frame(&mut other);
    }
}

fn refusal(spec: &SourceSpec) -> CaptureError {
    match open(spec) {
        Ok(_) => panic!("{:?} was not refused", spec.source),
        Err(error) => error,
    }
}

fn take_frame(source: &mut Source) {
    match source.next_frame(HANG) {
        TakeResult::Frame(_) => {}
        other => panic!("{other:?} instead of a frame"),
    }
}

/// The reason that is counted for the first loss.
fn loss_of(spec: &SourceSpec) -> LossReason {
    let (mut source, counters) = reconnecting(spec);
    let started = Instant::now();
    loop {
        match source.next_event(Duration::from_millis(20)) {
            SourceEvent::Lost(_) | SourceEvent::Nothing => {}
            other => panic!("{other:?} instead of a loss"),
        }
        let mut counts = counters.restarts.by_reason();
        if let Some((reason, _)) = counts.find(|(_, count)| 0 < *count) {
            return reason;
        }
        assert!(started.elapsed() < HANG, "no loss is counted");
    }
}

fn reconnecting(spec: &SourceSpec) -> (ReconnectingSource, Arc<StreamCounters>) {
    let counters = Arc::<StreamCounters>::default();
    let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(20), 1);
    let spec = SourceSpec { pace: Pace::Realtime, ..spec.clone() };
    (ReconnectingSource::with_pauses(&spec, &Arc::default(), &counters, pauses), counters)
}

fn next(source: &mut ReconnectingSource) -> SourceEvent {
    let started = Instant::now();
    loop {
        match source.next_event(Duration::from_millis(20)) {
            SourceEvent::Nothing => assert!(started.elapsed() < HANG, "nothing happens"),
            news => return news,
        }
    }
}

/// A small picture.
fn jpeg() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("picture.jpg");
    encode(&path, "videotestsrc num-buffers=1 ! video/x-raw,width=64,height=48 ! jpegenc");
    fs::read(path).unwrap()
}

/// A segment of a playlist.
fn segment(place: &Path) -> std::path::PathBuf {
    let path = place.join("segment.ts");
    let video = "videotestsrc num-buffers=25 ! video/x-raw,width=160,height=120,framerate=25/1";
    encode(&path, &format!("{video} ! openh264enc ! h264parse ! mpegtsmux"));
    path
}

fn place_of_sound() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    encode(&place.path().join("sound.wav"), "audiotestsrc num-buffers=20 ! wavenc");
    place
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn libc_nonblock() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap()
}
