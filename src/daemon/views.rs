//! The thread that makes the views that clients open, and drops those that they close, so that no frame waits for it.

use std::io;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::control::directory::{ViewCommand, ViewPort};
use crate::control::messages::ViewName;
use crate::error::chain;
use crate::stream::{GazeLogError, NewView, OldView, StreamError, ViewPlan, Workshop};

/// Views that the frame loop may leave waiting before no more are made.
const CHANGES_PENDING_MAX: usize = 16;

/// What happens to the views of a stream, in the order in which it happened.
pub(super) enum ViewChange {
    /// It is ready to join.
    Join(Box<(ViewPort, NewView)>),
    /// It is to leave.
    Leave(ViewName),
}

/// The frame loop's end of the workshop.
pub(super) struct Joiners {
    changes: Receiver<ViewChange>,
    returns: Sender<Return>,
    thread: JoinHandle<()>,
}

/// What comes back from the frame loop.
enum Return {
    /// A view that was made for what the stream was before.
    Misfit(Box<(ViewPort, NewView)>),
    /// A view that was closed before it joined.
    Unused(#[expect(dead_code, reason = "it comes to be dropped here")] Box<NewView>),
    /// A view that has left.
    Old(#[expect(dead_code, reason = "it comes to be dropped here")] Box<OldView>),
}

impl Joiners {
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
    workshop: Workshop,
    commands: Receiver<ViewCommand>,
) -> io::Result<Joiners> {
    let (changed, changes) = bounded(CHANGES_PENDING_MAX);
    let (returns, returned) = unbounded();
    let thread = thread::Builder::new()
        .name(format!("views-{stream}"))
        .spawn(move || work(&workshop, &commands, &returned, &changed))?;
    Ok(Joiners { changes, returns, thread })
}

fn work(
    workshop: &Workshop,
    commands: &Receiver<ViewCommand>,
    returned: &Receiver<Return>,
    changed: &Sender<ViewChange>,
) {
    loop {
        let change = select! {
            recv(returned) -> back => match back {
                Ok(Return::Misfit(misfit)) => {
                    let (port, view) = *misfit;
                    made(port, |_| Ok(workshop.remake(view)?))
                }
                Ok(Return::Old(_) | Return::Unused(_)) => None,
                // The frame loop is gone.
                Err(_) => return,
            },
            recv(commands) -> command => match command {
                Ok(ViewCommand::Open(port)) => made(*port, |port| {
                    let plan = ViewPlan::try_from(port.config())?;
                    Ok(workshop.make(plan, port.take_link())?)
                }),
                Ok(ViewCommand::Close(name)) => Some(ViewChange::Leave(name)),
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
