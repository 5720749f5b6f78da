//! The view thread of a stream: builds views that clients open or operators change, and drops old ones, so that no frame waits
//! for either.

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::control::directory::{ViewCommand, ViewPort, ViewSetting};
use crate::stream::{NewView, PolicyFileError, Replacement, RingBuilder, ServedView, StreamError};
use foveate::messages::{Refusal, RefusalReason, ViewName};
use foveate_config::ViewConfig;
use foveate_core::error::chain;
use foveate_log::redact::redacted;

/// Changes in the queue to the frame loop; the thread waits while it is full.
const CHANGES_PENDING_MAX: usize = 16;

/// A change to the views of a stream.
pub(super) enum ViewChange {
    Add(Box<(ViewPort, NewView)>),
    Remove(ViewName),
    /// The view continues as another one under the same name.
    Replace(Box<(ViewName, ViewConfig, Replacement)>),
    SetPace(ViewName, Box<ViewConfig>),
}

/// The frame loop's end of the thread.
pub(super) struct ViewThread {
    changes: Receiver<ViewChange>,
    returns: Sender<Return>,
    thread: JoinHandle<()>,
}

/// What the frame loop returns to the thread.
enum Return {
    /// A view built for an earlier backend or kind of frames.
    Outdated(Box<(ViewPort, NewView)>),
    /// The replacement of this view, built for an earlier backend or kind of frames.
    OutdatedReplacement(ViewName),
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
    pub(super) fn rebuild(&self, port: ViewPort, view: NewView) {
        // Does not fail: the thread ends only after this end is dropped.
        let _ = self.returns.send(Return::Outdated(Box::new((port, view))));
    }

    /// Asks for another replacement of a view, as the one sent is outdated.
    pub(super) fn rebuild_replacement(&self, view: ViewName) {
        let _ = self.returns.send(Return::OutdatedReplacement(view));
    }

    /// Has a view dropped on the thread.
    pub(super) fn discard(&self, view: impl Send + 'static) {
        let _ = self.returns.send(Return::Discarded(Box::new(view)));
    }
}

/// Why a view cannot be built.
#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl BuildError {
    fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Policy(_) | Self::Stream(StreamError::NoDepth | StreamError::NoRays) => {
                RefusalReason::BadRequest
            }
            Self::Stream(_) => RefusalReason::Unavailable,
        };
        Refusal::new(reason, redacted(&chain(self)))
    }
}

/// Starts the thread of `stream`, which ends when the [`ViewThread`] is dropped.
pub(super) fn start(
    stream: &str,
    builder: RingBuilder,
    commands: Receiver<ViewCommand>,
) -> io::Result<ViewThread> {
    let (changed, changes) = bounded(CHANGES_PENDING_MAX);
    let (returns, returned) = unbounded();
    let thread = thread::Builder::new()
        .name(format!("views-{stream}"))
        .spawn(move || work(&builder, &commands, &returned, &changed))?;
    Ok(ViewThread { changes, returns, thread })
}

fn work(
    builder: &RingBuilder,
    commands: &Receiver<ViewCommand>,
    returned: &Receiver<Return>,
    changed: &Sender<ViewChange>,
) {
    // The newest settings of operators.
    let mut settings = BTreeMap::new();
    loop {
        let change = select! {
            recv(returned) -> back => match back {
                Ok(Return::Outdated(outdated)) => {
                    let (port, view) = *outdated;
                    build(port, |_| Ok(builder.rebuild(view)?))
                }
                Ok(Return::OutdatedReplacement(view)) => {
                    let config = settings.get(&view).cloned();
                    config.and_then(|config| rebuild_replacement(builder, view, config))
                }
                Ok(Return::Discarded(_)) => None,
                // The frame loop is gone.
                Err(_) => return,
            },
            recv(commands) -> command => match command {
                Ok(ViewCommand::Open(port)) => build(*port, |port| build_new(builder, port)),
                Ok(ViewCommand::Add(port, answer)) => add(builder, *port, &answer),
                Ok(ViewCommand::Close(name)) => Some(ViewChange::Remove(name)),
                Ok(ViewCommand::Set(setting)) => set(builder, *setting, &mut settings),
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
    builder: &RingBuilder,
    mut port: ViewPort,
    answer: &Sender<Result<(), Refusal>>,
) -> Option<ViewChange> {
    let built = build_new(builder, &mut port);
    // The supervisor restarts the stream if it waited in vain.
    let _ = answer.send(built.as_ref().map(drop).map_err(BuildError::refusal));
    Some(ViewChange::Add(Box::new((port, built.ok()?))))
}

fn build_new(builder: &RingBuilder, port: &mut ViewPort) -> Result<NewView, BuildError> {
    let served = ServedView::try_from(&*port.config())?;
    Ok(builder.build_new(served, port.take_channel())?)
}

/// The change for an operator's setting, if it can be built; answers the operator either way.
fn set(
    builder: &RingBuilder,
    setting: ViewSetting,
    settings: &mut BTreeMap<ViewName, ViewConfig>,
) -> Option<ViewChange> {
    let ViewSetting { view, config, keeps_segment, answer } = setting;
    let wanted = (view.clone(), config.clone());
    let built = if keeps_segment {
        Ok(ViewChange::SetPace(view, Box::new(config)))
    } else {
        build_replacement(builder, view, config)
    };
    // An operator whose request timed out got the answer that nothing changed, so nothing may change.
    let is_awaited = answer.send(built.as_ref().map(drop).map_err(BuildError::refusal)).is_ok();
    let change = built.ok().filter(|_| is_awaited)?;
    settings.extend([wanted]);
    Some(change)
}

fn build_replacement(
    builder: &RingBuilder,
    view: ViewName,
    config: ViewConfig,
) -> Result<ViewChange, BuildError> {
    let replacement = builder.build_replacement(ServedView::try_from(&config)?)?;
    Ok(ViewChange::Replace(Box::new((view, config, replacement))))
}

/// Builds a replacement again after the stream has changed.
fn rebuild_replacement(
    builder: &RingBuilder,
    view: ViewName,
    config: ViewConfig,
) -> Option<ViewChange> {
    match build_replacement(builder, view.clone(), config) {
        Ok(change) => Some(change),
        Err(error) => {
            tracing::warn!(%view, reason = chain(&error), "the view could not be changed");
            None
        }
    }
}

/// The view that `make` builds; if it fails, the clients of `port` are informed.
fn build(
    mut port: ViewPort,
    make: impl FnOnce(&mut ViewPort) -> Result<NewView, BuildError>,
) -> Option<ViewChange> {
    match make(&mut port) {
        Ok(view) => Some(ViewChange::Add(Box::new((port, view)))),
        Err(error) => {
            tracing::warn!(view = %port.name(), reason = chain(&error), "a view cannot be opened");
            port.fail(&chain(&error));
            None
        }
    }
}
