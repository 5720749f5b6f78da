//! `foveate trace`: where a view looks, and when, as a table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::watch::seconds;
use super::{ToolError, stop_on_signals};
use foveate::client::{Client, Next, Subscription};
use foveate::messages::ViewName;
use foveate_ring::{FrameHead, TokenFrameBuf};

/// How long a signal may go unnoticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `foveate trace`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The table, of comma-separated values [default: standard output]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Stop after that many seconds [default: when the view ends, or a signal comes]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// The columns: when the first frame of the fixation was taken, in seconds since 1970; the point in pixels; why; from the message
/// that asked for it, or where none did from the arrival of the frame, to the publishing of its tokens; the frame and the
/// fixation.
const HEADING: &str = "time_s,x,y,reason,latency_ms,frame_seq,fixation_id";

/// Writes a row for each fixation.
pub fn run(arguments: &Arguments, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let stop = stop_on_signals()?;
    let mut subscription = Client::connect(socket)?.subscribe(&arguments.view, false)?;
    let Some(path) = &arguments.out else {
        let refused = ToolError::Output;
        return trace(&mut subscription, arguments.seconds, &stop, out, &refused);
    };
    let refused = |source| ToolError::File { path: path.clone(), source };
    let mut file = BufWriter::new(File::create(path).map_err(refused)?);
    let traced = trace(&mut subscription, arguments.seconds, &stop, &mut file, &refused);
    traced.and(file.flush().map_err(refused))
}

fn trace(
    subscription: &mut Subscription,
    limit: Option<Duration>,
    stop: &AtomicBool,
    out: &mut dyn Write,
    refused: &dyn Fn(io::Error) -> ToolError,
) -> Result<(), ToolError> {
    writeln!(out, "{HEADING}").map_err(refused)?;
    let started = Instant::now();
    let mut frame = TokenFrameBuf::default();
    let mut fixation = None;
    while !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| started.elapsed() < limit) {
        match subscription.next_in_order(&mut frame, SIGNAL_INTERVAL)? {
            Next::Frame { .. } => {
                if fixation.replace(frame.head.fixation.id) != Some(frame.head.fixation.id) {
                    writeln!(out, "{}", row(&frame.head)).map_err(refused)?;
                    out.flush().map_err(refused)?;
                }
            }
            Next::NewSegment | Next::TimedOut => {}
            Next::Ended(_) => break,
        }
    }
    Ok(())
}

fn row(head: &FrameHead) -> String {
    let FrameHead { stamp, fixation, asked_ns, publish_ns, .. } = head;
    let began_ns = if *asked_ns == 0 { stamp.arrival_ns } else { *asked_ns };
    let latency_ms = publish_ns.saturating_sub(began_ns) as f64 / 1e6;
    let (seconds, rest) =
        (stamp.capture_unix_ns / 1_000_000_000, stamp.capture_unix_ns % 1_000_000_000);
    format!(
        "{seconds}.{:06},{},{},{},{latency_ms:.3},{},{}",
        rest / 1000,
        fixation.x,
        fixation.y,
        fixation.reason,
        stamp.frame_seq,
        fixation.id
    )
}
