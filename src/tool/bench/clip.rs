//! Reads clips into memory: `.y4m` and raw samples natively, so that builds without GStreamer can play clips, and all other
//! files with GStreamer.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::frames::{Frames, broken, frame_bytes, kind_of, most_frames, played};
use crate::ToolError;
use foveate_core::file;
use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::extent::Extent;

/// Limit for a header line of a `.y4m` file.
const LINE_BYTES_MAX: u64 = 4096;

/// The first `count` frames of the file, at most. `extent` is the user's, which raw samples require and all other files
/// refuse.
pub(super) fn load(path: &Path, extent: Option<Extent>, count: usize) -> Result<Frames, ToolError> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let raw =
        PixelFormat::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(extension));
    match (raw, extent) {
        (Some(format), Some(extent)) => raw_frames(path, kind_of(format, extent), count),
        (Some(_), None) => Err(ToolError::Usage(format!(
            "{} has no header with its size: add --size WIDTHxHEIGHT",
            path.display()
        ))),
        (None, Some(_)) => Err(ToolError::Usage(format!(
            "--size conflicts with the header of {}: remove it",
            path.display()
        ))),
        (None, None) if extension.eq_ignore_ascii_case("y4m") => y4m_frames(path, count),
        (None, None) => decoded(path, count),
    }
}

#[cfg(feature = "gst")]
fn decoded(path: &Path, count: usize) -> Result<Frames, ToolError> {
    super::decode::decoded(path, count)
}

#[cfg(not(feature = "gst"))]
fn decoded(path: &Path, _count: usize) -> Result<Frames, ToolError> {
    Err(ToolError::Usage(format!(
        "this build has no GStreamer and plays only .y4m files, and raw ones such as .nv12 with --size: convert it with \
         `ffmpeg -i {} -pix_fmt yuv420p clip.y4m`, or build with the feature `gst`",
        path.display()
    )))
}

fn raw_frames(path: &Path, kind: FrameKind, count: usize) -> Result<Frames, ToolError> {
    let mut file = opened(path)?;
    let mut buffers = Vec::new();
    while buffers.len() < most_frames(kind, count) {
        match read_frame(path, &mut file, kind, buffers.len() + 1)? {
            Some(buffer) => buffers.push(buffer),
            None => break,
        }
    }
    played(path, kind, buffers)
}

fn y4m_frames(path: &Path, count: usize) -> Result<Frames, ToolError> {
    let mut file = opened(path)?;
    let header = line(path, &mut file)?;
    let extent = y4m_extent(&header).map_err(|problem| broken(path, &problem))?;
    let kind = kind_of(PixelFormat::I420, extent);
    let mut buffers = Vec::new();
    while buffers.len() < most_frames(kind, count) {
        let number = buffers.len() + 1;
        match line(path, &mut file)?.as_str() {
            "" => break,
            line if line.starts_with("FRAME") => {}
            _ => return Err(broken(path, &format!("frame {number} does not start with FRAME"))),
        }
        let buffer = read_frame(path, &mut file, kind, number)?;
        buffers.push(buffer.ok_or_else(|| cut(path, number))?);
    }
    played(path, kind, buffers)
}

/// Parses width and height from the header line of a `.y4m` file.
fn y4m_extent(header: &str) -> Result<Extent, String> {
    let mut words = header.split_ascii_whitespace();
    if words.next() != Some("YUV4MPEG2") {
        return Err("not a YUV4MPEG2 file".to_owned());
    }
    let (mut width, mut height) = (0, 0);
    for word in words {
        match (word.get(..1).unwrap_or_default(), word.get(1..).unwrap_or_default()) {
            ("W", value) => width = value.parse().unwrap_or(0),
            ("H", value) => height = value.parse().unwrap_or(0),
            ("C", "420" | "420jpeg" | "420mpeg2" | "420paldv") => {}
            ("C", other) => {
                return Err(format!(
                    "unsupported samples C{other} (expected 8-bit 4:2:0): convert with `ffmpeg -i FILE -pix_fmt yuv420p clip.y4m`"
                ));
            }
            _ => {}
        }
    }
    let extent = Extent::new(width, height);
    if extent.is_supported() {
        Ok(extent)
    } else {
        Err(format!(
            "unsupported frame size {extent} (expected sides of 1 to {})",
            Extent::SIDE_MAX
        ))
    }
}

/// The next line without its terminator; empty at the end of the file.
fn line(path: &Path, file: &mut BufReader<File>) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    let read = file.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
    read.map_err(|source| ToolError::reading(path, source))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// Frame `number`, or `None` at the end of the file.
fn read_frame(
    path: &Path,
    file: &mut BufReader<File>,
    kind: FrameKind,
    number: usize,
) -> Result<Option<Vec<u8>>, ToolError> {
    let bytes = frame_bytes(kind);
    let mut buffer = Vec::with_capacity(bytes);
    let read = file.take(bytes as u64).read_to_end(&mut buffer);
    match read.map_err(|source| ToolError::reading(path, source))? {
        0 => Ok(None),
        whole if whole == bytes => Ok(Some(buffer)),
        _ => Err(cut(path, number)),
    }
}

fn opened(path: &Path) -> Result<BufReader<File>, ToolError> {
    file::open(path).map(BufReader::new).map_err(|source| ToolError::reading(path, source))
}

fn cut(path: &Path, number: usize) -> ToolError {
    broken(path, &format!("file cut short in frame {number}: check --size and the file"))
}
