//! `foveate record`: records a view's token frames as an MCAP file, or its gaze as a gaze log.

use std::fs::File;
use std::io::Write;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};

use self::tape::Tape;
use super::recording::RecordingSettings;
use super::watch::seconds;
use super::{StopCondition, ToolError};
use foveate::client::{Client, Next, SubscribeOptions, Subscription};
use foveate::messages::{GazeEvent, ViewName};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::plane::TILES;
use foveate_gaze::log::{entry_line, header_line};
use foveate_ring::TokenFrameBuf;

mod tape;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(true).args(["mcap", "out"]))]
pub(super) struct RecordArguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The MCAP file to write: token frames, gaze, events, and pictures for Foxglove and Rerun; `foveate replay` publishes
    /// it again
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file))]
    mcap: Option<PathBuf>,
    /// Pictures a second in the MCAP file, 0 to 1000: each takes time to rebuild
    #[arg(long, value_name = "HZ", default_value = "2", value_parser = hertz, requires = "mcap")]
    pictures_hz: f64,
    /// Continue in another file, FILE-0001.mcap and so on, before a file exceeds this size: bytes, or with KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "mcap")]
    rotate_size: Option<u64>,
    /// Continue in another file after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds, requires = "mcap")]
    rotate_seconds: Option<Duration>,
    /// The gaze log to write; a view with `policy = "replay"` follows it
    #[arg(long, value_name = "LOG", value_parser = PathBufValueParser::new().try_map(file))]
    out: Option<PathBuf>,
    /// Stop after this many seconds [default: at the end of the view, or a signal]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Records until the view ends, and prints what was written.
pub(super) fn run(
    arguments: &RecordArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = StopCondition::new(arguments.seconds)?;
    let client = Client::connect(socket)?;
    let options = SubscribeOptions {
        notify: false,
        gaze: arguments.out.is_some(),
        events: arguments.mcap.is_some(),
    };
    let mut subscription = client.subscribe_to(&arguments.view, options)?;
    let mut log = arguments.out.as_deref().map(GazeLogFile::create).transpose()?;
    let tape = arguments
        .mcap
        .as_deref()
        .map(|path| Tape::begin(&arguments.view, settings(arguments, path)));
    let mut tape = tape.transpose()?;
    let followed = follow(&mut subscription, &until, socket, log.as_mut(), tape.as_mut());
    let taped = tape.map_or(Ok(()), |tape| tape.end(&followed, out));
    if let Some(GazeLogFile { path, newest, entries, .. }) = log {
        let newest = newest.map_or(0, |newest| newest.frame);
        writeln!(out, "{}: {entries} entries up to frame {newest}", path.display())
            .map_err(ToolError::Output)?;
    }
    // If the file cannot be written, that is why following it ended.
    taped.and(followed)
}

fn settings(arguments: &RecordArguments, path: &Path) -> RecordingSettings {
    let interval = (0.0 < arguments.pictures_hz).then(|| 1.0 / arguments.pictures_hz);
    RecordingSettings {
        path: path.to_owned(),
        rotate_bytes: arguments.rotate_size,
        rotate_after: arguments.rotate_seconds,
        picture_interval: interval.map(Duration::from_secs_f64),
    }
}

fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path == Path::new("-") {
        return Err(
            "expected the path of a file: a recording cannot be written to standard output",
        );
    }
    Ok(path)
}

/// Gives each what it records, until the view ends or one of them cannot go on.
fn follow(
    subscription: &mut Subscription,
    until: &StopCondition,
    socket: &Path,
    mut log: Option<&mut GazeLogFile>,
    mut tape: Option<&mut Tape>,
) -> Result<(), ToolError> {
    let mut frame = TokenFrameBuf::default();
    let mut has_begun = false;
    while !until.is_over() {
        let next = if tape.is_some() {
            subscription.next_in_order(&mut frame, until.slice())?
        } else {
            // The log only needs the gaze, and every change of the gaze arrives as a message.
            subscription.next_frame(&mut frame, until.slice())?
        };
        if next == Next::NewSegment && tape.is_some() && !mem::replace(&mut has_begun, true) {
            request_delivered(subscription, socket);
        }
        if let (Some(tape), Some(reader)) = (&mut tape, subscription.reader())
            && !tape.record(&next, reader, &mut frame)
        {
            break;
        }
        if let Some(tape) = &tape
            && subscription.reader().is_some()
            && !subscription.take_events().into_iter().all(|event| tape.event(event))
        {
            break;
        }
        if let Some(log) = &mut log {
            log.follow(&next, subscription)?;
        }
        if let Next::Ended(_) = next {
            break;
        }
    }
    Ok(())
}

/// Asks for all that a view for a canvas takes for delivered, which a recording that begins now does not have.
fn request_delivered(subscription: &Subscription, socket: &Path) {
    let is_for_canvas =
        subscription.reader().is_some_and(|reader| reader.header().plane_index(TILES).is_some());
    if is_for_canvas {
        // A daemon that refuses, as one that replays a recording, delivers it as time goes by.
        let _ = Client::connect(socket).and_then(|mut client| client.refresh(subscription.view()));
    }
}

/// A gaze log, which covers one picture size.
struct GazeLogFile {
    path: PathBuf,
    file: File,
    segments: u32,
    /// The newest entry.
    newest: Option<GazeEntry>,
    entries: u64,
}

impl GazeLogFile {
    fn create(path: &Path) -> Result<Self, ToolError> {
        let file = File::create(path).map_err(|source| ToolError::writing(path, source))?;
        Ok(Self { path: path.to_owned(), file, segments: 0, newest: None, entries: 0 })
    }

    /// Appends what has come with `next`.
    fn follow(&mut self, next: &Next, subscription: &mut Subscription) -> Result<(), ToolError> {
        if *next == Next::NewSegment {
            self.segments += 1;
            self.begin(subscription)?;
        }
        // The header needs the segment, which may arrive after the first gaze event.
        let gazes = if self.segments == 0 { Vec::new() } else { subscription.take_gazes() };
        gazes.iter().try_for_each(|event| self.append(event))
    }

    /// Writes the header.
    fn begin(&mut self, subscription: &Subscription) -> Result<(), ToolError> {
        if 1 < self.segments {
            return Err(ToolError::Recording(
                "the size or format of the picture changed: a log covers one size".to_owned(),
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
        if self.newest.as_ref().is_some_and(|newest| repeats(&event.entry, newest)) {
            return Ok(());
        }
        self.newest = Some(event.entry.clone());
        self.entries += 1;
        self.write(&entry_line(&event.entry))
    }

    fn write(&mut self, line: &str) -> Result<(), ToolError> {
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|source| ToolError::writing(&self.path, source))
    }
}

/// Whether an entry repeats the `newest` one.
fn repeats(entry: &GazeEntry, newest: &GazeEntry) -> bool {
    let is_older = entry.frame <= newest.frame;
    is_older
        || !entry.is_planned_afresh
            && GazeEntry {
                frame: newest.frame,
                is_planned_afresh: newest.is_planned_afresh,
                ..entry.clone()
            } == *newest
}

/// Pictures a second, as an argument.
fn hertz(text: &str) -> Result<f64, String> {
    let hertz = text.parse().ok().filter(|hertz| (0.0..=1000.0).contains(hertz));
    hertz.ok_or_else(|| "a number from 0 to 1000".to_owned())
}

/// A size, as an argument.
fn bytes(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("expected a number of bytes, or one with KiB, MiB or GiB".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| 0 < *bytes)
        .ok_or_else(|| "a whole number above 0, such as 512MiB".to_owned())
}
