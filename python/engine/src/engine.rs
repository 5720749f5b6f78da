//! Backend and threads.

use std::sync::Arc;

use foveate_core::backend::{BackendChoice, BackendInfo};
use foveate_core::frame::FrameKind;
use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::backend::{Backend, BackendError};
use foveate_engine::batch::Batch;
use foveate_engine::pool::Pool;
use foveate_gaze::view::ViewSpec;
use pyo3::prelude::*;

use crate::errors::{backend_error, value_error};
use crate::owned::Owned;

/// A backend, and the threads that work for it.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Engine {
    chosen: Owned<StreamBackend>,
    #[pyo3(get)]
    threads: usize,
}

/// Backend, device and reason.
pub(crate) type Info = (String, String, String);

/// The backend as Python sees it: kind, device and reason.
pub(crate) fn info_of(info: &BackendInfo) -> Info {
    (info.kind.to_string(), info.device.clone(), info.reason.clone())
}

#[pymethods]
impl Engine {
    #[new]
    fn new(
        py: Python<'_>,
        backend: &str,
        device: Option<&str>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let choice = match backend {
            "auto" => BackendChoice::Auto,
            "cpu" => BackendChoice::Cpu,
            "vulkan" => BackendChoice::Vulkan,
            _ => {
                return Err(value_error(format!(
                    "backend={backend:?}: \"auto\", \"cpu\" or \"vulkan\" is expected"
                )));
            }
        };
        let (chosen, threads) = py
            .detach(|| {
                let pool = Arc::new(Pool::of_threads(threads));
                let threads = pool.thread_count();
                Backends::new(pool).choose(choice, device).map(|chosen| (chosen, threads))
            })
            .map_err(|error| backend_error(&error))?;
        Ok(Self { chosen: Owned::new("Engine", chosen), threads })
    }

    /// Backend, device and reason as they are now: a GPU that fails is left for the CPU.
    fn info(&self, py: Python<'_>) -> PyResult<Info> {
        py.detach(|| self.chosen.with(|chosen| Ok(info_of(chosen.info()))))
    }

    /// Ends it; what was made from it stays.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.chosen.close())
    }
}

impl Engine {
    /// A batch for pictures of `kind`, at most `size` at a time.
    pub(crate) fn batch(&self, kind: FrameKind, view: ViewSpec, size: usize) -> PyResult<Batch> {
        self.chosen
            .with(|chosen| chosen.batch(kind, view, size).map_err(|error| backend_error(&error)))
    }

    /// Leaves the backend for the CPU because sampling `batch` failed with `error`.
    pub(crate) fn move_to_cpu(&self, batch: &mut Batch, error: &BackendError) -> PyResult<()> {
        self.chosen.with(|chosen| {
            chosen.move_to_cpu(batch, error);
            Ok(())
        })
    }

    /// The backend, for something that outlives a call.
    pub(crate) fn chosen(&self) -> PyResult<StreamBackend> {
        self.chosen.with(|chosen| Ok(chosen.clone()))
    }

    /// A backend for frames of `kind`.
    pub(crate) fn build(&self, kind: FrameKind) -> PyResult<Box<dyn Backend>> {
        self.chosen.with(|chosen| chosen.build(kind).map_err(|error| backend_error(&error)))
    }
}
