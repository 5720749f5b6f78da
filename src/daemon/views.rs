//! The view thread of a stream: builds views that clients open or operators change, and drops old ones, so that no frame waits
//! for either.

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use super::StreamFailure;
use crate::stream::{NewView, Replacement, RingBuilder, ServedView, StreamError};
use foveate::messages::{Refusal, RefusalReason, ViewName};
use foveate_config::ViewConfig;
use foveate_core::error::chain;
use foveate_log::redact::redacted;
use foveate_server::channel::ViewChannel;
use foveate_server::directory::ViewCommand;

/// Changes in the queue to the frame loop; the thread waits while it is full.
const CHANGES_PENDING_MAX: usize = 16;

/// A change to the views of a stream.
pub(super) enum ViewChange {
    Add(Box<NewView>),
    Remove(ViewName),
    /// A view replaces the view of the same name.
    Replace(Box<(ViewConfig, Replacement)>),
    SetPace(Box<ViewConfig>),
}

/// The frame loop's end of the thread that builds and drops views.
pub(super) struct ViewThread {
    changes: Receiver<ViewChange>,
    returns: Sender<Return>,
    thread: JoinHandle<()>,
}

/// An item that the frame loop returns to the thread.
enum Return {
    /// A view built for an earlier backend or kind of frames.
    Outdated(Box<NewView>),
    /// The replacement of the view of this name, built for an earlier backend or kind of frames.
    OutdatedReplacement(String),
    /// Something to drop.
    Discarded(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Send>),
}

impl ViewThread {
    /// The next change, if there is one. Never waits.
    pub(super) fn next_change(&self) -> Option<ViewChange> {
        self.changes.try_recv().ok()
    }

    /// Ends the thread once it has finished what it is doing.
    pub(super) fn end(self) {
        let Self { changes, returns, thread } = self;
        drop((changes, returns));
        if thread.join().is_err() {
            tracing::error!("the thread that builds views panicked");
        }
    }

    /// Sends back a view that is outdated.
    pub(super) fn rebuild(&self, view: NewView) {
        // Does not fail: the thread ends only after this end is dropped.
        let _ = self.returns.send(Return::Outdated(Box::new(view)));
    }

    /// Asks for another replacement of the view called `name`, as the one sent is outdated.
    pub(super) fn rebuild_replacement(&self, name: String) {
        let _ = self.returns.send(Return::OutdatedReplacement(name));
    }

    /// Has a view dropped on the thread.
    pub(super) fn discard(&self, view: impl Send + 'static) {
        let _ = self.returns.send(Return::Discarded(Box::new(view)));
    }
}

/// Why a view cannot be built.
fn refusal(failure: &StreamFailure) -> Refusal {
    let reason = match failure {
        StreamFailure::Policy(_)
        | StreamFailure::Stream(StreamError::NoDepth | StreamError::NoRays) => {
            RefusalReason::BadRequest
        }
        _ => RefusalReason::Unavailable,
    };
    Refusal::new(reason, redacted(&chain(failure)))
}

/// Starts the thread of `stream`, which ends when the [`ViewThread`] is dropped.
pub(super) fn start(
    stream: &str,
    builder: RingBuilder,
    commands: Receiver<ViewCommand>,
) -> io::Result<ViewThread> {
    let (changed, changes) = bounded(CHANGES_PENDING_MAX);
    let (returns, returned) = unbounded();
    let worker = ViewWorker { stream: stream.to_owned(), builder };
    let thread = thread::Builder::new()
        .name(format!("views-{stream}"))
        .spawn(move || worker.work(&commands, &returned, &changed))?;
    Ok(ViewThread { changes, returns, thread })
}

struct ViewWorker {
    stream: String,
    builder: RingBuilder,
}

impl ViewWorker {
    fn work(
        &self,
        commands: &Receiver<ViewCommand>,
        returned: &Receiver<Return>,
        changed: &Sender<ViewChange>,
    ) {
        // The newest settings of operators, by view.
        let mut settings = BTreeMap::new();
        loop {
            let change = select! {
                recv(returned) -> back => match back {
                    Ok(Return::Outdated(view)) => added(self.build(*view)),
                    Ok(Return::OutdatedReplacement(name)) => {
                        let config = settings.get(&name).cloned();
                        config.and_then(|config| self.rebuild_replacement(config))
                    }
                    Ok(Return::Discarded(_)) => None,
                    // The frame loop is gone.
                    Err(_) => return,
                },
                recv(commands) -> command => match command {
                    Ok(ViewCommand::Open(channel)) => added(self.build_new(*channel)),
                    Ok(ViewCommand::Add(channel, answer)) => self.add(*channel, &answer),
                    Ok(ViewCommand::Close(name)) => Some(ViewChange::Remove(name)),
                    Ok(ViewCommand::Set { config, keeps_segment, answer }) => {
                        self.set(*config, keeps_segment, &answer, &mut settings)
                    }
                    // The directory is gone, and with it the daemon.
                    Err(_) => return,
                },
            };
            if let Some(change) = change
                && changed.send(change).is_err()
            {
                return;
            }
        }
    }

    /// The change for one more view of the configuration, if it can be built; answers the supervisor either way.
    fn add(
        &self,
        channel: ViewChannel,
        answer: &Sender<Result<(), Refusal>>,
    ) -> Option<ViewChange> {
        let built = self.build_new(channel);
        // The supervisor restarts the stream if it timed out waiting.
        let _ = answer.send(built.as_ref().map(drop).map_err(refusal));
        added(built)
    }

    /// The view of `channel`. If it cannot be built, its clients are informed.
    fn build_new(&self, channel: ViewChannel) -> Result<NewView, StreamFailure> {
        match ServedView::try_from(&*channel.config()) {
            Ok(view) => self.build(self.builder.new_view(&view, channel)),
            Err(error) => Err(self.failed(&channel, error.into())),
        }
    }

    /// The view, built for the newest frames. If it cannot be built, its clients are informed.
    fn build(&self, mut view: NewView) -> Result<NewView, StreamFailure> {
        match self.builder.build(&mut view) {
            Ok(()) => Ok(view),
            Err(error) => Err(self.failed(view.channel(), error.into())),
        }
    }

    fn failed(&self, channel: &ViewChannel, error: StreamFailure) -> StreamFailure {
        let reason = chain(&error);
        tracing::warn!(view = %channel.name(), reason, "cannot open a view");
        channel.fail(&reason);
        error
    }

    /// The change for an operator's setting, if it can be built; answers the operator either way.
    fn set(
        &self,
        config: ViewConfig,
        keeps_segment: bool,
        answer: &Sender<Result<(), Refusal>>,
        settings: &mut BTreeMap<String, ViewConfig>,
    ) -> Option<ViewChange> {
        let built = if keeps_segment {
            Ok(ViewChange::SetPace(Box::new(config.clone())))
        } else {
            self.build_replacement(config.clone())
        };
        // If the operator's request timed out, the answer was that nothing changed, so drop the change.
        let is_awaited = answer.send(built.as_ref().map(drop).map_err(refusal)).is_ok();
        let change = built.ok().filter(|_| is_awaited)?;
        settings.insert(config.name.clone(), config);
        Some(change)
    }

    fn build_replacement(&self, config: ViewConfig) -> Result<ViewChange, StreamFailure> {
        let replacement = self.builder.build_replacement(ServedView::try_from(&config)?)?;
        Ok(ViewChange::Replace(Box::new((config, replacement))))
    }

    /// Builds a replacement again after the stream has changed.
    fn rebuild_replacement(&self, config: ViewConfig) -> Option<ViewChange> {
        let view = config.name.clone();
        let built = self.build_replacement(config);
        let built = built.inspect_err(|error| {
            let (stream, reason) = (&self.stream, chain(error));
            tracing::warn!(stream, view, reason, "cannot change a view");
        });
        built.ok()
    }
}

fn added(built: Result<NewView, StreamFailure>) -> Option<ViewChange> {
    Some(ViewChange::Add(Box::new(built.ok()?)))
}
