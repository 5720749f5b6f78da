//! The Vulkan device that tests run on, always under the validation layer.
//!
//! `FOVEATE_TEST_DEVICE` names the device; without it the first usable one is taken, software included. Where there is
//! none, tests say that they did not run, or fail if `FOVEATE_REQUIRE_VULKAN=1`.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::env;
use std::io::{Write, stderr};
use std::sync::{Arc, OnceLock};

use foveate_gpu::{DeviceChoice, Gpu, Validation, ValidationLog};

/// Runs a test on the device that all tests of the process share, and fails it on any validation message.
pub fn with_gpu(test: impl FnOnce(&Arc<Gpu>)) {
    static GPU: OnceLock<Option<Arc<Gpu>>> = OnceLock::new();
    if let Some(gpu) = GPU.get_or_init(open) {
        test(gpu);
        assert_empty(&gpu.validation_log().expect("tests run under validation"));
    }
}

/// Runs a test on a device of its own, closes it, and fails the test on any validation message, such as that something
/// outlives the device.
pub fn with_own_gpu(test: impl FnOnce(&Arc<Gpu>)) {
    if let Some(gpu) = open() {
        test(&gpu);
        let log = gpu.validation_log().expect("tests run under validation");
        drop(Arc::into_inner(gpu).expect("the test keeps nothing that holds the device"));
        assert_empty(&log);
    }
}

/// Which device tests run on.
pub fn choice() -> DeviceChoice {
    DeviceChoice::Named(env::var("FOVEATE_TEST_DEVICE").unwrap_or_default())
}

fn open() -> Option<Arc<Gpu>> {
    match Gpu::open_with(&choice(), Validation::On) {
        Ok(gpu) => Some(gpu),
        Err(error) if env::var_os("FOVEATE_REQUIRE_VULKAN").is_some_and(|value| value == "1") => {
            panic!("FOVEATE_REQUIRE_VULKAN=1, but: {error}")
        }
        Err(error) => {
            // Not through a macro: the test harness would swallow it.
            let _ = writeln!(stderr(), "\n*** A VULKAN TEST DID NOT RUN: {error} ***\n");
            None
        }
    }
}

fn assert_empty(log: &ValidationLog) {
    if let Some(message) = log.first() {
        panic!("the first of {} validation messages: {message}", log.count());
    }
}
