//! Which retina a stream gets, and why.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "vulkan")]
use crate::gpu::{DeviceChoice, Gpu, GpuError};

use super::cpu::CpuRetina;
use super::{Retina, RetinaError, ViewSpec};
use crate::color::ColorTransform;
use crate::frame::PixelFormat;
use crate::geometry::extent::Extent;
