//! Client data for the channels of a view: injected maps, and weights.
//!
//! A name is its client's until the map's time is over or the client's connection ends, and with it the map; others are refused, and
//! the refusal names the client. Weights stay until a `release`. Users share both as they share all else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lease::ClientIdentity;
use super::server::left_for;
use foveate::messages::{Refusal, RefusalReason};
use foveate_config::ViewConfig;
use foveate_control::ChannelListing;
use foveate_gaze::feedback::{CHANNEL_WEIGHTS_MAX, ChannelWeight};
use foveate_gaze::relevance::injection::{INJECTED_MAX, Injection};

/// The channels and weights that clients injected into one view.
#[derive(Debug, Default)]
pub(super) struct InjectedChannels {
    /// The view that channels and weights belong to.
    of: Option<Arc<ViewConfig>>,
    injected: BTreeMap<String, InjectedMap>,
    weighed: WeighedNames,
}

/// Names of channels whose weight is not 0, each with the user who set it.
type WeighedNames = BTreeMap<String, u32>;

#[derive(Debug)]
struct InjectedMap {
    owner: ClientIdentity,
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
    /// If another client has the name, or the user has all that it may have.
    pub(super) fn check_free_for(
        &mut self,
        name: &str,
        client: &ClientIdentity,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.expire(now);
        let Some(InjectedMap { owner, .. }) = self.injected.get(name) else {
            let held = self.injected.values().map(|injected| (injected.owner.user, 1));
            return match left_for(client.user, INJECTED_MAX, held) {
                0 => Err(too_many(self.injected.len())),
                _ => Ok(()),
            };
        };
        if owner.number == client.number {
            return Ok(());
        }
        let error = format!(
            "{} injects `{name}` into this view: take another name, or wait until that map's time is over",
            owner.name
        );
        let holder = Some(owner.name.clone());
        Err(Refusal { holder, ..Refusal::new(RefusalReason::Held, error) })
    }

    /// `client` has injected a map.
    pub(super) fn inject(&mut self, injection: &Injection, client: &ClientIdentity, now: Instant) {
        let (grid, frame, ttl_ms) = (injection.grid(), injection.frame_seq(), injection.ttl_ms());
        let shape = [grid.height, grid.width];
        let injected = InjectedMap { owner: client.clone(), shape, frame, received: now, ttl_ms };
        self.injected.insert(injection.name().to_owned(), injected);
    }

    /// The maps of client `number`, which is gone, are no more: returns their names.
    pub(super) fn leave(&mut self, number: u64) -> Vec<String> {
        let left = self.injected.extract_if(.., |_, injected| injected.owner.number == number);
        left.map(|(name, _)| name).collect()
    }

    /// # Errors
    ///
    /// If more channels than may be would have a weight of `user`.
    pub(super) fn check_room_for(
        &self,
        weights: &[ChannelWeight],
        user: u32,
    ) -> Result<(), Refusal> {
        let mut weighed = self.weighed.clone();
        set_weighed(&mut weighed, weights, user);
        let own = weighed.values().filter(|holder| **holder == user).count();
        let others = weighed.values().filter(|holder| **holder != user);
        let most = left_for(user, CHANNEL_WEIGHTS_MAX, others.map(|holder| (*holder, 1)));
        if own <= most {
            return Ok(());
        }
        let error = format!(
            "{own} channels of this view would have weights of this user (expected at most {most} of the {CHANNEL_WEIGHTS_MAX} that all \
             users share): set others to 0, or `release` the view"
        );
        Err(Refusal::new(RefusalReason::TooManyChannels, error))
    }

    /// A client of `user` has set weights.
    pub(super) fn weigh(&mut self, weights: &[ChannelWeight], user: u32) {
        set_weighed(&mut self.weighed, weights, user);
    }

    /// Restores the configured weights.
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
                owner: injected.owner.name.clone(),
                frame: injected.frame,
                age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                ttl_ms: injected.ttl_ms,
            }
        };
        live.map(listing).collect()
    }
}

fn set_weighed(weighed: &mut WeighedNames, weights: &[ChannelWeight], user: u32) {
    for ChannelWeight { name, weight } in weights {
        if *weight == 0.0 {
            weighed.remove(name);
        } else {
            weighed.insert(name.clone(), user);
        }
    }
}

fn too_many(present: usize) -> Refusal {
    let error = format!(
        "too many injected channels: this view has {present} (expected at most {INJECTED_MAX}, and half of them of one user): wait \
         until the time of one is over"
    );
    Refusal::new(RefusalReason::TooManyChannels, error)
}
