//! The GStreamer boundary: from a source to mapped samples in a mailbox.
