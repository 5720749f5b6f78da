//! Redacts GStreamer's debug log (`GST_DEBUG`): elements log their properties, passwords included.

use std::fs::File;
use std::io::{self, Write};

use gstreamer as gst;
use parking_lot::Mutex;

use foveate_log::redact::Redacting;

/// Replaces GStreamer's default log function. Like that one, it writes to the file in `GST_DEBUG_FILE` (`-` is standard
/// output), else to standard error.
pub(super) fn redact_messages() {
    gst::log::remove_default_log_function();
    if !gst::log::is_active() {
        return;
    }
    let target = Mutex::new(Redacting(target()));
    gst::log::add_log_function(move |category, level, file, function, line, object, message| {
        let shown = level <= category.threshold();
        if let Some(message) = message.get().filter(|_| shown) {
            let (level, category) = (level.name(), category.name());
            let object = object.map(ToString::to_string).unwrap_or_default();
            let text = format!("{level} {category} {file}:{line}:{function}:{object} {message}\n");
            // There is nowhere to report that the log cannot be written.
            let _ = target.lock().write_all(text.as_bytes());
        }
    });
}

fn target() -> Box<dyn Write + Send> {
    match std::env::var_os("GST_DEBUG_FILE").filter(|path| !path.is_empty()) {
        Some(path) if path == "-" => Box::new(io::stdout()),
        Some(path) => match File::create(path) {
            Ok(file) => Box::new(file),
            Err(error) => {
                tracing::warn!(%error, "cannot write GST_DEBUG_FILE; logging to standard error instead");
                Box::new(io::stderr())
            }
        },
        None => Box::new(io::stderr()),
    }
}
