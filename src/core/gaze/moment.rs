//! When a frame is decided on.

use crate::frame::FrameStamp;

/// A moment of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Which frame.
    pub frame_seq: u64,
    /// Its time in the stream, in nanoseconds: its presentation time, or, where it has none, when it was taken. It may jump, also
    /// back, where a file begins again.
    pub time_ns: u64,
}

impl Moment {
    /// The moment of the frame of `stamp`.
    pub fn of(stamp: &FrameStamp) -> Self {
        let time_ns = stamp.pts_ns.unwrap_or(stamp.capture_ns);
        Self { frame_seq: stamp.frame_seq, time_ns }
    }
}
