//! `foveate trace`: the fixations of a view, as a CSV table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::watch::seconds;
use super::{StopCondition, ToolError};
use foveate::client::{Client, Next, Subscription};
use foveate::messages::ViewName;
use foveate_core::geometry::fixation::{Fixation, Fixations};
use foveate_ring::{FrameHead, TokenFrameBuf};

#[derive(Debug, clap::Args)]
pub(super) struct TraceArguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The CSV file to write [default: standard output]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Stop after this many seconds [default: at the end of the view, or a signal]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Capture time of the first frame that shows the fixation in seconds since 1970; the point in pixels; the reason; from the message that
/// asked for it, or else from the frame's arrival, to the publication of its tokens, empty for a fixation that began before the
/// trace did or in a frame that was missed; the frame and the fixation.
const HEADING: &str = "time_s,x,y,reason,latency_ms,frame_seq,fixation_id";

/// Writes a row for each fixation.
pub(super) fn run(
    arguments: &TraceArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = StopCondition::new(arguments.seconds)?;
    let mut subscription = Client::connect(socket)?.subscribe(&arguments.view, false)?;
    let Some(path) = &arguments.out else {
        return trace(&mut subscription, &until, out, &ToolError::Output);
    };
    let error = |source| ToolError::writing(path, source);
    let mut file = BufWriter::new(File::create(path).map_err(error)?);
    trace(&mut subscription, &until, &mut file, &error)
}

fn trace(
    subscription: &mut Subscription,
    until: &StopCondition,
    out: &mut dyn Write,
    error: &dyn Fn(io::Error) -> ToolError,
) -> Result<(), ToolError> {
    writeln!(out, "{HEADING}").and_then(|()| out.flush()).map_err(error)?;
    let mut frame = TokenFrameBuf::default();
    let mut before = Fixations::new();
    while !until.is_over() {
        match subscription.next_in_order(&mut frame, until.slice())? {
            Next::Frame { .. } => {
                let fixations = &frame.head.fixations;
                for fixation in fixations.iter().filter(|fixation| !before.contains(fixation)) {
                    writeln!(out, "{}", row(&frame.head, fixation))
                        .and_then(|()| out.flush())
                        .map_err(error)?;
                }
                before.clone_from(fixations);
            }
            Next::NewSegment | Next::TimedOut => {}
            Next::Ended(_) => break,
        }
    }
    Ok(())
}

fn row(head: &FrameHead, fixation: &Fixation) -> String {
    let FrameHead { stamp, asked_ns, publish_ns, .. } = head;
    let began_ns = if *asked_ns == 0 { stamp.arrival_ns } else { *asked_ns };
    let latency_ms = if fixation.since_frame == stamp.frame_seq {
        format!("{:.3}", publish_ns.saturating_sub(began_ns) as f64 / 1e6)
    } else {
        String::new()
    };
    let (seconds, rest) =
        (stamp.capture_unix_ns / 1_000_000_000, stamp.capture_unix_ns % 1_000_000_000);
    format!(
        "{seconds}.{:06},{},{},{},{latency_ms},{},{}",
        rest / 1000,
        fixation.x,
        fixation.y,
        fixation.reason,
        stamp.frame_seq,
        fixation.id
    )
}
