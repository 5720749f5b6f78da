//! What the metrics say is what happened, and no scraper, however it behaves, harms anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use foveate_control::{ClientExt as _, Stats};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_daemon::metrics::families;
use foveate_stats::metric::Family;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use testkit::connection::Connection;
use testkit::daemon::{Daemon, Feed, Follower, Place};
use testkit::film::{Film, raw_bytes};
use testkit::left_out::leave_part_out;
use testkit::scene::{bt601, fed, random_film, stream, view};
use testkit::wait::until;

use crate::scrape::{ask, metrics_address, samples, scrape, scrape_text, steer};

const METRICS: &str = "[daemon]\nmetrics = '127.0.0.1:0'\n";

/// Connections that the daemon has at a time.
const CONNECTIONS_MAX: usize = 128;

#[test]
fn counts_agree_with_what_was_fed() {
    let film = film(12);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    let subscription = daemon.client().subscribe(&"a/main".parse().unwrap(), true).unwrap();
    let mut follower = Follower::new(subscription);
    // Who is answered after a subscriber finds its notices begun.
    assert_eq!(daemon.listing("a").counts.frames_captured, 0);
    let mut dirty_tiles = 0;
    for frame_seq in 1..=12 {
        if frame_seq == 7 {
            steer(&mut daemon.client());
        }
        feed.send(&raw_bytes(film.frame(frame_seq)));
        dirty_tiles += u64::from(follower.next_frame().head.dirty_tiles);
    }
    // The counts come after the frame.
    let published = "foveate_frames_published_total{stream=\"a\"}";
    until("all frames are counted", || scrape(address)[published] == 12.0);
    let samples = scrape(address);
    for (series, value) in [
        ("foveate_frames_captured_total{stream=\"a\"}", 12.0),
        ("foveate_frames_dropped_total{stream=\"a\"}", 0.0),
        ("foveate_frames_refused_total{stream=\"a\"}", 0.0),
        ("foveate_frames_skipped_total{stream=\"a\"}", 0.0),
        ("foveate_restarts_total{stream=\"a\",reason=\"unreachable\"}", 0.0),
        ("foveate_stuck_seconds{stream=\"a\"}", 0.0),
        ("foveate_stamps_clamped_total{stream=\"a\"}", 0.0),
        ("foveate_uploaded_bytes_total{stream=\"a\"}", 0.0),
        ("foveate_collected_bytes_total{stream=\"a\"}", 0.0),
        ("foveate_dirty_tiles_total{stream=\"a\"}", dirty_tiles as f64),
        ("foveate_frame_tiles{stream=\"a\"}", 12.0),
        ("foveate_sample_bound{stream=\"a\"}", 0.0),
        ("foveate_frame_age_seconds_count{stream=\"a\"}", 12.0),
        ("foveate_frame_step_seconds_count{stream=\"a\"}", 12.0),
        ("foveate_stage_seconds_count{stream=\"a\",stage=\"plan\"}", 12.0),
        ("foveate_stage_seconds_count{stream=\"a\",stage=\"change\"}", 12.0),
        ("foveate_stage_seconds_count{stream=\"a\",stage=\"publish\"}", 12.0),
        ("foveate_stage_seconds_count{stream=\"a\",stage=\"upload\"}", 0.0),
        ("foveate_stream_state{stream=\"a\",state=\"live\"}", 1.0),
        ("foveate_stream_state{stream=\"a\",state=\"stalled\"}", 0.0),
        ("foveate_subscribers{stream=\"a\",view=\"main\"}", 1.0),
        ("foveate_subscribers{stream=\"a\",view=\"other\"}", 0.0),
        ("foveate_saccades_total{stream=\"a\",view=\"main\"}", 1.0),
        ("foveate_saccades_total{stream=\"a\",view=\"other\"}", 0.0),
        ("foveate_feedback_accepted_total{stream=\"a\",view=\"main\"}", 1.0),
        ("foveate_injections_accepted_total{stream=\"a\",view=\"main\"}", 0.0),
        ("foveate_injections_late_total{stream=\"a\",view=\"main\"}", 0.0),
        ("foveate_feedback_refused_total{stream=\"a\",view=\"main\",reason=\"policy\"}", 1.0),
        ("foveate_control_refused_total{reason=\"policy\"}", 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series}");
    }
    let notices = |outcome: &str| {
        samples[&format!("foveate_notices_{outcome}_total{{stream=\"a\",view=\"main\"}}")]
    };
    assert_eq!(notices("sent") + notices("skipped"), 12.0, "a notice for each frame");
    let descriptors = daemon.descriptor_count() as f64;
    assert!((samples["process_open_fds"] - descriptors).abs() <= 2.0, "{descriptors}");
    assert!(1e6 < samples["process_resident_memory_bytes"]);

    drop(follower);
    let subscribers = "foveate_subscribers{stream=\"a\",view=\"main\"}";
    until("the subscriber is gone", || scrape(address)[subscribers] == 0.0);
    daemon.stop();
}

#[test]
fn stats_and_metrics_are_the_same_numbers() {
    let film = film(3);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    feed_all(&daemon, &mut feed, &film);
    until("metrics and stats agree", || {
        let stats = daemon.client().stats().unwrap();
        same_numbers(&stats, &scrape(address))
    });
    daemon.stop();
}

#[test]
fn every_family_is_written_as_prometheus_wants_it() {
    let film = film(3);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    feed_all(&daemon, &mut feed, &film);
    let text = scrape_text(address);
    assert_well_formed(&text);
    match promtool(&text) {
        Some(complaint) => assert_eq!(complaint, ""),
        None => leave_part_out("promtool is not installed"),
    }
    daemon.stop();
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let families = families(&Stats::default());
    let made: Vec<String> = families.iter().map(documented_row).collect();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/metrics.md");
    let document = fs::read_to_string(document).unwrap();
    let rows = document
        .lines()
        .filter(|line| ["| `foveate_", "| `process_"].iter().any(|start| line.starts_with(start)));
    let documented: BTreeSet<&str> = rows.map(|row| row.rsplit_once(" | ").unwrap().0).collect();
    assert_eq!(made.iter().map(String::as_str).collect::<BTreeSet<_>>(), documented);
    assert_eq!(made.len(), documented.len(), "a name stands in two tables");
    assert!(30 < made.len(), "{made:?}");
}

/// The row of the document that tells of a metric, up to its meaning.
fn documented_row(family: &Family) -> String {
    let Family { name, kind, labels, .. } = family;
    let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    let labels = if labels.is_empty() { String::new() } else { format!(" {labels}") };
    format!("| `{name}` | {kind} |{labels}")
}

#[test]
fn an_address_that_is_taken_is_an_error_at_the_start() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = format!(
        "[daemon]\nmetrics = '{address}'\n[[stream]]\nname = 'a'\nsource = 'test'\nbackend = 'cpu'\n"
    );
    let outcome = place.ended_daemon(&config, &[]);
    outcome.assert_clean_exit(69);
    for part in ["daemon.metrics", &address.to_string(), "in use", "a free port"] {
        assert!(outcome.message().contains(part), "{}", outcome.message());
    }
}

#[test]
fn scrapers_that_say_nothing_or_read_nothing_keep_nobody_out() {
    let film = film(20);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    // Rings and their threads have descriptors, too.
    feed_some(&daemon, &mut feed, &film, 1..=10);
    let before = daemon.descriptor_count();
    let silent: Vec<_> =
        (0..CONNECTIONS_MAX + 8).map(|_| Connection::open(address).unwrap()).collect();
    let mut deaf: Vec<_> = (0..8).map(|_| Connection::open(address).unwrap()).collect();
    for stream in &mut deaf {
        // More requests than it reads answers: what is behind the first is not answered.
        stream.write_all(&b"GET /metrics HTTP/1.1\r\n\r\n".repeat(4)).unwrap();
    }
    feed_some(&daemon, &mut feed, &film, 11..=20);
    let published = "foveate_frames_published_total{stream=\"a\"}";
    until("all frames are counted", || scrape(address)[published] == 20.0);
    let now = daemon.descriptor_count();
    assert!(now <= before + CONNECTIONS_MAX + 2, "{before} descriptors became {now}");
    drop((silent, deaf));
    until("all are let go", || daemon.descriptor_count() <= before);
    daemon.stop();
}

#[test]
fn silent_scrapers_time_out() {
    let film = film(1);
    let place = Place::new();
    let (daemon, _feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    let mut answer = String::new();
    let mut brief = Connection::open(address).unwrap();
    brief.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    brief.0.shutdown(Shutdown::Write).unwrap();
    brief.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with('\n'), "{answer}");
    let (mut silent, connected_at) = (Connection::open(address).unwrap(), Instant::now());
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    assert!(Duration::from_millis(4900) < connected_at.elapsed(), "{:?}", connected_at.elapsed());
    daemon.stop();
}

#[test]
fn metrics_recover_from_exhausted_descriptors() {
    let film = film(2);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    // The rings of both views take descriptors, which the second frame finds made.
    feed_all(&daemon, &mut feed, &film);
    let pid = Pid::from_raw(daemon.process.id().try_into().unwrap());
    let few = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let before = prlimit(pid, Resource::Nofile, few).unwrap();
    let _waits = Connection::open(address).unwrap();
    daemon.process.stderr.wait_for("cannot accept a scraper");
    prlimit(pid, Resource::Nofile, before).unwrap();
    assert!(30 < scrape(address).len());
    daemon.stop();
}

#[test]
fn a_hundred_scrapers_at_once_are_all_served() {
    let film = film(20);
    let place = Place::new();
    let (daemon, mut feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    std::thread::scope(|scope| {
        let scrapers: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| (0..5).map(|_| scrape(address).len()).min().unwrap()))
            .collect();
        feed_all(&daemon, &mut feed, &film);
        for scraper in scrapers {
            assert!(30 < scraper.join().unwrap());
        }
    });
    daemon.stop();
}

#[test]
fn what_is_no_scrape_is_refused_in_words_of_http() {
    let place = Place::new();
    let film = film(1);
    let (daemon, _feed) = fed_daemon(&place, &film);
    let address = metrics_address(&daemon);
    let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; 10_214]].concat();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "421"),
        (b"GET /metrics HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "421"),
        (b"GET /metrics HTTP/1.1\r\nHost: [::1]:9187\r\n\r\n", "200"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"\xFF\xFE\x00 \r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let (head, _) = ask(address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }
    let (head, body) = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
    assert!(!head.contains("Content-Length: 0"), "{head}");
    let (_, body) = ask(address, b"GET /metrics?name[]=x HTTP/1.0\r\n\r\n");
    assert!(!samples(&body).is_empty());
    // Half a request, and then nothing more.
    Connection::open(address).unwrap().write_all(b"GET /met").unwrap();
    assert!(!scrape(address).is_empty());
    daemon.stop();
}

#[test]
fn nobody_listens_unless_the_configuration_says_so() {
    let place = Place::new();
    let daemon = place.daemon("[[stream]]\nname = 'a'\nsource = 'test'\nbackend = 'cpu'\n");
    daemon.process.stderr.wait_for(" publishing ");
    assert!(!daemon.process.stderr.so_far().contains("/metrics"));
    let listening = fs::read_to_string(format!("/proc/{}/net/tcp", daemon.process.id())).unwrap();
    for socket in daemon.descriptors() {
        if let Some(inode) = socket.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'))
        {
            assert!(!listening.contains(&format!(" {inode} ")), "{socket} is a TCP socket");
        }
    }
    daemon.stop();
}

fn film(count: usize) -> Film {
    random_film(PixelFormat::Nv12, Extent::new(128, 96), bt601(), count)
}

/// A daemon with stream `a` that shows what is fed, and views `main` and `other`.
fn fed_daemon<'a>(place: &'a Place, film: &Film) -> (Daemon<'a>, Feed) {
    let feed = Feed::open(&place.path("feed"));
    let views = [view("main", "budget = 20"), view("other", "budget = 20")].concat();
    let stream = stream("a", &fed(place, "feed", film), &format!("backend = 'cpu'\n{views}"));
    (place.daemon(&format!("{METRICS}{stream}")), feed)
}

/// Sends every frame, each once the one before was published.
fn feed_all(daemon: &Daemon<'_>, feed: &mut Feed, film: &Film) {
    feed_some(daemon, feed, film, 1..=film.len() as u64);
}

fn feed_some(daemon: &Daemon<'_>, feed: &mut Feed, film: &Film, frames: RangeInclusive<u64>) {
    let mut follower = daemon.subscribe("a/main");
    for frame_seq in frames {
        feed.send(&raw_bytes(film.frame(frame_seq)));
        follower.next_frame();
    }
}

/// Whether what does not change by being asked for is the same in both.
fn same_numbers(stats: &Stats, samples: &BTreeMap<String, f64>) -> bool {
    let stream = &stats.streams[0];
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut expected = vec![
        (
            "foveate_frames_captured_total{stream=\"a\"}".to_owned(),
            stream.counts.frames_captured as f64,
        ),
        (
            "foveate_frames_published_total{stream=\"a\"}".to_owned(),
            stream.counts.frames_published as f64,
        ),
        ("foveate_dirty_tiles_total{stream=\"a\"}".to_owned(), stream.counts.tiles_dirty as f64),
        ("foveate_rgb_bound{stream=\"a\"}".to_owned(), stream.detail.rgb_bound.unwrap() as f64),
        (
            "foveate_frame_age_seconds_sum{stream=\"a\"}".to_owned(),
            seconds(stream.detail.age.sum_ns),
        ),
        (
            "foveate_frame_step_seconds_sum{stream=\"a\"}".to_owned(),
            seconds(stream.detail.step.sum_ns),
        ),
    ];
    for (stage, spent) in &stream.detail.stages {
        let labels = format!("{{stream=\"a\",stage=\"{stage}\"}}");
        expected.push((format!("foveate_stage_seconds_sum{labels}"), seconds(spent.sum_ns)));
        expected.push((format!("foveate_stage_seconds_count{labels}"), spent.count() as f64));
    }
    for view in &stream.views {
        let labels = format!("{{stream=\"a\",view=\"{}\"}}", view.name.view());
        expected.push((format!("foveate_saccades_total{labels}"), view.counts.saccades as f64));
        expected
            .push((format!("foveate_notices_sent_total{labels}"), view.counts.notices_sent as f64));
    }
    expected.iter().all(|(series, value)| samples[series] == *value)
}

/// Help and type stand before the samples; names end as their type wants; a histogram adds up.
fn assert_well_formed(text: &str) {
    let mut kinds = BTreeMap::new();
    let mut helped = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && helped.insert(name), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(helped.contains(name), "{name} has no help");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            kinds.insert(name, kind);
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_histogram = family.is_some_and(|name| kinds.get(name) == Some(&"histogram"));
            assert!(is_histogram || kinds.contains_key(name), "{line}");
        }
    }
    let samples = samples(text);
    let counts = samples.iter().filter(|(series, _)| series.contains("_seconds_count{"));
    for (series, count) in counts {
        let (name, labels) = series.split_once("_count{").unwrap();
        let labels = labels.strip_suffix('}').unwrap();
        let prefix = format!("{name}_bucket{{{labels},le=\"");
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(series, value)| {
                let bound = series.strip_prefix(&prefix)?.strip_suffix("\"}")?;
                Some((bound.parse().unwrap(), *value))
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{series}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{series}");
    }
}

/// What `promtool check metrics` says; `None` where it is not installed.
fn promtool(text: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => panic!("{error}"),
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}
