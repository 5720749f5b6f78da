//! Parses and limits the views that clients describe in `open_view`.

use serde_json::{Map, Value};

use foveate::messages::{Refusal, RefusalReason};
use foveate_config::ViewConfig;
use foveate_gaze::controller::Policy;

/// Longest description of a view, in bytes of JSON; all existing keys together take a fifth of it.
const VIEW_BYTES_MAX: usize = 4096;

/// The configuration of the view of an `open_view` request. It cannot name a file of the daemon's.
///
/// # Errors
///
/// A refusal that says what is invalid.
pub fn view_from_table(table: &Map<String, Value>) -> Result<ViewConfig, Refusal> {
    let bytes = serde_json::to_string(table).map_or(usize::MAX, |text| text.len());
    if VIEW_BYTES_MAX < bytes {
        let error = format!(
            "description of the view too large: {bytes} bytes (expected at most {VIEW_BYTES_MAX})"
        );
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    // Before anything reads it.
    if table.get("layout").is_some_and(|layout| layout == "samples") || table.contains_key("table")
    {
        let error = "unsupported layout for a view that a client opens: \"samples\" reads a file of the daemon's (expected another \
                     layout, or such a view in [[stream.view]] of the configuration)";
        return Err(bad_request(error));
    }
    let config = ViewConfig::from_table(table).map_err(|error| bad_request(error.reason()))?;
    if let Policy::Replay { .. } | Policy::Relevance { scorer: Some(_), .. } = config.gaze.policy {
        let error = "unsupported policy for a view that a client opens (expected \"auto\", \"fixed\", \"feedback\", \
                     \"saliency\", or \"relevance\" without `scorer`)";
        return Err(bad_request(error));
    }
    Ok(config)
}

fn bad_request(error: impl Into<String>) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, error)
}
