//! The other end of a source process: runs the pipeline, and hands its frames over.
//!
//! A frame is copied once, from where the decoder put it to a buffer that the daemon has mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use foveate_socket::{receive, send};
use foveate_source::Masks;
use foveate_source::frame::FrameLayout;
use foveate_source::ledger::COUNT_MAX;
use foveate_source::memory::WritableMemory;
use foveate_source::wire::{
    Failure, FrameCounts, FrameReady, FromSource, SourceStamp, Start, TO_SOURCE_BYTES_MAX, ToSource,
};
use foveate_stats::{LossReason, StreamCounters};
use parking_lot::{Condvar, Mutex};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getpriority_process, kill_process, setpriority_process,
    setrlimit,
};

use super::confinement::{Confinement, confine};
use super::{HEARTBEAT, counters};
use crate::hints;
use crate::transient::Evidence;
use crate::{CaptureError, CapturedFrame, End, Source, SourceSpec, TakeResult};
use foveate_core::error::exit;
use foveate_core::source::Isolation;
use foveate_log::redact::redacted;

/// Most descriptors of a source process.
const DESCRIPTORS_MAX: u64 = 1024;

/// Half of the scale, far above that of a daemon.
const OOM_SCORE: &str = "500";

/// How long the process may take to end after the daemon is gone.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A process that has its limits, and can serve.
#[derive(Debug)]
pub struct LimitedProcess {
    socket: OwnedFd,
    start: Start,
    confinement: Confinement,
}

/// Limits this process, for good, to what the source needs that the daemon sends through `socket`. Some limits hold for threads that are
/// started afterwards, so there must be none yet.
///
/// # Errors
///
/// If no daemon is there, or the system refuses a limit.
pub fn limit(socket: OwnedFd) -> std::io::Result<LimitedProcess> {
    // Before anything else: without it the process would outlive a daemon that is killed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let start = received_start(&socket)?;
    limit_resources(&start)?;
    start_gstreamer(&socket)?;
    let confinement = confine(&start.spec)?;
    Ok(LimitedProcess { socket, start, confinement })
}

/// Serves the daemon until the source has ended or the daemon hangs up.
pub fn serve(limited: std::io::Result<LimitedProcess>) -> ExitCode {
    match limited {
        Ok(LimitedProcess { socket, start, confinement }) => {
            if confinement.is_complete() || start.is_restart {
                tracing::debug!(%confinement, "the source process is confined");
            } else {
                tracing::warn!(
                    %confinement,
                    "the source process is not confined in full; `foveate doctor` says what to do"
                );
            }
            run(&Arc::new(socket), start);
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "a source process cannot start: only the daemon starts them");
            ExitCode::FAILURE
        }
    }
}

/// Starts GStreamer on a thread that then ends. It may have to look for its plugins first, which takes a slow machine a minute: meanwhile
/// the daemon hears that the process is alive.
fn start_gstreamer(socket: &OwnedFd) -> std::io::Result<()> {
    let (starting, started) = bounded::<()>(0);
    let run = move || {
        // The source reports a failure.
        let _ = hints::initialised();
        drop(starting);
    };
    let thread = thread::Builder::new().name("GStreamer".to_owned()).spawn(run)?;
    let mut message = Vec::new();
    FromSource::Counts(FrameCounts::default()).encode(&mut message);
    while started.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
        send(socket, &message, None, SendFlags::empty())?;
    }
    thread.join().map_err(|_| std::io::Error::other("GStreamer panicked"))
}

fn received_start(socket: &OwnedFd) -> std::io::Result<Start> {
    let mut bytes = vec![0; TO_SOURCE_BYTES_MAX];
    let (len, _) = receive(socket, &mut bytes, RecvFlags::empty())?;
    match ToSource::decode(&bytes[..len.min(bytes.len())]) {
        Ok(ToSource::Start(start)) => Ok(*start),
        Ok(other) => Err(std::io::Error::other(format!("{other:?} came first"))),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

/// Limits of what a decoder may take.
fn limit_resources(start: &Start) -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    lower(Resource::Core, 0)?;
    lower(Resource::Data, start.data_bytes_max)?;
    lower(Resource::Nofile, DESCRIPTORS_MAX)?;
    let nice = getpriority_process(None)?.max(start.spec.limits.nice.cast_signed());
    setpriority_process(None, nice)?;
    // Where the machine runs out of memory, sources go before the daemon. Some containers forbid it.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    Ok(())
}

/// Lowers both limits; one that is lower stays.
fn lower(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let present = rustix::process::getrlimit(resource);
    let limit = |present: Option<u64>| Some(present.map_or(most, |present| present.min(most)));
    let (current, maximum) = (limit(present.current), limit(present.maximum));
    setrlimit(resource, Rlimit { current, maximum })
}

/// What the main thread and the one that reads the daemon's messages share.
struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

struct InboxState {
    /// Numbers of the buffers that may be written. The last one is taken first, whose memory is in the cache.
    free: Vec<u8>,
    has_hung_up: bool,
}

impl Inbox {
    /// A buffer to write to; `None` if there is none within `timeout`.
    fn take(&self, timeout: Duration) -> Option<u8> {
        let mut state = self.state.lock();
        if state.free.is_empty() && !state.has_hung_up {
            self.changed.wait_for(&mut state, timeout);
        }
        state.free.pop()
    }

    fn give_back(&self, buffer: u8) {
        self.state.lock().free.push(buffer);
        self.changed.notify_one();
    }

    fn hang_up(&self) {
        self.state.lock().has_hung_up = true;
        self.changed.notify_one();
    }

    fn has_hung_up(&self) -> bool {
        self.state.lock().has_hung_up
    }

    /// Does what the daemon says until it hangs up.
    fn read(&self, socket: &OwnedFd, masks: &Masks) {
        let mut bytes = vec![0; TO_SOURCE_BYTES_MAX];
        while let Ok((len @ 1.., _)) = receive(socket, &mut bytes, RecvFlags::empty()) {
            match ToSource::decode(&bytes[..len.min(bytes.len())]) {
                Ok(ToSource::Free(buffer)) => self.give_back(buffer),
                Ok(ToSource::Masks(revision, new)) => masks.follow(revision, new),
                Ok(ToSource::Start(_)) | Err(_) => break,
            }
        }
        self.hang_up();
        thread::sleep(LEAVE_WITHIN);
        // The main thread is held by something that does not return.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

fn run(socket: &Arc<OwnedFd>, start: Start) {
    let Start { spec, mask_revision, is_restart, has_delivered, buffers_max, .. } = start;
    let spec = SourceSpec { isolation: Isolation::None, ..spec };
    let masks = Arc::new(Masks::default());
    masks.follow(mask_revision, spec.masks.clone());
    let counters = Arc::<StreamCounters>::default();
    if is_restart {
        // The source logs less then.
        counters.restarts.add(LossReason::Failed);
    }
    let state = InboxState { free: (0..buffers_max).rev().collect(), has_hung_up: false };
    let inbox = Arc::new(Inbox { state: Mutex::new(state), changed: Condvar::new() });
    let (reading, own_masks, own_socket) =
        (Arc::clone(&inbox), Arc::clone(&masks), Arc::clone(socket));
    let reader = thread::Builder::new().name("daemon".to_owned());
    let mut outlet = Outlet {
        socket: Arc::clone(socket),
        buffers: (0..buffers_max).map(|_| None).collect(),
        reported: [0; 8],
        counters: Arc::clone(&counters),
        message: Vec::new(),
    };
    let started = reader
        .spawn(move || reading.read(&own_socket, &own_masks))
        .map_err(|error| CaptureError::Failed {
            element: "thread".to_owned(),
            reason: error.to_string(),
        })
        .and_then(|_| Source::start_behind(&masks, &spec, &counters));
    let mut evidence = Evidence { is_live: false, has_delivered };
    // Dropped last: a pipeline may take its time to stop.
    let mut source = started;
    let end = match &mut source {
        Ok(source) => outlet.hand_over(source, &inbox, &mut evidence),
        Err(error) => Some(End::Failed(error.clone())),
    };
    let last = match end {
        None => return,
        Some(End::Eos) => FromSource::Ended,
        Some(End::Failed(error)) => FromSource::Failed(failure(&error, &spec, evidence)),
    };
    // Fails if the daemon has hung up, and wants to know nothing more.
    let _ = outlet.send(&last, None);
}

/// The report of an error.
fn failure(error: &CaptureError, spec: &SourceSpec, evidence: Evidence) -> Failure {
    Failure {
        text: redacted(&error.to_string()),
        reason: error.loss_reason(),
        is_transient: error.is_transient(spec, evidence),
        is_configuration: error.exit_code() == exit::CONFIG,
        is_every_frame_live: *error == CaptureError::EveryFrameLive,
    }
}

/// The sending side of the socket, and the buffers.
struct Outlet {
    socket: Arc<OwnedFd>,
    buffers: Vec<Option<WritableMemory>>,
    counters: Arc<StreamCounters>,
    /// The part of the counters that was reported.
    reported: [u64; 8],
    message: Vec<u8>,
}

impl Outlet {
    /// Hands frames over until the source ends, or the daemon hangs up, which is `None`.
    fn hand_over(
        &mut self,
        source: &mut Source,
        inbox: &Inbox,
        evidence: &mut Evidence,
    ) -> Option<End> {
        while !inbox.has_hung_up() {
            // Before the frame: the newest one is taken as late as possible.
            let Some(buffer) = inbox.take(HEARTBEAT) else {
                self.report_counts();
                continue;
            };
            match source.take(HEARTBEAT) {
                TakeResult::Frame(frame) => {
                    evidence.has_delivered = true;
                    evidence.is_live = source.is_live();
                    if let Err(error) = self.send_frame(buffer, &frame, source) {
                        return Some(End::Failed(no_buffer(error)));
                    }
                }
                TakeResult::TimedOut => {
                    inbox.give_back(buffer);
                    evidence.is_live |= source.is_live();
                    self.report_counts();
                }
                TakeResult::Ended(end) => {
                    evidence.is_live |= source.is_live();
                    self.report_counts();
                    return Some(end);
                }
            }
        }
        None
    }

    fn send_frame(
        &mut self,
        buffer: u8,
        frame: &CapturedFrame,
        source: &Source,
    ) -> rustix::io::Result<()> {
        let given = frame.layout();
        let (packed, bytes) = FrameLayout::packed(given.samples, given.extent, given.pixel_aspect);
        let layout = FrameLayout { gray_range: given.gray_range, ..packed };
        let place = usize::from(buffer);
        if self.buffers[place].as_ref().is_none_or(|memory| memory.len() != bytes) {
            self.buffers[place] = None;
            let (memory, file) = WritableMemory::new(bytes)?;
            self.send(&FromSource::Buffer(buffer), Some(&file))?;
            self.buffers[place] = Some(memory);
        }
        let Some(memory) = &mut self.buffers[place] else { unreachable!("just made") };
        layout.copy_from(memory.bytes_mut(), given, frame.bytes());
        let stamp = frame.stamp();
        let ready = FrameReady {
            buffer,
            layout,
            stamp: SourceStamp {
                number: stamp.frame_seq,
                pts_ns: stamp.pts_ns,
                capture_ns: stamp.capture_ns,
                capture_unix_ns: stamp.capture_unix_ns,
                capture_clock: stamp.capture_clock,
                arrival_ns: stamp.arrival_ns,
            },
            mask_revision: frame.mask_revision(),
            is_live: source.is_live(),
            is_exact: source.is_exact(),
            counts: self.unreported(),
        };
        self.send(&FromSource::Frame(ready), None)
    }

    fn report_counts(&mut self) {
        let counts = self.unreported();
        // Also if nothing was counted: it says that the process is alive.
        let _ = self.send(&FromSource::Counts(counts), None);
    }

    /// What was counted since the last message.
    fn unreported(&mut self) -> FrameCounts {
        let counters = counters(&self.counters);
        let mut counts = [0; 8];
        for ((count, reported), counter) in counts.iter_mut().zip(&mut self.reported).zip(counters)
        {
            // The rest follows with the next message.
            *count = u32::try_from(counter.get() - *reported).unwrap_or(u32::MAX).min(COUNT_MAX);
            *reported += u64::from(*count);
        }
        FrameCounts::of(counts)
    }

    fn send(&mut self, message: &FromSource, file: Option<&OwnedFd>) -> rustix::io::Result<()> {
        message.encode(&mut self.message);
        send(&self.socket, &self.message, file.map(AsFd::as_fd), SendFlags::empty())
    }
}

/// The error of a buffer that cannot be had or sent.
fn no_buffer(error: rustix::io::Errno) -> CaptureError {
    CaptureError::Failed { element: "source process".to_owned(), reason: error.to_string() }
}
