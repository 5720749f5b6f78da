//! A pipeline in a process of its own. This end is the daemon's: a thread that starts the process, checks what it sends, and posts its
//! frames to the mailbox that a pipeline in this process would fill. [`serve`] is the other end.
//!
//! The process fills privacy masks as a pipeline in the daemon does. The daemon reads what they cover of every frame, and drops a frame
//! that is not filled.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use foveate_core::clock::monotonic_ns;
use foveate_core::depth::pairing::WAITING_MAX;
use foveate_core::mask::{Mask, MaskFill};
use foveate_core::source::SourceLimits;
use foveate_socket::{discard, receive, send};
use foveate_source::frame::{FrameLayout, SampleFormat, buffer_bytes_max};
use foveate_source::ledger::{AcceptedFrame, Ledger, Violation};
use foveate_source::pool::PoolLimits;
use foveate_source::wire::{
    FROM_SOURCE_BYTES_MAX, FrameCounts, FromSource, Start, TO_SOURCE_BYTES_MAX, ToSource, counters,
};
use foveate_source::{MaskCoverage, Masks};
use foveate_stats::StreamCounters;
use foveate_stats::process::ResidentMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

pub use child::set_program;
pub use confinement::{Confinement, confine};
pub use error::ProcessError;
pub use serve::{LimitedProcess, limit, serve};

use super::mailbox::{Mailbox, MailboxProducer, PostResult};
use super::source::Task;
use super::{CaptureError, CapturedFrame, Content, End, SourceSpec};
use child::{SourceProcess, described, is_of_memory};

pub(super) mod allocator;
mod child;
mod confinement;
mod error;
mod registry;
mod serve;

/// The argument of `foveated` that makes it a source process.
pub const SUBCOMMAND: &str = "source";

/// Frames that the daemon has of a process at a time: one is being read, one waits in the mailbox, and two are on their way.
const FRAMES_MAX: u8 = 4;

/// Most buffers of a process: as many as a decoder on many cores keeps for reference, and those that the daemon has.
const BUFFERS_MAX: u8 = 64;

/// Most bytes of all buffers of a process: eight of the largest pictures that are common, half of which elements may take.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// How long the thread waits for a message before it looks whether to stop, and for changed masks.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How soon a descriptor is asked for again, and for how long: less than a source may be silent by default, for which it would be blamed.
const DESCRIPTOR_INTERVAL: Duration = Duration::from_millis(50);
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a process says at least that it is alive.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// A process that says nothing for so long hangs as a whole.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// Messages that are taken before the thread looks for anything else.
const MESSAGES_AT_ONCE: usize = 16;

/// Most messages of a process in a second: five times those of the quickest cameras.
const MESSAGES_PER_SECOND_MAX: u32 = 5_000;

/// Most bytes of new buffers of a process in each second, and as many once as it may have: those of elements that write each frame to new
/// memory, 64 pictures of 1920x1080 in RGBA. Mapping a GiB takes 0.2 s, and 0.8 s if the kernel has to clear it.
const MAPPED_PER_SECOND_MAX: u64 = 1 << 29;

/// How often the memory of a process is looked at.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);

/// Time after which the memory is looked at again if it exceeded the limit.
const MEMORY_DOUBT: Duration = Duration::from_millis(50);

/// How long frames that were filled by the masks before a change are taken: they may be on their way.
const MASK_GRACE: Duration = Duration::from_secs(1);

/// The thread that takes the frames of a process.
pub(super) struct ProcessSession {
    pub(super) spec: SourceSpec,
    pub(super) task: Task,
    pub(super) masks: Arc<Masks>,
    pub(super) counters: Arc<StreamCounters>,
    pub(super) producer: MailboxProducer<CapturedFrame>,
    pub(super) is_live: Arc<AtomicBool>,
    pub(super) is_exact: Arc<AtomicBool>,
    /// Disconnected when the source is dropped.
    pub(super) stop: Receiver<()>,
}

/// A running process and its state.
struct Link {
    process: SourceProcess,
    socket: Arc<OwnedFd>,
    ledger: Ledger,
    masks: SentMasks,
    /// Arrival of the newest message.
    heard: Instant,
    second: Second,
    memory: MemoryWatch,
    /// Whether a frame without its masks was logged.
    has_refused: bool,
    /// Whether a missing descriptor was logged.
    has_lacked_descriptor: bool,
    message: Vec<u8>,
}

impl ProcessSession {
    /// Runs the process until its end, and reports it to `frames`.
    pub(super) fn run(
        mut self,
        opened: &Sender<Result<Option<Duration>, CaptureError>>,
        frames: &Mailbox<CapturedFrame>,
    ) {
        // The receiver is gone if the source was dropped, and full if it was open.
        let on_frame = || drop(opened.try_send(Ok(None)));
        let mut link = self.start();
        let own = link.as_ref().ok().map(|link| u64::from(link.process.id()));
        self.counters.source_process.set(own);
        let end = match &mut link {
            Ok(link) => self.supervise(link, on_frame).unwrap_or_else(End::Failed),
            Err(error) => End::Failed(error.clone()),
        };
        if let End::Failed(error) = &end {
            let _ = opened.try_send(Err(error.clone()));
        }
        frames.end(end);
        // Only now: a pipeline may take its time to stop.
        if let Ok(link) = &mut link {
            link.process.stop(&link.socket);
        }
        // Unless the next one has started meanwhile.
        if self.counters.source_process.get() == own {
            self.counters.source_process.set(None);
        }
    }

    fn supervise(
        &mut self,
        link: &mut Link,
        mut on_frame: impl FnMut(),
    ) -> Result<End, CaptureError> {
        tracing::debug!(
            stream = self.spec.stream,
            pid = link.process.id(),
            "source process started"
        );
        loop {
            if self.stop.try_recv() == Err(TryRecvError::Disconnected) {
                return Err(CaptureError::Closed);
            }
            link.send_masks(&self.masks);
            if link.wait() {
                link.process.log.relay();
            }
            match self.take_messages(link, &mut on_frame) {
                Ok(ReceiveOutcome::HasMore) => {}
                Ok(ReceiveOutcome::HasAll) => link.check_memory(self.spec.limits)?,
                Ok(ReceiveOutcome::NoDescriptor) => self.await_descriptor(link)?,
                Ok(ReceiveOutcome::Last(end)) => return Ok(end),
                Ok(ReceiveOutcome::HungUp) => return Err(link.crash(self.spec.limits).into()),
                Err(violation) => {
                    link.process.kill();
                    return Err(ProcessError::from(violation).into());
                }
            }
            if let Some(violation) = link.second.violation() {
                link.process.kill();
                return Err(ProcessError::Misbehaved { violation }.into());
            }
            if HUNG_AFTER < link.heard.elapsed() {
                link.process.kill();
                let (seconds, words) = (HUNG_AFTER.as_secs(), link.process.log.last_line());
                return Err(ProcessError::Hung { seconds, words }.into());
            }
        }
    }

    /// Leaves the message of a new buffer to the next turn. Its process waits, and counts the frames that it drops.
    fn await_descriptor(&self, link: &mut Link) -> Result<(), ProcessError> {
        if DESCRIPTOR_TIMEOUT < link.heard.elapsed() {
            link.process.kill();
            return Err(ProcessError::NoDescriptor { seconds: DESCRIPTOR_TIMEOUT.as_secs() });
        }
        if !std::mem::replace(&mut link.has_lacked_descriptor, true) {
            tracing::warn!(
                stream = self.spec.stream,
                reason = "this process has no descriptor left for a buffer of the source",
                remedy =
                    "raise the limit of open files (LimitNOFILE= of the service, or ulimit -n)",
                "cannot take frames until one is closed"
            );
        }
        thread::sleep(DESCRIPTOR_INTERVAL);
        Ok(())
    }

    fn start(&self) -> Result<Link, CaptureError> {
        let (process, socket) = SourceProcess::start(&self.spec.stream)?;
        let socket = Arc::new(socket);
        let (mask_revision, masks) = self.masks.newer_than(0).unwrap_or_default();
        let spec = SourceSpec { masks: masks.to_vec(), ..self.spec.clone() };
        let frames_max = match spec.content {
            Content::Pictures => FRAMES_MAX,
            // `WAITING_MAX` depth pictures wait for their frames.
            Content::Depth => FRAMES_MAX + u8::try_from(WAITING_MAX).unwrap_or(u8::MAX),
        };
        let captured = self.counters.frames_captured.get();
        let pool = PoolLimits {
            buffers_max: BUFFERS_MAX,
            bytes_max: BUFFER_BYTES_MAX,
            buffer_bytes_max: buffer_bytes_max(self.spec.max_pixels),
        };
        let start = Start {
            spec,
            mask_revision,
            only_checks: self.task == Task::Check,
            is_restart: 0 < self.counters.restarts.total(),
            has_delivered: 0 < captured,
            pool,
            frames_max,
            data_bytes_max: u64::from(self.spec.limits.memory_mib) << 20,
        };
        let mut message = Vec::new();
        ToSource::Start(Box::new(start)).encode(&mut message);
        let sent = if TO_SOURCE_BYTES_MAX < message.len() {
            Err(Errno::MSGSIZE)
        } else {
            send(&socket, &message, None, SendFlags::DONTWAIT)
        };
        match sent {
            // If the process has hung up, its messages give the reason.
            Ok(()) | Err(Errno::PIPE) => {}
            Err(errno) => {
                let reason =
                    format!("its source of {} bytes cannot be sent: {errno}", message.len());
                let remedy = "shorten its description, or its masks";
                return Err(ProcessError::NotStarted { reason, remedy }.into());
            }
        }
        let ledger = Ledger::new(Arc::clone(&socket), pool, captured);
        let masks = SentMasks::new(mask_revision, masks);
        Ok(Link {
            process,
            socket,
            ledger,
            masks,
            heard: Instant::now(),
            second: Second::after(0),
            memory: MemoryWatch::new(),
            has_refused: false,
            has_lacked_descriptor: false,
            message,
        })
    }

    /// Takes messages that are there.
    fn take_messages(
        &mut self,
        link: &mut Link,
        on_frame: &mut impl FnMut(),
    ) -> Result<ReceiveOutcome, Violation> {
        let mut bytes = [0; FROM_SOURCE_BYTES_MAX];
        for _ in 0..MESSAGES_AT_ONCE {
            // Looked at first: the kernel would drop a descriptor for which this process has no room.
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let (len, descriptor) = match receive(&link.socket, &mut bytes, flags) {
                Ok((0, _)) => return Ok(ReceiveOutcome::HungUp),
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(ReceiveOutcome::HasAll),
                Err(Errno::MFILE) => return Ok(ReceiveOutcome::NoDescriptor),
                // It ended before it had read all: the kernel says so once, before what it has sent.
                Err(Errno::CONNRESET) => continue,
                Err(_) => return Ok(ReceiveOutcome::HungUp),
            };
            // The kernel says once, before what is there, that the process has ended.
            if discard(&link.socket) == Err(Errno::CONNRESET) {
                let _ = discard(&link.socket);
            }
            link.heard = Instant::now();
            link.second.messages += 1;
            // A longer one was cut.
            let message = FromSource::decode(&bytes[..len.min(FROM_SOURCE_BYTES_MAX)])?;
            match message {
                FromSource::Buffer(number) => {
                    let file = descriptor.as_ref().map(AsFd::as_fd);
                    link.second.mapped_bytes += link.ledger.add(number, file)?;
                }
                FromSource::Gone(number) => link.ledger.remove(number)?,
                FromSource::Counts(counts) => self.count(link, &counts)?,
                FromSource::Frame(frame) => {
                    self.count(link, &frame.counts)?;
                    self.check_asked_for(&frame.layout)?;
                    let accepted = link.ledger.accept(&frame, monotonic_ns())?;
                    self.is_live.store(frame.is_live, Ordering::Relaxed);
                    self.is_exact.store(frame.is_exact, Ordering::Relaxed);
                    if self.deliver(link, accepted)? {
                        on_frame();
                    }
                    // Waiting for the consumer is not the process's fault.
                    link.heard = Instant::now();
                }
                FromSource::Ended => return Ok(ReceiveOutcome::Last(End::Eos)),
                FromSource::Failed(failure) => {
                    let error = if failure.is_every_frame_live {
                        CaptureError::EveryFrameLive
                    } else if is_of_memory(&failure.text) {
                        ProcessError::out_of_memory("has stopped", self.spec.limits, failure.text)
                            .into()
                    } else {
                        ProcessError::Reported(failure).into()
                    };
                    return Ok(ReceiveOutcome::Last(End::Failed(error)));
                }
            }
        }
        Ok(ReceiveOutcome::HasMore)
    }

    /// Checks that a frame is one of those that the process was asked for.
    fn check_asked_for(&self, layout: &FrameLayout) -> Result<(), Violation> {
        let content = match layout.samples {
            SampleFormat::Picture(..) => Content::Pictures,
            SampleFormat::Depth(_) => Content::Depth,
        };
        if content != self.spec.content {
            return Err(Violation::Content);
        }
        let (extent, pixels_max) = (layout.extent, self.spec.max_pixels);
        let pixels = u64::from(extent.width) * u64::from(extent.height);
        if u64::from(pixels_max) < pixels {
            return Err(Violation::Pixels { extent, pixels_max });
        }
        Ok(())
    }

    fn count(&self, link: &mut Link, counts: &FrameCounts) -> Result<(), Violation> {
        link.ledger.count(counts)?;
        let all = counters(&self.counters).into_iter().zip(counts.all());
        all.for_each(|(counter, count)| counter.add(count.into()));
        Ok(())
    }

    /// Posts a frame, unless it shows what its masks hide; whether it did.
    fn deliver(&mut self, link: &mut Link, frame: AcceptedFrame) -> Result<bool, Violation> {
        let Some(coverage) = link.masks.coverage(&frame)? else {
            self.counters.frames_refused.add(1);
            if !std::mem::replace(&mut link.has_refused, true) {
                tracing::warn!(
                    stream = self.spec.stream,
                    reason = "the source process has not filled the privacy masks",
                    "cannot take a frame; counting it and further ones as refused"
                );
            }
            return Ok(false);
        };
        match self.producer.post(CapturedFrame::shared(frame, coverage)) {
            PostResult::Delivered => {}
            PostResult::Replaced | PostResult::Closed => self.counters.frames_dropped.add(1),
        }
        Ok(true)
    }
}

/// What a process has sent in the present second.
struct Second {
    started_at: Instant,
    messages: u32,
    /// Bytes of new buffers, and the bytes of earlier seconds that exceeded the limit of those seconds.
    mapped_bytes: u64,
}

impl Second {
    fn after(mapped_bytes: u64) -> Self {
        Self { started_at: Instant::now(), messages: 0, mapped_bytes }
    }

    /// The violation, if the process has sent too much. Begins the next second, if it is time.
    fn violation(&mut self) -> Option<String> {
        if MESSAGES_PER_SECOND_MAX < self.messages {
            return Some(format!("more than {MESSAGES_PER_SECOND_MAX} messages in a second"));
        }
        if BUFFER_BYTES_MAX + MAPPED_PER_SECOND_MAX < self.mapped_bytes {
            let mebibytes = MAPPED_PER_SECOND_MAX >> 20;
            return Some(format!("new buffers of more than {mebibytes} MiB in each second"));
        }
        if Duration::from_secs(1) <= self.started_at.elapsed() {
            *self = Self::after(self.mapped_bytes.saturating_sub(MAPPED_PER_SECOND_MAX));
        }
        None
    }
}

/// Watches the memory of a process at an interval, because shared memory does not count towards the kernel's limits.
struct MemoryWatch {
    next: Instant,
    was_too_much: bool,
}

impl MemoryWatch {
    fn new() -> Self {
        Self { next: Instant::now(), was_too_much: false }
    }

    /// The bytes that the process has of its own, if they are too many, and were when it was last looked at: the message of a new buffer
    /// may be on its way. `ledger` has all that have come.
    fn excess(&mut self, pid: u32, ledger: &Ledger, limits: SourceLimits) -> Option<u64> {
        if Instant::now() < self.next {
            return None;
        }
        let resident = ResidentMemory::of(pid)?;
        let bytes = resident.anonymous + resident.shared.saturating_sub(ledger.bytes());
        let is_too_much = u64::from(limits.memory_mib) << 20 < bytes;
        let was_too_much = std::mem::replace(&mut self.was_too_much, is_too_much);
        self.next = Instant::now() + if is_too_much { MEMORY_DOUBT } else { MEMORY_INTERVAL };
        (is_too_much && was_too_much).then_some(bytes)
    }
}

/// Result of receiving messages.
enum ReceiveOutcome {
    /// More messages may wait.
    HasMore,
    /// All messages were received.
    HasAll,
    /// The next one brings a descriptor, and this process has as many as it may.
    NoDescriptor,
    /// The process has said that it ends.
    Last(End),
    /// The process has closed its socket without a last message.
    HungUp,
}

impl Link {
    /// Sends masks that have changed.
    fn send_masks(&mut self, masks: &Masks) {
        let Some((revision, masks)) = masks.newer_than(self.masks.newest()) else { return };
        ToSource::Masks(revision, masks.to_vec()).encode(&mut self.message);
        // The next turn tries again where the socket is full. A closed one is seen when it is read.
        if send(&self.socket, &self.message, None, SendFlags::DONTWAIT).is_ok() {
            self.masks.add(revision, masks);
        }
    }

    /// Ends a process that has taken too much memory.
    fn check_memory(&mut self, limits: SourceLimits) -> Result<(), CaptureError> {
        let Some(bytes) = self.memory.excess(self.process.id(), &self.ledger, limits) else {
            return Ok(());
        };
        self.process.kill();
        let how = format!("took {} MiB, shared memory included, and was ended", bytes >> 20);
        Err(ProcessError::out_of_memory(&how, limits, self.process.log.last_line()).into())
    }

    /// Waits for a message or a line of its log, and returns whether there is a line.
    fn wait(&self) -> bool {
        let socket = PollFd::new(&self.socket, PollFlags::IN);
        let log = self.process.log.descriptor();
        let log = log.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN));
        let mut sources: Vec<_> = [socket].into_iter().chain(log).collect();
        // Fails only for signals.
        let _ = poll(&mut sources, Some(&POLL_INTERVAL));
        sources.get(1).is_some_and(|log| !log.revents().is_empty())
    }

    /// Why a process that has hung up without a word has ended.
    fn crash(&mut self, limits: SourceLimits) -> ProcessError {
        let status = self.process.finish();
        let how = status.map_or_else(|| "closed its socket".to_owned(), described);
        match self.process.log.memory_line() {
            Some(words) => ProcessError::out_of_memory(&how, limits, words),
            None => ProcessError::Crashed { how, words: self.process.log.last_line() },
        }
    }
}

/// The masks that a process was given.
struct SentMasks {
    /// The masks that frames may have, each with the number of its change, and when it was sent.
    sent: VecDeque<(u64, Arc<[Mask]>, Instant)>,
    /// What the masks of the newest frame fill in frames of its kind; `None` without masks.
    fill: Option<(MaskFill, MaskCoverage)>,
}

impl SentMasks {
    fn new(revision: u64, masks: Arc<[Mask]>) -> Self {
        Self { sent: [(revision, masks, Instant::now())].into(), fill: None }
    }

    fn newest(&self) -> u64 {
        self.sent.back().map_or(0, |(revision, ..)| *revision)
    }

    fn add(&mut self, revision: u64, masks: Arc<[Mask]>) {
        self.sent.push_back((revision, masks, Instant::now()));
    }

    /// What the masks of `frame` cover; `None` if it is not filled there, or still has masks that changed long ago.
    fn coverage(&mut self, frame: &AcceptedFrame) -> Result<Option<MaskCoverage>, Violation> {
        let revision = frame.mask_revision;
        let place = self.sent.iter().position(|(known, ..)| *known == revision);
        let place = place.ok_or(Violation::Masks(revision))?;
        self.sent.drain(..place);
        if self.sent.get(1).is_some_and(|(_, _, sent)| MASK_GRACE < sent.elapsed()) {
            return Ok(None);
        }
        let masks = &self.sent[0].1;
        if masks.is_empty() {
            return Ok(Some(MaskCoverage { revision, texels: None }));
        }
        let kind = frame.layout.kind();
        let is_known = |(fill, coverage): &(MaskFill, MaskCoverage)| {
            fill.kind() == kind && coverage.revision == revision
        };
        if !self.fill.as_ref().is_some_and(is_known) {
            let fill = MaskFill::new(masks, kind);
            let texels = Some(Arc::new(fill.coarse_texels()));
            self.fill = Some((fill, MaskCoverage { revision, texels }));
        }
        let (fill, coverage) = self.fill.as_ref().expect("just made");
        let is_filled = frame.layout.is_filled(frame.buffer.bytes(), fill);
        Ok(is_filled.then(|| coverage.clone()))
    }
}

#[cfg(test)]
mod tests;
