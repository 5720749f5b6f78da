//! `--dump`: frames, token plan and tokens as files, for other programs that measure on the same frames and patches.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::frames::Frames;
use super::session::BenchSession;
use crate::ToolError;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::TokenFormat;
use foveate_ring::{TokenFrameBuf, TokenRecord};

/// `plan.json`.
#[derive(Debug, Serialize)]
struct PlanFile {
    format: &'static str,
    width: u32,
    height: u32,
    frame_count: usize,
    /// Index of the frame that was tokenised.
    tokens_of_frame: usize,
    patch_side: u32,
    /// Mean of R, G and B, in 0..=1.
    mean: [f64; 3],
    std: [f64; 3],
    /// Width and height of each level of the pyramid.
    levels: Vec<[u32; 2]>,
    /// Left and top edge of each token of each view, and its steps along x and y, in source pixels.
    views: Vec<Vec<[i32; 4]>>,
}

/// Writes all frames to `frames.FORMAT`, the plan of each view to `plan.json`, and the tokens of the newest frame of `session`
/// to `tokens-VIEW.bin`; prints their paths.
pub(super) fn write(
    folder: &Path,
    frames: &Frames,
    session: &mut BenchSession<'_>,
    tokens: TokenFormat,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    crate::snap::make_directory(folder)?;
    let format = frames.kind().format.name();
    let extent = frames.kind().extent;
    let shape = PyramidShape::new(extent);
    let newest = session.newest()?;
    let plan = PlanFile {
        format,
        width: extent.width,
        height: extent.height,
        frame_count: frames.buffers().len(),
        tokens_of_frame: session.newest_index(),
        patch_side: tokens.patch_side,
        mean: tokens.normalisation.mean,
        std: tokens.normalisation.std,
        levels: (0..shape.level_count())
            .map(|level| shape.level_extent(level))
            .map(|extent| [extent.width, extent.height])
            .collect(),
        views: newest.iter().map(places).collect(),
    };
    let plan = serde_json::to_vec(&plan).map_err(|error| ToolError::Output(error.into()))?;
    save(folder.join("plan.json"), &[plan], out)?;
    for (index, frame) in newest.iter().enumerate() {
        save(folder.join(format!("tokens-{index}.bin")), &[&frame.pixels], out)?;
    }
    save(folder.join(format!("frames.{}", format.to_lowercase())), frames.buffers(), out)
}

fn places(frame: &TokenFrameBuf) -> Vec<[i32; 4]> {
    let place = |record: &TokenRecord| [record.x, record.y, record.sx.into(), record.sy.into()];
    frame.records.iter().map(place).collect()
}

fn save(path: PathBuf, parts: &[impl AsRef<[u8]>], out: &mut dyn Write) -> Result<(), ToolError> {
    let written = File::create(&path)
        .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part.as_ref())));
    written.map_err(|source| ToolError::writing(&path, source))?;
    writeln!(out, "{}", path.display()).map_err(ToolError::Output)
}
