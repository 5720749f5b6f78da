//! `foveate look` and `foveate release`: steer a view's fixations, and end that.

use std::io::{self, Write};
use std::path::Path;

use super::ToolError;
use foveate::client::Client;
use foveate::messages::{Look, Looking, ViewName};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Pixels right of the picture's left edge and below its top edge; up to 8 points, where the view has as many foveae
    #[arg(value_name = "X Y", value_parser = finite, allow_negative_numbers = true)]
    #[arg(required = true, num_args = 2..=16)]
    points: Vec<f64>,
    /// X and Y are shares of the picture's width and height, 0 to 1
    #[arg(long)]
    normalised: bool,
    /// Return to the policy after this time [default: at the next command; with a policy other than "fixed" also after its
    /// silence_ms]
    #[arg(long = "for", value_name = "MS")]
    for_ms: Option<u32>,
    /// Wait for a frame with the new fixations, and print them
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
}

/// Moves the fixations, and prints where the view looks from its next frame on.
pub(super) fn run(
    arguments: &Arguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let Arguments { view, points, normalised, for_ms, wait } = arguments;
    let (points, rest) = points.as_chunks::<2>();
    if let [x] = rest {
        let error = format!("a point is X Y, and the last one, {x}, has no Y");
        return Err(ToolError::Usage(error));
    }
    let points: Vec<(f64, f64)> = points.iter().map(|[x, y]| (*x, *y)).collect();
    let look = Look {
        normalised: *normalised,
        for_ms: *for_ms,
        wait: *wait,
        ..Look::at_points(view, &points)
    };
    let looking = Client::connect(socket)?.look(look)?;
    let obeyed =
        if points.len() == 1 { &[(looking.x, looking.y)] } else { looking.points.as_slice() };
    let written = points.iter().zip(obeyed).try_for_each(|((x, y), (at_x, at_y))| {
        let moved = (at_x - x).abs().max((at_y - y).abs()) > 1.0 / 16.0;
        let note = if moved && !normalised { " (the nearest point of the picture)" } else { "" };
        writeln!(out, "{view} looks at {at_x}, {at_y}{note}")
    });
    written.and_then(|()| write_outcome(out, &looking, *wait)).map_err(ToolError::Output)
}

/// Returns the view to its policy.
pub(super) fn release(
    arguments: &ReleaseArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    Client::connect(socket)?.release(&arguments.view)?;
    writeln!(out, "{} looks where its policy says", arguments.view).map_err(ToolError::Output)
}

/// Prints the fixations that feedback led to, if that was awaited.
pub(super) fn write_outcome(
    out: &mut dyn Write,
    looking: &Looking,
    was_awaited: bool,
) -> io::Result<()> {
    for fixation in &looking.fixations {
        let (id, x, y, since) = (fixation.id, fixation.x, fixation.y, fixation.since_frame);
        writeln!(out, "fixation {id}: {x}, {y} since frame {since}, by {}", fixation.reason)?;
    }
    if was_awaited && looking.fixations.is_empty() {
        writeln!(out, "no decision within a second")?;
    }
    Ok(())
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("expected a number of pixels, such as 320 or 12.5".to_owned()),
    }
}
