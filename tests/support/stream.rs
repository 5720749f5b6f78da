//! What a stream is fed with.

#![allow(unreachable_pub, reason = "a module of several programs")]

use foveate_core::frame::{CaptureClock, FrameStamp};

/// The stamp of a frame of which nothing is known but its number.
pub fn stamp(frame_seq: u64) -> FrameStamp {
    FrameStamp {
        frame_seq,
        pts_ns: None,
        capture_ns: 0,
        capture_unix_ns: 0,
        capture_clock: CaptureClock::Unknown,
        arrival_ns: 0,
    }
}
