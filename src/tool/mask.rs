//! `foveate mask`: shows and changes the privacy masks of a stream.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use super::ToolError;
use super::admin::order_with_notice;
use super::list::write_columns;
use super::look::numbers;
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{Refusal, RefusalReason};
use foveate_control::{AdminRequest, ClientExt as _, MaskListing};
use foveate_core::mask::{Mask, check_corners};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a NAME the masks of the stream are listed. A mask that is set holds from the next frame that the camera \
                  gives; the answer comes once one has been published with it. Masks that are set at run time last until they are \
                  cleared, the stream is removed or the daemon ends; what must last belongs in [[stream.mask]] of the \
                  configuration, and only a reload takes it away."
)]
pub(super) struct MaskArguments {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,
    /// Name of the mask to set or clear
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Corners of its polygon, at least 3: shares of the picture's width and height from its top left, 0 to 1
    #[arg(value_name = "X,Y", value_parser = numbers::<2>, conflicts_with = "clear")]
    corners: Vec<[f64; 2]>,
    /// A rectangle instead: two opposite corners
    #[arg(long = "box", value_name = "LEFT,TOP,RIGHT,BOTTOM", value_parser = numbers::<4>)]
    #[arg(conflicts_with_all = ["corners", "clear"], allow_hyphen_values = true)]
    rectangle: Option<[f64; 4]>,
    /// Clear the mask NAME, or without NAME all masks set at run time
    #[arg(long)]
    clear: bool,
}

pub(super) fn run(
    arguments: &MaskArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    match request(arguments)? {
        Some(request) => change(&request, socket, out),
        None => list(&arguments.stream, socket, out),
    }
}

/// The change to request; `None` to list the masks.
fn request(arguments: &MaskArguments) -> Result<Option<AdminRequest>, ToolError> {
    let MaskArguments { stream, name, corners, rectangle, clear } = arguments;
    let (mut names, mut set) = (Vec::new(), Vec::new());
    match (name, rectangle, &corners[..]) {
        (None, None, _) if *clear => {}
        (None, None, []) => return Ok(None),
        (Some(name), None, _) if *clear => names.push(name.clone()),
        (Some(name), Some(sides), _) => set.push(Mask::rectangle(name, *sides)),
        (Some(name), None, [_, ..]) => {
            set.push(Mask { name: name.clone(), points: corners.clone() });
        }
        _ => {
            let usage =
                "expected the NAME of a mask, and the corners of its polygon, or --box or --clear";
            return Err(ToolError::Usage(usage.to_owned()));
        }
    }
    for mask in &set {
        check_corners(&mask.points).map_err(ToolError::Usage)?;
    }
    let clear_all = *clear && name.is_none();
    Ok(Some(AdminRequest::Mask { stream: stream.clone(), clear_all, clear: names, set }))
}

fn change(request: &AdminRequest, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let answer = order_with_notice(socket, request)?;
    let names = answer["masks"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
    let names = if names.is_empty() { "no masks".to_owned() } else { names.join(", ") };
    let stream = answer["stream"].as_str().unwrap_or_default();
    match answer["reason"].as_str() {
        None => writeln!(out, "{stream}: {names}"),
        Some(reason) => {
            writeln!(out, "{stream}: {names}, from the next frame on; until then views keep what they have: {reason}")
        }
    }
    .map_err(ToolError::Output)
}

fn list(stream: &str, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let streams = Client::connect(socket)?.list()?;
    let listed = streams.into_iter().find(|listing| listing.name == stream).ok_or_else(|| {
        let error = format!("unknown stream {stream:?}: see `foveate ls`");
        ControlError::Refused(Refusal::new(RefusalReason::UnknownStream, error))
    })?;
    let row = |mask: MaskListing| {
        let corners = mask.points.iter().map(|[x, y]| format!("{x},{y}"));
        let by = if mask.is_configured { "configuration" } else { "operator" };
        [mask.name, by.to_owned(), corners.collect::<Vec<_>>().join(" ")]
    };
    let heading = ["MASK", "SET BY", "CORNERS"].map(str::to_owned);
    let rows: Vec<_> =
        std::iter::once(heading).chain(listed.detail.masks.into_iter().map(row)).collect();
    if rows.len() == 1 {
        return writeln!(out, "{stream} has no masks").map_err(ToolError::Output);
    }
    write_columns(out, &rows).map_err(ToolError::Output)
}
