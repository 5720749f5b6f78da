//! `foveate web`: a page that shows live what the daemon sees, where it looks and what that costs.
//!
//! ```text
//!  daemon --rings--> follower (a thread for each view that some page shows)  --watch--+
//!         --stats--> reports (asked twice a second while there is a page)      --watch--+-> page (a task) <-> browser
//!         <--look--- steering (a connection for each page that steers)       <--------+
//! ```
//!
//! It is a client like any other: it knows the control socket and the rings, and nothing of it runs in the daemon. The
//! newest frame wins everywhere, so a browser that is slow or asleep waits for nobody but itself. `docs/web.md` is the
//! document of what goes over the wire.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::guard::Hosts;
use self::server::Site;
use foveate::messages::ViewName;
use foveate_core::error::exit;

mod decoder;
mod follower;
mod guard;
mod messages;
mod packet;
mod page;
mod reports;
mod server;
mod steering;

/// How long a signal may go unnoticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `foveate web`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The view that the page shows first [default: the first there is]
    #[arg(value_name = "STREAM/VIEW")]
    view: Option<ViewName>,
    /// Where to serve the page; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8707", value_parser = address)]
    listen: SocketAddr,
    /// Open the page in the browser of this desktop
    #[arg(long)]
    open: bool,
    /// Serve it on an address that other machines reach, too: whoever reaches it sees the pictures and may steer the
    /// views
    #[arg(long)]
    anywhere: bool,
    /// A name of this machine that browsers may ask for, besides localhost; may be given again and again
    #[arg(long = "allow-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Only show: the page steers no view
    #[arg(long)]
    read_only: bool,
}

/// Why the page is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The arguments make no sense together.
    #[error("{0}")]
    Usage(String),
    /// Nothing can be served at the address.
    #[error("cannot serve a page on {address}{}", taken_port(source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The address cannot be told.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl WebError {
    /// The exit code that says so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Listen { .. } => exit::UNAVAILABLE,
            Self::Output(_) => exit::FAILURE,
        }
    }
}

/// The way out where another program serves there already.
fn taken_port(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            ", where another program does already (--listen 127.0.0.1:0 takes any free port)"
        }
        _ => "",
    }
}

/// Serves the page until `stop` is set, with or without a daemon.
///
/// # Errors
///
/// If the arguments make no sense together, or nothing can be served there.
pub fn run(
    arguments: Arguments,
    socket: &Path,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), WebError> {
    let Arguments { view, listen, open, anywhere, allowed_hosts, read_only } = arguments;
    check_reach(listen, anywhere)?;
    let cannot_listen = |source| WebError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let url = format!("http://{address}/");
    writeln!(out, "{url} shows what foveated sees, until Ctrl-C")
        .and_then(|()| out.flush())
        .map_err(WebError::Output)?;
    if open {
        open_browser(&url);
    }
    let site = Site { socket: socket.to_owned(), view, read_only };
    serve(listener, site, Hosts::new(address, allowed_hosts), stop).map_err(cannot_listen)
}

/// Runs the server on this thread.
fn serve(listener: TcpListener, site: Site, hosts: Hosts, stop: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            end = server::run(listener, site, hosts) => end,
            () = raised(stop) => Ok(()),
        }
    });
    // Requests to a daemon that does not answer take seconds, and nobody waits for them any more.
    runtime.shutdown_background();
    end
}

async fn raised(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(SIGNAL_INTERVAL).await;
    }
}

fn check_reach(listen: SocketAddr, anywhere: bool) -> Result<(), WebError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if !anywhere {
        return Err(WebError::Usage(format!(
            "{listen} can be reached from other machines, and whoever reaches it sees the pictures: add --anywhere if that \
             is wanted, or listen on 127.0.0.1"
        )));
    }
    tracing::warn!(%listen, "whoever reaches this address sees the pictures of all streams, without a password");
    Ok(())
}

/// Asks the desktop for a browser. Without one the address is printed all the same.
fn open_browser(url: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut opener) => {
            // Its end has to be taken by somebody; how it ended changes nothing.
            std::thread::spawn(move || drop(opener.wait()));
        }
        Err(error) => tracing::warn!(%error, "no browser can be opened: xdg-open does not start"),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it takes an address and a port, such as 127.0.0.1:8707 or [::1]:8707".to_owned()
    })
}
