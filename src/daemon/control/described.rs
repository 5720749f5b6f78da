//! The view that a client describes.

use serde_json::{Map, Value};

use foveate::messages::{Refusal, RefusalReason};
use foveate_config::{GazeChoice, ViewConfig};

/// Bytes of JSON that a view may be described in; all keys that there are take a fifth of them.
const VIEW_BYTES_MAX: usize = 4096;

/// The view of [`Request::OpenView`](foveate::messages::Request::OpenView), as a configuration would have it. Nothing of it names a file
/// of the daemon's.
///
/// # Errors
///
/// A refusal that says what makes no sense.
pub fn view_from_table(table: &Map<String, Value>) -> Result<ViewConfig, Refusal> {
    let bytes = serde_json::to_string(table).map_or(usize::MAX, |text| text.len());
    if VIEW_BYTES_MAX < bytes {
        let error =
            format!("a view of {bytes} bytes, where at most {VIEW_BYTES_MAX} bytes will do");
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    let text = toml_text(table).map_err(|error| bad_request(&error))?;
    let config = ViewConfig::parse(&text).map_err(|error| bad_request(&error))?;
    if let GazeChoice::Replay { .. } = config.gaze.choice {
        let error = "a view that a client opens takes the policies \"fixed\", \"feedback\" and \"saliency\"";
        return Err(Refusal::new(RefusalReason::BadRequest, error));
    }
    Ok(config)
}

/// One line for each key. Tables are written inline: under headers, each of which repeats the names of the tables around it, a
/// deep one would grow with the square of its depth.
fn toml_text(table: &Map<String, Value>) -> Result<String, toml::ser::Error> {
    let mut text = String::new();
    for (key, value) in table {
        // The quotes and escapes of JSON are those of TOML.
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push_str(" = ");
        text.push_str(&toml::Value::try_from(value)?.to_string());
        text.push('\n');
    }
    Ok(text)
}

fn bad_request(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, error.to_string())
}
