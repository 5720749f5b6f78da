//! The laws of the ring's memory order hold in every execution of small rings, and each order is needed for one.
//!
//! Runs only under `--cfg loom`, as in `scripts/test.sh`. What loom leaves out are loads that see a store from their own
//! future. That takes a store that waits for a load, and readers store nothing.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::panic::{self, Location};
use std::sync::atomic::Ordering;
use std::{cell::Cell, cell::RefCell, env};

use loom::model::Builder;
use loom::thread;

use atomic::AtomicU64;
use ring_laws::test_laws;

#[path = "../src/ring/protocol.rs"]
mod protocol;
mod ring_laws;

/// Two words, so that there is something to be torn.
const FRAME_BYTES: usize = 16;

const READS: usize = 1;

/// Preemptions in one execution. Two suffice to show of each order that it is needed.
const FEW_PREEMPTIONS: usize = 2;

test_laws!();

/// Where an order stands in `protocol.rs`: line and column.
type Site = (u32, u32);

thread_local! {
    /// Sites where the protocol asked for more than relaxed. A model runs in the thread that checks it.
    static ORDERED: RefCell<BTreeSet<Site>> = const { RefCell::new(BTreeSet::new()) };
    /// The site that gets a relaxed ordering instead.
    static RELAXED: Cell<Option<Site>> = const { Cell::new(None) };
}

/// All executions of three threads are too many.
#[test]
fn readers_do_not_disturb_each_other() {
    let more = usize::from(env::var_os("FOVEATE_LONG").is_some());
    check_bounded(ring_laws::readers_do_not_disturb_each_other, FEW_PREEMPTIONS + more);
}

#[test]
fn every_order_is_needed() {
    LAWS.iter().for_each(|(_, law)| check_bounded(*law, FEW_PREEMPTIONS));
    let sites = ORDERED.take();
    let text = include_str!("../src/ring/protocol.rs");
    let asked =
        text.matches("Ordering::Release").count() + text.matches("Ordering::Acquire").count();
    assert_eq!(sites.len(), asked, "the laws do not come by every order of the protocol");

    let shown = panic::take_hook();
    // Where an order is relaxed, a law is meant to break.
    panic::set_hook(Box::new(move |broken| {
        if RELAXED.get().is_none() {
            shown(broken)
        }
    }));
    let broken = sites.iter().map(|site| (*site, broken_by_relaxing(*site))).collect::<Vec<_>>();
    for (site, law) in &broken {
        println!("{:<16} {}", sync_name(text, *site), law.unwrap_or("NOT NEEDED"));
    }
    assert!(broken.iter().all(|(_, law)| law.is_some()), "{broken:?}");
}

/// The first law that fails with relaxed memory order at `site`.
fn broken_by_relaxing(site: Site) -> Option<&'static str> {
    RELAXED.set(Some(site));
    let broken = LAWS
        .iter()
        .find(|(_, law)| panic::catch_unwind(|| check_bounded(*law, FEW_PREEMPTIONS)).is_err());
    RELAXED.set(None);
    broken.map(|(name, _)| *name)
}

/// The name of the pair that the order at `site` belongs to, from the comment above it.
fn sync_name(text: &str, (line, _): Site) -> &str {
    let above = text.lines().take(line.try_into().unwrap()).collect::<Vec<_>>();
    let comment = above.into_iter().rev().find_map(|line| line.split_once("SYNC(")).unwrap();
    comment.1.split(')').next().unwrap()
}

/// Runs `law` in all its executions.
fn check(law: fn()) {
    let mut model = Builder::new();
    model.preemption_bound = None;
    model.check(law);
}

/// Runs `law` in all executions with at most `preemptions` preemptions.
fn check_bounded(law: fn(), preemptions: usize) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(law);
}

/// `wanted`, unless it stands where order is to be relaxed.
fn order_at(location: &Location<'_>, wanted: Ordering) -> Ordering {
    let site = (location.line(), location.column());
    if wanted == Ordering::Relaxed || RELAXED.get() == Some(site) {
        return Ordering::Relaxed;
    }
    ORDERED.with_borrow_mut(|sites| sites.insert(site));
    wanted
}

fn store_bytes(target: &[AtomicU64], source: &[u8]) {
    for (word, bytes) in target.iter().zip(source.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

fn load_bytes(target: &mut [u8], source: &[AtomicU64]) {
    for (bytes, word) in target.as_chunks_mut().0.iter_mut().zip(source) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// The atomics of loom, with the order that [`order_at`] allows.
mod atomic {
    use std::panic::Location;
    pub(crate) use std::sync::atomic::Ordering;

    use super::order_at;

    #[track_caller]
    pub(crate) fn fence(order: Ordering) {
        let order = order_at(Location::caller(), order);
        // A relaxed fence is none.
        if order != Ordering::Relaxed {
            loom::sync::atomic::fence(order);
        }
    }

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }
            }
        };
    }
    atomic!(AtomicBool, bool);
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);

    macro_rules! load_and_store {
        ($name:ident, $value:ty) => {
            impl $name {
                #[track_caller]
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.0.load(order_at(Location::caller(), order))
                }

                #[track_caller]
                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, order_at(Location::caller(), order));
                }
            }
        };
    }
    load_and_store!(AtomicU32, u32);
    load_and_store!(AtomicU64, u64);

    impl AtomicU32 {
        #[track_caller]
        pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_add(value, order_at(Location::caller(), order))
        }
    }

    impl AtomicBool {
        #[track_caller]
        pub(crate) fn store(&self, value: bool, order: Ordering) {
            self.0.store(value, order_at(Location::caller(), order));
        }

        #[track_caller]
        pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
            self.0.swap(value, order_at(Location::caller(), order))
        }
    }
}
