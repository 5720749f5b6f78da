//! `foveate bench ring-reader`: reader process of `foveate bench ring`.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};

use super::{READER_TIMEOUT, STREAM, VIEW, WaitMethod};
use crate::ToolError;
use foveate::client::{Client, Next, Subscription};
use foveate::messages::ViewName;
use foveate_core::clock::monotonic_ns;
use foveate_ring::TokenFrameBuf;

/// A frame that a reader has read. Its result is a line of JSON with all of them, in order.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct SeenFrame {
    pub(super) frame_seq: u64,
    /// Frames skipped before it.
    pub(super) missed: u64,
    /// Time from the start of its publication to the complete copy, in nanoseconds.
    pub(super) total_ns: u64,
    /// Time from just before its release store to the complete copy, in nanoseconds.
    pub(super) read_ns: u64,
}

/// Follows the view to its end; writes a line to `out` after the first frame, and the result at the end.
pub(in crate::bench) fn run(
    how: WaitMethod,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let view = ViewName::new(STREAM, VIEW).expect("both are names");
    let notify = how == WaitMethod::Notice;
    let mut subscription = Client::connect(socket)?.subscribe(&view, notify)?;
    let mut frame = TokenFrameBuf::default();
    let mut seen = Vec::new();
    let mut say =
        |line: &str| writeln!(out, "{line}").and_then(|()| out.flush()).map_err(ToolError::Output);
    let mut is_following = false;
    loop {
        match next(&mut subscription, &mut frame, how)? {
            Next::Frame { missed } => seen.push(SeenFrame::now(&frame, missed)),
            Next::TimedOut if how == WaitMethod::Futex => return Err(ToolError::NoFrame),
            Next::NewSegment | Next::TimedOut => {}
            Next::Ended(_) => break,
        }
        if !is_following && !seen.is_empty() {
            is_following = true;
            say("following")?;
        }
    }
    let line = serde_json::to_string(&seen).expect("numbers become JSON");
    say(&line)
}

fn next(
    subscription: &mut Subscription,
    frame: &mut TokenFrameBuf,
    how: WaitMethod,
) -> Result<Next, ToolError> {
    let next = match how {
        WaitMethod::Futex => subscription.next_frame(frame, READER_TIMEOUT),
        // Notices already taken from the socket may be reported only after the previous frame.
        WaitMethod::Notice => match subscription.next_frame(frame, Duration::ZERO)? {
            Next::TimedOut => {
                await_readable(subscription)?;
                subscription.next_frame(frame, Duration::ZERO)
            }
            next => Ok(next),
        },
        WaitMethod::Spin => {
            std::hint::spin_loop();
            subscription.next_frame(frame, Duration::ZERO)
        }
    };
    Ok(next?)
}

/// Polls as an event loop does.
fn await_readable(subscription: &Subscription) -> Result<(), ToolError> {
    let timeout = Timespec::try_from(READER_TIMEOUT).ok();
    let mut entries = [PollFd::new(subscription, PollFlags::IN)];
    match retry_on_intr(|| poll(&mut entries, timeout.as_ref())) {
        Ok(0) => Err(ToolError::NoFrame),
        Ok(_) => Ok(()),
        Err(errno) => Err(ToolError::RingBench(errno.into())),
    }
}

impl SeenFrame {
    /// The times of `frame`, whose copy has just been completed.
    fn now(frame: &TokenFrameBuf, missed: u64) -> Self {
        let now_ns = monotonic_ns();
        let since = |then_ns: u64| now_ns.saturating_sub(then_ns);
        Self {
            frame_seq: frame.head.stamp.frame_seq,
            missed,
            total_ns: since(frame.head.stamp.arrival_ns),
            read_ns: since(frame.head.publish_ns),
        }
    }
}
