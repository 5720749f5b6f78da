//! A real systemd user manager, in its own namespaces, that runs `foveated` from the shipped units.
//!
//! Namespaces need root. Where they cannot be had, tests fail, or are left out if `FOVEATE_WITHOUT_SYSTEMD=1`.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::collections::HashMap;
use std::fs;
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foveate::client::Client;
use parking_lot::Mutex;
use rustix::process::Signal;
use testkit::daemon::{Feed, Outcome, Place, Process};
use testkit::left_out::is_left_out;
use testkit::repository;
use testkit::wait::{HANG, until};

/// Targets that the units pull in; all others are an error.
const TARGETS: [&str; 6] = [
    "default.target",
    "basic.target",
    "sockets.target",
    "network.target",
    "shutdown.target",
    "exit.target",
];

/// A user manager with the units of this repository. It and all that it started is killed when this is dropped.
pub struct UserManager {
    place: Place,
    process: Process,
    journal: Journal,
    /// Unread output of services.
    _output: UnixListener,
}

/// Runs a test under a user manager whose service has the configuration `config`, and `settings` besides what is shipped.
pub fn with_service(config: &str, settings: &str, test: impl FnOnce(&UserManager)) {
    const WITHOUT: &str = "FOVEATE_WITHOUT_SYSTEMD";
    if is_left_out(WITHOUT) {
        return;
    }
    let tried = Command::new("unshare")
        .args(["--pid", "--mount", "--cgroup", "--fork", "mount", "-t", "tmpfs", "none", "/run"])
        .output()
        .unwrap();
    assert!(
        tried.status.success(),
        "no namespaces without root: {}; {WITHOUT}=1 leaves these tests out",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    test(&UserManager::start(config, settings));
}

impl UserManager {
    fn start(config: &str, settings: &str) -> Self {
        let place = Place::new();
        for folder in
            ["run", "journal", "conf.d", "units/foveated.service.d", "units/foveated.socket.d"]
        {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("foveate.toml", config);
        write_units(&place, settings);
        let journal = Journal::open(&place.path("journal/socket"));
        let output = UnixListener::bind(place.path("journal/stdout")).unwrap();
        let process = Process::start(script("start", &place), &[]);
        let manager = Self { place, process, journal, _output: output };
        until("the user manager answers", || {
            manager.systemctl(&["show", "--property=Version"]).code == Some(0)
        });
        manager
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    pub fn write(&self, name: &str, contents: &str) {
        self.place.write(name, contents);
    }

    /// Runs `systemctl` with these arguments, inside the namespaces, because the manager sees only those.
    pub fn systemctl(&self, arguments: &[&str]) -> Outcome {
        let first_process = child_of(self.process.id());
        let mut command = Command::new("nsenter");
        command.args(["--target", &first_process, "--pid", "--mount", "systemctl", "--user"]);
        command.args(arguments);
        let run = self.place.path("run");
        Process::start(command, &[("XDG_RUNTIME_DIR", run.to_str().unwrap())]).finish()
    }

    /// Runs `systemctl`, which must succeed.
    pub fn expect(&self, arguments: &[&str]) {
        let outcome = self.systemctl(arguments);
        let log = self.process.stderr.so_far();
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}\n{}\n{log}", self.messages());
    }

    /// A property of the service.
    pub fn property(&self, name: &str) -> String {
        let shown = self.systemctl(&["show", "--value", "--property", name, "foveated.service"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        shown.stdout.trim().to_owned()
    }

    /// Waits until a property of the service has this value.
    pub fn await_property(&self, name: &str, value: &str) {
        self.await_that(name, |found| found == value);
    }

    /// Waits until a property of the service is as it should be.
    pub fn await_that(&self, name: &str, mut is_as_it_should: impl FnMut(&str) -> bool) {
        let started = Instant::now();
        loop {
            let found = self.property(name);
            if is_as_it_should(&found) {
                return;
            }
            let log = self.process.stderr.so_far();
            assert!(
                started.elapsed() < HANG,
                "{name} is still {found}\n{}\n{log}",
                self.messages()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path("run/foveate/foveate.sock")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// A named pipe that a stream reads from.
    pub fn feed(&self, name: &str) -> Feed {
        Feed::open(&self.place.path(name))
    }

    fn messages(&self) -> String {
        self.journal().iter().map(|entry| format!("{entry:?}\n")).collect()
    }

    /// Entries of the journal.
    pub fn journal(&self) -> Vec<Entry> {
        self.journal.entries.lock().clone()
    }
}

/// A stand-in for the journal. It reads entries at once, because writers of the log wait for it.
struct Journal {
    socket: Arc<UnixDatagram>,
    entries: Arc<Mutex<Vec<Entry>>>,
    is_over: Arc<AtomicBool>,
}

impl Journal {
    fn open(path: &Path) -> Self {
        let socket = Arc::new(UnixDatagram::bind(path).unwrap());
        let entries = Arc::<Mutex<Vec<Entry>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (receiving, collected, over) =
            (Arc::clone(&socket), Arc::clone(&entries), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            // Opening the journal sends an empty datagram, and after the end only those arrive.
            while let Ok(count) = receiving.recv(&mut buffer) {
                if count == 0 && over.load(Ordering::Relaxed) {
                    break;
                }
                collected.lock().push(entry(&buffer[..count]));
            }
        });
        Self { socket, entries, is_over }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.socket.shutdown(Shutdown::Both).unwrap();
    }
}

impl Drop for UserManager {
    fn drop(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.await_end();
        // Only empty directories remain.
        let _ = script("forget", &self.place).status();
    }
}

/// `user_manager.sh`, which is to do `what` for the manager of `place`.
fn script(what: &str, place: &Place) -> Command {
    let mut command = Command::new("sh");
    command.arg(repository().join("tests/programs/user_manager.sh")).arg(what).arg(place.path(""));
    command
}

/// The number of the process that `parent` has started, or is just starting.
fn child_of(parent: u32) -> String {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    children.split(' ').next().unwrap().to_owned()
}

/// An entry of the journal: its fields.
pub type Entry = HashMap<String, String>;

/// Reads an entry in the journal's protocol: `NAME=value` and a newline or, where the value may have one, the name, a newline, the
/// length in eight bytes, the value and a newline.
fn entry(mut datagram: &[u8]) -> Entry {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut entry = Entry::new();
    while let Some(end) = datagram.iter().position(|byte| b"=\n".contains(byte)) {
        let (name, rest) = (&datagram[..end], &datagram[end + 1..]);
        let (start, length) = if datagram[end] == b'=' {
            (0, rest.iter().position(|byte| *byte == b'\n').unwrap())
        } else {
            let (length, _) = rest.split_first_chunk().unwrap();
            (8, usize::try_from(u64::from_le_bytes(*length)).unwrap())
        };
        entry.insert(text(name), text(&rest[start..start + length]));
        datagram = &rest[start + length + 1..];
    }
    entry
}

/// The units that are shipped, and what a user manager on a test's machine needs to be different.
fn write_units(place: &Place, settings: &str) {
    for unit in ["foveated.service", "foveated.socket"] {
        let shipped = repository().join("configs/systemd").join(unit);
        fs::copy(shipped, place.path("units").join(unit)).unwrap();
    }
    for target in TARGETS {
        place.write(&format!("units/{target}"), "[Unit]\nDefaultDependencies=no\n");
    }
    let (program, home) = (env!("CARGO_BIN_EXE_foveated"), place.path(""));
    let home = home.to_str().unwrap().trim_end_matches('/');
    // The service's home is in /tmp, and perhaps the program is. Not everywhere can parts of a namespace's /proc be covered.
    let service = format!(
        "[Service]\nExecStart=\nExecStart={program} --config {home}/foveate.toml --config-dir {home}/conf.d\n\
         User=\nGroup=\nPrivateTmp=no\nProtectHome=no\nProtectKernelTunables=no\nProtectKernelLogs=no\nTimeoutStartSec=5\nTimeoutStopSec=5\nRestartSec=100ms\n{settings}\n"
    );
    place.write("units/foveated.service.d/test.conf", service);
    place.write("units/foveated.socket.d/test.conf", "[Socket]\nSocketUser=\nSocketGroup=\n");
}
