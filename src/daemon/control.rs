//! The server's side of the sockets: what the daemon tells of itself, and where its frame loops pick up what clients ask.

pub mod described;
pub mod directory;
mod error;
pub mod server;
mod socket;
mod steering;
pub mod tally;

pub use error::ServeError;
