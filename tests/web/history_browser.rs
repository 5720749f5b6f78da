//! The last minute in a real browser: a scrubbed picture equals the live one, keys, events, recordings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::control::{Stage, publish};
use testkit::daemon::Place;
use testkit::wait::until;
use testkit::web_server::Web;

use crate::browser::Browser;
use crate::web_browser::{BALL, HASH, IS_PAINTED, PIXELS, after_frames, config, opened};

const VIEW: &str = "camera/main";

/// Number of the frame on the screen.
const FRAME: &str = "Number(document.querySelector('figure').dataset.frame)";

/// What the controls of time say: state, number of the frame, index, and how many there are.
const PAST: &str = "(() => { const { past, frame, index, frames } = document.getElementById('past').dataset; \
    return [past, Number(frame), Number(index), Number(frames)]; })()";

#[test]
fn a_scrubbed_picture_has_the_bytes_of_the_live_one() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 17);
    let web = Web::start(&stage.path, &[]);
    let mut browser = opened(&web, "");
    let hash = format!("{HASH}('picture')");
    let mut live = BTreeMap::new();
    for frame_seq in 1..=12u8 {
        if 1 < frame_seq {
            publish(&mut writer, frame_seq.into(), 17 * frame_seq);
        }
        browser.until(&format!("{FRAME} === {frame_seq}"));
        live.insert(u64::from(frame_seq), browser.number(&hash).to_string());
    }
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'paused'"));
    let at_end = browser.value(PAST);
    assert_eq!(at_end[1], 12);
    for (key, steps) in [("ArrowLeft", 11), ("ArrowRight", 4), ("ArrowLeft", 2)] {
        for _ in 0..steps {
            let before = browser.number(&format!("{PAST}[2]"));
            browser.press(key);
            browser.until(&format!("{PAST}[2] !== {before} && {PAST}[1] === {FRAME}"));
            let frame_seq = browser.value(FRAME).as_u64().unwrap();
            assert_eq!(browser.number(&hash).to_string(), live[&frame_seq], "frame {frame_seq}");
        }
    }
    // A new frame is not shown until the page is live again.
    publish(&mut writer, 13, 250);
    browser.press("l");
    browser.until(&format!("{PAST}[0] === 'live' && {FRAME} === 13"));
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn time_works_by_keyboard() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    after_frames(&mut browser, 60);
    // On the picture, where arrow keys steer a live view.
    browser.value("document.querySelector('.surface').focus()");
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'paused'"));
    let last = browser.number(&format!("{PAST}[3]")) - 1.0;
    for (key, index) in [
        ("ArrowLeft", last - 1.0),
        ("Home", 0.0),
        ("ArrowLeft", 0.0),
        ("ArrowRight", 1.0),
        ("End", last),
    ] {
        browser.press(key);
        browser.until(&format!("{PAST}[2] === {index}"));
    }
    assert_eq!(browser.value("document.getElementById('give-back').disabled"), json!(true));
    browser.press("Home");
    browser.until(&format!("{PAST}[2] === 0"));
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'playing' && 3 < {PAST}[2]"));
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'paused'"));
    // It plays to the end, and stops there.
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'paused' && {PAST}[2] === {last}"));
    // The slider, and a button, which has a space bar of its own.
    browser.value("document.querySelector('.transport input').focus()");
    browser.press("Home");
    browser.until(&format!("{PAST}[2] === 0"));
    browser.value("document.querySelector('[data-past=on]').click()");
    browser.until(&format!("{PAST}[2] === 1"));
    let named = "[...document.querySelectorAll('#past button, #past select, #past input')].every((control) => \
        control.hidden || control.getAttribute('aria-label') || control.innerText.trim() !== '')";
    assert_eq!(browser.value(named), json!(true));
    browser.value("document.querySelector('.surface').focus()");
    browser.press("l");
    browser.until(&format!("{PAST}[0] === 'live'"));
    after_frames(&mut browser, 5);
    // Paused in words, with enough contrast.
    browser.press(" ");
    browser.until("document.querySelector('.now').textContent === 'Paused'");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        assert_eq!(browser.value(include_str!("contrast.js"))["faint"], json!([]), "{scheme}");
    }
    for width in [320, 390, 760, 1180, 3840] {
        browser.resize(width, 900);
        let over = "document.documentElement.scrollWidth - innerWidth";
        assert_eq!(browser.number(over), 0.0, "scrolls sideways at {width}");
    }
    assert_eq!(browser.complaints, [""; 0]);
    daemon.stop();
}

#[test]
fn an_event_has_a_picture_and_leads_to_its_moment() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 200);
    let web = Web::start(&stage.path, &[]);
    let mut browser = opened(&web, "");
    writer.set_state(foveate_ring::State::Stalled, "the cable is loose");
    let item = "[...document.querySelectorAll('.events button')]\
        .find((button) => button.innerText.includes('the cable is loose'))";
    browser.until(&format!("{item} && !{item}.querySelector('canvas').hidden"));
    let middle = format!(
        "[...{item}.querySelector('canvas').getContext('2d').getImageData(80, 13, 1, 1).data]"
    );
    assert_eq!(browser.value(&middle), json!([200, 200, 200, 255]));
    writer.set_state(foveate_ring::State::Live, "");
    publish(&mut writer, 2, 10);
    browser.until(&format!("{FRAME} === 2"));
    browser.value(&format!("{item}.click()"));
    browser.until(&format!("{PAST}[0] === 'paused' && {FRAME} === 1"));
    // The same by a click into the timeline, where it is now.
    browser.value("document.querySelector('[data-past=live]').click()");
    browser.until(&format!("{PAST}[0] === 'live'"));
    let click = "(() => { const canvas = document.querySelector('.timeline canvas'); \
        const { right, top } = canvas.getBoundingClientRect(); \
        canvas.dispatchEvent(new MouseEvent('click', { clientX: right - 1, clientY: top + 5, bubbles: true })); })()";
    browser.value(click);
    browser.until(&format!("{PAST}[0] === 'paused' && {FRAME} === 2"));
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn what_is_saved_opens_in_a_page() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, "[stream.view.gaze]\npolicy = 'saliency'"));
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    after_frames(&mut browser, 30);
    let folder = tempfile::tempdir().unwrap();
    let download = json!({ "behavior": "allow", "downloadPath": folder.path() });
    browser.call("Page.setDownloadBehavior", download);
    const RECORD: &str = "document.querySelector('[data-past=record]')";
    browser.value(&format!("{RECORD}.click()"));
    assert_eq!(browser.value(&format!("{RECORD}.textContent")), json!("Stop"));
    browser.until(
        "/^Recording [1-9]/.test(document.querySelector('.when').textContent.replace('Live', ''))",
    );
    browser.value(&format!("{RECORD}.click()"));
    browser.until("document.querySelector('.told').textContent.startsWith('Saved camera-main-')");
    let file = || {
        let mut files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "mcap"))
    };
    until("it is there", || file().is_some());
    drop(browser);
    daemon.stop();

    let path = file().unwrap();
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[path.to_str().unwrap()]);
    let mut browser = Browser::start(1280, 800);
    browser.open(&web.url());
    browser.until(IS_PAINTED);
    browser.value(PIXELS);
    browser.until(&format!("{PAST}[0] === 'paused' && {PAST}[2] === 0 && 5 < {PAST}[3]"));
    let hash = format!("{HASH}('picture')");
    let first = browser.number(&hash).to_string();
    browser.press("End");
    browser.until(&format!("{PAST}[2] + 1 === {PAST}[3] && {PAST}[1] === {FRAME}"));
    assert_ne!(browser.number(&hash).to_string(), first);
    browser.press("Home");
    browser.until(&format!("{PAST}[2] === 0 && {PAST}[1] === {FRAME}"));
    assert_eq!(browser.number(&hash).to_string(), first);
    assert_eq!(
        browser.value("document.querySelector('#daemon .words').textContent"),
        json!("Recording")
    );
    assert_eq!(browser.complaints, [""; 0]);
    assert!(browser.value("document.title").as_str().unwrap().starts_with(VIEW));
}

#[test]
fn a_replay_shows_like_a_daemon() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let path = place.path("run.mcap");
    let name = path.to_str().unwrap();
    place
        .foveate(&["record", VIEW, "--mcap", name, "--seconds", "3"])
        .finish()
        .assert_clean_exit(0);
    daemon.stop();
    let replay = place.foveate(&["replay", name, "--loop"]);
    let web = Web::start(&place.socket(), &[]);
    let mut browser = opened(&web, "");
    after_frames(&mut browser, 20);
    browser.press(" ");
    browser.until(&format!("{PAST}[0] === 'paused' && 10 < {PAST}[3]"));
    browser.press("ArrowLeft");
    browser.until(&format!("{PAST}[1] === {FRAME}"));
    assert_eq!(browser.complaints, [""; 0]);
    replay.signal(rustix::process::Signal::INT);
    replay.finish().assert_clean_exit(0);
}
