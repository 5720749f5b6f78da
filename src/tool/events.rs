//! `foveate events`: events in the picture of a stream and changes of its state, line by line.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::watch::seconds;
use super::{StopCondition, ToolError, on_one_line, write_json_line};
use foveate::client::{Client, Next, SubscribeOptions};
use foveate::messages::{SceneEvent, ViewName, end_text, is_name};
use foveate_control::{ClientExt, StreamState};
use foveate_core::clock::unix_ns;
use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::geometry::region::Region;
use foveate_ring::{Reader, State, TokenFrameBuf};

#[derive(Debug, clap::Args)]
pub(super) struct EventsArguments {
    /// The stream, or one of its views, whose fixations are printed too [default: the first view]
    #[arg(value_name = "STREAM[/VIEW]", value_parser = place)]
    place: EventSource,
    /// Print one JSON object on a line for each event
    #[arg(long)]
    json: bool,
    /// Stop after this many seconds [default: at the end of the view, or a signal]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Origin of the events.
#[derive(Clone, Debug)]
pub(super) enum EventSource {
    Stream(String),
    View(ViewName),
}

impl EventSource {
    pub(super) fn stream(&self) -> &str {
        match self {
            Self::Stream(name) => name,
            Self::View(view) => view.stream(),
        }
    }
}

pub(super) fn place(text: &str) -> Result<EventSource, String> {
    if is_name(text) {
        return Ok(EventSource::Stream(text.to_owned()));
    }
    text.parse().map(EventSource::View).map_err(|error| format!("{error}, or the name of a stream"))
}

/// Prints events until the view ends.
pub(super) fn run(
    arguments: &EventsArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = StopCondition::new(arguments.seconds)?;
    let mut client = Client::connect(socket)?;
    let view = view_of(&arguments.place, &mut client)?;
    if tells_nothing(&view, &mut client)? {
        // Fails if standard error is closed.
        let _ = writeln!(
            io::stderr(),
            "{view} reports no events: set `events = true` for its stream. Waiting for stalls and its end only; Ctrl-C stops"
        );
    }
    let mut log =
        EventPrinter { view: view.clone(), is_json: arguments.json, state: State::Live, lost: 0 };
    let stream = client.list()?.into_iter().find(|stream| stream.name == view.stream());
    let is_away = |state| matches!(state, StreamState::Starting | StreamState::Stalled);
    if let Some(stream) = stream.filter(|stream| is_away(stream.state)) {
        log.write_state(State::Stalled, &stream.reason, out)?;
    }
    let options = SubscribeOptions { events: true, ..SubscribeOptions::default() };
    let mut subscription = client.subscribe_to(&view, options)?;
    let (mut frame, mut has_ended, mut was_live) = (TokenFrameBuf::default(), false, false);
    while !has_ended && !until.is_over() {
        let next = subscription.next_frame(&mut frame, until.slice())?;
        for event in subscription.take_events() {
            log.write_event(&event, out)?;
        }
        match next {
            Next::Ended(reason) => {
                has_ended = true;
                log.write_state(State::Ended, &reason, out)?;
            }
            Next::Frame { .. } | Next::NewSegment | Next::TimedOut => {
                let state = subscription.reader().map(Reader::state);
                was_live |= state.as_ref().is_some_and(|(state, _)| *state == State::Live);
                // A view that publishes only when read is stalled until it has noticed this reader.
                if let Some((state, reason)) =
                    state.filter(|(state, _)| was_live && *state != State::Ended)
                {
                    log.write_state(state, &reason, out)?;
                }
            }
        }
    }
    Ok(())
}

/// State that was printed last, to print only changes.
struct EventPrinter {
    view: ViewName,
    is_json: bool,
    state: State,
    /// Events that were lost so far.
    lost: u64,
}

/// A change of the view's state, with `--json`.
#[derive(Serialize)]
struct StateLine<'a> {
    view: &'a ViewName,
    state: State,
    reason: &'a str,
    unix_ns: u64,
}

impl EventPrinter {
    fn write_event(&mut self, event: &SceneEvent, out: &mut dyn Write) -> Result<(), ToolError> {
        if self.is_json {
            return write_json_line(out, event).map_err(ToolError::Output);
        }
        let missed = event.lost - std::mem::replace(&mut self.lost, event.lost);
        if 0 < missed {
            writeln!(out, "{missed} events were lost: too many came at once")
                .map_err(ToolError::Output)?;
        }
        writeln!(out, "{} {}", time(event.capture_unix_ns), line(event))
            .and_then(|()| out.flush())
            .map_err(ToolError::Output)
    }

    /// Prints `state` if it differs from the last one.
    fn write_state(
        &mut self,
        state: State,
        reason: &str,
        out: &mut dyn Write,
    ) -> Result<(), ToolError> {
        if std::mem::replace(&mut self.state, state) == state {
            return Ok(());
        }
        let (view, unix_ns) = (&self.view, unix_ns());
        let written = if self.is_json {
            write_json_line(out, &StateLine { view, state, reason, unix_ns })
        } else {
            let reason = on_one_line(end_text(reason));
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            writeln!(out, "{} {view}: {state}{because}", time(unix_ns)).and_then(|()| out.flush())
        };
        written.map_err(ToolError::Output)
    }
}

/// The time as text, such as `2026-11-26T12:10:38.776Z`.
fn time(unix_ns: u64) -> impl fmt::Display {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns))
}

/// Whether nobody looks for events in the stream of `view`. Until it is live, that is not known.
fn tells_nothing(view: &ViewName, client: &mut Client) -> Result<bool, ToolError> {
    let streams = client.stats()?.streams;
    let mut streams = streams.iter().filter(|stream| stream.state == StreamState::Live);
    Ok(streams.any(|stream| stream.name == view.stream() && stream.events.is_empty()))
}

fn view_of(place: &EventSource, client: &mut Client) -> Result<ViewName, ToolError> {
    let name = match place {
        EventSource::View(view) => return Ok(view.clone()),
        EventSource::Stream(name) => name,
    };
    let streams = client.list()?;
    let names = streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>().join(", ");
    let stream = streams.into_iter().find(|stream| stream.name == *name);
    let view = stream.and_then(|stream| Some(stream.views.first()?.name.clone()));
    view.ok_or_else(|| {
        ToolError::Usage(format!(
            "unknown stream `{name}`, or one without a view (expected one of: {names})"
        ))
    })
}

/// Such as `frame 812 camera/main: covered since frame 782 (3.5)`.
fn line(event: &SceneEvent) -> String {
    let SceneEvent { view, scene, .. } = event;
    let Event { kind, phase, frame, since_frame, region, value } = scene;
    let what = match phase {
        Phase::Once => String::new(),
        Phase::Began => format!(" since frame {since_frame}"),
        Phase::Ended => format!(" is over; it began with frame {since_frame}"),
    };
    let place = region.map_or(String::new(), |Region { x0, y0, x1, y1 }| match kind {
        EventKind::Reached => format!(" at {x0},{y0}"),
        _ => format!(" in {x0},{y0} to {x1},{y1}"),
    });
    format!("frame {frame} {view}: {kind}{what}{place} ({value:.2})")
}
