//! The shared memory that a view publishes its token frames in.
