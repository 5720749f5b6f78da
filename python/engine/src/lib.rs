//! The engine as a Python module, `foveate_engine._native`: what `foveate_engine/*.py` is made of.
//!
//! Arguments have been checked there for what Python knows; what is left fails here with a Python exception. All work is done
//! without the interpreter's lock.

use pyo3::prelude::*;

mod batch;
mod engine;
mod errors;
mod folder;
mod owned;
mod picture;
mod pyramid;
mod spec;
#[cfg(feature = "gst")]
mod video;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::errors::{BackendError, EngineError};
    #[pymodule_export]
    use super::folder::{Folder, decode, decode_file, listed};
    #[pymodule_export]
    use super::picture::{composite, owned};
    #[pymodule_export]
    use super::pyramid::Pyramid;
    #[pymodule_export]
    use super::spec::{Spec, channel_names, formats};
    #[cfg(feature = "gst")]
    #[pymodule_export]
    use super::video::Video;
}
