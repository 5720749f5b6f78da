//! Detects cuts: a steady picture is followed by an unrelated one.
//!
//! The measure is the correlation of luma, which neither brightness nor contrast changes. (Differences of pictures and their
//! thresholds are compared by Boreczky and Rowe, Comparison of video shot boundary detection techniques, Journal of Electronic
//! Imaging 5, 1996.) A flash returns to the picture before, and what moves fast is never steady, so neither is a cut.

use super::picture::{PictureStats, correlation};
use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;

/// Two pictures with less in common are of different scenes.
const UNLIKE: f64 = 0.6;

/// Two successive pictures with at least this in common are steady.
const STEADY: f64 = 0.85;

/// Frames in which the new picture must have become steady; some clips mix two frames at a cut.
const FRAMES_MAX: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The last picture before what may be a cut.
    pub(super) old: Vec<u8>,
    /// Whether the picture before can be compared.
    was_clear: bool,
    /// The frame of a possible cut, and the frames since.
    pending: Option<(FrameTime, u32)>,
    /// Whether the frame before was like the one before it.
    was_steady: bool,
}

impl Cut {
    pub(super) fn new(grid: Extent) -> Self {
        Self { old: vec![0; grid.area()], was_clear: false, pending: None, was_steady: false }
    }

    /// `is_clear` says whether the picture has structure and is not clipped, so that it can be compared.
    pub(super) fn detect(
        &mut self,
        now: FrameTime,
        picture: &PictureStats,
        is_clear: bool,
    ) -> Option<Event> {
        let was_clear = std::mem::replace(&mut self.was_clear, is_clear);
        let PictureStats { luma, before, has_before: true, .. } = picture else { return None };
        let similarity = correlation(luma, before);
        let is_steady = similarity.is_some_and(|similarity| STEADY <= similarity);
        let was_steady = std::mem::replace(&mut self.was_steady, is_steady);
        let Some((since, frames)) = self.pending else {
            let is_unlike = similarity.is_some_and(|similarity| similarity < UNLIKE);
            if was_steady && was_clear && is_clear && is_unlike {
                self.old.copy_from_slice(before);
                self.pending = Some((now, 1));
            }
            return None;
        };
        self.pending = Some((since, frames + 1)).filter(|(_, frames)| *frames < FRAMES_MAX);
        if !is_steady {
            return None;
        }
        self.pending = None;
        if !is_clear {
            return None;
        }
        let common = correlation(luma, &self.old).filter(|common| *common < UNLIKE)?;
        Some(Event {
            kind: EventKind::Cut,
            phase: Phase::Once,
            frame: now.frame_seq,
            since_frame: since.frame_seq,
            region: None,
            value: 1.0 - common,
        })
    }
}
