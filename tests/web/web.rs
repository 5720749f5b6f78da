//! `foveate web` without a browser: access control, messages, and pages that do not delay each other.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use foveate_control::{ClientExt as _, StreamState};
use foveate_core::clock::{monotonic_ns, unix_ns};
use foveate_core::frame::{CaptureClock, FrameStamp};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Fixations};
use foveate_core::geometry::plan::Token;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::{ChannelFacts, FrameHead, SegmentSpec, State, TokenFrame, TokenRecord, Writer};
use foveate_server::directory::StreamPort;
use proptest::prelude::*;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use testkit::connection::Connection;
use testkit::control::{self, EXTENT, Stage, publish, publish_aged, segment_spec};
use testkit::layouts::{self, PICTURE};
use testkit::program::write_program;
use testkit::tool::foveate;
use testkit::users;
use testkit::wait::until;
use testkit::web_server::{Page, ServerMessage, Web};

const VIEW: &str = "camera/main";

#[test]
fn only_its_own_names_are_answered() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &["--allow-host", "Robot.local"]);
    let port = web.address.port();
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "robot.local", "127.1.2.3"] {
        assert!(web.get("/", host).starts_with("HTTP/1.1 200 "), "{host}");
        assert!(web.get("/", &format!("localhost:{port}")).starts_with("HTTP/1.1 200 "));
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "", "localhost:x"] {
        assert!(web.get("/", host).starts_with("HTTP/1.1 421 "), "{host}");
        assert!(web.get("/live", host).starts_with("HTTP/1.1 421 "), "{host}");
    }
    let twice = "localhost\r\nHost: evil.example";
    assert!(!web.get("/", twice).starts_with("HTTP/1.1 200 "));
}

#[test]
fn only_its_own_pages_may_connect() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let host = web.address.to_string();
    let (own, tls) = (format!("http://{host}"), format!("https://{host}"));
    assert!(web.connect(&host, Some(&own)).is_ok());
    assert!(web.connect(&host, Some(&tls)).is_ok());
    let other_port = "http://127.0.0.1:1";
    let longer = format!("{own}.evil.example");
    for origin in [None, Some("null"), Some("http://evil.example"), Some(other_port), Some(&longer)]
    {
        assert_eq!(web.connect(&host, origin).err(), Some(403), "{origin:?}");
    }
    assert_eq!(web.connect("evil.example", Some("http://evil.example")).err(), Some(421));
}

#[test]
fn half_requests_keep_no_page_out_and_are_closed() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let pid = Pid::from_raw(web.id().try_into().unwrap());
    let few = Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) };
    prlimit(pid, Resource::Nofile, few).unwrap();
    let halves: Vec<_> = (0..230)
        .map(|_| {
            let mut stream = Connection::open(web.address).unwrap();
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();
    assert!(web.get("/", "localhost").starts_with("HTTP/1.1 200 "));
    drop(web.page());
    for mut half in halves {
        // A reset is an end, too.
        assert_eq!(half.read(&mut [0]).unwrap_or(0), 0);
    }
    let outcome = web.interrupt();
    outcome.assert_clean_exit(0);
    assert!(outcome.stderr.contains("too many connections (limit 128)"), "{outcome:?}");
}

#[test]
fn the_page_is_whole_and_loads_nothing_from_elsewhere() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let page = web.get("/", "localhost");
    let named = |text: &str, before: &str| -> Vec<String> {
        let parts = text.split(before).skip(1);
        parts.map(|rest| rest.split(['"', '\'']).next().unwrap().to_owned()).collect()
    };
    let mut files = [named(&page, "src=\"/"), named(&page, "href=\"/")].concat();
    assert!(files.contains(&"page.js".to_owned()), "{files:?}");
    let mut at = 0;
    while let Some(file) = files.get(at).cloned() {
        let answer = web.get(&format!("/{file}"), "localhost");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{file}: {answer}");
        let imported = named(&answer, "from './");
        for name in imported {
            if !files.contains(&name) {
                files.push(name);
            }
        }
        for link in answer.split("://").skip(1) {
            assert!(
                link.starts_with("www.w3.org/2000/svg") || link.starts_with('$'),
                "{file}: {link}"
            );
        }
        at += 1;
    }
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 17, "{files:?}");
}

#[test]
fn every_answer_says_what_may_be_done_with_it() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let local = "localhost";
    for (path, host) in [("/", local), ("/page.js", local), ("/no", local), ("/", "evil.example")] {
        let answer = web.get(path, host).to_ascii_lowercase();
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "{path} as {host} without {header}: {answer}");
        }
    }
    assert!(web.get("/no", "localhost").starts_with("HTTP/1.1 404 "));
}

#[test]
fn an_unusable_listen_address_is_refused() {
    let nowhere = Path::new("/nowhere/foveate.sock");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (address, code, words) in [
        ("127.0.0.1", 2, "an address and a port"),
        ("0.0.0.0:0", 2, "--anywhere"),
        (taken.as_str(), 69, "another program"),
    ] {
        let listener = TcpListener::bind(&taken);
        let output = foveate(nowhere, &["web", "--listen", address]);
        drop(listener);
        assert_eq!(output.code, Some(code), "{address}");
        assert!(output.stderr.contains(words), "{address}: {}", output.stderr);
    }
}

#[test]
fn a_public_page_warns_and_checks_host_names() {
    let nowhere = Path::new("/nowhere/foveate.sock");
    let mut web = Web::listening(nowhere, "0.0.0.0:0", &["--anywhere"], &[]);
    web.address.set_ip(Ipv4Addr::LOCALHOST.into());
    for (host, status) in [("192.0.2.7:8707", 200), ("[2001:db8::1]", 200), ("evil.example", 421)] {
        assert!(web.get("/", host).starts_with(&format!("HTTP/1.1 {status} ")), "{host}");
    }
    let outcome = web.interrupt();
    outcome.assert_clean_exit(0);
    let words = outcome.stderr;
    assert!(
        words.contains("WARN") && words.contains("anyone who can connect to this address"),
        "{words}"
    );
}

#[test]
fn open_starts_a_browser_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let opener = folder.path().join("xdg-open");
    let opened = folder.path().join("opened");
    write_program(&opener, &format!("#!/bin/sh\necho \"$1\" >'{}'\n", opened.display()));
    let environment = [("PATH", folder.path().to_str().unwrap())];
    let socket = folder.path().join("socket");
    let web = Web::listening(&socket, "127.0.0.1:0", &["--open"], &environment);
    let url = format!("{}\n", web.url());
    until("it is opened", || fs::read_to_string(&opened).is_ok_and(|words| words == url));
    web.interrupt().assert_clean_exit(0);
}

#[test]
fn the_page_reports_a_missing_daemon_and_recovers() {
    let mut stage = Stage::open();
    let web = Web::start(&stage.path, &[VIEW]);
    let mut page = web.page();
    assert_eq!(page.message("hello", |_| true)["view"], VIEW);
    page.watch(VIEW);
    page.message("report", |report| report["error"].is_null());
    drop(stage.server.take());
    let report = page.message("report", |report| !report["error"].is_null());
    assert!(report["error"].as_str().unwrap().contains("no daemon listens on "), "{report}");
    assert_eq!(report["streams"], json!([]));

    stage.serve(control::UNLIMITED);
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 77);
    assert_eq!(page.frame().texels[..3], [77; 3]);
    let report = page.message("report", |report| report["streams"] != json!([]));
    assert_eq!(report["streams"][0]["views"][0]["name"], VIEW);
}

#[test]
fn pages_get_8_bit_texels_from_any_format() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    for (dtype, normalisation) in [
        (DType::U8, Normalisation::NONE),
        (DType::F16, Normalisation::IMAGENET),
        (DType::F16, Normalisation::CLIP),
        (DType::F16, Normalisation::NONE),
        (DType::Bf16, Normalisation::UNIT),
        (DType::F32, Normalisation::SIGLIP),
    ] {
        // bf16 has 8 bits of precision: of what lies far from 0 not every step is another number.
        let step = if dtype == DType::Bf16 { 2 } else { 1 };
        let format = TokenFormat::new(16, dtype, normalisation);
        let mut writer = Writer::create(&segment_spec(format)).unwrap();
        port.views[0].set_segment(writer.reader_fd().unwrap(), writer.epoch());
        let values: Vec<u8> = (0..3).flat_map(|_| (0..=255u8).map(|v| v / step * step)).collect();
        let token = TokenRecord::new(Token::of_level(0, 16, 0), EXTENT, 16, 1, 1.0);
        publish_tokens(&mut writer, 1, &[token], &encoded(&values, format));
        loop {
            let packet = page.frame();
            page.acknowledge(&packet);
            if packet.epoch == writer.epoch() {
                assert_eq!(packet.texels, values, "{format:?}");
                break;
            }
        }
    }
}

#[test]
fn a_page_gets_all_facts_of_a_frame() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish_aged(&mut writer, 5, 9, std::time::Duration::from_secs(3));
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    let packet = page.frame();
    assert!(packet.is_whole);
    assert_eq!((packet.pane, packet.patch_side, packet.sent_count), (0, 14, 2));
    assert_eq!((packet.extent, packet.tiles), ([64, 48], [1, 4]));
    assert_eq!(packet.fixations, [(3, 32.0, 24.5)]);
    assert_eq!((packet.frame_seq, packet.ring_sequence), (5, 1));
    assert_eq!(packet.epoch, writer.epoch());
    assert!((3_000_000_000..23_000_000_000).contains(&packet.age_ns), "{}", packet.age_ns);
    let [first, second] = packet.records[..] else { panic!("{:?}", packet.records) };
    assert_eq!((first.place(), first.columns, first.rows), ((14, 0, [1, 1], [0, 0]), 14, 14));
    // The level is 32 x 24 texels.
    assert_eq!((second.place(), second.columns, second.rows), ((0, 28, [2, 2], [0, 0]), 14, 10));
    assert_eq!((first.texels, first.unchanged, first.relevance), (0, 0, 1.0));
    assert_eq!(second.texels, 1);
    assert_eq!(packet.texels, vec![9; 2 * 3 * 14 * 14]);
}

#[test]
fn a_still_scene_sends_no_texels() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    let tokens = [record(0, 0, 0, 1), record(0, 14, 0, 1)];
    let pixels = vec![8; 2 * 3 * 14 * 14];
    for frame_seq in 1..=5 {
        publish_tokens(&mut writer, frame_seq, &tokens, &pixels);
        let packet = page.frame_of(frame_seq);
        assert_eq!(packet.sent_count, if frame_seq == 1 { 2 } else { 0 }, "frame {frame_seq}");
        assert_eq!(packet.records[1].unchanged, u32::try_from(frame_seq).unwrap() - 1);
        assert_eq!(page.texels(&packet), pixels);
    }
    // The same places and numbers in another segment are other tokens.
    let mut writer = control::writer(&control::main_view());
    let segment = writer.reader_fd().unwrap();
    port.views[0].set_segment(segment, writer.epoch());
    publish_tokens(&mut writer, 6, &tokens, &vec![200; pixels.len()]);
    let packet = page.frame_of(6);
    assert!(packet.is_whole);
    assert_eq!(packet.texels, vec![200; pixels.len()]);
}

#[test]
fn a_frame_of_every_layout_arrives_as_it_is() {
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, _writer) = shown.serve(&stage);
        let web = Web::start(&stage.path, &[]);
        let mut page = web.page();
        page.watch(VIEW);
        let packet = page.frame();
        assert_eq!(packet.extent, [PICTURE.width, PICTURE.height]);
        let fixations = shown
            .fixations
            .iter()
            .map(|Fixation { id, x, y, .. }| (u32::try_from(*id).unwrap(), *x, *y));
        assert_eq!(packet.fixations, fixations.collect::<Vec<_>>());
        assert_eq!(packet.records.len(), shown.records.len());
        for (found, record) in packet.records.iter().zip(&shown.records) {
            let TokenRecord { x, y, sx, sy, extra_width, extra_height, .. } = *record;
            let TokenRecord { first_column, columns, first_row, rows, .. } = *record;
            assert_eq!(found.place(), (x, y, [sx, sy], [extra_width, extra_height]));
            assert_eq!((found.first_column, found.columns), (first_column, columns));
            assert_eq!((found.first_row, found.rows, found.group), (first_row, rows, record.group));
        }
        assert_eq!(page.texels(&packet), shown.pixels);
    }
}

#[test]
fn what_a_picture_would_lose_is_sent_again() {
    let place = |x, y, step| Token { x, y, sx: step, sy: step, ..Token::default() };
    let (ground, window, moved) = (place(0, 0, 5), place(20, 20, 1), place(21, 20, 1));
    let (ring, next) = (place(34, 20, 1), place(48, 20, 1));
    let still: &[(Token, u64)] = &[(window, 1), (ground, 1)];
    // Tokens and the frame of their last change; how many are sent, after those before.
    let windows: &[(&[(Token, u64)], u32)] = &[
        (still, 2),
        (still, 0),
        (&[(window, 1), (ground, 3)], 2),
        (&[(moved, 4), (ground, 3)], 2),
        (&[(moved, 4), (ground, 3)], 0),
    ];
    let rings: &[(&[(Token, u64)], u32)] = &[
        (&[(window, 1), (ring, 1)], 2),
        (&[(window, 2), (ring, 1)], 1),
        // One is where another was, and nothing is left where that one was.
        (&[(ring, 1), (next, 1)], 2),
    ];
    let (left, right) = (Token { sy: 4, ..place(0, 0, 2) }, Token { sy: 4, ..place(28, 0, 3) });
    let (block, shifted) = (place(4, 4, 1), place(30, 4, 1));
    let insets: &[(&[(Token, u64)], u32)] = &[
        (&[(left, 1), (right, 1), (block, 1)], 3),
        // What no block lies over is sent alone.
        (&[(left, 1), (right, 2), (block, 1)], 1),
        (&[(left, 3), (right, 2), (block, 1)], 2),
        // What was under the block is seen again.
        (&[(left, 3), (right, 2), (shifted, 4)], 2),
        (&[(left, 3), (right, 2), (shifted, 4)], 0),
        // The same without any block.
        (&[(left, 3), (right, 2)], 1),
    ];
    for frames in [windows, rings, insets] {
        let stage = Stage::open();
        let (_port, mut writer) = stage.live_stream("camera", &["main"]);
        let web = Web::start(&stage.path, &[]);
        let mut page = web.page();
        page.watch(VIEW);
        for (frame_seq, (tokens, sent)) in (1..).zip(frames) {
            let record =
                |&(token, changed_frame)| TokenRecord::new(token, EXTENT, 14, changed_frame, 1.0);
            let records: Vec<_> = tokens.iter().map(record).collect();
            let pixels = pixels_of(&records);
            publish_tokens(&mut writer, frame_seq, &records, &pixels);
            let packet = page.frame_of(frame_seq);
            assert_eq!(packet.sent_count, *sent, "frame {frame_seq} of {tokens:?}");
            assert_eq!(packet.is_whole, frame_seq == 1);
            assert_eq!(page.texels(&packet), pixels);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever changes and moves, and however many frames are passed over while a page is slow: what it holds is
    /// the newest.
    #[test]
    fn what_changed_makes_the_whole_frame(
        frames in prop::collection::vec((0..4u32, 0..16u32, any::<bool>()), 2..30),
    ) {
        let stage = Stage::open();
        let (_port, mut writer) = stage.live_stream("camera", &["main"]);
        let web = Web::start(&stage.path, &[]);
        let mut page = web.page();
        page.watch(VIEW);
        // Eight places; a frame has four of them in a row, from one that moves.
        let mut changed = [1; 8];
        let mut waits = None;
        let count = frames.len() as u64;
        for (frame_seq, (first, changes, acknowledges)) in (1..).zip(frames) {
            for (place, at) in changed.iter_mut().enumerate() {
                if changes >> (place % 4) & 1 == 1 {
                    *at = frame_seq;
                }
            }
            let tokens: Vec<_> = (first..first + 4)
                .map(|place| record(0, 14 * (place % 4), 14 * (place / 4), changed[place as usize]))
                .collect();
            let pixels = pixels_of(&tokens);
            publish_tokens(&mut writer, frame_seq, &tokens, &pixels);
            if waits.is_none() {
                waits = Some(page.frame());
            }
            if acknowledges || frame_seq == count {
                let mut packet = waits.take().unwrap();
                page.acknowledge(&packet);
                if packet.frame_seq < frame_seq {
                    packet = page.frame_of(frame_seq);
                }
                prop_assert_eq!(page.texels(&packet), pixels, "frame {}", frame_seq);
            }
        }
    }
}

#[test]
fn a_slow_browser_slows_only_itself() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let (mut slow, mut quick) = (web.page(), web.page());
    publish(&mut writer, 1, 1);
    slow.watch(VIEW);
    quick.watch(VIEW);
    let first = slow.frame();
    for frame_seq in 1..=50 {
        publish(&mut writer, frame_seq, u8::try_from(frame_seq).unwrap());
        assert_eq!(quick.frame_of(frame_seq).texels[0], u8::try_from(frame_seq).unwrap());
    }
    assert_eq!(first.frame_seq, 1);
    slow.acknowledge(&first);
    assert_eq!(slow.frame().frame_seq, 50, "the frames between are passed over");
}

#[test]
fn an_acknowledgement_of_another_packet_counts_for_nothing() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    publish(&mut writer, 1, 1);
    let first = page.frame();
    page.say(&json!({ "op": "ack", "pane": 0, "serial": first.serial + 1 }));
    page.say(&json!({ "op": "ack", "pane": 1, "serial": first.serial }));
    page.say(&json!({ "op": "ack", "pane": 9, "serial": first.serial }));
    publish(&mut writer, 2, 2);
    // After two reports all earlier messages have been handled, and no frame has been sent.
    for _ in 0..2 {
        loop {
            match page.next() {
                ServerMessage::Message(message) if message["type"] == "report" => break,
                ServerMessage::Message(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    page.acknowledge(&first);
    assert_eq!(page.frame().frame_seq, 2);
}

/// Two channels on 3 x 2 cells, of which the page draws one: 0 to 255 over the range that the channel may have, or has.
#[test]
fn a_page_gets_the_cells_of_the_channel_that_it_draws() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    let format = TokenFormat::new(14, DType::U8, Normalisation::NONE);
    let names = ["motion_x", "query"].map(str::to_owned).to_vec();
    let mut writer = Writer::create(&SegmentSpec {
        planes: vec![PlaneSpec::channels(DType::F32, 2, Extent::new(3, 2))],
        channels: Some(ChannelFacts { cell_side: 32, names }),
        ..segment_spec(format)
    })
    .unwrap();
    port.views[0].set_segment(writer.reader_fd().unwrap(), writer.epoch());
    let numbers = [[-1.0, -0.5, 0.0, 0.5, 1.0, 2.0], [0.0, 5.0, 10.0, 2.0, 4.0, 6.0]];
    let cells: Vec<u8> =
        numbers.iter().flatten().flat_map(|number: &f32| number.to_le_bytes()).collect();
    let records = [record(0, 0, 0, 1)];
    publish_planes(&mut writer, 1, &records, [&pixels_of(&records), &cells]);
    let told = page.message("channels", |_| true);
    assert_eq!(told["names"], json!(["motion_x", "query"]));
    let packet = page.frame_of(1);
    assert_eq!((packet.cell_grid, packet.cells.len()), ([0, 0], 0));
    for (channel, expected) in [
        ("motion_x", vec![0, 64, 128, 191, 255, 255]),
        ("query", vec![0, 128, 255, 51, 102, 153]),
        ("depth", vec![]),
    ] {
        // The newest frame comes again.
        page.say(&json!({ "op": "watch", "view": VIEW, "channel": channel }));
        let packet = page.frame_of(1);
        assert!(packet.is_whole);
        assert_eq!(packet.cells, expected, "{channel}");
        let grid = if expected.is_empty() { ([0, 0], 0) } else { ([3, 2], 32) };
        assert_eq!((packet.cell_grid, packet.cell_side), grid);
    }
}

#[test]
fn a_page_too_many_replaces_the_users_oldest() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let mut pages = greeted(&web, 16);
    let mut another = greeted(&web, 1);
    let (code, reason) = closed(&mut pages[0]);
    assert_eq!(code, 4001);
    assert!(reason.contains("another one was opened"), "{reason}");
    for page in pages[1..].iter_mut().chain(&mut another) {
        page.message("report", |_| true);
    }
}

#[test]
fn one_users_pages_keep_no_other_user_out() {
    if !users::are_there() {
        return;
    }
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    let mut others = users::as_user(65_001, || greeted(&web, 16));
    let mut own = greeted(&web, 2);
    assert_eq!(closed(&mut others[0]).0, 4001);
    assert_eq!(closed(&mut others[1]).0, 4001);
    // The owner of the most pages gives way, not the first one.
    let mut later = users::as_user(65_001, || greeted(&web, 3));
    for page in &mut others[2..5] {
        assert_eq!(closed(page).0, 4001);
    }
    for page in own.iter_mut().chain(&mut later).chain(&mut others[5..]) {
        page.message("report", |_| true);
    }
}

#[test]
fn only_pages_with_the_token_are_let_in() {
    let mut web = Web::start(Path::new("/nowhere/foveate.sock"), &["--token"]);
    let query = web.query.clone();
    assert!(query.strip_prefix("?token=").is_some_and(|token| token.len() == 32), "{query}");
    greeted(&web, 1);
    let other = Web::start(Path::new("/nowhere/foveate.sock"), &["--token"]).query.clone();
    assert_ne!(other, query);
    for wrong in ["", "?token=", "?token", &query[..query.len() - 1], &format!("{query}0"), &other]
    {
        wrong.clone_into(&mut web.query);
        let (code, reason) = closed(&mut web.page());
        assert_eq!(code, 4003, "{wrong}");
        assert!(reason.contains("open the address that `foveate web` printed"), "{reason}");
    }
    assert!(
        web.get("/", "localhost").starts_with("HTTP/1.1 200 "),
        "the page itself needs no token"
    );
    let output = foveate(Path::new("/nowhere/foveate.sock"), &["web", "--token", "--open"]);
    assert_eq!(output.code, Some(2), "other users see the command line of a browser");
}

/// Pages that have been let in.
fn greeted(web: &Web, count: usize) -> Vec<Page> {
    let mut pages: Vec<Page> = (0..count).map(|_| web.page()).collect();
    for page in &mut pages {
        page.message("hello", |_| true);
    }
    pages
}

/// Code and reason of the end of a page.
fn closed(page: &mut Page) -> (u16, String) {
    loop {
        match page.next() {
            ServerMessage::Closed(Some(close)) => {
                return (close.code.into(), close.reason.to_string());
            }
            ServerMessage::Closed(None) => panic!("closed without a reason"),
            _ => {}
        }
    }
}

#[test]
fn a_page_is_told_why_no_frames_come() {
    let stage = Stage::open();
    let port = stage.stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    page.message("state", |state| state["state"] == "starting" && state["reason"] != "");
    let mut writer = control::start(&port);
    publish(&mut writer, 1, 1);
    page.frame_of(1);
    writer.set_state(State::Stalled, "the cable is loose");
    let state = page.message("state", |state| state["state"] == "stalled");
    assert_eq!(state["reason"], "the cable is loose");
    assert!(state["age_ms"].as_f64().unwrap() > 0.0);
    writer.set_state(State::Live, "");
    publish(&mut writer, 2, 2);
    page.message("state", |state| state["state"] == "live");
    end(&port, &mut writer, "end of the file");
    let state = page.message("state", |state| state["state"] == "ended");
    assert_eq!(state["reason"], "end of the file");
}

#[test]
fn a_view_that_is_not_there_is_named() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch("camera/other");
    let state = page.message("state", |state| state["state"] == "lost");
    assert!(state["reason"].as_str().unwrap().contains("camera/other"), "{state}");
    page.watch(VIEW);
    page.frame_of(1);
    page.say(&json!({ "op": "watch", "view": null }));
    until("nobody follows the view", || subscribers(&stage) == 0);
}

#[test]
fn a_page_steers_until_release_or_close() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    let web = Web::start(&stage.path, &[]);
    let [mut first, mut second] = [web.page(), web.page()];
    for page in [&mut first, &mut second] {
        page.watch(VIEW);
        page.frame_of(1);
    }
    let look = json!({ "op": "look", "points": [[12.0, 500.0]] });
    first.say(&look);
    let looking = first.message("looking", |_| true);
    assert_eq!(looking["points"], json!([[12.0, 48.0]]));
    second.say(&look);
    let refused = second.message("refused", |_| true);
    assert_eq!(refused["reason"], "held");
    first.say(&json!({ "op": "release" }));
    first.message("released", |_| true);
    second.say(&look);
    second.message("looking", |_| true);
    drop(second);
    until("its lease ends with it", || {
        first.say(&look);
        loop {
            match first.next() {
                ServerMessage::Message(message) if message["type"] == "looking" => break true,
                ServerMessage::Message(message) if message["type"] == "refused" => break false,
                _ => {}
            }
        }
    });
}

#[test]
fn a_page_that_only_shows_steers_nothing() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    let web = Web::start(&stage.path, &["--read-only"]);
    let mut page = web.page();
    assert_eq!(page.message("hello", |_| true)["read_only"], true);
    page.watch(VIEW);
    for message in [json!({ "op": "look", "points": [[1.0, 1.0]] }), json!({ "op": "release" })] {
        page.say(&message);
        let refused = page.message("refused", |_| true);
        assert!(refused["error"].as_str().unwrap().contains("--read-only"), "{refused}");
    }
    let stats = foveate::client::Client::connect(&stage.path).unwrap().stats().unwrap();
    assert_eq!(stats.streams[0].views[0].counts.feedback_accepted, 0);
}

#[test]
fn what_no_page_says_closes_the_connection() {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[]);
    for words in [
        "",
        "{}",
        "{\"op\":\"jump\"}",
        "{\"op\":\"look\",\"points\":[[\"1\",2]]}",
        "{\"op\":\"step\"}",
        "[[[[",
    ] {
        let mut page = web.page();
        page.say_text(words);
        let close = loop {
            match page.next() {
                ServerMessage::Closed(close) => break close.unwrap(),
                ServerMessage::Message(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(u16::from(close.code), 1008, "{words}");
    }
    web.page().message("hello", |_| true);
}

#[test]
fn small_pictures_come_once_for_each_frame() {
    let stage = Stage::open();
    let [(_one, mut first), (_two, mut second)] =
        ["camera", "gate"].map(|name| stage.live_stream(name, &["main"]));
    publish(&mut first, 1, 10);
    publish(&mut second, 1, 200);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.say(&json!({ "op": "thumbnails", "views": ["camera/main", "gate/main", "gone/main"] }));
    // Both may come in one packet or in two.
    let mut pictures = Vec::new();
    while pictures.len() < 2 {
        pictures.extend(page.thumbnails());
        page.say(&json!({ "op": "ack_thumbnails" }));
    }
    pictures.sort_by(|one, other| one.view.cmp(&other.view));
    let names: Vec<_> = pictures.iter().map(|picture| picture.view.as_str()).collect();
    assert_eq!(names, ["camera/main", "gate/main"]);
    let [width, height] = [EXTENT.width, EXTENT.height].map(|side| u16::try_from(side).unwrap());
    for (picture, value) in pictures.iter().zip([10, 200]) {
        assert_eq!(picture.size, [width, height], "no larger than the source");
        assert_eq!(picture.rgb.len(), 3 * EXTENT.area());
        assert!(picture.rgb.iter().all(|part| [0, value].contains(part)), "{value} or no token");
        assert!(picture.rgb.contains(&value), "{value}");
    }
    publish(&mut second, 2, 77);
    let newer = page.thumbnails();
    let [newer] = &newer[..] else { panic!("of one stream: {newer:?}") };
    assert_eq!((newer.view.as_str(), newer.rgb.contains(&77)), ("gate/main", true));
    // Without an acknowledgement the page is hidden, or slow.
    publish(&mut second, 3, 78);
    publish(&mut first, 2, 11);
    page.say(&json!({ "op": "inspect", "x": 0.0, "y": 0.0 }));
    page.say(&json!({ "op": "thumbnails", "views": [] }));
    until("nobody reads the views", || subscribers(&stage) == 0);
}

#[test]
fn a_token_is_described_as_the_daemon_published_it() {
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, _writer) = shown.serve(&stage);
        let web = Web::start(&stage.path, &[]);
        let mut page = web.page();
        page.watch(VIEW);
        page.frame_of(1);
        for (index, record) in shown.records.iter().enumerate().step_by(7) {
            // The middle of a token that another one does not cover.
            let (x, y) = ((record.x0 + record.x1) / 2, (record.y0 + record.y1) / 2);
            if record.x0 == record.x1 || record.y0 == record.y1 {
                continue;
            }
            let Some((top, ..)) = shown.at(x, y).filter(|(top, ..)| *top == index) else {
                continue;
            };
            let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
            page.say(&json!({ "op": "inspect", "x": x, "y": y }));
            let token = page.message("token", |_| true)["token"].take();
            assert_eq!(token["index"], json!(top), "{:?} at {x}, {y}", shown.view.layout);
            assert_eq!(token["box"], json!([record.x0, record.y0, record.x1, record.y1]));
            let side = f64::from(record.size);
            let width = f64::from(record.token().width(record.size.into()));
            assert_eq!(token["step"][0], json!(width / side));
            assert_eq!(
                (&token["changed_frame"], &token["unchanged_frames"]),
                (&json!(1), &json!(0))
            );
            let rows = token["texels"].as_array().unwrap();
            let is_small = record.size <= 64;
            assert_eq!(rows.len(), if is_small { record.size.into() } else { 0 });
            for (row, text) in rows.iter().enumerate() {
                let texel = |column: usize| {
                    let size = usize::from(record.size);
                    let bytes = &shown.pixels[index * 3 * size * size..];
                    let part = |channel: usize| bytes[(channel * size + row) * size + column];
                    format!("{:02x}{:02x}{:02x}", part(0), part(1), part(2))
                };
                let expected: String = (0..record.size.into()).map(texel).collect();
                assert_eq!(text, &json!(expected), "row {row}");
            }
        }
        page.say(&json!({ "op": "inspect", "x": -5.0, "y": 1e9 }));
        page.message("token", |_| true);
    }
}

#[test]
fn only_the_user_of_the_server_sets_masks() {
    if !users::are_there() {
        return;
    }
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 1);
    let mask = json!({
        "op": "mask", "name": "door", "points": [[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]
    });
    let [web, shown] = [&[][..], &["--read-only"]].map(|flags| Web::start(&stage.path, flags));
    let mut own = web.page();
    assert_eq!(own.message("hello", |_| true)["masks"], true);
    let mut stranger = users::as_user(4712, || web.page());
    assert_eq!(stranger.message("hello", |_| true)["masks"], false);
    let mut reader = shown.page();
    assert_eq!(reader.message("hello", |_| true)["masks"], false);
    for page in [&mut stranger, &mut reader] {
        page.watch(VIEW);
        for message in [mask.clone(), json!({ "op": "clear_mask", "name": "door" })] {
            page.say(&message);
            let refused = page.message("mask_refused", |_| true);
            assert!(refused["error"].as_str().unwrap().contains("foveate mask"), "{refused}");
        }
    }
    // The stage has no admin socket: what the daemon would say is passed on.
    own.watch(VIEW);
    own.say(&mask);
    let refused = own.message("mask_refused", |_| true);
    assert!(refused["error"].as_str().unwrap().contains("admin"), "{refused}");
    own.say(
        &json!({ "op": "mask", "name": "line", "points": [[0.1, 0.1], [0.3, 0.3], [0.5, 0.5]] }),
    );
    let refused = own.message("mask_refused", |_| true);
    assert!(refused["error"].as_str().unwrap().contains("line"), "{refused}");
}

#[test]
fn pages_that_come_and_go_leave_nothing_behind() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main", "wide"]);
    publish(&mut writer, 1, 1);
    let web = Web::start(&stage.path, &[]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", web.id())).unwrap().count();
    let visit = || {
        let mut page = web.page();
        page.watch("camera/wide");
        page.watch(VIEW);
        page.frame_of(1);
        drop(page);
        until("nobody follows the view", || subscribers(&stage) == 0);
    };
    visit();
    // Connections that the server has not taken leave of yet.
    let at_rest = std::cell::Cell::new(usize::MAX);
    until("the first page has left", || {
        let now = descriptors();
        at_rest.replace(now) == now
    });
    for _ in 0..20 {
        visit();
    }
    until("all pages have left", || descriptors() <= at_rest.get());
    let threads = || fs::read_dir(format!("/proc/{}/task", web.id())).unwrap();
    let name = |thread: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default()
    };
    until("nobody reads for nobody", || threads().map(name).all(|name| name.trim() != "follower"));
}

fn record(level: u32, x: u32, y: u32, changed_frame: u64) -> TokenRecord {
    TokenRecord::new(Token::of_level(level, x, y), EXTENT, 14, changed_frame, 1.0)
}

/// Texels that differ from place to place and from change to change.
fn pixels_of(tokens: &[TokenRecord]) -> Vec<u8> {
    let texels = |token: &TokenRecord| {
        let seed = 31 * u64::from(token.x0) + 7 * u64::from(token.y0) + 101 * token.changed_frame;
        (0..3 * 14 * 14).map(move |at| u8::try_from((seed + at * seed) % 251).unwrap())
    };
    tokens.iter().flat_map(texels).collect()
}

/// One token's values of R, G and B as texels of `format`.
fn encoded(values: &[u8], format: TokenFormat) -> Vec<u8> {
    let table = format.table();
    let channels = values.chunks_exact(256).zip(table);
    let words = channels.flat_map(|(values, table)| {
        values.iter().map(move |value| table[usize::from(*value)]).collect::<Vec<_>>()
    });
    words.flat_map(|word| word.to_le_bytes()[..format.dtype.bytes()].to_vec()).collect()
}

pub(super) fn publish_tokens(
    writer: &mut Writer,
    frame_seq: u64,
    records: &[TokenRecord],
    pixels: &[u8],
) {
    publish_planes(writer, frame_seq, records, [pixels]);
}

fn publish_planes<const COUNT: usize>(
    writer: &mut Writer,
    frame_seq: u64,
    records: &[TokenRecord],
    planes: [&[u8]; COUNT],
) {
    writer.publish(&TokenFrame {
        head: FrameHead {
            stamp: FrameStamp {
                capture_ns: monotonic_ns(),
                capture_unix_ns: unix_ns(),
                capture_clock: CaptureClock::RunningTime,
                arrival_ns: monotonic_ns(),
                ..FrameStamp::numbered(frame_seq)
            },
            fixations: Fixations::from_iter([Fixation::at((1.0, 1.0), FixationReason::Policy)]),
            dirty_tiles: 1,
            tile_count: 4,
            ..FrameHead::default()
        },
        records,
        planes: foveate_ring::plane_list(planes),
        versions: &vec![0; records.len()],
        whole_version: 0,
    });
}

/// No frame will come again.
fn end(port: &StreamPort, writer: &mut Writer, reason: &str) {
    writer.set_state(State::Ended, reason);
    port.update(|status| {
        status.state = StreamState::Ended;
        status.reason = reason.to_owned();
    });
}

fn subscribers(stage: &Stage) -> u64 {
    let mut client = foveate::client::Client::connect(&stage.path).unwrap();
    let views = client.stats().unwrap().streams.remove(0).views;
    views.iter().map(|view| view.counts.subscribers).sum()
}
