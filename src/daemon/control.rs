//! The server side of the control sockets: listings, subscriptions, feedback and admin requests.

mod channels;
pub mod described;
pub mod directory;
mod error;
mod lease;
pub mod server;
pub mod snapshot;
mod socket;
mod steering;

pub use error::ServeError;
