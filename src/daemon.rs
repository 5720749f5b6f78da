//! The life of `foveated`: streams, sockets, signals.
