//! Tests of the test kit: it works on a busy machine, too.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::net::SocketAddrUnix;
use rustix::process::Signal;
use rustix::thread::gettid;
use testkit::connection::Connection;
use testkit::control::{RawClient, seqpacket_socket};
use testkit::players::{Line, Player, plays};
use testkit::program::write_program;
use testkit::wait::{RaisedAtLast, until};

/// A child that another thread starts while the file is written does not keep it open for writing. The file is large, so that some do.
#[test]
fn a_written_program_runs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let text = format!("#!/bin/sh\nexit 0\n{}", "#\n".repeat(4 << 20));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = RaisedAtLast(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        for _ in 0..40 {
            write_program(&program, &text);
            assert!(Command::new(&program).status().unwrap().success());
            fs::remove_file(&program).unwrap();
        }
    });
}

/// The kernel resumes no wait with a time limit once its process was stopped and continued.
#[test]
fn a_client_that_was_stopped_waits_on() {
    if plays(wait_for_news) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = seqpacket_socket();
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let mut player = Player::start(path.to_str().unwrap());
    let accepted = RawClient(rustix::net::accept(&socket).unwrap());
    stop_and_continue(&mut player);
    accepted.send(b"news").unwrap();
    assert_eq!(player.hear(), "news");
    player.finish();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut player = Player::start(&listener.local_addr().unwrap().to_string());
    let (mut accepted, _) = listener.accept().unwrap();
    stop_and_continue(&mut player);
    accepted.write_all(b"news").unwrap();
    assert_eq!(player.hear(), "news");
    player.finish();
}

/// Connects to `place`, a path or an address of TCP, and says what comes from there, after the number of the thread that waits for it.
fn wait_for_news(place: &str, line: &Line) {
    let mut news = vec![0; 4];
    if place.starts_with('/') {
        let client = RawClient::connect(Path::new(place));
        line.say(&gettid().to_string());
        news = client.receive();
    } else {
        let mut connection = Connection::open(place).unwrap();
        line.say(&gettid().to_string());
        assert_eq!(connection.read(&mut news).unwrap(), 4);
    }
    line.say(std::str::from_utf8(&news).unwrap());
}

/// Stops and continues a player while it waits.
fn stop_and_continue(player: &mut Player) {
    let stat = format!("/proc/{}/task/{}/stat", player.id(), player.hear());
    until("it waits", || fs::read_to_string(&stat).unwrap().contains(") S "));
    player.stop();
    player.signal(Signal::CONT);
}
