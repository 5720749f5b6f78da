//! A small Vulkan library for compute: one device per process, buffers, images, passes, and a recorder that derives barriers from
//! how passes declare their bindings.
//!
//! It knows nothing of tiles or tokens, and is the only crate that uses `ash`. Its interface is safe: objects are owned, and
//! [`Lane::run`] returns only when the device has finished with everything that was recorded.
//!
//! The Vulkan loader is opened at run time, so programs that link this start without one.

#![allow(unsafe_code, reason = "Vulkan is a C interface; every block states why it is sound")]

mod access;
mod buffer;
mod choice;
mod clock;
mod device;
mod error;
mod faults;
mod host_memory;
mod image;
mod import;
mod instance;
mod lane;
mod pass;
mod recorder;
mod timing;

pub use buffer::{Buffer, BufferKind};
pub use choice::{DeviceKind, DeviceSummary};
pub use device::{Gpu, chosen_device, devices};
pub use error::GpuError;
pub use image::Image;
pub use import::{HostBuffer, HostTarget};
pub use instance::ValidationLog;
pub use lane::Lane;
pub use pass::{BindingKind, ComputePass, ComputePassDesc, Shader};
pub use recorder::{Binding, GROUPS_PER_ROW, Groups, Recorder};
