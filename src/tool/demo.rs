//! `foveate demo`: a daemon of its own and the live page in one command, for a first look.

use std::env;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foveate::messages::ViewName;
use foveate_core::source::ShorthandKind;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{ToolError, health, recordings, stop_on_signals, web};

/// The view that the page opens with, and the one that follows a gaze.
const VIEW: &str = "demo/main";
const GAZE: &str = "demo/gaze";

/// Layers of the page that are shown at first.
const LAYERS: &str = "boxes&gaze";

/// A camera may need seconds for its first picture, and a software GPU to compile its shaders.
const START_WITHIN: Duration = Duration::from_secs(60);

/// How long the daemon may take to end before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How often the daemon is looked at while it starts and stops.
const INTERVAL: Duration = Duration::from_millis(50);

/// Arguments of `foveate demo`.
#[derive(Debug, clap::Args)]
#[command(arg = super::hidden_socket())]
pub(super) struct DemoArguments {
    /// A clip, a camera such as /dev/video0, or an address to look at [default: a street that the program draws]
    #[arg(value_name = "SOURCE")]
    source: Option<String>,
    /// Serve the page at this address; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8707", value_parser = web::address)]
    listen: SocketAddr,
    /// Do not open the page in the browser of this desktop
    #[arg(long)]
    no_open: bool,
}

pub(super) fn run(arguments: DemoArguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let DemoArguments { source, listen, no_open } = arguments;
    // First, so that a signal while the daemon starts ends that, too.
    let stop = stop_on_signals()?;
    let mut daemon = DemoDaemon::start(source.as_deref().unwrap_or("test"))?;
    let view: ViewName = VIEW.parse().expect("a name");
    daemon.await_frames(&view, &stop)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    let socket = daemon.socket();
    let hints = format!(
        "Try: click into the picture of {GAZE}, and it looks there;\n     press U to compare with a uniform grid, B for the boxes;\n     \
         foveate --socket {} look {GAZE} 0.4 0.4",
        socket.display()
    );
    writeln!(out, "{hints}").map_err(ToolError::Output)?;
    let page = web::WebArguments::opening(view, LAYERS, listen, !no_open);
    let Some(recordings) = recordings(Vec::new(), &stop)? else { return Ok(()) };
    Ok(web::run(page, &socket, recordings, &stop, out)?)
}

/// A running daemon, whose files are in a folder of its own. Dropping it ends it.
struct DemoDaemon {
    folder: TempDir,
    process: Child,
}

impl DemoDaemon {
    fn start(source: &str) -> Result<Self, ToolError> {
        let folder = tempfile::Builder::new().prefix("foveate-demo-").tempdir();
        let folder = folder.map_err(|source| ToolError::writing(&env::temp_dir(), source))?;
        let path = |name: &str| folder.path().join(name);
        let config = path("demo.toml");
        let written = fs::write(&config, configuration(source));
        written.map_err(|source| ToolError::writing(&config, source))?;
        let log = fs::File::create(path("foveated.log"))
            .map_err(|source| ToolError::writing(&path("foveated.log"), source))?;
        let program = program();
        let process = Command::new(&program)
            .arg("--config")
            .arg(&config)
            .arg("--socket")
            .arg(path("foveate.sock"))
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let process = process.map_err(|source| ToolError::NotStarted { path: program, source })?;
        Ok(Self { folder, process })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("foveate.sock")
    }

    /// Returns once the view publishes frames, or `stop` is set.
    fn await_frames(&mut self, view: &ViewName, stop: &AtomicBool) -> Result<(), ToolError> {
        let deadline = Instant::now() + START_WITHIN;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match health::wait(view, Duration::ZERO, &self.socket()) {
                Err(ToolError::NotLive { .. }) if Instant::now() < deadline => {}
                Err(ToolError::NotLive { .. }) => return Err(self.failure()),
                result => return result,
            }
            if !matches!(self.process.try_wait(), Ok(None)) {
                return Err(self.failure());
            }
            thread::sleep(INTERVAL);
        }
    }

    /// The error that the end of the log reports.
    fn failure(&self) -> ToolError {
        let log = fs::read_to_string(self.folder.path().join("foveated.log")).unwrap_or_default();
        let last = log.lines().next_back().unwrap_or("its log is empty");
        ToolError::Demo(last.trim().to_owned())
    }
}

impl Drop for DemoDaemon {
    fn drop(&mut self) {
        let process = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let asked = process.is_some_and(|process| kill_process(process, Signal::TERM).is_ok());
        let deadline = Instant::now() + STOP_WITHIN;
        while asked && Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(INTERVAL);
        }
        // Fails if it has just ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The `foveated` beside this program, otherwise the one of `PATH`.
fn program() -> PathBuf {
    let beside = env::current_exe().ok().map(|own| own.with_file_name("foveated"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("foveated"))
}

/// A stream of `source` with a view of default settings, and one that follows a gaze.
fn configuration(source: &str) -> String {
    let is_clip = ShorthandKind::of(source) == Some(ShorthandKind::File);
    let place = Path::new(source);
    // The configuration is in another folder.
    let source = std::path::absolute(place)
        .ok()
        .filter(|_| is_clip && !source.contains("://"))
        .map_or_else(|| source.to_owned(), |path| path.to_string_lossy().into_owned());
    // A string of JSON is one of TOML; variables are not meant.
    let source = serde_json::Value::from(source).to_string().replace("${", "$${");
    format!(
        "[[stream]]\nname = 'demo'\nsource = {source}\nloop = {is_clip}\n\
         [[stream.view]]\nname = 'main'\n\
         [[stream.view]]\nname = 'gaze'\nlayout = 'foveal'\n"
    )
}
