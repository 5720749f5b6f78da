//! Threads that help the frame loops: one pool for the process.
//!
//! A frame loop splits a stage into parts and works on them itself; idle helpers take parts too. It never waits for a
//! helper to begin: once no part is left, late helpers find nothing to do, and the frame loop waits only for those in
//! the middle of a part. A frame loop works on its own parts only. Nothing is allocated.
//!
//! Helpers are kept off the processor of the thread that they help. When all processors look busy, the kernel places a
//! waking thread on the processor of the thread that woke it, and takes a tick or two to separate them; meanwhile each
//! waits for the other.

#![allow(unsafe_code, reason = "helpers borrow from the stack of the thread that they help")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foveate_core::geometry::extent::Extent;
use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use self::board::Board;
use crate::simd::Instructions;

mod board;

/// Most threads that work on a stage, the frame loop included: more would only wait for memory.
const THREADS_MAX: usize = 4;

/// Most pixels of a frame that one thread alone works on: 1280 x 720.
const SMALL_AREA: usize = 1280 * 720;

/// How long helpers follow one thread before they follow another. The kernel takes about as long to separate two
/// threads.
const STEADY: Duration = Duration::from_millis(10);

/// Stages that can be posted at the same time. A stream that finds no free slot works alone.
const SLOTS: usize = 16;

/// The helper threads, and the board where they find work.
#[derive(Debug)]
pub struct Pool {
    board: Arc<Board>,
    /// `None` under Miri, which has no processors to choose from.
    affinity: Option<Arc<Affinity>>,
    instructions: Instructions,
    helpers: Vec<JoinHandle<()>>,
}

/// The processors that helpers may run on.
#[derive(Debug)]
struct Affinity {
    /// The affinity mask of the process's first thread.
    allowed: CpuSet,
    /// Thread ids of the helpers; 0 before one has begun.
    helpers: Box<[AtomicI32]>,
    /// The [`HelpedThread`], packed.
    helped: AtomicU64,
    /// Start of the times in `helped`.
    origin: Instant,
}

/// The thread that the helpers work for.
#[derive(Clone, Copy, Debug)]
struct HelpedThread {
    /// The thread, as the system numbers it.
    thread: u32,
    /// The processor of the helped thread, which helpers are kept off.
    avoided: u16,
    /// Time of the last change, in ms since `Affinity::origin`; wraps around after a minute.
    since_ms: u16,
}

impl Pool {
    /// A pool of `threads` threads, the frame loop included; `None` means one per processor, up to 4.
    pub fn of_threads(threads: Option<usize>) -> Self {
        let processors = || thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        Self::new(threads.unwrap_or_else(processors).saturating_sub(1))
    }

    /// A pool of `helper_count` helpers, or fewer if the system refuses to start more threads.
    pub fn new(helper_count: usize) -> Self {
        let affinity = (!cfg!(miri)).then(|| Arc::new(Affinity::new(helper_count)));
        let board = Arc::new(Board::new(SLOTS));
        let start = |index| {
            let (board, affinity) = (Arc::clone(&board), affinity.clone());
            thread::Builder::new().name(format!("pool-{index}")).spawn(move || {
                if let Some(affinity) = affinity {
                    affinity.enter(index);
                }
                board.help();
            })
        };
        let helpers: Vec<_> = (0..helper_count).map(start).map_while(Result::ok).collect();
        if helpers.len() < helper_count {
            let started = helpers.len();
            tracing::warn!(
                started,
                helper_count,
                "cannot start a thread; frames take longer: raise the limit of threads, or lower `threads`"
            );
        }
        Self { board, affinity, helpers, instructions: Instructions::best() }
    }

    /// Limits the vector instructions of the work to `instructions`.
    #[must_use]
    pub fn limited_to(mut self, instructions: Instructions) -> Self {
        self.instructions = instructions;
        self
    }

    /// The vector instructions that its work uses: the best ones, unless it was limited.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// The pool for frames of this extent: of small ones, one without helpers. Waking them costs more processor time than they
    /// save, and their frames take a fraction of a millisecond.
    pub fn for_frames(self: &Arc<Self>, extent: Extent) -> Arc<Self> {
        if self.helpers.is_empty() || SMALL_AREA < extent.area() {
            Arc::clone(self)
        } else {
            Arc::new(Self::new(0).limited_to(self.instructions))
        }
    }

    /// Threads that work on a stage at the same time, the frame loop included.
    pub fn thread_count(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `work` once for each of `0..part_count`, on this thread and on idle helpers, in any order, and returns
    /// when all calls have.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub fn run(&self, part_count: usize, work: &(dyn Fn(usize) + Sync)) {
        if part_count <= 1 || self.helpers.is_empty() {
            (0..part_count).for_each(work);
            return;
        }
        if let Some(affinity) = &self.affinity {
            affinity.avoid(sched_getcpu());
        }
        self.board.run(part_count, work);
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
        self.board.dismiss();
        for helper in self.helpers.drain(..) {
            if helper.join().is_err() {
                tracing::error!("a helper panicked outside of its work");
            }
        }
    }
}

impl Affinity {
    fn new(helper_count: usize) -> Self {
        Self {
            allowed: sched_getaffinity(Some(getpid())).unwrap_or_default(),
            helpers: (0..helper_count).map(|_| AtomicI32::new(0)).collect(),
            helped: AtomicU64::new(HelpedThread::NOBODY),
            origin: Instant::now(),
        }
    }

    /// Registers the calling thread as the helper of this number.
    fn enter(&self, index: usize) {
        // SYNC(helped): either this thread sees the store of a frame loop, or the frame loop sees this one.
        self.helpers[index].store(gettid().as_raw_nonzero().get(), Ordering::SeqCst);
        let helped = self.helped.load(Ordering::SeqCst);
        if helped != HelpedThread::NOBODY {
            self.keep_off(gettid(), HelpedThread::unpacked(helped).avoided);
        }
    }

    /// Keeps the helpers off a processor from now on. That costs a few system calls when the helped thread has moved.
    /// Threads that are helped in turn do not push the helpers back and forth: each decides for at least [`STEADY`].
    fn avoid(&self, processor: usize) {
        let packed = self.helped.load(Ordering::Relaxed);
        let helped = HelpedThread::unpacked(packed);
        // `CpuSet` cannot name the processors of a larger machine, so no processor is avoided there.
        let Some(avoided) = u16::try_from(processor).ok().filter(|_| processor < CpuSet::MAX_CPU)
        else {
            return;
        };
        if packed != HelpedThread::NOBODY && helped.avoided == avoided {
            return;
        }
        let thread = gettid().as_raw_nonzero().get().unsigned_abs();
        #[expect(clippy::cast_possible_truncation, reason = "it wraps around")]
        let now_ms = self.origin.elapsed().as_millis() as u16;
        let elapsed = Duration::from_millis(now_ms.wrapping_sub(helped.since_ms).into());
        if packed != HelpedThread::NOBODY && helped.thread != thread && elapsed < STEADY {
            return;
        }
        let next = HelpedThread { thread, avoided, since_ms: now_ms }.packed();
        // SYNC(helped): pairs with `enter`. If this fails, another frame loop has just set it.
        if self.helped.compare_exchange(packed, next, Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return;
        }
        for helper in &self.helpers {
            if let Some(helper) = Pid::from_raw(helper.load(Ordering::SeqCst)) {
                self.keep_off(helper, avoided);
            }
        }
    }

    /// Keeps a helper off a processor. If the kernel refuses, because the helper has no other processor, the helper stays where it is.
    fn keep_off(&self, helper: Pid, processor: u16) {
        let mut others = self.allowed;
        others.unset(processor.into());
        let _ = sched_setaffinity(Some(helper), &others);
    }
}

impl HelpedThread {
    /// Packed value before a thread has been helped. No thread has this number.
    const NOBODY: u64 = u64::MAX;

    fn packed(self) -> u64 {
        u64::from(self.thread) << 32 | u64::from(self.avoided) << 16 | u64::from(self.since_ms)
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the parts out")]
    fn unpacked(packed: u64) -> Self {
        Self {
            thread: (packed >> 32) as u32,
            avoided: (packed >> 16) as u16,
            since_ms: packed as u16,
        }
    }
}

/// The primitives of [`board`]. `tests/pool_loom.rs` replaces them.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use rustix::thread::futex;

    /// How long to spin before going to sleep: about as long as waking a thread takes.
    const SPIN: Duration = Duration::from_micros(50);

    /// Spins until `is_done`, for at most [`SPIN`].
    pub(super) fn spin_until(is_done: &dyn Fn() -> bool) {
        let started = Instant::now();
        while !is_done() && started.elapsed() < SPIN {
            std::hint::spin_loop();
        }
    }

    /// Sleeps while `word` is `seen`; may return early for no reason.
    pub(super) fn wait(word: &AtomicU32, seen: u32) {
        if cfg!(miri) {
            return std::thread::yield_now();
        }
        // Whatever the outcome, the caller checks again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }

    /// Wakes all threads that sleep on `word`.
    pub(super) fn wake(word: &AtomicU32) {
        if cfg!(miri) {
            return;
        }
        // Fails only for invalid addresses.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}
