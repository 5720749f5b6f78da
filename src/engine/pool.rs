//! Threads that help the frame loops: one pool for the process.
//!
//! A frame loop splits a stage into parts and works on them itself; helpers that have nothing else to do take parts
//! too. It never waits for a helper to begin: once no part is left, helpers that come late find nothing to do, and only
//! those in the middle of a part are waited for. A frame loop works on its own parts only. Nothing is allocated.
//!
//! Helpers are kept off the processor of the thread that they help. The kernel puts a thread that wakes next to the one
//! that woke it when all others look busy, and takes a tick or two to part them; meanwhile each waits for the other.

#![allow(unsafe_code, reason = "helpers borrow from the stack of the thread that they help")]

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use self::board::Board;

mod board;

/// Most threads of a pool, the one that is helped included: more than these only wait for memory.
const MOST_THREADS: usize = 4;

/// How long helpers follow one thread before they follow another. The kernel takes about as long to part two threads.
const STEADY: Duration = Duration::from_millis(10);

/// Stages that helpers see at the same time. A stream that finds no place works alone; with more there is no help to spare.
const PLACES: usize = 16;

/// Helpers, and where they look for work.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    board: Board,
    /// `None` under Miri, which knows no processors.
    whereabouts: Option<Whereabouts>,
}

/// Where helpers run.
#[derive(Debug)]
struct Whereabouts {
    /// What the process's first thread may use.
    allowed: CpuSet,
    /// Held for a few system calls at most. Frame loops only try it.
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

impl Pool {
    /// A pool of so many threads, the one that is helped included; without a number as many as the process has processors, up to
    /// four.
    pub fn of_threads(threads: Option<usize>) -> Self {
        let processors =
            || thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Self::new(threads.unwrap_or_else(processors).saturating_sub(1))
    }

    /// A pool of as many helpers, or fewer if the system has no more threads.
    pub fn new(helper_count: usize) -> Self {
        let whereabouts = (!cfg!(miri)).then(|| Whereabouts::new(helper_count));
        let shared = Arc::new(Shared { board: Board::new(PLACES), whereabouts });
        let hire = |index| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("pool-{index}")).spawn(move || shared.help())
        };
        let helpers: Vec<_> = (0..helper_count).map(hire).map_while(Result::ok).collect();
        if helpers.len() < helper_count {
            let hired = helpers.len();
            tracing::warn!(hired, helper_count, "no more threads: frames take longer");
        }
        Self { shared, helpers }
    }

    /// Threads that work on a stage at the same time, the one that is helped included.
    pub fn thread_count(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `work` once for each of `0..part_count`, on this thread and on helpers that are free, in any order, and
    /// returns when all calls have.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub fn run(&self, part_count: usize, work: &(dyn Fn(usize) + Sync)) {
        if part_count <= 1 || self.helpers.is_empty() {
            (0..part_count).for_each(work);
            return;
        }
        if let Some(whereabouts) = &self.shared.whereabouts {
            whereabouts.avoid(sched_getcpu());
        }
        self.shared.board.run(part_count, work);
    }

    /// Calls `work` once for each of `parts`, as [`Self::run`] does.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub fn for_each<T: Send>(&self, parts: &mut [T], work: &(dyn Fn(&mut T) + Sync)) {
        let part_count = parts.len();
        let first = AtomicPtr::new(parts.as_mut_ptr());
        self.run(part_count, &|index| {
            // SAFETY: `index` is below the number of parts.
            let part = unsafe { first.load(Ordering::Relaxed).add(index) };
            // SAFETY: one call alone is given this index, and all have returned when the borrow of the parts ends.
            work(unsafe { &mut *part });
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.board.dismiss();
        for helper in self.helpers.drain(..) {
            if helper.join().is_err() {
                tracing::error!("a helper panicked outside of its work");
            }
        }
    }
}

impl Shared {
    /// The life of a helper.
    fn help(&self) {
        if let Some(whereabouts) = &self.whereabouts {
            whereabouts.enter();
        }
        self.board.help();
    }
}

impl Whereabouts {
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

/// What [`board`] is made of. A test that compiles it puts other things here.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use rustix::thread::futex;

    /// How long to look for something before going to sleep. Waking takes as long as this.
    const ATTENTION: Duration = Duration::from_micros(50);

    /// Looks out for something for a while.
    pub(super) fn watch(has_come: &dyn Fn() -> bool) {
        let started = Instant::now();
        while !has_come() && started.elapsed() < ATTENTION {
            std::hint::spin_loop();
        }
    }

    /// Sleeps while `word` is `seen`, or for no reason less long.
    pub(super) fn wait(word: &AtomicU32, seen: u32) {
        if cfg!(miri) {
            return std::thread::yield_now();
        }
        // Every outcome means the same to the caller: look again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }

    /// Wakes all who sleep on `word`.
    pub(super) fn wake(word: &AtomicU32) {
        if cfg!(miri) {
            return;
        }
        // Waking fails only for addresses that are none.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}
