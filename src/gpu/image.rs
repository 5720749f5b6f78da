//! Arrays of mipmapped images with four unsigned bytes a texel.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};

use super::access::AccessHistory;
use super::device::Gpu;
use super::error::{GpuError, VkResultExt};
use foveate_core::geometry::extent::Extent;

/// Unsigned integers: fetches return exactly what was stored.
const FORMAT: vk::Format = vk::Format::R8G8B8A8_UINT;

/// A Vulkan image with layers and mip levels, its views and its memory.
///
/// Passes write one level of all layers per binding, and fetch from all levels through one. Mip extents are rounded down, as Vulkan's are.
/// Dropping it is sound for the same reason as for [`Buffer`](super::Buffer).
pub struct Image {
    pub(super) raw: vk::Image,
    /// A view of each level, for stores.
    level_views: Vec<vk::ImageView>,
    /// A view of all levels, for fetches.
    pub(super) whole_view: vk::ImageView,
    /// `Some` until `drop`.
    allocation: Option<Allocation>,
    is_initialised: Cell<bool>,
    pub(super) history: Cell<AccessHistory>,
    pub(super) gpu: Arc<Gpu>,
}

impl Image {
    /// Creates an image of `layer_count` layers whose level 0 has `extent` texels; `name` shows up in captures and error messages.
    ///
    /// # Errors
    ///
    /// If it exceeds the device's limit, or there is no memory.
    pub fn new(
        gpu: &Arc<Gpu>,
        name: &str,
        extent: Extent,
        level_count: u32,
        layer_count: u32,
    ) -> Result<Self, GpuError> {
        gpu.check_image_side(name, extent.longer_side())?;
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(FORMAT)
            .extent(vk::Extent3D { width: extent.width, height: extent.height, depth: 1 })
            .mip_levels(level_count)
            .array_layers(layer_count)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(
                vk::ImageUsageFlags::STORAGE
                    | vk::ImageUsageFlags::SAMPLED
                    | vk::ImageUsageFlags::TRANSFER_SRC,
            );
        // SAFETY: `info` is valid; Vulkan requires these uses of the format, and the side was checked.
        let raw = unsafe { gpu.raw().create_image(&info, None) }.during("vkCreateImage")?;
        // From here on `image` owns `raw`, so every early return cleans up.
        let mut image = Self {
            raw,
            level_views: Vec::new(),
            whole_view: vk::ImageView::null(),
            allocation: None,
            is_initialised: Cell::new(false),
            history: Cell::default(),
            gpu: Arc::clone(gpu),
        };
        image.bind_memory(name)?;
        image.whole_view = image.create_view(0, level_count)?;
        for level in 0..level_count {
            let view = image.create_view(level, 1)?;
            image.level_views.push(view);
        }
        image.gpu.set_name(raw, name);
        Ok(image)
    }

    fn bind_memory(&mut self, name: &str) -> Result<(), GpuError> {
        let device = self.gpu.raw();
        // SAFETY: `raw` was created from this device.
        let requirements = unsafe { device.get_image_memory_requirements(self.raw) };
        let allocation = self.gpu.allocate(&AllocationCreateDesc {
            name,
            requirements,
            location: MemoryLocation::GpuOnly,
            linear: false,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        })?;
        let allocation = self.allocation.insert(allocation);
        // SAFETY: the allocation outlives the binding: `drop` frees it after the image.
        let memory = unsafe { allocation.memory() };
        // SAFETY: the memory was allocated for this image's requirements and is not yet bound.
        unsafe { device.bind_image_memory(self.raw, memory, allocation.offset()) }
            .during("vkBindImageMemory")
    }

    fn create_view(&self, first_level: u32, level_count: u32) -> Result<vk::ImageView, GpuError> {
        let range =
            vk::ImageSubresourceRange { base_mip_level: first_level, level_count, ..color_range() };
        let info = vk::ImageViewCreateInfo::default()
            .image(self.raw)
            .view_type(vk::ImageViewType::TYPE_2D_ARRAY)
            .format(FORMAT)
            .subresource_range(range);
        // SAFETY: the image has memory and the levels of the range.
        unsafe { self.gpu.raw().create_image_view(&info, None) }.during("vkCreateImageView")
    }

    pub(super) fn level_view(&self, level: u32) -> vk::ImageView {
        self.level_views[level as usize]
    }

    /// Returns whether its layout transition was already recorded; otherwise the caller must record it.
    pub(super) fn initialise(&self) -> bool {
        self.is_initialised.replace(true)
    }
}

/// All levels and layers of a colour image.
pub(super) fn color_range() -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: vk::REMAINING_MIP_LEVELS,
        base_array_layer: 0,
        layer_count: vk::REMAINING_ARRAY_LAYERS,
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let device = self.gpu.raw();
        for &view in self.level_views.iter().chain([&self.whole_view]) {
            // SAFETY: no submission that uses the view is pending, as `Lane::run` waits for its own.
            unsafe { device.destroy_image_view(view, None) };
        }
        // SAFETY: as above, and its views are gone.
        unsafe { device.destroy_image(self.raw, None) };
        if let Some(allocation) = self.allocation.take() {
            self.gpu.free(allocation);
        }
    }
}
