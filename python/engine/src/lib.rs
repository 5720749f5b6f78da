//! The engine as a Python module.
use pyo3::prelude::*;

#[pymodule]
mod _native {}
