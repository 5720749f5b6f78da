//! The privacy masks of a stream, which any thread may change while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use foveate_core::geometry::tile::TileSet;
use foveate_core::mask::{MASKS_MAX, Mask};

/// The masks of a stream: those of its configuration, and those that are set while it runs. Any thread may change them; they hold
/// from the next frame that reaches the appsink on.
#[derive(Debug)]
pub struct Masks {
    /// Number of the newest change, from 1.
    revision: AtomicU64,
    present: Mutex<CurrentMasks>,
    /// The newest revision that a frame was published with; 0 for none.
    published: Mutex<u64>,
    is_published: Condvar,
}

#[derive(Debug, Default)]
struct CurrentMasks {
    configured: Vec<Mask>,
    /// Masks that were set at run time, in the order in which they were first set.
    added: Vec<Mask>,
    /// The configured masks, then the added ones.
    all: Arc<[Mask]>,
}

/// A change of the masks that are set while a stream runs. A mask of the same name is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaskChange {
    /// Whether all added masks are cleared first.
    pub clears_all: bool,
    /// Names of the masks to clear.
    pub cleared: Vec<String>,
    /// Masks to set.
    pub set: Vec<Mask>,
}

/// Reason for refusing a change of masks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskRefusal {
    /// The mask belongs to the configuration.
    #[error(
        "the mask {name:?} belongs to the configuration: change it there and reload, or choose another name"
    )]
    Configured {
        /// Name of the mask.
        name: String,
    },
    /// The mask to clear does not exist.
    #[error("no mask {name:?} was set at run time: see `foveate mask`")]
    Unknown {
        /// Name of the mask.
        name: String,
    },
    /// Too many masks at a time.
    #[error("too many masks: {count} (expected at most {MASKS_MAX} set at run time)")]
    TooMany {
        /// Masks that there would be.
        count: usize,
    },
}

impl Masks {
    /// The masks of a configuration.
    pub fn new(configured: Vec<Mask>) -> Self {
        let mut present = CurrentMasks { configured, ..CurrentMasks::default() };
        present.join();
        Self {
            revision: AtomicU64::new(1),
            present: Mutex::new(present),
            published: Mutex::default(),
            is_published: Condvar::new(),
        }
    }

    /// Replaces those of the configuration; those that were set at run time stay. Returns the number of the change.
    pub fn configure(&self, configured: Vec<Mask>) -> u64 {
        let mut present = self.present.lock();
        present.configured = configured;
        self.renew(&mut present)
    }

    /// Changes the masks that are set at run time, all at once. Returns the number of the change.
    ///
    /// # Errors
    ///
    /// If a mask belongs to the configuration, a mask to clear does not exist, or there would be too many. Nothing changes then.
    pub fn change(&self, change: MaskChange) -> Result<u64, MaskRefusal> {
        let mut present = self.present.lock();
        // A mask may have been added before the configuration got a mask of the same name.
        let is_added = |name: &&String| present.added.iter().any(|m| m.name == **name);
        let cleared = change.cleared.iter().filter(|name| !is_added(name));
        let names = change.set.iter().map(|mask| &mask.name).chain(cleared);
        let is_configured = |name: &&String| present.configured.iter().any(|m| m.name == **name);
        if let Some(name) = names.into_iter().find(is_configured) {
            return Err(MaskRefusal::Configured { name: name.clone() });
        }
        let mut added = present.added.clone();
        for name in &change.cleared {
            let place = added.iter().position(|mask| mask.name == *name);
            let place = place.ok_or_else(|| MaskRefusal::Unknown { name: name.clone() })?;
            added.remove(place);
        }
        if change.clears_all {
            added.clear();
        }
        for mask in change.set {
            match added.iter_mut().find(|present| present.name == mask.name) {
                Some(present) => *present = mask,
                None => added.push(mask),
            }
        }
        if MASKS_MAX < added.len() {
            return Err(MaskRefusal::TooMany { count: added.len() });
        }
        present.added = added;
        Ok(self.renew(&mut present))
    }

    /// Takes over the masks of another process, as of its change `revision`.
    pub fn follow(&self, revision: u64, masks: Vec<Mask>) {
        let mut present = self.present.lock();
        (present.configured, present.added) = (masks, Vec::new());
        present.join();
        // SYNC(masked): pairs with `newer_than`.
        self.revision.store(revision, Ordering::Release);
    }

    fn renew(&self, present: &mut CurrentMasks) -> u64 {
        present.join();
        // SYNC(masked): pairs with `newer_than`; the masks are locked until the new number is stored.
        self.revision.fetch_add(1, Ordering::Release) + 1
    }

    /// The masks of the configuration, and the masks that were set at run time.
    pub fn present(&self) -> (Vec<Mask>, Vec<Mask>) {
        let present = self.present.lock();
        (present.configured.clone(), present.added.clone())
    }

    /// The masks and the number of their last change, if that is not `known`. Locks only then.
    pub fn newer_than(&self, known: u64) -> Option<(u64, Arc<[Mask]>)> {
        // SYNC(masked): pairs with `renew`.
        if self.revision.load(Ordering::Acquire) == known {
            return None;
        }
        let present = self.present.lock();
        Some((self.revision.load(Ordering::Relaxed), Arc::clone(&present.all)))
    }

    /// Notes that all views have published a frame with the masks of change `revision`. Called once for each, by the frame loop.
    pub fn note_published(&self, revision: u64) {
        *self.published.lock() = revision;
        self.is_published.notify_all();
    }

    /// Waits until a frame was published with the masks of change `revision`, or later ones; false if none was within `timeout`.
    pub fn await_published(&self, revision: u64, timeout: Duration) -> bool {
        let mut published = self.published.lock();
        let waits = |published: &mut u64| *published < revision;
        !self.is_published.wait_while_for(&mut published, waits, timeout).timed_out()
    }
}

impl CurrentMasks {
    fn join(&mut self) {
        self.all = self.configured.iter().chain(&self.added).cloned().collect();
    }
}

impl Default for Masks {
    /// A stream without masks.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

/// Two `Masks` are equal if they are the same object.
impl PartialEq for Masks {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Masks {}

/// The masks that filled a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskCoverage {
    /// Number of the change of the stream's [`Masks`] that led to them.
    pub revision: u64,
    /// The texels of the coarse level that they cover; `None` without masks.
    pub texels: Option<Arc<TileSet>>,
}
