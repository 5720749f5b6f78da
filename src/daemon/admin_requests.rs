//! What an operator, or a changed configuration, wants of a daemon that runs.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Daemon;
use super::supervisor::Difference;
use foveate::messages::{Refusal, RefusalReason, ViewName};
use foveate_config::{Config, ConfigError, DaemonConfig, StreamConfig};
use foveate_control::AdminRequest;
use foveate_core::error::chain;
use foveate_log::redact::{self, redacted};

impl Daemon<'_> {
    /// Does what an operator asked for, and says what came of it.
    pub(super) fn carry_out(&mut self, request: &AdminRequest) -> Result<Value, Refusal> {
        match request {
            AdminRequest::AddStream { config, file } => self.add_stream(config, file),
            AdminRequest::RemoveStream { stream } => self.remove_stream(stream),
            AdminRequest::Set { view, keys, directory } => self.set(view, keys, directory),
            AdminRequest::Reload => self.reload().map(|difference| json!(difference)),
        }
    }

    /// Reads the configuration again because a signal said so.
    pub(super) fn reload_and_log(&mut self) {
        if let Err(refusal) = self.reload() {
            tracing::warn!(reason = refusal.error, "the configuration stays as it was");
        }
    }

    /// Brings the streams to what the configuration says by now, and tells the service manager meanwhile.
    fn reload(&mut self) -> Result<Difference, Refusal> {
        self.service.reloading();
        let result = self.follow_configuration();
        self.service.reloaded();
        result
    }

    /// Brings the streams to what the configuration says by now. One that cannot be used changes nothing.
    fn follow_configuration(&mut self) -> Result<Difference, Refusal> {
        let config = (self.reread)().map_err(|error| refusal(&chain(&error)))?;
        mask_secrets(&config);
        self.check(config.streams.iter().filter(|stream| !self.supervisor.runs(stream)))?;
        if config.daemon != self.daemon {
            tracing::warn!("what [daemon] says now takes effect at the next start");
        }
        let difference = self.supervisor.follow(config.streams);
        let Difference { added, removed, changed, adjusted, kept } = &difference;
        tracing::info!(
            ?added,
            ?removed,
            ?changed,
            ?adjusted,
            ?kept,
            "the configuration was read again"
        );
        Ok(difference)
    }

    /// Makes sure that the streams can be, and that there is what they are to run on.
    fn check<'b>(
        &self,
        streams: impl IntoIterator<Item = &'b StreamConfig> + Clone,
    ) -> Result<(), Refusal> {
        super::check(streams.clone()).map_err(|error| refusal(&chain(&error)))?;
        streams.into_iter().try_for_each(|stream| {
            let name = &stream.name;
            let refused = |error| refusal(&format!("stream {name}: {}", chain(&error)));
            self.supervisor.check_backend(stream).map_err(refused)
        })
    }

    /// Starts the one stream of a configuration.
    fn add_stream(&mut self, text: &str, file: &Path) -> Result<Value, Refusal> {
        let config = Config::parse(text, file).map_err(|error| refusal(&chain(&error)))?;
        let [stream] = &config.streams[..] else {
            let error = format!("expected one [[stream]], not {}", config.streams.len());
            return Err(refusal(&error));
        };
        if config.daemon != DaemonConfig::default() {
            return Err(refusal(
                "[daemon] does not belong to a stream: it takes effect at the start",
            ));
        }
        mask_secrets(&config);
        if self.supervisor.has(&stream.name) {
            let error = format!("there is a stream {} already: remove it first", stream.name);
            return Err(Refusal::new(RefusalReason::NameTaken, error));
        }
        self.check([stream])?;
        tracing::info!(stream = stream.name, "an operator adds a stream");
        self.supervisor.add(stream.clone());
        Ok(json!({ "stream": stream.name }))
    }

    /// Makes a view another one.
    fn set(
        &mut self,
        view: &ViewName,
        keys: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Value, Refusal> {
        if keys.is_empty() {
            return Err(refusal("no key is given: say which, such as `max_fps=10`"));
        }
        let config =
            self.supervisor.view(view)?.with(keys, directory).map_err(|error| match error {
                // Which line of the table it was made from means nothing to whoever sent one key.
                ConfigError::Refused { key, message, .. } if key.is_empty() => refusal(&message),
                ConfigError::Refused { key, message, .. } => refusal(&format!("{key}: {message}")),
                error => refusal(&chain(&error)),
            })?;
        tracing::info!(%view, ?keys, "an operator sets a view");
        self.supervisor.set_view(view, config)?;
        Ok(json!({ "view": view }))
    }

    fn remove_stream(&mut self, name: &str) -> Result<Value, Refusal> {
        if !self.supervisor.has(name) {
            let error = format!("there is no stream {name:?}: see `foveate ls`");
            return Err(Refusal::new(RefusalReason::UnknownStream, error));
        }
        tracing::info!(stream = name, "an operator removes a stream");
        self.supervisor.remove(name);
        Ok(json!({ "stream": name }))
    }
}

/// Makes sure that no secret of `config` is ever shown.
fn mask_secrets(config: &Config) {
    for secret in config.secrets() {
        redact::register(secret);
    }
}

fn refusal(error: &str) -> Refusal {
    Refusal::new(RefusalReason::BadRequest, redacted(error))
}
