//! The server of the control sockets: listings, subscriptions, feedback and admin requests; and the [`channel`] between a view and its
//! clients. What publishes views, a daemon or a replay, registers them in a [`directory`].

pub mod channel;
mod channels;
pub mod described;
pub mod directory;
mod error;
mod lease;
pub mod memory;
pub mod server;
pub mod snapshot;
mod socket;
mod steering;

pub use error::ServeError;
