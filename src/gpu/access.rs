//! Resource hazards: the access tracking from which the recorder derives barriers.

use ash::vk;

/// Pipeline stages and their kinds of memory access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) stages: vk::PipelineStageFlags2,
    pub(super) access: vk::AccessFlags2,
}

impl Scope {
    pub(super) fn is_empty(self) -> bool {
        self.stages.is_empty()
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { stages: self.stages | other.stages, access: self.access | other.access }
    }

    fn contains(self, other: Self) -> bool {
        self.stages.contains(other.stages) && self.access.contains(other.access)
    }
}

/// How one command uses a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceAccess {
    pub(super) scope: Scope,
    writes: bool,
}

impl ResourceAccess {
    pub(super) const SHADER_READ: Self =
        Self::new(vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::SHADER_READ, false);
    pub(super) const SHADER_WRITE: Self =
        Self::new(vk::PipelineStageFlags2::COMPUTE_SHADER, vk::AccessFlags2::SHADER_WRITE, true);
    pub(super) const SHADER_READ_WRITE: Self = Self::new(
        vk::PipelineStageFlags2::COMPUTE_SHADER,
        vk::AccessFlags2::from_raw(
            vk::AccessFlags2::SHADER_READ.as_raw() | vk::AccessFlags2::SHADER_WRITE.as_raw(),
        ),
        true,
    );
    pub(super) const INDIRECT_READ: Self = Self::new(
        vk::PipelineStageFlags2::DRAW_INDIRECT,
        vk::AccessFlags2::INDIRECT_COMMAND_READ,
        false,
    );
    pub(super) const COPY_READ: Self =
        Self::new(vk::PipelineStageFlags2::COPY, vk::AccessFlags2::TRANSFER_READ, false);
    pub(super) const COPY_WRITE: Self =
        Self::new(vk::PipelineStageFlags2::COPY, vk::AccessFlags2::TRANSFER_WRITE, true);

    const fn new(stages: vk::PipelineStageFlags2, access: vk::AccessFlags2, writes: bool) -> Self {
        Self { scope: Scope { stages, access }, writes }
    }

    pub(super) fn writes(self) -> bool {
        self.writes
    }
}

/// Accesses to a resource since its last write. Outlives submissions: barriers reach back to earlier ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccessHistory {
    /// The last write.
    written: Scope,
    /// Reads since then, to all of which the write is visible.
    read: Scope,
}

impl AccessHistory {
    /// What must finish before `next`; may be empty.
    pub(super) fn before(self, next: ResourceAccess) -> Scope {
        if next.writes {
            // A write after reads needs an execution dependency only.
            Scope { stages: self.written.stages | self.read.stages, access: self.written.access }
        } else if self.read.contains(next.scope) {
            Scope::default()
        } else {
            self.written
        }
    }

    /// The history extended by `next`.
    pub(super) fn then(self, next: ResourceAccess) -> Self {
        if next.writes {
            Self { written: next.scope, read: Scope::default() }
        } else {
            Self { written: self.written, read: self.read.union(next.scope) }
        }
    }
}
