//! The Vulkan loader, the instances of the process, and validation on request.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ash::vk;
use parking_lot::RwLock;

use super::error::{GpuError, VkResultExt};

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

pub(super) const API_VERSION: u32 = vk::API_VERSION_1_3;

/// The instances of this process, without validation and with it, shared by all devices.
///
/// Naming an object makes the Vulkan loader walk all instances, drivers and devices, which it may be making or destroying for another
/// thread. So that happens under the write lock, which costs no concurrency since the loader takes a lock of its own, and objects are
/// named under the read lock.
static SHARED: RwLock<[Option<Arc<Instance>>; 2]> = RwLock::new([None, None]);

/// Looks for devices, and may create one, with the instance of this process, which is made for its first user.
///
/// If `action` fails and nothing else uses the instance, it is destroyed: the next call finds drivers that were installed or
/// replaced since.
pub(super) fn with_shared<T>(
    is_validated: bool,
    action: impl FnOnce(&Arc<Instance>) -> Result<T, GpuError>,
) -> Result<T, GpuError> {
    let mut shared = SHARED.write();
    let slot = &mut shared[usize::from(is_validated)];
    let instance = match slot.take() {
        Some(instance) => instance,
        None => Arc::new(Instance::new(is_validated)?),
    };
    let result = action(&instance);
    if result.is_ok() || Arc::strong_count(&instance) > 1 {
        *slot = Some(instance);
    }
    result
}

/// Held while a device is destroyed.
pub(super) fn lock_for_destruction() -> impl Drop {
    SHARED.write()
}

/// Held while an object is named.
pub(super) fn lock_for_naming() -> impl Drop {
    SHARED.read()
}

/// A Vulkan instance and the loader it came from.
pub(super) struct Instance {
    pub(super) raw: ash::Instance,
    messenger: Option<Messenger>,
    /// Keeps the library loaded for as long as its functions may be called.
    entry: ash::Entry,
}

impl Instance {
    /// Opens the loader; if `is_validated`, enables the validation layer and its synchronization checks.
    fn new(is_validated: bool) -> Result<Self, GpuError> {
        // SAFETY: this runs the initialisers of the system's Vulkan loader, which have no preconditions.
        let entry =
            unsafe { ash::Entry::load() }.map_err(|source| GpuError::LoaderMissing { source })?;
        if is_validated && !has_validation_layer(&entry)? {
            return Err(GpuError::ValidationLayerMissing);
        }
        let raw = create(&entry, is_validated)?;
        // From here on `instance` owns `raw`, so every early return cleans up.
        let mut instance = Self { raw, messenger: None, entry };
        if is_validated {
            instance.messenger = Some(Messenger::new(&instance.entry, &instance.raw)?);
        }
        Ok(instance)
    }

    pub(super) fn entry(&self) -> &ash::Entry {
        &self.entry
    }

    pub(super) fn validation_log(&self) -> Option<&Arc<ValidationLog>> {
        self.messenger.as_ref().map(|messenger| &messenger.log)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("raw", &self.raw.handle()).finish_non_exhaustive()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.messenger.take());
        // SAFETY: whatever was created from the instance holds it in an `Arc` or is dropped before it.
        unsafe { self.raw.destroy_instance(None) };
    }
}

fn create(entry: &ash::Entry, is_validated: bool) -> Result<ash::Instance, GpuError> {
    let application =
        vk::ApplicationInfo::default().application_name(c"foveate").api_version(API_VERSION);
    let layers = [VALIDATION_LAYER.as_ptr()];
    let extensions =
        [ash::ext::debug_utils::NAME.as_ptr(), ash::ext::validation_features::NAME.as_ptr()];
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);

    let mut info = vk::InstanceCreateInfo::default().application_info(&application);
    if is_validated {
        info = info
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
    }
    // SAFETY: `info` and all that it points to are valid, and the layer, which has the extensions, exists.
    match unsafe { entry.create_instance(&info, None) } {
        Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => Err(GpuError::DriverMissing),
        result => result.during("vkCreateInstance"),
    }
}

fn has_validation_layer(entry: &ash::Entry) -> Result<bool, GpuError> {
    // SAFETY: the call has no preconditions.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .during("vkEnumerateInstanceLayerProperties")?;
    Ok(layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)))
}

/// Warnings and errors of the validation layer, other than performance advice.
#[derive(Debug, Default)]
pub struct ValidationLog {
    count: AtomicU64,
    first: OnceLock<String>,
}

impl ValidationLog {
    /// Number of validation messages.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The first message; later ones often follow from it.
    pub fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    fn add(&self, message: &str) {
        tracing::warn!(target: "vulkan", "{message}");
        self.first.get_or_init(|| message.to_owned());
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Receives the messages of the validation layer.
struct Messenger {
    functions: ash::ext::debug_utils::Instance,
    raw: vk::DebugUtilsMessengerEXT,
    /// The log, to which `count_message` adds through a plain pointer.
    log: Arc<ValidationLog>,
}

impl Messenger {
    fn new(entry: &ash::Entry, instance: &ash::Instance) -> Result<Self, GpuError> {
        let functions = ash::ext::debug_utils::Instance::new(entry, instance);
        let log = Arc::<ValidationLog>::default();
        let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::WARNING
                    | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
            )
            // No performance advice: images stay in the general layout on purpose.
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(count_message))
            .user_data(Arc::as_ptr(&log).cast_mut().cast());
        // SAFETY: the callback matches its type, and `log` outlives the messenger.
        let raw = unsafe { functions.create_debug_utils_messenger(&info, None) }
            .during("vkCreateDebugUtilsMessengerEXT")?;
        Ok(Self { functions, raw, log })
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        // SAFETY: created from the same instance, which `Instance::drop` destroys afterwards.
        unsafe { self.functions.destroy_debug_utils_messenger(self.raw, None) };
    }
}

/// # Safety
///
/// `data` must be null or valid as Vulkan defines it, `log` must point to a `ValidationLog`.
unsafe extern "system" fn count_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    log: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: `Messenger::new` passed a pointer to the log, which lives as long as the messenger.
    let log = unsafe { &*log.cast::<ValidationLog>() };
    // SAFETY: the layer passes valid data, or null.
    let message = unsafe { data.as_ref() }.map(|data| data.p_message);
    if let Some(message) = message.filter(|message| !message.is_null()) {
        // SAFETY: a non-null message is a NUL-terminated string.
        let message = unsafe { CStr::from_ptr(message) };
        log.add(&message.to_string_lossy());
    }
    vk::FALSE
}
