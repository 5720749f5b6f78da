//! A log that stalls or fails holds nobody up and ends nothing.

use std::fs::File;
use std::io::pipe;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use foveate::client::Client;
use foveate_control::ClientExt as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Map;
use testkit::daemon::Place;
use testkit::wait::until;

#[test]
fn nobody_waits_for_a_log_that_is_not_read() {
    let place = Place::new();
    let (reader, writer) = pipe().unwrap();
    let mut daemon = started(&place, writer.into());
    until("it serves its socket", || Client::connect(&place.socket()).is_ok());
    until("more was logged than there is room for", || {
        let mut client = Client::connect(&place.socket()).unwrap();
        // A line, whatever the answer: views that closed shortly before may still be there.
        let _ = client.open_view("camera", Map::new());
        0 < client.stats().unwrap().daemon.unwrap().log_lines_dropped
    });
    assert_eq!(Client::connect(&place.socket()).unwrap().list().unwrap().len(), 1);
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    drop(reader);
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let place = Place::new();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    for target in
        [Stdio::from(writer), File::options().write(true).open("/dev/full").unwrap().into()]
    {
        let mut daemon = started(&place, target);
        until("it serves its socket", || Client::connect(&place.socket()).is_ok());
        Client::connect(&place.socket()).unwrap().list().unwrap();
        kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
        let status = daemon.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}

fn started(place: &Place, stderr: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_foveated"))
        .arg("--socket")
        .arg(place.socket())
        .stderr(stderr)
        .spawn()
        .unwrap()
}
