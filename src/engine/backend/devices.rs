//! The GPUs that this process has open.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::BackendError;
use foveate_gpu::{DeviceSummary, Gpu, GpuError, chosen_device};

/// How long a stream waits while the driver opens a device for another stream. Drivers answer within a second or two,
/// even after a device reset.
const PATIENCE: Duration = Duration::from_secs(3);

/// Opens a device by its name.
type Open = dyn Fn(Option<&str>) -> Result<Arc<Gpu>, GpuError> + Send + Sync;

/// Devices, each open once, however many streams use it and however they name it. A lost one is forgotten, and opened
/// again for the next stream that needs it.
pub(super) struct Devices {
    open_anew: Box<Open>,
    /// Never held across a driver call, which may hang.
    open: Mutex<Vec<Arc<Gpu>>>,
    /// Held while the driver opens a device, so that two streams that need the same one open it once.
    asking: Mutex<()>,
}

impl Devices {
    /// No open devices.
    pub(super) fn new(open_anew: Box<Open>) -> Self {
        Self { open_anew, open: Mutex::default(), asking: Mutex::default() }
    }

    /// The device that [`Gpu::open`] gives for `name`, opened if necessary.
    pub(super) fn get(&self, name: Option<&str>) -> Result<Arc<Gpu>, BackendError> {
        let asking = self.asking.try_lock_for(PATIENCE);
        let _asking = asking.ok_or(BackendError::DriverBusy { seconds: PATIENCE.as_secs() })?;
        self.forget_lost();
        let chosen = chosen_device(name)?;
        if let Some(gpu) = self.find(&chosen) {
            return Ok(gpu);
        }
        let gpu = (self.open_anew)(name)?;
        self.open.lock().push(Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Memory that this process uses on each device, in bytes, by name; without lost devices.
    pub(super) fn memory_bytes(&self) -> BTreeMap<String, u64> {
        let mut memory = BTreeMap::new();
        for gpu in self.open.lock().iter().filter(|gpu| !gpu.is_lost()) {
            *memory.entry(gpu.summary().name.clone()).or_default() += gpu.memory_bytes();
        }
        memory
    }

    /// Among identical devices the first is always chosen.
    fn find(&self, chosen: &DeviceSummary) -> Option<Arc<Gpu>> {
        self.open.lock().iter().find(|gpu| gpu.summary() == chosen).cloned()
    }

    fn forget_lost(&self) {
        let lost: Vec<_> = self.open.lock().extract_if(.., |gpu| gpu.is_lost()).collect();
        // After unlocking: dropping the last reference calls the driver.
        drop(lost);
    }
}

impl Default for Devices {
    fn default() -> Self {
        Self::new(Box::new(Gpu::open))
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").field("open", &self.open).finish_non_exhaustive()
    }
}
