//! Hierarchical attention on Vulkan devices.

use foveate_attention::vulkan::VulkanAttention;
use foveate_attention::{AttentionPlan, Element, Tensors};
use foveate_core::error::chain;
use foveate_gpu::{Gpu, GpuError};
use half::f16;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::DeviceError;
use crate::arrays::{AttentionOptions, AttentionResult, Numbers, compute};

/// A device, open, with the passes compiled. Calls wait for each other. In a fork of its process, where the device is not, the package
/// does not use it, and it is not dropped.
#[pyclass(frozen, module = "foveate_attention._native")]
pub(crate) struct AttentionDevice {
    device: Option<String>,
    process: u32,
    /// `None` only while it is dropped.
    attention: Mutex<Option<VulkanAttention>>,
}

#[pymethods]
impl AttentionDevice {
    /// Opens the device whose name holds `device`, or a real GPU.
    #[new]
    fn new(py: Python<'_>, device: Option<String>) -> PyResult<Self> {
        let open = py.detach(|| open(device.as_deref())).map_err(|error| refusal(&error))?;
        Ok(Self { device, process: std::process::id(), attention: Mutex::new(Some(open)) })
    }

    /// The attention of queries, keys and values, [heads, rows, numbers], contiguous.
    fn attention_f32<'py>(
        &self,
        py: Python<'py>,
        q: Numbers<'py, f32>,
        k: Numbers<'py, f32>,
        v: Numbers<'py, f32>,
        asked: AttentionOptions,
    ) -> AttentionResult<'py, f32> {
        compute(py, [&q, &k, &v], asked, |plan, tensors| self.run(plan, tensors))
    }

    /// Like `attention`, for numbers of half precision.
    fn attention_f16<'py>(
        &self,
        py: Python<'py>,
        q: Numbers<'py, f16>,
        k: Numbers<'py, f16>,
        v: Numbers<'py, f16>,
        asked: AttentionOptions,
    ) -> AttentionResult<'py, f16> {
        compute(py, [&q, &k, &v], asked, |plan, tensors| self.run(plan, tensors))
    }
}

impl AttentionDevice {
    /// The next call reopens a lost device.
    fn run<T: Element>(&self, plan: &AttentionPlan, tensors: Tensors<'_, T>) -> PyResult<()> {
        let mut value = self.attention.lock();
        let attention = value.as_mut().expect("it is taken only where this is dropped");
        if attention.gpu().is_lost() {
            *attention = open(self.device.as_deref()).map_err(|error| refusal(&error))?;
        }
        attention.run(plan, tensors).map_err(|error| refusal(&error))
    }
}

impl Drop for AttentionDevice {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(self.attention.get_mut().take());
        }
    }
}

fn open(device: Option<&str>) -> Result<VulkanAttention, GpuError> {
    VulkanAttention::new(&Gpu::open(device)?)
}

fn refusal(error: &GpuError) -> PyErr {
    let remedy = match error {
        GpuError::DeviceLost { .. } => "the next call reopens the device",
        _ => "backend=\"cpu\" needs no device",
    };
    DeviceError::new_err(format!("backend=\"vulkan\": {}; {remedy}", chain(error)))
}
