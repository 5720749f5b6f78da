//! Which tiles changed since the pyramid was built from them.
