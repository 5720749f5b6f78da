//! The tokens that a reader gets from the real `foveated` are those of the naive definition, byte for byte and
//! field for field: every format, both backends, several streams and views, and across whatever happens to a stream.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use foveate::client::{Client, Next};
use foveate_config::{SourceChoice, ViewConfig};
use foveate_control::ClientExt as _;
use foveate_core::backend::BackendKind;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_daemon::stream::ServedView;
use foveate_ring::{TokenFrameBuf, TokenRecord};
use rustix::process::Signal;
use testkit::daemon::{Daemon, Feed, Follower, Place};
use testkit::film::{Film, raw_bytes, raw_pipeline};
use testkit::naive::{OwnedFrame, Random};
use testkit::scene::{bt601, fed, random_film, stream, view, with_vulkan};
use testkit::wait::until;

/// Every format at an odd size, each with another colorimetry, and some sizes at which something ends.
const KINDS: [(PixelFormat, Extent, &str); 12] = [
    (PixelFormat::Nv12, Extent::new(127, 95), "bt709"),
    (PixelFormat::Nv12, Extent::new(160, 96), "1:4:0:0"),
    (PixelFormat::I420, Extent::new(97, 129), "bt2020"),
    (PixelFormat::I420, Extent::new(33, 1), "bt601"),
    (PixelFormat::Yuy2, Extent::new(131, 67), "1:3:5:1"),
    (PixelFormat::Yuy2, Extent::new(5, 3), "smpte240m"),
    (PixelFormat::Rgbx, Extent::new(101, 79), ""),
    (PixelFormat::Bgrx, Extent::new(64, 64), ""),
    (PixelFormat::Rgba, Extent::new(17, 13), "2:1:0:0"),
    (PixelFormat::Bgra, Extent::new(15, 120), "sRGB"),
    (PixelFormat::Gray8, Extent::new(255, 33), ""),
    (PixelFormat::Gray8, Extent::new(1, 1), ""),
];

#[test]
fn every_format_gives_the_naive_tokens_on_the_cpu() {
    assert_every_format_gives_the_naive_tokens("backend = 'cpu'", &[]);
}

#[test]
fn every_format_gives_the_naive_tokens_on_vulkan() {
    with_vulkan(|backend| {
        assert_every_format_gives_the_naive_tokens(backend, &[("FOVEATE_VALIDATION", "1")]);
    });
}

#[test]
fn every_format_gives_naive_tokens_with_gpu_detection() {
    with_vulkan(|backend| {
        let backend = format!("{backend}\nchange = {{ on = 'gpu' }}");
        assert_every_format_gives_the_naive_tokens(&backend, &[("FOVEATE_VALIDATION", "1")]);
    });
}

#[test]
fn views_have_their_own_layout_format_and_fixation() {
    let views = [
        view("main", ""),
        view(
            "model",
            "layout = 'foveal'\npatch = 14\nbudget = 400\ndtype = 'bf16'\nnormalisation = 'siglip'",
        ),
        view(
            "corner",
            "layout = 'foveal'\nbudget = 40\ndtype = 'f32'\nnormalisation = 'clip'\ngaze.policy = 'fixed'\ngaze.x = 0.9\ngaze.y = 1.0",
        ),
        view("overview", "layout = 'uniform'\nbudget = 30\ndtype = 'u8'"),
        view(
            "sharp",
            "layout = 'foveal'\nbudget = 60\ne0 = 3.5\nnormalisation = 'unit'\nslots = 3",
        ),
        view(
            "own",
            "budget = 1\ndtype = 'f32'\nnormalisation = { mean = [0.1, 0.2, 0.3], std = [0.4, 0.5, 0.6] }",
        ),
    ];
    let names = ["main", "model", "corner", "overview", "sharp", "own"];
    with_vulkan(|vulkan| {
        for backend in ["backend = 'cpu'", vulkan] {
            let film = random_film(PixelFormat::I420, Extent::new(201, 151), bt601(), 4);
            let place = Place::new();
            let mut feed = Feed::open(&place.path("camera"));
            let settings = format!("{backend}\n{}", views.concat());
            let daemon = place.daemon(&stream("camera", &fed(&place, "camera", &film), &settings));
            let names = names.map(|name| format!("camera/{name}"));
            let mut followers = names.each_ref().map(|name| daemon.subscribe(name));
            for frame_seq in 1..=film.len() as u64 {
                feed.send(&raw_bytes(film.frame(frame_seq)));
                for (name, follower) in names.iter().zip(&mut followers) {
                    assert_next_shows(&film, &daemon, name, follower, frame_seq);
                }
            }
            let places = followers.each_ref().map(|follower| {
                (follower.frame.head.fixation().x, follower.frame.head.fixation().y)
            });
            let middle = (100.5, 75.5);
            assert_eq!(places, [middle, middle, (180.875, 151.0), middle, middle, middle]);
            let counts = followers.each_ref().map(|follower| follower.frame.records.len());
            assert_eq!(counts[5], 1, "{counts:?}");
            drop(feed);
            assert_ends_by_itself(daemon);
        }
    });
}

#[test]
fn without_a_configuration_the_test_scene_is_camera_main() {
    let place = Place::new();
    let process = place.foveated(&[], &[]);
    process.stderr.wait_for(" serving ");
    let mut client = Client::connect(&place.socket()).unwrap();
    let streams = client.list().unwrap();
    let views: Vec<_> = streams.iter().flat_map(|stream| &stream.views).collect();
    assert_eq!(views.len(), 1);
    let subscription = client.subscribe(&views[0].name, false).unwrap();
    assert_eq!(subscription.view().to_string(), "camera/main");
    let mut follower = Follower::new(subscription);
    let seen = [(); 3].map(|()| follower.next_frame().clone());

    // Where the machine is late, pictures are left out: their times tell which these are.
    let picture_of =
        |frame: &TokenFrameBuf| 1 + (frame.head.stamp.pts_ns.unwrap() * 30).div_ceil(1_000_000_000);
    let parameters = [("live", "false".to_owned()), ("frames", picture_of(&seen[2]).to_string())];
    let film = Film::decoded_with(SourceChoice::Shorthand("test".to_owned()), &parameters);
    let segment = follower.segment();
    for mut frame in seen.clone() {
        frame.head.stamp.frame_seq = picture_of(&frame);
        let frame = &frame;
        // It decides on its own where it looks.
        let view = ServedView::try_from(&ViewConfig::default()).unwrap();
        let tokens = frame.records.iter().map(TokenRecord::token).collect();
        let plan = TokenPlan { patch_side: view.spec.format.patch_side, tokens };
        film.assert_texels(&view, segment, frame, &plan);
    }
    process.signal(Signal::TERM);
    process.finish().assert_clean_exit(0);
}

/// With layers and without, since both make instances.
#[test]
fn streams_start_lose_their_gpu_and_stop_at_once() {
    with_vulkan(|vulkan| {
        for validation in ["0", "1"] {
            let config: String = (0..6)
                .map(|number| {
                    format!("[[stream]]\nname = 'camera{number}'\nsource = 'test'\n{vulkan}\n")
                })
                .collect();
            let environment =
                [("FOVEATE_VALIDATION", validation), ("FOVEATE_INJECT_DEVICE_LOSS", "20")];
            let place = Place::new();
            let daemon = place.daemon_in(&config, &environment);
            until("every stream has lost its GPU", || {
                (0..6).all(|number| {
                    let listing = daemon.listing(&format!("camera{number}"));
                    listing.counts.backend_fallbacks > 0
                })
            });
            daemon.stop();
        }
    });
}

#[test]
fn losing_and_regaining_a_device_changes_no_byte() {
    with_vulkan(|vulkan| {
        let film = random_film(PixelFormat::Nv12, Extent::new(133, 97), bt601(), 1000);
        let place = Place::new();
        let mut feed = Feed::open(&place.path("camera"));
        let settings = format!(
            "{vulkan}\n{}{}",
            view("main", "budget = 20"),
            view("wide", "layout = 'uniform'\nbudget = 20")
        );
        let config = stream("camera", &fed(&place, "camera", &film), &settings);
        // More than warming and filling take. Every device that is opened is lost after so many.
        let daemon = place.daemon_in(&config, &[("FOVEATE_INJECT_DEVICE_LOSS", "6")]);
        let names = ["camera/main", "camera/wide"];
        let mut followers = names.map(|name| daemon.subscribe(name));
        let mut epochs = Vec::new();
        let (mut reasons, mut frame_seq) = (BTreeSet::new(), 0);
        while daemon.listing("camera").counts.backend_returns < 2 {
            frame_seq += 1;
            feed.send(&raw_bytes(film.frame(frame_seq)));
            for (name, follower) in names.iter().zip(&mut followers) {
                assert_next_shows(&film, &daemon, name, follower, frame_seq);
            }
            let listing = daemon.listing("camera");
            let backend = listing.backend.unwrap();
            if frame_seq == 1 {
                assert_eq!(backend.kind, BackendKind::Vulkan);
                epochs = listing.views.iter().map(|view| view.epoch).collect();
            }
            reasons.insert(backend.reason);
            // A camera with 50 frames a second: the pauses before the tries are real.
            thread::sleep(Duration::from_millis(20));
        }
        let lost = |nth: &str| {
            reasons.iter().any(|reason| {
                reason.contains("device lost during")
                    && reason.ends_with(&format!(" s ({nth} time)"))
            })
        };
        assert!(lost("1st") && lost("2nd"), "{reasons:?}");
        // The counts come first.
        until("the return is listed", || {
            daemon.listing("camera").backend.unwrap().kind == BackendKind::Vulkan
        });
        let output = place.foveate(&["ls", "--json"]).finish();
        output.assert_clean_exit(0);
        let listing: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let listed = &listing["streams"][0];
        let counts =
            ["fallbacks", "attempts", "returns"].map(|of| &listed[&format!("backend_{of}")]);
        assert_eq!(counts, [2, 2, 2], "{listed}");
        assert_eq!(listed["backend"]["kind"], "vulkan", "{listed}");
        let views = daemon.listing("camera").views;
        assert_eq!(epochs, views.iter().map(|view| view.epoch).collect::<Vec<_>>());
        drop(feed);
        let log = assert_ends_by_itself(daemon);
        let said =
            ["continuing on the CPU", "back on the GPU"].map(|words| log.matches(words).count());
        assert_eq!(said, [2, 2], "{log}");
    });
}

#[test]
fn a_size_change_starts_a_new_segment() {
    with_vulkan(|vulkan| {
        for backend in ["backend = 'cpu'", vulkan] {
            let place = Place::new();
            let parts = [
                Film::random(frame(PixelFormat::Nv12, 64, 48), 3, &mut Random(1)),
                Film::random(frame(PixelFormat::Rgba, 33, 121), 3, &mut Random(2)),
                Film::random(frame(PixelFormat::Nv12, 100, 40), 3, &mut Random(3)),
            ];
            let (mut feeds, mut branches) = (Vec::new(), String::new());
            for (index, part) in parts.iter().enumerate() {
                let name = format!("part{index}");
                feeds.push(Some(Feed::open(&place.path(&name))));
                let source = part.frame(1);
                let text = raw_pipeline(&place.path(&name), source.format, source.extent, "");
                branches.push_str(&text.replace("! appsink name=frames", "! c. "));
            }
            let source = format!("pipeline = 'concat name=c ! appsink name=frames {branches}'");
            let settings = format!("{backend}\n{}", view("main", "budget = 6"));
            let daemon = place.daemon(&stream("camera", &source, &settings));
            let mut follower = daemon.subscribe("camera/main");
            let whole = Film::new(
                parts.iter().flat_map(|part| (1..=3).map(|seq| part.frame(seq).clone())).collect(),
            );
            let mut epochs = Vec::new();
            for frame_seq in 1..=whole.len() as u64 {
                let part = usize::try_from(frame_seq - 1).unwrap() / 3;
                feeds[part].as_mut().unwrap().send(&raw_bytes(whole.frame(frame_seq)));
                if frame_seq % 3 == 1 {
                    assert_eq!(follower.next(), Next::NewSegment, "before frame {frame_seq}");
                    epochs.push(follower.segment().epoch);
                }
                assert_eq!(follower.next(), Next::Frame { missed: 0 }, "frame {frame_seq}");
                assert_eq!(follower.frame.head.stamp.frame_seq, frame_seq);
                let segment = follower.segment();
                whole.assert_shows(daemon.plan("camera/main"), segment, &follower.frame);
                if frame_seq % 3 == 0 {
                    feeds[part] = None;
                }
            }
            let len = epochs.len();
            epochs.sort_unstable();
            epochs.dedup();
            assert_eq!((len, epochs.len()), (3, 3));
            assert_eq!(follower.end(), "end of file");
            assert_ends_by_itself(daemon);
        }
    });
}

fn assert_every_format_gives_the_naive_tokens(backend: &str, environment: &[(&str, &str)]) {
    let place = Place::new();
    let (mut feeds, mut films, mut config) = (Vec::new(), Vec::new(), String::new());
    for (index, (format, extent, colorimetry)) in KINDS.into_iter().enumerate() {
        let name = format!("s{index}");
        let path = place.path(&name);
        feeds.push(Feed::open(&path));
        let color = color_of(format, colorimetry);
        films.push(random_film(format, extent, color, 4));
        let source = format!("pipeline = '{}'", raw_pipeline(&path, format, extent, colorimetry));
        let main = view("main", "patch = 14\nbudget = 12\ndtype = 'u8'");
        // The last stream waits for its first frame until the others have ended.
        let settings = format!("{backend}\ncaps_timeout_ms = 120000\n{main}");
        config.push_str(&stream(&name, &source, &settings));
    }
    let daemon = place.daemon_in(&config, environment);
    for (index, (film, mut feed)) in films.into_iter().zip(feeds).enumerate() {
        let name = format!("s{index}/main");
        let mut follower = daemon.subscribe(&name);
        for frame_seq in 1..=film.len() as u64 {
            feed.send(&raw_bytes(film.frame(frame_seq)));
            assert_next_shows(&film, &daemon, &name, &mut follower, frame_seq);
        }
        drop(feed);
        assert_eq!(follower.end(), "end of file");
    }
    let warnings = assert_ends_by_itself(daemon);
    assert!(!warnings.contains(" WARN "), "{warnings}");
}

/// The next frame of `view` is frame `frame_seq` of the film.
fn assert_next_shows(
    film: &Film,
    daemon: &Daemon<'_>,
    view: &str,
    follower: &mut Follower,
    frame_seq: u64,
) {
    follower.next_frame();
    assert_eq!(follower.frame.head.stamp.frame_seq, frame_seq, "{view}");
    let segment = follower.segment();
    assert_eq!(format!("{}/{}", segment.stream, segment.view), view);
    film.assert_shows(daemon.plan(view), segment, &follower.frame);
}

/// Every stream is over, and so the daemon is. Returns what it logged.
fn assert_ends_by_itself(daemon: Daemon<'_>) -> String {
    let outcome = daemon.process.finish();
    outcome.assert_clean_exit(0);
    outcome.stderr
}

/// A random frame in the colours of caps without colorimetry.
fn frame(format: PixelFormat, width: u32, height: u32) -> OwnedFrame {
    let color = if format.is_rgb() { ColorTransform::IDENTITY } else { bt601() };
    OwnedFrame::random(format, Extent::new(width, height), color, &mut Random(width.into()))
}

/// What GStreamer's documentation says that a colorimetry means.
fn color_of(format: PixelFormat, colorimetry: &str) -> ColorTransform {
    let (limited, full) = (ColorRange::Limited, ColorRange::Full);
    match colorimetry {
        "bt601" => bt601(),
        "bt709" => ColorTransform::from_ycbcr(ColorMatrix::Bt709, limited),
        "bt2020" => ColorTransform::from_ycbcr(ColorMatrix::Bt2020, limited),
        "smpte240m" => ColorTransform::from_ycbcr(ColorMatrix::Smpte240m, limited),
        "1:4:0:0" => ColorTransform::from_ycbcr(ColorMatrix::Bt601, full),
        "1:3:5:1" => ColorTransform::from_ycbcr(ColorMatrix::Bt709, full),
        "2:1:0:0" => ColorTransform::from_rgb(limited),
        _ if format.is_rgb() => ColorTransform::IDENTITY,
        _ => ColorTransform::from_ycbcr(ColorMatrix::Bt601, full),
    }
}
