//! The Vulkan device that tests run on, under the validation layer.
//!
//! `FOVEATE_TEST_DEVICE` names the device; without it the first usable one is taken, software included. Where there is
//! none, tests fail, or are left out if `FOVEATE_WITHOUT_VULKAN=1`. Where there is no validation layer they fail, too, or run
//! without it if `FOVEATE_WITHOUT_VALIDATION=1`.

use std::env;
use std::sync::{Arc, OnceLock};

use foveate_gpu::{Gpu, ValidationLog};

use crate::left_out::is_left_out;

/// Leaves tests out that need a device.
pub const WITHOUT: &str = "FOVEATE_WITHOUT_VULKAN";

/// Runs tests without the validation layer.
const WITHOUT_VALIDATION: &str = "FOVEATE_WITHOUT_VALIDATION";

/// Runs a test on the device that all tests of the process share, and fails it on any validation message.
pub fn with_gpu(test: impl FnOnce(&Arc<Gpu>)) {
    static GPU: OnceLock<Arc<Gpu>> = OnceLock::new();
    if !is_left_out(WITHOUT) {
        let gpu = GPU.get_or_init(open);
        test(gpu);
        assert_empty(gpu.validation_log().as_deref());
    }
}

/// Runs a test on a device of its own, closes it, and fails the test on any validation message, such as that something
/// outlives the device.
pub fn with_own_gpu(test: impl FnOnce(&Arc<Gpu>)) {
    if !is_left_out(WITHOUT) {
        let gpu = open();
        test(&gpu);
        let log = gpu.validation_log();
        drop(Arc::into_inner(gpu).expect("the test keeps no owner of the device"));
        assert_empty(log.as_deref());
    }
}

/// The name of the device that tests run on; empty for the first.
pub fn name() -> String {
    env::var("FOVEATE_TEST_DEVICE").unwrap_or_default()
}

fn open() -> Arc<Gpu> {
    let is_without = env::var_os(WITHOUT_VALIDATION).is_some_and(|value| value == "1");
    let open = if is_without { Gpu::open } else { Gpu::open_validated };
    open(Some(&name()))
        .unwrap_or_else(|error| panic!("{error}; {WITHOUT}=1 leaves these tests out"))
}

/// Asserts that the log has no messages; `None` if validation is off.
fn assert_empty(log: Option<&ValidationLog>) {
    if let Some(log) = log
        && let Some(message) = log.first()
    {
        panic!("the first of {} validation messages: {message}", log.count());
    }
}
