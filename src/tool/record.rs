//! `foveate record`: write down where a view looks, so that another one can look there again.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::watch::seconds;
use super::{ToolError, stop_on_signals};
use foveate::client::{Client, Next, Subscription};
use foveate::messages::{GazeEvent, ViewName};
use foveate_core::gaze::log::{entry_line, header_line};
use foveate_ring::TokenFrameBuf;

/// How long a signal may go unnoticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `foveate record`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The log; a view with `policy = "replay"` looks where it says
    #[arg(long, value_name = "LOG")]
    out: PathBuf,
    /// Stop after that many seconds [default: when the view ends, or a signal comes]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// A log in the making.
struct Recording<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    /// Frame of the newest entry; 0 before the first.
    newest: u64,
    entries: u64,
}

/// Writes the log until the view ends or moves to another segment, and says how much it holds.
pub fn run(arguments: &Arguments, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let stop = stop_on_signals()?;
    let mut subscription = Client::connect(socket)?.record(&arguments.view)?;
    let path = &arguments.out;
    let file = File::create(path)
        .map_err(|source| ToolError::File { path: path.clone(), source })
        .map(BufWriter::new)?;
    let mut recording = Recording { path, file, newest: 0, entries: 0 };
    let followed = recording.follow(&mut subscription, arguments.seconds, &stop);
    recording.flush()?;
    let Recording { newest, entries, .. } = recording;
    writeln!(out, "{}: {entries} entries up to frame {newest}", path.display())
        .map_err(ToolError::Output)?;
    followed
}

impl Recording<'_> {
    fn follow(
        &mut self,
        subscription: &mut Subscription,
        limit: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<(), ToolError> {
        let started = Instant::now();
        let mut frame = TokenFrameBuf::default();
        let mut segments = 0;
        while !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| started.elapsed() < limit) {
            let next = subscription.next_frame(&mut frame, SIGNAL_INTERVAL)?;
            if next == Next::NewSegment {
                segments += 1;
                self.begin(subscription, segments)?;
            }
            // The first line needs the segment, which may come after the first gaze.
            let gazes = if segments == 0 { Vec::new() } else { subscription.take_gazes() };
            for event in gazes {
                self.append(&event)?;
            }
            if let Next::Ended(_) = next {
                break;
            }
        }
        Ok(())
    }

    /// Writes the first line. A log is about a picture of one size.
    fn begin(&mut self, subscription: &Subscription, segments: u32) -> Result<(), ToolError> {
        if 1 < segments {
            return Err(ToolError::Recording("the picture changed its size or format".to_owned()));
        }
        let extent = subscription.reader().ok_or(ToolError::NoFrame)?.header().extent;
        self.write(&header_line(&subscription.view().to_string(), extent))
    }

    fn append(&mut self, event: &GazeEvent) -> Result<(), ToolError> {
        if 0 < event.lost {
            return Err(ToolError::Recording(format!("{} events were lost", event.lost)));
        }
        // Somebody else who begins to record has the present gaze told to everybody again.
        if event.entry.frame <= self.newest {
            return Ok(());
        }
        (self.newest, self.entries) = (event.entry.frame, self.entries + 1);
        self.write(&entry_line(&event.entry))?;
        self.flush()
    }

    fn write(&mut self, line: &str) -> Result<(), ToolError> {
        let written = writeln!(self.file, "{line}");
        written.map_err(|source| ToolError::File { path: self.path.to_owned(), source })
    }

    fn flush(&mut self) -> Result<(), ToolError> {
        let flushed = self.file.flush();
        flushed.map_err(|source| ToolError::File { path: self.path.to_owned(), source })
    }
}
