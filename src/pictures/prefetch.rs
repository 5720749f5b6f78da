//! Decodes files on threads of their own before they are asked for.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::decode::{DecodeError, DecodeOptions, DecodedPicture, EncodedPicture};

/// Most bytes of the pictures that are being decoded or wait to be taken. A picture that needs more is decoded alone.
const BYTES_MAX: u64 = 512 << 20;

/// Most files that threads decode ahead of the file that is taken next.
const FILES_MAX: usize = 64;

/// Interval at which a waiting reader checks whether to stop waiting.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Error of a file whose decoder panicked.
const PANICKED: &str =
    "cannot be decoded: its decoder panicked, a bug: save the picture in another format";

/// Decodes files on threads of its own before they are taken, within [`BYTES_MAX`]. Dropping it ends the threads after the files that they
/// are decoding.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    shared: Arc<DecodeQueue>,
    thread_count: usize,
}

#[derive(Debug)]
struct DecodeQueue {
    paths: Vec<PathBuf>,
    options: DecodeOptions,
    queue: Mutex<QueueState>,
    changed: Condvar,
}

/// Progress of the threads. Files are begun, admitted and taken in their order, so that the file that the reader waits for never waits for
/// bytes that later files hold.
#[derive(Debug, Default)]
struct QueueState {
    /// Files whose headers threads have begun to read.
    started: usize,
    /// Files that may be decoded, or cannot be.
    admitted: usize,
    /// Files that the reader took.
    taken: usize,
    /// Bytes of the admitted files that the reader has not taken.
    bytes: u64,
    opened: BTreeMap<usize, Result<DecodedPicture, DecodeError>>,
    is_closed: bool,
}

impl Prefetcher {
    /// Decodes `paths` on `threads` threads.
    pub(crate) fn new(paths: Vec<PathBuf>, threads: usize, options: DecodeOptions) -> Self {
        let thread_count = threads.clamp(1, paths.len().max(1));
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(DecodeQueue { paths, options, queue, changed });
        let start = |index: &usize| {
            let (shared, name) = (Arc::clone(&shared), format!("decode-{index}"));
            thread::Builder::new().name(name).spawn(move || shared.decode_all()).is_ok()
        };
        // With fewer threads it takes longer; without any, `next` decodes.
        let thread_count = (0..thread_count).take_while(start).count();
        Self { shared, thread_count }
    }

    /// Files in all.
    pub(crate) fn len(&self) -> usize {
        self.shared.paths.len()
    }

    /// The next file, in order; `None` at the end, and if `goes_on` says no while it is waited for.
    pub(crate) fn next(
        &self,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<(PathBuf, Result<DecodedPicture, DecodeError>)> {
        let mut queue = self.shared.queue.lock();
        let number = queue.taken;
        let path = self.shared.paths.get(number)?.clone();
        let opened = loop {
            if self.thread_count == 0 {
                break self.shared.decoded(number, &mut |_| true)?;
            }
            if let Some(opened) = queue.opened.remove(&number) {
                break opened;
            }
            if self.shared.changed.wait_for(&mut queue, CHECK_INTERVAL).timed_out() && !goes_on() {
                return None;
            }
        };
        queue.taken += 1;
        queue.bytes = queue.bytes.saturating_sub(bytes_of(&opened));
        self.shared.changed.notify_all();
        Some((path, opened))
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl DecodeQueue {
    /// Decodes files until the list ends.
    fn decode_all(&self) {
        while let Some(number) = self.begin() {
            let mut needed = 0;
            let mut admit = |bytes| {
                needed = bytes;
                self.admit(number, bytes)
            };
            let Some(opened) = self.decoded(number, &mut admit) else { return };
            let mut queue = self.queue.lock();
            queue.bytes = queue.bytes - needed + bytes_of(&opened);
            queue.opened.insert(number, opened);
            self.changed.notify_all();
        }
    }

    /// The decoded file or its error, once `admit` has agreed to the bytes that it needs; `None` if `admit` refuses.
    fn decoded(
        &self,
        number: usize,
        admit: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Result<DecodedPicture, DecodeError>> {
        let mut is_admitted = false;
        // A decoder that panics must not end the thread: the file would be waited for without end.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let encoded = match EncodedPicture::open(&self.paths[number], self.options) {
                Ok(encoded) => encoded,
                Err(error) => return Some(Err(error)),
            };
            is_admitted = true;
            admit(encoded.working_bytes).then(|| encoded.decode())
        }));
        let opened =
            opened.unwrap_or_else(|_| Some(Err(DecodeError::Refused(PANICKED.to_owned()))))?;
        (is_admitted || admit(0)).then_some(opened)
    }

    /// The next file to decode, once it is not too far ahead.
    fn begin(&self) -> Option<usize> {
        let mut queue = self.queue.lock();
        let is_far =
            |queue: &mut QueueState| !queue.is_closed && queue.taken + FILES_MAX <= queue.started;
        self.changed.wait_while(&mut queue, is_far);
        if queue.is_closed || self.paths.len() <= queue.started {
            return None;
        }
        queue.started += 1;
        Some(queue.started - 1)
    }

    /// Waits until a file that needs `bytes` bytes may be decoded; false if it need not be any more.
    fn admit(&self, number: usize, bytes: u64) -> bool {
        let mut queue = self.queue.lock();
        let must_wait = |queue: &mut QueueState| {
            let has_room = queue.bytes == 0 || queue.bytes + bytes <= BYTES_MAX;
            let is_admitted = queue.admitted == number && has_room;
            !queue.is_closed && !is_admitted
        };
        self.changed.wait_while(&mut queue, must_wait);
        queue.admitted += 1;
        queue.bytes += bytes;
        self.changed.notify_all();
        !queue.is_closed
    }
}

fn bytes_of(opened: &Result<DecodedPicture, DecodeError>) -> u64 {
    opened.as_ref().map_or(0, |picture| picture.rgb.len() as u64)
}
