//! The subcommands of `foveate`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use foveate::client::SubscriptionError;
use foveate::messages::{Refusal, RefusalReason, ViewName};
use foveate::{ControlError, socket_path, socket_path_to_serve};
use foveate_config::{CalibrationError, ConfigError};
use foveate_core::error::exit;
use foveate_engine::backend::BackendError;
use foveate_gaze::controller::PolicyFileError;
#[cfg(feature = "gst")]
use foveate_player::PlayerError;
use foveate_ring::RingError;
use foveate_ring::canvas::CanvasError;

mod admin;
mod attend;
mod bench;
mod channels;
#[cfg(feature = "web")]
mod demo;
mod doctor;
mod events;
#[cfg(feature = "gst")]
mod extract;
mod health;
mod list;
mod look;
mod mask;
mod meter;
#[cfg(feature = "gst")]
mod npy;
mod overview;
mod picture;
#[cfg(feature = "mcap")]
mod record;
#[cfg(feature = "mcap")]
pub mod recording;
#[cfg(feature = "mcap")]
mod replay;
mod segment;
mod snap;
mod trace;
mod watch;
#[cfg(feature = "web")]
use foveate_web as web;

/// List, watch and steer the streams and views of `foveated`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "foveate",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 wrong usage or a wrong request, 69 something is unavailable (a daemon, a view, a \
                  file), 78 wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket."
)]
pub struct ToolArguments {
    /// The daemon's socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY,
    /// $XDG_RUNTIME_DIR/foveate and /run/foveate]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: ToolCommand,
}

/// Hides `--socket`, a global option, from the help of a subcommand that does not use a daemon.
#[cfg(any(feature = "gst", feature = "web"))]
fn hidden_socket() -> clap::Arg {
    clap::Arg::new("socket").long("socket").value_parser(clap::value_parser!(PathBuf)).hide(true)
}

#[derive(Debug, clap::Subcommand)]
enum ToolCommand {
    /// List the streams and views of the daemon
    Ls(list::ListArguments),
    /// Show all streams and views live, or the token frames of one view as they arrive
    Watch(watch::WatchArguments),
    /// Wait until a view publishes frames
    Wait {
        /// The view
        #[arg(value_name = "STREAM/VIEW")]
        view: ViewName,
        /// Longest wait, for the daemon as well
        #[arg(long, value_name = "S", default_value = "30", value_parser = watch::seconds)]
        timeout: Duration,
    },
    /// Check that every stream is live and fresh
    Health {
        /// Largest age of a stream's newest frame, in seconds [default: none while the daemon calls the stream live, and its frames
        /// arrive within 2 s of their capture]
        #[arg(long, value_name = "S", value_parser = watch::seconds)]
        max_age: Option<Duration>,
        /// Print one JSON object, with every stream
        #[arg(long)]
        json: bool,
    },
    /// Make a view look at a point of the picture
    Look(look::LookArguments),
    /// Make a view look at the peak of an attention map
    Attend(attend::AttendArguments),
    /// Give a view a channel: a map by name, for its scorer
    Inject(channels::InjectArguments),
    /// Set what channels add to the score of a view
    Weigh {
        /// The view; its policy must be "auto" or "relevance"
        #[arg(value_name = "STREAM/VIEW")]
        view: ViewName,
        /// Octaves of relevance for each unit of a channel, -64 to 64; 0 removes the weight
        #[arg(value_name = "NAME=WEIGHT", value_parser = channels::weight, required = true)]
        weights: Vec<(String, f64)>,
    },
    /// Return a view to its policy
    Release {
        /// The view
        #[arg(value_name = "STREAM/VIEW")]
        view: ViewName,
    },
    /// Print events as they happen: a cut, a covered camera, something new, a camera lost or back
    Events(events::EventsArguments),
    /// Record a view: where it looks, or all that it publishes
    #[cfg(feature = "mcap")]
    Record(record::RecordArguments),
    /// Publish a recording again, as the daemon published it
    #[cfg(feature = "mcap")]
    Replay(replay::ReplayArguments),
    /// Record where a view looks, as a CSV table
    Trace(trace::TraceArguments),
    /// Draw a view's newest token frame
    Snap(snap::SnapArguments),
    /// Add a stream to the running daemon
    AddStream {
        /// A configuration with one [[stream]]; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a stream from the running daemon
    RemoveStream {
        /// The stream
        #[arg(value_name = "STREAM")]
        stream: String,
    },
    /// Change a view of the running daemon
    #[command(
        after_help = "Keys are those of [[stream.view]], and with the prefix `gaze.` those of [stream.view.gaze]. Changes of max_fps \
                      and publish keep the view's segment; all others start a new one, which its readers follow. VALUE `default` \
                      restores a key's default. A later `foveate reload` restores the view of the configuration file."
    )]
    Set {
        /// The view
        #[arg(value_name = "STREAM/VIEW")]
        view: ViewName,
        /// What to change, such as max_fps=10 or gaze.policy=saliency
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = admin::assignment)]
        keys: Vec<(String, String)>,
    },
    /// Show or change the privacy masks of a stream
    Mask(mask::MaskArguments),
    /// Make the daemon reload its configuration
    Reload,
    /// Take a first look: a daemon of its own and the live page, until Ctrl-C
    #[cfg(feature = "web")]
    Demo(demo::DemoArguments),
    /// Show the streams, or a recording, in a browser: what the daemon sees, where it looks, and its cost
    #[cfg(feature = "web")]
    Web(web::WebArguments),
    /// Check this machine, its daemon and its cameras, or sources by their addresses
    Doctor(doctor::DoctorArguments),
    /// Measure the cost of a frame, stage by stage, without a daemon
    Bench(bench::BenchArguments),
    /// Convert every frame of a file to NumPy arrays, without a daemon
    #[cfg(feature = "gst")]
    Extract(extract::ExtractArguments),
}

/// Errors of the subcommands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Contradictory or unusable arguments.
    #[error("{0}")]
    Usage(String),

    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The measured backend fell back to the CPU.
    #[error("no result: the device fell back to the CPU during the measurement: {0}")]
    FellBack(String),

    /// The setup of a ring measurement failed, or a reader exited early.
    #[error("cannot measure the ring")]
    RingBench(#[source] io::Error),

    /// A request to the daemon failed.
    #[error(transparent)]
    Control(#[from] ControlError),

    /// The daemon refused a configuration.
    #[error("the daemon refused: {0}")]
    RefusedConfiguration(Refusal),

    /// A subscription failed.
    #[error(transparent)]
    Subscription(#[from] SubscriptionError),

    /// A view publishes no frames.
    #[error("{view} is not live after {seconds} s: {reason}")]
    NotLive {
        /// The view.
        view: ViewName,
        /// The timeout.
        seconds: f64,
        /// The last reason seen.
        reason: String,
    },

    /// Streams are not live, or not fresh; the reasons were printed.
    #[error("{sick} of {total} streams are unhealthy: see above")]
    Unhealthy {
        /// Unhealthy streams.
        sick: usize,
        /// All streams.
        total: usize,
    },

    /// A view of which there is no canvas.
    #[error(transparent)]
    Canvas(#[from] CanvasError),

    /// The view ended, or no frame arrived in time.
    #[error("no frame arrived: see `foveate ls` for the state of the stream")]
    NoFrame,

    /// A requirement of every stream is missing; the findings were printed.
    #[error("requirements are missing: see FAIL above")]
    Unfit,

    /// Sources that were tried deliver no frames; the findings were printed.
    #[cfg(feature = "gst")]
    #[error("no frames from some of the sources: see FAIL above")]
    NoFrames,

    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// A file cannot be played.
    #[cfg(feature = "gst")]
    #[error(transparent)]
    Capture(#[from] foveate_capture::CaptureError),

    /// The source is a folder of pictures, which this build cannot decode.
    #[cfg(all(feature = "gst", not(feature = "pictures")))]
    #[error(
        "cannot read the folder {}: this build lacks the feature `pictures`, a default: build with it, or play the pictures as \
         a clip with --sequence",
        .0.display()
    )]
    BuiltWithoutPictures(PathBuf),

    /// A folder has no pictures.
    #[cfg(feature = "pictures")]
    #[error(transparent)]
    Pictures(#[from] foveate_pictures::ListError),

    /// A clip cannot be played to its end.
    #[cfg(feature = "gst")]
    #[error(transparent)]
    Player(PlayerError),

    /// A signal arrived before the end of the clip.
    #[error("interrupted: the arrays have the frames so far")]
    Interrupted,

    /// A clip cannot be played to its end.
    #[error("cannot play the clip: {0}")]
    Clip(String),

    /// A recording is incomplete.
    #[error("the gaze log is incomplete: {0}; it holds the frames before")]
    Recording(String),

    /// A recording fails.
    #[cfg(feature = "mcap")]
    #[error(transparent)]
    Mcap(#[from] recording::RecordingError),

    /// A gaze log cannot be replayed.
    #[error(transparent)]
    Policy(#[from] PolicyFileError),

    /// The calibration of a camera cannot be used.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),

    /// The backend is unavailable.
    #[error(transparent)]
    Backend(#[from] BackendError),

    /// A ring cannot be created or read.
    #[error(transparent)]
    Ring(#[from] RingError),

    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A recording cannot be served.
    #[cfg(feature = "mcap")]
    #[error(transparent)]
    Serve(#[from] foveate_server::ServeError),

    /// The daemon of the demonstration cannot be started.
    #[cfg(feature = "web")]
    #[error("cannot start {}: install it beside this program, or in a folder of PATH", path.display())]
    NotStarted {
        /// The daemon.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The daemon of the demonstration ended, or published nothing in time.
    #[cfg(feature = "web")]
    #[error("the daemon published no frame: {0}")]
    Demo(String),

    /// The page cannot be served.
    #[cfg(feature = "web")]
    #[error(transparent)]
    Web(#[from] web::WebError),

    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

#[cfg(feature = "gst")]
impl From<PlayerError> for ToolError {
    fn from(error: PlayerError) -> Self {
        match error {
            PlayerError::Capture(error) => Self::Capture(error),
            PlayerError::Policy(error) => Self::Policy(error),
            PlayerError::Backend(error) => Self::Backend(error),
            error => Self::Player(error),
        }
    }
}

impl ToolError {
    fn reading(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    fn writing(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// Exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Control(error) | Self::Subscription(SubscriptionError::Control(error)) => {
                match error {
                    ControlError::Refused(refusal) if is_mistake(refusal.reason) => exit::USAGE,
                    ControlError::NoDaemon { .. }
                    | ControlError::Permission { .. }
                    | ControlError::TimedOut { .. }
                    | ControlError::Disconnected
                    | ControlError::Refused(_) => exit::UNAVAILABLE,
                    _ => exit::FAILURE,
                }
            }
            Self::Subscription(SubscriptionError::Disconnected)
            | Self::NoFrame
            | Self::NotLive { .. }
            | Self::Unhealthy { .. } => exit::UNAVAILABLE,
            #[cfg(feature = "gst")]
            Self::NoFrames => exit::UNAVAILABLE,
            #[cfg(feature = "gst")]
            Self::Capture(error) => error.exit_code(),
            #[cfg(feature = "pictures")]
            Self::Pictures(_) => exit::CONFIG,
            Self::Config(_)
            | Self::Policy(_)
            | Self::Calibration(_)
            | Self::RefusedConfiguration(_) => exit::CONFIG,
            Self::Usage(_) => exit::USAGE,
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                exit::UNAVAILABLE
            }
            #[cfg(feature = "web")]
            Self::Web(error) => error.exit_code(),
            #[cfg(feature = "web")]
            Self::NotStarted { .. } | Self::Demo(_) => exit::UNAVAILABLE,
            #[cfg(feature = "mcap")]
            Self::Mcap(error) if error.is_missing_file() => exit::UNAVAILABLE,
            #[cfg(feature = "mcap")]
            Self::Serve(_) => exit::UNAVAILABLE,
            Self::Backend(_) | Self::FellBack(_) | Self::Unfit => exit::UNAVAILABLE,
            _ => exit::FAILURE,
        }
    }
}

/// Whether a request was refused because it is wrong in itself.
fn is_mistake(reason: RefusalReason) -> bool {
    matches!(
        reason,
        RefusalReason::BadRequest
            | RefusalReason::TooLarge
            | RefusalReason::WrongCount
            | RefusalReason::NotFinite
            | RefusalReason::Negative
            | RefusalReason::AllZero
            | RefusalReason::MapTooLarge
            | RefusalReason::BadBox
    )
}

/// Runs a subcommand, which writes to `out`.
///
/// # Errors
///
/// If the command fails. A closed pipe as output, as after `head`, counts as success.
pub fn run(arguments: ToolArguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let asked_for = arguments.socket.as_deref();
    let socket = socket_path(asked_for);
    let result = match arguments.command {
        ToolCommand::Ls(arguments) => list::run(&arguments, &socket, out),
        ToolCommand::Watch(arguments) => watch::run(&arguments, &socket, out),
        ToolCommand::Wait { view, timeout } => health::wait(&view, timeout, &socket),
        ToolCommand::Health { max_age, json } => health::check(max_age, json, &socket, out),
        ToolCommand::Look(arguments) => look::run(&arguments, &socket, out),
        ToolCommand::Attend(arguments) => attend::run(&arguments, &socket, out),
        ToolCommand::Inject(arguments) => channels::inject(&arguments, &socket, out),
        ToolCommand::Weigh { view, weights } => channels::weigh(&view, weights, &socket, out),
        ToolCommand::Release { view } => look::release(&view, &socket, out),
        ToolCommand::Events(arguments) => events::run(&arguments, &socket, out),
        #[cfg(feature = "mcap")]
        ToolCommand::Record(arguments) => record::run(&arguments, &socket, out),
        #[cfg(feature = "mcap")]
        ToolCommand::Replay(arguments) => {
            replay::run(&arguments, &socket_path_to_serve(asked_for), out)
        }
        ToolCommand::Trace(arguments) => trace::run(&arguments, &socket, out),
        ToolCommand::Snap(arguments) => snap::run(&arguments, &socket, out),
        ToolCommand::AddStream { file } => admin::add(&file, &socket, out),
        ToolCommand::RemoveStream { stream } => admin::remove(stream, &socket, out),
        ToolCommand::Set { view, keys } => admin::set(&view, &keys, &socket, out),
        ToolCommand::Mask(arguments) => mask::run(&arguments, &socket, out),
        ToolCommand::Reload => admin::reload(&socket, out),
        #[cfg(feature = "web")]
        ToolCommand::Demo(arguments) => demo::run(arguments, out),
        #[cfg(feature = "web")]
        ToolCommand::Web(arguments) => {
            let stop = stop_on_signals()?;
            let Some(recordings) = recordings(arguments.recording()?, &stop)? else {
                return Ok(());
            };
            web::run(arguments, &socket, recordings, &stop, out).map_err(ToolError::from)
        }
        ToolCommand::Doctor(arguments) => {
            doctor::run(&arguments, &socket, &socket_path_to_serve(asked_for), out)
        }
        ToolCommand::Bench(arguments) => bench::run(&arguments, &socket, out),
        #[cfg(feature = "gst")]
        ToolCommand::Extract(arguments) => extract::run(&arguments, out),
    };
    match result.and_then(|()| out.flush().map_err(ToolError::Output)) {
        Err(ToolError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The page's recordings, with the one in `files`, if there are files. `None` once `stop` is set.
#[cfg(all(feature = "web", feature = "mcap"))]
fn recordings(
    files: Vec<PathBuf>,
    stop: &AtomicBool,
) -> Result<Option<web::Recordings>, ToolError> {
    let make: web::MakeRecording = recording::page::make;
    let mut recordings = web::Recordings { shown: None, make: Some(make) };
    if !files.is_empty() {
        recordings.shown = recording::page::open(files, &|| stop.load(Ordering::Relaxed))?;
        if recordings.shown.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(recordings))
}

#[cfg(all(feature = "web", not(feature = "mcap")))]
fn recordings(files: Vec<PathBuf>, _: &AtomicBool) -> Result<Option<web::Recordings>, ToolError> {
    if files.is_empty() {
        return Ok(Some(web::Recordings::default()));
    }
    Err(ToolError::Usage("recordings need a `foveate` that was built with `mcap`".to_owned()))
}

/// Registers a flag that the first SIGINT, SIGTERM or SIGHUP sets; the second one ends the program at once. A SIGHUP that `nohup` has
/// the program ignore stays ignored.
fn stop_on_signals() -> Result<Arc<AtomicBool>, ToolError> {
    let stop = Arc::new(AtomicBool::new(false));
    let hang_up = Some(SIGHUP).filter(|signal| !is_ignored(*signal));
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(ToolError::Output)?;
    }
    Ok(stop)
}

/// Whether the process ignores `signal`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// How often the end of an [`StopCondition`] is checked.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// When a subcommand that follows something ends: at a signal, or after a time limit.
struct StopCondition {
    stop: Arc<AtomicBool>,
    begun: Instant,
    /// Time limit; `None` for no limit.
    deadline: Option<Instant>,
}

impl StopCondition {
    fn new(limit: Option<Duration>) -> Result<Self, ToolError> {
        let begun = Instant::now();
        let deadline = limit.and_then(|limit| begun.checked_add(limit));
        Ok(Self { stop: stop_on_signals()?, begun, deadline })
    }

    /// Whether a signal has come.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_stopped() || self.deadline.is_some_and(|at| at <= Instant::now())
    }

    /// How long to wait before the next [`is_over`](Self::is_over).
    fn slice(&self) -> Duration {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        self.deadline.map_or(SIGNAL_INTERVAL, |at| left(at).min(SIGNAL_INTERVAL))
    }
}

/// Writes `value` as one line of JSON.
fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}

/// Text from outside for one line of a terminal: control characters become spaces.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
