//! Hierarchical attention of NumPy's arrays.

use std::num::NonZeroUsize;

use foveate_attention::{
    AttentionPlan, AttentionSettings, CellLevel, Element, Instructions, Shape, Tensors,
};
use half::f16;
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray3, PyReadonlyArray3, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

pub(crate) type AttentionResult<'py, T> = PyResult<Bound<'py, PyArray3<T>>>;
pub(crate) type Numbers<'py, T> = PyReadonlyArray3<'py, T>;

/// `grid`, `coarse`, `tops`, `biases` and `scale`.
pub(crate) type AttentionOptions = ((usize, usize), usize, Vec<f64>, Vec<f32>, f32);

macro_rules! function {
    ($name:ident, $number:ty) => {
        /// The attention of queries, keys and values, [heads, rows, numbers], contiguous, on the CPU.
        #[pyfunction]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            q: Numbers<'py, $number>,
            k: Numbers<'py, $number>,
            v: Numbers<'py, $number>,
            asked: AttentionOptions,
            threads: NonZeroUsize,
        ) -> AttentionResult<'py, $number> {
            compute(py, [&q, &k, &v], asked, |plan, tensors| {
                plan.run(Instructions::best(), threads, tensors);
                Ok(())
            })
        }
    };
}

function!(attention_f32, f32);
function!(attention_f16, f16);

/// A copy of an array of float32 or float16 in C order. The interpreter's lock is held meanwhile: at other times NumPy lets other threads
/// move the memory.
#[pyfunction]
pub(crate) fn owned<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    fn copy<'py, T: numpy::Element + Clone>(
        array: &PyReadonlyArrayDyn<'py, T>,
        py: Python<'py>,
    ) -> Bound<'py, PyAny> {
        array.as_array().as_standard_layout().into_owned().into_pyarray(py).into_any()
    }

    if let Ok(array) = array.extract::<PyReadonlyArrayDyn<'py, f32>>() {
        Ok(copy(&array, array.py()))
    } else if let Ok(array) = array.extract::<PyReadonlyArrayDyn<'py, f16>>() {
        Ok(copy(&array, array.py()))
    } else {
        Err(PyTypeError::new_err("expected an array of float16 or float32"))
    }
}

/// Runs `run` on the plan of what was asked for, without the interpreter's lock.
pub(crate) fn compute<'py, T: Element + numpy::Element + Default>(
    py: Python<'py>,
    arrays: [&Numbers<'py, T>; 3],
    ((rows, columns), coarse, tops, biases, scale): AttentionOptions,
    run: impl FnOnce(&AttentionPlan, Tensors<'_, T>) -> PyResult<()> + Send,
) -> AttentionResult<'py, T> {
    let [q, k, v] = arrays.map(|array| array.shape());
    let shape = Shape { heads: q[0], queries: q[1], rows, columns, width: q[2], value_width: v[2] };
    let expected = [[q[0], shape.keys(), q[2]], [q[0], shape.keys(), v[2]]];
    if [k, v] != expected {
        return Err(PyValueError::new_err("the shapes of q, k and v do not fit together"));
    }
    let treated = tops.into_iter().zip(biases);
    let levels = treated.map(|(top, bias)| CellLevel { top, bias }).collect();
    let settings = AttentionSettings { coarse, levels, scale };
    let plan = AttentionPlan::new(shape, &settings).map_err(PyValueError::new_err)?;
    let [queries, keys, values] =
        [contiguous("q", arrays[0])?, contiguous("k", arrays[1])?, contiguous("v", arrays[2])?];
    let found = py.detach(|| {
        let mut found = Array3::default((shape.heads, shape.queries, shape.value_width));
        let results = found.as_slice_mut().expect("a new array is contiguous");
        run(&plan, Tensors { queries, keys, values, results }).map(|()| found)
    })?;
    Ok(found.into_pyarray(py))
}

fn contiguous<'a, T: numpy::Element>(name: &str, array: &'a Numbers<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| PyValueError::new_err(format!("{name} is not contiguous")))
}
