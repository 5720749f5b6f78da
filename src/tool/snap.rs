//! `foveate snap`: PNG pictures of a view's newest token frame.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::picture::{self, Picture};
use super::watch::seconds;
use super::{ToolError, on_one_line};
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::ViewName;
use foveate::ring::canvas::Canvas;
use foveate_control::ClientExt as _;
use foveate_core::clock::monotonic_ns;
use foveate_ring::{State, TokenFrameBuf};

#[derive(Debug, clap::Args)]
pub(super) struct SnapArguments {
    /// The view, as `foveate ls` names it
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Directory for rebuilt.png, boxes.png, density.png, scanpath.png, and a picture channel-NAME.png of each channel that the view
    /// publishes; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Read so many frames, and draw canvas.png of them too: of each place the finest texels so far. Of a view with memory = "canvas"
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    canvas: Option<u32>,
    /// Longest wait for a frame, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    timeout: Duration,
}

/// Draws the newest frame of the view, and prints the paths of the files.
pub(super) fn run(
    arguments: &SnapArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let mut client = Client::connect(socket)?;
    let mut subscription = Client::connect(socket)?.subscribe(&arguments.view, false)?;
    let mut frame = TokenFrameBuf::default();
    let canvas = match arguments.canvas {
        Some(count) => {
            Some(drawn_canvas(&mut client, &mut subscription, &mut frame, arguments, count)?)
        }
        None => {
            let timeout = arguments.timeout;
            await_frame(&mut subscription, Subscription::next_frame, &mut frame, timeout)?;
            None
        }
    };
    let reader = subscription.reader().ok_or(ToolError::NoFrame)?;
    let segment = reader.header();
    let (state, reason) = reader.state();
    if state != State::Live {
        let age_ns = monotonic_ns().saturating_sub(frame.head.stamp.capture_ns);
        let (state, reason) = (format!("{state:?}").to_lowercase(), on_one_line(&reason));
        // Fails if standard error is closed.
        let _ = writeln!(
            io::stderr(),
            "{} is {state}: {reason}; this frame is {:.1} s old",
            arguments.view,
            age_ns as f64 / 1e9
        );
    }
    let scanpath = scanpath(&mut client, &arguments.view)?;

    make_directory(&arguments.out)?;
    let pictures = [
        ("rebuilt".to_owned(), picture::rebuilt(segment, &frame)),
        ("boxes".to_owned(), picture::boxes(segment, &frame)),
        ("density".to_owned(), picture::density(segment, &frame)),
        ("scanpath".to_owned(), picture::scanpath(segment, &frame, &scanpath)),
    ];
    let canvas = canvas.map(|canvas| ("canvas".to_owned(), picture::of_canvas(segment, &canvas)));
    let channels = frame.channels(segment).map(|channel| {
        // A broken writer's names must not leave the directory.
        let name = channel.name.replace('/', "_");
        (format!("channel-{name}"), picture::channel(segment, &frame, &channel))
    });
    for (name, picture) in pictures.into_iter().chain(canvas).chain(channels) {
        let path = arguments.out.join(format!("{name}.png"));
        save(&picture, &path)?;
        writeln!(out, "{}", path.display()).map_err(ToolError::Output)?;
    }
    Ok(())
}

/// The last fixations of the view, the current one last.
fn scanpath(client: &mut Client, name: &ViewName) -> Result<Vec<(f64, f64)>, ToolError> {
    let views = client.list()?.into_iter().flat_map(|stream| stream.views);
    let view = views.into_iter().find(|view| view.name == *name);
    let fixations = view.map(|view| view.scanpath).unwrap_or_default();
    Ok(fixations.into_iter().map(|fixation| (fixation.x, fixation.y)).collect())
}

/// How a subscription is read.
type ReadFrame =
    fn(&mut Subscription, &mut TokenFrameBuf, Duration) -> Result<Next, SubscriptionError>;

/// The canvas of `count` frames in order, each of which is awaited for the time-out. The last one stays in `frame`.
fn drawn_canvas(
    client: &mut Client,
    subscription: &mut Subscription,
    frame: &mut TokenFrameBuf,
    arguments: &SnapArguments,
    count: u32,
) -> Result<Canvas, ToolError> {
    let mut canvas = Canvas::default();
    for number in 0..count {
        let read = await_frame(subscription, Subscription::next_in_order, frame, arguments.timeout);
        match read {
            // The view has ended, as its state says.
            Err(ToolError::NoFrame) if 0 < number => break,
            read => read?,
        }
        let segment = subscription.reader().ok_or(ToolError::NoFrame)?.header();
        canvas.update(segment, frame)?;
        // Refused if the daemon has just forgotten all for another reader: then this one gets it, too.
        if canvas.wants_refresh() && client.refresh(&arguments.view).is_ok() {
            canvas.refreshed();
        }
    }
    Ok(canvas)
}

fn await_frame(
    subscription: &mut Subscription,
    read: ReadFrame,
    frame: &mut TokenFrameBuf,
    timeout: Duration,
) -> Result<(), ToolError> {
    let started = Instant::now();
    loop {
        match read(subscription, frame, timeout.saturating_sub(started.elapsed()))? {
            Next::Frame { .. } => return Ok(()),
            Next::NewSegment => {}
            Next::TimedOut | Next::Ended(_) => return Err(ToolError::NoFrame),
        }
    }
}

pub(super) fn make_directory(path: &Path) -> Result<(), ToolError> {
    fs::create_dir_all(path).map_err(|source| ToolError::writing(path, source))
}

/// Replaces the PNG file atomically: a full disk leaves the old one.
fn save(picture: &Picture, path: &Path) -> Result<(), ToolError> {
    let part = path.with_extension("png.part");
    let written = || -> io::Result<()> {
        let mut png = Vec::new();
        picture.write_png(&mut png)?;
        fs::write(&part, png)?;
        fs::rename(&part, path)
    };
    written().map_err(|source| {
        // Best effort: the first error is the one to report.
        let _ = fs::remove_file(&part);
        ToolError::writing(path, source)
    })
}
