//! Specifications of sources for tests.

use std::sync::Arc;

use foveate_capture::source::Source;
use foveate_capture::{CaptureError, SourceChoice, SourceSpec};
use testkit::wait::HANG;

/// A source that a shorthand names: a path, an address, or `test`.
pub(crate) fn shorthand(text: &str) -> SourceSpec {
    of(SourceChoice::Shorthand(text.to_owned()))
}

/// A source that a gst-launch description builds.
pub(crate) fn pipeline(text: &str) -> SourceSpec {
    of(SourceChoice::Pipeline(text.to_owned()))
}

fn of(source: SourceChoice) -> SourceSpec {
    SourceSpec { caps_timeout: HANG, ..SourceSpec::new("test", source) }
}

/// Opens a source that counts for itself.
pub(crate) fn open(spec: &SourceSpec) -> Result<Source, CaptureError> {
    Source::open(spec, &Arc::default())
}
