//! The stream supervisor: starts and stops streams, and applies a new configuration to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::{DaemonEvent, StreamFailure, masked_of, running, stream_spec};
use crate::stream::Backends;
use foveate::messages::{DAEMON_STOPPED, Refusal, RefusalReason, STREAM_RESTARTED, ViewName};
use foveate_config::{StreamConfig, ViewConfig};
use foveate_control::StreamState;
use foveate_log::redact::SecretMask;
use foveate_server::directory::{Directory, StreamPort};
use foveate_source::{MaskChange, MaskRefusal, Masks};

/// Reason given to the readers of a removed stream.
const REMOVED: &str = "the stream was removed";

/// Reason given to the readers of a view that the configuration has no more.
const VIEW_REMOVED: &str = "the view was removed";

/// How long a change of masks waits for a frame that was published with them.
const MASKED_FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stream may take to build a view. Some drivers compile for it.
const VIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// The streams of the daemon, by name.
pub(super) struct Supervisor {
    directory: Arc<Directory>,
    backends: Arc<Backends>,
    events: Sender<DaemonEvent>,
    streams: BTreeMap<String, ManagedStream>,
    /// Streams started so far.
    started: u64,
}

struct ManagedStream {
    config: StreamConfig,
    /// Distinguishes the stream from earlier and later ones of the same name.
    number: u64,
    masks: Arc<Masks>,
    /// Set to the reason when the stream has to end. Its thread informs readers and listings.
    stop: Arc<OnceLock<&'static str>>,
    /// The thread of the stream; `None` once it has ended.
    thread: Option<JoinHandle<()>>,
    /// Keeps the secrets in `config` out of logs.
    redaction: SecretMask,
}

impl ManagedStream {
    /// Waits for its thread to end.
    fn join(&mut self) {
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(stream = self.config.name, "a frame loop panicked");
        }
    }
}

/// Changes made by a new configuration, as names of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct ConfigChanges {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    /// Restarted.
    #[serde(rename = "changed")]
    pub(super) restarted: Vec<String>,
    /// Still running, with changed views.
    #[serde(rename = "adjusted")]
    pub(super) views_changed: Vec<String>,
    /// Still running, untouched.
    pub(super) kept: Vec<String>,
}

impl Supervisor {
    pub(super) fn new(
        directory: Arc<Directory>,
        backends: Backends,
        events: Sender<DaemonEvent>,
    ) -> Self {
        let (backends, streams) = (Arc::new(backends), BTreeMap::new());
        let opened = Arc::clone(&backends);
        directory.set_device_memory(move || opened.memory_bytes());
        Self { directory, backends, events, streams, started: 0 }
    }

    /// Whether stream `name` exists, running or ended.
    pub(super) fn has(&self, name: &str) -> bool {
        self.streams.contains_key(name)
    }

    /// Checks that the backend of a stream is available.
    pub(super) fn check_backend(&self, stream: &StreamConfig) -> Result<(), StreamFailure> {
        Ok(running::backend(stream, &self.backends).map(drop)?)
    }

    /// Whether a stream, running or ended, has exactly this configuration.
    pub(super) fn has_config(&self, stream: &StreamConfig) -> bool {
        self.streams.get(&stream.name).is_some_and(|managed| managed.config == *stream)
    }

    /// Number of streams that have not ended.
    pub(super) fn running(&self) -> usize {
        self.streams.values().filter(|managed| managed.thread.is_some()).count()
    }

    /// Adds the stream of `config`, whose name must be free, to the directory as one that is starting. If it replaces a
    /// stream of the same name, it continues with the `masks` of that stream.
    pub(super) fn register(&self, config: &StreamConfig, masks: Option<Arc<Masks>>) -> StreamPort {
        let masks = masks.unwrap_or_default();
        masks.configure(config.capture.masks.clone());
        self.directory.add_stream(stream_spec(config, masks))
    }

    /// Starts the stream of `config`, which is [registered](Supervisor::register). Its end is reported as an event.
    pub(super) fn start(&mut self, config: StreamConfig, port: StreamPort) {
        self.started += 1;
        let number = self.started;
        let (name, ended) = (config.name.clone(), self.events.clone());
        let report = move |result| {
            // A stopping daemon has dropped the receiver.
            let _ = ended.send(DaemonEvent::StreamEnded { name, number, result });
        };
        let (redaction, masks) = (masked_of(&config), Arc::clone(port.masks()));
        let stop = Arc::new(OnceLock::new());
        let own_stop = Arc::clone(&stop);
        let thread = match running::start(&config, port, &self.backends, own_stop, report.clone()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                report(Err(error));
                None
            }
        };
        let managed = ManagedStream { config, number, masks, stop, thread, redaction };
        self.streams.insert(managed.config.name.clone(), managed);
    }

    /// Registers and starts the stream of `config`.
    pub(super) fn add(&mut self, config: StreamConfig) {
        let port = self.register(&config, None);
        self.start(config, port);
    }

    /// Notes the end of a stream; false if it had been removed or restarted.
    pub(super) fn note_end(&mut self, name: &str, number: u64) -> bool {
        let managed = self.streams.get_mut(name).filter(|managed| managed.number == number);
        let Some(managed) = managed else { return false };
        managed.join();
        true
    }

    /// Asks a stream to end; the first reason counts.
    fn stop_one(&self, name: &str, reason: &'static str) {
        if let Some(managed) = self.streams.get(name) {
            let _ = managed.stop.set(reason);
        }
    }

    /// Waits for a stopped stream to end, and takes it out of the directory. Returns its masks.
    fn take_out(&mut self, name: &str) -> Option<Arc<Masks>> {
        let mut removed = self.streams.remove(name);
        if let Some(managed) = &mut removed {
            managed.join();
        }
        self.directory.remove_stream(name);
        removed.map(|managed| managed.masks)
    }

    /// The configuration of a view.
    pub(super) fn view(&self, name: &ViewName) -> Result<&ViewConfig, Refusal> {
        let managed = self.streams.get(name.stream());
        let views = managed.map_or(&[][..], |managed| &managed.config.views);
        views.iter().find(|view| view.name == name.view()).ok_or_else(|| {
            let error = format!("the configuration has no view `{name}`: see `foveate ls`");
            Refusal::new(RefusalReason::UnknownView, error)
        })
    }

    /// Changes a view of the configuration. Blocks until the view is built, for at most 5 s.
    pub(super) fn set_view(&mut self, name: &ViewName, config: ViewConfig) -> Result<(), Refusal> {
        let present = self.view(name)?;
        if *present == config {
            return Ok(());
        }
        let ViewConfig { max_fps, publish, .. } = config;
        let keeps_segment = ViewConfig { max_fps, publish, ..present.clone() } == config;
        let (answer, answered) = bounded(1);
        self.directory.set_view(name.stream(), config.clone(), keeps_segment, answer);
        built(&answered)?;
        let managed = self.streams.get_mut(name.stream());
        let views = managed.into_iter().flat_map(|managed| &mut managed.config.views);
        views.filter(|view| view.name == config.name).for_each(|view| *view = config.clone());
        Ok(())
    }

    /// Changes the run-time masks of a stream, then waits up to 5 s for a frame published with them. Returns the names of all
    /// masks, and why no such frame was published in time.
    pub(super) fn mask(
        &self,
        stream: &str,
        change: MaskChange,
    ) -> Result<(Vec<String>, Option<String>), Refusal> {
        let managed = self.streams.get(stream).ok_or_else(|| {
            let error = format!("unknown stream {stream:?}: see `foveate ls`");
            Refusal::new(RefusalReason::UnknownStream, error)
        })?;
        let before = names_of(&managed.masks);
        let revision = managed.masks.change(change).map_err(|refused| {
            let reason = match refused {
                MaskRefusal::Configured { .. } => RefusalReason::NameTaken,
                MaskRefusal::Unknown { .. } | MaskRefusal::TooMany { .. } => {
                    RefusalReason::Unavailable
                }
            };
            Refusal::new(reason, refused.to_string())
        })?;
        let names = names_of(&managed.masks);
        // Masks may move from frame to frame: do not log each move.
        if names != before {
            tracing::info!(stream, ?names, "an operator changed the masks");
        }
        let deadline = Instant::now() + MASKED_FRAME_TIMEOUT;
        Ok((names, self.await_masked(stream, revision, deadline)))
    }

    /// Waits for a frame with the masks of change `revision`, unless none is expected. Returns why there is none yet.
    fn await_masked(&self, stream: &str, revision: u64, deadline: Instant) -> Option<String> {
        let state = self.directory.state(stream)?;
        if state != StreamState::Live {
            return Some(format!("the stream is {state}"));
        }
        let patience = deadline.saturating_duration_since(Instant::now());
        let is_published = self.streams.get(stream)?.masks.await_published(revision, patience);
        (!is_published).then(|| {
            format!("the stream delivered no frame within {} s", MASKED_FRAME_TIMEOUT.as_secs())
        })
    }

    /// Changes the masks of all streams that keep their source to those of `wanted`, before anything else is done or waited for. Returns the
    /// names of the streams whose masks changed, and the numbers of the changes.
    fn mask_all(&self, wanted: &[StreamConfig]) -> Vec<(String, u64)> {
        let changed = |stream: &StreamConfig| {
            let managed = self.streams.get(&stream.name)?;
            let changes =
                self.goes_on(stream) && managed.config.capture.masks != stream.capture.masks;
            changes.then(|| {
                (stream.name.clone(), managed.masks.configure(stream.capture.masks.clone()))
            })
        };
        wanted.iter().filter_map(changed).collect()
    }

    /// Whether a stream runs, and nothing but masks and views differs from `wanted`.
    fn goes_on(&self, wanted: &StreamConfig) -> bool {
        self.streams.get(&wanted.name).is_some_and(|managed| {
            let mut others = StreamConfig {
                views: managed.config.views.clone(),
                secrets: managed.config.secrets.clone(),
                ..wanted.clone()
            };
            others.capture.masks.clone_from(&managed.config.capture.masks);
            managed.config == others && managed.thread.is_some()
        })
    }

    /// Changes views of a stream to those of `wanted` without a restart, if it goes on; false if that is not possible.
    fn adjust(&mut self, wanted: &StreamConfig) -> bool {
        if !self.goes_on(wanted) {
            return false;
        }
        let Some(managed) = self.streams.get(&wanted.name) else { return false };
        let present: BTreeSet<_> =
            managed.config.views.iter().map(|view| view.name.clone()).collect();
        for name in
            present.iter().filter(|name| wanted.views.iter().all(|view| view.name != **name))
        {
            let Ok(name) = ViewName::new(&wanted.name, name) else { return false };
            self.directory.remove_view(&name, VIEW_REMOVED);
        }
        for view in &wanted.views {
            let Ok(name) = ViewName::new(&wanted.name, &view.name) else { return false };
            let changed = if present.contains(&view.name) {
                self.set_view(&name, view.clone())
            } else {
                self.add_view(&wanted.name, view)
            };
            if let Err(refusal) = changed {
                tracing::warn!(view = %name, reason = refusal.error, "the stream is restarted");
                return false;
            }
        }
        let names: Vec<_> = wanted.views.iter().map(|view| &view.name[..]).collect();
        self.directory.arrange_views(&wanted.name, &names);
        if let Some(managed) = self.streams.get_mut(&wanted.name) {
            managed.redaction = masked_of(wanted);
            managed.config = wanted.clone();
        }
        true
    }

    /// Adds a view to a running stream.
    fn add_view(&self, stream: &str, config: &ViewConfig) -> Result<(), Refusal> {
        let (answer, answered) = bounded(1);
        self.directory.add_view(stream, config.clone(), answer);
        built(&answered)
    }

    /// Stops a stream and takes it out of the directory.
    pub(super) fn remove(&mut self, name: &str) {
        self.stop_one(name, REMOVED);
        self.take_out(name);
    }

    /// Applies a new configuration. Streams that it does not change keep running untouched. Blocks until changed views are
    /// built (5 s each) and removed and restarted streams have stopped.
    pub(super) fn apply(&mut self, streams: Vec<StreamConfig>) -> ConfigChanges {
        let mut changes = ConfigChanges::default();
        for (name, managed) in &self.streams {
            match streams.iter().find(|stream| stream.name == *name) {
                None => changes.removed.push(name.clone()),
                Some(stream) if managed.config != *stream => changes.restarted.push(name.clone()),
                Some(_) => changes.kept.push(name.clone()),
            }
        }
        let masked = self.mask_all(&streams);
        for stream in &streams {
            if changes.restarted.contains(&stream.name) && self.adjust(stream) {
                changes.restarted.retain(|name| *name != stream.name);
                changes.views_changed.push(stream.name.clone());
            }
        }
        let ConfigChanges { removed, restarted, .. } = &changes;
        // Stops all before it waits for any: a pipeline takes its time to stop.
        removed.iter().for_each(|name| self.stop_one(name, REMOVED));
        restarted.iter().for_each(|name| self.stop_one(name, STREAM_RESTARTED));
        // One limit for all, so that this thread is back in time for its other duties.
        let deadline = Instant::now() + MASKED_FRAME_TIMEOUT;
        for (stream, revision) in masked {
            if !changes.views_changed.contains(&stream) {
                continue;
            }
            if let Some(reason) = self.await_masked(&stream, revision, deadline) {
                tracing::info!(stream, reason, "masks apply from the next frame on");
            }
        }
        let ConfigChanges { removed, restarted, .. } = &changes;
        removed.iter().for_each(|name| drop(self.take_out(name)));
        let mut again = Vec::new();
        for stream in streams.iter().filter(|stream| restarted.contains(&stream.name)) {
            let masks = self.take_out(&stream.name);
            // Readers that may come back look for the stream while the next one starts.
            again.push((stream.clone(), self.register(stream, masks)));
        }
        again.into_iter().for_each(|(stream, port)| self.start(stream, port));
        for stream in streams {
            if !self.has(&stream.name) {
                changes.added.push(stream.name.clone());
                self.add(stream);
            }
        }
        changes
    }

    /// Keeps redacting the secrets of a stream from logs until the process ends.
    pub(super) fn redact_permanently(&self, name: &str) {
        if let Some(managed) = self.streams.get(name) {
            masked_of(&managed.config).for_good();
        }
    }

    /// Stops every stream, as the daemon ends.
    pub(super) fn stop(self) {
        for managed in self.streams.values() {
            let _ = managed.stop.set(DAEMON_STOPPED);
        }
        for mut managed in self.streams.into_values() {
            managed.join();
            // Pipelines may go on stopping.
            managed.redaction.for_good();
        }
    }
}

/// Waits until a view is built.
fn built(answered: &Receiver<Result<(), Refusal>>) -> Result<(), Refusal> {
    let (reason, error) = match answered.recv_timeout(VIEW_TIMEOUT) {
        Ok(answer) => return answer,
        Err(RecvTimeoutError::Disconnected) => {
            (RefusalReason::Ended, "its stream has ended".to_owned())
        }
        Err(RecvTimeoutError::Timeout) => {
            (RefusalReason::Busy, "its stream is busy: see the log".to_owned())
        }
    };
    Err(Refusal::new(reason, error))
}

/// Names of the masks of the configuration, and of those that were set at run time.
fn names_of(masks: &Masks) -> Vec<String> {
    let (configured, added) = masks.present();
    configured.into_iter().chain(added).map(|mask| mask.name).collect()
}
