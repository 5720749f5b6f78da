//! Records the commands of one submission and derives the barriers between them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use ash::vk;
use bytemuck::NoUninit;

use super::access::{Access, History, Scope};
use super::buffer::{Buffer, BufferKind};
use super::device::Gpu;
use super::image::{Image, color_range};
use super::pass::{BindingKind, ComputePass, MAX_BINDINGS};
use super::timing::Queries;
use foveate_core::geometry::extent::Extent;

/// Workgroups in a row of a dispatch; a line of more is wrapped, as `glsl/shared/linear.glsl` expects.
/// Devices need not allow more than 65535 along one axis.
pub const GROUPS_PER_ROW: u32 = 1024;

/// Bytes of the numbers of workgroups along three axes.
const GROUPS_BYTES: usize = 12;

/// Bytes of a texel of an [`Image`].
const TEXEL_BYTES: usize = 4;

/// What a pass binds, and what it does with it.
#[derive(Clone, Copy, Debug)]
pub enum Binding<'a> {
    /// A buffer that the pass reads.
    Read(&'a Buffer),
    /// A buffer that the pass writes and does not read.
    Write(&'a Buffer),
    /// A buffer that the pass reads and writes.
    Update(&'a Buffer),
    /// A level of an image that the pass writes.
    WriteLevel(&'a Image, u32),
    /// An image that the pass fetches from, any level.
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

    fn access(self) -> Access {
        match self {
            Self::Read(_) | Self::Fetch(_) => Access::SHADER_READ,
            Self::Write(_) | Self::WriteLevel(..) => Access::SHADER_WRITE,
            Self::Update(_) => Access::SHADER_READ_WRITE,
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

/// In how many workgroups a pass runs.
#[derive(Clone, Copy, Debug)]
pub enum Groups<'a> {
    /// In so many, along a line that is wrapped into rows of [`GROUPS_PER_ROW`].
    Count(u32),
    /// In as many as the first three words of a host-written buffer say, columns, rows and layers, once the passes
    /// before have written them.
    From(&'a Buffer),
}

impl From<u32> for Groups<'_> {
    fn from(count: u32) -> Self {
        Self::Count(count)
    }
}

/// What barriers are about.
#[derive(Clone, Copy, Debug)]
enum Resource<'a> {
    Buffer(&'a Buffer),
    Image(&'a Image),
}

/// Records commands that use resources that live for `'a`; [`Lane::run`](super::Lane::run) hands one out.
///
/// It also notes when each pass begins and ends, for [`Lane::span`](super::Lane::span).
#[derive(Debug)]
pub struct Recorder<'a> {
    gpu: Arc<Gpu>,
    commands: vk::CommandBuffer,
    submission: u64,
    /// Where times are noted.
    queries: Option<Queries>,
    /// Passes so far.
    pass_count: usize,
    /// Writes to mapped buffers, which the CPU must see in the end, if only to write there itself.
    written_for_host: Scope,
    resources: PhantomData<&'a Buffer>,
}

impl<'a> Recorder<'a> {
    /// Records into a command buffer that has just begun.
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

    /// Runs `pass` in `groups`. `bindings` say what lies at bindings 0, 1, 2 ... and how it is used: the pass waits for
    /// what must come before, and no more.
    ///
    /// # Panics
    ///
    /// If bindings or push constants do not fit the pass, it has already been recorded in this submission, or the groups
    /// lie in a buffer of another kind.
    pub fn dispatch(
        &mut self,
        pass: &'a ComputePass,
        bindings: &[Binding<'a>],
        push: &impl NoUninit,
        groups: impl Into<Groups<'a>>,
    ) {
        let groups = groups.into();
        let push = bytemuck::bytes_of(push);
        assert!(bindings.iter().map(|binding| binding.kind()).eq(pass.bindings().iter().copied()));
        assert_eq!(push.len(), pass.push_bytes());
        pass.record_in(self.submission, self.pass_count);
        self.write_set(pass.set(), bindings);
        let uses = bindings.iter().map(|binding| (binding.resource(), binding.access()));
        self.wait_for(uses.chain(groups.access()));
        self.bind(pass, push);
        self.timed(|recorder| recorder.run_groups(groups));
    }

    /// Records the command that runs what is bound.
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
                assert_eq!(buffer.kind(), BufferKind::HostWritten, "groups lie in such buffers");
                assert!(GROUPS_BYTES <= buffer.size(), "groups are three words");
                // SAFETY: a pipeline and its set are bound; the buffer outlives the submission, may be read so, and has
                // the three words.
                unsafe { device.cmd_dispatch_indirect(self.commands, buffer.raw(), 0) };
            }
        }
    }

    /// Records the one command of a pass between its two timestamps.
    fn timed(&mut self, record: impl FnOnce(&Self)) {
        let place = self.pass_count;
        self.pass_count += 1;
        let Some(queries) = self.queries else { return record(self) };
        queries.begin(&self.gpu, self.commands, place);
        record(self);
        queries.end(&self.gpu, self.commands, place);
    }

    /// Copies the upper left `extent` texels of a level to the start of `target`, row by row.
    ///
    /// # Panics
    ///
    /// If `target` is no readback buffer, or too small.
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
            (Resource::Image(source), Access::COPY_READ),
            (Resource::Buffer(target), Access::COPY_WRITE),
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
                source.raw(),
                layout,
                target.raw(),
                &[region],
            );
        };
    }

    /// Copies from byte `offset` of `source` until `target` is full.
    ///
    /// # Panics
    ///
    /// If `source` is too small, or one of them is not of a kind that can be copied in this direction.
    pub fn copy_buffer(&mut self, source: &'a Buffer, offset: usize, target: &'a Buffer) {
        assert!(offset + target.size() <= source.size(), "the source ends too early");
        assert_eq!((source.kind(), target.kind()), (BufferKind::DeviceOnly, BufferKind::Readback));
        self.wait_for([
            (Resource::Buffer(source), Access::COPY_READ),
            (Resource::Buffer(target), Access::COPY_WRITE),
        ]);
        let region = vk::BufferCopy::default().src_offset(offset as u64).size(target.size() as u64);
        // SAFETY: both buffers outlive the submission and hold the bytes.
        unsafe {
            self.gpu.raw().cmd_copy_buffer(self.commands, source.raw(), target.raw(), &[region]);
        };
    }

    /// Shows the CPU what was written for it. The last thing recorded; returns the submission and its number of passes.
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
        unsafe { device.cmd_bind_pipeline(self.commands, compute, pass.pipeline()) };
        let sets = [pass.set()];
        // SAFETY: the set was made for this layout, and all of its bindings are written.
        unsafe {
            device.cmd_bind_descriptor_sets(self.commands, compute, pass.layout(), 0, &sets, &[]);
        };
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: the layout has a range of this length.
        unsafe { device.cmd_push_constants(self.commands, pass.layout(), stage, 0, push) };
    }

    /// Points the set's bindings to the resources.
    fn write_set(&self, set: vk::DescriptorSet, bindings: &[Binding<'a>]) {
        let mut buffers = [vk::DescriptorBufferInfo::default(); MAX_BINDINGS];
        let mut images = [vk::DescriptorImageInfo::default(); MAX_BINDINGS];
        for (index, binding) in bindings.iter().enumerate() {
            match *binding {
                Binding::Read(buffer) | Binding::Write(buffer) | Binding::Update(buffer) => {
                    buffers[index] = buffers[index].buffer(buffer.raw()).range(vk::WHOLE_SIZE);
                }
                Binding::WriteLevel(image, level) => {
                    images[index] = images[index].image_view(image.level_view(level));
                }
                Binding::Fetch(image) => {
                    images[index] = images[index].image_view(image.whole_view());
                }
            }
            images[index].image_layout = vk::ImageLayout::GENERAL;
        }
        let mut writes = [vk::WriteDescriptorSet::default(); MAX_BINDINGS];
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

    /// Records one barrier for all that the next command must wait for, if there is anything.
    fn wait_for(&mut self, uses: impl IntoIterator<Item = (Resource<'a>, Access)> + Clone) {
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
        // Only now, as a pass may bind several levels of one image.
        for (resource, access) in uses {
            resource.history().update(|history| history.then(access));
            assert!(!access.writes() || !resource.is_imported(), "imported memory is read alone");
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

    /// Moves a new image, whose texels mean nothing yet, to the layout that it stays in.
    fn initialise(&self, image: &Image) {
        let barriers = [vk::ImageMemoryBarrier2::default()
            .dst_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            .dst_access_mask(vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE)
            .old_layout(vk::ImageLayout::UNDEFINED)
            .new_layout(vk::ImageLayout::GENERAL)
            .image(image.raw())
            .subresource_range(color_range())];
        let info = vk::DependencyInfo::default().image_memory_barriers(&barriers);
        // SAFETY: the image outlives the submission, and no command has used it.
        unsafe { self.gpu.raw().cmd_pipeline_barrier2(self.commands, &info) };
    }
}

impl<'a> Groups<'a> {
    fn access(self) -> Option<(Resource<'a>, Access)> {
        match self {
            Self::Count(_) => None,
            Self::From(buffer) => Some((Resource::Buffer(buffer), Access::INDIRECT_READ)),
        }
    }
}

impl<'a> Resource<'a> {
    fn history(self) -> &'a Cell<History> {
        match self {
            Self::Buffer(buffer) => buffer.history(),
            Self::Image(image) => image.history(),
        }
    }

    fn gpu(self) -> &'a Arc<Gpu> {
        match self {
            Self::Buffer(buffer) => buffer.gpu(),
            Self::Image(image) => image.gpu(),
        }
    }

    fn is_imported(self) -> bool {
        matches!(self, Self::Buffer(buffer) if buffer.kind() == BufferKind::Imported)
    }

    fn is_for_host(self) -> bool {
        matches!(self, Self::Buffer(buffer) if buffer.kind() != BufferKind::DeviceOnly)
    }
}
