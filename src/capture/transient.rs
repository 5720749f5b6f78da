//! Transient errors, after which a new pipeline is tried; all others end the stream.
//!
//! Clips and sources with pace `every-frame` are never restarted. A source on a web server counts as a camera until it turns out to be a
//! clip. For other sources, errors of the configuration are permanent, and errors of the environment transient. The rest is transient if
//! there is evidence that the configuration works: it has delivered frames, or, for errors about missing or damaged pictures, the source
//! is live.

use super::{CaptureError, SourceSpec};
use foveate_core::error::exit;
use foveate_core::source::{Pace, ShorthandKind};
use foveate_stats::LossReason;

/// Evidence that a configuration works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Whether the pipeline is live, or the pipeline of the newest frame was.
    pub(crate) is_live: bool,
    /// Whether this pipeline or an earlier one of the stream has delivered frames.
    pub(crate) has_delivered: bool,
}

/// Condition under which another pipeline may succeed after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    /// Never: only another configuration helps.
    Never,
    /// Always: the environment may change at any time.
    Always,
    /// If the configuration has worked before.
    IfDelivered,
    /// The configuration has worked before, or a web server may answer otherwise later.
    IfDeliveredOrHttp,
    /// The configuration has worked before, or the source is live.
    IfDeliveredOrLive,
}

/// Meaning of an error for the program, the next pipeline and the counters.
#[derive(Clone, Copy, Debug)]
struct ErrorClass {
    /// Exit code of a program that fails with the error.
    exit_code: u8,
    recovery: Recovery,
    loss_reason: LossReason,
}

impl CaptureError {
    /// The only table of the errors: each has its exit code, recovery and loss reason here.
    fn class(&self) -> ErrorClass {
        use Recovery::{Always, IfDelivered, IfDeliveredOrHttp, IfDeliveredOrLive, Never};
        use exit::{CONFIG, UNAVAILABLE};
        let (exit_code, recovery, loss_reason) = match self {
            Self::UnknownSource { .. }
            | Self::InvalidAddress { .. }
            | Self::CaFile { .. }
            | Self::PipelineFile { .. }
            | Self::Parameter { .. }
            | Self::Parse { .. }
            | Self::UnknownElement { .. }
            | Self::NoAppsink { .. }
            | Self::NoPictures { .. }
            | Self::UnlikePictures { .. }
            | Self::NotACamera { .. }
            | Self::NoTrack { .. }
            | Self::EveryFrameLive => (CONFIG, Never, LossReason::Failed),
            Self::NotMasked { .. } | Self::Closed => (UNAVAILABLE, Never, LossReason::Failed),
            Self::NoCamera { .. }
            | Self::Busy { .. }
            | Self::Unauthorised { .. }
            | Self::WebPage { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::Certificate { .. }
            | Self::Redirected { .. } => (UNAVAILABLE, Always, LossReason::Unreachable),
            // A server may not serve it yet; a file that never existed is a wrong path.
            Self::Missing { what } => {
                let recovery = if what.contains("://") { Always } else { IfDelivered };
                (UNAVAILABLE, recovery, LossReason::Unreachable)
            }
            // udev sets the group of a camera shortly after it is plugged in.
            Self::Permission { what, .. } => {
                let is_camera = ShorthandKind::of(what) == Some(ShorthandKind::Camera);
                let recovery = if is_camera { Always } else { IfDelivered };
                (UNAVAILABLE, recovery, LossReason::Unreachable)
            }
            Self::LiveEnded => (UNAVAILABLE, Always, LossReason::Ended),
            Self::BecameInterlaced => (UNAVAILABLE, Always, LossReason::Unreadable),
            Self::Silent { .. } => (UNAVAILABLE, Always, LossReason::Silent),
            Self::NotStopping { .. } => (UNAVAILABLE, Always, LossReason::Stuck),
            // A web server may send a page, a playlist or a list of files for a while.
            Self::NotRawVideo { .. }
            | Self::NoVideo { .. }
            | Self::Playlist { .. }
            | Self::TooManyPixels { .. } => (CONFIG, IfDeliveredOrHttp, LossReason::Unreadable),
            Self::MissingDecoder { .. }
            | Self::Undecodable { .. }
            | Self::EndlessPicture { .. }
            | Self::Extent { .. } => (UNAVAILABLE, IfDeliveredOrHttp, LossReason::Unreadable),
            // Another program may have changed the camera's format, and may change it back.
            Self::DeviceMemory { .. } | Self::NotNegotiated { .. } | Self::NotDepth { .. } => {
                (CONFIG, IfDelivered, LossReason::Unreadable)
            }
            Self::Corrupt { .. } => (UNAVAILABLE, IfDeliveredOrLive, LossReason::Unreadable),
            Self::NoFrames { .. } => (UNAVAILABLE, IfDeliveredOrLive, LossReason::Ended),
            Self::CapsTimeout { .. } => (UNAVAILABLE, IfDeliveredOrLive, LossReason::Silent),
            Self::Failed { .. } => (UNAVAILABLE, IfDeliveredOrLive, LossReason::Failed),
            Self::Process(error) => {
                let recovery = if error.is_transient() { Always } else { Never };
                (error.exit_code(), recovery, error.loss_reason())
            }
        };
        ErrorClass { exit_code, recovery, loss_reason }
    }

    /// Exit code of a program that fails with the error: 78 if only a new configuration helps, 69 if the source may recover.
    pub fn exit_code(&self) -> u8 {
        self.class().exit_code
    }

    /// Whether a source of `spec` may be started in spite of this error of its check.
    pub(crate) fn is_excused(&self, spec: &SourceSpec) -> bool {
        let is_answer = !matches!(self, Self::Process(error) if !error.is_reported());
        is_answer && self.is_transient(spec, Evidence::default())
    }

    /// Whether another pipeline for `spec` may succeed after this error.
    pub(crate) fn is_transient(&self, spec: &SourceSpec, evidence: Evidence) -> bool {
        let Evidence { is_live, has_delivered } = evidence;
        may_reconnect(spec, evidence)
            && match self.class().recovery {
                Recovery::Never => false,
                Recovery::Always => true,
                Recovery::IfDelivered => has_delivered,
                Recovery::IfDeliveredOrHttp => {
                    has_delivered || spec.kind() == Some(ShorthandKind::Http)
                }
                Recovery::IfDeliveredOrLive => has_delivered || is_live || is_live_by_name(spec),
            }
    }

    /// The restart counter for a pipeline that this error ended.
    pub(crate) fn loss_reason(&self) -> LossReason {
        self.class().loss_reason
    }
}

/// Whether a lost pipeline of `spec` may be replaced.
pub(crate) fn may_reconnect(spec: &SourceSpec, evidence: Evidence) -> bool {
    let is_clip = match (spec.live, spec.kind()) {
        (Some(is_live), _) => !is_live,
        (None, Some(ShorthandKind::Http)) => evidence.has_delivered && !evidence.is_live,
        (None, kind) => kind.is_some_and(ShorthandKind::is_clip),
    };
    spec.restart && spec.pace != Pace::EveryFrame && !is_clip
}

fn is_live_by_name(spec: &SourceSpec) -> bool {
    spec.kind().is_some_and(|kind| kind != ShorthandKind::File)
}

#[cfg(test)]
mod tests;
