//! Records one GPU submission and inserts barriers from how each pass uses its resources.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use ash::vk;
use bytemuck::NoUninit;

use super::access::{AccessHistory, ResourceAccess, Scope};
use super::buffer::{Buffer, BufferKind};
use super::device::Gpu;
use super::image::{Image, color_range};
use super::pass::{BINDINGS_MAX, BindingKind, ComputePass};
use super::timing::Queries;
use foveate_core::geometry::extent::Extent;

/// Workgroups in a row of a dispatch; longer lines are wrapped, as `glsl/shared/linear.glsl` expects, since devices need not
/// allow more than 65535 along an axis.
pub const GROUPS_PER_ROW: u32 = 1024;

/// Bytes of a `VkDispatchIndirectCommand`.
const GROUPS_BYTES: usize = 12;

/// Bytes per texel of an [`Image`].
const TEXEL_BYTES: usize = 4;

/// A resource bound to a pass, and how it is used.
#[derive(Clone, Copy, Debug)]
pub enum Binding<'a> {
    /// A buffer that the pass reads.
    Read(&'a Buffer),
    /// A buffer that the pass writes and does not read.
    Write(&'a Buffer),
    /// A buffer that the pass reads and writes.
    Update(&'a Buffer),
    /// A level of an image, written.
    WriteLevel(&'a Image, u32),
    /// An image, fetched from at any level.
    Fetch(&'a Image),
}

impl Binding<'_> {
    fn kind(self) -> BindingKind {
        match self {
            Self::Read(_) | Self::Write(_) | Self::Update(_) => BindingKind::Buffer,
            Self::WriteLevel(..) => BindingKind::StorageLevel,
            Self::Fetch(_) => BindingKind::FetchedImage,
        }
    }

    fn access(self) -> ResourceAccess {
        match self {
            Self::Read(_) | Self::Fetch(_) => ResourceAccess::SHADER_READ,
            Self::Write(_) | Self::WriteLevel(..) => ResourceAccess::SHADER_WRITE,
            Self::Update(_) => ResourceAccess::SHADER_READ_WRITE,
        }
    }
}

impl<'a> Binding<'a> {
    fn resource(self) -> Resource<'a> {
        match self {
            Self::Read(buffer) | Self::Write(buffer) | Self::Update(buffer) => {
                Resource::Buffer(buffer)
            }
            Self::WriteLevel(image, _) | Self::Fetch(image) => Resource::Image(image),
        }
    }
}

/// Workgroups of a dispatch.
#[derive(Clone, Copy, Debug)]
pub enum Groups<'a> {
    /// A fixed number, along a line that is wrapped into rows of [`GROUPS_PER_ROW`].
    Count(u32),
    /// Indirect: columns, rows and layers are the first three words of a [`BufferKind::HostWritten`] buffer, which earlier
    /// passes may write.
    From(&'a Buffer),
}

impl From<u32> for Groups<'_> {
    fn from(count: u32) -> Self {
        Self::Count(count)
    }
}

#[derive(Clone, Copy, Debug)]
enum Resource<'a> {
    Buffer(&'a Buffer),
    Image(&'a Image),
}

/// Records commands that use resources that live for `'a`; [`Lane::run`](super::Lane::run) hands one out.
///
/// It also writes timestamps for [`Lane::span`](super::Lane::span).
#[derive(Debug)]
pub struct Recorder<'a> {
    gpu: Arc<Gpu>,
    commands: vk::CommandBuffer,
    submission: u64,
    queries: Option<Queries>,
    pass_count: usize,
    /// Writes to buffers that the CPU reads, to be made visible to it at the end.
    written_for_host: Scope,
    resources: PhantomData<&'a Buffer>,
}

impl<'a> Recorder<'a> {
    /// Starts recording; the command buffer has just begun.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        commands: vk::CommandBuffer,
        queries: Option<Queries>,
    ) -> Self {
        if let Some(queries) = queries {
            queries.reset(gpu, commands);
        }
        Self {
            gpu: Arc::clone(gpu),
            commands,
            submission: gpu.next_submission(),
            queries,
            pass_count: 0,
            written_for_host: Scope::default(),
            resources: PhantomData,
        }
    }

    /// Dispatches `pass`. `bindings` are its resources at bindings 0, 1, 2 ... and their uses, from which its barrier is derived.
    ///
    /// # Panics
    ///
    /// If bindings or push constants do not match the pass, it is already part of this submission, or the buffer of indirect groups
    /// is not host-written.
    pub fn dispatch(
        &mut self,
        pass: &'a ComputePass,
        bindings: &[Binding<'a>],
        push: &impl NoUninit,
        groups: impl Into<Groups<'a>>,
    ) {
        let groups = groups.into();
        let push = bytemuck::bytes_of(push);
        assert!(bindings.iter().map(|binding| binding.kind()).eq(pass.bindings.iter().copied()));
        assert_eq!(push.len(), pass.push_bytes);
        pass.record_in(self.submission, self.pass_count);
        self.write_set(pass.set, bindings);
        let uses = bindings.iter().map(|binding| (binding.resource(), binding.access()));
        self.wait_for(uses.chain(groups.access()));
        self.bind(pass, push);
        self.timed(|recorder| recorder.run_groups(groups));
    }

    fn run_groups(&self, groups: Groups<'a>) {
        let device = self.gpu.raw();
        match groups {
            Groups::Count(count) => {
                let columns = count.min(GROUPS_PER_ROW);
                let rows = count.div_ceil(GROUPS_PER_ROW);
                // SAFETY: a pipeline and its set are bound, and the counts lie below every device's limit.
                unsafe { device.cmd_dispatch(self.commands, columns, rows, 1) };
            }
            Groups::From(buffer) => {
                assert_eq!(
                    buffer.kind(),
                    BufferKind::HostWritten,
                    "indirect groups are in a host-written buffer"
                );
                assert!(GROUPS_BYTES <= buffer.size(), "groups are three words");
                // SAFETY: a pipeline and its set are bound; the buffer outlives the submission, may be read so, and has
                // the three words.
                unsafe { device.cmd_dispatch_indirect(self.commands, buffer.raw, 0) };
            }
        }
    }

    /// Records the command of a pass between its timestamps.
    fn timed(&mut self, record: impl FnOnce(&Self)) {
        let place = self.pass_count;
        self.pass_count += 1;
        let Some(queries) = self.queries else { return record(self) };
        queries.begin(&self.gpu, self.commands, place);
        record(self);
        queries.end(&self.gpu, self.commands, place);
    }

    /// Copies the top left `extent` texels of a level of the first layer to the start of `target`, row by row.
    ///
    /// # Panics
    ///
    /// If `target` is not a readback buffer, or is too small.
    pub fn copy_level(
        &mut self,
        source: &'a Image,
        level: u32,
        extent: Extent,
        target: &'a Buffer,
    ) {
        assert!(extent.area() * TEXEL_BYTES <= target.size(), "the level does not fit");
        assert_eq!(target.kind(), BufferKind::Readback);
        self.wait_for([
            (Resource::Image(source), ResourceAccess::COPY_READ),
            (Resource::Buffer(target), ResourceAccess::COPY_WRITE),
        ]);
        let region = vk::BufferImageCopy::default()
            .image_subresource(vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: level,
                base_array_layer: 0,
                layer_count: 1,
            })
            .image_extent(vk::Extent3D { width: extent.width, height: extent.height, depth: 1 });
        let layout = vk::ImageLayout::GENERAL;
        // SAFETY: image and buffer outlive the submission, the image is in this layout, and the texels fit.
        unsafe {
            self.gpu.raw().cmd_copy_image_to_buffer(
                self.commands,
                source.raw,
                layout,
                target.raw,
                &[region],
            );
        };
    }

    /// Copies from byte `offset` of `source` until `target` is full.
    ///
    /// # Panics
    ///
    /// If `source` is too small, or the kinds are not device-only and readback, in either order.
    pub fn copy_buffer(&mut self, source: &'a Buffer, offset: usize, target: &'a Buffer) {
        assert!(offset + target.size() <= source.size(), "the source ends too early");
        assert!(matches!(
            (source.kind(), target.kind()),
            (BufferKind::DeviceOnly, BufferKind::Readback)
                | (BufferKind::Readback, BufferKind::DeviceOnly)
        ));
        self.wait_for([
            (Resource::Buffer(source), ResourceAccess::COPY_READ),
            (Resource::Buffer(target), ResourceAccess::COPY_WRITE),
        ]);
        let region = vk::BufferCopy::default().src_offset(offset as u64).size(target.size() as u64);
        // SAFETY: both buffers outlive the submission and hold the bytes.
        unsafe {
            self.gpu.raw().cmd_copy_buffer(self.commands, source.raw, target.raw, &[region]);
        };
    }

    /// Makes writes to buffers that the CPU reads visible to it. Must be recorded last; returns the submission's number and its passes.
    pub(super) fn finish(self) -> (u64, usize) {
        let host = Scope {
            stages: vk::PipelineStageFlags2::HOST,
            access: vk::AccessFlags2::HOST_READ | vk::AccessFlags2::HOST_WRITE,
        };
        self.barrier(self.written_for_host, host);
        (self.submission, self.pass_count)
    }

    fn bind(&self, pass: &ComputePass, push: &[u8]) {
        let device = self.gpu.raw();
        let compute = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the pass outlives the submission.
        unsafe { device.cmd_bind_pipeline(self.commands, compute, pass.pipeline) };
        let sets = [pass.set];
        // SAFETY: the set was made for this layout, and all of its bindings are written.
        unsafe {
            device.cmd_bind_descriptor_sets(self.commands, compute, pass.layout, 0, &sets, &[]);
        };
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: the layout has a range of this length.
        unsafe { device.cmd_push_constants(self.commands, pass.layout, stage, 0, push) };
    }

    /// Updates the descriptor set.
    fn write_set(&self, set: vk::DescriptorSet, bindings: &[Binding<'a>]) {
        let mut buffers = [vk::DescriptorBufferInfo::default(); BINDINGS_MAX];
        let mut images = [vk::DescriptorImageInfo::default(); BINDINGS_MAX];
        for (index, binding) in bindings.iter().enumerate() {
            match *binding {
                Binding::Read(buffer) | Binding::Write(buffer) | Binding::Update(buffer) => {
                    buffers[index] = buffers[index].buffer(buffer.raw).range(vk::WHOLE_SIZE);
                }
                Binding::WriteLevel(image, level) => {
                    images[index] = images[index].image_view(image.level_view(level));
                }
                Binding::Fetch(image) => {
                    images[index] = images[index].image_view(image.whole_view);
                }
            }
            images[index].image_layout = vk::ImageLayout::GENERAL;
        }
        let mut writes = [vk::WriteDescriptorSet::default(); BINDINGS_MAX];
        for ((index, write), binding) in (0_u32..).zip(&mut writes).zip(bindings) {
            *write = write
                .dst_set(set)
                .dst_binding(index)
                .descriptor_type(binding.kind().descriptor_type())
                .buffer_info(std::slice::from_ref(&buffers[index as usize]))
                .image_info(std::slice::from_ref(&images[index as usize]));
        }
        // SAFETY: the set is free, as its pass is recorded once in a submission and no other is pending; the
        // resources outlive this one.
        unsafe { self.gpu.raw().update_descriptor_sets(&writes[..bindings.len()], &[]) };
    }

    /// Records at most one barrier, for all uses of the next command.
    fn wait_for(&mut self, uses: impl IntoIterator<Item = (Resource<'a>, ResourceAccess)> + Clone) {
        let (mut before, mut after) = (Scope::default(), Scope::default());
        for (resource, access) in uses.clone() {
            assert!(Arc::ptr_eq(resource.gpu(), &self.gpu), "a resource of another device");
            if let Resource::Image(image) = resource
                && !image.initialise()
            {
                self.initialise(image);
            }
            let hazard = resource.history().get().before(access);
            if !hazard.is_empty() {
                before = before.union(hazard);
                after = after.union(access.scope);
            }
        }
        // After all hazards were found, as a pass may bind several levels of one image.
        for (resource, access) in uses {
            resource.history().update(|history| history.then(access));
            assert!(!access.writes() || !resource.is_lent(), "lent memory is read-only");
            if access.writes() && resource.is_for_host() {
                self.written_for_host = self.written_for_host.union(access.scope);
            }
        }
        self.barrier(before, after);
    }

    fn barrier(&self, before: Scope, after: Scope) {
        if before.is_empty() {
            return;
        }
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(before.stages)
            .src_access_mask(before.access)
            .dst_stage_mask(after.stages)
            .dst_access_mask(after.access)];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: the stages and kinds of access are those of compute queues, and go together.
        unsafe { self.gpu.raw().cmd_pipeline_barrier2(self.commands, &info) };
    }

    /// Transitions a new image to the layout that it keeps.
    fn initialise(&self, image: &Image) {
        let barriers = [vk::ImageMemoryBarrier2::default()
            .dst_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            .dst_access_mask(vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE)
            .old_layout(vk::ImageLayout::UNDEFINED)
            .new_layout(vk::ImageLayout::GENERAL)
            .image(image.raw)
            .subresource_range(color_range())];
        let info = vk::DependencyInfo::default().image_memory_barriers(&barriers);
        // SAFETY: the image outlives the submission, and no command has used it.
        unsafe { self.gpu.raw().cmd_pipeline_barrier2(self.commands, &info) };
    }
}

impl<'a> Groups<'a> {
    fn access(self) -> Option<(Resource<'a>, ResourceAccess)> {
        match self {
            Self::Count(_) => None,
            Self::From(buffer) => Some((Resource::Buffer(buffer), ResourceAccess::INDIRECT_READ)),
        }
    }
}

impl<'a> Resource<'a> {
    fn history(self) -> &'a Cell<AccessHistory> {
        match self {
            Self::Buffer(buffer) => &buffer.history,
            Self::Image(image) => &image.history,
        }
    }

    fn gpu(self) -> &'a Arc<Gpu> {
        match self {
            Self::Buffer(buffer) => &buffer.gpu,
            Self::Image(image) => &image.gpu,
        }
    }

    fn is_lent(self) -> bool {
        matches!(self, Self::Buffer(buffer) if buffer.kind() == BufferKind::Imported)
    }

    fn is_for_host(self) -> bool {
        matches!(self, Self::Buffer(buffer) if buffer.kind() != BufferKind::DeviceOnly)
    }
}
