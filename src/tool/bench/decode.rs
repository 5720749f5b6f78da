//! Decodes clips with GStreamer into memory, before the measurement.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::frames::{Frames, broken, frame_bytes, most_frames, played};
use crate::ToolError;
use crate::extract::clip_source;
use foveate_capture::{CapturedFrame, End, Source, SourceSpec, TakeResult};
use foveate_config::{Pace, SourceChoice};
use foveate_core::frame::FrameView;
use foveate_stats::StreamCounters;

/// A decoder without output for this long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The first `count` frames of the file, at most.
pub(super) fn decoded(path: &Path, count: usize) -> Result<Frames, ToolError> {
    let source = SourceChoice::Shorthand(clip_source(path));
    let spec = SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("bench", source) };
    let mut source = Source::open(&spec, &Arc::new(StreamCounters::default()))?;
    let Some(first) = next_frame(path, &mut source)? else {
        return Err(broken(path, "no frames"));
    };
    let kind = view_of(path, &first)?.kind();
    let mut buffers = vec![packed(&view_of(path, &first)?)];
    while buffers.len() < most_frames(kind, count) {
        let Some(frame) = next_frame(path, &mut source)? else { break };
        let view = view_of(path, &frame)?;
        if view.kind() != kind {
            let number = buffers.len() + 1;
            return Err(broken(path, &format!("frame {number} has another size or format")));
        }
        buffers.push(packed(&view));
    }
    played(path, kind, buffers)
}

/// The next frame, or `None` at the end of the file.
fn next_frame(path: &Path, source: &mut Source) -> Result<Option<CapturedFrame>, ToolError> {
    match source.next_frame(SILENCE_MAX) {
        TakeResult::Frame(frame) => Ok(Some(frame)),
        TakeResult::Ended(End::Eos) => Ok(None),
        TakeResult::Ended(End::Failed(error)) => Err(error.into()),
        TakeResult::TimedOut => {
            Err(broken(path, &format!("no frame from the decoder for {SILENCE_MAX:?}")))
        }
    }
}

/// Never fails: a source checks its frames.
fn view_of<'a>(path: &Path, frame: &'a CapturedFrame) -> Result<FrameView<'a>, ToolError> {
    frame.view().map_err(|error| broken(path, &error.to_string()))
}

/// All samples, rows without padding.
fn packed(view: &FrameView<'_>) -> Vec<u8> {
    let mut samples = Vec::with_capacity(frame_bytes(view.kind()));
    for plane in 0..view.format().plane_count() {
        for y in 0..view.format().plane_shape(plane, view.extent()).rows as usize {
            samples.extend_from_slice(view.row(plane, y));
        }
    }
    samples
}
