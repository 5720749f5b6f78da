//! Transient errors, after which a new pipeline is tried; all others end the stream.
//!
//! Clips and sources with pace `every-frame` are never restarted. What a web server has counts as a camera until it turns out to be a
//! clip. For the others, errors of the configuration are permanent, and
//! errors of the environment transient. The rest is transient if there is evidence that the configuration works: it has delivered
//! frames, or, for errors about missing or damaged pictures, the source is live.

use super::{CaptureError, SourceSpec};
use foveate_core::source::{Pace, ShorthandKind};
use foveate_stats::LossReason;

/// Evidence that a configuration works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// The pipeline, or the one of the newest frame, is live.
    pub(crate) is_live: bool,
    /// The stream has delivered frames, from this pipeline or an earlier one.
    pub(crate) has_delivered: bool,
}

impl CaptureError {
    /// Whether a source of `spec` may be started in spite of this error of its check.
    pub(crate) fn is_excused(&self, spec: &SourceSpec) -> bool {
        let is_answer = !matches!(self, Self::Process(error) if !error.is_reported());
        is_answer && self.is_transient(spec, Evidence::default())
    }

    /// Whether another pipeline for `spec` may succeed after this error.
    pub(crate) fn is_transient(&self, spec: &SourceSpec, evidence: Evidence) -> bool {
        let Evidence { is_live, has_delivered } = evidence;
        if !may_reconnect(spec, evidence) {
            return false;
        }
        match self {
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
            | Self::EveryFrameLive
            | Self::NotMasked { .. }
            | Self::Closed => false,
            Self::NoCamera { .. }
            | Self::Busy { .. }
            | Self::Unauthorised { .. }
            | Self::WebPage { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::Certificate { .. }
            | Self::Redirected { .. }
            | Self::LiveEnded
            | Self::BecameInterlaced
            | Self::Silent { .. }
            | Self::NotStopping { .. } => true,
            Self::Process(error) => error.is_transient(),
            // A server may not serve it yet; a file that never existed is a wrong path.
            Self::Missing { what } => has_delivered || what.contains("://"),
            // udev sets the group of a camera shortly after it is plugged in.
            Self::Permission { what, .. } => {
                has_delivered || ShorthandKind::of(what) == Some(ShorthandKind::Camera)
            }
            // A web server may send a page, a playlist or a list of files for a while.
            Self::NotRawVideo { .. }
            | Self::NoVideo { .. }
            | Self::MissingDecoder { .. }
            | Self::Playlist { .. }
            | Self::Undecodable { .. }
            | Self::EndlessPicture { .. }
            | Self::Extent { .. }
            | Self::TooManyPixels { .. } => {
                has_delivered || spec.kind() == Some(ShorthandKind::Http)
            }
            // Another program may have changed the camera's format, and may change it back.
            Self::DeviceMemory { .. } | Self::NotNegotiated { .. } | Self::NotDepth { .. } => {
                has_delivered
            }
            Self::Corrupt { .. }
            | Self::NoFrames { .. }
            | Self::CapsTimeout { .. }
            | Self::Failed { .. } => has_delivered || is_live || is_live_by_name(spec),
        }
    }

    /// The restart counter for a pipeline that this error ended.
    pub(crate) fn loss_reason(&self) -> LossReason {
        match self {
            Self::NoCamera { .. }
            | Self::Busy { .. }
            | Self::Permission { .. }
            | Self::Unauthorised { .. }
            | Self::WebPage { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::Certificate { .. }
            | Self::Redirected { .. }
            | Self::Missing { .. } => LossReason::Unreachable,
            Self::LiveEnded | Self::NoFrames { .. } => LossReason::Ended,
            Self::Silent { .. } | Self::CapsTimeout { .. } => LossReason::Silent,
            Self::NotRawVideo { .. }
            | Self::NoVideo { .. }
            | Self::DeviceMemory { .. }
            | Self::NotNegotiated { .. }
            | Self::NotDepth { .. }
            | Self::MissingDecoder { .. }
            | Self::Playlist { .. }
            | Self::Undecodable { .. }
            | Self::EndlessPicture { .. }
            | Self::TooManyPixels { .. }
            | Self::Extent { .. }
            | Self::BecameInterlaced
            | Self::Corrupt { .. } => LossReason::Unreadable,
            Self::NotStopping { .. } => LossReason::Stuck,
            Self::Process(error) => error.loss_reason(),
            _ => LossReason::Failed,
        }
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
