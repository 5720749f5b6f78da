//! Who came: a line in the log for each client, and never so many that they hide others.

use std::time::Instant;

use super::connection::Connection;
use super::limits::TokenBucket;
use crate::control::socket;

/// Clients a second that are named.
const NAMED_PER_SECOND: u32 = 5;

/// Names those who connect.
#[derive(Debug)]
pub(super) struct Visitors {
    allowance: TokenBucket,
    /// Those who came since the last line and were not named.
    unnamed: u64,
}

impl Visitors {
    pub(super) fn new() -> Self {
        Self { allowance: TokenBucket::full(NAMED_PER_SECOND), unnamed: 0 }
    }

    /// Notes that `connection` was accepted.
    pub(super) fn note(&mut self, connection: &Connection) {
        if !self.allowance.take(Instant::now(), NAMED_PER_SECOND) {
            self.unnamed += 1;
            return;
        }
        let peer = socket::peer(&connection.socket);
        let (user, group) = (peer.map(|peer| peer.user), peer.map(|peer| peer.group));
        let client = &connection.client.name;
        let before = std::mem::take(&mut self.unnamed);
        tracing::info!(client, user, group, unnamed_before = before, "a client has connected");
    }
}
