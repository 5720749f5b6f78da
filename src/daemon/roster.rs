//! The streams that run: started, stopped, and brought to what a new configuration says.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::running::{RunningStream, camera, plans};
use super::{Event, StreamFailure, stream_spec};
use crate::config::StreamConfig;
use crate::control::directory::{Directory, StreamPort};
use crate::control::messages::{DAEMON_STOPS, STREAM_RESTARTS};
use crate::error::chain;
use crate::stream::Backends;

/// What readers are told of a stream that goes.
const REMOVED: &str = "the stream was removed";

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
    /// Streams that run on as if nothing had happened.
    pub(super) kept: Vec<String>,
}

impl Roster {
    pub(super) fn new(directory: Arc<Directory>, events: Sender<Event>) -> Self {
        let (backends, streams) = (Arc::new(Backends::default()), BTreeMap::new());
        let opened = Arc::clone(&backends);
        directory.set_device_memory(move || opened.memory_bytes());
        Self { directory, backends, events, streams, started: 0 }
    }

    /// Whether a stream of that name is there, over or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.streams.contains_key(name)
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

    /// Stops a stream and waits until it is over; it is not listed any more.
    pub(super) fn remove(&mut self, name: &str, reason: &'static str) {
        let Some(member) = self.streams.remove(name) else { return };
        if let Some(running) = member.running {
            running.stop(reason);
            running.join();
        }
        self.directory.remove_stream(name);
    }

    /// Removes the stream of that name, as an operator wants.
    pub(super) fn take_out(&mut self, name: &str) {
        self.remove(name, REMOVED);
    }

    /// Brings the streams to what a new configuration says. Those of which it says the same run on untouched.
    pub(super) fn follow(&mut self, streams: Vec<StreamConfig>) -> Difference {
        let mut difference = Difference::default();
        let is_gone = |name: &&String| streams.iter().all(|stream| stream.name != **name);
        let gone: Vec<String> = self.streams.keys().filter(is_gone).cloned().collect();
        for name in gone {
            self.remove(&name, REMOVED);
            difference.removed.push(name);
        }
        for stream in streams {
            let name = stream.name.clone();
            match self.streams.get(&name) {
                Some(member) if member.config == stream => {
                    difference.kept.push(name);
                    continue;
                }
                Some(_) => {
                    self.remove(&name, STREAM_RESTARTS);
                    difference.changed.push(name);
                }
                None => difference.added.push(name),
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

/// Reads what a stream needs beside its source, so that a configuration is refused before anything is changed.
///
/// # Errors
///
/// If a gaze log or a calibration cannot be read, or is none.
pub(super) fn check(stream: &StreamConfig) -> Result<(), StreamFailure> {
    plans(stream)?;
    camera(stream)?;
    Ok(())
}

/// Says in the log what became of a stream that failed while others go on.
pub(super) fn log_failure(stream: &str, failure: &StreamFailure) {
    let reason = chain(failure);
    tracing::warn!(stream, reason, "the stream failed; others go on");
}
