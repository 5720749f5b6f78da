//! The foveated program.

fn main() {}
