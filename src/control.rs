//! The sockets: messages, the daemon's server, the client of tools and readers.
