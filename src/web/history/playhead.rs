//! A page that is paused: the frames that it can show, and the one that it shows.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use tokio::task::spawn_blocking;

use super::Snapshot;
use super::recording::{FrameToRecord, RecordedView};
use super::stored::{FrameSegment, StoredFrame};
use crate::decoder::{DecodedFrame, Decoder};
use foveate_ring::TokenFrameBuf;

/// Store of the frames.
#[derive(Clone, Debug)]
pub(crate) enum FrameSource {
    /// Memory, as it was when the page was paused.
    Kept(Snapshot),
    /// A recording.
    Recorded(Arc<RecordedView>),
}

impl FrameSource {
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Kept(snapshot) => snapshot.frames.len(),
            Self::Recorded(recording) => recording.times_ms.len(),
        }
    }

    /// When frame `index` arrived, in milliseconds since 1970.
    pub(crate) fn at_ms(&self, index: usize) -> f64 {
        match self {
            Self::Kept(snapshot) => snapshot.frames[index].arrival.at_ms,
            Self::Recorded(recording) => recording.times_ms[index],
        }
    }

    /// Arrival of the newest frame, in milliseconds since 1970.
    pub(crate) fn newest_ms(&self) -> f64 {
        self.at_ms(self.count() - 1)
    }

    /// The newest frame that had arrived at `at_ms`, or the first one.
    pub(crate) fn index_at(&self, at_ms: f64) -> usize {
        let later = match self {
            Self::Kept(snapshot) => snapshot.count_until(at_ms),
            Self::Recorded(recording) => {
                recording.times_ms.partition_point(|time_ms| *time_ms <= at_ms)
            }
        };
        later.saturating_sub(1)
    }

    /// Whether the frames must no longer be shown.
    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self, Self::Kept(snapshot) if snapshot.revocation.is_revoked())
    }

    async fn read(&self, index: usize) -> io::Result<(TokenFrameBuf, Arc<FrameSegment>)> {
        match self {
            Self::Kept(snapshot) => {
                let frame = &snapshot.frames[index];
                Ok((frame.to_buf(), Arc::clone(&frame.segment)))
            }
            Self::Recorded(recording) => {
                let recording = Arc::clone(recording);
                // A chunk is read and decompressed, which takes milliseconds.
                spawn_blocking(move || recording.frames.read(index))
                    .await
                    .unwrap_or_else(|error| Err(io::Error::other(error)))
            }
        }
    }
}

impl Snapshot {
    /// Number of the frames that had arrived at `at_ms`.
    fn count_until(&self, at_ms: f64) -> usize {
        self.frames.partition_point(|frame| frame.arrival.at_ms <= at_ms)
    }

    /// Drops the frames that had arrived at `at_ms`.
    pub(crate) fn drop_until(&mut self, at_ms: f64) {
        self.frames = self.frames[self.count_until(at_ms)..].into();
    }

    /// Frames between frame `index` and the one before it: those that were missed, and those that were left out to save memory.
    fn gap(&self, index: usize) -> (u64, u64) {
        let Some(before) = index.checked_sub(1) else { return (0, 0) };
        let [before, here] = [before, index].map(|index| &self.frames[index].arrival);
        (here.missed - before.missed, here.left_out_since(before))
    }

    /// The frames of the snapshot, oldest first, as they were read from the ring.
    pub(crate) fn to_record(&self) -> impl Iterator<Item = FrameToRecord> {
        (0..self.frames.len()).map(|index| {
            let frame = &self.frames[index];
            let (missed, left_out) = self.gap(index);
            FrameToRecord {
                segment: Arc::clone(&frame.segment),
                missed: missed + left_out,
                frame: frame.to_buf(),
            }
        })
    }
}

/// Position of a paused page in the frames that it can show.
pub(crate) struct Playhead {
    pub(crate) frames: FrameSource,
    index: usize,
    decoder: Option<Decoder>,
    shown: Option<(usize, Arc<DecodedFrame>)>,
}

/// The frame that a paused page shows, among those that it can show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Moment {
    pub(crate) at_ms: f64,
    /// Index of the frame, from 0.
    pub(crate) index: usize,
    pub(crate) frames: usize,
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    /// From when on all frames are there that were not missed.
    pub(crate) whole_from_ms: f64,
    pub(crate) frame_seq: u64,
    /// Frames between this one and the one before it that this program was too slow to read.
    pub(crate) missed: u64,
    /// Frames between this one and the one before it that were left out to save memory.
    pub(crate) left_out: u64,
}

impl Playhead {
    /// A playhead at the newest frame of `frames`, which must not be empty, or at the first frame of a recording.
    pub(crate) fn new(frames: FrameSource) -> Self {
        let index = match &frames {
            FrameSource::Kept(_) => frames.count() - 1,
            FrameSource::Recorded(_) => 0,
        };
        Self { frames, index, decoder: None, shown: None }
    }

    pub(crate) fn seek(&mut self, at_ms: f64) {
        self.index = self.frames.index_at(at_ms);
    }

    pub(crate) fn move_by(&mut self, by: i32) {
        let last = self.frames.count() - 1;
        self.index = self.index.saturating_add_signed(by as isize).min(last);
    }

    pub(crate) fn at_ms(&self) -> f64 {
        self.frames.at_ms(self.index)
    }

    /// Number of the frame at the playhead; `None` for those of a recording.
    pub(crate) fn frame_seq(&self) -> Option<u64> {
        match &self.frames {
            FrameSource::Kept(snapshot) => Some(snapshot.frames[self.index].head.stamp.frame_seq),
            FrameSource::Recorded(_) => None,
        }
    }

    /// Goes to the frame with this number, or the one before. Returns whether there is one.
    pub(crate) fn seek_frame(&mut self, frame_seq: u64) -> bool {
        let FrameSource::Kept(snapshot) = &self.frames else { return false };
        let is_earlier = |frame: &Arc<StoredFrame>| frame.head.stamp.frame_seq <= frame_seq;
        let later = snapshot.frames.iter().rposition(is_earlier);
        self.index = later.unwrap_or(self.index);
        later.is_some()
    }

    /// The frame at the playhead, and where that is.
    pub(crate) async fn load(&mut self) -> io::Result<(Arc<DecodedFrame>, Moment)> {
        let decoded = match &self.shown {
            Some((index, decoded)) if *index == self.index => Arc::clone(decoded),
            _ => {
                let (frame, segment) = self.frames.read(self.index).await?;
                let known = self.decoder.take();
                let known = known.filter(|decoder| decoder.epoch() == segment.info.epoch);
                let decoder =
                    self.decoder.insert(known.unwrap_or_else(|| Decoder::new(&segment.info)));
                let decoded = Arc::new(decoder.decode(&frame));
                self.shown = Some((self.index, Arc::clone(&decoded)));
                decoded
            }
        };
        let from_ms = self.frames.at_ms(0);
        let ((missed, left_out), whole_from_ms) = match &self.frames {
            FrameSource::Kept(snapshot) => (snapshot.gap(self.index), snapshot.whole_from_ms),
            FrameSource::Recorded(_) => ((0, 0), from_ms),
        };
        let moment = Moment {
            at_ms: self.at_ms(),
            index: self.index,
            frames: self.frames.count(),
            from_ms,
            to_ms: self.frames.newest_ms(),
            whole_from_ms,
            frame_seq: decoded.head.stamp.frame_seq,
            missed,
            left_out,
        };
        Ok((decoded, moment))
    }
}
