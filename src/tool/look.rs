//! `foveate look` and `foveate release`: steer a view's fixations, and end that.

use std::io::{self, Write};
use std::path::Path;

use super::ToolError;
use super::attend::region;
use foveate::client::Client;
use foveate::messages::{Look, Looking, ViewName};
use foveate_core::geometry::region::Region;

#[derive(Debug, clap::Args)]
pub(super) struct LookArguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Pixels right of the picture's left edge and below its top edge; up to 8 points, where the view has as many foveae
    #[arg(value_name = "X Y", value_parser = finite, allow_negative_numbers = true)]
    #[arg(required_unless_present = "region", num_args = 2..=16)]
    points: Vec<f64>,
    /// Look at a box instead, sharp throughout as far as the budget allows
    #[arg(long = "box", value_name = "X0,Y0,X1,Y1", value_parser = region, allow_hyphen_values = true)]
    #[arg(conflicts_with = "points")]
    region: Option<Region>,
    /// Share of the budget for the target, above 0 and up to 1 [default: as the layout says]
    #[arg(long, value_name = "F", value_parser = finite)]
    share: Option<f64>,
    /// Read points and boxes as shares of the picture's width and height, 0 to 1
    #[arg(long)]
    normalised: bool,
    /// Return to the policy after this time [default: at the next command; with a policy other than "fixed" also after its
    /// silence_ms]
    #[arg(long = "for", value_name = "MS", value_parser = milliseconds)]
    for_ms: Option<u32>,
    /// Number of the frame that the points refer to; motion since then moves them along [default: the frame to come]
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    #[command(flatten)]
    ego: EgoArguments,
    /// Wait for a frame with the new fixations, and print them
    #[arg(long)]
    wait: bool,
}

/// How the camera moved since a frame.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct EgoArguments {
    /// Camera motion since --frame, instead of the measured one: a homography from old to new pixels, 9 numbers row by row
    #[arg(long, value_name = "H11,H12,...,H33", value_parser = numbers::<9>, allow_hyphen_values = true)]
    #[arg(requires = "frame", conflicts_with = "rotation")]
    pub(super) homography: Option<[f64; 9]>,
    /// Rotation of a calibrated camera since --frame: a quaternion from its old to its new optical frame
    #[arg(long, value_name = "X,Y,Z,W", value_parser = numbers::<4>, allow_hyphen_values = true, requires = "frame")]
    pub(super) rotation: Option<[f64; 4]>,
}

/// Moves the fixations, and prints where the view looks from its next frame on.
pub(super) fn run(
    arguments: &LookArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let LookArguments { view, points, region, share, normalised, for_ms, frame, ego, wait } =
        arguments;
    let (points, rest) = points.as_chunks::<2>();
    if let [x] = rest {
        let error = format!("missing Y of the last point, {x} (expected X Y)");
        return Err(ToolError::Usage(error));
    }
    let points: Vec<(f64, f64)> = points.iter().map(|[x, y]| (*x, *y)).collect();
    let look = Look {
        region: *region,
        share: *share,
        normalised: *normalised,
        for_ms: *for_ms,
        frame: *frame,
        homography: ego.homography,
        rotation: ego.rotation,
        wait: *wait,
        ..Look::at_points(view, &points)
    };
    let has_moved = ego.homography.is_some() || ego.rotation.is_some();
    let looking = Client::connect(socket)?.look(look)?;
    if has_moved || region.is_some() {
        return write_moved(out, &looking, *wait).map_err(ToolError::Output);
    }
    let written = points.iter().zip(&looking.points).try_for_each(|((x, y), (at_x, at_y))| {
        let moved = (at_x - x).abs().max((at_y - y).abs()) > 1.0 / 16.0;
        let note = if moved && !normalised { " (the nearest point of the picture)" } else { "" };
        writeln!(out, "{view} looks at {at_x}, {at_y}{note}")
    });
    written.and_then(|()| write_outcome(out, &looking, *wait)).map_err(ToolError::Output)
}

/// Returns the view to its policy.
pub(super) fn release(
    view: &ViewName,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    Client::connect(socket)?.release(view)?;
    writeln!(out, "{view} follows its policy again").map_err(ToolError::Output)
}

/// Prints where the points are now, of which some may have left the picture.
fn write_moved(out: &mut dyn Write, looking: &Looking, was_awaited: bool) -> io::Result<()> {
    for (x, y) in &looking.points {
        writeln!(out, "{} looks at {x}, {y}", looking.view)?;
    }
    write_outcome(out, looking, was_awaited)
}

/// Prints the fixations that feedback led to, if that was awaited.
pub(super) fn write_outcome(
    out: &mut dyn Write,
    looking: &Looking,
    was_awaited: bool,
) -> io::Result<()> {
    write_taken_for(out, looking.taken_for)?;
    for fixation in &looking.fixations {
        let (id, x, y, since) = (fixation.id, fixation.x, fixation.y, fixation.since_frame);
        writeln!(out, "fixation {id}: {x}, {y} since frame {since}, by {}", fixation.reason)?;
    }
    if was_awaited && looking.fixations.is_empty() {
        writeln!(out, "no decision within a second")?;
    }
    Ok(())
}

/// Says that feedback counts for the newest frame, if it does.
pub(super) fn write_taken_for(out: &mut dyn Write, newest: Option<u64>) -> io::Result<()> {
    newest.map_or(Ok(()), |newest| {
        writeln!(out, "its frame is too old: taken for the newest one, {newest}")
    })
}

/// Parses `COUNT` finite numbers, separated by commas.
pub(super) fn numbers<const COUNT: usize>(text: &str) -> Result<[f64; COUNT], String> {
    let numbers = text.split(',').map(|number| number.trim().parse::<f64>().ok());
    let numbers = numbers.map(|number| number.filter(|number| number.is_finite()));
    let numbers: Option<Vec<f64>> = numbers.collect();
    let numbers = numbers.and_then(|numbers| <[f64; COUNT]>::try_from(numbers).ok());
    numbers.ok_or_else(|| format!("expected {COUNT} numbers, separated by commas"))
}

fn milliseconds(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected milliseconds, such as 500".to_owned())
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("expected a number of pixels, such as 320 or 12.5".to_owned()),
    }
}
