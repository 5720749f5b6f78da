//! The ring: shared memory in which a view publishes its token frames. One writer, any number of readers, latest wins; the
//! writer never waits.
//!
//! ```text
//!  frame loop                 | one memfd, sealed                          | other processes
//!                             |                                            |
//!  Writer::publish -----------+-> slot, newest sequence, futex word -------+-> Reader (maps read-only)
//!  Waker::wake ---------------+-> FUTEX_WAKE, 16-byte notices to sockets --+-> Reader::wait, or poll(2)
//! ```
//!
//! [`abi`] defines the memory layout, documented in `docs/abi.md`. `mapping` has all `unsafe` code except for the plain-data
//! promises of [`abi`], and `protocol` all memory ordering. [`segment`] creates, seals and validates a segment, which `writer`,
//! [`reader`] and `waker` use; writer and waker need the feature `writer`.
#![cfg_attr(not(feature = "writer"), allow(dead_code, reason = "the writer's half"))]

use std::error::Error;
use std::fmt;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("the ring's memory is defined for little-endian machines with 64-bit atomics");

pub mod abi;
mod camera;
mod header;
mod mapping;
mod protocol;
pub mod reader;
pub mod segment;
#[cfg(feature = "writer")]
pub mod waker;
#[cfg(feature = "writer")]
pub mod writer;

pub use abi::{State, TokenRecord};
pub use reader::{Borrowed, FrameHead, Lapped, ReadOutcome, Reader, TokenFrameBuf};
pub use segment::{DEFAULT_SLOT_COUNT, PlaneInfo, SegmentInfo, SegmentSpec, check_memory};
#[cfg(feature = "writer")]
pub use waker::{Waker, WakerCounters};
#[cfg(feature = "writer")]
pub use writer::{TokenFrame, Writer, plane_list};

/// Consecutive overwritten copies after which a reader gives up; a reader that keeps up loses one in a thousand.
const MAX_TRIES: u32 = 64;

/// Atomics used by `protocol`; tests that compile it substitute others.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// A segment could not be created, opened or read. Misuse of this crate is a bug and panics instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum RingError {
    /// The specification does not fit a segment.
    Spec {
        /// The field of [`SegmentSpec`].
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },

    /// Not enough memory for one or more segments.
    OutOfMemory {
        /// Their size.
        bytes: u64,
        /// What is available instead, or the kernel's error.
        reason: String,
    },

    /// A system call failed.
    System {
        /// The call, such as `memfd_create`.
        call: &'static str,
        /// The system's error.
        source: std::io::Error,
    },

    /// The descriptor is not that of a segment.
    NotASegment {
        /// Evidence.
        reason: String,
    },

    /// The segment has another ABI version.
    Version {
        /// Major version of the segment.
        major: u32,
        /// Minor version of the segment.
        minor: u32,
    },

    /// A field contradicts the ABI or the segment's size: its writer is broken.
    Malformed {
        /// The field, as `docs/abi.md` names it.
        field: &'static str,
        /// Its value.
        value: String,
    },

    /// The writer kept overwriting the frame being read.
    Overtaken {
        /// Copies attempted.
        tries: u32,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec { field, value, allowed } => {
                write!(f, "a segment cannot have {field} = {value}: {allowed}")
            }
            Self::OutOfMemory { bytes, reason } => write!(
                f,
                "{bytes} bytes of shared memory cannot be reserved ({reason}): lower token budgets or numbers of \
                 slots, or free memory"
            ),
            Self::System { call, .. } => write!(f, "{call} failed"),
            Self::NotASegment { reason } => {
                write!(f, "the descriptor is not a Foveate segment: {reason}")
            }
            Self::Version { major, minor } => write!(
                f,
                "the segment has ABI {major}.{minor}, this reader {}.{}: use a reader of the daemon's version",
                abi::ABI_MAJOR,
                abi::ABI_MINOR
            ),
            Self::Malformed { field, value } => {
                write!(f, "the segment is broken: {field} is {value}")
            }
            Self::Overtaken { tries } => write!(
                f,
                "the writer overtook this reader {tries} times in a row: it is suspended for too long while copying, or \
                 the segment is broken"
            ),
        }
    }
}

impl Error for RingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Adds the name of the failed call to a result of `rustix`.
trait SystemResultExt<T> {
    fn during(self, call: &'static str) -> Result<T, RingError>;
}

impl<T> SystemResultExt<T> for rustix::io::Result<T> {
    fn during(self, call: &'static str) -> Result<T, RingError> {
        self.map_err(|errno| RingError::System { call, source: errno.into() })
    }
}
