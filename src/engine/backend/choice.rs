//! Chooses the backend of a stream with a reason, and reopens a GPU after a loss.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cpu::CpuBackend;
use super::cpu::batch::CpuBatch;
#[cfg(feature = "vulkan")]
use super::devices::Devices;
#[cfg(feature = "vulkan")]
use super::vulkan::VulkanBackend;
#[cfg(feature = "vulkan")]
use super::vulkan::batch::VulkanBatch;
use super::{Backend, BackendError};
use crate::batch::{Batch, BatchBackend};
use crate::planes::{Sampler, SamplerSpec};
use crate::pool::Pool;
use foveate_core::backend::{BackendChoice, BackendInfo, BackendKind, ChangeOn, ChangeSite};
use foveate_core::error::chain;
use foveate_core::frame::FrameKind;
use foveate_gaze::view::ViewSpec;
#[cfg(feature = "vulkan")]
use foveate_gpu::{DeviceKind, DeviceSummary, Gpu, GpuError};

/// The GPUs that this process has open, each once, however many streams use it and however they name it; and the thread
/// pool for stages on the CPU. A lost GPU is reopened.
#[derive(Debug)]
pub struct Backends {
    pool: Arc<Pool>,
    #[cfg(feature = "vulkan")]
    devices: Arc<Devices>,
}

impl Default for Backends {
    /// No open GPUs, and a pool of its own.
    fn default() -> Self {
        Self::new(Arc::new(Pool::of_threads(None)))
    }
}

impl Backends {
    /// No open GPUs.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            #[cfg(feature = "vulkan")]
            devices: Arc::default(),
        }
    }

    /// Opens devices by another function than [`Gpu::open`], for tests that lose devices.
    #[cfg(feature = "vulkan")]
    pub fn opening_with(
        pool: Arc<Pool>,
        open: impl Fn(Option<&str>) -> Result<Arc<Gpu>, GpuError> + Send + Sync + 'static,
    ) -> Self {
        Self { pool, devices: Arc::new(Devices::new(Box::new(open))) }
    }

    /// Chooses the backend of one stream. The CPU finds its changes, unless [configured
    /// otherwise](StreamBackend::with_change_on). `auto` takes the named device, or a real GPU if there is one, and
    /// otherwise the CPU.
    ///
    /// # Errors
    ///
    /// If Vulkan is required and there is no such device.
    pub fn choose(
        &self,
        choice: BackendChoice,
        device: Option<&str>,
    ) -> Result<StreamBackend, BackendError> {
        let on_cpu = |reason| StreamBackend::cpu(reason, &self.pool);
        match choice {
            BackendChoice::Cpu => Ok(on_cpu("the configuration says so".to_owned())),
            BackendChoice::Vulkan => self.vulkan(device, true),
            BackendChoice::Auto => Ok(self
                .vulkan(device, false)
                .unwrap_or_else(|error| on_cpu(format!("no GPU: {}", chain(&error))))),
        }
    }

    /// Memory that this process uses on each GPU, in bytes, by device name.
    pub fn memory_bytes(&self) -> BTreeMap<String, u64> {
        #[cfg(feature = "vulkan")]
        return self.devices.memory_bytes();
        #[cfg(not(feature = "vulkan"))]
        return BTreeMap::new();
    }

    #[cfg(feature = "vulkan")]
    fn vulkan(&self, device: Option<&str>, required: bool) -> Result<StreamBackend, BackendError> {
        let reason = match (required, device) {
            (true, _) => "the configuration says so".to_owned(),
            (false, Some(name)) => format!("its name holds {name:?}"),
            (false, None) => "the first GPU".to_owned(),
        };
        let (pool, devices) = (Arc::clone(&self.pool), Arc::clone(&self.devices));
        let device = device.map(str::to_owned);
        let reopener = GpuReopener { pool, devices, device, reason, change_on: ChangeOn::Cpu };
        Ok(StreamBackend { required, ..reopener.open()? })
    }

    #[cfg(not(feature = "vulkan"))]
    #[expect(clippy::unused_self, reason = "the signature of the other build")]
    fn vulkan(
        &self,
        _device: Option<&str>,
        _required: bool,
    ) -> Result<StreamBackend, BackendError> {
        Err(BackendError::BuiltWithoutVulkan)
    }
}

/// The backend of one stream.
#[derive(Clone, Debug)]
pub struct StreamBackend {
    info: BackendInfo,
    pool: Arc<Pool>,
    /// `None` on the CPU.
    #[cfg(feature = "vulkan")]
    gpu: Option<Arc<Gpu>>,
    /// Reopens the GPU; `None` if the stream has always been on the CPU.
    reopener: Option<GpuReopener>,
    /// Whether a failing GPU is an error instead of a reason to use the CPU; only at the start.
    #[cfg(feature = "vulkan")]
    required: bool,
}

impl StreamBackend {
    /// The CPU, permanently, for `reason`.
    pub fn cpu(reason: String, pool: &Arc<Pool>) -> Self {
        let (kind, change_on) = (BackendKind::Cpu, ChangeSite::Cpu);
        Self {
            info: BackendInfo { kind, device: cpu_name(), reason, change_on },
            pool: Arc::clone(pool),
            #[cfg(feature = "vulkan")]
            gpu: None,
            reopener: None,
            #[cfg(feature = "vulkan")]
            required: false,
        }
    }

    /// The backend in use, and why.
    pub fn info(&self) -> &BackendInfo {
        &self.info
    }

    /// Changes the reason given for the backend in use.
    pub fn explain(&mut self, reason: String) {
        self.info.reason = reason;
    }

    /// Sets where changes are found. If a GPU is configured but the stream runs on the CPU, the CPU finds them.
    ///
    /// # Errors
    ///
    /// If a GPU is configured that has memory of its own.
    pub fn with_change_on(mut self, on: ChangeOn) -> Result<Self, BackendError> {
        self.info.change_on = self.change_site(on)?;
        #[cfg(feature = "vulkan")]
        if let Some(reopener) = &mut self.reopener {
            reopener.change_on = on;
        }
        Ok(self)
    }

    #[cfg(feature = "vulkan")]
    fn change_site(&self, on: ChangeOn) -> Result<ChangeSite, BackendError> {
        match (&self.gpu, on) {
            (Some(gpu), _) => change_site(on, gpu.summary()),
            (None, ChangeOn::Gpu) => Ok(self.change_on_cpu_instead()),
            (None, ChangeOn::Auto | ChangeOn::Cpu) => Ok(ChangeSite::Cpu),
        }
    }

    #[cfg(not(feature = "vulkan"))]
    #[expect(clippy::unnecessary_wraps, reason = "the signature of the other build")]
    fn change_site(&self, on: ChangeOn) -> Result<ChangeSite, BackendError> {
        Ok(if on == ChangeOn::Gpu { self.change_on_cpu_instead() } else { ChangeSite::Cpu })
    }

    fn change_on_cpu_instead(&self) -> ChangeSite {
        let reason = self.info.reason.as_str();
        tracing::warn!(reason, "finding changes on the CPU, because the pyramid is on the CPU");
        ChangeSite::Cpu
    }

    /// Builds a backend for frames of one kind. Falls back to the CPU if the frames are too large for the GPU, its
    /// memory is exhausted or it is lost.
    ///
    /// # Errors
    ///
    /// If a GPU is required and fails for the first kind.
    pub fn build(&mut self, kind: FrameKind) -> Result<Box<dyn Backend>, BackendError> {
        #[cfg(feature = "vulkan")]
        if let Some(gpu) = &self.gpu {
            let pool = self.pool.for_frames(kind.extent);
            match VulkanBackend::new(gpu, kind, self.info.change_on, &pool) {
                Ok(backend) => {
                    self.required = false;
                    return Ok(Box::new(backend));
                }
                Err(error) if self.required => return Err(error),
                Err(error) => self.fall_back(&error),
            }
        }
        Ok(self.build_on_cpu(kind))
    }

    /// Builds a batch of at most `size` pictures of one kind at a time. Falls back as [`build`](Self::build) does.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    #[cfg_attr(
        not(feature = "vulkan"),
        expect(unused_variables, reason = "the signature of the other build")
    )]
    pub fn batch(
        &mut self,
        kind: FrameKind,
        spec: ViewSpec,
        size: usize,
    ) -> Result<Batch, BackendError> {
        #[cfg(feature = "vulkan")]
        if let Some(gpu) = &self.gpu {
            match VulkanBatch::new(gpu, kind, &spec, size, &self.pool) {
                Ok(batch) => {
                    self.required = false;
                    return Ok(Batch::new(kind, spec, BatchBackend::Vulkan(Box::new(batch))));
                }
                Err(error) if self.required => return Err(error),
                Err(error) => self.fall_back(&error),
            }
        }
        Ok(self.batch_on_cpu(kind, spec))
    }

    fn batch_on_cpu(&self, kind: FrameKind, spec: ViewSpec) -> Batch {
        let place = BatchBackend::Cpu(CpuBatch::new(kind, &spec, &self.pool));
        Batch::new(kind, spec, place)
    }

    /// Builds `batch`, whose sampling failed with `error`, on the CPU, and falls back there unless another batch's failure was
    /// the reason already.
    pub fn move_to_cpu(&mut self, batch: &mut Batch, error: &BackendError) {
        if self.info.kind == BackendKind::Vulkan {
            self.fall_back(error);
            tracing::warn!(reason = self.info.reason, "continuing on the CPU");
        }
        *batch = self.batch_on_cpu(batch.kind(), batch.spec().clone());
    }

    /// Builds a backend on the CPU.
    pub fn build_on_cpu(&self, kind: FrameKind) -> Box<dyn Backend> {
        Box::new(CpuBackend::new(kind, &self.pool.for_frames(kind.extent)))
    }

    /// Falls back to the CPU because of `error`, which becomes the reason.
    pub fn fall_back(&mut self, error: &BackendError) {
        let reason = format!("{} failed: {}", self.info.device, chain(error));
        *self = Self { reopener: self.reopener.take(), ..Self::cpu(reason, &self.pool) };
    }

    /// Whether the backend's GPU is known to be lost, to this stream or another.
    pub fn is_lost(&self) -> bool {
        #[cfg(feature = "vulkan")]
        return self.gpu.as_ref().is_some_and(|gpu| gpu.is_lost());
        #[cfg(not(feature = "vulkan"))]
        return false;
    }

    /// Reopens the stream's GPU; `None` if the stream has always been on the CPU.
    pub fn reopener(&self) -> Option<GpuReopener> {
        self.reopener.clone()
    }
}

/// Reopens the GPU of a stream, on a thread that may block on the driver.
#[derive(Clone, Debug)]
pub struct GpuReopener {
    #[cfg(feature = "vulkan")]
    pool: Arc<Pool>,
    #[cfg(feature = "vulkan")]
    devices: Arc<Devices>,
    /// The name that was asked for, if any.
    #[cfg(feature = "vulkan")]
    device: Option<String>,
    /// Why the device was chosen.
    #[cfg(feature = "vulkan")]
    reason: String,
    #[cfg(feature = "vulkan")]
    change_on: ChangeOn,
}

/// A backend on a reopened GPU.
pub struct ReopenedGpu {
    /// The stream's choice from now on.
    pub chosen: StreamBackend,
    /// Built and warmed up, with no frame yet.
    pub backend: Box<dyn Backend>,
    /// A sampler for each entry of `views`.
    pub samplers: Vec<Sampler>,
    /// The views at the time of the attempt.
    pub views: Vec<SamplerSpec>,
}

impl GpuReopener {
    /// Builds a backend on the chosen device, which is reopened if it was lost.
    ///
    /// # Errors
    ///
    /// If there is no such device now, or a call fails.
    #[cfg(feature = "vulkan")]
    pub fn build(
        &self,
        kind: FrameKind,
        views: Vec<SamplerSpec>,
    ) -> Result<ReopenedGpu, BackendError> {
        let mut chosen = self.open()?;
        // A failure here fails this attempt, not the stream.
        chosen.required = true;
        let backend = chosen.build(kind)?;
        let make = backend.samplers();
        let samplers = views.iter().map(|spec| make(*spec)).collect::<Result<_, _>>()?;
        Ok(ReopenedGpu { chosen, backend, samplers, views })
    }

    /// Fails: this build has no Vulkan backend.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "vulkan"))]
    pub fn build(
        &self,
        _kind: FrameKind,
        _views: Vec<SamplerSpec>,
    ) -> Result<ReopenedGpu, BackendError> {
        Err(BackendError::BuiltWithoutVulkan)
    }

    /// Opens the device.
    #[cfg(feature = "vulkan")]
    fn open(&self) -> Result<StreamBackend, BackendError> {
        let gpu = self.devices.get(self.device.as_deref())?;
        let info = BackendInfo {
            kind: BackendKind::Vulkan,
            device: gpu.summary().name.clone(),
            reason: self.reason.clone(),
            change_on: change_site(self.change_on, gpu.summary())?,
        };
        let (pool, reopener) = (Arc::clone(&self.pool), Some(self.clone()));
        Ok(StreamBackend { info, pool, gpu: Some(gpu), reopener, required: false })
    }
}

/// Where changes are found when the pyramid is kept on `device`.
///
/// # Errors
///
/// If the device is configured and is not known to share the CPU's memory.
#[cfg(feature = "vulkan")]
fn change_site(on: ChangeOn, device: &DeviceSummary) -> Result<ChangeSite, BackendError> {
    match on {
        ChangeOn::Auto if device.kind == DeviceKind::Integrated => Ok(ChangeSite::Gpu),
        ChangeOn::Gpu if device.kind.shares_memory() => Ok(ChangeSite::Gpu),
        ChangeOn::Gpu => Err(BackendError::ChangeOnOwnMemory {
            device: device.name.clone(),
            kind: device.kind.to_string(),
        }),
        ChangeOn::Auto | ChangeOn::Cpu => Ok(ChangeSite::Cpu),
    }
}

/// The processor's name, as the kernel gives it.
fn cpu_name() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(all(test, feature = "vulkan"))]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_share_the_memory_of_the_cpu_find_changes() {
        let kinds = [
            (DeviceKind::Discrete, ChangeSite::Cpu, None),
            (DeviceKind::Integrated, ChangeSite::Gpu, Some(ChangeSite::Gpu)),
            (DeviceKind::Virtual, ChangeSite::Cpu, None),
            (DeviceKind::Software, ChangeSite::Cpu, Some(ChangeSite::Gpu)),
            (DeviceKind::Other, ChangeSite::Cpu, None),
        ];
        for (kind, auto, gpu) in kinds {
            let device = DeviceSummary {
                name: "Thing 9000".to_owned(),
                kind,
                driver_name: String::new(),
                driver_version: String::new(),
                api_version: "1.3.0".to_owned(),
                memory_bytes: 0,
                unusable: None,
            };
            assert_eq!(change_site(ChangeOn::Auto, &device).unwrap(), auto, "{kind}");
            assert_eq!(change_site(ChangeOn::Cpu, &device).unwrap(), ChangeSite::Cpu, "{kind}");
            match (change_site(ChangeOn::Gpu, &device), gpu) {
                (Ok(site), Some(expected)) => assert_eq!(site, expected, "{kind}"),
                (Err(error), None) => {
                    let text = chain(&error);
                    for part in ["Thing 9000", &kind.to_string(), "`on`", "\"auto\" or \"cpu\""] {
                        assert!(text.contains(part), "{part:?} is missing in {text}");
                    }
                }
                (found, expected) => panic!("{kind}: {found:?} for {expected:?}"),
            }
        }
    }
}
