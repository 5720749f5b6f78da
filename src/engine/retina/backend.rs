//! Which retina a stream gets, why, and how it gets back to a GPU that it had to leave.

use std::collections::BTreeMap;
#[cfg(feature = "vulkan")]
use std::sync::Arc;

use super::cpu::CpuRetina;
#[cfg(feature = "vulkan")]
use super::devices::Devices;
#[cfg(feature = "vulkan")]
use super::vulkan::VulkanRetina;
#[cfg(feature = "vulkan")]
use super::vulkan::detecting::VulkanDetectingRetina;
use super::{DetectingRetina, Retina, RetinaError, ViewSpec};
use foveate_config::{BackendChoice, ChangeOn};
use foveate_core::backend::{Backend, BackendKind, ChangeSite};
use foveate_core::error::chain;
use foveate_core::frame::FrameKind;
#[cfg(feature = "vulkan")]
use foveate_gpu::{DeviceChoice, DeviceKind, DeviceSummary, Gpu, GpuError};

/// The GPUs that this process has open: each once, whatever the number of streams on it and the words that they choose
/// it by. One that was lost is opened anew.
#[derive(Debug, Default)]
pub struct Backends {
    #[cfg(feature = "vulkan")]
    devices: Arc<Devices>,
}

impl Backends {
    /// With another way to open devices than [`Gpu::open`]: for tests, which lose them and refuse to open them again.
    #[cfg(feature = "vulkan")]
    pub fn opening_with(
        open: impl Fn(&DeviceChoice) -> Result<Arc<Gpu>, GpuError> + Send + Sync + 'static,
    ) -> Self {
        Self { devices: Arc::new(Devices::new(Box::new(open))) }
    }

    /// Chooses for one stream, whose changes the CPU finds unless
    /// [told otherwise](StreamBackend::finding_changes_on). `auto` takes the named device or a real GPU if there is one,
    /// and otherwise the CPU.
    ///
    /// # Errors
    ///
    /// If Vulkan is insisted on and there is no such device.
    pub fn choose(
        &self,
        choice: BackendChoice,
        device: Option<&str>,
    ) -> Result<StreamBackend, RetinaError> {
        match choice {
            BackendChoice::Cpu => Ok(StreamBackend::cpu("the configuration says so".to_owned())),
            BackendChoice::Vulkan => self.vulkan(device, true),
            BackendChoice::Auto => {
                let on_cpu =
                    |error: RetinaError| StreamBackend::cpu(format!("no GPU: {}", chain(&error)));
                Ok(self.vulkan(device, false).unwrap_or_else(on_cpu))
            }
        }
    }

    /// Memory that this process has of each GPU, in bytes, by the name of the device.
    #[cfg(feature = "vulkan")]
    pub fn memory_bytes(&self) -> BTreeMap<String, u64> {
        self.devices.memory_bytes()
    }

    /// Memory that this process has of each GPU: of none, in this build.
    #[cfg(not(feature = "vulkan"))]
    pub fn memory_bytes(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    #[cfg(feature = "vulkan")]
    fn vulkan(&self, device: Option<&str>, insisted: bool) -> Result<StreamBackend, RetinaError> {
        let reason = match (insisted, device) {
            (true, _) => "the configuration says so".to_owned(),
            (false, Some(name)) => format!("its name holds {name:?}"),
            (false, None) => "the first real GPU".to_owned(),
        };
        let choice = device.map_or(DeviceChoice::Auto, |name| DeviceChoice::Named(name.to_owned()));
        let devices = Arc::clone(&self.devices);
        let way = WayBack { devices, choice, reason, change_on: ChangeOn::Cpu };
        let backend = way.reach()?;
        Ok(StreamBackend { insisted, ..backend })
    }

    #[cfg(not(feature = "vulkan"))]
    #[expect(clippy::unused_self, reason = "the signature of the other build")]
    fn vulkan(&self, _device: Option<&str>, _insisted: bool) -> Result<StreamBackend, RetinaError> {
        Err(RetinaError::BuiltWithoutVulkan)
    }
}

/// A retina, by who finds the tiles that it ingests.
pub enum BuiltRetina {
    /// Is told which.
    Told(Box<dyn Retina>),
    /// Finds them itself.
    Detecting(Box<dyn DetectingRetina>),
}

/// What one stream runs on.
#[derive(Debug)]
pub struct StreamBackend {
    backend: Backend,
    /// `None` on the CPU.
    #[cfg(feature = "vulkan")]
    gpu: Option<Arc<Gpu>>,
    /// How its GPU is reached; `None` where it never had one.
    way: Option<WayBack>,
    /// Whether to fail rather than to go on on the CPU when the GPU refuses; only at the start.
    #[cfg(feature = "vulkan")]
    insisted: bool,
}

impl StreamBackend {
    /// The CPU, for `reason`, and for good.
    pub fn cpu(reason: String) -> Self {
        Self {
            backend: Backend {
                kind: BackendKind::Cpu,
                device: cpu_name(),
                reason,
                change_on: ChangeSite::Cpu,
            },
            #[cfg(feature = "vulkan")]
            gpu: None,
            way: None,
            #[cfg(feature = "vulkan")]
            insisted: false,
        }
    }

    /// The backend in use, and why.
    pub fn describe(&self) -> &Backend {
        &self.backend
    }

    /// Gives another reason for the backend in use.
    pub fn explain(&mut self, reason: String) {
        self.backend.reason = reason;
    }

    /// Settles where changes are found. Where a GPU is asked for and the backend gave way to the CPU, that finds them.
    ///
    /// # Errors
    ///
    /// If a GPU is asked for that has memory of its own.
    pub fn finding_changes_on(mut self, on: ChangeOn) -> Result<Self, RetinaError> {
        self.backend.change_on = self.change_site(on)?;
        #[cfg(feature = "vulkan")]
        if let Some(way) = &mut self.way {
            way.change_on = on;
        }
        Ok(self)
    }

    #[cfg(feature = "vulkan")]
    fn change_site(&self, on: ChangeOn) -> Result<ChangeSite, RetinaError> {
        match (&self.gpu, on) {
            (Some(gpu), _) => change_site(on, gpu.summary()),
            (None, ChangeOn::Gpu) => Ok(self.change_on_cpu_instead()),
            (None, ChangeOn::Auto | ChangeOn::Cpu) => Ok(ChangeSite::Cpu),
        }
    }

    #[cfg(not(feature = "vulkan"))]
    #[expect(clippy::unnecessary_wraps, reason = "the signature of the other build")]
    fn change_site(&self, on: ChangeOn) -> Result<ChangeSite, RetinaError> {
        Ok(if on == ChangeOn::Gpu { self.change_on_cpu_instead() } else { ChangeSite::Cpu })
    }

    fn change_on_cpu_instead(&self) -> ChangeSite {
        let reason = self.backend.reason.as_str();
        tracing::warn!(reason, "changes are found on the CPU, as the pyramid is kept there");
        ChangeSite::Cpu
    }

    /// Builds a retina for frames of one kind. A GPU that refuses them, because they are too large for it, its memory is
    /// spent or it is lost, gives way to the CPU.
    ///
    /// # Errors
    ///
    /// If the GPU was insisted on and refuses the first.
    pub fn build(
        &mut self,
        kind: FrameKind,
        views: &[ViewSpec],
    ) -> Result<BuiltRetina, RetinaError> {
        #[cfg(feature = "vulkan")]
        if let Some(gpu) = &self.gpu {
            match self.build_on(gpu, kind, views) {
                Ok(retina) => {
                    self.insisted = false;
                    return Ok(retina);
                }
                Err(error) if self.insisted => return Err(error),
                Err(error) => self.fall_back(&error),
            }
        }
        Ok(BuiltRetina::Told(Self::build_on_cpu(kind, views)))
    }

    /// Builds a retina on the CPU.
    pub fn build_on_cpu(kind: FrameKind, views: &[ViewSpec]) -> Box<dyn Retina> {
        Box::new(CpuRetina::new(kind, views))
    }

    #[cfg(feature = "vulkan")]
    fn build_on(
        &self,
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        views: &[ViewSpec],
    ) -> Result<BuiltRetina, RetinaError> {
        Ok(match self.backend.change_on {
            ChangeSite::Cpu => BuiltRetina::Told(Box::new(VulkanRetina::new(gpu, kind, views)?)),
            ChangeSite::Gpu => {
                BuiltRetina::Detecting(Box::new(VulkanDetectingRetina::new(gpu, kind, views)?))
            }
        })
    }

    /// Goes on on the CPU because of `error`, which becomes the reason.
    pub fn fall_back(&mut self, error: &RetinaError) {
        let reason = format!("{} failed: {}", self.backend.device, chain(error));
        *self = Self { way: self.way.take(), ..Self::cpu(reason) };
    }

    /// Whether its GPU was seen to be lost, by this stream or by another.
    pub fn is_lost(&self) -> bool {
        #[cfg(feature = "vulkan")]
        return self.gpu.as_ref().is_some_and(|gpu| gpu.is_lost());
        #[cfg(not(feature = "vulkan"))]
        return false;
    }

    /// How it gets back to a GPU; `None` where it never had one.
    pub fn way_back(&self) -> Option<WayBack> {
        self.way.clone()
    }
}

/// How a stream reaches its GPU again, on whatever thread may wait for a driver.
#[derive(Clone, Debug)]
pub struct WayBack {
    #[cfg(feature = "vulkan")]
    devices: Arc<Devices>,
    #[cfg(feature = "vulkan")]
    choice: DeviceChoice,
    /// Why that device.
    #[cfg(feature = "vulkan")]
    reason: String,
    #[cfg(feature = "vulkan")]
    change_on: ChangeOn,
}

/// A retina on a GPU that was reached again.
pub struct Regained {
    /// What the stream runs on if it takes it.
    pub backend: StreamBackend,
    /// Built and warm, and not filled.
    pub retina: BuiltRetina,
    /// The frames that it was built for.
    pub kind: FrameKind,
    /// The views that it was built for.
    pub views: Vec<ViewSpec>,
}

impl WayBack {
    /// Builds a retina on the chosen device, which is opened anew if it was lost.
    ///
    /// # Errors
    ///
    /// If there is no such device now, or it refuses.
    #[cfg(feature = "vulkan")]
    pub fn build(&self, kind: FrameKind, views: Vec<ViewSpec>) -> Result<Regained, RetinaError> {
        let mut backend = self.reach()?;
        // What fails here fails this try, and not the stream.
        backend.insisted = true;
        let retina = backend.build(kind, &views)?;
        Ok(Regained { backend, retina, kind, views })
    }

    /// Builds nothing: no stream of this build was ever on a GPU.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "vulkan"))]
    pub fn build(&self, _kind: FrameKind, _views: Vec<ViewSpec>) -> Result<Regained, RetinaError> {
        Err(RetinaError::BuiltWithoutVulkan)
    }

    /// The device, in use.
    #[cfg(feature = "vulkan")]
    fn reach(&self) -> Result<StreamBackend, RetinaError> {
        let gpu = self.devices.get(&self.choice)?;
        let backend = Backend {
            kind: BackendKind::Vulkan,
            device: gpu.summary().name.clone(),
            reason: self.reason.clone(),
            change_on: change_site(self.change_on, gpu.summary())?,
        };
        Ok(StreamBackend { backend, gpu: Some(gpu), way: Some(self.clone()), insisted: false })
    }
}

/// Where changes are found when the pyramid is kept on `device`.
///
/// # Errors
///
/// If that is asked for and is not known to share the CPU's memory.
#[cfg(feature = "vulkan")]
pub fn change_site(on: ChangeOn, device: &DeviceSummary) -> Result<ChangeSite, RetinaError> {
    match on {
        ChangeOn::Auto if device.kind == DeviceKind::Integrated => Ok(ChangeSite::Gpu),
        ChangeOn::Gpu if device.kind.shares_memory() => Ok(ChangeSite::Gpu),
        ChangeOn::Gpu => Err(RetinaError::ChangeOnOwnMemory {
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
