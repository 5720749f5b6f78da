//! The retina in compute shaders.
