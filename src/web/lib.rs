//! `foveate web`: a live page with the views of a daemon, their gaze and their cost.
//!
//! ```text
//!  daemon --rings--> follower (a thread for each view that is shown)        --watch--+
//!         --stats--> reports (polled twice a second while a page is open)   --watch--+-> page (a task) <-> browser
//!         --rings--> thumbnails (one thread, twice a second, for start pages)      --+
//!         <--look--- steering (a connection for each page that steers)      <--------+
//! ```
//!
//! It is an ordinary client of the control socket and the rings; none of it runs in the daemon. The newest frame wins
//! everywhere, so a slow browser delays no other. `messages` and `packet` describe the protocol.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::guard::AccessToken;
pub use self::history::recording::{FrameToRecord, MakeRecording, RecordedFrames, RecordedView};
pub use self::history::stored::FrameSegment;
pub use self::history::timeline::{Timeline, TimelineFact};
use self::history::{BYTES_DEFAULT, Histories};
use self::page::Settings;
use foveate::messages::{ViewName, ViewNameError};
use foveate_core::error::exit;
use foveate_http::Hosts;

mod decoder;
mod follower;
mod guard;
mod history;
mod inspection;
mod masking;
mod messages;
mod packet;
mod page;
mod reports;
mod seats;
mod server;
mod steering;
mod thumbnail;
mod thumbnails;

/// Most pages at a time. Each costs a copy of the newest frame, and a lease if it steers.
const PAGES_MAX: usize = 16;

/// Interval of checking the stop flag.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `foveate web`.
#[derive(Debug, clap::Args)]
pub struct WebArguments {
    /// The view that the page shows first [default: the only stream, or the start page of several], or the files of one recording, in
    /// their order
    #[arg(value_name = "STREAM/VIEW|FILE.mcap", value_parser = page_subject)]
    subjects: Vec<PageSubject>,
    /// Serve the page at this address; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8707", value_parser = address)]
    listen: SocketAddr,
    /// Open the page in the browser of this desktop
    #[arg(long)]
    open: bool,
    /// Allow an address that other machines can reach: anyone who can connect sees the pictures and may steer the views
    #[arg(long)]
    anywhere: bool,
    /// A host name of this machine that browsers may use besides localhost; may be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Do not let pages steer views
    #[arg(long)]
    read_only: bool,
    /// Memory for the last minute of the shown views: bytes, or with KiB, MiB or GiB; beyond it, older frames are thinned out; 0 keeps no frames
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    history: u64,
    /// Layers that the page shows at first, as in its address.
    #[arg(skip)]
    layers: Option<&'static str>,
    /// Require a random token, which is printed as a part of the address at each start
    #[arg(long, conflicts_with = "open")]
    token: bool,
}

/// The subject of a page, from the arguments.
#[derive(Clone, Debug)]
enum PageSubject {
    View(ViewName),
    Recording(PathBuf),
}

fn page_subject(text: &str) -> Result<PageSubject, String> {
    if text.ends_with(".mcap") {
        return Ok(PageSubject::Recording(text.into()));
    }
    text.parse().map(PageSubject::View).map_err(|error: ViewNameError| error.to_string())
}

impl WebArguments {
    /// The files of the recording that pages show in place of a daemon; empty for a daemon.
    ///
    /// # Errors
    ///
    /// If there is more than one view, or both a view and files.
    pub fn recording(&self) -> Result<Vec<PathBuf>, WebError> {
        let files = self.subjects.iter().filter_map(|subject| match subject {
            PageSubject::Recording(path) => Some(path.clone()),
            PageSubject::View(_) => None,
        });
        let files: Vec<_> = files.collect();
        if 1 < self.subjects.len() && files.len() < self.subjects.len() {
            return Err(WebError::Usage(
                "too many arguments (expected one view, or the files of one recording)".to_owned(),
            ));
        }
        Ok(files)
    }

    fn view(&self) -> Option<ViewName> {
        self.subjects.iter().find_map(|subject| match subject {
            PageSubject::View(view) => Some(view.clone()),
            PageSubject::Recording(_) => None,
        })
    }

    /// A page at `listen` that begins with `view` and these `layers`, and opens in the browser of the desktop if it `opens`.
    pub fn opening(view: ViewName, layers: &'static str, listen: SocketAddr, opens: bool) -> Self {
        Self {
            subjects: vec![PageSubject::View(view)],
            history: BYTES_DEFAULT,
            listen,
            open: opens,
            anywhere: false,
            allowed_hosts: Vec::new(),
            read_only: false,
            layers: Some(layers),
            token: false,
        }
    }
}

/// Errors of `foveate web`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// Contradictory arguments.
    #[error("{0}")]
    Usage(String),
    /// The address cannot be listened on.
    #[error("cannot serve a page on {address}{}", taken_port(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// No token can be made.
    #[error("cannot get random bytes for a token")]
    Random(#[source] io::Error),
    /// The address cannot be printed.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl WebError {
    /// Exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Listen { .. } => exit::UNAVAILABLE,
            Self::Random(_) | Self::Output(_) => exit::FAILURE,
        }
    }
}

/// The remedy for a port in use.
fn taken_port(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            ": another program uses the port (--listen 127.0.0.1:0 takes any free one)"
        }
        _ => "",
    }
}

/// Recordings of the program that serves the page.
#[derive(Debug, Default)]
pub struct Recordings {
    /// The recording to show in place of a daemon.
    pub shown: Option<RecordedView>,
    /// Makes recordings of what is in memory.
    pub make: Option<MakeRecording>,
}

/// Serves the page until `stop` is set, with or without a daemon.
///
/// # Errors
///
/// If the arguments contradict each other, or the address cannot be listened on.
pub fn run(
    arguments: WebArguments,
    socket: &Path,
    recordings: Recordings,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), WebError> {
    let view = arguments.view();
    let WebArguments {
        subjects: _,
        history,
        listen,
        open,
        anywhere,
        allowed_hosts,
        read_only,
        layers,
        token,
    } = arguments;
    check_reach(listen, anywhere, token)?;
    let token = token.then(AccessToken::random).transpose().map_err(WebError::Random)?;
    let cannot_listen = |source| WebError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let query = token.as_ref().map(AccessToken::query).unwrap_or_default();
    let layers = layers.map_or(String::new(), |layers| format!("#{layers}"));
    let url = format!("http://{address}/{query}{layers}");
    let reach = match (&token, address.ip().is_loopback()) {
        (None, true) => "; all users of this machine can open it (--token keeps others out)",
        _ => "",
    };
    let recording = recordings.shown.map(Arc::new);
    let what = recording.as_ref().map_or("what foveated sees", |recording| &*recording.title);
    writeln!(out, "{url} shows {what}, until Ctrl-C{reach}")
        .and_then(|()| out.flush())
        .map_err(WebError::Output)?;
    if open {
        open_browser(&url);
    }
    let settings = Settings {
        socket: socket.to_owned(),
        view: recording.as_ref().map(|recording| recording.view.clone()).or(view),
        read_only: read_only || recording.is_some(),
        token,
        recording,
        make_recording: recordings.make,
    };
    let histories = Histories::new(usize::try_from(history).unwrap_or(usize::MAX));
    serve(listener, settings, histories, Hosts::new(address, allowed_hosts), stop)
        .map_err(cannot_listen)
}

/// Runs the server on this thread.
fn serve(
    listener: TcpListener,
    settings: Settings,
    histories: Histories,
    hosts: Hosts,
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = server::run(&listener, settings, histories, hosts) => {}
            () = raised(stop) => {}
        }
        Ok(())
    });
    // Requests to a daemon that does not answer take seconds; do not wait for them.
    runtime.shutdown_background();
    end
}

async fn raised(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(SIGNAL_INTERVAL).await;
    }
}

fn check_reach(listen: SocketAddr, anywhere: bool, token: bool) -> Result<(), WebError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if !anywhere {
        return Err(WebError::Usage(format!(
            "{listen} is reachable from other machines, and anyone who connects sees the pictures: add --anywhere if that is \
             intended, or listen on 127.0.0.1"
        )));
    }
    let who = if token { "who reads this network" } else { "who can connect to this address" };
    tracing::warn!(%listen, "anyone {who} sees the pictures of all streams: nothing is encrypted");
    Ok(())
}

/// Opens `url` in the desktop's browser, if there is one; the address has been printed anyway.
fn open_browser(url: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut opener) => {
            // Reaps the child; its exit status does not matter.
            std::thread::spawn(move || drop(opener.wait()));
        }
        Err(error) => {
            tracing::warn!(%error, "cannot start xdg-open: open the printed address in a browser")
        }
    }
}

/// A size in bytes, as an argument.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes =
        number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    bytes
        .ok_or_else(|| "expected bytes, or a number with KiB, MiB or GiB, such as 64MiB".to_owned())
}

/// An address to listen on.
///
/// # Errors
///
/// If it is none, with an example.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an address and a port, such as 127.0.0.1:8707 or [::1]:8707".to_owned()
    })
}
