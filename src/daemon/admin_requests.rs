//! Admin requests, and reloading the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::supervisor::ConfigChanges;
use super::{Daemon, DaemonError, StreamFailure, masked};
use foveate::messages::{Refusal, RefusalReason, ViewName};
use foveate_capture::CaptureError;
use foveate_config::{Config, DaemonConfig, StreamConfig};
use foveate_control::AdminRequest;
use foveate_core::error::{chain, exit};
use foveate_core::mask::Mask;
use foveate_log::redact::redacted;
use foveate_source::MaskChange;

/// How long an operator's request waits for the checks of its sources. The daemon handles nothing else meanwhile.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

impl Daemon<'_> {
    /// Carries out a request of an operator, and returns the answer.
    pub(super) fn carry_out(&mut self, request: &AdminRequest) -> Result<Value, Refusal> {
        match request {
            AdminRequest::AddStream { config, file } => self.add_stream(config, file),
            AdminRequest::RemoveStream { stream } => self.remove_stream(stream),
            AdminRequest::Set { view, keys, directory } => self.set(view, keys, directory),
            AdminRequest::Mask { stream, clear_all, clear, set } => {
                let (clears_all, cleared, set) = (*clear_all, clear.clone(), set.clone());
                self.mask(stream, MaskChange { clears_all, cleared, set })
            }
            AdminRequest::Reload => self.reload().map(|changes| json!(changes)),
        }
    }

    /// Reloads the configuration after SIGHUP.
    pub(super) fn reload_and_log(&mut self) {
        if let Err(refusal) = self.reload() {
            tracing::warn!(
                reason = refusal.error,
                "cannot reload the configuration: the old one stays in force"
            );
        }
    }

    /// Reloads the configuration, between the service manager's notifications of it.
    fn reload(&mut self) -> Result<ConfigChanges, Refusal> {
        self.service.reloading();
        let result = self.apply_configuration();
        self.service.reloaded();
        result
    }

    /// Reads and applies the configuration. An invalid one changes nothing.
    fn apply_configuration(&mut self) -> Result<ConfigChanges, Refusal> {
        let config = (self.reread)().map_err(|error| refusal(&chain(&error)))?;
        let _masked = masked(&config);
        self.check(config.streams.iter().filter(|stream| !self.supervisor.has_config(stream)))?;
        if config.daemon != self.config {
            tracing::warn!("[daemon] changed: restart the daemon to apply it");
        }
        let changes = self.supervisor.apply(config.streams);
        let ConfigChanges { added, removed, restarted, views_changed, kept } = &changes;
        tracing::info!(?added, ?removed, changed = ?restarted, adjusted = ?views_changed, ?kept, "reloaded the configuration");
        Ok(changes)
    }

    /// Checks that the streams can run, and that their backends are available.
    fn check<'b>(
        &self,
        streams: impl IntoIterator<Item = &'b StreamConfig> + Clone,
    ) -> Result<(), Refusal> {
        for failure in super::check(streams.clone(), Some(Instant::now() + CHECK_TIMEOUT)) {
            let answers = !matches!(
                failure,
                DaemonError::Stream {
                    source: StreamFailure::Capture(CaptureError::CapsTimeout { .. })
                        | StreamFailure::Depth(CaptureError::CapsTimeout { .. }),
                    ..
                }
            );
            // A stream that does not answer reports it itself, after its own timeout.
            if answers {
                return Err(unusable(&failure));
            }
        }
        streams.into_iter().try_for_each(|stream| {
            let name = &stream.name;
            let failure = |source| DaemonError::Stream { stream: name.clone(), source };
            self.supervisor.check_backend(stream).map_err(|source| unusable(&failure(source)))
        })
    }

    /// Starts the one stream of a configuration.
    fn add_stream(&mut self, text: &str, file: &Path) -> Result<Value, Refusal> {
        let config = Config::parse(text, file).map_err(|error| refusal(&chain(&error)))?;
        let [stream] = &config.streams[..] else {
            let error = format!("{} [[stream]] tables (expected one)", config.streams.len());
            return Err(refusal(&error));
        };
        if config.daemon != DaemonConfig::default() {
            return Err(refusal(
                "unexpected [daemon] (expected one [[stream]]): it takes effect at the start",
            ));
        }
        let _masked = masked(&config);
        if self.supervisor.has(&stream.name) {
            let error = format!("stream {} exists already: remove it first", stream.name);
            return Err(Refusal::new(RefusalReason::NameTaken, error));
        }
        self.check([stream])?;
        tracing::info!(stream = stream.name, "an operator adds a stream");
        self.supervisor.add(stream.clone());
        Ok(json!({ "stream": stream.name }))
    }

    /// Changes keys of a view.
    fn set(
        &mut self,
        view: &ViewName,
        keys: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Value, Refusal> {
        if keys.is_empty() {
            return Err(refusal("no key given (expected KEY=VALUE, such as `max_fps=10`)"));
        }
        let config = self.supervisor.view(view)?.with(keys, directory);
        // A client that sent one key has not seen the lines of the table.
        let config = config.map_err(|error| refusal(&error.reason()))?;
        tracing::info!(%view, ?keys, "an operator sets a view");
        self.supervisor.set_view(view, config)?;
        Ok(json!({ "view": view }))
    }

    /// Changes masks of a stream. The answer says whether a frame was published with them.
    fn mask(&self, stream: &str, change: MaskChange) -> Result<Value, Refusal> {
        let is_whole = |mask: &Mask| !mask.name.is_empty() && !mask.points.is_empty();
        if !change.set.iter().all(is_whole) {
            return Err(refusal("a mask without name or points (expected both)"));
        }
        let names: BTreeSet<_> = change.set.iter().map(|mask| &mask.name).collect();
        if names.len() < change.set.len() {
            return Err(refusal("two masks have the same name (expected unique names)"));
        }
        let (masks, pending) = self.supervisor.mask(stream, change)?;
        Ok(
            json!({ "stream": stream, "masks": masks, "published": pending.is_none(), "reason": pending }),
        )
    }

    fn remove_stream(&mut self, name: &str) -> Result<Value, Refusal> {
        if !self.supervisor.has(name) {
            let error = format!("unknown stream {name:?}: see `foveate ls`");
            return Err(Refusal::new(RefusalReason::UnknownStream, error));
        }
        tracing::info!(stream = name, "an operator removes a stream");
        self.supervisor.remove(name);
        Ok(json!({ "stream": name }))
    }
}

/// Why a stream cannot run.
fn unusable(failure: &DaemonError) -> Refusal {
    let reason = if failure.exit_code() == exit::UNAVAILABLE {
        RefusalReason::Unavailable
    } else {
        RefusalReason::BadRequest
    };
    Refusal::new(reason, redacted(&chain(failure)))
}

fn refusal(error: &str) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, redacted(error))
}
