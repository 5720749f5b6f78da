//! `foveate ls`: lists streams and views.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use super::events::{EventSource, place};
use super::{ToolError, on_one_line, write_json_line};
use foveate::client::Client;
use foveate::messages::clipped;
use foveate_control::{
    ChangeListing, ChannelListing, ClientExt as _, DepthListing, Listing, MaskListing,
    SteeringListing, StreamInput, StreamListing, StuckListing, ViewListing,
};
use foveate_core::backend::ChangeSite;
use foveate_core::geometry::fixation::Fixation;
use foveate_stats::process::SourceProcessUse;
use foveate_stats::{NoticeCounts, StreamCounts};

/// Names in a cell or before a reason.
const NAMES_SHOWN_MAX: usize = 6;

/// Longest source in a row, in bytes.
const SOURCE_BYTES_MAX: usize = 60;

/// Arguments of `foveate ls`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Show this stream, or this view of it, with all details [default: a row for each stream]
    #[arg(value_name = "STREAM[/VIEW]", value_parser = place)]
    place: Option<EventSource>,
    /// Show all details of each stream and view
    #[arg(long, short, conflicts_with_all = ["json", "names"])]
    verbose: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Print only the names of streams and views, one a line
    #[arg(long, conflicts_with = "json")]
    names: bool,
}

/// Prints every stream and every view, or those that are named.
pub(super) fn run(
    arguments: &ListArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let mut listing = Client::connect(socket)?.listing()?;
    if let Some(place) = &arguments.place {
        keep_only(&mut listing, place)?;
    }
    let written = if arguments.json {
        write_json_line(out, &listing)
    } else if arguments.names {
        write_names(out, &listing)
    } else if arguments.verbose || arguments.place.is_some() {
        listing.streams.iter().try_for_each(|stream| write_stream(out, stream))
    } else {
        write_overview(out, &listing.streams)
    };
    written.map_err(ToolError::Output)
}

/// Leaves only the stream of `place`, and only the view, if it is one.
fn keep_only(listing: &mut Listing, place: &EventSource) -> Result<(), ToolError> {
    let stream_name = place.stream();
    let names = names_of(listing.streams.iter().map(|stream| &stream.name));
    listing.streams.retain(|stream| stream.name == stream_name);
    let Some(stream) = listing.streams.first_mut() else {
        return Err(ToolError::Usage(format!(
            "no stream `{stream_name}`; expected one of: {names}"
        )));
    };
    if let EventSource::View(view) = place {
        let names = names_of(stream.views.iter().map(|view| &view.name));
        stream.views.retain(|listed| listed.name == *view);
        if stream.views.is_empty() {
            return Err(ToolError::Usage(format!("no view `{view}`; expected one of: {names}")));
        }
    }
    Ok(())
}

fn names_of<T: ToString>(names: impl Iterator<Item = T>) -> String {
    names.map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
}

fn write_names(out: &mut dyn Write, listing: &Listing) -> io::Result<()> {
    for stream in &listing.streams {
        writeln!(out, "{}", stream.name)?;
        stream.views.iter().try_for_each(|view| writeln!(out, "{}", view.name))?;
    }
    Ok(())
}

/// A row for each stream, and below them what is wrong, each reason once.
fn write_overview(out: &mut dyn Write, streams: &[StreamListing]) -> io::Result<()> {
    let heading =
        ["STREAM", "STATE", "FRAMES", "CAPTURED", "DROPPED", "BACKEND", "VIEWS", "SOURCE"];
    let heading = heading.map(str::to_owned);
    let rows = streams.iter().map(stream_row);
    write_columns(out, &std::iter::once(heading).chain(rows).collect::<Vec<_>>())?;
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for stream in streams {
        for reason in stream.reasons().iter().map(|reason| on_one_line(reason)) {
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, names)) => names.push(&stream.name),
                None => reasons.push((reason, vec![&stream.name])),
            }
        }
    }
    if !reasons.is_empty() {
        writeln!(out)?;
    }
    reasons.iter().try_for_each(|(reason, names)| writeln!(out, "  {}: {reason}", some_of(names)))
}

fn stream_row(stream: &StreamListing) -> [String; 8] {
    let StreamInput { source, format, extent, .. } = &stream.detail;
    let frames = format.as_ref().zip(*extent);
    let frames =
        frames.map(|(format, [width, height])| format!("{} {width}x{height}", on_one_line(format)));
    let views: Vec<_> = stream.views.iter().map(|view| view.name.view()).collect();
    let backend = stream.backend.as_ref().map(|backend| backend.kind.to_string());
    [
        stream.name.clone(),
        stream.state.to_string(),
        frames.unwrap_or_else(|| "-".to_owned()),
        stream.counts.frames_captured.to_string(),
        stream.counts.frames_dropped.to_string(),
        backend.unwrap_or_else(|| "-".to_owned()),
        some_of(&views),
        clipped(&on_one_line(source), SOURCE_BYTES_MAX),
    ]
}

/// The first names, and how many more there are.
fn some_of(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

fn write_stream(out: &mut dyn Write, stream: &StreamListing) -> io::Result<()> {
    let reason = on_one_line(&stream.reason);
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    writeln!(out, "{}  {}{because}", stream.name, stream.state)?;
    writeln!(out, "  source   {}", on_one_line(&stream.detail.source))?;
    write_frames(out, &stream.detail)?;
    if let Some(backend) = &stream.backend {
        let (device, reason) = (on_one_line(&backend.device), on_one_line(&backend.reason));
        writeln!(out, "  backend  {} on {device}: {reason}", backend.kind)?;
    }
    if let (Some(change), Some(backend)) = (&stream.change, &stream.backend) {
        write_change(out, change, backend.change_on)?;
        write_reuse(out, stream, change)?;
    }
    write_masks(out, &stream.detail.masks)?;
    write_processes(out, &stream.processes)?;
    write_counters(out, stream)?;
    let views = stream.views.iter().map(view_row);
    let heading = ["VIEW", "LAYOUT", "TOKENS", "DTYPE", "POLICY", "LOOKS AT"].map(str::to_owned);
    write_columns(out, &std::iter::once(heading).chain(views).collect::<Vec<_>>())?;
    stream.views.iter().try_for_each(|view| write_steering(out, view))?;
    stream.views.iter().try_for_each(|view| write_channels(out, view))?;
    stream.views.iter().try_for_each(|view| write_notices(out, view))?;
    stream.views.iter().try_for_each(|view| write_shed(out, view))
}

/// Format, size, pixel aspect ratio and colour of the frames, once there was one.
fn write_frames(out: &mut dyn Write, input: &StreamInput) -> io::Result<()> {
    let (Some(format), Some([width, height])) = (&input.format, input.extent) else {
        return Ok(());
    };
    write!(out, "  frames   {} {width}x{height}", on_one_line(format))?;
    if let Some([width, height]) = input.pixel_aspect.filter(|[width, height]| width != height) {
        write!(out, ", pixels {width}:{height}")?;
    }
    if let Some(color) = input.color {
        write!(out, ", {color}")?;
    }
    if let Some([low, high]) = input.gray_range {
        write!(out, ", 16-bit gray from {low} to {high}")?;
    }
    writeln!(out)
}

fn write_change(out: &mut dyn Write, change: &ChangeListing, site: ChangeSite) -> io::Result<()> {
    let ChangeListing { threshold, threshold_limit, noise, tiles_dirty, tile_count } = change;
    write!(out, "  change   found on the {site}, threshold {threshold}")?;
    if let Some(limit) = threshold_limit {
        let noise = noise.map_or_else(|| "not known yet".to_owned(), |noise| format!("{noise:.2}"));
        write!(out, " (auto, noise {noise}, limit {limit})")?;
    }
    writeln!(out, ", {tiles_dirty} of {tile_count} tiles in the newest frame")
}

/// The share of the tokens that consumers may reuse, and what keeps them from more, if anything does.
fn write_reuse(
    out: &mut dyn Write,
    stream: &StreamListing,
    change: &ChangeListing,
) -> io::Result<()> {
    let published: u64 = stream.views.iter().map(|view| view.tokens_published).sum();
    let kept: u64 = stream.views.iter().map(|view| view.tokens_kept).sum();
    let share = (0 < published).then(|| {
        // A frame may be counted between one number and the other.
        let share = 100.0 * (kept as f64 / published as f64).min(1.0);
        format!("{share:.0} % of the tokens kept: in the frame before with the same bytes")
    });
    let remedy = change.reuse_remedy(&stream.counts).map(|(dirty, remedy)| {
        format!("{:.0} % of the tiles change in each frame: {remedy}", 100.0 * dirty)
    });
    let parts: Vec<_> = share.into_iter().chain(remedy).collect();
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "  reuse    {}", parts.join("; "))
}

/// Writes the privacy masks, if the stream has any.
fn write_masks(out: &mut dyn Write, masks: &[MaskListing]) -> io::Result<()> {
    if masks.is_empty() {
        return Ok(());
    }
    let name = |mask: &MaskListing| {
        let by = if mask.is_configured { "" } else { " (operator)" };
        format!("{}{by}", on_one_line(&mask.name))
    };
    let names: Vec<_> = masks.iter().map(name).collect();
    writeln!(out, "  masks    {}", names.join(", "))
}

/// The processes of a source, if it has any.
fn write_processes(
    out: &mut dyn Write,
    processes: &BTreeMap<String, SourceProcessUse>,
) -> io::Result<()> {
    processes.iter().rev().try_for_each(|(content, process)| {
        let SourceProcessUse { pid, private_bytes, cpu_seconds } = process;
        let mebibytes = *private_bytes as f64 / f64::from(1 << 20);
        let of = if content == "pictures" { String::new() } else { format!(" of {content}") };
        writeln!(
            out,
            "  process  {pid}{of}, {mebibytes:.1} MiB of heap and stacks, {cpu_seconds:.1} s of processor time"
        )
    })
}

fn write_counters(out: &mut dyn Write, stream: &StreamListing) -> io::Result<()> {
    let counts = &stream.counts;
    let StreamCounts { frames_captured, frames_dropped, frames_published, .. } = counts;
    write!(
        out,
        "  counted  {frames_captured} captured, {frames_dropped} dropped, {frames_published} published"
    )?;
    if 0 < counts.frames_refused {
        write!(out, ", {} unreadable", counts.frames_refused)?;
    }
    if 0 < counts.frames_corrupted {
        write!(out, ", {} damaged", counts.frames_corrupted)?;
    }
    if 0 < counts.frames_rested {
        write!(out, ", {} wanted by no view", counts.frames_rested)?;
    }
    if 0 < counts.frames_skipped {
        write!(out, ", {} skipped", counts.frames_skipped)?;
    }
    if 0 < counts.stamps_clamped {
        write!(out, ", {} taken in the future", counts.stamps_clamped)?;
    }
    if 0 < counts.backend_fallbacks {
        let StreamCounts { backend_fallbacks, backend_attempts, backend_returns, .. } = counts;
        write!(
            out,
            ", {backend_fallbacks} times fallen back to the CPU, {backend_returns} times back on the GPU in \
             {backend_attempts} attempts"
        )?;
    }
    writeln!(out)?;
    write_losses(out, stream)?;
    write_depth(out, stream)
}

/// The state of the depth of a stream, if it has any, and what became of its pictures.
fn write_depth(out: &mut dyn Write, stream: &StreamListing) -> io::Result<()> {
    let Some(DepthListing { source, state, reason }) = &stream.detail.depth else { return Ok(()) };
    let reason = on_one_line(reason);
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    writeln!(out, "  depth    {} is {state}{because}", on_one_line(source))?;
    let StreamCounts { depth_captured, depth_paired, depth_unpaired, .. } = stream.counts;
    let StreamCounts { depth_late, depth_dropped, depth_lost, .. } = stream.counts;
    writeln!(
        out,
        "           {depth_captured} captured, {depth_late} late, {depth_dropped} taken by no frame, lost {depth_lost} times; \
         {depth_paired} frames with depth, {depth_unpaired} without"
    )
}

/// Losses of the source by reason, and what is stuck, if any.
fn write_losses(out: &mut dyn Write, stream: &StreamListing) -> io::Result<()> {
    if !stream.restarts.is_empty() {
        let total: u64 = stream.restarts.values().sum();
        let reasons = stream.restarts.iter().map(|(reason, count)| format!("{count} {reason}"));
        writeln!(out, "  restarts {total}: {}", reasons.collect::<Vec<_>>().join(", "))?;
    }
    if !stream.events.is_empty() {
        let kinds = stream.events.iter().map(|(kind, count)| format!("{count} {kind}"));
        writeln!(out, "  events   {}", kinds.collect::<Vec<_>>().join(", "))?;
    }
    if !stream.holding.is_empty() {
        let kinds = stream.holding.iter().map(ToString::to_string).collect::<Vec<_>>();
        writeln!(out, "  now      {}", kinds.join(", "))?;
    }
    match stream.stuck {
        Some(StuckListing { stage, seconds }) => {
            writeln!(out, "  stuck    {stage} has made no progress for {seconds} s")
        }
        None => Ok(()),
    }
}

/// Who steers a view and what was refused, if any.
fn write_steering(out: &mut dyn Write, view: &ViewListing) -> io::Result<()> {
    let SteeringListing { holder, accepted, refused } = &view.steering;
    if let Some(holder) = holder {
        writeln!(out, "  {} is steered by {}", view.name, on_one_line(holder))?;
    }
    if let Some(client) = &view.opened_by {
        writeln!(out, "  {} was opened by {}", view.name, on_one_line(client))?;
    }
    if refused.is_empty() {
        return Ok(());
    }
    let refused = refused.iter().map(|(reason, count)| format!("{count} {reason}"));
    let refused = refused.collect::<Vec<_>>().join(", ");
    writeln!(out, "  {} took {accepted} messages and refused {refused}", view.name)
}

/// The channels that clients have injected, if any.
fn write_channels(out: &mut dyn Write, view: &ViewListing) -> io::Result<()> {
    view.channels.iter().try_for_each(|channel| {
        let ChannelListing { name, shape: [rows, columns], owner, frame, age_ms, ttl_ms } = channel;
        let owner = on_one_line(owner);
        writeln!(
            out,
            "  {} has the channel {name} of {rows} x {columns} from frame {frame}, {age_ms} ms old of {ttl_ms}, by {owner}",
            view.name
        )
    })
}

/// Notices that were skipped, if any.
fn write_notices(out: &mut dyn Write, view: &ViewListing) -> io::Result<()> {
    let NoticeCounts { sent, skipped, .. } = view.notices;
    if skipped == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  {} sent {sent} notices and skipped {skipped} of readers that stand still",
        view.name
    )
}

/// Frames that an opened view skipped to relieve the frame loop, if any.
fn write_shed(out: &mut dyn Write, view: &ViewListing) -> io::Result<()> {
    if view.frames_shed == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  {} skipped {} frames because the next one was waiting already",
        view.name, view.frames_shed
    )
}

fn view_row(view: &ViewListing) -> [String; 6] {
    let place = |at: &Fixation| format!("{:.1}, {:.1} ({})", at.x, at.y, at.reason);
    let places: Vec<_> = view.fixations.iter().map(place).collect();
    let places = if places.is_empty() { "-".to_owned() } else { places.join("; ") };
    [
        view.name.to_string(),
        on_one_line(&view.layout),
        format!("{} of {side}x{side}", view.budget, side = view.patch_side),
        view.dtype.to_string(),
        on_one_line(&view.policy),
        places,
    ]
}

/// Writes rows in columns as wide as their widest cell.
pub(super) fn write_columns<const COLUMNS: usize>(
    out: &mut dyn Write,
    rows: &[[String; COLUMNS]],
) -> io::Result<()> {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
