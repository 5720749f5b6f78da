//! The subcommands of `foveate`: each reads its arguments, talks to the daemon and writes to an output.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use foveate::client::SubscriptionError;
use foveate::messages::ViewName;
use foveate::{ControlError, socket_path};
use foveate_config::CalibrationError;
use foveate_config::ConfigError;
use foveate_core::error::exit;
use foveate_core::gaze::log::GazeLogError;
use foveate_engine::backend::BackendError;
use foveate_ring::RingError;

pub mod admin;
pub mod attend;
pub mod bench;
pub mod doctor;
#[cfg(feature = "gst")]
pub mod extract;
pub mod health;
pub mod list;
pub mod look;
pub mod meter;
pub mod npy;
mod overview;
pub mod picture;
pub mod record;
mod segment;
pub mod snap;
pub mod trace;
pub mod watch;
#[cfg(feature = "web")]
use foveate_web as web;

/// List, watch and steer what `foveated` sees.
#[derive(Debug, clap::Parser)]
#[command(
    name = "foveate",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 wrong usage, 69 something is not there (a daemon, a view, a file), 78 \
                  wrong configuration.\n\
                  Environment: RUST_LOG sets the log level, FOVEATE_SOCKET the socket."
)]
pub struct Arguments {
    /// The daemon's socket [default: $FOVEATE_SOCKET, else foveate.sock in $RUNTIME_DIRECTORY,
    /// $XDG_RUNTIME_DIR/foveate or /run/foveate]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the streams and views of the daemon
    Ls(list::Arguments),
    /// Show all streams and views, or read the token frames of one view and show what arrives
    Watch(watch::Arguments),
    /// Wait until a view publishes frames
    Wait(health::WaitArguments),
    /// See whether every stream is live and fresh
    Health(health::HealthArguments),
    /// Make a view look at a point of the picture
    Look(look::Arguments),
    /// Make a view look where an attention map has its peak
    Attend(attend::Arguments),
    /// Make a view look where its policy says again
    Release(look::ReleaseArguments),
    /// Write down where a view looks, to be replayed
    Record(record::Arguments),
    /// Write down where a view looks, as a table
    Trace(trace::Arguments),
    /// Draw a view's newest token frame
    Snap(snap::Arguments),
    /// Add a stream to a daemon that runs
    AddStream(admin::AddArguments),
    /// Remove a stream from a daemon that runs
    RemoveStream(admin::RemoveArguments),
    /// Change a view of a daemon that runs
    Set(admin::SetArguments),
    /// Have the daemon read its configuration again
    Reload,
    /// Show live in a browser what the daemon sees, where it looks and what that costs
    #[cfg(feature = "web")]
    Web(web::Arguments),
    /// See what this machine has and lacks, how its daemon is, and which cameras it could watch
    Doctor,
    /// Measure what a frame costs, stage by stage, without a daemon
    Bench(bench::Arguments),
    /// Turn every frame of a file into NumPy arrays, without a daemon
    #[cfg(feature = "gst")]
    Extract(extract::Arguments),
}

/// Why a subcommand failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Arguments that contradict each other.
    #[error("{0}")]
    Usage(String),

    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// What was measured was not what was to be measured.
    #[error("the device gave way to the CPU while it was measured: {0}")]
    FellBack(String),

    /// What it takes to measure the ring cannot be set up, or a reader is gone.
    #[error("the ring cannot be measured")]
    RingBench(#[source] io::Error),

    /// The daemon cannot be asked, or refuses.
    #[error(transparent)]
    Control(#[from] ControlError),

    /// A view cannot be followed any longer.
    #[error(transparent)]
    Subscription(#[from] SubscriptionError),

    /// A view does not publish.
    #[error("{view} is not live after {seconds} s: {reason}")]
    NotLive {
        /// The view.
        view: ViewName,
        /// How long it was waited for.
        seconds: f64,
        /// Why, when it was last looked at.
        reason: String,
    },

    /// Streams are not live, or not fresh; the reasons were printed.
    #[error("{sick} of {total} streams are not well: see above")]
    Unhealthy {
        /// How many.
        sick: usize,
        /// Of how many.
        total: usize,
    },

    /// The view published nothing in time, or ended before it did.
    #[error("no frame came: see `foveate ls` for the state of the stream")]
    NoFrame,

    /// Something that everything needs is missing; the findings were printed.
    #[error("something that Foveate needs is missing: see FAIL above")]
    Unfit,

    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// A file cannot be played.
    #[cfg(feature = "gst")]
    #[error(transparent)]
    Capture(#[from] foveate_capture::CaptureError),

    /// A signal came before the end of the clip.
    #[error("interrupted: the arrays hold the frames up to there")]
    Interrupted,

    /// A file cannot be played to its end.
    #[error("the clip cannot be played: {0}")]
    Clip(String),

    /// The log of a view does not hold all of it.
    #[error("the log ends here: {0}")]
    Recording(String),

    /// What a view was to look at cannot be read.
    #[error(transparent)]
    GazeLog(#[from] GazeLogError),

    /// The calibration of a camera cannot be used.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),

    /// The backend is not there.
    #[error(transparent)]
    Backend(#[from] BackendError),

    /// Shared memory cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),

    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The page cannot be served.
    #[cfg(feature = "web")]
    #[error(transparent)]
    Web(#[from] web::WebError),

    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl ToolError {
    /// The exit code that says so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Control(error) | Self::Subscription(SubscriptionError::Control(error)) => {
                control_exit_code(error)
            }
            Self::Subscription(SubscriptionError::Disconnected)
            | Self::NoFrame
            | Self::NotLive { .. }
            | Self::Unhealthy { .. } => exit::UNAVAILABLE,
            #[cfg(feature = "gst")]
            Self::Capture(error) => error.exit_code(),
            Self::Config(_) | Self::GazeLog(_) | Self::Calibration(_) => exit::CONFIG,
            Self::Usage(_) => exit::USAGE,
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                exit::UNAVAILABLE
            }
            #[cfg(feature = "web")]
            Self::Web(error) => error.exit_code(),
            Self::Backend(_) | Self::FellBack(_) | Self::Unfit => exit::UNAVAILABLE,
            Self::Subscription(_)
            | Self::Clip(_)
            | Self::RingBench(_)
            | Self::Interrupted
            | Self::Recording(_)
            | Self::Ring(_)
            | Self::File { .. }
            | Self::Unreadable { .. }
            | Self::Output(_) => exit::FAILURE,
        }
    }
}

fn control_exit_code(error: &ControlError) -> u8 {
    match error {
        ControlError::NoDaemon { .. }
        | ControlError::Permission { .. }
        | ControlError::TimedOut { .. }
        | ControlError::Disconnected
        | ControlError::Refused(_) => exit::UNAVAILABLE,
        _ => exit::FAILURE,
    }
}

/// Runs one subcommand, which writes to `out`.
///
/// # Errors
///
/// If it fails. An output that nobody reads any more, such as `head` closes, is no failure.
pub fn run(arguments: Arguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let socket = socket_path(arguments.socket.as_deref());
    let result = match arguments.command {
        Command::Ls(arguments) => list::run(&arguments, &socket, out),
        Command::Watch(arguments) => watch::run(&arguments, &socket, out),
        Command::Wait(arguments) => health::wait(&arguments, &socket),
        Command::Health(arguments) => health::check(&arguments, &socket, out),
        Command::Look(arguments) => look::run(&arguments, &socket, out),
        Command::Attend(arguments) => attend::run(&arguments, &socket, out),
        Command::Release(arguments) => look::release(&arguments, &socket, out),
        Command::Record(arguments) => record::run(&arguments, &socket, out),
        Command::Trace(arguments) => trace::run(&arguments, &socket, out),
        Command::Snap(arguments) => snap::run(&arguments, &socket, out),
        Command::AddStream(arguments) => admin::add(&arguments, &socket, out),
        Command::RemoveStream(arguments) => admin::remove(&arguments, &socket, out),
        Command::Set(arguments) => admin::set(&arguments, &socket, out),
        Command::Reload => admin::reload(&socket, out),
        #[cfg(feature = "web")]
        Command::Web(arguments) => {
            let stop = stop_on_signals()?;
            web::run(arguments, &socket, &stop, out).map_err(ToolError::from)
        }
        Command::Doctor => doctor::run(&socket, out),
        Command::Bench(arguments) => bench::run(&arguments, &socket, out),
        #[cfg(feature = "gst")]
        Command::Extract(arguments) => extract::run(&arguments, out),
    };
    match result.and_then(|()| out.flush().map_err(ToolError::Output)) {
        Err(ToolError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A flag that the first SIGINT or SIGTERM sets. A second one ends the program at once, in case the first is not
/// noticed.
fn stop_on_signals() -> Result<Arc<AtomicBool>, ToolError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(ToolError::Output)?;
    }
    Ok(stop)
}

/// Text of somebody else on one line of a terminal: control characters become spaces.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
