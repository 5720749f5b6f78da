//! Steering leases.
//!
//! One client at a time steers a view: its feedback takes out a lease, which ends when the client falls silent, sends `release`, or
//! disconnects. Others are refused, and the refusal names the holder.

use std::collections::BTreeMap;
use std::time::Instant;

use foveate::messages::{Refusal, RefusalReason};
use foveate_control::SteeringListing;

/// Identity of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    /// Number of the connection, from 1.
    pub(super) number: u64,
    /// User ID of the client; `u32::MAX` if unknown.
    pub(super) user: u32,
    /// Process of the client, such as `process 4711 (python3)`.
    pub(super) name: String,
}

/// The steering lease of one view, with counts of refused clients.
#[derive(Debug, Default)]
pub(super) struct SteeringLease {
    /// The holder, and until when.
    lease: Option<(ClientIdentity, Instant)>,
    refused: BTreeMap<RefusalReason, u64>,
}

impl SteeringLease {
    /// The listing of who steers, with the number of messages that were accepted.
    pub(super) fn listing(&self, accepted: u64) -> SteeringListing {
        let holder = self.holder(Instant::now()).map(|holder| holder.name.clone());
        SteeringListing { holder, accepted, refused: self.refused() }
    }

    pub(super) fn refused(&self) -> BTreeMap<RefusalReason, u64> {
        self.refused.clone()
    }

    pub(super) fn refuse(&mut self, reason: RefusalReason) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Ends the lease if client `number` holds it.
    pub(super) fn release(&mut self, number: u64) {
        self.lease.take_if(|(holder, _)| holder.number == number);
    }

    fn holder(&self, now: Instant) -> Option<&ClientIdentity> {
        self.lease.as_ref().filter(|(_, until)| now < *until).map(|(holder, _)| holder)
    }

    /// # Errors
    ///
    /// If another client holds the lease.
    pub(super) fn check_free_for(
        &self,
        client: &ClientIdentity,
        now: Instant,
    ) -> Result<(), Refusal> {
        match self.holder(now) {
            Some(holder) if holder.number != client.number => {
                let error = format!(
                    "{} steers this view: wait until it is silent, or open a view of your own",
                    holder.name
                );
                let holder = Some(holder.name.clone());
                Err(Refusal { holder, ..Refusal::new(RefusalReason::Held, error) })
            }
            _ => Ok(()),
        }
    }

    /// `client` holds the lease from now on.
    pub(super) fn renew(&mut self, client: &ClientIdentity, until: Instant) {
        self.lease = Some((client.clone(), until));
    }
}
