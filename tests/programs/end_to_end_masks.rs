//! What a mask covers leaves the daemon nowhere: not in shared memory, tokens, pictures, recordings or pages.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::time::Duration;

use foveate::client::Next;
use foveate_control::{AdminRequest, MaskListing, StreamState, order};
use foveate_core::color::ColorTransform;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::mask::Mask;
use foveate_tool::recording::playback::{Playback, PlaybackItem};
use testkit::daemon::{Daemon, Feed, Place, Process};
use testkit::film::{raw_bytes, raw_pipeline};
use testkit::naive::{OwnedFrame, Random};
use testkit::scene::{bt601, stream, view, with_vulkan};
use testkit::wait::until;
use testkit::web_server::Web;

/// Odd sides, and corners of the mask within a pixel and within a sample of chroma.
const EXTENT: Extent = Extent::new(131, 77);
const MASK: &str =
    "[[stream.mask]]\nname = 'secret'\npoints = [[0.2, 0.3], [0.7, 0.3], [0.7, 0.8], [0.2, 0.8]]\n";
const BOX: &str = "0.2,0.3,0.7,0.8";

/// The pixels that the secret is in, columns and rows: all of it is covered.
const SECRET: [std::ops::Range<u32>; 2] = [28..90, 24..61];

/// Luma around the secret, which is brighter: what is brighter shows a part of it, on whatever level.
const AROUND: u8 = 90;

/// Slots of each ring.
const SLOTS: u64 = 4;

/// Places where the secret is searched for.
const PLACES: [&str; 5] = ["memory", "page", "picture", "recording", "tokens"];

const FORMATS: [PixelFormat; 5] =
    [PixelFormat::Nv12, PixelFormat::I420, PixelFormat::Yuy2, PixelFormat::Rgb, PixelFormat::Gray8];

#[test]
fn masked_pixels_leak_nowhere_on_the_cpu() {
    for format in FORMATS {
        assert_hidden(format, "backend = 'cpu'");
    }
}

#[test]
fn masked_pixels_leak_nowhere_on_a_device() {
    // Frames are filled before that, so one format with planes and one without are enough.
    with_vulkan(|backend| {
        for format in [PixelFormat::Nv12, PixelFormat::Rgb] {
            assert_hidden(format, backend);
        }
    });
}

/// And without a mask it is found wherever it is looked for.
fn assert_hidden(format: PixelFormat, backend: &str) {
    for (mask, found) in [(MASK, &[][..]), ("", &PLACES)] {
        let place = Place::new();
        let mut scene = Scene::open(&place, format, &format!("{backend}\n{mask}{}", views("")));
        scene.send(SLOTS + 1);
        assert_eq!(scene.leaks(), found.iter().copied().collect(), "{}", format.name());
        scene.daemon.stop();
    }
}

/// Neither a threshold, which leaves small differences where they are, nor a view that rests keeps what was there before.
#[test]
fn a_runtime_mask_erases_earlier_frames() {
    let change = "change = { threshold = 40 }";
    with_backends(|backend| {
        let place = Place::new();
        let settings = format!("{backend}\n{change}\n{}", views("max_fps = 0.01"));
        let mut scene = Scene::open(&place, PixelFormat::Nv12, &settings);
        scene.send(SLOTS + 1);
        assert!(scene.leaks().contains("memory"), "it is seen before");
        let set = place.foveate(&["mask", "camera", "face", "--box", BOX]);
        assert_eq!(scene.send_until(set), "camera: face\n");
        // As many frames as a ring has slots.
        scene.send(SLOTS);
        assert_eq!(scene.leaks(), BTreeSet::new());
        let seen: Vec<_> = scene.masks().into_iter().map(|mask| mask.name).collect();
        assert_eq!(seen, ["face"]);

        let cleared = place.foveate(&["mask", "camera", "face", "--clear"]);
        assert_eq!(scene.send_until(cleared), "camera: no masks\n");
        scene.send(SLOTS);
        assert!(scene.leaks().contains("tokens"), "it is seen again");
        scene.daemon.stop();
    });
}

#[test]
fn a_mask_of_the_configuration_is_only_changed_there() {
    let place = Place::new();
    let settings = format!("backend = 'cpu'\n{MASK}{}", views(""));
    let mut scene = Scene::open(&place, PixelFormat::Gray8, &settings);
    scene.send(1);
    for arguments in [&["secret", "--clear"][..], &["secret", "--box", "0,0,0.1,0.1"]] {
        let refused = place.foveate(&[&["mask", "camera"], arguments].concat()).finish();
        refused.assert_clean_exit(69);
        assert!(refused.message().contains("belongs to the configuration"), "{refused:#?}");
    }
    let cleared = place.foveate(&["mask", "camera", "--clear"]);
    assert_eq!(scene.send_until(cleared), "camera: secret\n");
    let set = place.foveate(&["mask", "camera", "corner", "0,0", "0.25,0", "0,0.5"]);
    assert_eq!(scene.send_until(set), "camera: secret, corner\n");
    let shown = place.foveate(&["mask", "camera"]).finish();
    let rows: Vec<_> = shown.stdout.lines().map(str::trim).collect();
    assert_eq!(
        rows,
        [
            "MASK    SET BY         CORNERS",
            "secret  configuration  0.2,0.3 0.7,0.3 0.7,0.8 0.2,0.8",
            "corner  operator       0,0 0.25,0 0,0.5",
        ]
    );
    let listed = place.foveate(&["ls", "-v"]).finish().stdout;
    assert!(listed.contains("  masks    secret, corner (operator)\n"), "{listed}");

    for (arguments, code, part) in [
        (&["nobody", "--clear"][..], 69, "no mask \"nobody\""),
        (&["corner", "0,0", "0.5,0.5"], 2, "2 corners (expected 3 to 64)"),
        (&["corner", "0,0", "0.5,0.5", "1"], 2, "expected 2 numbers"),
        (&["corner", "--box", "0,0,2,1"], 2, "corner 2,0 is outside"),
        (&["corner", "--box", "-0.4,0,0.2,1"], 2, "corner -0.4,0 is outside"),
        (&["Corner", "--box", "0,0,1,1"], 2, "a name of 1 to 63"),
        (&["corner", "--box", "0.5,0,0.5,1"], 2, "on one line"),
        (&["corner", "0.1,0.1", "0.3,0.3", "0.7,0.7"], 2, "on one line"),
    ] {
        let refused = place.foveate(&[&["mask", "camera"], arguments].concat()).finish();
        assert_eq!(refused.code, Some(code), "{refused:#?}");
        assert!(refused.stderr.contains(part), "{refused:#?}");
    }
    let twice = AdminRequest::Mask {
        stream: "camera".to_owned(),
        clear: Vec::new(),
        clear_all: false,
        set: vec![
            Mask::rectangle("face", [0.0, 0.0, 0.1, 0.1]),
            Mask::rectangle("face", [0.5, 0.5, 0.6, 0.6]),
        ],
    };
    let refused = order(&place.socket(), &twice).unwrap_err().to_string();
    assert!(refused.contains("the same name"), "{refused}");
    let gone = place.foveate(&["mask", "door", "--clear"]).finish();
    gone.assert_clean_exit(69);
    assert!(gone.message().contains("unknown stream \"door\""), "{gone:#?}");
    scene.daemon.stop();
}

/// Its readers keep their segments. Masks set at run time stay even if the stream restarts.
#[test]
fn a_reload_takes_masks_over() {
    let place = Place::new();
    let config = |settings: &str| {
        let source = "pipeline = 'videotestsrc is-live=true pattern=white ! \
            video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1 ! appsink name=frames'";
        stream("camera", source, &format!("backend = 'cpu'\n{settings}{}", views("")))
            .replace("every-frame", "realtime")
    };
    let daemon = place.daemon(&config(""));
    let mut follower = daemon.subscribe("camera/main");
    let white = follower.next_frame().pixels.iter().filter(|texel| 200 < **texel).count();
    place.foveate(&["mask", "camera", "face", "--box", "0,0,0.25,0.25"]).finish();

    place.write("foveate.toml", config(MASK));
    let reloaded = place.foveate(&["reload"]).finish();
    assert_eq!(reloaded.stdout, "adjusted camera\n");
    let names = |daemon: &Daemon<'_>| -> Vec<_> {
        daemon.listing("camera").detail.masks.into_iter().map(|mask| mask.name).collect()
    };
    assert_eq!(names(&daemon), ["secret", "face"]);
    // In the same segment; frames from before may still be in its ring.
    let black = |pixels: &[u8]| pixels.iter().filter(|texel| **texel == 0).count();
    let hidden = until_frame(&mut follower, |pixels| white / 4 < black(pixels));

    place.write(
        "foveate.toml",
        config(MASK).replace("backend = 'cpu'", "backend = 'cpu'\nmax_fps = 40"),
    );
    let reloaded = place.foveate(&["reload"]).finish();
    assert_eq!(reloaded.stdout, "changed  camera\n");
    until("it is live again", || daemon.listing("camera").state == StreamState::Live);
    assert_eq!(names(&daemon), ["secret", "face"]);
    let mut follower = daemon.subscribe("camera/main");
    assert_eq!(black(&follower.next_frame().pixels), hidden, "from the first frame on");

    // What cannot be used changes nothing, and the answer says why.
    place.write("foveate.toml", config(&MASK.replace("0.8", "1.8")));
    let refused = place.foveate(&["reload"]).finish();
    refused.assert_clean_exit(78);
    assert!(refused.message().contains("stream.mask.points"), "{refused:#?}");
    assert_eq!(names(&daemon), ["secret", "face"]);

    place.write("foveate.toml", config("max_fps = 40\n"));
    assert_eq!(place.foveate(&["reload"]).finish().stdout, "adjusted camera\n");
    assert_eq!(names(&daemon), ["face"]);
    until_frame(&mut follower, |pixels| black(pixels) < hidden);
    daemon.stop();
}

fn with_backends(test: impl Fn(&str)) {
    test("backend = 'cpu'");
    with_vulkan(test);
}

/// The first frame has it.
#[test]
fn a_mask_may_be_set_before_the_first_frame() {
    let place = Place::new();
    let settings = format!("backend = 'cpu'\n{}", views(""));
    let mut scene = Scene::open(&place, PixelFormat::Gray8, &settings);
    let set = place.foveate(&["mask", "camera", "face", "--box", BOX]).finish();
    set.assert_clean_exit(0);
    assert_eq!(
        set.stdout,
        "camera: face, from the next frame on; until then views keep what they have: the stream is starting\n"
    );
    scene.send(1);
    assert_eq!(scene.leaks(), BTreeSet::new());
    scene.daemon.stop();
}

/// Waits for a frame of the view whose texels are as wanted, and returns how many are black.
fn until_frame(
    follower: &mut testkit::daemon::Follower,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> usize {
    loop {
        match follower.next() {
            Next::Frame { .. } if is_wanted(&follower.frame.pixels) => {
                return follower.frame.pixels.iter().filter(|texel| **texel == 0).count();
            }
            Next::Frame { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Three views: one whose tokens are the pixels, one that sees the secret on coarse levels, and one that reads the coarse level and
/// the features of tiles.
fn views(settings: &str) -> String {
    let common =
        format!("slots = {SLOTS}\npatch = 16\ndtype = 'u8'\nnormalisation = 'none'\n{settings}");
    [
        view("main", &format!("layout = 'uniform'\nbudget = 60\n{common}")),
        view(
            "coarse",
            &format!("budget = 9\n{common}\ngaze = {{ policy = 'fixed', x = 0.9, y = 0.1 }}"),
        ),
        view("scored", &format!("budget = 30\n{common}\ngaze = {{ policy = 'relevance' }}")),
    ]
    .concat()
}

/// A stream whose frames the test sends.
struct Scene<'a> {
    place: &'a Place,
    daemon: Daemon<'a>,
    feed: Feed,
    format: PixelFormat,
    sent: u64,
}

impl<'a> Scene<'a> {
    fn open(place: &'a Place, format: PixelFormat, settings: &str) -> Self {
        let path = place.path("camera");
        let feed = Feed::open(&path);
        let colorimetry =
            if format.is_rgb() || format == PixelFormat::Gray8 { "" } else { "bt601" };
        let source = format!("pipeline = '{}'", raw_pipeline(&path, format, EXTENT, colorimetry));
        let daemon = place.daemon(&stream("camera", &source, settings));
        Self { place, daemon, feed, format, sent: 0 }
    }

    /// Sends frames and waits until they are through.
    fn send(&mut self, count: u64) {
        for _ in 0..count {
            self.sent += 1;
            self.feed.send(&raw_bytes(&picture(self.format, self.sent)));
            let sent = self.sent;
            until("the frame is through", || {
                let counts = self.daemon.listing("camera").counts;
                counts.frames_published + counts.frames_rested == sent
            });
        }
    }

    /// Sends frames until `process` ends, and returns what it wrote.
    fn send_until(&mut self, process: Process) -> String {
        let id = process.id();
        let is_over = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        while !is_over() {
            self.send(1);
            std::thread::sleep(Duration::from_millis(5));
        }
        let outcome = process.finish();
        outcome.assert_clean_exit(0);
        outcome.stdout
    }

    fn masks(&self) -> Vec<MaskListing> {
        self.daemon.listing("camera").detail.masks
    }

    /// The places where the secret, or a part of it, is found.
    fn leaks(&mut self) -> BTreeSet<&'static str> {
        let found = [
            ("memory", self.is_in_memory()),
            ("tokens", self.is_in_tokens()),
            ("picture", self.is_in_picture()),
            ("recording", self.is_in_recording()),
            ("page", self.is_in_page()),
        ];
        found.into_iter().filter(|(_, is_found)| *is_found).map(|(name, _)| name).collect()
    }

    /// In any memory that the daemon can share: eight neighbouring pixels of the secret.
    fn is_in_memory(&self) -> bool {
        let signs: HashSet<[u8; 8]> =
            (1..=self.sent).flat_map(|frame| signs(&picture(self.format, frame))).collect();
        let folder = format!("/proc/{}/fd", self.daemon.process.id());
        let mut searched = 0;
        let mut is_found = false;
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            if target.to_string_lossy().starts_with("/memfd:") {
                let bytes = fs::read(entry.path()).unwrap();
                searched += usize::from(target.to_string_lossy().contains("foveate:camera/"));
                is_found |= bytes.windows(8).any(|bytes| signs.contains(bytes));
            }
        }
        assert!(3 <= searched, "each view has a ring: {searched}");
        is_found
    }

    /// In the texels that a reader gets, on any level.
    fn is_in_tokens(&self) -> bool {
        ["main", "coarse", "scored"].into_iter().any(|view| {
            let mut follower = self.daemon.subscribe(&format!("camera/{view}"));
            is_bright(&follower.next_frame().pixels)
        })
    }

    /// In what `foveate snap` draws. Between tokens it is smooth, and may overshoot a little.
    fn is_in_picture(&self) -> bool {
        let out = self.place.path("pictures");
        let out_text = out.to_str().unwrap();
        self.place
            .foveate(&["snap", "camera/main", "--out", out_text])
            .finish()
            .assert_clean_exit(0);
        let decoder = png::Decoder::new(std::io::BufReader::new(
            fs::File::open(out.join("rebuilt.png")).unwrap(),
        ));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        pixels.iter().any(|value| AROUND + 60 < *value)
    }

    /// In what `foveate record` writes of the newest frame, and of the next.
    fn is_in_recording(&mut self) -> bool {
        let path = self.place.path(&format!("run-{}.mcap", self.sent));
        let recorder =
            self.place.foveate(&["record", "camera/main", "--mcap", path.to_str().unwrap()]);
        until("the first chunk is written", || {
            fs::metadata(&path).is_ok_and(|file| 4096 < file.len())
        });
        recorder.signal(rustix::process::Signal::INT);
        recorder.finish().assert_clean_exit(0);
        let (mut playback, mut frames, mut is_found) = (Playback::new([path]), 0, false);
        while let Some(played) = playback.advance(&|| false).unwrap() {
            if let PlaybackItem::Frame { frame, .. } = played {
                frames += 1;
                is_found |= is_bright(&frame.pixels);
            }
        }
        assert!(0 < frames);
        is_found
    }

    /// Whether the secret is in the data of a page.
    fn is_in_page(&self) -> bool {
        let web = Web::start(&self.place.socket(), &[]);
        let mut page = web.page();
        page.watch("camera/main");
        let packet = page.frame();
        is_bright(&page.texels(&packet))
    }
}

/// Whether a texel shows more than what is around the secret.
fn is_bright(texels: &[u8]) -> bool {
    texels.iter().any(|texel| AROUND + 2 < *texel)
}

/// Frame `number`: the secret is noise that is another one in each, and around it all is gray.
fn picture(format: PixelFormat, number: u64) -> OwnedFrame {
    let color = match format {
        PixelFormat::Rgb | PixelFormat::Gray8 => ColorTransform::IDENTITY,
        _ => bt601(),
    };
    let mut frame = OwnedFrame::uniform(format, EXTENT, color, 128);
    let pixel_bytes = match format {
        PixelFormat::Yuy2 => 2,
        PixelFormat::Rgb => 3,
        _ => 1,
    };
    let mut random = Random(number);
    let (luma, stride) = frame.plane_mut(0);
    for (x, y) in (0..EXTENT.height).flat_map(|y| (0..EXTENT.width).map(move |x| (x, y))) {
        let is_secret = SECRET[0].contains(&x) && SECRET[1].contains(&y);
        let value = if is_secret { 180 + random.byte() % 50 } else { AROUND };
        let first = y as usize * stride + x as usize * pixel_bytes;
        let samples = if format == PixelFormat::Rgb { 3 } else { 1 };
        luma[first..first + samples].fill(value);
    }
    frame
}

/// Each eight neighbouring pixels of a row of the secret, as red is in a token.
fn signs(frame: &OwnedFrame) -> Vec<[u8; 8]> {
    let [columns, rows] = SECRET;
    rows.flat_map(|y| {
        let row: Vec<_> = columns.clone().map(|x| frame.rgb(x, y)[0]).collect();
        row.windows(8).map(|part| part.try_into().unwrap()).collect::<Vec<_>>()
    })
    .collect()
}
