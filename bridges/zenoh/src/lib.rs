//! Publishes views of Foveate over Zenoh, and lets consumers there steer them. `docs/guide/fleet.md` is the guide, `docs/reference/zenoh.md`
//! specifies keys and messages.
//!
//! ```text
//!  foveated                 | foveate-zenoh                              | Zenoh
//!                           |                                            |
//!  ring of a view ----------+-> view (one thread each) -> message -------+-> foveate/HOST/STREAM/VIEW, and liveliness
//!                           |     the newest whole message  <------------+-- queries of the same key
//!                           |     counts, state -------------------------+-> .../status
//!  control socket <---------+-- steering (one thread a remote client) <--+-- queries of .../feedback
//! ```
//!
//! It is a reader like any other: where the network is slower than the camera it skips frames, and the daemon does not notice.

pub mod message;
pub mod session;
pub mod steering;
pub mod view;
