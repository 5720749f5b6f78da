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
            Self::Kept(snapshot) => snapshot.frames[index].at_ms,
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
            Self::Kept(snapshot) => snapshot.frames.partition_point(|frame| frame.at_ms <= at_ms),
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
    /// Drops the frames that had arrived at `at_ms`.
    pub(crate) fn drop_until(&mut self, at_ms: f64) {
        let first = self.frames.partition_point(|frame| frame.at_ms <= at_ms);
        self.frames = self.frames[first..].into();
    }

    /// The frames of the snapshot, oldest first, as they were read from the ring.
    pub(crate) fn to_record(&self) -> impl Iterator<Item = FrameToRecord> + use<> {
        let frames = Arc::clone(&self.frames);
        (0..frames.len()).map(move |index| {
            let frame = &frames[index];
            let missed = if index == 0 { 0 } else { frame.missed };
            FrameToRecord { segment: Arc::clone(&frame.segment), missed, frame: frame.to_buf() }
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
    pub(crate) frame_seq: u64,
    /// Frames between this one and the kept frame before that were not kept.
    pub(crate) missed: u64,
    /// Whether the first frames of the minute were dropped to stay below the limit in bytes.
    pub(crate) is_cut: bool,
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
        let (missed, is_cut) = match &self.frames {
            FrameSource::Kept(snapshot) => (snapshot.frames[self.index].missed, snapshot.is_cut),
            FrameSource::Recorded(_) => (0, false),
        };
        let moment = Moment {
            at_ms: self.at_ms(),
            index: self.index,
            frames: self.frames.count(),
            from_ms: self.frames.at_ms(0),
            to_ms: self.frames.newest_ms(),
            frame_seq: decoded.head.stamp.frame_seq,
            missed,
            is_cut,
        };
        Ok((decoded, moment))
    }
}
