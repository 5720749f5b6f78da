//! `foveate bench ring-reader`: one of the readers that `foveate bench ring` starts.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};

use super::{READER_TIMEOUT, STREAM, VIEW, Waiting};
use crate::ToolError;
use foveate::client::{Client, Next, Subscription};
use foveate::messages::ViewName;
use foveate_core::clock::monotonic_ns;
use foveate_ring::TokenFrameBuf;

/// Arguments of `foveate bench ring-reader`.
#[derive(Debug, clap::Args)]
pub(in crate::bench) struct Arguments {
    /// How it waits
    #[arg(long, value_enum)]
    how: Waiting,
}

/// What a reader saw: a line of JSON.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Seen {
    /// The frames that it read, in their order.
    pub(super) frames: Vec<SeenFrame>,
}

/// When a reader had a frame.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct SeenFrame {
    pub(super) frame_seq: u64,
    /// Frames before it that were passed over.
    pub(super) missed: u64,
    /// From before the writer stored it to when its copy was whole, in nanoseconds.
    pub(super) total_ns: u64,
    /// From right before its release store to when its copy was whole, in nanoseconds.
    pub(super) read_ns: u64,
}

/// Follows until the end, and tells `out` when it has begun, and what it saw.
pub(in crate::bench) fn run(
    arguments: &Arguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let view = ViewName::new(STREAM, VIEW).expect("both are names");
    let notify = arguments.how == Waiting::Notice;
    let mut subscription = Client::connect(socket)?.subscribe(&view, notify)?;
    let mut frame = TokenFrameBuf::default();
    let mut seen = Seen::default();
    let mut says =
        |line: &str| writeln!(out, "{line}").and_then(|()| out.flush()).map_err(ToolError::Output);
    let mut is_following = false;
    loop {
        match next(&mut subscription, &mut frame, arguments.how)? {
            Next::Frame { missed } => seen.frames.push(SeenFrame::now(&frame, missed)),
            Next::TimedOut if arguments.how == Waiting::Futex => return Err(ToolError::NoFrame),
            Next::NewSegment | Next::TimedOut => {}
            Next::Ended(_) => break,
        }
        if !is_following && !seen.frames.is_empty() {
            is_following = true;
            says("following")?;
        }
    }
    let line = serde_json::to_string(&seen).expect("numbers become JSON");
    says(&line)
}

/// Waits for the next frame in one of the ways.
fn next(
    subscription: &mut Subscription,
    frame: &mut TokenFrameBuf,
    how: Waiting,
) -> Result<Next, ToolError> {
    let next = match how {
        Waiting::Futex => subscription.next_frame(frame, READER_TIMEOUT),
        // What was taken from the socket may be told only after the frame before it.
        Waiting::Notice => match subscription.next_frame(frame, Duration::ZERO)? {
            Next::TimedOut => {
                await_readable(subscription)?;
                subscription.next_frame(frame, Duration::ZERO)
            }
            next => Ok(next),
        },
        Waiting::Spin => {
            std::hint::spin_loop();
            subscription.next_frame(frame, Duration::ZERO)
        }
    };
    Ok(next?)
}

/// As an event loop does.
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
    /// `frame`, whose copy has just become whole.
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
