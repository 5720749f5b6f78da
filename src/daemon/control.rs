//! The server side of the control sockets: listings, subscriptions, feedback and admin requests.

pub mod described;
pub mod directory;
mod error;
mod lease;
pub mod server;
mod socket;
mod steering;
pub mod tally;

pub use error::ServeError;
