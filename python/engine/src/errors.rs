//! Errors of the engine as Python exceptions.

use foveate_core::error::chain;
use foveate_engine::backend;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(foveate_engine, EngineError, PyException, "An error of the engine.");
pyo3::create_exception!(
    foveate_engine,
    BackendError,
    EngineError,
    "A GPU is missing, refused or was lost."
);

/// The exception for an error of a backend.
pub(crate) fn backend_error(error: &backend::BackendError) -> PyErr {
    BackendError::new_err(format!(
        "{}: make a new Engine, or one with backend=\"cpu\"",
        chain(error)
    ))
}

/// The exception for an unusable argument.
pub(crate) fn value_error(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}
