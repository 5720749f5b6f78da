//! The ring: shared memory in which a view publishes its token frames. One writer, any number of readers, latest wins; the
//! writer never waits.
//!
//! ```text
//!  frame loop                 | one memfd, sealed                          | other processes
//!                             |                                            |
//!  Writer::begin, publish ----+-> slot, newest sequence, futex word -------+-> Reader (maps read-only)
//!  Waker::wake ---------------+-> FUTEX_WAKE, 16-byte notices to sockets --+-> Reader::wait, or poll(2)
//! ```
//!
//! [`abi`] defines the memory layout, and [`schema`] describes it. `mapping` has all `unsafe` code, and `protocol` all memory ordering. `segment` describes and validates a segment,
//! which `writer`, `reader` and `waker` use; what only a daemon needs has the feature `writer`.
#![cfg_attr(not(feature = "writer"), allow(dead_code, reason = "the writer's half"))]

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("the ring's memory is defined for little-endian machines with 64-bit atomics");

pub mod abi;
mod camera;
pub mod canvas;
mod channels;
mod error;
mod head;
mod header;
#[cfg(feature = "writer")]
mod items;
mod mapping;
#[cfg(feature = "writer")]
mod memory;
pub mod picture;
mod pixel_facts;
mod protocol;
mod reader;
mod record;
pub mod schema;
mod segment;
mod text;
#[cfg(feature = "writer")]
mod waker;
#[cfg(feature = "writer")]
mod writer;

pub use abi::{State, TokenRecord};
pub use error::RingError;
pub use head::FrameHead;
pub use header::HeaderPage;
#[cfg(feature = "writer")]
pub use items::{Item, ItemStore, Items, SegmentMemory};
#[cfg(feature = "writer")]
pub use memory::check_memory;
pub use reader::{BorrowedFrame, Lapped, ReadOutcome, Reader, TokenFrameBuf};
pub use segment::{ChannelFacts, PlaneInfo, SegmentInfo, SegmentSpec};
pub use text::Text;
#[cfg(feature = "writer")]
pub use waker::{Waker, WakerCounters};
#[cfg(feature = "writer")]
pub use writer::{TokenFrame, Writer, plane_list};

/// Consecutive overwritten copies after which a reader gives up; a reader that keeps up loses one in a thousand.
const TRIES_MAX: u32 = 64;

/// Atomics used by `protocol`; tests that compile it substitute others.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}
