//! Decoding ahead.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::decode::{DecodeError, Decoded};

/// What came of a file.
pub(crate) type Opened = Result<Decoded, DecodeError>;

/// Decodes files on threads of its own, at most so many ahead of those that were taken. Dropping it ends the threads after the file
/// at hand.
#[derive(Debug)]
pub(crate) struct Ahead {
    paths: Arc<[PathBuf]>,
    /// Numbers of the files to decode; dropped to end the threads.
    wanted: Sender<usize>,
    opened: Receiver<(usize, Opened)>,
    /// Those that came before their turn.
    early: BTreeMap<usize, Opened>,
    asked: usize,
    taken: usize,
}

impl Ahead {
    /// Decodes `paths` on `threads` threads, `window` ahead.
    pub(crate) fn new(paths: Vec<PathBuf>, threads: usize, window: usize) -> Self {
        let paths: Arc<[PathBuf]> = paths.into();
        let (wanted, numbers) = unbounded::<usize>();
        let (done, opened) = unbounded();
        for index in 0..threads.clamp(1, paths.len().max(1)) {
            let (paths, numbers, done) = (Arc::clone(&paths), numbers.clone(), done.clone());
            let work = move || {
                for number in numbers {
                    if done.send((number, Decoded::open(&paths[number]))).is_err() {
                        return;
                    }
                }
            };
            let started = thread::Builder::new().name(format!("decode-{index}")).spawn(work);
            // With fewer threads it takes longer; without any, `next` decodes.
            if started.is_err() {
                break;
            }
        }
        let mut ahead = Self { paths, wanted, opened, early: BTreeMap::new(), asked: 0, taken: 0 };
        (0..window).for_each(|_| ahead.ask());
        ahead
    }

    /// Files in all.
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    fn ask(&mut self) {
        if self.asked < self.paths.len() && self.wanted.send(self.asked).is_ok() {
            self.asked += 1;
        }
    }
}

impl Iterator for Ahead {
    type Item = (PathBuf, Opened);

    /// The next file, in order.
    fn next(&mut self) -> Option<Self::Item> {
        let path = self.paths.get(self.taken)?.clone();
        let opened = loop {
            if let Some(opened) = self.early.remove(&self.taken) {
                break opened;
            }
            match self.opened.recv() {
                Ok((number, opened)) => self.early.insert(number, opened),
                Err(_) => break Decoded::open(&path),
            };
        };
        self.taken += 1;
        self.ask();
        Some((path, opened))
    }
}
