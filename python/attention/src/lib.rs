//! The native module of the Python package, `foveate_attention._native`.
//!
//! Arguments have been checked there for what Python knows; what is left fails here with a Python exception. All work is done
//! without the interpreter's lock.

mod arrays;
#[cfg(feature = "vulkan")]
mod device;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    foveate_attention,
    DeviceError,
    PyException,
    "A Vulkan device is missing, refused or was lost, or belongs to the process that this one is a fork of."
);

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::DeviceError;
    #[pymodule_export]
    use super::arrays::{attention_f16, attention_f32, owned};
    #[cfg(feature = "vulkan")]
    #[pymodule_export]
    use super::device::AttentionDevice;
}
