//! Which failures pass by themselves, so that another pipeline is worth a try, and which end the stream.
//!
//! A file, and a source of which every frame counts, is never begun again. Of the others, a text that cannot work ends the
//! stream; what hangs on the world outside passes; and what may be either passes where it is known that this configuration can
//! work: because frames have come with it, or, where only the picture is missing, because the source is live.

use super::{CaptureError, SourceSpec};
use foveate_config::{Pace, ShorthandKind, SourceChoice};
use foveate_stats::LossReason;

/// What a stream has shown of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its pipeline said that it is live: it makes frames when it pleases.
    pub is_live: bool,
    /// Frames have come, from this pipeline or from one before.
    pub has_delivered: bool,
}

impl CaptureError {
    /// Whether another pipeline for `spec` may succeed where this error ended one.
    pub fn is_passing(&self, spec: &SourceSpec, shown: Shown) -> bool {
        let Shown { is_live, has_delivered } = shown;
        if !spec.begins_again() {
            return false;
        }
        match self {
            Self::UnknownSource { .. }
            | Self::PipelineFile { .. }
            | Self::Parameter { .. }
            | Self::Parse { .. }
            | Self::UnknownElement { .. }
            | Self::NoAppsink { .. }
            | Self::EveryFrameLive
            | Self::Closed => false,
            Self::NoCamera { .. }
            | Self::Busy { .. }
            | Self::Unauthorised { .. }
            | Self::Unreachable { .. }
            | Self::LiveEnded
            | Self::BecameInterlaced
            | Self::Silent { .. }
            | Self::NotStopping { .. } => true,
            // A server may not serve it yet; a file that was never there is a wrong path.
            Self::Missing { what } => has_delivered || what.contains("://"),
            // The system may give a camera that was plugged in to its group a moment later.
            Self::Permission { what, .. } => has_delivered || what.starts_with("/dev/"),
            // A camera that was set to something else can be set back.
            Self::NotRawVideo { .. }
            | Self::DeviceMemory { .. }
            | Self::NotNegotiated { .. }
            | Self::MissingDecoder { .. }
            | Self::Extent { .. } => has_delivered,
            Self::Corrupt { .. }
            | Self::NoFrames
            | Self::CapsTimeout { .. }
            | Self::Failed { .. } => has_delivered || is_live || spec.is_live_by_name(),
        }
    }

    /// What is counted where it ended a pipeline.
    pub fn loss_reason(&self) -> LossReason {
        match self {
            Self::NoCamera { .. }
            | Self::Busy { .. }
            | Self::Permission { .. }
            | Self::Unauthorised { .. }
            | Self::Unreachable { .. }
            | Self::Missing { .. } => LossReason::Unreachable,
            Self::LiveEnded | Self::NoFrames => LossReason::Ended,
            Self::Silent { .. } | Self::CapsTimeout { .. } => LossReason::Silent,
            Self::NotRawVideo { .. }
            | Self::DeviceMemory { .. }
            | Self::NotNegotiated { .. }
            | Self::MissingDecoder { .. }
            | Self::Extent { .. }
            | Self::BecameInterlaced
            | Self::Corrupt { .. } => LossReason::Unreadable,
            Self::NotStopping { .. } => LossReason::Stuck,
            _ => LossReason::Failed,
        }
    }
}

impl SourceSpec {
    /// Whether another pipeline may go on where one ended.
    pub fn begins_again(&self) -> bool {
        let is_file = self.kind() == Some(ShorthandKind::File);
        self.restart && self.pace != Pace::EveryFrame && !is_file
    }

    fn is_live_by_name(&self) -> bool {
        self.kind().is_some_and(|kind| kind != ShorthandKind::File)
    }

    fn kind(&self) -> Option<ShorthandKind> {
        match &self.source {
            SourceChoice::Shorthand(text) => ShorthandKind::of(text),
            SourceChoice::Pipeline(_) | SourceChoice::PipelineFile(_) => None,
        }
    }
}
