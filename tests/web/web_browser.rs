//! The live page in a real browser: what is on the screen, what keys and clicks do, and that nothing grows.

use std::fs;
use std::ops::Range;

use foveate_control::StreamState;
use foveate_core::geometry::fixation::{Fixation, FixationReason};
use foveate_ring::TokenRecord;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::control::Stage;
use testkit::daemon::{Daemon, Feed, Follower, Place, ProcessResources};
use testkit::film::encode;
use testkit::footage;
use testkit::layouts::{self, LayoutFrame, PICTURE};
use testkit::wait::until;
use testkit::web_server::Web;

use crate::browser::{ALT, Browser, SHIFT};

pub(super) const VIEW: &str = "camera/main";

/// Side of the picture of [`STILL`] and [`BALL`], in pixels.
pub(super) const WIDTH: f64 = 320.0;
pub(super) const HEIGHT: f64 = 240.0;

/// A picture that does not change, again and again.
pub(super) const STILL: &str = "videotestsrc is-live=true pattern=colors ! \
    video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! appsink name=frames";

/// A ball that moves.
pub(super) const BALL: &str = "videotestsrc is-live=true pattern=ball ! \
    video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! appsink name=frames";

/// A number that is another one whenever a pixel of a canvas is.
pub(super) const HASH: &str = "(name => { let hash = 7; \
    for (const value of pixelsOf(name)) { hash = (31 * hash + value) | 0; } return hash; })";

/// The bytes of a part of a canvas, without telling the page that it is read.
pub(super) const PIXELS: &str = "globalThis.pixelsOf = (name, x = 0, y = 0, width = 0, height = 0) => { \
    const canvas = document.querySelector('figure .' + name); \
    const copy = new OffscreenCanvas(canvas.width, canvas.height); \
    const context = copy.getContext('2d', { willReadFrequently: true }); \
    context.drawImage(canvas, 0, 0); \
    return context.getImageData(x, y, width || canvas.width, height || canvas.height).data; }; 0";

/// Whether the picture is on the screen.
pub(super) const IS_PAINTED: &str = "document.querySelector('figure').classList.contains('is-painted') \
    && document.querySelector('figure').dataset.state === 'live'";

/// A promise of the page's module for packets, and of a packet.
const IN_PACKETS: &str = "Promise.all([import('/wire.js'), new Promise((done) => { \
    const socket = new WebSocket(`ws://${location.host}/live`); socket.binaryType = 'arraybuffer'; \
    socket.onopen = () => socket.send(JSON.stringify({ op: 'watch', view: 'camera/main' })); \
    socket.onmessage = ({ data }) => { if (typeof data !== 'string') { socket.close(); done(data); } }; \
    })]).then(([wire, data]) => ({ wire, data }))";

/// What becomes of it: the function that reads a packet, and gives its fixations and its records.
const READ_RECORDS: &str = ".then(({ wire, data }) => { const frame = new wire.Frame(); frame.read(data); \
    return { fixations: frame.fixations.map(({ id, x, y }) => `${id} ${x} ${y}`), \
    records: Array.from({ length: frame.count }, (_, at) => [frame.x[at], frame.y[at], frame.sx[at], frame.sy[at], \
    frame.extraWidth[at], frame.extraHeight[at], \
    frame.firstColumn[at], frame.columns[at], frame.firstRow[at], frame.rows[at], frame.group[at], \
    frame.box(at, [0, 0, 0, 0])]) }; })";

#[test]
fn the_picture_changes_with_the_stream() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let mut hashes = Vec::new();
    for _ in 0..4 {
        hashes.push(browser.number(&format!("{HASH}('picture')")).to_string());
        after_frames(&mut browser, 15);
    }
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 4, "the ball moves");
    browser.until("0 < parseFloat(document.querySelector('[data-plot=fps] .value').textContent)");
    assert_eq!(browser.value("document.querySelectorAll('.stream').length"), json!(1));
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn the_page_hatches_masks_at_once() {
    let place = Place::new();
    let configured = config(STILL, "").replace(
        "[[stream.view]]",
        "[[stream.mask]]\nname = 'door'\npoints = [[0, 0], [0.25, 0], [0.25, 0.5], [0, 0.5]]\n[[stream.view]]",
    );
    let daemon = place.daemon(&configured);
    let web = Web::start(&place.socket(), &[]);
    // No other layer.
    let mut browser = opened(&web, "#view=camera/main");
    let mut is_drawn = |x: f64, y: f64, width: f64, height: f64| {
        let scale = "document.querySelector('figure .overlay').width / 320";
        browser.value(&format!(
            "pixelsOf('overlay', ...[{x}, {y}, {width}, {height}].map((side) => Math.round(side * {scale}))) \
             .some((value, index) => index % 4 === 3 && 0 < value)"
        )) == json!(true)
    };
    until("the mask is drawn", || is_drawn(4.0, 4.0, 72.0, 112.0));
    assert!(!is_drawn(84.0, 0.0, 230.0, 240.0), "nothing is drawn beside it");
    let set = place.foveate(&["mask", "camera", "face", "--box", "0.5,0.5,1,1"]).finish();
    set.assert_clean_exit(0);
    until("the other one is drawn", || is_drawn(164.0, 124.0, 150.0, 110.0));
    assert!(!is_drawn(84.0, 0.0, 70.0, 240.0), "nothing is drawn between them");
    // Their texels are black, once the page has the frame that was published with them.
    browser.until(
        "pixelsOf('picture', 170, 130, 100, 80).every((value, index) => index % 4 === 3 || value === 0)",
    );
    daemon.stop();
}

#[test]
fn the_finest_tokens_show_camera_pixels() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, "layout = 'foveal'\n"));
    let mut follower = daemon.subscribe(VIEW);
    follower.next_frame();
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let side = 16;
    let mut compared = 0;
    let pixels = follower.frame.pixels.chunks_exact(3 * side * side);
    for (record, texels) in follower.frame.records.iter().zip(pixels) {
        let is_full = (record.sx, record.extra_width) == (1, 0);
        if !is_full || usize::from(record.columns) != side {
            continue;
        }
        let shown = browser.value(&format!(
            "[...pixelsOf('picture', {}, {}, {side}, {})]",
            record.x, record.y, record.rows
        ));
        let shown: Vec<u64> = serde_json::from_value(shown).unwrap();
        for (at, pixel) in shown.chunks_exact(4).enumerate() {
            for channel in 0..3 {
                assert_eq!(pixel[channel], u64::from(texels[channel * side * side + at]));
            }
        }
        compared += 1;
    }
    assert!(8 < compared, "{compared} tokens at level 0");
    daemon.stop();
}

/// Of a view for a canvas the page keeps the finest tokens of each place, though no frame has all of them.
#[test]
fn the_picture_of_a_canvas_becomes_sharp() {
    let place = Place::new();
    let whole = "[[stream.view]]\nname = 'whole'\nlayout = 'uniform'\nbudget = 300\n";
    let daemon = place.daemon(&config(STILL, &format!("budget = 90\nmemory = 'canvas'\n{whole}")));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/whole");
    browser.value(PIXELS);
    let hash = |browser: &mut Browser| browser.value(&format!("{HASH}('picture')"));
    let sharp = hash(&mut browser);
    browser.value("location.hash = '#view=camera/main'; 0");
    browser.until("document.querySelector('figcaption').textContent.includes('canvas')");
    until("all of it is sharp", || hash(&mut browser) == sharp);
    let mut reader = daemon.subscribe(VIEW);
    reader.next_frame();
    assert!(reader.frame.records.iter().any(|record| 1 < record.sx), "a frame has a part of it");
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn the_page_reads_and_draws_every_layout() {
    let mut browser = Browser::start(1280, 800);
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, mut writer) = shown.serve(&stage);
        let web = Web::start(&stage.path, &[]);
        browser.open(&format!("{}#view=camera/main&boxes&gaze", web.url()));
        browser.until(IS_PAINTED);
        browser.value(PIXELS);
        assert_eq!(
            browser.value(&format!("{IN_PACKETS}{READ_RECORDS}")),
            records_as_read(&shown),
            "{:?}",
            shown.view
        );
        assert_draws(&shown, &mut browser);
        // The legend counts all tokens, under the names of their groups.
        let names = match shown.view.layout.name() {
            "rings" => "Ring 0: ",
            "windows" => "Window 0: ",
            "inset" => "Block 0: ",
            "uniform" => "1:",
            _ => "1:1 ",
        };
        // They are known once the daemon has listed the view.
        let shows = format!("document.getElementById('groups').innerText.startsWith({names:?})");
        browser.until(&shows);
        let legend = browser.value("document.getElementById('groups').innerText");
        let counts = legend
            .as_str()
            .unwrap()
            .split_whitespace()
            .filter_map(|word| word.parse::<usize>().ok());
        assert_eq!(counts.sum::<usize>(), shown.records.len(), "{legend}");

        let moved = shown.moved();
        moved.publish(&mut writer, 2);
        browser.until("document.querySelector('figure').dataset.frame === '2'");
        assert_draws(&moved, &mut browser);
        assert_eq!(browser.complaints, [""; 0]);
        // A page whose server has gone complains that it cannot reach it.
        browser.open("about:blank");
    }
}

#[test]
fn fixations_are_crosses_and_the_first_has_a_ring() {
    let shown = layouts::each().into_iter().find(|shown| 1 < shown.fixations.len()).unwrap();
    let stage = Stage::open();
    let (_port, _writer) = shown.serve(&stage);
    let web = Web::start(&stage.path, &[]);
    let mut browser = opened(&web, "#view=camera/main&gaze");
    let scale = browser.number("document.querySelector('figure .overlay').width")
        / f64::from(layouts::PICTURE.width);
    for (index, fixation) in shown.fixations.iter().enumerate() {
        let is_drawn = |browser: &mut Browser, right: f64, down: f64| {
            let [x, y] = [fixation.x * scale + right, fixation.y * scale + down].map(f64::floor);
            let alpha = format!("pixelsOf('overlay', {x}, {y}, 1, 1)[3]");
            127.0 < browser.number(&alpha)
        };
        for (right, down) in [(0.0, 0.0), (5.0, 0.0), (-5.0, 0.0), (0.0, 5.0), (0.0, -5.0)] {
            assert!(is_drawn(&mut browser, right, down), "{fixation:?}, {right}, {down}");
        }
        assert_eq!(is_drawn(&mut browser, -13.0 * 0.7, 13.0 * 0.7), index == 0, "the ring");
    }
}

#[test]
fn the_page_survives_malformed_packets() {
    let shown = layouts::each().into_iter().next().unwrap();
    let stage = Stage::open();
    let (_port, _writer) = shown.serve(&stage);
    let web = Web::start(&stage.path, &[]);
    let mut browser = opened(&web, "");
    let refused = format!(
        "{IN_PACKETS}.then(({{ wire, data }}) => {{ \
         const pane = (edit) => {{ const copy = data.slice(); const view = new DataView(copy); \
             return wire.paneOf(edit(view, copy) ?? copy); }}; \
         const word = (at, value) => (view) => {{ view.setUint32(at, value, true); }}; \
         const short = (at, value) => (view) => {{ view.setUint16(at, value, true); }}; \
         return [() => undefined, (_, copy) => copy.slice(0, -1), (_, copy) => copy.slice(0, 79), \
             (_, copy) => copy.slice(0, 0), word(0, 0x31575646), word(12, 81), word(12, 0xffffffff), \
             word(16, 1), word(16, 0xffffffff), word(20, 0), word(24, 16385), word(36, 0), word(36, 9), \
             short(6, 0), short(6, 1026), short(72, 129), short(74, 129), \
             (view) => {{ short(72, 1)(view); short(74, 1)(view); }}].map(pane); }})"
    );
    let mut expected = vec![-1; 18];
    expected[0] = 0;
    assert_eq!(browser.value(&refused), json!(expected));
    // Any other bytes behind the sizes: read and drawn without an error, whatever they say.
    let harmless = format!(
        "Promise.all([{IN_PACKETS}, import('/picture.js'), import('/overlay.js')]) \
         .then(([{{ wire, data }}, {{ Picture }}, {{ Overlay }}]) => {{ \
         const canvases = [0, 1].map(() => document.createElement('canvas')); \
         const [picture, overlay] = [new Picture(canvases[0]), new Overlay(canvases[1])]; \
         const shows = {{ boxes: true, changes: true, relevance: true, gaze: true }}; \
         const frame = new wire.Frame(); let state = 7, read = 0; \
         const random = (most) => {{ state = (1664525 * state + 1013904223) >>> 0; return state % most; }}; \
         const records = 80 + 20 + 34 * new DataView(data).getUint32(12, true); \
         for (let round = 0; round < 200; round += 1) {{ \
             const copy = data.slice(); const bytes = new Uint8Array(copy); \
             for (let edits = 1 + random(40); 0 < edits; edits -= 1) {{ bytes[4 + random(records - 4)] = random(256); }} \
             for (let at = 12; at < 40; at += 1) {{ bytes[at] = new Uint8Array(data)[at]; }} \
             [bytes[6], bytes[7]] = new Uint8Array(data, 6, 2); \
             bytes.set(new Uint8Array(data, 72, 4), 72); \
             if (wire.paneOf(copy) < 0) {{ continue; }} \
             frame.read(copy); picture.paint(frame); \
             overlay.draw(frame, ['rings', 'directional', ''][random(3)], shows, {{ path: frame.fixations, targets: frame.fixations }}); \
             read += 1; }} \
         return read; }})"
    );
    assert_eq!(browser.number(&harmless), 200.0);
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn a_click_moves_the_gaze_until_release() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, "[stream.view.gaze]\npolicy = 'saliency'"));
    let mut reader = daemon.subscribe(VIEW);
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let (x, y) = on_screen(&mut browser, 0.75, 0.25);
    browser.click(x, y);
    looks_at(&mut reader, 0.75 * WIDTH, 0.25 * HEIGHT);
    browser.until("!document.getElementById('give-back').disabled");
    // Longer than a lease, and than a policy is silent.
    let deadline_ns = reader.frame.head.stamp.capture_ns + 3_000_000_000;
    while reader.next_frame().head.stamp.capture_ns < deadline_ns {
        let fixation = reader.frame.head.fixation();
        assert!((fixation.x - 0.75 * WIDTH).abs() < 2.0, "it is held: {fixation:?}");
    }
    browser.value("document.querySelector('.surface').focus()");
    for _ in 0..5 {
        browser.press("ArrowLeft");
    }
    looks_at(&mut reader, 0.75 * WIDTH - 5.0 * 0.02 * WIDTH, 0.25 * HEIGHT);
    browser.press("Escape");
    until("the policy looks", || {
        reader.next_frame().head.fixation().reason != FixationReason::Look
    });
    browser.until("document.getElementById('give-back').disabled");
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn the_gaze_follows_a_pointer_that_is_dragged() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, ""));
    let mut reader = daemon.subscribe(VIEW);
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let (x, y) = on_screen(&mut browser, 0.1, 0.5);
    browser.mouse("mousePressed", x, y);
    looks_at(&mut reader, 0.1 * WIDTH, 0.5 * HEIGHT);
    for step in 1..=40 {
        let (x, y) = on_screen(&mut browser, 0.1 + 0.02 * f64::from(step), 0.5);
        browser.mouse("mouseMoved", x, y);
    }
    let (x, y) = on_screen(&mut browser, 0.9, 0.5);
    browser.mouse("mouseReleased", x, y);
    looks_at(&mut reader, 0.9 * WIDTH, 0.5 * HEIGHT);
    daemon.stop();
}

#[test]
fn every_toggle_draws_something_else_over_the_picture() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    // By now all has been quiet for so long that changes have faded.
    after_frames(&mut browser, 20);
    let (hash, pressed) = (format!("{HASH}('overlay')"), "aria-pressed");
    for (key, name) in [("b", "boxes"), ("g", "gaze")] {
        let button = format!("document.querySelector('[data-toggle={name}]')");
        let (before, was) =
            (browser.value(&hash), browser.value(&format!("{button}.getAttribute('{pressed}')")));
        browser.press(key);
        assert_ne!(browser.value(&hash), before, "{name}");
        assert_ne!(browser.value(&format!("{button}.getAttribute('{pressed}')")), was, "{name}");
        browser.value(&format!("{button}.click()"));
        assert_eq!(browser.value(&hash), before, "{name}");
    }
    let (x, y) = on_screen(&mut browser, 0.2, 0.8);
    let before = browser.value(&hash);
    browser.value("document.querySelector('[data-toggle=gaze]').click()");
    browser.click(x, y);
    after_frames(&mut browser, 3);
    assert_ne!(browser.value(&hash), before);
    browser.until("location.hash.includes('view=camera/main') && !location.hash.includes('gaze')");
    browser.reload();
    browser.until(IS_PAINTED);
    let gaze = "document.querySelector('[data-toggle=gaze]').getAttribute('aria-pressed')";
    assert_eq!(browser.value(gaze), "false", "the address of the page keeps what it shows");
    daemon.stop();
}

#[test]
fn changes_are_shown_where_they_are_and_fade() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&changes");
    after_frames(&mut browser, 40);
    // Alpha: nothing where nothing has changed for long, more where something has just now.
    let alphas = alphas(&mut browser);
    assert_eq!(alphas[0], 0);
    assert!(3 < alphas.len(), "steps of fading: {alphas:?}");
    daemon.stop();
}

#[test]
fn relevance_is_shown_where_it_is_not_the_same_as_everywhere() {
    let place = Place::new();
    let still = place.daemon(&config(STILL, "[stream.view.gaze]\npolicy = 'fixed'"));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&relevance");
    assert_eq!(alphas(&mut browser), [0], "with a fixed gaze all places matter equally");
    still.stop();
    browser.until("document.querySelector('figure').dataset.state === 'lost'");
    let moving = place.daemon(&config(BALL, "[stream.view.gaze]\npolicy = 'saliency'"));
    browser.until(IS_PAINTED);
    until("what moves matters more", || 2 < alphas(&mut browser).len());
    moving.stop();
}

#[test]
fn the_page_draws_a_channel_named_in_its_address() {
    let place = Place::new();
    let view = "channels = ['y', 'x']\n[stream.view.gaze]\npolicy = 'relevance'";
    let daemon = place.daemon(&config(STILL, view));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main");
    browser.until("!document.getElementById('channel').hidden");
    let names = "[...document.querySelectorAll('#channel option')].map((option) => option.value)";
    assert_eq!(browser.value(names), json!(["", "y", "x"]));
    assert_eq!(alphas(&mut browser), [0]);
    browser.value(
        "(() => { const select = document.getElementById('channel'); \
         select.value = 'x'; select.dispatchEvent(new Event('change')); })()",
    );
    // The centre of a cell is the share of the width: darker on the left, and the same all the way down.
    let red = |x: f64, y: f64| {
        format!(
            "(() => {{ const canvas = document.querySelector('canvas.overlay'); \
             return canvas.getContext('2d').getImageData({x} * canvas.width, {y} * canvas.height, 1, 1).data[0]; }})()"
        )
    };
    browser.until(&format!("0 < {}", red(0.3, 0.5)));
    let [left, right, below] =
        [(0.1, 0.2), (0.3, 0.2), (0.1, 0.8)].map(|(x, y)| browser.number(&red(x, y)));
    assert!(left < right, "{left} {right}");
    assert_eq!(left, below);
    browser.until("location.hash.includes('channel=x')");
    browser.reload();
    browser.until(IS_PAINTED);
    browser.until(&format!("0 < {}", red(0.3, 0.5)));
    assert_eq!(browser.value("document.getElementById('channel').value"), json!("x"));
    daemon.stop();
}

#[test]
fn the_uniform_comparison_exists_only_while_shown() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, "budget = 200\n"));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let opened = |daemon: &Daemon<'_>| -> Vec<_> {
        let views = daemon.listing("camera").views.into_iter();
        views.filter(|view| view.opened_by.is_some()).collect()
    };
    assert!(opened(&daemon).is_empty());
    browser.press("u");
    browser.until("document.querySelectorAll('figure.is-painted[data-state=live]').length === 2");
    let views = opened(&daemon);
    assert_eq!((views.len(), views[0].layout.as_str(), views[0].budget), (1, "uniform", 200));
    browser.until("document.querySelectorAll('figcaption')[1].textContent.includes('tokens')");
    assert_eq!(browser.value("document.querySelectorAll('.view').length"), json!(1), "not listed");
    let clear = "document.querySelectorAll('figure')[1].getBoundingClientRect().width";
    assert!(200.0 < browser.number(clear), "side by side");
    browser.press("u");
    until("it is closed", || opened(&daemon).is_empty());
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn the_page_shows_why_frames_stop_and_recovers() {
    let place = Place::new();
    let mut feed = Feed::open(&place.path("feed"));
    let pipeline = format!(
        "filesrc location={} blocksize=4608 ! rawvideoparse format=nv12 width=64 height=48 framerate=30/1 \
         ! appsink name=frames",
        place.path("feed").display()
    );
    let settings = config(&pipeline, "");
    let daemon = place.daemon(&settings.replace("backend", "stall_timeout_ms = 500\nbackend"));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = Browser::start(1280, 800);
    browser.open(&format!("{}#view=camera/main", web.url()));
    browser.until("document.querySelector('.veil strong').textContent.includes('first frame')");
    feed.send(&[100; 4608]);
    feed.send(&[100; 4608]);
    browser.until("document.querySelector('figure').classList.contains('is-painted')");
    browser.until("/Stalled for [1-9][0-9]* s/.test(document.querySelector('.veil').innerText)");
    feed.send(&[90; 4608]);
    feed.send(&[90; 4608]);
    browser.until("document.querySelector('figure').dataset.state !== 'starting'");
    daemon.stop();
    browser.until("document.querySelector('figure').dataset.state === 'lost'");
    browser.until("document.getElementById('daemon').textContent.includes('No daemon')");
    let again = place.daemon(&config(BALL, ""));
    browser.until(IS_PAINTED);
    browser.until("document.getElementById('daemon').textContent.includes('foveated')");
    again.process.signal(Signal::KILL);
    browser.until("document.querySelector('figure').dataset.state === 'lost'");
    drop(again);
    let third = place.daemon(&config(BALL, ""));
    browser.until(IS_PAINTED);
    after_frames(&mut browser, 5);
    third.stop();
}

#[test]
fn the_end_of_a_file_stands_in_the_picture() {
    let mut browser = Browser::start(1280, 800);
    let place = Place::new();
    let clip = place.path("clip.avi");
    encode(
        &clip,
        "videotestsrc pattern=ball num-buffers=240 ! video/x-raw,format=I420,width=96,height=64,framerate=30/1 \
         ! avimux",
    );
    let other = config(STILL, "").replace("camera", "other");
    let file = format!("[[stream]]\nname = 'camera'\nsource = '{}'\n", clip.display());
    let daemon = place.daemon(&format!("{file}[[stream.view]]\nname = 'main'\n{other}"));
    let web = Web::start(&place.socket(), &[VIEW]);
    browser.open(&web.url());
    browser.until(IS_PAINTED);
    browser.until("document.querySelector('figure').dataset.state === 'ended'");
    let words = browser.value("document.querySelector('.veil').innerText");
    let listing = daemon.listing("camera");
    assert_eq!(listing.state, StreamState::Ended);
    assert!(!listing.reason.is_empty());
    let (title, reason) = words.as_str().unwrap().split_once('\n').unwrap();
    assert!(title.starts_with("Ended ") && title.ends_with(" s ago"), "{words}");
    assert_eq!(reason, listing.reason);
    browser.until("document.querySelector('.stream').dataset.state === 'ended'");
    // The picture and the words stay when the daemon goes.
    daemon.stop();
    browser.until("document.getElementById('daemon').textContent.includes('No daemon')");
    assert_eq!(browser.value("document.querySelector('figure').dataset.state"), "ended");
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn it_fits_any_screen_and_nothing_jumps() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = Browser::start(1440, 900);
    for (width, height) in
        [(320, 640), (360, 740), (768, 1024), (1024, 768), (1440, 900), (2560, 1300)]
    {
        browser.resize(width, height);
        browser.open(&web.url());
        browser.until(IS_PAINTED);
        browser.press("u");
        browser.until("document.querySelectorAll('figure.is-painted').length === 2");
        let over = "document.documentElement.scrollWidth - innerWidth";
        assert_eq!(browser.number(over), 0.0, "scrolls sideways at {width}");
        browser.press("u");
        // Whatever moved without being asked to since the page was opened.
        let shift = "new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { for (const entry of \
            list.getEntries()) { if (!entry.hadRecentInput) { sum += entry.value; } } }) \
            .observe({ type: 'layout-shift', buffered: true }); setTimeout(() => done(sum), 1500); })";
        let shift = browser.number(shift);
        assert!(shift < 0.05, "{width} x {height} jumps by {shift}");
    }
    daemon.stop();
}

#[test]
fn all_choices_fit_a_small_screen() {
    let place = Place::new();
    let gaze = "channels = ['strokes']\n[stream.view.gaze]\npolicy = 'relevance'";
    let daemon = place.daemon(&config(BALL, gaze));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = Browser::start(320, 640);
    browser.resize(320, 640);
    browser.open(&web.url());
    browser.until(IS_PAINTED);
    browser.until("!document.getElementById('channel').hidden");
    let over = "document.documentElement.scrollWidth - innerWidth";
    assert_eq!(browser.number(over), 0.0);
    daemon.stop();
}

#[test]
fn text_has_contrast_in_light_and_dark() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&boxes&compare&gaze");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let ground = browser.value("getComputedStyle(document.documentElement).backgroundColor");
        let faint = browser.value(include_str!("contrast.js"));
        assert_eq!(faint["faint"], json!([]), "{scheme} on {ground}");
        assert!(20.0 < faint["texts"].as_f64().unwrap(), "{faint}");
    }
    // Also the text over a stalled picture.
    daemon.stop();
    browser.until("document.querySelector('figure').dataset.state === 'lost'");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let faint = browser.value(include_str!("contrast.js"));
        assert_eq!(faint["faint"], json!([]), "{scheme}");
    }
}

#[test]
fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let mut reached = Vec::new();
    for _ in 0..12 {
        browser.press("Tab");
        let at = browser.value(
            "(() => { const at = document.activeElement, style = getComputedStyle(at); \
             return [at.className || at.dataset.toggle || at.id, style.outlineStyle, style.outlineWidth, \
             Boolean(at.getAttribute('aria-label') || at.innerText)]; })()",
        );
        assert!(at[0] == "" || (at[1] == "solid" && at[2] == "2px" && at[3] == true), "{at}");
        reached.push(at[0].as_str().unwrap().to_owned());
    }
    for name in ["skip", "view", "surface", "boxes", "changes", "relevance", "gaze", "compare"] {
        assert!(reached.iter().any(|at| at == name), "{name} is not among {reached:?}");
    }
    daemon.stop();
}

#[test]
fn an_address_without_a_channel_stays_without_one() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&boxes");
    browser.press("c");
    browser.until("location.hash.includes('changes')");
    assert_eq!(browser.value("location.hash"), "#view=camera/main&boxes&changes");
    daemon.stop();
}

#[test]
fn a_screen_reader_hears_only_what_changes() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&boxes");
    after_frames(&mut browser, 30);
    // A browser speaks each change in these.
    let spoken = "new Promise((done) => { const spoken = []; \
        for (const region of document.querySelectorAll('output, [role=status], [role=alert], [aria-live]')) { \
        new MutationObserver(() => spoken.push(region.textContent)) \
        .observe(region, { childList: true, characterData: true, subtree: true }); } \
        setTimeout(() => done(spoken), 3000); })";
    assert_eq!(browser.value(spoken), json!([]));
    daemon.stop();
    browser.until("document.querySelector('figure').dataset.state === 'lost'");
    browser.until("document.querySelector('#daemon').textContent === 'No daemon'");
    browser.until("document.querySelector('.veil').innerText.includes(' for ')");
    browser.until("document.querySelector('.veil').innerText.includes('no daemon listens')");
    assert_eq!(browser.value(spoken), json!([]), "the age of a lost picture is not spoken");
}

#[test]
fn views_and_comparisons_are_named_in_full() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, "layout = 'foveal'"));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&compare");
    browser.until("document.querySelectorAll('figure.is-painted').length === 2");
    let label = browser.value("document.querySelector('.view').getAttribute('aria-label')");
    let shown = browser.value("document.querySelector('.view .facts').textContent");
    assert!(label.as_str().unwrap().starts_with("camera/main "), "{label}");
    assert!(label.as_str().unwrap().contains(", ≤ "), "{label}");
    assert!(shown.as_str().unwrap().contains(", ≤ "), "{shown}");
    browser.until("/no finer grid fits the budget of [0-9]+/.test(document.querySelectorAll('figcaption')[1].textContent)");
    let total = "parseFloat(document.querySelector('[data-plot=stages] .value').textContent)";
    let parts = "[...document.querySelectorAll('[data-plot=stages] .legend b')] \
        .reduce((sum, part) => sum + (parseFloat(part.textContent) || 0), 0)";
    // Each of nine is rounded to two digits.
    browser.until(&format!("0 < {total} && Math.abs({total} - {parts}) < 0.06"));
    daemon.stop();
}

#[test]
fn nothing_grows_while_frames_pass() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    // The history is full before it is measured.
    let web = Web::start(&place.socket(), &["--history", "256KiB"]);
    let mut browser = opened(&web, "#view=camera/main&boxes&changes&relevance&gaze");
    after_frames(&mut browser, 300);
    let (heap, server) = (browser.heap_bytes(), ProcessResources::of(web.id()));
    let nodes = browser.number("document.querySelectorAll('*').length");
    after_frames(&mut browser, 600);
    let (later, server_later) = (browser.heap_bytes(), ProcessResources::of(web.id()));
    // A minute of plots fills meanwhile, and Chromium compiles. What is kept of frames would be more: the records alone of 600 are
    // 4 MB.
    assert!(later < heap + 1.2e6, "the page grew from {heap} to {later} bytes");
    // Connections that the browser made beforehand may go.
    let is_more =
        server.descriptors < server_later.descriptors || server.threads < server_later.threads;
    assert!(!is_more, "{server:?} became {server_later:?}");
    let grown_kb = server_later.memory_kb.saturating_sub(server.memory_kb);
    assert!(grown_kb < 4096, "{server:?} became {server_later:?}");
    assert_eq!(browser.number("document.querySelectorAll('*').length"), nodes);
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

/// Streams that live, and one that cannot be opened.
fn several_streams() -> String {
    let other = config(STILL, "layout = 'foveal'\n").replace("'camera'", "'yard'");
    let lost = "[[stream]]\nname = 'gate'\nsource = 'rtsp://127.0.0.1:9/main'\n[[stream.view]]\nname = 'main'\n";
    format!("{}{other}{lost}", config(BALL, "layout = 'foveal'\nfoveae = 3\n"))
}

/// How many tiles of the start page have a picture.
const PAINTED_TILES: &str = "document.querySelectorAll('.tile.is-painted').length";

#[test]
fn several_streams_start_with_a_grid() {
    let place = Place::new();
    let daemon = place.daemon(&several_streams());
    let web = Web::start(&place.socket(), &[]);
    let mut browser = Browser::start(1280, 800);
    browser.open(&web.url());
    browser.until(&format!("{PAINTED_TILES} === 2"));
    let tile = |name: &str, part: &str| {
        format!(
            "[...document.querySelectorAll('.tile')].find((tile) => \
             tile.querySelector('.name').textContent === '{name}').querySelector('{part}')"
        )
    };
    let names = "[...document.querySelectorAll('.tile .name')].map((name) => name.textContent)";
    assert_eq!(browser.value(names), json!(["camera", "gate", "yard"]));
    let text = |part: String| format!("{part}.textContent");
    browser.until(&format!("{} === 'live'", text(tile("camera", ".state"))));
    browser.until(&format!("/^age [0-9.]+ ms$/.test({})", text(tile("camera", ".age"))));
    browser.until(&format!(
        "/refuses the connection.* trying again in [0-9.]+ s/.test({})",
        text(tile("gate", ".reason"))
    ));
    let listed = place.foveate(&["ls"]).finish();
    let reason = browser.value(&text(tile("gate", ".reason")));
    let reason = reason.as_str().unwrap().split("; trying").next().unwrap();
    assert!(listed.stdout.contains(reason), "{reason} is not in {}", listed.stdout);
    // The pictures are of the streams, and live.
    let hash = format!(
        "(() => {{ const canvas = {}; const copy = new OffscreenCanvas(canvas.width, canvas.height); \
         const context = copy.getContext('2d'); context.drawImage(canvas, 0, 0); \
         return [...context.getImageData(0, 0, canvas.width, canvas.height).data] \
         .reduce((hash, value) => (31 * hash + value) | 0, canvas.width); }})()",
        tile("camera", "canvas")
    );
    let before = browser.number(&hash);
    browser.until(&format!("{hash} !== {before}"));
    assert_eq!(browser.value("getComputedStyle(document.getElementById('panes')).display"), "none");
    // One click opens one, and the way back leads here.
    browser.value(&format!("{}.click()", tile("yard", "button")));
    browser.until(IS_PAINTED);
    assert!(browser.value("location.hash").as_str().unwrap().contains("view=yard/main"));
    browser.value("history.back()");
    browser.until("document.body.classList.contains('is-grid')");
    browser.until(&format!("{PAINTED_TILES} === 2"));
    browser.value(&format!("{}.click()", tile("camera", "button")));
    browser.until(IS_PAINTED);
    browser.value("document.getElementById('home').click()");
    browser.until("document.body.classList.contains('is-grid')");
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
    browser.until(&format!("{}.textContent === 'lost'", tile("camera", ".state")));
    browser.until("document.getElementById('grid-says').textContent.includes('no daemon listens')");
}

#[test]
fn the_inspector_describes_the_token_under_the_pointer() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, "layout = 'foveal'\n"));
    let mut reader = daemon.subscribe(VIEW);
    reader.next_frame();
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main");
    browser.press("i");
    let fact = |name: &str| format!("document.querySelector('[data-fact={name}] dd').textContent");
    let inspect = |browser: &mut Browser, index: usize| {
        let record = reader.frame.records[index];
        let middle = |from: u32, to: u32| f64::from(from + to) / 2.0;
        let (x, y) = (middle(record.x0, record.x1), middle(record.y0, record.y1));
        let (x, y) = on_screen(browser, x / WIDTH, y / HEIGHT);
        browser.click(x, y);
        browser.until(&format!("{} === '{}, {}'", fact("place"), record.x, record.y));
        let step = f64::from(record.sx);
        assert_eq!(browser.value(&fact("step")), json!(format!("1:{step}")));
        let (across, down) = (record.x1 - record.x0, record.y1 - record.y0);
        let covers = format!("{across} × {down} pixels, 16 × 16 texels");
        assert_eq!(browser.value(&fact("covers")), json!(covers));
        // The first texel, enlarged.
        let texels = &reader.frame.pixels[index * 3 * 256..];
        let first = "(() => { const copy = new OffscreenCanvas(1, 1); const context = copy.getContext('2d'); \
            context.drawImage(document.querySelector('#inspector canvas'), 0, 0); \
            return [...context.getImageData(0, 0, 1, 1).data]; })()";
        let expected = json!([texels[0], texels[256], texels[512], 255]);
        assert_eq!(browser.value(first), expected);
    };
    let last = reader_len(&daemon) - 1;
    for index in [0, last / 2, last] {
        inspect(&mut browser, index);
    }
    assert!(browser.value("document.getElementById('give-back').disabled").as_bool().unwrap());
    // From one to its neighbour by keyboard.
    let place_before = browser.value(&fact("place"));
    browser.value("document.querySelector('.surface').focus()");
    browser.press("ArrowLeft");
    browser.until(&format!("{} !== {place_before}", fact("place")));
    browser.until("document.querySelector('#inspector button').disabled === false");
    browser.press("i");
    assert_eq!(browser.value("document.getElementById('inspector').hidden"), json!(true));
    // The picture as a file has the size of the source.
    browser.value(
        "(() => { const make = URL.createObjectURL; \
         URL.createObjectURL = (file) => { globalThis.saved = file; return make.call(URL, file); }; })()",
    );
    browser.press("s");
    browser.until("globalThis.saved?.type === 'image/png'");
    let size = "createImageBitmap(saved).then(({ width, height }) => [width, height])";
    assert_eq!(browser.value(size), json!([320, 240]));
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

/// Tokens of a frame of the view.
fn reader_len(daemon: &Daemon<'_>) -> usize {
    let mut reader = daemon.subscribe(VIEW);
    reader.next_frame().records.len()
}

#[test]
fn a_drawn_mask_is_a_table_and_can_be_set() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main");
    browser.press("m");
    for (x, y) in [(0.25, 0.25), (0.75, 0.25), (0.75, 0.5)] {
        let (x, y) = on_screen(&mut browser, x, y);
        browser.click(x, y);
    }
    // Another corner by the keyboard alone, and one that is taken back.
    browser.value("document.querySelector('.surface').focus()");
    for _ in 0..2 {
        browser.press("ArrowDown");
        browser.press("Enter");
    }
    browser.press("Backspace");
    let text = browser.value("document.querySelector('[data-mask=text]').value");
    let masked = config(STILL, "")
        .replace("[[stream.view]]", &format!("{}[[stream.view]]", text.as_str().unwrap()));
    place.check(&masked).assert_clean_exit(0);
    browser.value("document.querySelector('[data-mask=set]').click()");
    until("it is set", || daemon.listing("camera").detail.masks.len() == 1);
    let mask = daemon.listing("camera").detail.masks.remove(0);
    assert_eq!((mask.name.as_str(), mask.points.len(), mask.is_configured), ("mask-1", 4, false));
    for (found, expected) in
        mask.points.iter().flatten().zip([0.25, 0.25, 0.75, 0.25, 0.75, 0.5, 0.75, 0.51])
    {
        assert!((found - expected).abs() < 0.01, "{:?}", mask.points);
    }
    browser.until("document.querySelector('[data-mask=hint]').textContent.startsWith('Done')");
    browser.value("document.querySelector('[data-mask=clear]').click()");
    until("it is cleared", || daemon.listing("camera").detail.masks.is_empty());
    browser.press("Escape");
    assert_eq!(browser.value("document.getElementById('mask-editor').hidden"), json!(true));
    // Nothing of this has moved the gaze.
    assert!(browser.value("document.getElementById('give-back').disabled").as_bool().unwrap());
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn several_places_and_a_box_are_looked_at() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, "layout = 'foveal'\nfoveae = 2\n"));
    let mut reader = daemon.subscribe(VIEW);
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "#view=camera/main&gaze");
    let click = |browser: &mut Browser, held: u32, x: f64, y: f64| {
        let (x, y) = on_screen(browser, x, y);
        for kind in ["mousePressed", "mouseReleased"] {
            browser.mouse_with(held, kind, x, y);
        }
    };
    let mut looks_at_all = |wanted: [(f64, f64); 2]| {
        until("it looks at both", || {
            let head = &reader.next_frame().head;
            wanted.iter().all(|(x, y)| {
                let is_near = |fixation: &Fixation| {
                    (fixation.x - x * WIDTH).abs() < 1.0 && (fixation.y - y * HEIGHT).abs() < 1.0
                };
                head.fixations.iter().any(is_near)
            })
        });
    };
    click(&mut browser, 0, 0.25, 0.25);
    click(&mut browser, SHIFT, 0.75, 0.75);
    looks_at_all([(0.25, 0.25), (0.75, 0.75)]);
    browser.until("document.getElementById('says').textContent.includes('and 1 more')");
    // The view has two: the third is refused, and the two stay.
    click(&mut browser, SHIFT, 0.5, 0.1);
    browser.until("document.getElementById('says').classList.contains('is-error')");
    looks_at_all([(0.25, 0.25), (0.75, 0.75)]);
    // By keyboard: the first place is kept, the second one moves.
    browser.press("Escape");
    browser.until("document.getElementById('give-back').disabled");
    click(&mut browser, 0, 0.5, 0.5);
    browser.value("document.querySelector('.surface').focus()");
    browser.press("Enter");
    browser.press("ArrowRight");
    looks_at_all([(0.5, 0.5), (0.52, 0.5)]);
    // A box.
    for (kind, at) in
        [("mousePressed", 0.2), ("mouseMoved", 0.3), ("mouseMoved", 0.6), ("mouseReleased", 0.6)]
    {
        let (x, y) = on_screen(&mut browser, at, at);
        browser.mouse_with(ALT, kind, x, y);
    }
    browser.until("/^Looks at the box 6[34], 4[78] to 19[12], 14[34],/.test(document.getElementById('says').textContent)");
    browser.press("-");
    browser.until("/^Looks at the box 7[5-8],/.test(document.getElementById('says').textContent)");
    browser.press("Escape");
    browser.until("document.getElementById('give-back').disabled");
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn streams_are_a_drawer_on_a_phone() {
    let place = Place::new();
    let daemon = place.daemon(&several_streams());
    let web = Web::start(&place.socket(), &[]);
    let mut browser = Browser::start(360, 740);
    browser.resize(360, 740);
    browser.open(&format!("{}#view=camera/main", web.url()));
    browser.until(IS_PAINTED);
    let is_shown = "getComputedStyle(document.getElementById('nav')).display !== 'none'";
    assert_eq!(browser.value(is_shown), json!(false));
    let order = "['panes', 'groups', 'plots'].map((id) => document.getElementById(id).getBoundingClientRect().top)";
    let tops: Vec<f64> = serde_json::from_value(browser.value(order)).unwrap();
    assert!(tops.is_sorted() && tops[0] < 80.0, "picture, controls, plots: {tops:?}");
    browser.value("document.getElementById('drawer').focus()");
    browser.value("document.getElementById('drawer').click()");
    assert_eq!(browser.value(is_shown), json!(true));
    assert_eq!(browser.value("document.activeElement.className"), "view");
    browser.press("Escape");
    assert_eq!(browser.value(is_shown), json!(false));
    assert_eq!(browser.value("document.activeElement.id"), "drawer");
    browser.value("document.getElementById('drawer').click()");
    browser.value(
        "[...document.querySelectorAll('.view')].find(({ title }) => title.startsWith('foveal')).click()",
    );
    assert_eq!(browser.value(is_shown), json!(false), "a choice closes it");
    daemon.stop();
}

#[test]
fn words_are_short_and_rows_without_news_are_left_out() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    let words = browser.value(
        "import('/words.js').then(({ latency, duration, stepName }) => [latency(9999), latency(10000), latency(null), \
         duration(12.34), duration(1500), duration(150000), stepName(1), stepName(4.25), stepName(2, 4)])",
    );
    let expected =
        ["10.0 s", "> 10 s", "–", "12.3 ms", "1.5 s", "3 min", "1:1", "1:4.25", "1:2 × 1:4"];
    assert_eq!(words, json!(expected));
    let plots = "[...document.querySelectorAll('.plot')].filter(({ hidden }) => !hidden).map(({ dataset }) => dataset.plot)";
    browser.until("document.querySelector('[data-plot=upload]').hidden");
    let shown = ["fps", "age", "page-age", "stages", "tiles", "kept", "drops", "wire"];
    assert_eq!(browser.value(plots), json!(shown), "the CPU is given nothing");
    let stages = "[...document.querySelectorAll('.legend li')].filter(({ hidden }) => !hidden)";
    browser.until(&format!("{stages}.some(({{ title }}) => title.startsWith('ingest: builds'))"));
    let is_idle = format!("{stages}.some(({{ title }}) => /^(upload|collect):/.test(title))");
    assert_eq!(browser.value(&is_idle), json!(false));
    daemon.stop();
}

/// What axe-core finds, with the elements; also where it cannot tell.
const AXE: &str = "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => \
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`))";

#[test]
fn axe_finds_nothing_on_any_state_of_the_page() {
    let Some(axe) = footage::axe() else { return };
    let axe = fs::read_to_string(axe).unwrap();
    let place = Place::new();
    let daemon = place.daemon(&several_streams());
    let web = Web::start(&place.socket(), &[]);
    let view = "#view=camera/main&boxes&gaze";
    let press = |key: &'static str| move |browser: &mut Browser| browser.press(key);
    type Act = Box<dyn Fn(&mut Browser)>;
    let states: [(&str, &str, u32, Act); 6] = [
        (
            "start page",
            "",
            1280,
            Box::new(|browser| browser.until(&format!("{PAINTED_TILES} === 2"))),
        ),
        ("one stream", view, 1280, Box::new(|_| {})),
        ("comparison", view, 1280, Box::new(press("u"))),
        (
            "inspector",
            view,
            1280,
            Box::new(|browser| {
                browser.press("i");
                let (x, y) = on_screen(browser, 0.5, 0.5);
                browser.click(x, y);
                browser.until("!document.querySelector('#inspector button').disabled");
            }),
        ),
        ("mask editor", view, 1280, Box::new(press("m"))),
        (
            "phone",
            view,
            360,
            Box::new(|browser| drop(browser.value("document.getElementById('drawer').click()"))),
        ),
    ];
    let mut browser = Browser::start(1280, 800);
    for (name, hash, width, act) in states {
        browser.resize(width, 800);
        browser.open(&format!("{}{hash}", web.url()));
        if hash == view {
            browser.until(IS_PAINTED);
        }
        act(&mut browser);
        browser.value(&format!("{axe}; 0"));
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            assert_eq!(browser.value(AXE), json!([]), "{name}, {scheme}");
        }
        browser.press("Escape");
    }
    daemon.stop();
}

/// Pictures of the page for README and docs/guide/web.md. scripts/screenshots.sh says where they go.
#[test]
#[ignore = "makes pictures: scripts/screenshots.sh runs it"]
fn screenshots() {
    let out = std::env::var("FOVEATE_SCREENSHOTS").expect("scripts/screenshots.sh sets it");
    let clips = std::env::var("FOVEATE_CLIPS").expect("scripts/screenshots.sh sets it");
    let place = Place::new();
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'street'\nsource = '{clips}/vtest.avi'\nloop = true\nevents = true\n\
         [stream.change]\nthreshold = 16\n\
         [[stream.view]]\nname = 'main'\n[stream.view.gaze]\npolicy = 'saliency'\n\
         [[stream.view]]\nname = 'wide'\nbudget = 128\n\
         [[stream]]\nname = 'desk'\nsource = '{clips}/box.mp4'\nloop = true\n[[stream.view]]\nname = 'main'\n\
         [[stream]]\nname = 'yard'\nsource = '{clips}/vtest.avi'\nloop = true\n\
         [stream.change]\nthreshold = 16\n\
         [[stream.mask]]\nname = 'windows'\n\
         points = [[0.415, 0.04], [0.753, 0.055], [0.753, 0.155], [0.42, 0.14]]\n\
         [[stream.mask]]\nname = 'cars'\npoints = [[0.84, 0.06], [1, 0.06], [1, 0.18], [0.84, 0.18]]\n\
         [[stream.view]]\nname = 'main'\nbudget = 700\n[stream.view.gaze]\npolicy = 'saliency'\n\
         [[stream]]\nname = 'scene'\nsource = 'test'\n[[stream.view]]\nname = 'main'\n\
         [[stream]]\nname = 'gate'\nsource = 'rtsp://127.0.0.1:9/main'\n[[stream.view]]\nname = 'main'\n"
    ));
    let web = Web::start(&place.socket(), &[]);
    for (name, scheme, [width, height, ratio], hash) in [
        ("web-grid", "light", [1440, 840, 1], ""),
        ("web-inspector", "light", [1440, 900, 1], "#view=street/main&boxes&inspect"),
        ("web-mask", "light", [1440, 900, 1], "#view=street/main"),
        ("web-light", "light", [1440, 900, 1], "#view=street/main&boxes&gaze"),
        ("web-dark", "dark", [1440, 900, 1], "#view=street/main&gaze&compare"),
        ("web-paused", "light", [1440, 1040, 1], "#view=street/main&gaze"),
        ("web-phone", "light", [390, 844, 2], "#view=street/main&changes&gaze"),
        ("privacy", "light", [1440, 900, 1], "#view=yard/main&gaze"),
    ] {
        let mut browser = Browser::start(width, height);
        browser.resize_dense(width, height, ratio);
        browser.prefer(scheme);
        browser.open(&format!("{}{hash}", web.url()));
        prepare_screenshot(&mut browser, name);
        let path = format!("{out}/{name}.png.base64");
        let picture = match name {
            "privacy" => browser.screenshot_of("figure .surface"),
            _ => browser.screenshot(),
        };
        fs::write(path, picture).unwrap();
    }
    daemon.stop();
}

/// Does what the picture of this name shows.
fn prepare_screenshot(browser: &mut Browser, name: &str) {
    if name == "web-grid" {
        browser.until(&format!("{PAINTED_TILES} === 4"));
    } else {
        browser.until(IS_PAINTED);
        // So that the plots have lines.
        after_frames(browser, 280);
    }
    let corners: &[(f64, f64)] = match name {
        "web-inspector" => &[(0.567, 0.39)],
        "web-mask" => &[(0.42, 0.02), (0.76, 0.03), (0.76, 0.17), (0.41, 0.16)],
        _ => &[],
    };
    if name == "web-mask" {
        browser.press("m");
    }
    for &(x, y) in corners {
        let (x, y) = on_screen(browser, x, y);
        browser.click(x, y);
    }
    if name == "web-inspector" {
        browser.until("!document.querySelector('#inspector button').disabled");
    }
    if name == "web-paused" {
        browser.press(" ");
        browser.until("document.querySelector('.now').textContent === 'Paused'");
        for _ in 0..40 {
            browser.press("ArrowLeft");
        }
        browser.until(
            "document.getElementById('past').dataset.frame \
             === document.querySelector('figure').dataset.frame",
        );
    }
}

/// Asserts that the picture is the tokens: equal at full resolution, where coarser ones are smoothed between the
/// texels around, and black where there is none.
fn assert_draws(shown: &LayoutFrame, browser: &mut Browser) {
    let pixels = browser.value("[...pixelsOf('picture')]");
    let pixels: Vec<u8> = serde_json::from_value(pixels).unwrap();
    let side = shown.view.format.patch_side;
    assert_eq!(pixels.len(), 4 * PICTURE.area());
    for ((x, y), pixel) in layouts::pixels().zip(pixels.chunks_exact(4)) {
        let what = format!("{:?} at {x}, {y}", shown.view.layout);
        let Some((token, column, row)) = shown.at(x, y) else {
            assert_eq!(pixel, [0, 0, 0, 255], "{what}");
            continue;
        };
        let record = shown.records[token];
        let (columns, rows) =
            (record.token().columns(PICTURE, side), record.token().rows(PICTURE, side));
        let near = |at: u32, real: Range<u32>, length: u32| {
            let reach = u32::from(side < length);
            at.saturating_sub(reach).max(real.start)..(at + reach + 1).min(real.end)
        };
        let rows = near(row, rows.real(), record.token().height(side));
        let around: Vec<_> = near(column, columns.real(), record.token().width(side))
            .flat_map(|column| rows.clone().map(move |row| (column, row)))
            .map(|(column, row)| shown.texel(token, column, row))
            .collect();
        for channel in 0..3 {
            let values = around.iter().map(|texel| texel[channel]);
            let (least, most) = (values.clone().min().unwrap(), values.max().unwrap());
            let slack = u8::from(1 < around.len());
            let range = least.saturating_sub(slack)..=most.saturating_add(slack);
            assert!(range.contains(&pixel[channel]), "{what}: {pixel:?}, not {range:?}");
        }
    }
}

/// The records that [`READ_RECORDS`] should find.
fn records_as_read(shown: &LayoutFrame) -> Value {
    let record = |record: &TokenRecord| {
        let TokenRecord { x, y, sx, sy, extra_width, extra_height, .. } = *record;
        let TokenRecord { first_column, columns, first_row, rows, group, .. } = *record;
        let box_ = [record.x0, record.y0, record.x1, record.y1];
        let (across, down) = (extra_width, extra_height);
        json!([x, y, sx, sy, across, down, first_column, columns, first_row, rows, group, box_])
    };
    let fixation = |Fixation { id, x, y, .. }: &Fixation| format!("{id} {x} {y}");
    json!({
        "fixations": shown.fixations.iter().map(fixation).collect::<Vec<_>>(),
        "records": shown.records.iter().map(record).collect::<Vec<_>>(),
    })
}

/// How opaque the overlay is in its places: all that there are, ascending.
fn alphas(browser: &mut Browser) -> Vec<u64> {
    let alphas = "(() => { const data = pixelsOf('overlay'); const alphas = new Set(); \
        for (let at = 3; at < data.length; at += 4) { alphas.add(data[at]); } \
        return [...alphas].sort((a, b) => a - b); })()";
    serde_json::from_value(browser.value(alphas)).unwrap()
}

pub(super) fn config(pipeline: &str, view: &str) -> String {
    let gaze = if view.contains("gaze") { "" } else { "gaze = { policy = 'fixed' }\n" };
    format!(
        "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = '''{pipeline}'''\n\
         [[stream.view]]\nname = 'main'\npatch = 16\ndtype = 'u8'\n{gaze}{view}\n"
    )
}

/// A browser in which the picture of the page is to be seen.
pub(super) fn opened(web: &Web, hash: &str) -> Browser {
    let mut browser = Browser::start(1280, 800);
    browser.open(&format!("{}{hash}", web.url()));
    browser.until(IS_PAINTED);
    browser.value(PIXELS);
    browser
}

/// Waits until `count` more frames of the camera have been published, and the newest is on the screen.
pub(super) fn after_frames(browser: &mut Browser, count: u32) {
    let frame = "Number(document.querySelector('figure').dataset.frame)";
    let wanted = browser.number(frame) + f64::from(count);
    browser.until(&format!("{wanted} <= {frame}"));
}

/// A point of the picture, in shares of its sides, as a point of the page.
pub(super) fn on_screen(browser: &mut Browser, x: f64, y: f64) -> (f64, f64) {
    let side = |browser: &mut Browser, name: &str| {
        browser
            .number(&format!("document.querySelector('.surface').getBoundingClientRect().{name}"))
    };
    let (left, width) = (side(browser, "left"), side(browser, "width"));
    let (top, height) = (side(browser, "top"), side(browser, "height"));
    (left + x * width, top + y * height)
}

/// Reads on until the view looks at a point, to within a pixel of the screen.
fn looks_at(reader: &mut Follower, x: f64, y: f64) {
    until("it looks there", || {
        let fixation = reader.next_frame().head.fixation();
        (fixation.x - x).abs() < 1.0 && (fixation.y - y).abs() < 1.0
    });
}
