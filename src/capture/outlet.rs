//! Hands the frames of a pipeline to their consumer.

use std::sync::Arc;

use super::CapturedFrame;
use super::mailbox::{MailboxProducer, PostResult};
use foveate_source::handover::{Handover, PostOutcome};
use foveate_source::pool::Pool;

/// Receiver of the frames of a pipeline.
pub(super) enum Outlet {
    /// A consumer in this process.
    Mailbox(MailboxProducer<CapturedFrame>),
    /// The daemon; this is a source process.
    Daemon(Arc<Handover<CapturedFrame>>),
}

impl Outlet {
    /// The memory in which frames leave this process.
    pub(super) fn pool(&self) -> Option<Arc<Pool>> {
        match self {
            Self::Mailbox(_) => None,
            Self::Daemon(handover) => Some(Arc::clone(handover.pool())),
        }
    }

    /// Posts a frame of a pipeline that `is_live`, whose samples are exact if it `is_exact`. With
    /// [`Pace::EveryFrame`](super::Pace::EveryFrame) it first waits until there is room.
    pub(super) fn post(
        &mut self,
        frame: CapturedFrame,
        is_live: bool,
        is_exact: bool,
    ) -> PostResult {
        match self {
            Self::Mailbox(producer) => producer.post(frame),
            Self::Daemon(handover) => {
                let ready = frame.ready(is_live, is_exact);
                match handover.post(frame, ready) {
                    PostOutcome::Taken => PostResult::Delivered,
                    PostOutcome::Replaced => PostResult::Replaced,
                    PostOutcome::Closed => PostResult::Closed,
                }
            }
        }
    }
}
