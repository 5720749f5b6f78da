//! The engine as a Python module.
use pyo3::prelude::*;

mod attention;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::attention::{attention_f16, attention_f32};
}
