//! The thread that makes the views that clients open and what operators want views to be, and drops what they were, so that
//! no frame waits for it.

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::control::directory::{ViewCommand, ViewPort, ViewSetting};
use crate::stream::{
    GazeLogError, NewView, OldView, Replacement, RingBuilder, ServedView, StreamError,
};
use foveate::messages::ViewName;
use foveate_config::ViewConfig;
use foveate_core::error::chain;

/// Views that the frame loop may leave waiting before no more are made.
const CHANGES_PENDING_MAX: usize = 16;

/// What happens to the views of a stream, in the order in which it happened.
pub(super) enum ViewChange {
    /// It is ready to join.
    Join(Box<(ViewPort, NewView)>),
    /// It is to leave.
    Leave(ViewName),
    /// It is to be another one.
    Replace(Box<(ViewName, ViewConfig, Replacement)>),
    /// It is to publish other frames.
    SetPace(ViewName, Box<ViewConfig>),
}

/// The frame loop's end of the thread that builds views.
pub(super) struct ViewThread {
    changes: Receiver<ViewChange>,
    returns: Sender<Return>,
    thread: JoinHandle<()>,
}

/// What comes back from the frame loop.
enum Return {
    /// A view that was made for what the stream was before.
    Misfit(Box<(ViewPort, NewView)>),
    /// What was made to refit a view, for what the stream was before.
    MisfitReplacement(ViewName),
    /// A view that was closed before it joined.
    Unused(#[expect(dead_code, reason = "it comes to be dropped here")] Box<NewView>),
    /// A view that has left.
    Old(#[expect(dead_code, reason = "it comes to be dropped here")] Box<OldView>),
}

impl ViewThread {
    /// What happened next to its views, if anything has. Never waits.
    pub(super) fn next_change(&self) -> Option<ViewChange> {
        self.changes.try_recv().ok()
    }

    /// Ends the thread, and waits for what it is at.
    pub(super) fn end(self) {
        let Self { changes, returns, thread } = self;
        drop((changes, returns));
        if thread.join().is_err() {
            tracing::error!("the thread that makes views panicked");
        }
    }

    /// Has a view made again.
    pub(super) fn give_back(&self, port: ViewPort, view: NewView) {
        // The thread ends only after this end is dropped.
        let _ = self.returns.send(Return::Misfit(Box::new((port, view))));
    }

    /// Has it made again what a view is to be.
    pub(super) fn replace_again(&self, view: ViewName) {
        let _ = self.returns.send(Return::MisfitReplacement(view));
    }

    /// Has a view dropped that never joined.
    pub(super) fn drop_unused(&self, view: NewView) {
        let _ = self.returns.send(Return::Unused(Box::new(view)));
    }

    /// Has a view dropped.
    pub(super) fn discard(&self, view: OldView) {
        let _ = self.returns.send(Return::Old(Box::new(view)));
    }
}

/// Why a view cannot be made.
#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    GazeLog(#[from] GazeLogError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Starts the thread for `stream`. It ends with the frame loop's end.
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
    // What operators want views to be, the newest.
    let mut settings = BTreeMap::new();
    loop {
        let change = select! {
            recv(returned) -> back => match back {
                Ok(Return::Misfit(misfit)) => {
                    let (port, view) = *misfit;
                    made(port, |_| Ok(builder.rebuild(view)?))
                }
                Ok(Return::MisfitReplacement(view)) => {
                    let config = settings.get(&view).cloned();
                    config.and_then(|config| remade(builder, view, config))
                }
                Ok(Return::Old(_) | Return::Unused(_)) => None,
                // The frame loop is gone.
                Err(_) => return,
            },
            recv(commands) -> command => match command {
                Ok(ViewCommand::Open(port)) => made(*port, |port| {
                    let served = ServedView::try_from(&*port.config())?;
                    Ok(builder.build_new(served, port.take_channel())?)
                }),
                Ok(ViewCommand::Close(name)) => Some(ViewChange::Leave(name)),
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

/// What makes a view another one, if it can be made; the operator is told either way.
fn set(
    builder: &RingBuilder,
    setting: ViewSetting,
    settings: &mut BTreeMap<ViewName, ViewConfig>,
) -> Option<ViewChange> {
    let ViewSetting { view, config, keeps_segment, answer } = setting;
    let wanted = (view.clone(), config.clone());
    let made = if keeps_segment {
        Ok(ViewChange::SetPace(view, Box::new(config)))
    } else {
        replacement_of(builder, view, config)
    };
    // Who has waited too long was told that it is not done, so it is not.
    let is_awaited = answer.send(made.as_ref().map(drop).map_err(|error| chain(error))).is_ok();
    let change = made.ok().filter(|_| is_awaited)?;
    settings.extend([wanted]);
    Some(change)
}

fn replacement_of(
    builder: &RingBuilder,
    view: ViewName,
    config: ViewConfig,
) -> Result<ViewChange, MakeError> {
    let replacement = builder.build_replacement(ServedView::try_from(&config)?)?;
    Ok(ViewChange::Replace(Box::new((view, config, replacement))))
}

/// What makes a view another one, again, because the stream has become another meanwhile.
fn remade(builder: &RingBuilder, view: ViewName, config: ViewConfig) -> Option<ViewChange> {
    match replacement_of(builder, view.clone(), config) {
        Ok(change) => Some(change),
        Err(error) => {
            tracing::warn!(%view, reason = chain(&error), "the view stays as it was");
            None
        }
    }
}

/// The view that `make` makes, or the news that it cannot be made.
fn made(
    mut port: ViewPort,
    make: impl FnOnce(&mut ViewPort) -> Result<NewView, MakeError>,
) -> Option<ViewChange> {
    match make(&mut port) {
        Ok(view) => Some(ViewChange::Join(Box::new((port, view)))),
        Err(error) => {
            tracing::warn!(view = %port.name(), reason = chain(&error), "a view cannot be opened");
            port.fail(&chain(&error));
            None
        }
    }
}
