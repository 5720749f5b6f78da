//! A stream whose source falls silent says so, and says nothing of it any more when frames come again.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foveate::client::Client;
use foveate_control::{ClientExt as _, StreamListing, StreamState};

/// Far above what anything takes: a test that waits this long has failed.
const HANG: Duration = Duration::from_secs(20);

/// The daemon reads its frames from its standard input, so the test decides when they come.
const CONFIG: &str = r#"
[[stream]]
name = "camera"
pipeline = "fdsrc fd=0 ! rawvideoparse format=nv12 width=64 height=48 framerate=30/1 ! appsink name=frames"
backend = "cpu"
"#;

#[test]
fn the_reason_of_a_stall_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (folder.path().join("foveate.toml"), folder.path().join("s.sock"));
    std::fs::write(&config, CONFIG).unwrap();
    let mut daemon = Daemon::start(&config, &socket);

    daemon.give_frames();
    daemon.until(&socket, |stream| stream.state == StreamState::Live);
    let stalled = daemon.until(&socket, |stream| stream.state == StreamState::Stalled);
    assert!(stalled.reason.starts_with("no frame for "), "{}", stalled.reason);
    daemon.give_frames();
    let again = daemon.until(&socket, |stream| stream.state == StreamState::Live);
    assert_eq!(again.reason, "");
}

struct Daemon(Child);

impl Daemon {
    fn start(config: &Path, socket: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_foveated"))
            .arg("--config")
            .arg(config)
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    fn give_frames(&mut self) {
        let frames = [128; 3 * 64 * 48 * 3 / 2];
        self.0.stdin.as_mut().unwrap().write_all(&frames).unwrap();
    }

    /// Asks again and again until the listing is as it should be.
    fn until(&self, socket: &Path, is_so: impl Fn(&StreamListing) -> bool) -> StreamListing {
        let started = Instant::now();
        loop {
            let streams = Client::connect(socket).and_then(|mut client| client.list());
            let stream = streams.ok().and_then(|streams| streams.into_iter().next());
            if let Some(stream) = stream.filter(&is_so) {
                return stream;
            }
            assert!(started.elapsed() < HANG, "the stream does not get there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
