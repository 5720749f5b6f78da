//! Compute passes: a shader, its bindings and its descriptor set.

use std::cell::Cell;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;

use ash::vk;

use super::device::Gpu;
use super::error::{GpuError, VkResultExt};

/// Most bindings of a pass.
pub(super) const BINDINGS_MAX: usize = 12;

/// Push constants that every device supports, in bytes.
const PUSH_BYTES_MAX: usize = 128;

/// Type of a binding of set 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingKind {
    /// `buffer`
    Buffer,
    /// `uimage2D`, one level of an image
    StorageLevel,
    /// `utexture2D`, all levels of an image
    FetchedImage,
}

impl BindingKind {
    pub(super) fn descriptor_type(self) -> vk::DescriptorType {
        match self {
            Self::Buffer => vk::DescriptorType::STORAGE_BUFFER,
            Self::StorageLevel => vk::DescriptorType::STORAGE_IMAGE,
            Self::FetchedImage => vk::DescriptorType::SAMPLED_IMAGE,
        }
    }
}

/// A compute shader in SPIR-V, with the entry point `main`.
#[derive(Clone, Copy)]
pub struct Shader(&'static [u8]);

impl Shader {
    /// Wraps `spirv`.
    ///
    /// # Safety
    ///
    /// `spirv` must be valid SPIR-V for Vulkan 1.3, as from `glslc --target-env=vulkan1.3`, and every [`ComputePassDesc`] that names it
    /// must state its bindings, specialization constants and push constant size as the shader declares them.
    pub const unsafe fn new(spirv: &'static [u8]) -> Self {
        Self(spirv)
    }

    /// The SPIR-V code.
    pub const fn spirv(self) -> &'static [u8] {
        self.0
    }
}

impl fmt::Debug for Shader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shader").field("bytes", &self.0.len()).finish()
    }
}

/// Description of a compute pass.
#[derive(Clone, Copy, Debug)]
pub struct ComputePassDesc<'a> {
    /// Shows up in captures and error messages.
    pub name: &'a str,
    /// The compiled shader.
    pub shader: Shader,
    /// Bindings 0, 1, 2 ... of set 0.
    pub bindings: &'a [BindingKind],
    /// Values of the specialization constants 0, 1, 2 ...
    pub constants: &'a [u32],
    /// Bytes of push constants, at most 128.
    pub push_bytes: usize,
}

/// A compute pipeline and its one descriptor set: recorded at most once in a submission.
pub struct ComputePass {
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    set_layout: vk::DescriptorSetLayout,
    pool: vk::DescriptorPool,
    pub(super) set: vk::DescriptorSet,
    pub(super) bindings: Vec<BindingKind>,
    pub(super) push_bytes: usize,
    /// Number of the last submission that this pass was recorded in.
    recorded_in: Cell<u64>,
    /// Position of the pass in that submission.
    place: Cell<usize>,
    gpu: Arc<Gpu>,
}

impl ComputePass {
    /// Compiles the pass, or reuses an equal one from the cache. Some drivers compile only at the first dispatch.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new(gpu: &Arc<Gpu>, desc: &ComputePassDesc<'_>) -> Result<Self, GpuError> {
        assert!(desc.bindings.len() <= BINDINGS_MAX, "{}: too many bindings", desc.name);
        assert!(desc.push_bytes <= PUSH_BYTES_MAX, "{}: too many push constants", desc.name);
        // Everything starts as a null handle, which is legal to destroy, so early returns clean up.
        let mut pass = Self {
            pipeline: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            pool: vk::DescriptorPool::null(),
            set: vk::DescriptorSet::null(),
            bindings: desc.bindings.to_vec(),
            push_bytes: desc.push_bytes,
            recorded_in: Cell::new(0),
            place: Cell::new(0),
            gpu: Arc::clone(gpu),
        };
        pass.set_layout = make_set_layout(gpu.raw(), desc.bindings)?;
        pass.layout = make_layout(gpu.raw(), pass.set_layout, desc.push_bytes)?;
        pass.pipeline = make_pipeline(gpu, pass.layout, desc)?;
        pass.pool = make_pool(gpu.raw(), desc.bindings)?;
        pass.set = make_set(gpu.raw(), pass.pool, pass.set_layout)?;
        gpu.set_name(pass.pipeline, desc.name);
        Ok(pass)
    }

    /// Position of the pass in a submission, if it was recorded there.
    pub(super) fn place_in(&self, submission: u64) -> Option<usize> {
        (self.recorded_in.get() == submission).then(|| self.place.get())
    }

    /// Claims the descriptor set for a submission, as pass number `place`.
    pub(super) fn record_in(&self, submission: u64, place: usize) {
        self.place.set(place);
        assert_ne!(
            self.recorded_in.replace(submission),
            submission,
            "a pass has one descriptor set, so it is recorded once in a submission"
        );
    }
}

impl fmt::Debug for ComputePass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComputePass").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

impl Drop for ComputePass {
    fn drop(&mut self) {
        let device = self.gpu.raw();
        // SAFETY: no submission that uses the pass is pending, as `Lane::run` waits for its own.
        unsafe { device.destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above; the set goes with its pool.
        unsafe { device.destroy_descriptor_pool(self.pool, None) };
        // SAFETY: the pipeline that used it is gone.
        unsafe { device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: the pipeline layout and the set that used it are gone.
        unsafe { device.destroy_descriptor_set_layout(self.set_layout, None) };
    }
}

fn make_set_layout(
    device: &ash::Device,
    kinds: &[BindingKind],
) -> Result<vk::DescriptorSetLayout, GpuError> {
    let bindings: Vec<_> = (0..)
        .zip(kinds)
        .map(|(binding, kind)| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(kind.descriptor_type())
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: `info` is valid.
    unsafe { device.create_descriptor_set_layout(&info, None) }
        .during("vkCreateDescriptorSetLayout")
}

fn make_layout(
    device: &ash::Device,
    set_layout: vk::DescriptorSetLayout,
    push_bytes: usize,
) -> Result<vk::PipelineLayout, GpuError> {
    let set_layouts = [set_layout];
    let ranges = [vk::PushConstantRange::default()
        .stage_flags(vk::ShaderStageFlags::COMPUTE)
        .size(count(push_bytes))];
    let info = vk::PipelineLayoutCreateInfo::default()
        .set_layouts(&set_layouts)
        .push_constant_ranges(&ranges);
    // SAFETY: `info` is valid.
    unsafe { device.create_pipeline_layout(&info, None) }.during("vkCreatePipelineLayout")
}

fn make_pipeline(
    gpu: &Gpu,
    layout: vk::PipelineLayout,
    desc: &ComputePassDesc<'_>,
) -> Result<vk::Pipeline, GpuError> {
    let device = gpu.raw();
    let code = ash::util::read_spv(&mut Cursor::new(desc.shader.0)).expect("SPIR-V is whole words");
    let info = vk::ShaderModuleCreateInfo::default().code(&code);
    // SAFETY: by the contract of `Shader::new` the code is valid.
    let module =
        unsafe { device.create_shader_module(&info, None) }.during("vkCreateShaderModule")?;

    let entries: Vec<_> = (0..)
        .zip(desc.constants)
        .map(|(id, value): (u32, &u32)| {
            vk::SpecializationMapEntry::default()
                .constant_id(id)
                .offset(id * count(size_of_val(value)))
                .size(size_of_val(value))
        })
        .collect();
    let constants = vk::SpecializationInfo::default()
        .map_entries(&entries)
        .data(bytemuck::cast_slice(desc.constants));
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&constants);
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
    // SAFETY: `info` is valid, and by the contract of `Shader::new` the layout matches the shader's bindings.
    let result = unsafe { device.create_compute_pipelines(gpu.pipelines, &[info], None) };
    // SAFETY: only the call above used the module.
    unsafe { device.destroy_shader_module(module, None) };
    let pipelines = result.map_err(|(_, result)| result).during("vkCreateComputePipelines")?;
    Ok(pipelines[0])
}

fn make_pool(device: &ash::Device, kinds: &[BindingKind]) -> Result<vk::DescriptorPool, GpuError> {
    let sizes: Vec<_> = kinds
        .iter()
        .map(|kind| {
            vk::DescriptorPoolSize::default().ty(kind.descriptor_type()).descriptor_count(1)
        })
        .collect();
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
    // SAFETY: `info` is valid.
    unsafe { device.create_descriptor_pool(&info, None) }.during("vkCreateDescriptorPool")
}

fn make_set(
    device: &ash::Device,
    pool: vk::DescriptorPool,
    layout: vk::DescriptorSetLayout,
) -> Result<vk::DescriptorSet, GpuError> {
    let layouts = [layout];
    let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
    // SAFETY: the pool has room for one set of this layout.
    let sets =
        unsafe { device.allocate_descriptor_sets(&info) }.during("vkAllocateDescriptorSets")?;
    Ok(sets[0])
}

#[expect(clippy::cast_possible_truncation, reason = "at most 128")]
fn count(bytes: usize) -> u32 {
    bytes as u32
}
