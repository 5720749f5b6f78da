//! A scraper: as much HTTP as Prometheus speaks, and a reader of what it gets.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;

use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{Attend, Look, NumberFormat, ViewName};
use testkit::connection::Connection;
use testkit::control::attend;
use testkit::daemon::Daemon;

/// Where a daemon that was given port 0 serves its metrics.
pub fn metrics_address(daemon: &Daemon<'_>) -> SocketAddr {
    daemon.process.stderr.wait_for("/metrics\n");
    let log = daemon.process.stderr.so_far();
    let (_, after) = log.split_once("url=http://").unwrap();
    after.split_once('/').unwrap().0.parse().unwrap()
}

/// Sends `request` and returns all that comes: head and body.
pub fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = Connection::open(address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The metrics as they are written.
pub fn scrape_text(address: SocketAddr) -> String {
    let (head, body) =
        ask(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body
}

/// Every sample by its name and labels.
pub fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    samples(&scrape_text(address))
}

/// Every sample in `text` by its name and labels; each may stand there once.
pub fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let before = samples.insert(series.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{series} stands there twice");
    }
    samples
}

/// A `look` at `a/main` that is obeyed, and a map that the policy refuses.
pub fn steer(client: &mut Client) {
    let view: ViewName = "a/main".parse().unwrap();
    client.look(Look::at(&view, 30.0, 20.0)).unwrap();
    let refused = client.attend(Attend { view, ..attend([1, 1], NumberFormat::U8) }, &[1]);
    assert!(matches!(refused, Err(ControlError::Refused(_))), "{refused:?}");
}
