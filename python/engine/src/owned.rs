//! What belongs to the process that made it.

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;

use crate::errors::EngineError;

/// A value with threads or a device, behind a lock. It can be closed; and in a child of its process, where neither its threads nor
/// its device are, it is neither used nor dropped.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    name: &'static str,
    process: u32,
    value: Mutex<Option<T>>,
}

impl<T> Owned<T> {
    /// Takes `value`, which errors call `name`.
    pub(crate) fn new(name: &'static str, value: T) -> Self {
        Self { name, process: std::process::id(), value: Mutex::new(Some(value)) }
    }

    /// Runs `work` on the value.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        let mut value = self.lock()?;
        let closed =
            || EngineError::new_err(format!("this {} is closed: make a new one", self.name));
        work(value.as_mut().ok_or_else(closed)?)
    }

    /// Drops the value.
    pub(crate) fn close(&self) -> PyResult<()> {
        drop(self.lock()?.take());
        Ok(())
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        let process = std::process::id();
        if process == self.process {
            return Ok(self.value.lock());
        }
        Err(EngineError::new_err(format!(
            "this {} belongs to process {}, and this is {process}, a fork of it, which has neither its threads nor its device: make \
             an Engine in each worker, after the fork",
            self.name, self.process
        )))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(self.value.get_mut().take());
        }
    }
}
