//! The shared memory that a view publishes its token frames in: one writer, any number of readers, latest wins,
//! and the writer never waits for anybody.
//!
//! ```text
//!  frame loop                 | one memfd, sealed                          | other processes
//!                             |                                            |
//!  Writer::publish -----------+-> slot, newest sequence, futex word -------+-> Reader (maps read-only)
//!  Waker::wake ---------------+-> FUTEX_WAKE, 16-byte notices to sockets --+-> Reader::wait, or poll(2)
//! ```
//!
//! [`abi`] is the memory, byte by byte, and `docs/abi.md` its document; `mapping` holds all `unsafe` of the ring but what
//! [`abi`] promises of its types, and `protocol` all that orders memory; [`segment`] creates, seals and checks a segment;
//! `writer`, [`reader`] and `waker` are the three who use it, writer and waker with the feature `writer`.

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

/// A copy that the writer destroys this often in a row is given up: a reader at work loses one in a thousand.
const MAX_TRIES: u32 = 64;

/// What `protocol` is made of. A test that compiles `protocol` puts other atomics here.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// Why a segment could not be made, opened or read. Misuse of this module is a bug and panics instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum RingError {
    /// What was asked for has no place in a segment.
    Spec {
        /// The field of [`SegmentSpec`].
        field: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },

    /// There is not enough memory for a segment, or for several.
    OutOfMemory {
        /// Their size.
        bytes: u64,
        /// What is there instead, or what the kernel said.
        reason: String,
    },

    /// The kernel refused a call.
    System {
        /// The call, such as `memfd_create`.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },

    /// The descriptor is not that of a segment.
    NotASegment {
        /// What gave it away.
        reason: String,
    },

    /// The segment follows a different version of the ABI.
    Version {
        /// Major version of the segment.
        major: u32,
        /// Minor version of the segment.
        minor: u32,
    },

    /// A field of the segment contradicts the ABI or the segment's size: its writer is broken.
    Malformed {
        /// The field, as `docs/abi.md` names it.
        field: &'static str,
        /// What it holds.
        value: String,
    },

    /// The writer replaced the frame under the reader again and again.
    Overtaken {
        /// How often the copy was begun.
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
                "the segment follows ABI {major}.{minor}, and this reader {}.{}: use a reader of the daemon's version",
                abi::ABI_MAJOR,
                abi::ABI_MINOR
            ),
            Self::Malformed { field, value } => {
                write!(f, "the segment is broken: {field} is {value}")
            }
            Self::Overtaken { tries } => write!(
                f,
                "the writer overtook this reader {tries} times in a row: it stops for too long while it copies, or \
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
