//! The other end of a source process: runs the pipeline, and hands its frames over.
//!
//! The pipeline is that of [`Source`], in this process, whose frames go to a [`Handover`] instead of its mailbox.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use foveate_socket::{receive, send};
use foveate_source::Masks;
use foveate_source::handover::Handover;
use foveate_source::pool::Pool;
use foveate_source::wire::{
    Failure, FrameCounts, FromSource, Start, TO_SOURCE_BYTES_MAX, ToSource,
};
use foveate_stats::{LossReason, StreamCounters};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getpriority_process, kill_process, setpriority_process,
    setrlimit,
};

use super::confinement::{Confinement, confine};
use super::{HEARTBEAT, registry};
use crate::hints;
use crate::mailbox::{Mailbox, MailboxProducer};
use crate::outlet::Outlet;
use crate::source::Task;
use crate::transient::Evidence;
use crate::{CaptureError, CapturedFrame, End, Source, SourceSpec, TakeResult};
use foveate_core::error::exit;
use foveate_core::source::Isolation;
use foveate_log::redact::redacted;

/// Most descriptors of a source process.
const DESCRIPTORS_MAX: u64 = 1024;

/// Out-of-memory score of a source process: half of the scale, far above a daemon's.
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
            if confinement.is_complete() || start.is_restart || start.only_checks {
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
        // It stops while the process starts.
        Err(error) if has_hung_up(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "a source process cannot start: only the daemon starts them");
            ExitCode::FAILURE
        }
    }
}

/// Whether the daemon has closed its end.
fn has_hung_up(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Starts GStreamer on a thread that then ends. It may have to look for its plugins first, which takes a slow machine a minute: meanwhile
/// the daemon hears that the process is alive.
fn start_gstreamer(socket: &OwnedFd) -> std::io::Result<()> {
    let (starting, started) = bounded::<()>(0);
    let run = move || {
        let _lock = registry::lock();
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
    if len == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
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

/// Does what the daemon says until it hangs up; then `source` has ended.
fn read(
    socket: &OwnedFd,
    masks: &Masks,
    handover: &Handover<CapturedFrame>,
    source: &Mailbox<CapturedFrame>,
) {
    let mut bytes = vec![0; TO_SOURCE_BYTES_MAX];
    while let Ok((len @ 1.., _)) = receive(socket, &mut bytes, RecvFlags::empty()) {
        match ToSource::decode(&bytes[..len.min(bytes.len())]) {
            Ok(ToSource::Free(buffer)) => handover.free(buffer),
            Ok(ToSource::Masks(revision, new)) => masks.follow(revision, new),
            Ok(ToSource::Start(_)) | Err(_) => break,
        }
    }
    handover.hang_up();
    source.end(End::Failed(CaptureError::Closed));
    thread::sleep(LEAVE_WITHIN);
    // The main thread is held by something that does not return.
    let _ = kill_process(getpid(), Signal::KILL);
}

fn run(socket: &Arc<OwnedFd>, start: Start) {
    let Start { spec, mask_revision, is_restart, has_delivered, pool, frames_max, .. } = start;
    let task = if start.only_checks { Task::Check } else { Task::Play };
    let spec = SourceSpec { isolation: Isolation::None, ..spec };
    let masks = Arc::new(Masks::default());
    masks.follow(mask_revision, spec.masks.clone());
    let counters = Arc::<StreamCounters>::default();
    if is_restart {
        // The source logs less then.
        counters.restarts.add(LossReason::Failed);
    }
    let pool = Pool::new(Arc::clone(socket), pool, frames_max);
    let handover = Arc::new(Handover::new(
        Arc::clone(socket),
        pool,
        frames_max,
        spec.pace,
        Arc::clone(&counters),
    ));
    let mut evidence = Evidence { is_live: false, has_delivered };
    // Dropped last: a pipeline may take its time to stop.
    let mut source = started(socket, task, &masks, &spec, &counters, &handover);
    let end = match &mut source {
        Ok(source) => await_end(source, &handover, &mut evidence),
        Err(error) => Some(End::Failed(error.clone())),
    };
    let last = match end {
        None => return,
        Some(End::Eos) => FromSource::Ended,
        Some(End::Failed(error)) => FromSource::Failed(failure(&error, &spec, evidence)),
    };
    handover.finish(&last);
}

/// Starts the source, and the thread that reads what the daemon says.
fn started(
    socket: &Arc<OwnedFd>,
    task: Task,
    masks: &Arc<Masks>,
    spec: &SourceSpec,
    counters: &Arc<StreamCounters>,
    handover: &Arc<Handover<CapturedFrame>>,
) -> Result<Source, CaptureError> {
    let mut own_mailbox = None;
    let outlet = |producer: MailboxProducer<CapturedFrame>| {
        own_mailbox = Some(producer.mailbox());
        Outlet::Daemon(Arc::clone(handover))
    };
    let source = Source::start_into(outlet, task, masks, spec, counters)?;
    let mailbox = own_mailbox.expect("its pipeline is in this process");
    let (socket, masks, handover) = (Arc::clone(socket), Arc::clone(masks), Arc::clone(handover));
    let reader = thread::Builder::new().name("daemon".to_owned());
    let reading = reader.spawn(move || read(&socket, &masks, &handover, &mailbox));
    reading.map_err(|error| CaptureError::Failed {
        element: "thread".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(source)
}

/// Waits until the source ends, or the daemon hangs up, which is `None`. Frames go to the daemon meanwhile.
fn await_end(
    source: &mut Source,
    handover: &Handover<CapturedFrame>,
    evidence: &mut Evidence,
) -> Option<End> {
    loop {
        let taken = source.next_frame(HEARTBEAT);
        evidence.is_live |= source.is_live();
        evidence.has_delivered |= handover.has_sent();
        if handover.has_hung_up() {
            return None;
        }
        if let Some(errno) = handover.failure() {
            return Some(End::Failed(not_sent(errno)));
        }
        match taken {
            TakeResult::Ended(end) => return Some(end),
            TakeResult::TimedOut => handover.report_counts(),
            TakeResult::Frame(_) => unreachable!("frames do not go to the mailbox"),
        }
    }
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

/// The error of a frame that cannot be sent.
fn not_sent(error: rustix::io::Errno) -> CaptureError {
    CaptureError::Failed { element: "source process".to_owned(), reason: error.to_string() }
}
