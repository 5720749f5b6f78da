//! Client data for the channels of a view: injected maps, and weights.
//!
//! A name is its client's until the map's time is over or the client's connection ends; others are refused, and the refusal names the
//! client. A map outlives the connection, but its name is free then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lease::ClientIdentity;
use foveate::messages::{Refusal, RefusalReason};
use foveate_config::ViewConfig;
use foveate_control::ChannelListing;
use foveate_core::geometry::feedback::{CHANNEL_WEIGHTS_MAX, ChannelWeight};
use foveate_core::relevance::injection::{INJECTED_MAX, Injection};

/// The channels of one view.
#[derive(Debug, Default)]
pub(super) struct InjectedChannels {
    /// The view that channels and weights belong to.
    of: Option<Arc<ViewConfig>>,
    injected: BTreeMap<String, InjectedMap>,
    /// Names of those whose weight is not 0, of clients.
    weighed: BTreeSet<String>,
}

#[derive(Debug)]
struct InjectedMap {
    /// `None` if it is gone.
    owner: Option<ClientIdentity>,
    shape: [u32; 2],
    frame: u64,
    received: Instant,
    ttl_ms: u32,
}

impl InjectedMap {
    fn is_over(&self, now: Instant) -> bool {
        Duration::from_millis(self.ttl_ms.into()) <= now.saturating_duration_since(self.received)
    }
}

impl InjectedChannels {
    /// Forgets channels and weights of the view before it was replaced.
    pub(super) fn forget_unless_of(&mut self, config: &Arc<ViewConfig>) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, config)) {
            *self = Self { of: Some(Arc::clone(config)), ..Self::default() };
        }
    }

    /// Forgets maps whose time is over.
    fn expire(&mut self, now: Instant) {
        self.injected.retain(|_, injected| !injected.is_over(now));
    }

    /// # Errors
    ///
    /// If another client has the name, or it is one more than there may be.
    pub(super) fn check_free_for(
        &mut self,
        name: &str,
        client: &ClientIdentity,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.expire(now);
        let Some(present) = self.injected.get(name) else {
            return if self.injected.len() < INJECTED_MAX { Ok(()) } else { Err(too_many()) };
        };
        match &present.owner {
            Some(owner) if owner.number != client.number => {
                let error = format!(
                    "{} injects `{name}` into this view: take another name, or wait until that map's time is over",
                    owner.name
                );
                let holder = Some(owner.name.clone());
                Err(Refusal { holder, ..Refusal::new(RefusalReason::Held, error) })
            }
            _ => Ok(()),
        }
    }

    /// `client` has injected a map.
    pub(super) fn inject(&mut self, injection: &Injection, client: &ClientIdentity, now: Instant) {
        let (grid, frame, ttl_ms) = (injection.grid(), injection.frame_seq(), injection.ttl_ms());
        let shape = [grid.height, grid.width];
        let injected =
            InjectedMap { owner: Some(client.clone()), shape, frame, received: now, ttl_ms };
        self.injected.insert(injection.name().to_owned(), injected);
    }

    /// The names of client `number` are free.
    pub(super) fn leave(&mut self, number: u64) {
        for injected in self.injected.values_mut() {
            injected.owner.take_if(|owner| owner.number == number);
        }
    }

    /// # Errors
    ///
    /// If more channels than may be would have a weight.
    pub(super) fn check_room_for(&self, weights: &[ChannelWeight]) -> Result<(), Refusal> {
        let mut weighed = self.weighed.clone();
        set_weighed(&mut weighed, weights);
        if weighed.len() <= CHANNEL_WEIGHTS_MAX {
            return Ok(());
        }
        let error = format!(
            "{} channels of this view would have weights of clients (expected at most {CHANNEL_WEIGHTS_MAX}): set others to 0, \
             or `release` the view",
            weighed.len()
        );
        Err(Refusal::new(RefusalReason::TooManyChannels, error))
    }

    /// A client has set weights.
    pub(super) fn weigh(&mut self, weights: &[ChannelWeight]) {
        set_weighed(&mut self.weighed, weights);
    }

    /// The weights are those of the configuration.
    pub(super) fn release(&mut self) {
        self.weighed.clear();
    }

    /// The maps whose time is not over.
    pub(super) fn listing(&self, now: Instant) -> Vec<ChannelListing> {
        let live = self.injected.iter().filter(|(_, injected)| !injected.is_over(now));
        let listing = |(name, injected): (&String, &InjectedMap)| {
            let age = now.saturating_duration_since(injected.received);
            ChannelListing {
                name: name.clone(),
                shape: injected.shape,
                owner: injected.owner.as_ref().map(|owner| owner.name.clone()),
                frame: injected.frame,
                age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                ttl_ms: injected.ttl_ms,
            }
        };
        live.map(listing).collect()
    }
}

fn set_weighed(weighed: &mut BTreeSet<String>, weights: &[ChannelWeight]) {
    for ChannelWeight { name, weight } in weights {
        if *weight == 0.0 {
            weighed.remove(name);
        } else {
            weighed.insert(name.clone());
        }
    }
}

fn too_many() -> Refusal {
    let error = format!(
        "too many injected channels in this view (expected at most {INJECTED_MAX}): wait until the time of one is over"
    );
    Refusal::new(RefusalReason::TooManyChannels, error)
}
