//! `foveate events`: what happens in the picture of a stream, line by line.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::watch::seconds;
use super::{ToolError, Until, write_json_line};
use foveate::client::{Client, Next, Wants};
use foveate::messages::{SceneEvent, ViewName, is_name};
use foveate_control::{ClientExt, StreamState};
use foveate_core::events::{Event, EventKind, Phase};
use foveate_core::geometry::region::Region;
use foveate_ring::TokenFrameBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The stream, or one of its views, whose fixations are told too [default: the first view]
    #[arg(value_name = "STREAM[/VIEW]", value_parser = place)]
    place: Place,
    /// Print one JSON object on a line for each event
    #[arg(long)]
    json: bool,
    /// Stop after this many seconds [default: at the end of the view, or a signal]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Where to listen.
#[derive(Clone, Debug)]
enum Place {
    Stream(String),
    View(ViewName),
}

fn place(text: &str) -> Result<Place, String> {
    if is_name(text) {
        return Ok(Place::Stream(text.to_owned()));
    }
    text.parse().map(Place::View).map_err(|error| format!("{error}, or the name of a stream"))
}

/// Prints events until the view ends.
pub(super) fn run(
    arguments: &Arguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = Until::new(arguments.seconds)?;
    let mut client = Client::connect(socket)?;
    let view = view_of(&arguments.place, &mut client)?;
    if tells_nothing(&view, &mut client)? {
        // Fails if standard error is closed.
        let _ = writeln!(
            io::stderr(),
            "nothing is told of {view}: its stream has no `events = true` in its configuration"
        );
    }
    let wants = Wants { events: true, ..Wants::default() };
    let mut subscription = client.subscribe_to(&view, wants)?;
    let (mut frame, mut has_ended, mut lost) = (TokenFrameBuf::default(), false, 0);
    while !has_ended && !until.is_over() {
        has_ended = matches!(subscription.next_frame(&mut frame, until.slice())?, Next::Ended(_));
        for event in subscription.take_scenes() {
            if arguments.json {
                write_json_line(out, &event).map_err(ToolError::Output)?;
                continue;
            }
            let missed = event.lost - lost;
            lost = event.lost;
            if 0 < missed {
                writeln!(out, "{missed} events were lost: too many came at once")
                    .map_err(ToolError::Output)?;
            }
            writeln!(out, "{}", line(&event))
                .and_then(|()| out.flush())
                .map_err(ToolError::Output)?;
        }
    }
    Ok(())
}

/// Whether nobody looks for events in the stream of `view`. Until it is live, that is not known.
fn tells_nothing(view: &ViewName, client: &mut Client) -> Result<bool, ToolError> {
    let streams = client.stats()?.streams;
    let mut streams = streams.iter().filter(|stream| stream.state == StreamState::Live);
    Ok(streams.any(|stream| stream.name == view.stream() && stream.events.is_empty()))
}

fn view_of(place: &Place, client: &mut Client) -> Result<ViewName, ToolError> {
    let name = match place {
        Place::View(view) => return Ok(view.clone()),
        Place::Stream(name) => name,
    };
    let streams = client.list()?;
    let names = streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>().join(", ");
    let stream = streams.into_iter().find(|stream| stream.name == *name);
    let view = stream.and_then(|stream| Some(stream.views.first()?.name.clone()));
    view.ok_or_else(|| {
        ToolError::Usage(format!("there is no stream `{name}` with a view; there are: {names}"))
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
