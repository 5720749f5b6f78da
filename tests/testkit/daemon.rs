//! The two programs as a user runs them: processes of their own, in a folder of their own, killed when a test ends.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use foveate::client::{Client, Next, Subscription};
use foveate::messages::ViewName;
use foveate_config::Config;
use foveate_control::{ClientExt as _, StreamListing};
use foveate_daemon::stream::ServedView;
use foveate_ring::{SegmentInfo, TokenFrameBuf};
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

use crate::wait::HANG;

/// What must not reach the programs from the environment of the tests.
const CLEARED: [&str; 12] = [
    "FOVEATE_SOCKET",
    "RUST_LOG",
    "FOVEATE_INJECT_DEVICE_LOSS",
    "FOVEATE_VALIDATION",
    "RUNTIME_DIRECTORY",
    "RUST_BACKTRACE",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "JOURNAL_STREAM",
    "CREDENTIALS_DIRECTORY",
];

/// A folder with clips, configurations, and the socket that its daemon serves.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The path of `name` in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("foveate.sock")
    }

    /// A file in the folder.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// Starts `foveated` with `config`, and returns when it serves its socket.
    pub fn daemon(&self, config: &str) -> Daemon<'_> {
        self.daemon_in(config, &[])
    }

    /// [`Place::daemon`] with variables in its environment.
    pub fn daemon_in(&self, config: &str, environment: &[(&str, &str)]) -> Daemon<'_> {
        let path = self.write("foveate.toml", config);
        let mut plans = Vec::new();
        for stream in Config::load(&path).unwrap().streams {
            for view in &stream.views {
                plans.push((
                    format!("{}/{}", stream.name, view.name),
                    ServedView::try_from(view).unwrap(),
                ));
            }
        }
        let process = self.foveated(&["--config", path.to_str().unwrap()], environment);
        process.stderr.wait_for(" serving ");
        Daemon { place: self, process, plans }
    }

    /// Starts `foveated` with these arguments and the socket of this place.
    pub fn foveated(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        self.start("foveated", arguments, environment)
    }

    /// Runs `foveated` with `config` to its end.
    pub fn ended_daemon(&self, config: &str, environment: &[(&str, &str)]) -> Outcome {
        let path = self.write("foveate.toml", config);
        self.foveated(&["--config", path.to_str().unwrap()], environment).finish()
    }

    /// Runs `foveated --check` with `config`.
    pub fn check(&self, config: &str) -> Outcome {
        let path = self.write("foveate.toml", config);
        self.foveated(&["--check", "--config", path.to_str().unwrap()], &[]).finish()
    }

    /// Runs `foveate extract` on `source` into the folder `out`, which it replaces.
    pub fn extract(&self, source: impl AsRef<Path>, arguments: &[&str]) -> Outcome {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        let fixed = ["extract", source.as_ref().to_str().unwrap(), "--out", out.to_str().unwrap()];
        self.foveate_in(&[&fixed, arguments].concat(), &[("RUST_LOG", "info")]).finish()
    }

    /// Starts `foveate` with these arguments and the socket of this place.
    pub fn foveate(&self, arguments: &[&str]) -> Process {
        self.foveate_in(arguments, &[])
    }

    /// [`Place::foveate`] with variables in its environment.
    pub fn foveate_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        self.start("foveate", arguments, environment)
    }

    /// Starts a program of `tests/c`, as a client of the daemon of this place.
    pub fn c_program(&self, name: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(self.compiled(name));
        command.args(arguments);
        Process::start(command, &[("FOVEATE_SOCKET", self.socket().to_str().unwrap())])
    }

    /// Compiles a program of `tests/c`.
    pub fn compiled(&self, name: &str) -> PathBuf {
        let (program, root) = (self.path(name), crate::repository());
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O2", "-I"]).arg(root.join("include"));
        compiler.arg(root.join("tests/c").join(name).with_extension("c")).arg("-o").arg(&program);
        assert!(compiler.status().unwrap().success(), "{name}.c compiles");
        program
    }

    fn start(&self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        let mut command = Command::new(crate::program(program));
        command.arg("--socket").arg(self.socket()).args(arguments);
        Process::start(command, environment)
    }
}

/// A `foveated` that serves the socket of its place.
pub struct Daemon<'a> {
    place: &'a Place,
    pub process: Process,
    plans: Vec<(String, ServedView)>,
}

impl<'a> Daemon<'a> {
    /// One that was started otherwise, and serves the socket of `place`.
    pub fn running(place: &'a Place, process: Process) -> Self {
        Self { place, process, plans: Vec::new() }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.place.socket()).unwrap()
    }

    pub fn subscribe(&self, view: &str) -> Follower {
        let name: ViewName = view.parse().unwrap();
        Follower::new(self.client().subscribe(&name, false).unwrap())
    }

    /// The view that the configuration describes.
    pub fn plan(&self, view: &str) -> &ServedView {
        &self.plans.iter().find(|(name, _)| name == view).unwrap().1
    }

    /// The listing of `stream` for `foveate ls`.
    pub fn listing(&self, stream: &str) -> StreamListing {
        let streams = self.client().list().unwrap();
        streams.into_iter().find(|listing| listing.name == stream).unwrap()
    }

    /// What each descriptor is that the process has open.
    pub fn descriptors(&self) -> Vec<String> {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        // One may be closed meanwhile.
        let targets = folder.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.map(|target| target.display().to_string()).collect()
    }

    /// The kinds of the open descriptors, sorted.
    pub fn descriptor_kinds(&self) -> Vec<String> {
        let kind = |target: String| {
            target.split_once(":[").map_or(target.clone(), |(kind, _)| kind.to_owned())
        };
        let mut kinds: Vec<_> = self.descriptors().into_iter().map(kind).collect();
        kinds.sort();
        kinds
    }

    /// Descriptors that the process has open.
    pub fn descriptor_count(&self) -> usize {
        self.descriptors().len()
    }

    /// Asks it to end, and expects that it does so as it should.
    pub fn stop(self) -> Outcome {
        self.process.signal(Signal::TERM);
        let outcome = self.process.finish();
        outcome.assert_clean_exit(0);
        outcome
    }
}

/// A view that is followed.
pub struct Follower {
    pub subscription: Subscription,
    pub frame: TokenFrameBuf,
}

impl Follower {
    pub fn new(subscription: Subscription) -> Self {
        Self { subscription, frame: TokenFrameBuf::default() }
    }

    /// Facts of the segment that it reads.
    pub fn segment(&self) -> &SegmentInfo {
        self.subscription.reader().unwrap().header()
    }

    /// Waits for the next message.
    pub fn next(&mut self) -> Next {
        self.subscription.next_in_order(&mut self.frame, HANG).unwrap()
    }

    /// Reads the next frame that is still in the ring, whatever segment it comes in.
    pub fn next_frame(&mut self) -> &TokenFrameBuf {
        loop {
            match self.next() {
                Next::Frame { .. } => return &self.frame,
                Next::NewSegment => {}
                other => panic!("{other:?} instead of a frame"),
            }
        }
    }

    /// Reads up to the next segment.
    pub fn await_new_segment(&mut self) {
        loop {
            match self.next() {
                Next::NewSegment => return,
                Next::Frame { .. } => {}
                other => panic!("{other:?} instead of a new segment"),
            }
        }
    }

    /// Reads up to the end, and returns the reason.
    pub fn end(&mut self) -> String {
        loop {
            match self.next() {
                Next::Ended(reason) => return reason,
                Next::Frame { .. } | Next::NewSegment => {}
                Next::TimedOut => panic!("no end within {HANG:?}"),
            }
        }
    }
}

/// Resources of a process.
#[derive(Debug)]
pub struct ProcessResources {
    pub descriptors: usize,
    pub threads: usize,
    /// Resident.
    pub memory_kb: u64,
}

impl ProcessResources {
    pub fn of(process: u32) -> Self {
        let count = |of: &str| fs::read_dir(format!("/proc/{process}/{of}")).unwrap().count();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory_kb = memory.trim().trim_end_matches(" kB").parse().unwrap();
        Self { descriptors: count("fd"), threads: count("task"), memory_kb }
    }

    /// Whether nothing but memory has come to what it had `before`. GLib ends threads that were idle for some seconds.
    pub fn is_no_more_than(&self, before: &Self) -> bool {
        self.descriptors == before.descriptors && self.threads <= before.threads
    }
}

/// A running program, killed when it is dropped.
pub struct Process {
    child: Child,
    pub stdout: Text,
    pub stderr: Text,
}

impl Process {
    /// Starts `command` without what the environment of the tests says, but for `environment`.
    pub fn start(mut command: Command, environment: &[(&str, &str)]) -> Self {
        for name in CLEARED {
            if environment.iter().all(|(given, _)| *given != name) {
                command.env_remove(name);
            }
        }
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Text::collect(child.stdout.take().unwrap());
        let stderr = Text::collect(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends.
    pub fn finish(mut self) -> Outcome {
        self.await_end();
        let status = self.child.wait().unwrap();
        let (stdout, stderr) = (self.stdout.whole(), self.stderr.whole());
        Outcome { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    /// Waits until it is over.
    pub fn await_end(&self) {
        let pidfd = pidfd_open(self.pid(), PidfdFlags::empty()).unwrap();
        let timeout = Timespec::try_from(HANG).unwrap();
        let mut entries = [PollFd::new(&pidfd, PollFlags::IN)];
        let ended = poll(&mut entries, Some(&timeout)).unwrap();
        assert_eq!(ended, 1, "it does not end; on standard error:\n{}", self.stderr.so_far());
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Exit status and output of a program.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Asserts that the program ended with `code`, without a panic or an internal error.
    pub fn assert_clean_exit(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.contains(" ERROR "), "{}", self.stderr);
    }

    /// The last line on standard error: why it failed.
    pub fn message(&self) -> &str {
        self.stderr.lines().last().unwrap_or("")
    }
}

/// The output of a program, line by line as it is written.
pub struct Text {
    shared: Arc<(Mutex<Written>, Condvar)>,
}

#[derive(Default)]
struct Written {
    text: String,
    is_over: bool,
}

impl Text {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let shared = Arc::<(Mutex<Written>, Condvar)>::default();
        let (writing, mut buffer) = (Arc::clone(&shared), [0; 4096]);
        std::thread::spawn(move || {
            let (written, news) = &*writing;
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                written.lock().text.push_str(&String::from_utf8_lossy(&buffer[..count]));
                news.notify_all();
            }
            written.lock().is_over = true;
            news.notify_all();
        });
        Self { shared }
    }

    /// Waits until it holds `part`.
    pub fn wait_for(&self, part: &str) {
        let text = self.wait_until(|written| written.is_over || written.text.contains(part));
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }

    /// Everything, once it has ended.
    pub fn whole(&self) -> String {
        self.wait_until(|written| written.is_over)
    }

    pub fn so_far(&self) -> String {
        self.shared.0.lock().text.clone()
    }

    fn wait_until(&self, mut condition: impl FnMut(&Written) -> bool) -> String {
        let (written, news) = &*self.shared;
        let mut written = written.lock();
        let waited = news.wait_while_for(&mut written, |written| !condition(written), HANG);
        assert!(!waited.timed_out(), "timed out waiting for more of\n{}", written.text);
        written.text.clone()
    }
}

/// A named pipe that a daemon reads raw frames from, so that a test decides when each of them comes.
pub struct Feed {
    pipe: File,
}

impl Feed {
    /// Creates the pipe at `path` and holds it open, so that opening it does not block.
    pub fn open(path: &Path) -> Self {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self { pipe: File::options().read(true).write(true).open(path).unwrap() }
    }

    /// Sends one frame; it must fit the pipe, 64 KiB.
    pub fn send(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= 65_536, "a frame of {} bytes might wait for a reader", bytes.len());
        self.pipe.write_all(bytes).unwrap();
    }
}
