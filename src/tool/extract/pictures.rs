//! Extracts the pictures of a folder one by one, without motion between them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use bytemuck::cast_slice;
use foveate_config::StreamConfig;
use foveate_core::camera::Camera;
use foveate_core::frame::{FrameKind, FrameStamp};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::pixel::PixelFacts;
use foveate_engine::backend::choice::StreamBackend;
use foveate_gaze::controller::Policy;
use foveate_gaze::view::ViewSpec;
use foveate_pictures::{DecodeOptions, FolderReader, PictureView, SampledView, look_at};
use foveate_ring::{FrameHead, TokenFrameBuf};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{ExtractArguments, Unreadable, extractions, finish, segment_of};
use crate::{ToolError, stop_on_signals};

/// An element of `pictures.json`.
#[derive(Debug, Serialize)]
struct PictureFacts {
    file: String,
    /// Number of the picture's row in the arrays; `null` if it could not be sampled.
    frame_seq: Option<u64>,
    /// Error of a picture that could not be sampled.
    error: Option<String>,
    /// The samples of 16-bit gray that became black and white; only of such pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    gray_range: Option<[u16; 2]>,
}

/// Reads the pictures of `folder` into arrays.
pub(super) fn run(
    arguments: &ExtractArguments,
    folder: &Path,
    config: &StreamConfig,
    chosen: StreamBackend,
    camera: Option<&Camera>,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    if !arguments.start.is_zero() {
        let message =
            "--start needs a clip: pictures of a folder have no time; play them with --sequence";
        return Err(ToolError::Usage(message.to_owned()));
    }
    if !config.capture.masks.is_empty() {
        let message = "privacy masks do not apply to pictures of a folder: play them with --sequence, or leave [[stream.mask]] \
                       out";
        return Err(ToolError::Usage(message.to_owned()));
    }
    let specs = config.views.iter().map(ViewSpec::try_from).collect::<Result<Vec<_>, _>>()?;
    let views = specs.iter().map(picture_view).collect::<Result<_, _>>()?;
    let mut paths = foveate_pictures::list(folder, false)?;
    paths.truncate(
        arguments
            .frames
            .map_or(usize::MAX, |most| usize::try_from(most.get()).unwrap_or(usize::MAX)),
    );
    let decoders = std::thread::available_parallelism().map_or(1, usize::from);
    let info = chosen.info().clone();
    let options = DecodeOptions {
        max_pixels: config.capture.max_pixels,
        background: config.capture.background,
        gray_range: config.capture.gray_range,
    };
    let reader = FolderReader::new(paths, decoders, options, chosen, views);
    let mut extractions = extractions(arguments, config)?;
    let mut files = Vec::new();
    let read = read(reader, arguments, &mut files, |number, kind, views| {
        for (index, (extraction, seen)) in extractions.iter_mut().zip(views).enumerate() {
            extraction.select((kind, PixelFacts::default()), || {
                segment_of(config, index, &specs[index], kind, &info, camera)
            })?;
            extraction.push(&frame_of(number, kind, seen))?;
        }
        Ok(())
    });
    let path = arguments.out.join("pictures.json");
    let text = serde_json::to_vec_pretty(&files).map_err(io::Error::from);
    let listed = text.and_then(|text| fs::write(&path, text));
    let skipped = files.iter().filter(|file| file.error.is_some()).count();
    if 0 < skipped {
        tracing::warn!(
            "cannot read {skipped} of {} files: {} lists them",
            files.len(),
            path.display()
        );
    }
    read.and(listed.map_err(|source| ToolError::File { path, source }))
        .and(finish(extractions, out))
}

/// A view whose policy needs no more than a picture.
fn picture_view(spec: &ViewSpec) -> Result<PictureView, ToolError> {
    let place = match spec.policy {
        Policy::Fixed { x, y } => (x, y),
        // A single picture has no clients and no frame before.
        Policy::Auto | Policy::Feedback => (0.5, 0.5),
        _ => {
            let message = "unsupported policy for separate pictures (expected \"auto\", \"fixed\" or \"feedback\" in \
                           [stream.view.gaze]): set one of them, or play the folder with --sequence";
            return Err(ToolError::Usage(message.to_owned()));
        }
    };
    Ok(PictureView { spec: spec.clone(), look: look_at(place) })
}

/// Gives the tokens of each picture to `push`, with its number, and lists the files in `files`.
fn read(
    mut reader: FolderReader,
    arguments: &ExtractArguments,
    files: &mut Vec<PictureFacts>,
    mut push: impl FnMut(u64, FrameKind, &[SampledView]) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let stop = stop_on_signals()?;
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} left")
        .expect("a template that the tests check");
    let progress = ProgressBar::new(reader.len() as u64).with_style(style);
    let (mut number, mut has_warned) = (0, false);
    loop {
        let items = reader.next_items(|| !stop.load(Ordering::Relaxed))?;
        if stop.load(Ordering::Relaxed) {
            return Err(ToolError::Interrupted);
        }
        if items.is_empty() {
            progress.finish_and_clear();
            return Ok(());
        }
        for item in items {
            let file = item.path.display().to_string();
            match item.seen {
                Ok((kind, views)) => {
                    number += 1;
                    push(number, kind, &views)?;
                    if let Some(loss) = item.gray.and_then(|gray| gray.loss)
                        && !std::mem::replace(&mut has_warned, true)
                    {
                        tracing::warn!(file, "{loss}");
                    }
                    let gray_range = item.gray.map(|gray| gray.range.bounds());
                    let frame_seq = Some(number);
                    files.push(PictureFacts { file, frame_seq, error: None, gray_range });
                }
                Err(error) => {
                    let error = error.to_string();
                    files.push(PictureFacts {
                        file: file.clone(),
                        frame_seq: None,
                        error: Some(error.clone()),
                        gray_range: None,
                    });
                    if arguments.unreadable == Unreadable::Refuse {
                        return Err(ToolError::Clip(format!("{file} {error}")));
                    }
                }
            }
            progress.inc(1);
        }
    }
}

/// The frame as a ring would hold it.
#[expect(clippy::cast_possible_truncation, reason = "a source has at most 512 x 512 tiles")]
fn frame_of(number: u64, kind: FrameKind, seen: &SampledView) -> TokenFrameBuf {
    let tiles = kind.extent.in_cells(TILE_SIDE).area() as u32;
    let records = &seen.tokens.records;
    let weights: Vec<f32> = records.iter().map(|record| record.relevance).collect();
    TokenFrameBuf {
        head: FrameHead {
            ring_sequence: number,
            stamp: FrameStamp::numbered(number),
            fixations: seen.gaze.fixations.clone(),
            dirty_tiles: tiles,
            tile_count: tiles,
            ..FrameHead::default()
        },
        records: records.clone(),
        pixels: seen.tokens.pixels.clone(),
        planes: vec![cast_slice(&weights).to_vec()],
    }
}
