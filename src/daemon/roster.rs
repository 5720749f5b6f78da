//! The streams that run: started, stopped, and brought to what a new configuration says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::running::RunningStream;
use super::{Event, StreamFailure, running, stream_spec};
use crate::control::directory::{Directory, StreamPort, ViewSetting};
use crate::stream::Backends;
use foveate::messages::{DAEMON_STOPS, Refusal, RefusalReason, STREAM_RESTARTS, ViewName};
use foveate_config::{StreamConfig, ViewConfig};
use foveate_core::error::chain;
use foveate_log::redact::redacted;

/// What readers are told of a stream that goes.
const REMOVED: &str = "the stream was removed";

/// How long a stream may take to make a view another one. Some drivers compile for it.
const VIEW_PATIENCE: Duration = Duration::from_secs(5);

/// The streams of the daemon, by name.
pub(super) struct Roster {
    directory: Arc<Directory>,
    backends: Arc<Backends>,
    events: Sender<Event>,
    streams: BTreeMap<String, Member>,
    /// Streams that were started so far.
    started: u64,
}

/// One stream.
struct Member {
    config: StreamConfig,
    /// Tells it from others of its name, before and after it.
    number: u64,
    /// `None` once it is over.
    running: Option<RunningStream>,
}

/// What a new configuration changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Difference {
    /// Streams that are new.
    pub(super) added: Vec<String>,
    /// Streams that are gone.
    pub(super) removed: Vec<String>,
    /// Streams that began anew.
    pub(super) changed: Vec<String>,
    /// Streams that run on, with views that became others.
    pub(super) adjusted: Vec<String>,
    /// Streams that run on as if nothing had happened.
    pub(super) kept: Vec<String>,
}

impl Roster {
    pub(super) fn new(
        directory: Arc<Directory>,
        backends: Backends,
        events: Sender<Event>,
    ) -> Self {
        let (backends, streams) = (Arc::new(backends), BTreeMap::new());
        let opened = Arc::clone(&backends);
        directory.set_device_memory(move || opened.memory_bytes());
        Self { directory, backends, events, streams, started: 0 }
    }

    /// Whether a stream of that name is there, over or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.streams.contains_key(name)
    }

    /// Makes sure that there is what a stream is to run on.
    pub(super) fn check_backend(&self, stream: &StreamConfig) -> Result<(), StreamFailure> {
        Ok(running::backend(stream, &self.backends).map(drop)?)
    }

    /// Whether that very stream is there already.
    pub(super) fn runs(&self, stream: &StreamConfig) -> bool {
        self.streams.get(&stream.name).is_some_and(|member| member.config == *stream)
    }

    /// Streams that are not over.
    pub(super) fn running(&self) -> usize {
        self.streams.values().filter(|member| member.running.is_some()).count()
    }

    /// Lists the stream of `config`, whose name nobody has, as one that starts.
    pub(super) fn list(&self, config: &StreamConfig) -> StreamPort {
        self.directory.add_stream(stream_spec(config))
    }

    /// Starts the stream of `config`, which is [listed](Roster::list). What becomes of it comes as an event.
    pub(super) fn start(&mut self, config: StreamConfig, port: StreamPort) {
        self.started += 1;
        let number = self.started;
        let (name, ended) = (config.name.clone(), self.events.clone());
        let tell = move |result| {
            // Nobody listens once a signal came.
            let _ = ended.send(Event::StreamEnded { name, number, result });
        };
        let running = match RunningStream::start(&config, port, &self.backends, tell.clone()) {
            Ok(running) => Some(running),
            Err(error) => {
                tell(Err(error));
                None
            }
        };
        self.streams.insert(config.name.clone(), Member { config, number, running });
    }

    /// Lists and starts the stream of `config`.
    pub(super) fn add(&mut self, config: StreamConfig) {
        let port = self.list(&config);
        self.start(config, port);
    }

    /// Notes that a stream is over. Says whether it was one that is still meant.
    pub(super) fn note_end(&mut self, name: &str, number: u64) -> bool {
        let member = self.streams.get_mut(name).filter(|member| member.number == number);
        let Some(member) = member else { return false };
        if let Some(running) = member.running.take() {
            running.join();
        }
        true
    }

    /// Asks a stream to end.
    fn stop_one(&self, name: &str, reason: &'static str) {
        if let Some(running) = self.streams.get(name).and_then(|member| member.running.as_ref()) {
            running.stop(reason);
        }
    }

    /// Waits until a stream that was asked to end is over; it is not listed any more.
    fn take_out(&mut self, name: &str) {
        if let Some(running) = self.streams.remove(name).and_then(|member| member.running) {
            running.join();
        }
        self.directory.remove_stream(name);
    }

    /// What a view of the configuration is to be.
    pub(super) fn view(&self, name: &ViewName) -> Result<&ViewConfig, Refusal> {
        let member = self.streams.get(name.stream());
        let views = member.map_or(&[][..], |member| &member.config.views);
        views.iter().find(|view| view.name == name.view()).ok_or_else(|| {
            let error = format!("there is no view `{name}` of the configuration: see `foveate ls`");
            Refusal::new(RefusalReason::UnknownView, error)
        })
    }

    /// Makes a view of the configuration another one of its name.
    pub(super) fn set_view(&mut self, name: &ViewName, config: ViewConfig) -> Result<(), Refusal> {
        let present = self.view(name)?;
        if *present == config {
            return Ok(());
        }
        let ViewConfig { max_fps, publish, .. } = config;
        let keeps_segment = ViewConfig { max_fps, publish, ..present.clone() } == config;
        let (answer, answered) = bounded(1);
        let view = name.clone();
        self.directory.set_view(ViewSetting {
            view,
            config: config.clone(),
            keeps_segment,
            answer,
        });
        let refused = |reason, error: &str| Err(Refusal::new(reason, error));
        match answered.recv_timeout(VIEW_PATIENCE) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return refused(RefusalReason::BadRequest, &redacted(&error)),
            Err(RecvTimeoutError::Disconnected) => {
                return refused(RefusalReason::Ended, "its stream has ended");
            }
            Err(RecvTimeoutError::Timeout) => {
                return refused(RefusalReason::Busy, "its stream is busy: see the log");
            }
        }
        let member = self.streams.get_mut(name.stream());
        let views = member.into_iter().flat_map(|member| &mut member.config.views);
        views.filter(|view| view.name == config.name).for_each(|view| *view = config.clone());
        Ok(())
    }

    /// Makes the views of a stream what `wanted` says, if nothing else of it changes. Says whether that did.
    fn adjust(&mut self, wanted: &StreamConfig) -> bool {
        let Some(member) = self.streams.get(&wanted.name) else { return false };
        let names = |views: &[ViewConfig]| views.iter().map(|view| view.name.clone()).collect();
        let (present, views): (Vec<_>, Vec<_>) =
            (names(&member.config.views), names(&wanted.views));
        let others = StreamConfig { views: member.config.views.clone(), ..wanted.clone() };
        if present != views || member.config != others || member.running.is_none() {
            return false;
        }
        wanted.views.iter().all(|view| {
            let set = ViewName::new(&wanted.name, &view.name)
                .map(|name| self.set_view(&name, view.clone()));
            matches!(set, Ok(Ok(())))
        })
    }

    /// Ends a stream; it is not listed any more.
    pub(super) fn remove(&mut self, name: &str) {
        self.stop_one(name, REMOVED);
        self.take_out(name);
    }

    /// Brings the streams to what a new configuration says. Those of which it says the same run on untouched.
    pub(super) fn follow(&mut self, streams: Vec<StreamConfig>) -> Difference {
        let mut difference = Difference::default();
        for (name, member) in &self.streams {
            match streams.iter().find(|stream| stream.name == *name) {
                None => difference.removed.push(name.clone()),
                Some(stream) if member.config != *stream => difference.changed.push(name.clone()),
                Some(_) => difference.kept.push(name.clone()),
            }
        }
        for stream in &streams {
            if difference.changed.contains(&stream.name) && self.adjust(stream) {
                difference.changed.retain(|name| *name != stream.name);
                difference.adjusted.push(stream.name.clone());
            }
        }
        let Difference { removed, changed, .. } = &difference;
        // All before the first is waited for, because a pipeline takes its time to stop.
        removed.iter().for_each(|name| self.stop_one(name, REMOVED));
        changed.iter().for_each(|name| self.stop_one(name, STREAM_RESTARTS));
        removed.iter().chain(changed).for_each(|name| self.take_out(name));
        for stream in streams {
            if self.has(&stream.name) {
                continue;
            }
            if !difference.changed.contains(&stream.name) {
                difference.added.push(stream.name.clone());
            }
            self.add(stream);
        }
        difference
    }

    /// Ends every stream because the daemon does.
    pub(super) fn stop(self) {
        let running = self.streams.into_values().filter_map(|member| member.running);
        let running: Vec<_> = running.collect();
        for stream in &running {
            stream.stop(DAEMON_STOPS);
        }
        running.into_iter().for_each(RunningStream::join);
    }
}

/// Says in the log what became of a stream that failed while others go on.
pub(super) fn log_failure(stream: &str, failure: &StreamFailure) {
    let reason = chain(failure);
    tracing::warn!(stream, reason, "the stream failed; others go on");
}
