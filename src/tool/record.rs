//! `foveate record`: the gaze log of a view, which a view with `policy = "replay"` follows.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::watch::seconds;
use super::{ToolError, Until};
use foveate::client::{Client, Next, Subscription};
use foveate::messages::{GazeEvent, ViewName};
use foveate_core::gaze::log::{entry_line, header_line};
use foveate_ring::TokenFrameBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The gaze log to write; a view with `policy = "replay"` follows it
    #[arg(long, value_name = "LOG")]
    out: PathBuf,
    /// Stop after this many seconds [default: at the end of the view, or a signal]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

struct Recording<'a> {
    path: &'a Path,
    file: File,
    /// Frame of the newest entry; 0 before the first.
    newest: u64,
    entries: u64,
}

/// Writes the log until the view ends or its picture changes, and prints its length.
pub(super) fn run(
    arguments: &Arguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = Until::new(arguments.seconds)?;
    let mut subscription = Client::connect(socket)?.record(&arguments.view)?;
    let path = &arguments.out;
    let file = File::create(path).map_err(|source| ToolError::writing(path, source))?;
    let mut recording = Recording { path, file, newest: 0, entries: 0 };
    let followed = recording.follow(&mut subscription, &until);
    let Recording { newest, entries, .. } = recording;
    writeln!(out, "{}: {entries} entries up to frame {newest}", path.display())
        .map_err(ToolError::Output)?;
    followed
}

impl Recording<'_> {
    fn follow(&mut self, subscription: &mut Subscription, until: &Until) -> Result<(), ToolError> {
        let mut frame = TokenFrameBuf::default();
        let mut segments = 0;
        while !until.is_over() {
            let next = subscription.next_frame(&mut frame, until.slice())?;
            if next == Next::NewSegment {
                segments += 1;
                self.begin(subscription, segments)?;
            }
            // The header needs the segment, which may arrive after the first gaze event.
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

    /// Writes the header. A log is limited to one picture size.
    fn begin(&mut self, subscription: &Subscription, segments: u32) -> Result<(), ToolError> {
        if 1 < segments {
            return Err(ToolError::Recording(
                "the picture changed its size or format, and a log covers one size".to_owned(),
            ));
        }
        let extent = subscription.reader().ok_or(ToolError::NoFrame)?.header().extent;
        self.write(&header_line(&subscription.view().to_string(), extent))
    }

    fn append(&mut self, event: &GazeEvent) -> Result<(), ToolError> {
        if 0 < event.lost {
            return Err(ToolError::Recording(format!("{} events were lost", event.lost)));
        }
        // The current gaze is sent to all recorders again when another one subscribes.
        if event.entry.frame <= self.newest {
            return Ok(());
        }
        (self.newest, self.entries) = (event.entry.frame, self.entries + 1);
        self.write(&entry_line(&event.entry))
    }

    fn write(&mut self, line: &str) -> Result<(), ToolError> {
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|source| ToolError::writing(self.path, source))
    }
}
