//! Threads that help the frame loops: one crew for the process.
//!
//! A frame loop splits a stage into parts and works on them itself; helpers that have nothing else to do take parts
//! too. It never waits for a helper to begin: once no part is left, helpers that come late find nothing to do, and only
//! those in the middle of a part are waited for. A frame loop works on its own parts only. Nothing is allocated.
//!
//! Helpers are kept off the processor of the thread that they help. The kernel puts a thread that wakes next to the one
//! that woke it when all others look busy, and takes a tick or two to part them; meanwhile each waits for the other.

#![allow(unsafe_code, reason = "helpers borrow from the stack of the thread that they help")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Most threads of a crew, the one that is helped included: more than these only wait for memory.
const MOST_THREADS: usize = 4;

/// How long a helper looks for the next stage of a frame before it sleeps. Waking it takes as long as this.
const ATTENTION: Duration = Duration::from_micros(50);

/// How long helpers follow one thread before they follow another. The kernel takes about as long to part two threads.
const STEADY: Duration = Duration::from_millis(10);

/// Stages that can be posted at the same time without allocating; one for each stream.
const JOBS_EXPECTED: usize = 64;

/// Helpers, and where they look for work.
#[derive(Debug)]
pub struct Crew {
    board: Arc<Board>,
    helper_count: usize,
}

#[derive(Debug)]
struct Board {
    open: Mutex<Open>,
    /// Something was posted, or the crew is dismissed.
    posted: Condvar,
    /// A helper left a job.
    left: Condvar,
    /// Grows with each job, so that helpers see one without the lock.
    job_count: AtomicU64,
    places: Places,
}

/// Where helpers run.
#[derive(Debug)]
struct Places {
    /// What the process's first thread may use.
    allowed: CpuSet,
    /// Held for a few system calls at most.
    steered: Mutex<Steered>,
}

#[derive(Debug)]
struct Steered {
    helpers: Vec<Pid>,
    /// Who is helped.
    asker: Option<ThreadId>,
    /// The processor that they are kept off.
    avoided: Option<usize>,
    /// When that began.
    since: Instant,
}

#[derive(Debug)]
struct Open {
    /// Jobs that may have parts left, the oldest first.
    jobs: Vec<JobPointer>,
    sleeping: usize,
    dismissed: bool,
}

/// A job on the stack of the thread that posted it, which takes it off the board before it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobPointer(NonNull<Job<'static>>);

// SAFETY: a job is shared between threads only through `&Job`, and all of it may be.
unsafe impl Send for JobPointer {}

/// One stage of one frame.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    part_count: usize,
    /// The next part that nobody has taken.
    next_part: AtomicUsize,
    /// Helpers that work on it. Changes only under the lock of the board.
    helpers: AtomicUsize,
    has_panicked: AtomicBool,
}

impl Crew {
    /// A crew of so many threads, the one that is helped included; without a number as many as the process has processors, up to
    /// four.
    pub fn of_threads(threads: Option<usize>) -> Self {
        let processors =
            || thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Self::new(threads.unwrap_or_else(processors).saturating_sub(1))
    }

    /// A crew of as many helpers, or fewer if the system has no more threads.
    pub fn new(helper_count: usize) -> Self {
        let open = Open { jobs: Vec::with_capacity(JOBS_EXPECTED), sleeping: 0, dismissed: false };
        let board = Arc::new(Board {
            open: Mutex::new(open),
            posted: Condvar::new(),
            left: Condvar::new(),
            job_count: AtomicU64::new(0),
            places: Places::new(helper_count),
        });
        let hire = |index| {
            let board = Arc::clone(&board);
            let help = move || board.help();
            thread::Builder::new().name(format!("crew-{index}")).spawn(help)
        };
        let hired = (0..helper_count).map(hire).take_while(Result::is_ok).count();
        if hired < helper_count {
            tracing::warn!(hired, helper_count, "no more threads: frames take longer");
        }
        Self { board, helper_count: hired }
    }

    /// Threads that work on a stage at the same time, the one that is helped included.
    pub fn thread_count(&self) -> usize {
        self.helper_count + 1
    }

    /// Calls `work` once for each of `0..part_count`, on this thread and on helpers that are free, in any order, and
    /// returns when all calls have.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub fn share_out(&self, part_count: usize, work: &(dyn Fn(usize) + Sync)) {
        if part_count <= 1 || self.helper_count == 0 {
            (0..part_count).for_each(work);
            return;
        }
        let job = Job {
            work,
            part_count,
            next_part: AtomicUsize::new(0),
            helpers: AtomicUsize::new(0),
            has_panicked: AtomicBool::new(false),
        };
        self.board.places.avoid(sched_getcpu());
        let posted = Posted::new(&self.board, &job);
        job.take_parts();
        drop(posted);
        assert!(!job.has_panicked.load(Ordering::Relaxed), "a helper panicked");
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.board.open.lock().dismissed = true;
        self.board.job_count.fetch_add(1, Ordering::Release);
        self.board.posted.notify_all();
    }
}

/// A job that helpers can find. Once this is dropped, none of them knows it any more.
struct Posted<'a> {
    board: &'a Board,
    job: &'a Job<'a>,
}

impl<'a> Posted<'a> {
    fn new(board: &'a Board, job: &'a Job<'a>) -> Self {
        let mut open = board.open.lock();
        open.jobs.push(job.pointer());
        board.job_count.fetch_add(1, Ordering::Release);
        let sleeping = open.sleeping;
        drop(open);
        if 0 < sleeping {
            board.posted.notify_all();
        }
        Self { board, job }
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let pointer = self.job.pointer();
        let mut open = self.board.open.lock();
        open.jobs.retain(|job| *job != pointer);
        while self.job.helpers.load(Ordering::Relaxed) != 0 {
            self.board.left.wait(&mut open);
        }
    }
}

impl Job<'_> {
    fn pointer(&self) -> JobPointer {
        JobPointer(NonNull::from(self).cast())
    }

    /// Works until every part is taken.
    fn take_parts(&self) {
        loop {
            let part = self.next_part.fetch_add(1, Ordering::Relaxed);
            if self.part_count <= part {
                return;
            }
            (self.work)(part);
        }
    }

    fn has_parts(&self) -> bool {
        self.next_part.load(Ordering::Relaxed) < self.part_count
    }
}

impl Board {
    /// The life of a helper.
    fn help(&self) {
        self.places.enter();
        let mut seen = 0;
        while let Some(job) = self.next_job(&mut seen) {
            // SAFETY: `next_job` counted this helper in, and whoever posted the job waits until `leave` counts it out.
            let job = unsafe { job.0.as_ref() };
            if catch_unwind(AssertUnwindSafe(|| job.take_parts())).is_err() {
                job.has_panicked.store(true, Ordering::Relaxed);
            }
            self.leave(job);
        }
    }

    /// A job with parts left, which now has one more helper; `None` once the crew is dismissed. `seen` is the number of
    /// jobs that the helper knows of.
    fn next_job(&self, seen: &mut u64) -> Option<JobPointer> {
        loop {
            self.watch(*seen);
            let mut open = self.open.lock();
            while !open.dismissed && *seen == self.job_count.load(Ordering::Acquire) {
                open.sleeping += 1;
                self.posted.wait(&mut open);
                open.sleeping -= 1;
            }
            if open.dismissed {
                return None;
            }
            // SAFETY: a job on the board is alive: it is taken off, under this lock, before it goes.
            let job = |pointer: &JobPointer| unsafe { pointer.0.as_ref() };
            if let Some(found) = open.jobs.iter().find(|pointer| job(pointer).has_parts()) {
                job(found).helpers.fetch_add(1, Ordering::Relaxed);
                return Some(*found);
            }
            *seen = self.job_count.load(Ordering::Acquire);
        }
    }

    /// Looks out for a new job for a while.
    fn watch(&self, seen: u64) {
        let started = Instant::now();
        while seen == self.job_count.load(Ordering::Acquire) && started.elapsed() < ATTENTION {
            std::hint::spin_loop();
        }
    }

    fn leave(&self, job: &Job<'_>) {
        let _open = self.open.lock();
        // After this the job may be gone, so waking its poster needs the board alone.
        job.helpers.fetch_sub(1, Ordering::Relaxed);
        self.left.notify_all();
    }
}

impl Places {
    fn new(helper_count: usize) -> Self {
        Self {
            allowed: sched_getaffinity(Some(getpid())).unwrap_or_default(),
            steered: Mutex::new(Steered {
                helpers: Vec::with_capacity(helper_count),
                asker: None,
                avoided: None,
                since: Instant::now(),
            }),
        }
    }

    /// Takes in the calling thread as a helper.
    fn enter(&self) {
        let mut steered = self.steered.lock();
        steered.helpers.push(gettid());
        if let Some(processor) = steered.avoided {
            self.keep_off(gettid(), processor);
        }
    }

    /// Keeps the helpers off a processor from now on. That costs a few system calls when the thread that is helped has
    /// moved. Threads that are helped by turns do not drive the helpers to and fro: each has its way for a while.
    fn avoid(&self, processor: usize) {
        // Whoever else is at it is as good.
        let Some(mut steered) = self.steered.try_lock() else { return };
        if steered.avoided == Some(processor) {
            return;
        }
        let asker = thread::current().id();
        if steered.asker.is_some_and(|other| other != asker) && steered.since.elapsed() < STEADY {
            return;
        }
        (steered.asker, steered.avoided) = (Some(asker), Some(processor));
        steered.since = Instant::now();
        for helper in &steered.helpers {
            self.keep_off(*helper, processor);
        }
    }

    /// Where the kernel refuses, as there is no other processor, the helper runs wherever it wants.
    fn keep_off(&self, helper: Pid, processor: usize) {
        let mut others = self.allowed;
        others.unset(processor);
        let _ = sched_setaffinity(Some(helper), &others);
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("part_count", &self.part_count).finish_non_exhaustive()
    }
}
