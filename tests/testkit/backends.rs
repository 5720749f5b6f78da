//! Any backend, wherever it compares frames, as tests play frames to it.

use std::sync::{Arc, OnceLock};

use arrayvec::ArrayVec;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::backend::{Backend, BackendError, UpdateTimes};
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
use foveate_engine::pool::Pool;
use foveate_engine::simd::Instructions;
use foveate_gaze::view::VIEWS_MAX;

/// A backend that knows which frame is its first.
pub struct Player {
    pub backend: Box<dyn Backend>,
    has_seen: bool,
    ingested: TileSet,
}

/// The threads that all tests of the process share: more than most machines that run them have processors.
pub fn pool() -> &'static Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    POOL.get_or_init(|| Arc::new(Pool::new(2)))
}

/// A pool like [`pool`] whose work uses these vector instructions.
pub fn pool_limited_to(instructions: Instructions) -> Arc<Pool> {
    Arc::new(Pool::new(2).limited_to(instructions))
}

/// A player on the CPU.
pub fn on_cpu(kind: FrameKind) -> Player {
    Player::new(CpuBackend::new(kind, pool()))
}

/// On a device, with the tiles to ingest from the CPU.
#[cfg(feature = "vulkan")]
pub fn host_diff_on(gpu: &Arc<foveate_gpu::Gpu>, kind: FrameKind) -> Player {
    try_host_diff_on(gpu, kind).unwrap()
}

/// [`host_diff_on`] a device that may be lost.
#[cfg(feature = "vulkan")]
pub fn try_host_diff_on(
    gpu: &Arc<foveate_gpu::Gpu>,
    kind: FrameKind,
) -> Result<Player, BackendError> {
    use foveate_core::backend::ChangeSite;
    use foveate_engine::backend::vulkan::VulkanBackend;
    Ok(Player::new(VulkanBackend::new(gpu, kind, ChangeSite::Cpu, pool())?))
}

/// On a device that compares frames itself. They are copied: the loan of their pages takes memory.
#[cfg(feature = "vulkan")]
pub fn device_diff_on(gpu: &Arc<foveate_gpu::Gpu>, kind: FrameKind) -> Player {
    use foveate_core::backend::ChangeSite;
    use foveate_engine::backend::vulkan::VulkanBackend;
    let backend = VulkanBackend::new(gpu, kind, ChangeSite::Gpu, pool()).unwrap();
    Player::new(backend.copying_frames())
}

impl Player {
    pub fn new(backend: impl Backend + 'static) -> Self {
        let ingested = TileSet::none(backend.kind().extent);
        Self { backend: Box::new(backend), has_seen: false, ingested }
    }

    /// Room for the tokens of a view.
    pub fn planes(&self, spec: SamplerSpec) -> Planes {
        Planes::new(spec, self.backend.samplers()(spec).unwrap())
    }

    /// Takes a frame whose changes all lie in the tiles of `dirty`. Where those follow each other they are ingested whether
    /// they changed or not.
    pub fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        views: &mut [Planes],
    ) -> UpdateTimes {
        self.try_update(frame, dirty, views).unwrap()
    }

    /// [`update`](Self::update) on a device that may be lost.
    pub fn try_update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        views: &mut [Planes],
    ) -> Result<UpdateTimes, BackendError> {
        let mut views: ArrayVec<_, VIEWS_MAX> = views.iter_mut().collect();
        let is_first = !std::mem::replace(&mut self.has_seen, true);
        let turn =
            dirty.indices().min().unwrap_or(0)..dirty.indices().max().map_or(0, |last| last + 1);
        let refreshed = if turn.len() == dirty.count() { turn } else { 0..0 };
        let rule = IngestRule { is_first, threshold: 0, refreshed };
        let largest = self.backend.begin_update(frame, &rule, &mut views)?;
        self.ingested.clear();
        for (index, &largest) in largest.iter().enumerate() {
            if rule.ingests(index, largest) {
                self.ingested.insert_index(index);
            }
        }
        assert!(self.ingested.iter().all(|(column, row)| is_first || dirty.contains(column, row)));
        let times = self.backend.end_update(&self.ingested, &mut views)?;
        self.backend.note_features(&self.ingested);
        Ok(times)
    }

    pub fn read_coarse(&mut self, target: &mut CoarseLevel) {
        self.backend.read_coarse(target).unwrap();
    }

    pub fn read_level(&mut self, level: u32) -> Vec<u8> {
        self.backend.read_level(level).unwrap()
    }
}
