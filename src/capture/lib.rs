//! The GStreamer boundary: from a configured source to a mailbox of mapped, timestamped frames.
//!
//! `expansion` makes a pipeline description of the configured source; `pipeline` builds it and inserts elements before the
//! appsink only if the caps need them; [`source`] watches it, loops files, and ends with a typed reason; `delivery` runs on
//! GStreamer's streaming thread and fills the `mailbox`, or in a source process sends to the daemon (`outlet`); before that `damage`
//! drops damaged frames, `gray` scales 16-bit gray, and `masking` fills privacy masks. `network` keeps it from opening what servers and files name, and says why a server gave nothing;
//! `oversize` keeps huge pictures from decoders. A stream takes its frames from a [`reconnecting`] source, which starts a new pipeline
//! after `transient` errors.
//!
//! No loss goes uncounted: every buffer that reaches the appsink gets the next `frame_seq`, even if it is dropped later. Those
//! that a [rate limit](foveate_core::rate) skips get none, and have a counter of their own.

pub use foveate_core::source::{
    Content, CorruptedFrames, Isolation, Orientation, Pace, SourceChoice, SourceSpec,
};

mod caps;
mod color;
mod damage;
mod debug;
mod delivery;
mod error;
mod expansion;
mod frame;
mod gray;
pub mod hints;
mod mailbox;
mod masking;
mod network;
mod outlet;
mod oversize;
mod pipeline;
pub mod process;
pub mod reconnecting;
mod scene;
mod short_track;
pub mod source;
mod times;
mod transient;

pub use caps::warn_of_picture;
pub use error::CaptureError;
pub use frame::CapturedFrame;
pub use mailbox::TakeResult;
pub use process::ProcessError;
pub use source::Source;

pub use foveate_source::{MaskChange, MaskCoverage, MaskRefusal, Masks};

/// Why no more frames come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// End of file.
    Eos,
    /// The source failed. Whether a retry may help depends on the error.
    Failed(CaptureError),
}
